package format

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/retain"
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
	if ext != extET && ext != extIET {
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
	dir, own := filepath.Split(strings.TrimSuffix(stream, extIET))
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
func (w *writer) prune(now time.Time, spare ...string) error {
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
		if slices.Contains(spare, t.Path) || t.inUse() {
			continue
		}
		for _, name := range t.files {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = errors.Join(errs, err)
			}
		}
		gone = append(gone, filepath.Base(t.Path))
	}
	if len(gone) > 0 && o.OnNotice != nil {
		w.notice(fmt.Sprintf("removed to make room: %s", strings.Join(gone, ", ")))
	}
	return errs
}

// inUse reports whether the trace is growing, being finished, or is to be finished.
func (t *kept) inUse() bool {
	return slices.ContainsFunc(t.files, func(name string) bool {
		if !strings.HasSuffix(name, extIET) {
			return false
		}
		if osfile.Locked(name) || exists(name+extBuffer) {
			return true
		}
		if t.own || len(t.files) > 1 {
			return false
		}
		r, err := Inspect(name)
		return err != nil || !r.Ended
	})
}

// finishFamily finishes what dead writers of the family have left, and returns the paths of
// that, without an extension.
func (w *writer) finishFamily(ctx context.Context) (finished []string) {
	if w.o.Family == nil {
		return nil
	}
	own := strings.TrimSuffix(filepath.Base(w.name), extIET)
	is := func(base string) bool { return base != own && w.o.Family(base) }
	err := recoverFolder(ctx, filepath.Dir(w.name), w.final != w.name, is, func(r *Report, err error) {
		switch {
		case errors.Is(err, ErrJournalElsewhere): // it may live
		case err != nil:
			w.report(err)
		default:
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
	return recoverFolder(ctx, dir, true, func(string) bool { return true }, each)
}

func recoverFolder(ctx context.Context, dir string, et bool, is func(base string) bool, each func(*Report, error)) error {
	list, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range list { // sorted, so that an IET comes before its journal
		if err := ctx.Err(); err != nil {
			return err
		}
		name, journal := strings.CutSuffix(e.Name(), extBuffer)
		_, base, _, ok := splitName(name)
		if !ok || !strings.HasSuffix(name, extIET) || !e.Type().IsRegular() && !journal || !is(base) {
			continue
		}
		name = filepath.Join(dir, name)
		if journal && (exists(name) || !exists(name+extBuffer)) {
			continue // it was looked at
		}
		r, err := finishDead(name, et)
		switch {
		case errors.Is(err, ErrLocked), errors.Is(err, fs.ErrNotExist): // somebody else is at it
		case r != nil || err != nil:
			each(r, err)
		}
	}
	return nil
}

// finishDead finishes the stream name if its writer is dead. It returns no report if there is
// nothing to do.
func finishDead(name string, et bool) (*Report, error) {
	if osfile.Locked(name) {
		return nil, ErrLocked
	}
	if exists(name) && !exists(name+extBuffer) {
		r, err := Inspect(name)
		switch {
		case errors.Is(err, ErrTruncated), errors.Is(err, ErrNotEntrace), r != nil && r.Format != IET:
			return nil, nil // nothing of ours
		case err != nil:
			return nil, err
		case r.Ended && r.Reason == CutClean:
			return nil, nil
		}
	}
	if !et {
		return Recover(name, "")
	}
	final := strings.TrimSuffix(name, extIET) + extET
	r, err := Recover(final, "")
	if err != nil || !exists(name) || r.Output == name {
		return r, err
	}
	// An earlier trace has the name.
	if err := archiveExisting(final, name); err != nil {
		return nil, err
	}
	return Recover(final, "")
}
