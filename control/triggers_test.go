package control_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/httpapi"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

func onError() []control.On {
	return []control.On{{Trigger: control.TriggerLog, Level: slog.LevelError}}
}

// sum returns the number of requests of a trigger.
func sum(s control.Stats, trigger control.Trigger) (n uint64) {
	for _, k := range s.Verdicts[trigger] {
		n += k
	}
	return n
}

// TestFirstError checks which records are in the trace of an error. It uses a fake clock, so that times are exact.
func TestFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 30 * time.Second
		cfg := base(t.TempDir(), control.Spans|control.Logs, control.TraceConfig{
			Name: "first-error", On: onError(), Providers: control.Spans | control.Logs, Window: window, Every: time.Minute,
		})
		cfg.Ring.Bytes = 16 << 20
		r := rigOf(t, cfg)
		for range 100 {
			r.log.Debug("too old")
		}
		time.Sleep(window + time.Second)
		const debugs = 10_000
		for range debugs {
			r.log.Debug("of the window")
			time.Sleep(time.Millisecond)
		}
		ctx, span := r.tracer.Start(context.Background(), "request")
		r.log.WarnContext(ctx, "no reason")
		r.log.ErrorContext(ctx, "the reason", "code", 7)
		synctest.Wait()
		w := r.last(1)
		m := w.messages()
		if m["of the window"] != debugs || m["the reason"] != 1 || m["no reason"] != 1 || m["too old"] != 0 {
			t.Errorf("the trace has %d records of the window, %d of the error, %d too old", m["of the window"], m["the reason"], m["too old"])
		}
		if got, _ := time.ParseDuration(w.attr(w.head, "window.got_nano") + "ns"); got != window {
			t.Errorf("the window is %v, want %v", got, window)
		}
		if w.attr(w.head, "key") != "the reason" || w.attr(w.head, "trigger") != "log" {
			t.Errorf("the reason is %s %q", w.attr(w.head, "trigger"), w.attr(w.head, "key"))
		}
		if want := span.SpanContext().SpanID().String(); w.attr(w.head, "request.span_id") != want {
			t.Errorf("the trace is of span %s, want %s", w.attr(w.head, "request.span_id"), want)
		}
		for i := range w.entries {
			if w.entries[i].Message.Value == "the reason" && w.up(uint32(i)) != w.one("request") {
				t.Errorf("the error is below %d", w.up(uint32(i)))
			}
		}
		span.End()

		const errs = 1000
		for range errs {
			r.log.Error("storm")
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		r.wait(1)
		time.Sleep(time.Minute)
		r.log.Error("after a minute")
		synctest.Wait()
		w = r.last(2)
		expect.Equal(t, w.messages()["after a minute"], 1, "times that the second trace has the error")
		if n := sum(r.ctl.Stats(), control.TriggerLog); n != errs+2 {
			t.Errorf("%d verdicts, want one for each of %d errors: %v", n, errs+2, r.ctl.Stats().Verdicts)
		}
		r.quiet()
	})
}

// TestErrorStorm logs errors from many goroutines at once, with the real clock. Only one trace is made.
func TestErrorStorm(t *testing.T) {
	r := rigOf(t, base(t.TempDir(), control.Logs, control.TraceConfig{
		Name: "error", On: onError(), Providers: control.Logs, Every: time.Hour,
	}))
	const goroutines, each = 8, 500
	done := make(chan bool)
	for range goroutines {
		go func() {
			for range each {
				r.log.Error("storm")
			}
			done <- true
		}()
	}
	for range goroutines {
		<-done
	}
	eventually(t, "a verdict for each", func() bool { return sum(r.ctl.Stats(), control.TriggerLog) == goroutines*each })
	w := r.last(1)
	if w.messages()["storm"] == 0 {
		t.Error("the error is not in the trace that it asked for")
	}
	if n := r.ctl.Stats().Verdicts[control.TriggerLog][control.VerdictStarted]; n != 1 {
		t.Errorf("%d were started, want 1", n)
	}
	r.quiet()
}

// TestLogHandler checks that LogHandler requests traces for records of another handler.
func TestLogHandler(t *testing.T) {
	r := rigOf(t, base(t.TempDir(), control.Logs, control.TraceConfig{
		Name: "error", On: onError(), Providers: control.Logs,
	}))
	elsewhere := slog.New(r.ctl.LogHandler(slog.NewTextHandler(io.Discard, nil))).With("a", 1).WithGroup("g")
	elsewhere.Warn("no reason")
	elsewhere.Error("the reason")
	w := r.last(1)
	expect.Equal(t, w.attr(w.head, "key"), "the reason", "the reason")
}

