package entraceexporter

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/zap"

	"github.com/entrace-go/entrace/collector/internal/pdatamap"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/ingest"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
)

var (
	_ exporter.Traces = (*files)(nil)
	_ exporter.Logs   = (*files)(nil)
)

// A files is the exporter of one signal to trace files. The exporters of both signals share one recorder
// for each path.
type files struct {
	cfg     *Config
	log     *zap.Logger
	writers sync.Pool // of *writer

	mu  sync.Mutex
	rec *recorder.Recorder // nil before Start and after Shutdown
}

func newFiles(cfg *Config, log *zap.Logger) *files { return &files{cfg: cfg, log: log} }

// Capabilities implements consumer.Traces and consumer.Logs.
func (*files) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

// Start opens the recorder.
func (f *files) Start(context.Context, component.Host) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rec != nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(f.cfg.Path), 0o700); err != nil {
		return fmt.Errorf("path: %w", err)
	}
	durability, err := f.cfg.durability()
	if err != nil {
		return fmt.Errorf("durability: %w", err)
	}
	policy, err := f.cfg.policy()
	if err != nil {
		return fmt.Errorf("redact: %w", err)
	}
	rec, err := recorder.Create(f.cfg.Path, &recorder.Options{
		Durability: durability, BufferDir: f.cfg.BufferDir, MaxFileSize: int64(f.cfg.MaxFileSize), MaxFileAge: f.cfg.MaxFileAge,
		KeepFiles: f.cfg.KeepFiles, KeepBytes: int64(f.cfg.KeepBytes), Shared: true, Redact: policy,
		OnError:  func(err error) { f.log.Error("recording fails", zap.Error(err)) },
		OnNotice: func(text string) { f.log.Info(text) },
	})
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	if kept, why := rec.Durability(); why != nil {
		f.log.Warn("the durability is not the configured one", zap.Stringer("durability", kept), zap.Error(why))
	}
	f.rec = rec
	return nil
}

// Shutdown closes the recorder if no other exporter uses it. The file is finished then.
func (f *files) Shutdown(ctx context.Context) error {
	f.mu.Lock()
	rec := f.rec
	f.rec = nil
	f.mu.Unlock()
	if rec == nil {
		return nil
	}
	return rec.Close(ctx)
}

// A writer holds the memory for recording one request.
type writer struct {
	*ingest.Writer

	rec      *recorder.Recorder
	order    spanmap.Order
	resource otel.Resource
	scope    otel.Scope
	span     otel.Span
	log      otel.Log
}

// take calls fn with a writer. When it returns, the records are as safe as the durability says. The error
// is not permanent: nothing was recorded, and the sender may try again. Records that are lost for good are
// logged.
func (f *files) take(ctx context.Context, size func() int, fn func(w *writer)) error {
	f.mu.Lock()
	rec := f.rec
	f.mu.Unlock()
	if rec == nil {
		return recorder.ErrClosed
	}
	return safecall.Run(func() error {
		w, ok := f.writers.Get().(*writer)
		if !ok || w.rec != rec {
			w = &writer{Writer: ingest.NewWriter(rec), rec: rec}
		}
		bytes := size()
		scopes := ingest.MaxScopes(bytes)
		leave, err := rec.Admit(ctx, bytes)
		if err != nil {
			f.writers.Put(w)
			return fmt.Errorf("%w: %w", ingest.ErrFull, err)
		}
		defer leave()
		w.Begin(&scopes, nil)
		fn(w)
		done, err := w.End()
		f.writers.Put(w) // not after a panic
		if done.Refused > 0 {
			f.log.Warn("some records are lost", zap.Int("taken", done.Taken), zap.Int("lost", done.Refused), zap.Error(done.Why))
		}
		return err
	})
}

// ConsumeTraces records spans.
func (f *files) ConsumeTraces(ctx context.Context, td ptrace.Traces) error {
	size := func() int { return (&ptrace.ProtoMarshaler{}).TracesSize(td) }
	return f.take(ctx, size, func(w *writer) {
		for _, rs := range td.ResourceSpans().All() {
			if err := pdatamap.Resource(rs.Resource(), rs.SchemaUrl(), &w.resource); err != nil {
				for _, ss := range rs.ScopeSpans().All() {
					w.Refuse(ss.Spans().Len(), err)
				}
				continue
			}
			w.Resource(&w.resource)
			for _, ss := range rs.ScopeSpans().All() {
				w.spans(ss)
			}
		}
	})
}

func (w *writer) spans(ss ptrace.ScopeSpans) {
	list := ss.Spans()
	if err := pdatamap.Scope(ss.Scope(), ss.SchemaUrl(), &w.scope); err != nil {
		w.Refuse(list.Len(), err)
		return
	}
	if !w.Scope(&w.scope, list.Len()) {
		return
	}
	w.order.Reset()
	for _, s := range list.All() {
		trace, span, parent := s.TraceID(), s.SpanID(), s.ParentSpanID()
		up := spanmap.Key{}
		if !parent.IsEmpty() {
			up = keyOf(trace, parent)
		}
		own := keyOf(trace, span)
		w.order.Add(&own, &up)
	}
	for _, i := range w.order.ParentsFirst() {
		if err := pdatamap.Span(list.At(int(i)), &w.span); err != nil {
			w.Refuse(1, err)
			continue
		}
		w.Span(&w.span)
	}
}

func keyOf(trace [16]byte, span [8]byte) (k spanmap.Key) {
	copy(k[:], trace[:])
	copy(k[16:], span[:])
	return k
}

// ConsumeLogs records log records.
func (f *files) ConsumeLogs(ctx context.Context, ld plog.Logs) error {
	size := func() int { return (&plog.ProtoMarshaler{}).LogsSize(ld) }
	return f.take(ctx, size, func(w *writer) {
		for _, rl := range ld.ResourceLogs().All() {
			if err := pdatamap.Resource(rl.Resource(), rl.SchemaUrl(), &w.resource); err != nil {
				for _, sl := range rl.ScopeLogs().All() {
					w.Refuse(sl.LogRecords().Len(), err)
				}
				continue
			}
			w.Resource(&w.resource)
			for _, sl := range rl.ScopeLogs().All() {
				w.logs(sl)
			}
		}
	})
}

func (w *writer) logs(sl plog.ScopeLogs) {
	list := sl.LogRecords()
	if err := pdatamap.Scope(sl.Scope(), sl.SchemaUrl(), &w.scope); err != nil {
		w.Refuse(list.Len(), err)
		return
	}
	if !w.Scope(&w.scope, list.Len()) {
		return
	}
	for _, l := range list.All() {
		if err := pdatamap.Log(l, &w.log); err != nil {
			w.Refuse(1, err)
			continue
		}
		w.Log(&w.log)
	}
}
