package gotrace

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/convert/internal/foreign"
	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/gotrace"
)

// Is reports whether a file that begins with head is an execution trace, of a version of Go that is read or not.
func Is(head []byte) bool {
	return len(head) >= 16 && bytes.HasPrefix(head, []byte("go 1.")) && bytes.HasSuffix(head[:16], []byte(" trace\x00\x00\x00"))
}

// Decode reads an execution trace from r and writes what it tells to w, parents before children. It does not close w.
// Where the trace is damaged the error is an *Error of package convert; the generations before it are written.
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

// maxTogether is how many spans are passed on together.
const maxTogether = 256

// A decoder makes records of the parts of a trace.
type decoder struct {
	yield   func(*foreign.Record, error) bool
	spans   [len(names)][]*otel.Span // that wait to be passed on, by service
	stopped bool
}

// The services that the parts of a trace are below.
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

// pass passes on a record of a service, and reports whether to go on.
func (d *decoder) pass(service int, r foreign.Record) bool {
	r.Resource = otel.Resource{Attributes: otel.Attributes{text("service.name", names[service])}}
	d.stopped = d.stopped || !d.yield(&r, nil)
	return !d.stopped
}

// flush passes on the spans that wait, and reports whether to go on.
func (d *decoder) flush() bool {
	for service, spans := range d.spans {
		if len(spans) > 0 && !d.pass(service, foreign.Record{Spans: spans}) {
			return false
		}
	}
	return true
}

func (d *decoder) add(p *gotrace.Part) bool {
	service := services[p.Kind]
	switch p.Kind {
	case gotrace.Log, gotrace.Short:
		return d.pass(service, foreign.Record{Log: logOf(p)})
	case gotrace.Sample:
		return d.pass(services[p.Below], foreign.Record{Log: sampleOf(p)})
	}
	waiting := &d.spans[service]
	*waiting = append(*waiting, spanOf(p))
	if len(*waiting) < maxTogether {
		return true
	}
	all := *waiting
	*waiting = nil
	return d.pass(service, foreign.Record{Spans: all})
}

func logOf(p *gotrace.Part) *otel.Log {
	l := &otel.Log{Time: p.From, HasTime: true, Severity: 9}
	id(l.TraceID[8:], p.Root)
	id(l.SpanID[:], p.Parent)
	if p.Kind == gotrace.Short {
		l.Body = otel.Any{Kind: otel.String, Text: "goroutines that lived for less than a millisecond"}
		l.Attributes = otel.Attributes{text("function", p.Name), number("count", int64(p.Count))}
		return l
	}
	l.Body = otel.Any{Kind: otel.String, Text: p.Message}
	l.Attributes = otel.Attributes{number("goroutine", p.Goroutine)}
	if p.Name != "" {
		l.Attributes = append(l.Attributes, text("category", p.Name))
	}
	return l
}

// sampleOf is like the entries cpu.profile of package control/provider.
func sampleOf(p *gotrace.Part) *otel.Log {
	const every = 10_000_000 // the runtime samples each thread 100 times a second of processor time
	l := &otel.Log{Time: p.From, HasTime: true, Severity: 5, Scope: otel.Scope{Name: "runtime/pprof"}}
	id(l.TraceID[8:], p.Root)
	id(l.SpanID[:], p.Parent)
	l.Body.Kind = otel.String
	if len(p.Stack) > 0 {
		l.Body.Text = p.Stack[0].Func
	}
	l.Attributes = otel.Attributes{number("samples", 1), number("cpu_nano", every)}
	if len(p.Stack) > 0 {
		l.Attributes = append(l.Attributes, text("stack", whole(p.Stack)))
	}
	return l
}

// whole returns the frames as the provider of CPU profiles writes a stack.
func whole(frames []gotrace.Frame) string {
	var b strings.Builder
	for i := range frames {
		f := &frames[i]
		b.WriteString(f.Func + " " + f.File + ":" + strconv.Itoa(f.Line) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func spanOf(p *gotrace.Part) *otel.Span {
	s := &otel.Span{
		Name: p.Name, Kind: otel.KindInternal, Flags: 0x100, Start: p.From, Duration: p.To - p.From,
		Ended: p.Ended || p.Kind != gotrace.Task && p.Kind != gotrace.Region, // a goroutine that lives on does not hang
	}
	if s.Name == "" {
		s.Name = "unknown"
	}
	id(s.TraceID[8:], p.Root)
	id(s.SpanID[:], p.ID)
	id(s.Parent[:], p.Parent)
	a := &s.Attributes
	if p.Goroutine >= 0 {
		*a = append(*a, number("goroutine", p.Goroutine))
	}
	if p.Kind == gotrace.Region || p.Kind == gotrace.Task {
		*a = append(*a, text("kind", [...]string{gotrace.Task: "task", gotrace.Region: "region"}[p.Kind]))
	}
	switch {
	case !p.Began && !p.Ended:
		*a = append(*a, text("cut", "both"))
	case !p.Began:
		*a = append(*a, text("cut", "begin"))
	case !p.Ended && s.Ended:
		*a = append(*a, text("cut", "end"))
	}
	if p.Kind == gotrace.Goroutine && p.By >= 0 {
		*a = append(*a, number("created.by", p.By))
	}
	if p.Kind == gotrace.Waiting {
		if p.Reason != "" {
			*a = append(*a, text("wait.reason", p.Reason))
		}
		if len(p.Stack) > 0 {
			*a = append(*a, text("wait.stack", stack(p.Stack)))
		}
		if p.By >= 0 {
			*a = append(*a, number("wait.by", p.By))
		}
	}
	return s
}

// stack returns the frames as Go prints a stack.
func stack(frames []gotrace.Frame) string {
	var b strings.Builder
	for i := range frames {
		b.WriteString(frames[i].String())
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func id(to []byte, n uint64) { binary.BigEndian.PutUint64(to, n) }

func text(name, value string) otel.Attribute {
	return otel.Attribute{Name: name, Value: format.StringValue(value)}
}

func number(name string, n int64) otel.Attribute {
	return otel.Attribute{Name: name, Value: format.I64Value(n)}
}
