package control

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

// A Trace is a snapshot or a stream: its request, its file, and its state. It is safe for
// concurrent use.
type Trace struct {
	// The exported fields do not change. Callers must not change them.

	ID        string    // the name of the trace in this process
	Name      string    // the name of the trace in the configuration
	Mode      Mode      // ModeSnapshot or ModeStream
	StartTime time.Time // when the trace was requested
	Config    *Config   // the configuration in force when the trace began
	Request   Request   // the request that became the trace

	c    *Control
	tc   *TraceConfig
	done chan struct{}

	// Only the writer uses these fields.
	rec  *recorder.Recorder
	size *sizeTee

	stream atomic.Pointer[ring.Stream]
	timer  *time.Timer // guarded by Control.mu

	mu      sync.Mutex
	named   map[string]bool // providers that have an entry "provider off" in the trace
	path    string
	err     error
	verdict Verdict
}

// Path returns the path of the file. The file of a stream exists only after the stream has ended.
// While the verdict is [VerdictUnfinished], Path returns the path of the IET.
func (t *Trace) Path() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.path
}

// Done returns a channel that is closed when the trace is finished.
func (t *Trace) Done() <-chan struct{} { return t.done }

// Verdict returns [VerdictStarted] for a trace that is running or finished, [VerdictUnfinished] if the ET could not
// be made yet, and [VerdictConditionUnmet] or [VerdictFailed] if the trace was not kept.
func (t *Trace) Verdict() Verdict {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.verdict
}

// Err returns the errors of the trace. If a trace was kept but lost records, it has an error, and the last entry has
// the number of lost records.
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

// An endReason is the reason why a stream ended. The values are stored in traces.
type endReason string

const (
	endStopped  endReason = "stopped"
	endTimeout  endReason = "timeout"
	endMaxBytes endReason = "max_bytes"
	endShutdown endReason = "shutdown"
)

// The names of the control's own entries below the first entry of a trace. They are stored in traces.
const (
	nameTraceEnd    = "trace end"    // the last entry of a stream
	nameProviderOff = "provider off" // a provider failed

	target = "github.com/entrace-go/entrace/control"
)

// head returns the first entry of the trace, which describes the trace.
func (t *Trace) head() *format.TraceEntry {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Target: target, Level: format.LevelInfo}}
	text := func(name, value string) {
		if value != "" {
			e.Add(name, format.StringValue(value))
		}
	}
	text("trigger", string(t.Request.Trigger))
	text("key", cut(t.Request.Key))
	text("reason", cut(t.Request.Reason))
	text("config.id", t.Config.ID)
	text("config.name", t.Name)
	text("mode", string(t.Mode))
	e.Add(mapping.AttrProcessID, format.U64Value(uint64(os.Getpid())))
	text(mapping.AttrHostName, traces.Host())
	text("providers", t.tc.Providers.String())
	if t.Request.Manual {
		e.Add("manual", format.BoolValue(true))
	}
	e.Add(format.AttrTime, format.TimeValue(t.StartTime))
	if t.Request.Span.IsValid() {
		// With the names trace_id and span_id, the entry would be a span.
		text("request.trace_id", fmt.Sprintf("%x", t.Request.Span.TraceID))
		text("request.span_id", fmt.Sprintf("%x", t.Request.Span.SpanID))
	}
	if t.Request.Took > 0 {
		e.Add("request.took_nano", format.U64Value(uint64(t.Request.Took)))
	}
	for _, a := range t.Request.Attrs {
		e.Add("request.attr."+a.Key, attrValue(a.Value))
	}
	return e
}

// maxText is the maximum size in bytes of a request's text in the first entry of its trace.
const maxText = 4 << 10

func cut(s string) string { return text.Cut(s, maxText) }

// attrValue returns the value of a request's attribute.
func attrValue(v slog.Value) (out format.Value) {
	defer func() {
		if p := recover(); p != nil { // a LogValuer panicked
			out = format.StringValue("!PANIC")
		}
	}()
	v = v.Resolve()
	switch v.Kind() {
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
		e.Add("dropped."+reason, format.U64Value(n))
	})
}

// child writes an entry below the first entry of the trace.
func child(rec *recorder.Recorder, e *format.TraceEntry) error {
	at := time.Now()
	e.Add(format.AttrTime, format.TimeValue(at))
	return traces.Write(rec, traces.Own, format.SpanRef{}, at, e)
}

// off writes an entry "provider off" to the trace, only once for each provider.
func (t *Trace) off(p Set, err error) {
	name := p.String()
	t.mu.Lock()
	known := t.named[name]
	t.named[name] = true
	t.mu.Unlock()
	if known {
		return
	}
	why := cut(err.Error())
	e := &format.TraceEntry{
		Message:  format.Some(name + ": " + why),
		Metadata: format.Metadata{Name: nameProviderOff, Target: target, Level: format.LevelWarn},
	}
	e.Add("provider", format.StringValue(name))
	e.Add("error", format.StringValue(why))
	_ = child(t.rec, e) // the recorder counts an entry that fails
}

// discard removes the file of the trace.
func (t *Trace) discard() error {
	stream := t.rec.StreamPath()
	_ = t.rec.Close(traces.Ended) // because the context has ended, Close leaves the IET and returns an error
	err := os.Remove(stream)
	return errors.Join(osfile.Ignore(err, os.ErrNotExist), osfile.Ignore(os.Remove(stream+tracename.Journal), os.ErrNotExist))
}
