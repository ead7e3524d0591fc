package recorder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/crashtext"
	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/retain"
	"github.com/entrace-go/entrace/internal/tracename"
)

// A kept is a finished trace. While it is being finished it has two files.
type kept struct {
	retain.File // the path has no extension

	files []string
	size  int64
	own   bool // of this very path
}

// splitName takes the extension of a trace from a file's name, and the time that it got to
// make room for another.
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
	at, err := time.Parse(archiveTime, suffix[1:][:len(archiveTime)])
	if err != nil {
		at = time.Time{} // such as 20261399T…
	}
	return path, strings.TrimSuffix(name, suffix), at, true
}

// familyOf returns the traces of a family, the growing one of this path excepted.
func familyOf(stream string, family func(base string) bool) ([]kept, error) {
	dir, own := filepath.Split(strings.TrimSuffix(stream, tracename.IET))
	list, err := os.ReadDir(filepath.Clean(dir))
	if err != nil {
		return nil, err
	}
	var traces []kept
	at := make(map[string]int) // in traces, by path
	for _, e := range list {
		path, base, named, ok := splitName(e.Name())
		if !ok || !e.Type().IsRegular() || base == own && path == own || base != own && (family == nil || !family(base)) {
			continue
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		i, there := at[path]
		if !there {
			if path == base {
				named = fi.ModTime()
			}
			i = len(traces)
			at[path] = i
			traces = append(traces, kept{File: retain.File{Path: dir + path, Named: named, Modified: fi.ModTime()}, own: base == own})
		}
		t := &traces[i]
		t.files = append(t.files, dir+e.Name())
		t.size += fi.Size()
	}
	return traces, nil
}

// prune removes the oldest finished traces of the family until what is left is within the
// bounds. It never removes those in spare, which are paths without an extension, nor what
// somebody still works on.
func (w *writer) prune(ctx context.Context, now time.Time, spare ...string) error {
	o, b := w.o, &w.finished
	if o.KeepFiles == 0 && o.KeepBytes == 0 {
		return nil
	}
	traces, err := familyOf(w.name, o.Family)
	if err != nil {
		return err
	}
	there := make(map[string]bool)
	var size int64
	for i := range traces {
		there[traces[i].Path] = true
	}
	// What is in use does not count. Once ctx has ended nothing is removed.
	traces = slices.DeleteFunc(traces, func(t kept) bool { return ctx.Err() != nil || t.inUse() })
	for i := range traces {
		size += traces[i].size
	}
	b.ended.Forget(func(path string) bool { return there[path] })
	older := b.ended.Compare(now)
	slices.SortStableFunc(traces, func(x, y kept) int { return older(&x.File, &y.File) })
	left := len(traces)
	var errs error
	var gone []string
	for i := range traces {
		t := &traces[i]
		if (o.KeepFiles == 0 || left <= o.KeepFiles) && (o.KeepBytes == 0 || size <= o.KeepBytes) {
			break
		}
		left--
		size -= t.size
		if slices.Contains(spare, t.Path) {
			continue
		}
		removed := false // and not by somebody else who prunes
		for _, name := range t.files {
			err := os.Remove(name)
			removed = removed || err == nil
			errs = errors.Join(errs, distinct(err, fs.ErrNotExist))
		}
		if removed {
			gone = append(gone, filepath.Base(t.files[0]))
		}
	}
	if len(gone) > 0 && o.OnNotice != nil {
		text := "removed to make room: " + strings.Join(gone[:min(len(gone), maxNamed)], ", ")
		if len(gone) > maxNamed {
			text += fmt.Sprintf(" and %d more", len(gone)-maxNamed)
		}
		w.notice(text)
	}
	return errs
}

// maxNamed is how many removed files are named.
const maxNamed = 5

// inUse reports whether the trace is growing, being finished, or is to be finished.
func (t *kept) inUse() bool {
	return slices.ContainsFunc(t.files, func(name string) bool {
		if !strings.HasSuffix(name, tracename.IET) {
			return false
		}
		return osfile.Locked(name) || osfile.Exists(name+tracename.Journal) || !t.own && len(t.files) == 1 && !endsCleanly(name)
	})
}

// finishFamily finishes what dead writers of the family have left, and returns the paths of
// that, without an extension.
func (w *writer) finishFamily(ctx context.Context) (finished []string) {
	if w.o.Family == nil {
		return nil
	}
	own := strings.TrimSuffix(filepath.Base(w.name), tracename.IET)
	is := func(base string) bool { return base != own && w.o.Family(base) }
	f := folderRecovery{et: w.final != w.name, is: is, starts: true}
	err := f.run(ctx, filepath.Dir(w.name), func(r *Report, err error) {
		switch {
		case errors.Is(err, context.Canceled): // the next start goes on
		case err != nil:
			w.report(err)
		default:
			if r.Journal != nil {
				w.report(fmt.Errorf("%s: records are missing: %w", r.Output, r.Journal))
			}
			path := strings.TrimSuffix(r.Output, filepath.Ext(r.Output))
			finished = append(finished, path)
			w.finished.ended.Add(path)
			w.notice(r.Finished())
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		w.report(err)
	}
	return finished
}

// RecoverFolder finishes in place, as [Recover] does, what writers that died have left in the
// folder dir: an app.iet becomes app.et, unless it came to a clean end. It calls each with
// the report or the error of each. What a living process works on is passed over.
func RecoverFolder(ctx context.Context, dir string, each func(*Report, error)) error {
	f := folderRecovery{et: true, is: func(string) bool { return true }}
	return f.run(ctx, dir, each)
}

// A folderRecovery finishes what dead writers have left in a folder.
type folderRecovery struct {
	et     bool // as ETs
	is     func(base string) bool
	starts bool // a program starts: what others can finish better is left to them
}

func (f *folderRecovery) run(ctx context.Context, dir string, each func(*Report, error)) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list { // sorted, so that an IET comes before its journal
		if err := ctx.Err(); err != nil {
			return err
		}
		if made, _, ok := strings.Cut(e.Name(), ".tmp-"); ok && strings.HasPrefix(made, ".") && e.Type().IsRegular() {
			if _, base, _, ok := splitName(strings.TrimSuffix(strings.TrimPrefix(made, "."), tracename.Journal)); ok && f.is(base) {
				f.removeTemp(ctx, filepath.Join(dir, e.Name()))
			}
			continue
		}
		name, isJournal := strings.CutSuffix(e.Name(), tracename.Journal)
		_, base, _, ok := splitName(name)
		if !ok || !strings.HasSuffix(name, tracename.IET) || !e.Type().IsRegular() && !isJournal || !f.is(base) {
			continue
		}
		name = filepath.Join(dir, name)
		if isJournal && (osfile.Exists(name) || !osfile.Exists(name+tracename.Journal)) {
			continue // it was looked at
		}
		r, err := f.finish(ctx, name)
		switch {
		case errors.Is(err, format.ErrLocked), errors.Is(err, fs.ErrNotExist): // somebody else is at it
		case r != nil || err != nil:
			each(r, err)
		}
	}
	return nil
}

// finish finishes the stream name if its writer is dead. It returns no report if there is
// nothing to do.
func (f *folderRecovery) finish(ctx context.Context, name string) (*Report, error) {
	switch {
	case osfile.Locked(name):
		return nil, format.ErrLocked
	case osfile.Exists(name + tracename.Journal):
		if f.starts {
			if others, err := isForOthers(name); others || err != nil {
				return nil, err
			}
		}
	case !isIET(name):
		return nil, removeEmpty(name) // else it is not ours
	case !osfile.Exists(name+crashtext.Ext) && endsCleanly(name):
		if !f.et {
			return nil, nil
		}
		r, err := Inspect(strings.TrimSuffix(name, tracename.IET) + tracename.ET)
		if err != nil || r.Format != format.ET {
			return nil, nil //nolint:nilerr // there is nothing to do
		}
		return nil, r.removeSource()
	}
	if !f.et {
		return recoverFile(ctx, name, "")
	}
	final := strings.TrimSuffix(name, tracename.IET) + tracename.ET
	r, err := recoverFile(ctx, final, "")
	if err != nil || !osfile.Exists(name) || r.Output == name {
		return r, err
	}
	if err := archiveEarlier(final, name); err != nil {
		return nil, err
	}
	return recoverFile(ctx, final, "")
}

// archiveEarlier renames an earlier trace that has the name of the dead stream name. It holds
// the stream's lock, because another process may just have finished the stream: the trace
// final is not the earlier one then.
func archiveEarlier(final, name string) error {
	f, err := osfile.OpenWrite(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := lock(f, true); err != nil {
		return err
	}
	if !osfile.SameFile(f, name) || !osfile.Exists(final) {
		return fs.ErrNotExist // another process finishes it
	}
	return archiveExisting(final, name)
}

// removeTemp removes a temporary file whose maker is dead. One that was made just now may not
// be locked yet: who asks for a recovery waits until it would be.
func (f *folderRecovery) removeTemp(ctx context.Context, name string) {
	if fi, err := os.Lstat(name); err == nil && !f.starts && !osfile.Locked(name) {
		select {
		case <-time.After(min(osfile.SettleTime-time.Since(fi.ModTime()), osfile.SettleTime)):
		case <-ctx.Done():
		}
	}
	osfile.RemoveDead(name)
}

// removeEmpty removes the file name if nothing was ever written to it and nobody has it locked.
// Who makes it, and has not locked it yet, makes it again.
func removeEmpty(name string) error {
	f, err := osfile.OpenWrite(name)
	if err != nil {
		return nil //nolint:nilerr // it is not ours
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil || fi.Size() > 0 || osfile.Lock(f, true) != nil || !osfile.SameFile(f, name) {
		return err
	}
	return errors.Join(osfile.Remove(f, name), osfile.SyncDir(name))
}

// isForOthers reports whether the journal of a stream is of another version of this module,
// or cannot be reached from here. The first time the latter is an error.
func isForOthers(stream string) (bool, error) {
	b, err := openBuffer(stream, false)
	if errors.Is(err, ErrJournalElsewhere) {
		if !osfile.Exists(stream) {
			return true, nil // its writer may live, and rotate
		}
		isNews, giveUp := journal.NoteElsewhere(stream + tracename.Journal)
		if isNews {
			return true, awaits(stream, err)
		}
		return !giveUp, nil
	}
	if err != nil || b == nil {
		return false, nil //nolint:nilerr // whoever opens it again learns why
	}
	_ = b.close() // nothing was written to it
	return b.layout != nil, nil
}

// isIET reports whether the file name begins as an IET does.
func isIET(name string) bool {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close()
	_, stored, err := format.ReadMagic(f)
	return err == nil && stored == format.IET
}

// endsCleanly reports whether the last bytes of the IET name are the entry that marks a clean
// end, without reading the others.
func endsCleanly(name string) bool {
	f, err := osfile.OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return false
	}
	v, stored, err := format.ReadMagic(f)
	if err != nil || stored != format.IET {
		return false
	}
	b := make([]byte, min(fi.Size()-format.MagicSize, endSize))
	if _, err := f.ReadAt(b, fi.Size()-int64(len(b))); err != nil {
		return false
	}
	at := bytes.LastIndex(b, []byte(format.NameEnd))
	for from := max(0, at-maxBeforeName); from < at; from++ {
		var e format.TraceEntry
		if n, err := format.DecodeTraceEntry(b[from:], v, &e); err == nil && n == len(b)-from && e.IsEnd() {
			return true
		}
	}
	return false
}

const (
	endSize       = 4 << 10 // more than such an entry takes
	maxBeforeName = 64      // bytes of it
)
