package gotrace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/convert/internal/foreign"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/internal/read/input"
)

// Is reports whether a file that begins with head is an execution trace. The version of Go need not be supported.
func Is(head []byte) bool {
	return len(head) >= 16 && bytes.HasPrefix(head, []byte("go 1.")) && bytes.HasSuffix(head[:16], []byte(" trace\x00\x00\x00"))
}

// Decode reads an execution trace from r and writes its content to w, parents before children. It does not close w.
// If the trace is damaged, Decode writes the generations before the damage, and the error is an *Error of package
// convert.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	return foreign.Write(ctx, w, func(yield func(*foreign.Record, error) bool) {
		d := decoder{yield: yield}
		err := gotrace.Parts(ctx, r, d.add)
		if d.stopped || !d.flush() || err == nil {
			return
		}
		if e, ok := errors.AsType[*gotrace.DamageError](err); ok {
			cause := e.Err
			if errors.Is(cause, io.ErrUnexpectedEOF) {
				cause = format.ErrTruncated
			}
			err = &input.Error{Offset: e.At, Err: cause}
		}
		if e, ok := errors.AsType[*gotrace.VersionError](err); ok {
			err = &input.Error{Err: e}
		}
		yield(nil, err)
	})
}

// maxTogether is the maximum number of spans in a record.
const maxTogether = 256

// A decoder converts the parts of an execution trace to records.
type decoder struct {
	yield   func(*foreign.Record, error) bool
	spans   [len(names)][]*otel.Span // spans that were not passed on yet, by service
	stopped bool
}

// The services to which the parts of an execution trace are assigned.
const (
	program = iota
	goroutines
	runtime
)

var names = [...]string{program: "program", goroutines: "goroutines", runtime: "runtime"}

var services = [...]int{
	gotrace.Task: program, gotrace.Region: program, gotrace.Log: program, gotrace.Goroutine: goroutines, gotrace.Waiting: goroutines,
	gotrace.Range: runtime, gotrace.Short: goroutines, gotrace.Sample: goroutines,
}

// emit passes a record of a service on, and reports whether to continue.
func (d *decoder) emit(service int, r foreign.Record) bool {
	r.Resource = otel.Resource{Attributes: otel.Attributes{otel.Text("service.name", names[service])}}
	d.stopped = d.stopped || !d.yield(&r, nil)
	return !d.stopped
}

// flush passes the collected spans on, and reports whether to continue.
func (d *decoder) flush() bool {
	for service, spans := range d.spans {
		if len(spans) > 0 && !d.emit(service, foreign.Record{Spans: spans}) {
			return false
		}
	}
	return true
}

func (d *decoder) add(p *gotrace.Part) bool {
	service := services[p.Kind]
	switch p.Kind {
	case gotrace.Log, gotrace.Short:
		return d.emit(service, foreign.Record{Log: logOf(p)})
	case gotrace.Sample:
		return d.emit(services[p.Below], foreign.Record{Log: sampleOf(p)})
	}
	waiting := &d.spans[service]
	*waiting = append(*waiting, spanOf(p))
	if len(*waiting) < maxTogether {
		return true
	}
	all := *waiting
	*waiting = nil
	return d.emit(service, foreign.Record{Spans: all})
}

// newLog returns a log record below the parent of p, at the time at which p begins.
func newLog(p *gotrace.Part, severity uint32, body string) *otel.Log {
	l := &otel.Log{Time: p.From, HasTime: true, Severity: severity, Body: otel.TextAny(body)}
	binary.BigEndian.PutUint64(l.TraceID[8:], p.Root)
	binary.BigEndian.PutUint64(l.SpanID[:], p.Parent)
	return l
}

func logOf(p *gotrace.Part) *otel.Log {
	if p.Kind == gotrace.Short {
		l := newLog(p, 9, "goroutines that lived for less than a millisecond")
		l.Attributes = otel.Attributes{otel.Text("function", p.Name), otel.Number("count", int64(p.Count))}
		return l
	}
	l := newLog(p, 9, p.Message)
	l.Attributes = otel.Attributes{otel.Number("goroutine", p.Goroutine)}
	if p.Name != "" {
		l.Attributes = append(l.Attributes, otel.Text("category", p.Name))
	}
	return l
}

// sampleOf converts a sample to a log record. It has the form of the entries cpu.profile of package
// control/provider.
func sampleOf(p *gotrace.Part) *otel.Log {
	const every = 10_000_000 // the runtime takes 100 samples a second of processor time
	l := newLog(p, 5, "")
	l.Scope.Name = "runtime/pprof"
	l.Attributes = otel.Attributes{otel.Number("samples", 1), otel.Number("cpu_nano", every)}
	if len(p.Stack) > 0 {
		l.Body.Text = p.Stack[0].Func
		l.Attributes = append(l.Attributes, otel.Text("stack", stack(p.Stack, whole)))
	}
	return l
}

// whole returns a frame as the provider of CPU profiles writes it.
func whole(f *gotrace.Frame) string { return f.Func + " " + f.File + ":" + strconv.Itoa(f.Line) }

func spanOf(p *gotrace.Part) *otel.Span {
	s := &otel.Span{
		Name: cmp.Or(p.Name, "unknown"), Kind: otel.KindInternal, Flags: 0x100, Start: p.From, Duration: p.To - p.From,
		Ended: p.Ended || p.Kind != gotrace.Task && p.Kind != gotrace.Region, // only tasks and regions can remain open
	}
	binary.BigEndian.PutUint64(s.TraceID[8:], p.Root)
	binary.BigEndian.PutUint64(s.SpanID[:], p.ID)
	binary.BigEndian.PutUint64(s.Parent[:], p.Parent)
	add := func(a otel.Attribute) { s.Attributes = append(s.Attributes, a) }
	if p.Goroutine >= 0 {
		add(otel.Number("goroutine", p.Goroutine))
	}
	if p.Kind == gotrace.Region || p.Kind == gotrace.Task {
		add(otel.Text("kind", [...]string{gotrace.Task: "task", gotrace.Region: "region"}[p.Kind]))
	}
	switch {
	case !p.Began && !p.Ended:
		add(otel.Text("cut", "both"))
	case !p.Began:
		add(otel.Text("cut", "begin"))
	case !p.Ended && s.Ended:
		add(otel.Text("cut", "end"))
	}
	if p.Kind == gotrace.Goroutine && p.By >= 0 {
		add(otel.Number("created.by", p.By))
	}
	if p.Kind == gotrace.Waiting {
		if p.Reason != "" {
			add(otel.Text("wait.reason", p.Reason))
		}
		if len(p.Stack) > 0 {
			add(otel.Text("wait.stack", stack(p.Stack, (*gotrace.Frame).String)))
		}
		if p.By >= 0 {
			add(otel.Number("wait.by", p.By))
		}
	}
	return s
}

// stack returns the text of all frames, each on a line.
func stack(frames []gotrace.Frame, line func(f *gotrace.Frame) string) string {
	lines := make([]string, len(frames))
	for i := range frames {
		lines[i] = line(&frames[i])
	}
	return strings.Join(lines, "\n")
}
