package format

import (
	"context"
	"os"

	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/placer"
)

// An Import writes journal records to the file of a recorder whose interner has their
// names. It is for this module's packages.
type Import struct {
	Placer *placer.Placer
	Err    error // the file cannot be written to any more

	w *writer
}

// Import runs fn on the goroutine that writes the file. It is for this module's packages.
func (r *Recorder) Import(fn func(*Import) error) error {
	t, ok := r.target.(*recording)
	if !ok {
		return nil
	}
	return t.ask(context.Background(), func(w *writer) error {
		if err := w.write(); err != nil && w.file != nil && w.file.dead != nil {
			return err
		}
		i := &Import{Placer: w.placer, w: w}
		err := fn(i)
		w.checkpoint()
		w.publish(err)
		return err
	})
}

// Place counts a record as offered and places it.
func (i *Import) Place(e *journal.Entry) {
	i.w.mu.Lock()
	i.w.published.extra[0] += uint64(e.Info.Entries())
	i.w.published.extra[1] += uint64(e.Info.Spans())
	i.w.mu.Unlock()
	i.Placer.Place(e)
}

// Flush writes what is staged, if that is much, or now. If that fails it drops and counts
// it and goes on, as a later write may succeed.
func (i *Import) Flush(now bool) {
	b, _ := i.Placer.Out()
	if i.Err != nil || len(b) < flushSize && (!now || len(b) == 0) {
		return
	}
	if err := i.w.flush(); err != nil {
		_, staged := i.Placer.Out()
		spans := 0
		for k := range staged {
			if staged[k].IsSpan {
				spans++
			}
		}
		n := len(staged)
		i.Placer.DropStaged()
		i.w.drop(err, n, spans)
		if i.w.file != nil {
			i.Err = i.w.file.dead
		}
	}
}

// LockFile locks f exclusively, as its writer does. It is [ErrLocked] while somebody else
// has the lock.
func LockFile(f *os.File) error { return lock(f, true) }
