package recorder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// background runs functions that finish the files before the current one.
type background struct {
	cancel context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu sync.Mutex

	err   error
	files []*os.File // earlier files whose content may not be on disk yet
	ended retain.Log // paths of finished files, without extensions
}

// sync makes the earlier files survive a loss of power.
func (b *background) sync() error {
	b.mu.Lock()
	files := slices.Clone(b.files)
	b.mu.Unlock()
	var err error
	for _, f := range files {
		err = errors.Join(err, osfile.Ignore(f.Sync(), os.ErrClosed))
	}
	return err
}

func (b *background) add(f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = append(b.files, f)
}

func (b *background) remove(f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files = slices.DeleteFunc(b.files, func(g *os.File) bool { return f == g })
}

func (b *background) start(fn func(context.Context) error) {
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	b.wg.Go(func() {
		if err := deadtrace.Safely(func() error { return fn(b.ctx) }); err != nil {
			b.mu.Lock()
			b.err = errors.Join(b.err, err)
			b.mu.Unlock()
		}
	})
}

// wait waits until all started functions have returned. When ctx ends, it cancels their context.
func (b *background) wait(ctx context.Context) error {
	if b.ctx == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, b.cancel)
	b.wg.Wait()
	stop()
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// rotateIfDue begins a new file if one is due and no entries are staged for the old file.
func (w *writer) rotateIfDue() {
	r := &w.rotation
	if w.file == nil || w.file.dead != nil || w.staged() || w.broken.Load() != nil {
		return
	}
	now := time.Now()
	unsynced := w.file.syncErr != nil && now.After(r.synced) // a failed sync cannot be repeated, except for another file
	if !r.mended && !unsynced && !r.isDue(w.o, w.placer, now) || now.Before(r.notBefore) {
		return
	}
	err := w.checkFile() // another file may have the name by now
	if err == nil {
		err = w.rotate(now)
	}
	if err != nil {
		r.notBefore = now.Add(rotateAgain)
		r.mended = r.mended && r.on(w.o) // without bounds, recording continues in this file: it is whole after the mending
		err = fmt.Errorf("rotate %s: %w", w.name, err)
		w.mu.Lock()
		w.published.err = err
		w.mu.Unlock()
		w.report(err) // recording continues in the old file
	}
}

// rotate replaces the growing file by a new one. If it fails before both files have their names, nothing
// has changed.
func (w *writer) rotate(now time.Time) error {
	removed := uint64(0) // number of entries that are not in a file with a name
	if w.file.isRemoved() {
		removed = max(w.placer.Entries(), 1) - 1 // the root needs no saving
	}
	w.unsaved.Add(removed)
	w.leaving = removed > 0
	err := w.rotateFrom(removed, now)
	w.leaving = false
	if err != nil {
		w.unsaved.Add(-removed)
	}
	return err
}

// rotateFrom does the work of rotate. The parameter removed is the number of entries in the old file if
// that file was removed, else 0.
func (w *writer) rotateFrom(removed uint64, now time.Time) error {
	lost := w.file.check() // not nil if the old file was removed or renamed
	next, err := w.successor(w.o, w.name, w.tee != nil)
	if err != nil {
		return err
	}
	if w.o.Durability == DurabilityPower && lost == nil {
		// The calls that wait for this sync get this error, or else the error of syncing the new file.
		w.unsynced = w.sink.sync()
	}
	// If the process dies just after the renames, recovery finds both files, and a checkpoint about the old one.
	// From the checkpoint it must know which spans wait for their parents, because they go to the new file.
	aside := ""
	err = w.handOver(w.repark, func() (err error) {
		aside, err = w.exchange(next, lost == nil, now)
		return err
	})
	if err != nil {
		return next.discard(err)
	}
	// A file that was mended gets no entry of a clean end, because some of its entries are missing.
	if !w.rotation.mended {
		if err := w.writeEnd(true); err != nil {
			w.failed(err) // the old file remains a whole IET
		}
	}
	old, left := w.file, next.placer.Left()
	w.succeed(next, now)
	if lost == nil {
		w.finishOld(old, aside)
	} else {
		w.leaveOld(old, removed, now)
	}
	if left > 0 {
		w.report(fmt.Errorf("rotate %s: %d open spans are only in %s; the new file gets an open span with the next record of the span", w.name, left, aside))
	}
	if w.o.Durability == DurabilityPower {
		if err := osfile.SyncDir(w.name); err != nil {
			w.failed(fmt.Errorf("rotate %s: %w", w.name, err)) // a loss of power could restore the old names
		}
	}
	return nil
}

// exchange renames the growing file, if it still has its name, and gives that name to next. It returns the new name
// of the growing file. If it fails, the growing file keeps its name if possible.
func (w *writer) exchange(next *successor, named bool, now time.Time) (aside string, err error) {
	if named {
		aside, err = w.archiveGrowing(now)
		if err != nil {
			return "", err
		}
	}
	err = osfile.RenameNew(next.file.f.Name(), w.name)
	if err != nil && named {
		err = errors.Join(err, osfile.RenameNew(aside, w.name))
	}
	return aside, err
}

