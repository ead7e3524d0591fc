package recorder

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/inside"
)

func init() {
	inside.Of = func(r any) inside.Recorder { return insideRecorder{r.(*Recorder)} }
	inside.OfBatch = func(b any) inside.Batch { return insideBatch{&b.(*Batch).b, b.(*Batch)} }
	inside.NewRing = func(t any, in *record.Interner, o any, taken *atomic.Uint64) any {
		r := newRecorder(t.(target), in, o.(*Options))
		r.ring, r.on = true, taken
		return r
	}
	inside.Create = func(name string, o any, in *record.Interner, died bool) (any, error) {
		return createWith(name, o.(*Options), in, died)
	}
}

// An insideRecorder implements inside.Recorder.
type insideRecorder struct{ *Recorder }

// An insideBatch implements inside.Batch.
type insideBatch struct {
	*record.Builder

	batch *Batch
}

func (r insideRecorder) IsRing() bool { return r.Recorder != nil && r.ring }

func (r insideRecorder) HasOnError() bool { return r.reports }

func (r insideRecorder) RedactedText(s string) string { return r.redactor().Text(s) }

func (r insideRecorder) Place(m *format.Metadata, message string) *record.Place {
	if r.Discards() {
		return nil
	}
	h := inside.Head(m, format.Some(message))
	return r.intern.Place(&h)
}

func (r insideRecorder) AppendAnchor(e *format.TraceEntry) (uint32, error) { return r.append(e, true) }

func (r insideRecorder) Put(rec *journal.Record, hint *journal.Hint) error {
	return r.target.Put(rec, hint, nil)
}

func (r insideRecorder) WithFile(fn func(placer.Importer) error) error {
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

func (r insideRecorder) Suspend(ctx context.Context) error {
	w, ok := r.target.(*writer)
	if !ok {
		return nil
	}
	return w.ask(ctx, (*writer).suspend)
}

func (r insideRecorder) Admit(ctx context.Context, size int) (leave func(), err error) {
	if w, ok := r.target.(*writer); ok {
		return w.admit(ctx, size)
	}
	return func() {}, nil
}

func (i insideBatch) Direct() *record.Builder { return i.Builder }

func (i insideBatch) Bytes(name string, value []byte) {
	v := format.BytesValue(value)
	i.Builder.Bytes(name, v.Text())
}

func (i insideBatch) Float(name string, value float64) {
	i.Builder.Float(name, math.Float64bits(value))
}

func (i insideBatch) ID(name string, id []byte) { i.Hex(name, id) }

func (i insideBatch) Begin(message format.Optional[string], m *format.Metadata) {
	i.batch.Begin(message, m)
}

func (i insideBatch) Value(name string, v *format.Value) { i.batch.value(name, v) }

func (i insideBatch) Undo() {
	b := i.batch
	if b.kind != 0 && !b.r.Discards() {
		entries := max(b.b.Entries(), 1)
		b.r.target.Drop(format.ErrInvalid, entries, record.Info(b.kind, uint8(b.provider), b.flags, b.resource, entries).Spans())
	}
	b.kind, b.err = 0, nil
}

func (i insideBatch) Discard() { i.batch.discard() }

func (i insideBatch) Elsewhere(ref format.SpanRef) {
	b := i.batch
	b.begin(record.KindElsewhere, record.FlagRef, &ref, nil, 0, 0)
	b.handOver()
	b.discard() // an error is harmless: the spans then wait until a bound ends the wait
}

func (i insideBatch) SetProvider(p record.Provider) { i.batch.provider, i.batch.silent = p, true }

func (i insideBatch) Ended(ref format.SpanRef, name string, took time.Duration) {
	i.batch.event, i.batch.silent = record.Event{Ref: keyOf(&ref), Message: name, Ended: true, Took: took}, false
}

func (i insideBatch) Panicked(text string) {
	i.batch.event.Panicked, i.batch.event.Panic = true, text
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
