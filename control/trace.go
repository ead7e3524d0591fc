package control

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/ring"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/tracename"
	"github.com/entrace-go/entrace/recorder"
)

// A Trace is the file of a snapshot or a stream, which is being written or was. It is safe for
// concurrent use.
type Trace struct {
	c       *Control
	id      string
	request Request
	cfg     *Config
	tc      *TraceConfig
	began   time.Time
	done    chan struct{}

	// The writer's.
	rec  *recorder.Recorder
	size *sizeTee

	stream atomic.Pointer[ring.Stream]
	timer  *time.Timer // guarded by Control.mu

	mu      sync.Mutex
	named   map[string]bool // providers that are named as off
	path    string
	err     error
	verdict Verdict
}

// ID names the trace in this process.
func (t *Trace) ID() string { return t.id }

// Name returns the name of the trace in the configuration.
func (t *Trace) Name() string { return t.tc.Name }

// Mode returns the mode of the trace.
func (t *Trace) Mode() Mode { return t.tc.mode() }

// Config returns the configuration that the trace began with.
func (t *Trace) Config() *Config { return t.cfg }

// Request returns the request that became the trace.
func (t *Trace) Request() Request { return t.request }

// Path returns the path of the file. The file of a stream exists when the stream has
// ended. While the verdict is [VerdictUnfinished] it is the path of the IET.
func (t *Trace) Path() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.path
}

func (t *Trace) setPath(path string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.path = path
}

// StartTime returns when the trace began.
func (t *Trace) StartTime() time.Time { return t.began }

// Done returns a channel that is closed when the trace is finished.
func (t *Trace) Done() <-chan struct{} { return t.done }

// Stop ends a stream, as [Control.Stop] does, and reports whether it ran.
func (t *Trace) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.c.endStream(t, endStopped, "")
}

// Verdict returns [VerdictStarted] for a trace that is running or finished, [VerdictUnfinished] if its
// ET could not be made yet, and [VerdictConditionUnmet] or [VerdictFailed] if it was not kept.
func (t *Trace) Verdict() Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.verdict
}

// Err returns the errors of the trace. A trace that was kept has an error if that cost
// records, which its last entry counts.
func (t *Trace) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *Trace) finish(v Verdict, err error) {
	t.mu.Lock()
	t.verdict, t.err = v, errors.Join(t.err, err)
	t.mu.Unlock()
	close(t.done)
}

// An endReason says why a stream ended. Part of the traces.
type endReason string

const (
	endStopped  endReason = "stopped"
	endAborted  endReason = "aborted"
	endTimeout  endReason = "timeout"
	endMaxBytes endReason = "max_bytes"
	endShutdown endReason = "shutdown"
)

// The names of entries of a trace itself, below the first one. Part of the traces.
const (
	nameTraceEnd    = "trace end"    // the last one, of a stream
	nameProviderOff = "provider off" // where a provider could not go on

	target = "github.com/entrace-go/entrace/control"
)

// begin makes the file of a trace that the limits allow. The writer calls it.
func (c *Control) begin(t *Trace) error {
	r := &t.request
	c.mu.Lock()
	rests := c.limitOf(t.tc).rests(r, time.Now()) // the one before has failed meanwhile
	c.mu.Unlock()
	if rests {
		c.forget(t)
		c.verdicts.count(r.Trigger, VerdictRateLimited)
		return &DeniedError{Request: *r, Verdict: VerdictRateLimited, Trace: t.tc.Name}
	}
	name := c.dir.NewName(t.began, t.tc.Name, r.Manual)
	t.id, t.path = strings.TrimSuffix(name, tracename.ET), filepath.Join(c.dir.Dir(), name)
	v, err := VerdictStarted, error(nil)
	if t.tc.mode() == ModeStream {
		if err = c.beginStream(t); err != nil {
			v = VerdictFailed
		}
	} else {
		v, err = c.snapshot(t)
	}
	c.verdicts.count(r.Trigger, v)
	if t.tc.mode() != ModeStream || v != VerdictStarted { // a stream that started goes on
		c.conclude(t, v, err)
	}
	if v != VerdictStarted && v != VerdictUnfinished {
		c.forget(t)
		return &DeniedError{Request: *r, Verdict: v, Trace: t.tc.Name, Err: err}
	}
	return nil
}

// forget removes a trace that has not begun from the streams and from the watchdog.
func (c *Control) forget(t *Trace) {
	c.mu.Lock()
	c.running = slices.DeleteFunc(c.running, func(other *Trace) bool { return other == t })
	c.mu.Unlock()
	if t.request.Trigger == TriggerWatchdog {
		c.watchdog.forget(t.request.Span)
	}
}

// conclude counts a trace that is over, reports its error and calls OnTrace.
func (c *Control) conclude(t *Trace, v Verdict, err error) {
	c.mu.Lock()
	switch v {
	case VerdictStarted:
		c.account.kept++
	case VerdictUnfinished:
		c.account.unfinished++
	case VerdictFailed:
		c.account.lost++
	}
	if l := c.limitOf(t.tc); err == nil {
		l.fails = 0
	} else {
		l.failed(time.Now())
	}
	c.mu.Unlock()
	if err != nil {
		c.report(fmt.Errorf("trace %s: %w", t.tc.Name, err))
	}
	t.finish(v, err)
	c.callOnTrace(t)
}