// succeed makes w write to next, which has the name of the growing file.
func (w *writer) succeed(next *successor, now time.Time) {
	stranger := w.rotation.mended || w.rotation.stranger || !w.rotation.on(w.o)
	failed := w.file.syncErr != nil
	next.placer.Drop = w.placer.Drop
	next.placer.Adopt(w.placer)
	w.output, w.leaving = next.output, false
	w.reader.Needs = w.placer.Needs
	w.rotation = rotation{began: now, first: w.placer.Entries(), head: w.placer.Size(), stranger: stranger}
	if failed {
		w.rotation.synced = now.Add(rotateAgain)
	}
	w.placer.Extra() // reset the count, because all entries of the new file are added here
	w.mu.Lock()
	w.published.extra[0] += w.placer.Entries()
	w.published.written[0] += w.placer.Entries()
	w.published.files++
	w.published.bytes = w.file.n
	w.mu.Unlock()
	if w.tee != nil {
		w.tee.begin(w.o.Version)
		for _, k := range next.kept {
			if err := w.tee.take(k.b, k.staged); err != nil {
				w.report(err)
			}
		}
	}
	w.checkpoint()
}

// archiveGrowing renames the growing file to a name with the time now, and returns the new name.
func (w *writer) archiveGrowing(now time.Time) (aside string, err error) {
	final := w.final != w.name
	err = deadtrace.Aside(w.name, tracename.IET, now, func(to string) error {
		et := strings.TrimSuffix(to, tracename.IET) + tracename.ET
		if final && osfile.Exists(et) {
			return fs.ErrExist
		}
		aside = to
		if err := osfile.RenameNew(w.name, to); err != nil {
			return err
		}
		if final && osfile.Exists(et) {
			// Another process has just finished a file with this name.
			return cmp.Or(osfile.RenameNew(to, w.name), fs.ErrExist)
		}
		return nil
	})
	return aside, err
}

// finishOld finishes the file old in the background. Its name is now aside.
func (w *writer) finishOld(old *fileSink, aside string) {
	final, base := w.final != w.name, strings.TrimSuffix(aside, tracename.IET)
	// Add the path now, to keep the order of the files: they are finished concurrently.
	w.finished.ended.Add(base)
	w.finished.add(old.f)
	w.finished.start(func(ctx context.Context) error {
		err := osfile.SyncDir(aside)
		if final {
			err = format.Finalize(ctx, aside, base+tracename.ET, &format.FinalizeOptions{File: old.f, RemoveSource: true, Folder: old.place(), Index: &old.index})
		}
		if err != nil || !final {
			err = errors.Join(err, old.f.Sync())
		}
		err = errors.Join(err, osfile.Ignore(old.f.Close(), os.ErrClosed))
		w.finished.remove(old.f)
		return errors.Join(err, w.prune(ctx, time.Now()))
	})
}

// leaveOld closes, in the background, a file that was removed or renamed. If it was removed, leaveOld saves
// its entries in another file. removed is the number of these entries.
func (w *writer) leaveOld(old *fileSink, removed uint64, now time.Time) {
	w.finished.add(old.f)
	w.finished.start(func(ctx context.Context) error {
		defer w.finished.remove(old.f)
		defer old.f.Close()
		if removed == 0 && !old.isRemoved() {
			return old.f.Sync()
		}
		name, err := w.save(ctx, old, now)
		if err != nil {
			err = fmt.Errorf("%s was removed, and its entries cannot be saved: %w", w.name, err)
			w.countLost(old)
			w.failed(err)
			return err
		}
		w.unsaved.Add(-removed)
		w.finished.ended.Add(tracename.Base(name))
		w.armed.Store(true) // let the writer note in a checkpoint, if w has a journal, that the entries are saved
		w.wakeUp()
		return w.prune(ctx, time.Now())
	})
}

// countLost counts the entries and spans of f as dropped, because f has no name.
func (w *writer) countLost(f *fileSink) {
	entries, spans := f.index.CutTo(0)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.published.lose(entries, spans)
}

// save copies the content of the removed file old to a new file and returns the name of the new file.
func (w *writer) save(ctx context.Context, old *fileSink, now time.Time) (name string, err error) {
	ext, write := tracename.IET, copyFile
	if w.final != w.name {
		ext, write = tracename.ET, func(ctx context.Context, f *os.File, to string) error {
			return format.Finalize(ctx, w.name, to, &format.FinalizeOptions{File: f, Index: &old.index})
		}
	}
	err = deadtrace.Aside(w.name, ext, now, func(to string) error {
		name = to
		return write(ctx, old.f, to)
	})
	return name, err
}

// copyFile copies the content of f to a new file.
func copyFile(ctx context.Context, f *os.File, to string) error {
	tmp, err := osfile.CreateTemp(to)
	if err != nil {
		return err
	}
	defer tmp.Discard()
	const piece = 1 << 20
	for at := int64(0); ; at += piece {
		n, err := io.Copy(tmp, io.NewSectionReader(f, at, piece))
		err = cmp.Or(err, ctx.Err())
		if err != nil {
			return err
		}
		if n < piece {
			return tmp.Commit(false)
		}
	}
}
