package control

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// logged requests a trace for a log record of the ring if a trigger may match it.
func (c *Control) logged(s *ring.LogEvent) {
	f := c.rules.Load()
	if text, is := ring.ServedPanic(s.Message); is && f != nil && len(f.by[TriggerPanic]) > 0 {
		c.firePanic(text, "panic: "+text, s.Span)
		return
	}
	if f == nil || s.Level < f.noticed {
		return
	}
	c.Fire(Request{
		Trigger: TriggerLog, Key: s.Message, Reason: s.Level.String() + ": " + s.Message, Span: s.Span, Level: mapping.SlogLevel(uint8(s.Level)),
	})
}

// LogHandler returns a handler that passes records to next, and requests a trace for records that the
// triggers log and panic match. Use it only if no handler records to the control's ring: log records in the
// ring already make requests.
func (c *Control) LogHandler(next slog.Handler) slog.Handler {
	if c == nil {
		return next
	}
	return logHandler{next, c}
}

type logHandler struct {
	slog.Handler

	c *Control
}

func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if text, is := ring.ServedPanic(r.Message); is {
		h.c.firePanic(text, "panic: "+text, format.SpanRef{})
	}
	if f := h.c.rules.Load(); format.Level(mapping.Level(r.Level)) >= f.noticed {
		h.c.Fire(Request{Trigger: TriggerLog, Key: r.Message, Reason: r.Level.String() + ": " + r.Message, Level: r.Level})
	}
	return err
}

func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs), h.c}
}

func (h logHandler) WithGroup(name string) slog.Handler {
	return logHandler{h.Handler.WithGroup(name), h.c}
}

// spanEnded requests a trace if a span was slow, unless the watchdog has already requested a trace for this span. It
// also requests a trace if a panic other than [http.ErrAbortHandler] ended the span. For other spans it costs one
// atomic load.
func (c *Control) spanEnded(e *record.Event) {
	name, span := e.Message, format.SpanRef{TraceID: [16]byte(e.Ref.TraceID()), SpanID: [8]byte(e.Ref.SpanID())}
	f := c.rules.Load()
	if f != nil && e.Took > f.slow {
		if c.watchdog.hasTrace(span) { // the trace of the watchdog is enough
			c.verdicts.count(TriggerSpan, VerdictCoalesced)
		} else {
			c.Fire(Request{
				Trigger: TriggerSpan, Key: name, Span: span, Took: e.Took, Reason: fmt.Sprintf("span %s took %v", name, e.Took),
			})
		}
	}
	if e.Panicked && e.Panic != http.ErrAbortHandler.Error() {
		c.firePanic(e.Panic, "panic in "+name+": "+e.Panic, span)
	}
}

func init() {
	flightrecorder.Of = func(c any) flightrecorder.Recorder { return spanTriggers{c.(*Control)} }
}

// A spanTriggers implements flightrecorder.Recorder for a control, which may be nil.
type spanTriggers struct{ *Control }

func (c *Control) firePanic(text, reason string, span format.SpanRef) {
	if f := c.rules.Load(); f == nil || len(f.by[TriggerPanic]) == 0 {
		return
	}
	text = cut(text)
	first, only := c.panics.first(text, time.Now())
	if !first {
		c.verdicts.count(TriggerPanic, VerdictCoalesced)
		return
	}
	r := Request{Trigger: TriggerPanic, Key: text, Reason: cut(reason), Span: span}
	if only { // if there are many panics, do not search the open spans for each one
		_, r.request = c.watchdog.openTree().request(span.TraceID) // search now, because the panic is about to end the outer span as well
	}
	c.Fire(r)
}

// WantsLabels returns true for all spans while a CPU profile runs. Otherwise it returns true for spans
// without a parent in this process, if a trace of the configuration has the provider goroutines.
func (c spanTriggers) WantsLabels(first bool) bool {
	if c.Control == nil {
		return false
	}
	if first {
		if f := c.rules.Load(); f != nil && f.dumps {
			return true
		}
	}
	return c.Enabled(CPUProfile)
}

// WantsMarks reports whether spans should write their ids to an execution trace.
func (c spanTriggers) WantsMarks() bool {
	if c.Control == nil {
		return true
	}
	f := c.rules.Load()
	return f == nil || f.marks
}

