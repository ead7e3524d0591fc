package recorder

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/crashtext"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/tracename"
)

// finishAbandoned finishes the files that dead writers of a stream have left under names
// with their time, and removes the temporary files of dead finalizers.
//
// Where IETs stay as they are, those are finished that are in dead or have a journal, and the
// latest. It calls told for what it has finished, and returns the paths of that, without an
// extension.
func (b *background) finishAbandoned(ctx context.Context, stream string, dead []string, et bool, report func(error), told func(*Report)) (finished []string) {
	sweep(stream)
	names, err := archived(stream)
	if err != nil {
		return nil // it is not needed for what is recorded
	}
	// A process that was killed before it had finished what it found left nothing that says so.
	const recent = 4
	latest := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasSuffix(name, tracename.IET) })
	latest = latest[max(len(latest)-recent, 0):]
	// Those with a journal first: what is in it may be in one of the others, too.
	slices.SortStableFunc(names, func(a, b string) int {
		if x, y := osfile.Exists(a+tracename.Journal), osfile.Exists(b+tracename.Journal); x != y {
			if x {
				return -1
			}
			return 1
		}
		return 0
	})
	for _, name := range names {
		if !strings.HasSuffix(name, tracename.IET) || ctx.Err() != nil {
			continue
		}
		abandoned := et || slices.Contains(dead, name) || osfile.Exists(name+tracename.Journal)
		if !abandoned && !slices.Contains(latest, name) {
			continue
		}
		f, err := osfile.OpenWrite(name)
		if err != nil {
			continue
		}
		if osfile.Lock(f, true) == nil && osfile.SameFile(f, name) {
			r, err := finishArchived(ctx, f, name, et, abandoned, report)
			if err == nil && abandoned { // on an error the next start tries again
				finished = append(finished, strings.TrimSuffix(name, tracename.IET))
				b.ended.Add(finished[len(finished)-1])
			}
			if err == nil && r != nil {
				told(r)
			}
		}
		_ = f.Close() // nothing was written to it
	}
	return finished
}

// finishArchived finishes the IET f that a dead writer has left under a name with its
// time, as Recover does. It may be finished if it is not known to be abandoned. It returns no
// report if there was nothing to finish.
func finishArchived(ctx context.Context, f *os.File, name string, et, abandoned bool, report func(error)) (*Report, error) {
	pending, err := replayBuffer(f, name, report)
	if err != nil && !isOther(err) {
		return nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() == 0 {
		return nil, osfile.Remove(f, name) // a loss of power left nothing of it
	}
	final := name
	if et {
		final = strings.TrimSuffix(name, tracename.IET) + tracename.ET
	}
	t, damage := scan(f, fi.Size())
	switch {
	case damage == nil, errors.Is(damage, format.ErrTruncated):
	case isCorrupt(damage) && !abandoned:
		return nil, nil // it may have been finished long ago
	case isCorrupt(damage):
		if err := f.Close(); err != nil { // and its lock
			return nil, err
		}
		return recoverFile(ctx, final, "")
	default:
		return nil, damage
	}
	r := &Report{Report: format.Report{Name: name, Entries: t.entries, Reason: format.CutReasonOf(damage)}, Output: final, Pending: pending}
	switch {
	case t.entries <= 1:
		return nil, osfile.Remove(f, name) // its writer died before it recorded anything
	case et && (osfile.Exists(final) && sameEntries(final, f, t) || hasSameArchived(name, f, t)):
		return nil, osfile.Remove(f, name) // who made the ET died before it could do so itself
	case et:
		return r, format.FinalizeFile(ctx, f, name, final, &format.FinalizeOptions{RemoveSource: true, Index: &t.index})
	}
	switch {
	case t.size < fi.Size():
		return r, errors.Join(f.Truncate(t.size), f.Sync())
	case abandoned:
		return r, nil
	}
	return nil, nil // it was finished long ago
}

// sweep removes temporary files of a stream whose makers are dead.
func sweep(stream string) {
	dir, base := filepath.Split(strings.TrimSuffix(stream, tracename.IET))
	list, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return
	}
	for _, e := range list {
		rest, ok := strings.CutPrefix(e.Name(), "."+base)
		if !ok || !e.Type().IsRegular() {
			continue
		}
		middle, _, ok := strings.Cut(rest, ".tmp-")
		if ok && (middle == tracename.ET || middle == tracename.IET || middle == tracename.IET+tracename.Journal || isArchivedSuffix(middle)) {
			osfile.RemoveDead(dir + e.Name())
		}
	}
}

