package control_test

import (
	"context"
	"fmt"
	"reflect"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A foreignContext is a context of a type that package context does not know. Package context therefore
// starts a goroutine that waits for its end.
type foreignContext struct {
	context.Context
	done chan struct{}
}

func (c foreignContext) Done() <-chan struct{} { return c.done }

func (c foreignContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// TestStackIsBelowTheSpanThatWaits requests a snapshot with the trigger watchdog while a span inside a request waits.
// It checks which span the stack is below, and which place the reason names.
func TestStackIsBelowTheSpanThatWaits(t *testing.T) {
	here := runtime.FuncForPC(reflect.ValueOf(blockedHere).Pointer())
	_, line := here.FileLine(here.Entry())
	place := fmt.Sprintf(", at %s triggers_test.go:%d", here.Name(), line)
	for _, c := range []struct {
		name   string
		helper func(ctx context.Context, tracer trace.Tracer, release chan struct{})
		below  string // the name of the span that has the stack
		where  string // the end of the reason
	}{
		{"one goroutine", func(context.Context, trace.Tracer, chan struct{}) {}, "transfer", ", now in transfer" + place},
		{"and one of the standard library", func(_ context.Context, _ trace.Tracer, release chan struct{}) {
			context.AfterFunc(foreignContext{context.Background(), release}, func() {})
		}, "transfer", ", now in transfer" + place},
		{"and one of the program", func(_ context.Context, _ trace.Tracer, release chan struct{}) {
			go func() { <-release }()
		}, "GET /b", ", now in transfer"},
		{"a worker without a span waits for a lock", func(_ context.Context, _ trace.Tracer, release chan struct{}) {
			var mu sync.Mutex
			mu.Lock()
			for _, f := range []func(){mu.Lock, func() { <-release; mu.Unlock() }} {
				go func() { pprof.SetGoroutineLabels(context.Background()); f() }()
			}
			for b := ""; !strings.Contains(b, "sync.(*Mutex).Lock"); {
				var w strings.Builder
				_ = pprof.Lookup("goroutine").WriteTo(&w, 1)
				b = w.String()
			}
		}, "GET /b", place + ", and transfer below it"},
		{"several open children", func(ctx context.Context, tracer trace.Tracer, _ chan struct{}) {
			_, _ = tracer.Start(ctx, "audit")
		}, "GET /b", place},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rigOf(t, base(t.TempDir(), control.Spans, control.TraceConfig{
				Name: "hang", Providers: control.Spans | control.Goroutines,
				On: []control.On{{Trigger: control.TriggerWatchdog, LongerThan: time.Hour}},
			}))
			release, done := make(chan struct{}), make(chan struct{})
			root := make(chan trace.SpanContext, 1)
			go func() {
				defer close(done)
				ctx, get := r.tracer.Start(context.Background(), "GET /b")
				c.helper(ctx, r.tracer, release)
				_, transfer := r.tracer.Start(ctx, "transfer")
				root <- get.SpanContext()
				blockedHere(release)
				transfer.End()
				get.End()
			}()
			sc := <-root
			eventually(t, "the goroutines wait", func() bool {
				var b strings.Builder
				must(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
				return strings.Contains(b.String(), "control_test.blockedHere")
			})
			w := everyLink(t, r.start(control.Request{
				Trigger: control.TriggerWatchdog, Key: "GET /b", Reason: "span GET /b is open for 2h0m0s", Took: 2 * time.Hour, Manual: true,
				Span: format.SpanRef{TraceID: sc.TraceID(), SpanID: sc.SpanID()},
			}).Path())
			close(release)
			<-done
			got := ""
			for _, g := range w.named("goroutines") {
				if strings.HasSuffix(w.entries[g].Message.Value, "control_test.blockedHere") {
					got = w.entries[w.up(g)].Metadata.Name
				}
			}
			expect.Equal(t, got, c.below, "the stack is below")
			want := "span GET /b is open for 2h0m0s"
			want += c.where
			want += fmt.Sprintf(" (trace %s)", sc.TraceID())
			expect.Equal(t, w.attr(w.head, "reason"), want, "the reason")
		})
	}
}

// TestReasonNamesTheRequest checks that the reason of a trace names the span that began the request.
func TestReasonNamesTheRequest(t *testing.T) {
	for _, mode := range []control.Mode{control.ModeSnapshot, control.ModeStream} {
		t.Run(string(mode), func(t *testing.T) {
			r := rigOf(t, base(t.TempDir(), control.Spans|control.Logs, control.TraceConfig{
				Name: "error", Mode: mode, Providers: control.Spans | control.Logs, On: onError(),
			}))
			ctx, get := r.tracer.Start(context.Background(), "GET /orders")
			ctx, price := r.tracer.Start(ctx, "price")
			r.log.ErrorContext(ctx, "pricing failed")
			eventually(t, "there is a trace", func() bool { return len(r.ctl.Running())+len(r.traces()) > 0 })
			price.End()
			get.End()
			must(t, r.ctl.Shutdown(t.Context()))
			w := everyLink(t, r.traces()[0].Path())
			want := "ERROR: pricing failed (request GET /orders, trace " + get.SpanContext().TraceID().String() + ")"
			expect.Equal(t, w.attr(w.head, "reason"), want, "the reason")
		})
	}
}
