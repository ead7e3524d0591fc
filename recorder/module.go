package recorder

import (
	"context"
	"sync/atomic"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
)

// New returns the recorder of a ring. The recorder passes its records to t. It accepts only records of
// the providers whose bits are set in taken, a record.Providers that can change. New is for packages of
// this module.
func New(t target, in *record.Interner, o *Options, taken *atomic.Uint64) *Recorder {
	r := newRecorder(t, in, o)
	r.ring, r.on = true, taken
	return r
}

// Put records rec, which must be built with the interner of r. It is for packages of this module.
func (r *Recorder) Put(rec *journal.Record, hint *journal.Hint) error {
	return r.target.Put(rec, hint, nil)
}

// AppendAnchor writes e below the root and returns the id of e. From then on, log records without a span
// and entries of providers other than spans are written below e. AppendAnchor is for packages of this
// module.
func (r *Recorder) AppendAnchor(e *format.TraceEntry) (uint32, error) { return r.append(e, true) }

// SetProvider sets the provider of the record that b builds. The record must have begun with Log. The
// provider is usually neither spans nor log records. Like a log record, the record is written below its
// span, or else below the entry of AppendAnchor. If the record has a span, its entry needs a message.
// After SetProvider, even a record of ProviderLogs fires no trigger. SetProvider is for packages of this
// module.
func (b *Batch) SetProvider(p record.Provider) { b.provider, b.silent = p, true }

// WithFile runs fn on the goroutine that writes the file of r. It does nothing if r has no writer. The
// records that fn places must be built with the interner of r. WithFile is for packages of this module.
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

// Suspend writes the waiting records to the file and removes the journal. The next call that records
// makes a new journal and waits for it. Until then the file stays locked and r uses only a file
// descriptor. This suits a program with many recorders that uses few of them at a time. Suspend also
// writes the spans that wait for their parents. If Suspend fails, r remains in use as before. While calls
// wait for the new journal after an earlier Suspend, Suspend does nothing. It is for packages of this
// module.
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

// Flush writes the staged entries. It drops and counts entries that it cannot write, and goes on,
// because a later write may succeed.
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
