package deadtrace

import (
	"bytes"
	"cmp"
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
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
)

// hasEqualET reports whether an ET with exactly the entries of the stream exists, and sets d.equalET to its name. The
// ET is either d.final or an ET that was renamed since it was made.
func (d *deadFile) hasEqualET() bool {
	names := []string{d.final}
	if path, base, _, _ := splitName(d.name); path != base {
		names = append(names, base+tracename.ET)
		archived, _ := Archived(base + tracename.IET) // without a list of the folder, only these two are compared
		fi, err := d.f.Stat()
		for _, other := range archived {
			o, oerr := os.Lstat(other)
			if err == nil && oerr == nil && strings.HasSuffix(other, tracename.ET) && !o.ModTime().Before(fi.ModTime().Add(-time.Second)) {
				names = append(names, other)
			}
		}
	}
	for _, name := range names {
		if d.hasSameEntries(name) {
			d.equalET = name
			return true
		}
	}
	return false
}

// hasSameEntries reports whether the ET name has exactly the entries of the stream.
func (d *deadFile) hasSameEntries(name string) bool {
	in, err := osfile.OpenRead(name)
	if err != nil {
		return false
	}
	et, err := format.Open(name, &format.OpenOptions{File: in})
	if err != nil {
		return false
	}
	defer et.Close()
	if et.Format() != format.ET || et.Version() != d.s.version || et.Len() != d.s.entries {
		return false
	}
	from, size := entrybytes.Of(et).Offset(0), d.s.size-wire.MagicSize
	if et.WholeSize()-from != size {
		return false
	}
	return compare(io.NewSectionReader(d.f, wire.MagicSize, size), io.NewSectionReader(in, from, size), size) == nil
}

func isCorrupt(err error) bool {
	_, ok := errors.AsType[*format.CorruptError](err)
	return ok
}

// ArchiveEarlier renames a finished trace with the name final, to make room for a new trace.
func ArchiveEarlier(final, stream string) error {
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
	if err := checkMagic(final); err != nil {
		return err
	}
	err = Aside(final, filepath.Ext(final), fi.ModTime(), func(to string) error { return osfile.RenameNew(final, to) })
	return errors.Join(err, osfile.SyncDir(final))
}

// checkMagic returns an error if the file name is not a trace. A file that is too short for a trace is no
// error.
func checkMagic(name string) error {
	f, err := osfile.OpenRead(name)
	if err == nil {
		defer f.Close()
		_, _, err = format.ReadMagic(f)
	}
	if err == nil || errors.Is(err, format.ErrTruncated) {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// Aside calls try with names made of name, the time t and the extension ext, until a name is free.
func Aside(name, ext string, t time.Time, try func(to string) error) error {
	return untilFree(strings.TrimSuffix(strings.TrimSuffix(name, tracename.ET), tracename.IET)+"."+t.UTC().Format(TimeFormat), ext, try)
}

// untilFree calls try with base+ext, base-1+ext, base-2+ext and so on, until try does not return
// fs.ErrExist.
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

// archivedSuffix matches the end of a name that Aside has made.
var archivedSuffix = regexp.MustCompile(`\.\d{8}T\d{6}\.\d{3}Z(-\d+)?\.(et|iet)$`)

// Archived returns the names of the renamed files of a stream, finished or not, the oldest first.
func Archived(stream string) ([]string, error) {
	dir, base := filepath.Split(strings.TrimSuffix(stream, tracename.IET))
	list, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range list {
		if rest, ok := strings.CutPrefix(e.Name(), base); ok && e.Type().IsRegular() && rest != "" && archivedSuffix.FindString(rest) == rest {
			names = append(names, dir+e.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return compareArchived(a[len(dir)+len(base):], b[len(dir)+len(base):]) })
	return names, nil
}

// compareArchived compares the ends of two names by their times, and then by their numbers.
func compareArchived(a, b string) int {
	const n = len(".20060102T150405.000Z")
	number := func(s string) (k int) {
		_, _ = fmt.Sscanf(s[n:], "-%d", &k)
		return k
	}
	return cmp.Or(strings.Compare(a[:n], b[:n]), number(a)-number(b))
}

// TimeFormat is the format of the time in the name of a renamed trace.
const TimeFormat = "20060102T150405.000Z"

// splitName splits the name of a trace file. The result path is the name without extension. The result base
// is path without the time of a renamed trace, and named is that time, or zero. ok is false if name is not
// the name of a trace.
func splitName(name string) (path, base string, named time.Time, ok bool) {
	ext := filepath.Ext(name)
	if ext != tracename.ET && ext != tracename.IET {
		return "", "", named, false
	}
	path = strings.TrimSuffix(name, ext)
	suffix := archivedSuffix.FindString(name)
	if suffix == "" {
		return path, path, named, true
	}
	at, err := time.Parse(TimeFormat, suffix[1:][:len(TimeFormat)])
	if err != nil {
		at = time.Time{} // not a valid time, for example 20261399T…
	}
	return path, strings.TrimSuffix(name, suffix), at, true
}

// compare returns nil if the first size bytes of two files are equal. It returns [fs.ErrExist] if they
// differ, or if the file other cannot be read.
func compare(f, other io.ReaderAt, size int64) error {
	a, b := make([]byte, flushSize), make([]byte, flushSize)
	for at := int64(0); at < size; {
		n := min(flushSize, size-at)
		if _, err := f.ReadAt(a[:n], at); err != nil {
			return err
		}
		if _, err := other.ReadAt(b[:n], at); err != nil || !bytes.Equal(a[:n], b[:n]) {
			return fs.ErrExist
		}
		at += n
	}
	return nil
}