// WatchSpans registers a function through which the watchdog finds the open spans. stop removes the function.
func (c spanTriggers) WatchSpans(spans openSpans) (stop func()) {
	if c.Control == nil {
		return func() {}
	}
	w := &c.watchdog
	w.spansMu.Lock()
	defer w.spansMu.Unlock()
	own := &spans
	w.spans = append(w.spans, own)
	return func() {
		w.spansMu.Lock()
		defer w.spansMu.Unlock()
		w.spans = slices.DeleteFunc(slices.Clone(w.spans), func(s *openSpans) bool { return s == own })
	}
}

// maxFires is the maximum number of requests in a sweep. Fire counts requests for the same trace as one.
const maxFires = 1000

// sweep calls Fire for each span that has been open for too long, once for each rule. Only the watchdog's goroutine
// calls it.
func (c *Control) sweep(f *rules) {
	w := &c.watchdog
	now := time.Now()
	stuck := make(map[format.SpanRef]time.Duration)
	var fire []Request
	w.each(now.Add(-f.stuck), func(name string, span, _ format.SpanRef, start time.Time) bool {
		took, before := now.Sub(start), w.seen[span]
		for _, rule := range f.by[TriggerWatchdog] {
			if took <= rule.LongerThan || rule.Key != "" && !wildcard(rule.Key, name) {
				continue
			}
			stuck[span] = took
			if before <= rule.LongerThan && len(fire) < maxFires { // the span exceeds the limit for the first time
				fire = append(fire, Request{
					Trigger: TriggerWatchdog, Key: name, Span: span, Took: took,
					Name:   f.cfg.Traces[rule.trace].Name,
					Reason: fmt.Sprintf("span %s is open for %v", name, took.Round(time.Millisecond)),
				})
			}
		}
		return true
	})
	w.prune(stuck)
	w.seen = stuck
	// Requests for one trace count as one. The longest span comes first, because it contains the other spans.
	slices.SortStableFunc(fire, func(a, b Request) int { return cmp.Compare(b.Took, a.Took) })
	for _, r := range fire {
		c.Fire(r)
	}
}

func (c *Control) onSignal(name string) {
	c.Fire(Request{Trigger: TriggerSignal, Key: name, Reason: "signal " + name, Manual: true})
}

// panicTime is the maximum time that a panic waits for its trace.
const panicTime = 2 * time.Second

// CapturePanic must be deferred at the start of a goroutine. It records a panic with its stack and
// requests a trace. When the trace is written, or after 2 s, it panics again with the same value.
// For [http.ErrAbortHandler] it only panics again.
func (c *Control) CapturePanic() {
	if c == nil {
		return // p is not recovered, so the panic continues
	}
	p := recover()
	if p == nil {
		return
	}
	if p != any(http.ErrAbortHandler) { // this comparison calls no method of the value
		c.panicked(p, debug.Stack())
	}
	panic(p)
}

// panicked records the panic p and requests a trace. It must not panic itself.
func (c *Control) panicked(p any, stack []byte) {
	defer func() { _ = recover() }()
	why := safecall.Text(p)
	now := time.Now()
	e := &format.TraceEntry{
		Message:  format.Some("panic: " + cut(why)),
		Metadata: format.Metadata{Name: "event panic", Target: target, Level: format.LevelError},
		Attributes: []format.Attribute{
			{Name: "exception.message", Value: format.StringValue(cut(why))},
			{Name: "exception.stacktrace", Value: format.StringValue(text.Cut(string(stack), maxStack))},
		},
	}
	// This entry causes no request. The recorder counts the entry if it fails.
	_ = traces.WriteTimed(c.ring.Recorder(), record.ProviderLogs, format.SpanRef{}, now, e)
	ctx, cancel := context.WithTimeout(context.Background(), panicTime)
	defer cancel()
	// Spans that this panic ends must not request another trace.
	c.panics.first(cut(why), now)
	_, _ = c.Start(ctx, Request{Trigger: TriggerPanic, Key: why, Reason: "panic: " + why}) // the verdict is counted
}

const maxStack = 32 << 10