// callOnTrace calls OnTrace with a trace that is finished.
func (c *Control) callOnTrace(t *Trace) {
	if c.o.OnTrace != nil {
		c.callbacks.offer(func() { c.o.OnTrace(t) })
	}
}

// head returns the entry of the trace itself.
func (t *Trace) head() *format.TraceEntry {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Target: target, Level: format.LevelInfo}}
	text := func(name, value string) {
		if value != "" {
			e.Attributes = append(e.Attributes, format.Attribute{Name: name, Value: format.StringValue(value)})
		}
	}
	text("trigger", string(t.request.Trigger))
	text("key", cut(t.request.Key))
	text("reason", cut(t.request.Reason))
	text("config.id", t.cfg.ID)
	text("config.name", t.tc.Name)
	text("mode", string(t.tc.mode()))
	e.Attributes = append(e.Attributes, format.Attribute{Name: mapping.AttrProcessID, Value: format.U64Value(uint64(os.Getpid()))})
	text(mapping.AttrHostName, tracedir.Host())
	text("providers", t.tc.Providers.String())
	if t.request.Manual {
		e.Attributes = append(e.Attributes, format.Attribute{Name: "manual", Value: format.BoolValue(true)})
	}
	e.Attributes = append(e.Attributes, format.Attribute{Name: format.AttrTime, Value: format.TimeValue(t.began)})
	if t.request.Span.IsValid() {
		// Not as the ids of a span, which would make it one.
		text("request.trace_id", fmt.Sprintf("%x", t.request.Span.TraceID))
		text("request.span_id", fmt.Sprintf("%x", t.request.Span.SpanID))
	}
	if t.request.Took > 0 {
		e.Attributes = append(e.Attributes, format.Attribute{Name: "request.took_nano", Value: format.U64Value(uint64(t.request.Took))})
	}
	for _, a := range t.request.Attrs {
		name := "request.attr." + a.Key
		e.Attributes = append(e.Attributes, format.Attribute{Name: name, Value: attrValue(a.Value)})
	}
	return e
}

// maxText bounds the texts of a request in the trace's entry.
const maxText = 4 << 10

func cut(s string) string { return text.Cut(s, maxText) }

// attrValue returns the value of a request's attribute.
func attrValue(v slog.Value) (out format.Value) {
	defer func() {
		if p := recover(); p != nil { // a LogValuer's
			out = format.StringValue("!PANIC")
		}
	}()
	switch v = v.Resolve(); v.Kind() {
	case slog.KindBool:
		return format.BoolValue(v.Bool())
	case slog.KindInt64:
		return format.I64Value(v.Int64())
	case slog.KindDuration:
		return format.I64Value(int64(v.Duration()))
	case slog.KindUint64:
		return format.U64Value(v.Uint64())
	case slog.KindFloat64:
		return format.FloatValue(v.Float64())
	}
	return format.StringValue(cut(v.String()))
}

// addDropped adds the counts of dropped records to e.
func addDropped(e *format.TraceEntry, d *recorder.Dropped) {
	d.Each(func(reason string, n uint64) {
		e.Attributes = append(e.Attributes, format.Attribute{Name: "dropped." + reason, Value: format.U64Value(n)})
	})
}

// child writes an entry below the trace's own.
func child(rec *recorder.Recorder, e *format.TraceEntry, at time.Time) error {
	e.Attributes = append(e.Attributes, format.Attribute{Name: format.AttrTime, Value: format.TimeValue(at)})
	return write(rec, childProvider, format.SpanRef{}, at, e)
}

// childProvider is a number that is neither spans nor logs: entries of a trace
// itself go to its recorder alone.
const childProvider = record.MaxProviders - 1

// write records an entry of a provider.
func write(rec *recorder.Recorder, p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	b := rec.Batch()
	b.Log(ref, at.UnixNano())
	b.SetProvider(p)
	b.Entry(e)
	return b.Write()
}

// off writes to the trace that a provider cannot go on, once.
func (t *Trace) off(p Set, err error) {
	name := p.String()
	t.mu.Lock()
	known := t.named[name]
	t.named[name] = true
	t.mu.Unlock()
	if known {
		return
	}
	e := &format.TraceEntry{
		Message:  format.Some(name + ": " + cut(err.Error())),
		Metadata: format.Metadata{Name: nameProviderOff, Target: target, Level: format.LevelWarn},
	}
	e.Attributes = append(e.Attributes,
		format.Attribute{Name: "provider", Value: format.StringValue(name)},
		format.Attribute{Name: "error", Value: format.StringValue(cut(err.Error()))})
	_ = child(t.rec, e, time.Now()) // kept and counted
}

// discard removes the file of the trace.
func (t *Trace) discard() error {
	stream := t.rec.StreamPath()
	_ = t.rec.Close(dead) // it leaves the IET, which is the error
	err := os.Remove(stream)
	return errors.Join(osfile.Ignore(err, os.ErrNotExist), osfile.Ignore(os.Remove(stream+tracename.Journal), os.ErrNotExist))
}

// A sizeTee calls full when a stream has most bytes.
type sizeTee struct {
	most int64
	full func()
	size atomic.Int64
	told bool
}