// TestSlowSpan ends spans below and above the limit.
func TestSlowSpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rigOf(t, base(t.TempDir(), control.Spans, control.TraceConfig{
			Name: "slow", Providers: control.Spans,
			On: []control.On{{Trigger: control.TriggerSpan, Key: "POST *", LongerThan: 800 * time.Millisecond}},
		}))
		for _, span := range []struct {
			name  string
			takes time.Duration
		}{{"POST /fast", 800 * time.Millisecond}, {"GET /slow", 900 * time.Millisecond}, {"POST /slow", 900 * time.Millisecond}} {
			expect.MustEqual(t, len(r.traces()), 0, "traces before %s", span.name)
			_, s := r.tracer.Start(context.Background(), span.name)
			time.Sleep(span.takes)
			s.End()
			synctest.Wait()
		}
		w := r.last(1)
		id := w.one("POST /slow")
		if d, ended := w.ended(id); !ended || d != 900*time.Millisecond {
			t.Errorf("the span has taken %v, ended: %t", d, ended)
		}
		if got := w.number(w.head, "request.took_nano"); got != int64(900*time.Millisecond) {
			t.Errorf("the request is of a span of %v", time.Duration(got))
		}
		r.quiet()
	})
}

// blockedHere blocks until release is closed. Tests look for its name in stacks.
//
//go:noinline
func blockedHere(release <-chan struct{}) { <-release }

// TestHang checks that the watchdog requests a trace while the span is open, and that the end of the span
// requests no other.
func TestHang(t *testing.T) {
	const limit = 100 * time.Millisecond
	r := rigOf(t, base(t.TempDir(), control.Spans, control.TraceConfig{
		Name: "hang", Providers: control.Spans | control.Goroutines,
		On: []control.On{
			{Trigger: control.TriggerWatchdog, Key: "hangs", LongerThan: limit}, {Trigger: control.TriggerSpan, Key: "hangs", LongerThan: limit},
		},
	}))
	release, done := make(chan struct{}), make(chan struct{})
	var ref format.SpanRef
	began := make(chan struct{})
	go func() {
		defer close(done)
		_, span := r.tracer.Start(context.Background(), "hangs")
		sc := span.SpanContext()
		ref = format.SpanRef{TraceID: sc.TraceID(), SpanID: sc.SpanID()}
		close(began)
		blockedHere(release)
		span.End()
	}()
	<-began
	w := r.last(1)
	row, there := w.v.Span(ref)
	_, id := w.v.ID(row)
	if !there {
		t.Fatal("the span is not in the trace")
	}
	if _, ended := w.ended(id); ended {
		t.Error("the span has ended")
	}
	if got := w.number(w.head, "request.took_nano"); got <= int64(limit) {
		t.Errorf("the span was open for %v, want more than %v", time.Duration(got), limit)
	}
	found := false
	for _, g := range w.named("goroutines") {
		blocked := false
		for _, a := range w.entries[g].Attributes {
			blocked = blocked || strings.Contains(a.Value.Text(), "control_test.blockedHere")
			if own := "entrace/control.(*"; strings.Contains(a.Value.Text(), own) && !strings.Contains(a.Value.Text(), "control_test.") {
				t.Errorf("a goroutine of our own is told: %s", a.Value.Text())
			}
		}
		if blocked {
			found = true
			if up := w.up(g); up != id {
				t.Errorf("the goroutine is below entry %d, want the span, %d", up, id)
			}
		}
	}
	if !found {
		t.Error("no goroutine is in the function that hangs")
	}
	close(release)
	<-done
	eventually(t, "the end of the span has a verdict", func() bool { return sum(r.ctl.Stats(), control.TriggerSpan) == 1 })
	if n := r.ctl.Stats().Verdicts[control.TriggerSpan][control.VerdictCoalesced]; n != 1 {
		t.Errorf("the end of the span asks for another trace: %v", r.ctl.Stats().Verdicts)
	}
	r.wait(1)
	r.quiet()
}

// local sends a request that seems to come from this machine.
func local(h http.Handler, method, target string) *httptest.ResponseRecorder {
	q := httptest.NewRequest(method, target, http.NoBody)
	q.RemoteAddr, q.Host = "127.0.0.1:4711", "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, q)
	return w
}

// TestAskByHTTP requests traces over HTTP.
func TestAskByHTTP(t *testing.T) {
	r := rigOf(t, base(t.TempDir(), control.Logs,
		control.TraceConfig{Name: "asked", Providers: control.Logs, On: []control.On{{Trigger: control.TriggerHTTP}}, Every: time.Hour},
		control.TraceConfig{Name: "deep", Mode: control.ModeStream, Providers: control.Logs, On: []control.On{{Trigger: control.TriggerHTTP}}}))
	h := httpapi.New(r.ctl, nil)
	r.log.Info("before")
	for _, s := range []struct {
		method, target string
		status, traces int // the status of the response, and the number of traces after the request
	}{
		{"GET", "/", 200, 0},
		{"POST", "/snapshot?window=x", 400, 0},
		{"POST", "/snapshot?window=30s", 201, 1},
		{"POST", "/snapshot", 429, 1},
		{"POST", "/snapshot?manual=1", 201, 2},
		{"POST", "/start?config=deep&for=1h", 201, 2},
	} {
		w := local(h, s.method, s.target)
		expect.Equal(t, w.Code, s.status, "%s %s answers %s", s.method, s.target, w.Body)
		files := traceFiles(t, r.ctl.Dir()) // a snapshot is finished before the response
		expect.MustEqual(t, len(files), s.traces, "traces after %s %s", s.method, s.target)
		if w.Code == 201 && strings.HasPrefix(s.target, "/snapshot") {
			file := tracetest.ReadFile(t, files[s.traces-1])
			if got := local(h, "GET", "/"+w.Header().Get("Location")); got.Code != 200 || got.Body.String() != string(file) {
				t.Errorf("GET %s answers %d and %d bytes, want the file's %d", w.Header().Get("Location"), got.Code, got.Body.Len(), len(file))
			}
		}
	}
	running := r.ctl.Running()
	expect.MustEqual(t, len(running), 1, "streams run")
	if w := local(h, "POST", "/stop/"+running[0].ID); w.Code != 200 {
		t.Errorf("stop answers %d: %s", w.Code, w.Body)
	}
	for i, trace := range r.wait(3) {
		w := everyLink(t, trace.Path())
		expect.Equal(t, w.attr(w.head, "manual") == "true", i == 1, "the trace is by hand")
	}
	r.wait(3)
	r.quiet()
}

