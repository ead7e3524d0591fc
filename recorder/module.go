package recorder

import (
	"context"
	"sync/atomic"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
)

// New returns the recorder of a ring, which hands its records to t. It takes the records of those
// providers whose bits are set in taken, a record.Providers that can change. New is for packages of
// this module.
func New(t target, in *record.Interner, o *Options, taken *atomic.Uint64) *Recorder {
	r := newRecorder(t, in, o)
	r.ring, r.on = true, taken
	return r
}

// Put takes a record that was built with the interner of r. It is for packages of this module.
func (r *Recorder) Put(rec *journal.Record, hint *journal.Hint) error {
	return r.target.Put(rec, hint, nil)
}

// AppendAnchor writes e below the root and returns its id. Entries of providers other than spans,
// and log records that belong to no span, hang below it from then on. It is for packages of this
// module.
func (r *Recorder) AppendAnchor(e *format.TraceEntry) (uint32, error) { return r.append(e, true) }

// SetProvider sets the provider of the record that b builds, which Log began. The provider is
// usually neither spans nor log records. The record is written below its span as log records are,
// or else below the entry that AppendAnchor has written. Its entry needs a message if it has a span.
// A record with the provider ProviderLogs fires no trigger. SetProvider is for packages of this module.
func (b *Batch) SetProvider(p record.Provider) { b.provider, b.silent = p, true }

// WithFile runs fn on the goroutine that writes the file of r, if r has a file. The records that fn
// places must be built with the interner of r. WithFile is for packages of this module.
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
// waits until there is another journal. Meanwhile the file stays locked and uses only a descriptor.
// This suits a program with many recorders that uses few of them at a time. Suspend also writes the
// spans that wait for their parents. After an error r is in use as before. Suspend does nothing while
// calls wait for the journal of an earlier one. It is for packages of this module.
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

// Flush drops and counts what it cannot write, and goes on, as a later write may succeed.
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
