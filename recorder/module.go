package recorder

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
)

// New returns the recorder of a ring, which passes its records to t. taken is a record.Providers that can
// change: the recorder accepts only records of providers whose bits are set. New is for packages of this
// module.
func New(t target, in *record.Interner, o *Options, taken *atomic.Uint64) *Recorder {
	r := newRecorder(t, in, o)
	r.ring, r.on = true, taken
	return r
}

// Put records rec. The caller must have built rec with the interner of r. Put is for packages of this
// module.
func (r *Recorder) Put(rec *journal.Record, hint *journal.Hint) error {
	return r.target.Put(rec, hint, nil)
}

// AppendAnchor writes e below the root and returns the id of e. From then on, log records without a span
// and entries of providers other than spans are written below e. AppendAnchor is for packages of this
// module.
func (r *Recorder) AppendAnchor(e *format.TraceEntry) (uint32, error) { return r.append(e, true) }

// SetProvider sets the provider of the record that b builds. Call it after Log. The record is written below its
// span, or if it has none, below the entry of AppendAnchor. A record with a span must have a message. The record fires no trigger, even if p is ProviderLogs. SetProvider is for packages of
// this module.
func (b *Batch) SetProvider(p record.Provider) { b.provider, b.silent = p, true }

// Ended tells a flight recorder that the record that b builds ends the span ref, which took that long. Call it last.
// Ended is for packages of this module.
func (b *Batch) Ended(ref format.SpanRef, name string, took time.Duration) {
	b.event, b.silent = record.Event{Ref: keyOf(&ref), Message: name, Ended: true, Took: took}, false
}

// Panicked adds to Ended that a panic has ended the span. Panicked is for packages of this module.
func (b *Batch) Panicked(text string) { b.event.Panicked, b.event.Panic = true, text }

// WithFile runs fn on the goroutine that writes the file of r. If r writes no file and has no Tee, WithFile
// does nothing. fn may place only records that were built with the interner of r. WithFile is for packages
// of this module.
func (r *Recorder) WithFile(fn func(placer.Importer) error) error {
	t, ok := r.target.(*writer)
	if !ok {
		return nil
	}
	return t.ask(context.Background(), func(w *writer) error {
		if err := w.write(); err != nil && w.file != nil && w.file.dead != nil {
			return err
		}
		err := fn(&importer{Placer: w.placer, w: w})
		w.checkpoint()
		w.publish(err)
		return err
	})
}

// Suspend writes the waiting records to the file, including the spans that wait for their parents, and
// removes the journal. The next recording call makes a new journal and waits for it. Until then the file
// stays locked, and r uses only one file descriptor. Suspend suits a program with many recorders that uses
// few of them at a time. If Suspend fails, r continues as before. If calls already wait for a new journal,
// Suspend does nothing. It is for packages of this module.
func (r *Recorder) Suspend(ctx context.Context) error {
	w, ok := r.target.(*writer)
	if !ok {
		return nil
	}
	return w.ask(ctx, (*writer).suspend)
}

// An importer implements placer.Importer.
type importer struct {
	*placer.Placer

	w   *writer
	err error
}

func (i *importer) Err() error { return i.err }

func (i *importer) Place(e *journal.Entry) {
	i.w.mu.Lock()
	i.w.published.extra[0] += uint64(e.Info.Entries())
	i.w.published.extra[1] += uint64(e.Info.Spans())
	i.w.mu.Unlock()
	i.Placer.Place(e)
}

// Flush writes the staged entries. If it fails, it drops and counts them, and continues, because a later
// write may succeed.
func (i *importer) Flush(now bool) {
	b, _ := i.w.placer.Out()
	if i.err != nil || len(b) < flushSize && (!now || len(b) == 0) {
		return
	}
	if err := i.w.flush(); err != nil {
		i.w.dropStaged(err)
		if i.w.file != nil {
			i.err = i.w.file.dead
		}
	}
}
