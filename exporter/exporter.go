package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/format"
)

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// An Exporter is a span exporter that writes to a recorder. Whatever the order in
// which spans are exported, their entries come parents first.
//
// An Exporter is safe for concurrent use, also when several span processors
// share it.
type Exporter struct{ target }

// A target is where exporter and processor write to.
type target struct {
	recorder *format.Recorder
	owned    bool // closed by Shutdown
	stopped  atomic.Bool

	mappers   sync.Pool    // of *mapper
	resources sync.Map     // *resource.Resource to *format.Resource
	cached    atomic.Int32 // how many of them
}

// New returns an exporter. Without [WithRecorder] it opens a recorder of its own,
// by default at the path in OTEL_EXPORTER_ENTRACE_PATH, which Shutdown closes.
func New(options ...Option) (*Exporter, error) {
	e := &Exporter{}
	c := newConfig(options)
	return e, e.open(&c)
}

// MarshalLog keeps loggers from printing what is inside.
func (e *Exporter) MarshalLog() any {
	return struct{ Type string }{"entrace"}
}

// Recorder returns the recorder that spans go to.
func (t *target) Recorder() *format.Recorder { return t.recorder }

func (t *target) open(c *config) error {
	res, err := fullResource(nil)
	if err != nil {
		report(fmt.Errorf("exporter: resource: %w", err)) // it is usable all the same
	}
	r, owned, err := c.open(res)
	if err != nil {
		r = format.Discard()
	}
	t.recorder, t.owned = r, owned
	return err
}

func (t *target) mapper() *mapper {
	if m, ok := t.mappers.Get().(*mapper); ok {
		return m
	}
	return new(mapper)
}

func (t *target) release(m *mapper) {
	m.reset()
	t.mappers.Put(m)
}

// maxResources is how many resources are remembered by their pointers.
const maxResources = 256

// resource returns the entry of a span's resource.
func (t *target) resource(m *mapper, r *resource.Resource) (*format.Resource, error) {
	if res, ok := t.resources.Load(r); ok {
		return res.(*format.Resource), nil
	}
	res, err := t.recorder.Resource(m.resourceEntry(r))
	if err == nil {
		// A program has one or a few. One that makes them anew all the time must
		// not fill the memory with what the recorder knows to be equal.
		if t.cached.Add(1) > maxResources {
			t.resources.Clear()
			t.cached.Store(1)
		}
		t.resources.Store(r, res)
	}
	return res, err
}

// shutdown closes the recorder if it was opened here.
func (t *target) shutdown(ctx context.Context) error {
	if t.stopped.Swap(true) {
		return nil
	}
	if t.owned {
		return t.recorder.Close(ctx)
	}
	return ctx.Err()
}

// ExportSpans records spans that have ended. When it returns they are in the
// file, or wait in memory for a parent that has not been exported yet. Since it
// never waits for anything, it does its work even with a context that is done.
// What is wrong with one span is joined to the error, and the others are
// recorded. After Shutdown the error is [ErrShutdown].
func (e *Exporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) (err error) {
	if e.stopped.Load() {
		return ErrShutdown
	}
	if e.recorder.Discards() {
		return nil
	}
	defer recovered(&err)
	m := e.mapper()
	defer e.release(m)
	var errs []error
	const enough = 16 // errors, as they tend to be all the same
	b := e.recorder.Batch()
	for _, s := range spans {
		if s == nil {
			continue
		}
		if err := e.whole(m, s); err != nil && len(errs) < enough {
			errs = append(errs, fmt.Errorf("span %v: %w", s.SpanContext().SpanID(), err))
		}
		m.span.Wait = true
		b.Span(&m.span)
		m.reset()
	}
	return errors.Join(append(errs, b.Write())...)
}

// whole maps an ended span with all that belongs to it. The span is fit to be
// recorded in spite of an error.
func (t *target) whole(m *mapper, s sdktrace.ReadOnlySpan) (err error) {
	defer recovered(&err)
	m.span.Resource, err = t.resource(m, s.Resource())
	m.start(s, s.Attributes())
	target := m.span.Entry.Metadata.Target
	m.links(s.Links(), target)
	m.events(s.Events(), target)
	return err
}

// Shutdown ends the exporter. It closes the recorder if New opened it: see
// [format.Recorder.Close] for what a context that is done means. A recorder that
// was handed in stays open, and spans that wait in it for their parents are
// written when it is closed. Shutdown is idempotent.
func (e *Exporter) Shutdown(ctx context.Context) error { return e.shutdown(ctx) }