// archiveDead makes room for a new stream: it gives the one that is there, whose writer
// must be dead, and its journal a name with the time of its last change. They are finished
// later.
func archiveDead(stream string) (name string, err error) {
	f, err := osfile.OpenWrite(stream)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return "", err
	}
	if !osfile.SameFile(f, stream) {
		return "", nil // somebody else did it
	}
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	if fi.Size() > 0 {
		if err := checkMagic(stream); err != nil {
			return "", fmt.Errorf("%s: %w", stream, err) // not ours to touch
		}
	}
	j, err := openLockedBuffer(stream)
	if err != nil {
		return "", err
	}
	move := func(to string) error { return distinct(osfile.RenameNew(stream+tracename.Journal, to), fs.ErrNotExist) }
	if j != nil {
		defer j.Close()
		move = j.Rename
	}
	err = archiveName(stream, tracename.IET, fi.ModTime(), func(to string) error {
		if osfile.Exists(strings.TrimSuffix(to, tracename.IET)+tracename.ET) || osfile.Exists(to+tracename.Journal) {
			return fs.ErrExist
		}
		name = to
		if err := osfile.RenameNew(stream, to); err != nil {
			return err
		}
		_ = os.Rename(stream+crashtext.Ext, to+crashtext.Ext) // there is seldom one
		return move(to + tracename.Journal)
	})
	return name, errors.Join(err, osfile.SyncDir(stream))
}

// A scanned is what a scan finds in an IET.
type scanned struct {
	version format.Version
	index   format.Index
	entries int
	size    int64 // of the whole entries, with the magic
}

// scan reads through the IET f of so many bytes, and returns what is whole, with an error as well.
func scan(f io.ReaderAt, size int64) (*scanned, error) {
	r, err := format.NewReader(io.NewSectionReader(f, 0, size), nil)
	if err == nil && r.Format() != format.IET {
		err = &format.StorageFormatError{Format: r.Format()}
	}
	if err != nil {
		return new(scanned), err
	}
	t := &scanned{version: r.Version(), size: r.Offset()}
	whole, at := 0, t.size // up to the last entry that is not all zeros, which belong to damage
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			if whole < t.entries {
				t.index.CutTo(whole)
				t.entries, t.size = whole, at
			}
			return t, err
		}
		t.index.Add(int(r.Offset()-t.size), uint32(t.entries), e.Parent, false)
		t.entries++
		t.size = r.Offset()
		if !isZero(r.Raw()) {
			whole, at = t.entries, t.size
		}
	}
}

// sameEntries reports whether the ET name holds the very entries t of the IET f.
func sameEntries(name string, f io.ReaderAt, t *scanned) bool {
	et, err := format.Open(name, nil)
	if err != nil {
		return false
	}
	defer et.Close()
	if et.Format() != format.ET || et.Version() != t.version || et.Len() != t.entries {
		return false
	}
	all := et.Raw()
	from, size := all.Offset(0), t.size-format.MagicSize
	if all.End()-from != size {
		return false
	}
	a := make([]byte, flushSize)
	for at := int64(0); at < size; {
		n := min(int64(len(a)), size-at)
		_, err := f.ReadAt(a[:n], format.MagicSize+at)
		same := false
		err = errors.Join(err, all.View(from+at, n, func(b []byte) { same = bytes.Equal(a[:n], b) }))
		if err != nil || !same {
			return false
		}
		at += n
	}
	return true
}