// TestHandlerPanics checks the traces of handlers that panic with various values.
func TestHandlerPanics(t *testing.T) {
	r := rigOf(t, base(t.TempDir(), control.Spans|control.Logs, control.TraceConfig{
		Name: "panic", Providers: control.Spans | control.Logs, On: []control.On{{Trigger: control.TriggerPanic}},
	}))
	serve := func(value any) (got any) {
		defer func() { got = recover() }()
		h := http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
			ctx, span := r.tracer.Start(q.Context(), "handler")
			defer span.End()
			defer r.ctl.CapturePanic()
			_, last := r.tracer.Start(ctx, "the last one")
			last.End()
			r.log.InfoContext(ctx, "soon")
			panicsHere(value)
		})
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody))
		return nil
	}
	expect.Equal(t, serve(http.ErrAbortHandler), any(http.ErrAbortHandler), "the panic went on")
	expect.Equal(t, len(r.traces()), 0, "traces of a request that was given up")
	type odd struct{ n int }
	for i, value := range []any{"on purpose", io.ErrUnexpectedEOF, odd{3}, unprintable{}} {
		expect.Equal(t, serve(value), value, "the panic went on")
		w := r.last(i + 1)
		text := fmt.Sprint(value) // even if String of the value panics
		found := false
		for id := range w.entries {
			e := &w.entries[id]
			if e.Message.Value == "panic: "+text && e.Metadata.Name == "event panic" {
				found = found || strings.Contains(attrText(e, "exception.stacktrace"), "panicsHere") && attrText(e, "exception.message") == text
			}
		}
		if !found {
			t.Errorf("the trace has not the panic %q with its stack", text)
		}
		expect.Equal(t, w.attr(w.head, "key"), text, "the key")
		if n := len(w.named("the last one")); n != i+2 {
			t.Errorf("the trace has %d of the last spans, want %d", n, i+2)
		}
		open := 0
		for _, id := range w.named("handler") {
			if _, ended := w.ended(id); !ended {
				open++
			}
		}
		if open != 1 {
			t.Errorf("%d handlers are open, want the one that panics", open)
		}
	}
	r.ctl.CapturePanic() // does nothing without a panic
	var none *control.Control
	func() {
		defer func() {
			if got := recover(); got != "through" {
				t.Errorf("a panic comes through a nil control as %v", got)
			}
		}()
		defer none.CapturePanic()
		panic("through")
	}()
	r.wait(4)
	r.quiet()
}

type unprintable struct{}

func (unprintable) Error() string { panic("neither") }

//go:noinline
func panicsHere(value any) { panic(value) }

// TestUnheardTriggers configures triggers for spans and logs, which the ring does not hold. Validate
// accepts such a configuration only if the triggers work.
func TestUnheardTriggers(t *testing.T) {
	triggers := map[string]control.On{
		"log":      {Trigger: control.TriggerLog, Level: slog.LevelError},
		"span":     {Trigger: control.TriggerSpan, LongerThan: time.Nanosecond},
		"watchdog": {Trigger: control.TriggerWatchdog, LongerThan: time.Nanosecond},
	}
	for name, on := range triggers {
		for _, mode := range []control.Mode{control.ModeSnapshot, control.ModeStream} {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := base(t.TempDir(), control.RuntimeMetrics, control.TraceConfig{
						Name: "x", Mode: mode, Providers: control.RuntimeMetrics, On: []control.On{on},
					})
					if err := cfg.Validate(); err != nil {
						return
					}
					r := rigOf(t, cfg)
					_, span := r.tracer.Start(context.Background(), "span")
					time.Sleep(time.Second)
					span.End()
					r.log.Error("the reason")
					synctest.Wait()
					if n := r.ctl.Stats().Verdicts[on.Trigger][control.VerdictStarted]; n == 0 {
						t.Error("the trigger is not heard, and the configuration is taken all the same")
					}
					r.end()
				})
			})
		}
	}
}
