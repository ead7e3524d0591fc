package exporter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/recorder"
)

var _ sdktrace.SpanExporter = (*Exporter)(nil)

// An Exporter is a span exporter that writes to a recorder. Parents are written before their
// children, in whatever order the spans are exported.
//
// An Exporter is safe for concurrent use, even if several span processors share it.
type Exporter struct{ target }

// A target is the recorder that an exporter or processor writes to, with caches.
type target struct {
	recorder *recorder.Recorder
	owned    bool                 // Shutdown closes the recorder
	process  []attribute.KeyValue // setup.WithProcess
	stopped  atomic.Bool
	failing  atomic.Bool // a call has failed, its error was reported, and no call has succeeded since

	mappers   sync.Pool // of *mapper
	latest    atomic.Pointer[recordedResource]
	resources sync.Map     // *resource.Resource to *recorder.Resource
	cached    atomic.Int32 // number of items in resources
}

// A recordedResource is a resource and the entry that the recorder has made from it.
type recordedResource struct {
	resource *resource.Resource
	recorded *recorder.Resource
}

// New returns an exporter. Without [WithRecorder] it opens a recorder of its own,
// by default at the path in OTEL_EXPORTER_ENTRACE_PATH. Shutdown closes that recorder.
func New(options ...Option) (*Exporter, error) {
	e := &Exporter{}
	return e, e.open(setup.Resolve(options...), modeBatch)
}

// MarshalLog keeps loggers from printing the exporter's fields.
func (e *Exporter) MarshalLog() any {
	return struct{ Type string }{"entrace"}
}

// The values of OTEL_EXPORTER_ENTRACE_MODE.
const (
	modeLive  = "live"
	modeBatch = "batch"
)

func (t *target) open(s *setup.Settings, mode string) error {
	r, owned, err := s.Use(mode)
	if err != nil {
		r = recorder.Discard()
	}
	t.recorder, t.owned, t.process = r, owned, s.Process
	return err
}

func (t *target) mapper() *mapper {
	if m, ok := t.mappers.Get().(*mapper); ok {
		return m
	}
	m := &mapper{b: t.recorder.Batch()}
	m.in = inside.OfBatch(m.b)
	m.each = func(kv attribute.KeyValue) bool {
		m.gathered = append(m.gathered, kv)
		return true
	}
	return m
}

func (t *target) release(m *mapper) {
	m.reset()
	t.mappers.Put(m)
}

// maxResources is the number of resources that are cached by their pointers.
const maxResources = 256

// resource returns the recorded entry of r, the resource of a span or a log record.
func (t *target) resource(r *resource.Resource) (*recorder.Resource, error) {
	if k := t.latest.Load(); k != nil && k.resource == r {
		return k.recorded, nil
	}
	if res, ok := t.resources.Load(r); ok {
		t.latest.Store(&recordedResource{r, res.(*recorder.Resource)})
		return res.(*recorder.Resource), nil
	}
	res, err := setup.RecordResource(t.recorder, r, t.process)
	if err == nil {
		// Most programs have a few resources. A program that makes new resources all the time must not fill the
		// memory. It is enough to clear the cache, because the recorder recognizes equal resources.
		if t.cached.Add(1) > maxResources {
			t.resources.Clear()
			t.cached.Store(1)
		}
		t.resources.Store(r, res)
	}
	return res, err
}

// result reports err on the console. Methods that cannot return an error call it at their end, also with nil. After
// an error, result reports the next error only after a call has succeeded. The caller must not hold a lock.
func (t *target) result(err error) {
	if err == nil {
		if t.failing.Load() {
			t.failing.Store(false)
		}
		return
	}
	if inside.Of(t.recorder).HasOnError() && isLast(err, t.recorder.Err()) {
		return // the recorder has reported the error
	}
	if !t.failing.Swap(true) {
		notice.Error(err)
	}
}

// isLast reports whether err is the last error of a recorder, or has the same text. Each failed write makes a new
// error, and the errors of one cause have the same text.
func isLast(err, last error) bool {
	return last != nil && (errors.Is(err, last) || err.Error() == last.Error())
}

// flush writes all records so far to the file.
func (t *target) flush(ctx context.Context) error {
	if t.stopped.Load() || t.recorder.Discards() {
		return ctx.Err()
	}
	return t.recorder.Flush(ctx)
}

// Shutdown ends the exporter or processor, which then records nothing. If it has opened the recorder,
// Shutdown closes the recorder; [recorder.Recorder.Close] describes what happens if ctx is done. A later
// call finishes the file if an earlier call left it unfinished. A recorder that was passed with
// [WithRecorder] remains open. It writes spans that wait for their parents when the caller closes it.
// Shutdown is idempotent.
func (t *target) Shutdown(ctx context.Context) error {
	if t.stopped.Swap(true) {
		if t.owned {
			return inside.Of(t.recorder).FinishLeft(ctx)
		}
		return nil
	}
	if t.owned {
		return t.recorder.Close(ctx)
	}
	return ctx.Err()
}

// maxErrors is the largest number of errors that the error of a batch joins. In most cases all errors
// of a batch are the same.
const maxErrors = 16

// ExportSpans records ended spans. When it returns, the spans are as safe as the recorder's
// durability promises, including spans that wait in the recorder for a parent that has not been
// exported. It records the spans even if ctx is done. If a span fails, ExportSpans records the other
// spans and joins the error to the result. A call after Shutdown returns an error.
func (e *Exporter) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) (err error) {
	if e.stopped.Load() {
		return errors.New("exporter: shut down")
	}
	if e.recorder.Discards() {
		return nil
	}
	defer recovered(&err)
	m := e.mapper()
	defer e.release(m)
	var errs []error
	for _, i := range m.parentsFirst(spans) {
		s := spans[i]
		if err := e.add(m, s); err != nil && len(errs) < maxErrors {
			errs = append(errs, fmt.Errorf("span %v: %w", s.SpanContext().SpanID(), err))
		}
	}
	return m.write(errs)
}

// add maps an ended span with its links and events. The span is recorded even if add returns an
// error, unless a panic occurs before the span itself is mapped.
func (t *target) add(m *mapper, s sdktrace.ReadOnlySpan) (err error) {
	mapped := false
	defer func() {
		if p := recover(); p != nil {
			if !mapped {
				m.in.Undo()
			} // if mapped, the span is recorded without the part that panicked
			err = fmt.Errorf("exporter: panic while recording: %v", p)
		}
	}()
	res, err := t.resource(s.Resource())
	m.whole(s, res, true)
	mapped = true
	m.children(s)
	return err
}