// hasSameArchived reports whether a finished file with the time of an archived one, or the trace
// itself, holds the very entries t of its IET f.
func hasSameArchived(name string, f io.ReaderAt, t *scanned) bool {
	stream, ok := streamOf(name)
	if !ok {
		return false
	}
	final := strings.TrimSuffix(stream, tracename.IET) + tracename.ET
	if osfile.Exists(final) && sameEntries(final, f, t) {
		return true
	}
	fi, err := os.Lstat(name)
	if err != nil {
		return false
	}
	names, err := archived(stream)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(names, func(other string) bool {
		o, err := os.Lstat(other)
		return err == nil && strings.HasSuffix(other, tracename.ET) && !o.ModTime().Before(fi.ModTime().Add(-time.Second)) && sameEntries(other, f, t)
	})
}

// streamOf returns the stream of a file that has a name with its time.
func streamOf(name string) (string, bool) {
	suffix := archivedSuffix.FindString(name)
	return strings.TrimSuffix(name, suffix) + tracename.IET, suffix != ""
}

// isOther reports whether err says that a file is no IET that can be read.
func isOther(err error) bool {
	if _, ok := errors.AsType[*format.VersionError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*format.StorageFormatError](err); ok {
		return true
	}
	return isCorrupt(err) || errors.Is(err, format.ErrNotEntrace)
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*format.CorruptError](err)
	return ok
}

// archiveExisting renames a finished trace that has the name of a new one.
func archiveExisting(final, stream string) error {
	if final == stream {
		return nil
	}
	fi, err := os.Lstat(final)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s: %w", final, format.ErrNotRegular)
	}
	if fi.Size() > 0 {
		if err := checkMagic(final); err != nil {
			return fmt.Errorf("%s: %w", final, err)
		}
	}
	err = archiveName(final, filepath.Ext(final), fi.ModTime(), func(to string) error { return osfile.RenameNew(final, to) })
	return errors.Join(err, osfile.SyncDir(final))
}

func checkMagic(name string) error {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, _, err = format.ReadMagic(f)
	return distinct(err, format.ErrTruncated)
}

// archiveName calls try with names made of name, t and ext until one is free.
func archiveName(name, ext string, t time.Time, try func(to string) error) error {
	return untilFree(strings.TrimSuffix(strings.TrimSuffix(name, tracename.ET), tracename.IET)+"."+t.UTC().Format(archiveTime), ext, try)
}

// untilFree calls try with base and ext, then with base-1 and ext and so on, as long as it
// says that the name is taken.
func untilFree(base, ext string, try func(to string) error) error {
	to := base + ext
	for i := 1; ; i++ {
		err := try(to)
		if !errors.Is(err, fs.ErrExist) || i == 1000 {
			return err
		}
		to = fmt.Sprintf("%s-%d%s", base, i, ext)
	}
}

// archivedSuffix matches what archiveName makes of a name without its extension.
var archivedSuffix = regexp.MustCompile(`\.\d{8}T\d{6}\.\d{3}Z(-\d+)?\.(et|iet)$`)

// isArchivedSuffix reports whether s is such a suffix as a whole.
func isArchivedSuffix(s string) bool { return s != "" && archivedSuffix.FindString(s) == s }

// archived returns the finished files of a stream, or those that are to be, the
// oldest first.
func archived(stream string) ([]string, error) {
	dir, base := filepath.Split(strings.TrimSuffix(stream, tracename.IET))
	list, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if rest, ok := strings.CutPrefix(e.Name(), base); ok && e.Type().IsRegular() && isArchivedSuffix(rest) {
			names = append(names, dir+e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return compareArchived(a[len(dir)+len(base):], b[len(dir)+len(base):]) })
	return names, nil
}

// compareArchived compares by time, then by the number that tells two of one time
// apart.
func compareArchived(a, b string) int {
	const n = len(".20060102T150405.000Z")
	number := func(s string) (k int) {
		_, _ = fmt.Sscanf(s[n:], "-%d", &k)
		return k
	}
	return cmp.Or(strings.Compare(a[:n], b[:n]), number(a)-number(b))
}

// archiveTime is the time in the name of a trace that makes room for another.
const archiveTime = "20060102T150405.000Z"
