package control_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// panicRig returns a rig with the configuration that Env has for panics.
func panicRig(t *testing.T) *rig {
	t.Helper()
	cfg, err := control.Env("PANICS", t.TempDir(), nil).Config()
	must(t, err)
	cfg.Ring.Bytes, cfg.Ring.Persist = 4<<20, false
	return rigOf(t, cfg)
}

// serve sends one request to a real server with the handler h. The server logs to the rig, at level ERROR.
func (r *rig) serve(h http.HandlerFunc) {
	r.t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = slog.NewLogLogger(r.log.Handler(), slog.LevelError)
	s.Start()
	defer s.Close()
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, s.URL, http.NoBody)
	must(r.t, err)
	if a, err := http.DefaultClient.Do(q); err == nil {
		_ = a.Body.Close()
	}
}

// TestPanicOfAHandlerMakesASnapshot checks that the panic of a handler makes exactly one trace, with or
// without a span. The reason of the trace names the panic.
func TestPanicOfAHandlerMakesASnapshot(t *testing.T) {
	var m map[string]int
	for _, c := range []struct {
		name   string
		reason string
		span   bool
		h      func(r *rig) http.HandlerFunc
	}{
		{"in a span", "panic in compute: assignment to entry in nil map (request GET /panic, trace ID)", true, func(r *rig) http.HandlerFunc {
			return func(_ http.ResponseWriter, q *http.Request) {
				ctx, outer := r.tracer.Start(q.Context(), "GET /panic")
				defer outer.End()
				_, inner := r.tracer.Start(ctx, "compute")
				defer inner.End()
				m["a"] = 1
			}
		}},
		{"with a stack", "panic in GET /panic: no such page (trace ID)", true, func(r *rig) http.HandlerFunc {
			return func(_ http.ResponseWriter, q *http.Request) {
				_, s := r.tracer.Start(q.Context(), "GET /panic")
				defer s.End(trace.WithStackTrace(true))
				panic("no such page")
			}
		}},
		{"without a span", "panic: no such page", false, func(*rig) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { panic(errors.New("no such page")) }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := panicRig(t)
			r.serve(c.h(r))
			w := r.last(1)
			want := strings.Replace(c.reason, "ID", w.attr(w.head, "request.trace_id"), 1)
			expect.Equal(t, w.attr(w.head, "reason"), want, "the reason")
			expect.Equal(t, w.attr(w.head, "trigger"), string(control.TriggerPanic), "the trigger")
			expect.Equal(t, w.attr(w.head, "request.span_id") != "", c.span, "it names its span")
			r.quiet()
			r.wait(1) // the other reports of the panic have made no trace
		})
	}
}

// TestHandledErrorsMakeNoSnapshot checks that errors that a span records, and an aborted request, do not
// count as panics.
func TestHandledErrorsMakeNoSnapshot(t *testing.T) {
	r := panicRig(t)
	r.serve(func(_ http.ResponseWriter, q *http.Request) {
		_, s := r.tracer.Start(q.Context(), "handled")
		s.RecordError(errors.New("no such page"), trace.WithStackTrace(true))
		s.End()
		_, s = r.tracer.Start(q.Context(), "late")
		s.RecordError(errors.New("no such page"), trace.WithTimestamp(time.Now().Add(time.Hour)))
		s.End()
		func() {
			_, s := r.tracer.Start(q.Context(), "recovered before its end")
			defer s.End()
			defer func() { s.RecordError(recover().(error)) }()
			panic(errors.New("handled"))
		}()
		r.log.InfoContext(q.Context(), "somebody said: http: panic serving nothing")
		_, s = r.tracer.Start(q.Context(), "given up")
		defer s.End()
		panic(http.ErrAbortHandler)
	})
	must(t, r.p.Recorder().Flush(context.Background()))
	r.quiet()
	for _, tr := range r.traces() {
		t.Errorf("there is a trace: %s", tr.Request.Reason)
	}
	if got := r.ctl.Stats().Verdicts[control.TriggerPanic]; len(got) > 0 {
		t.Errorf("of panics there is %v", got)
	}
}

// TestPanicsAreLimited checks that the rate limits apply to different panics together.
func TestPanicsAreLimited(t *testing.T) {
	r := panicRig(t)
	for i := range 5 {
		r.serve(func(_ http.ResponseWriter, q *http.Request) {
			_, s := r.tracer.Start(q.Context(), "GET /panic")
			defer s.End()
			panic(strings.Repeat("again ", i+1))
		})
	}
	r.wait(1)
	r.quiet()
	expect.Equal(t, len(r.traces()), 1, "traces")
}
