package chrome

import (
	"bufio"
	"cmp"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/view"
)

// bufferSize is the number of bytes that are buffered before a write.
const bufferSize = 128 << 10

// Encode writes the trace v to w, as one JSON object. In memory it needs about 8 bytes for each span, span event and
// log record, and 24 bytes for each arrow. It reads all other data while it writes. Encode returns errors of the
// trace's file, of w, and of ctx.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	t, err := timeline.NewTimeline(ctx, v)
	if err != nil {
		return err
	}
	if err := t.Arrows(ctx); err != nil {
		return err
	}
	e := &encoder{w: bufio.NewWriterSize(w, bufferSize), t: t}
	if err := e.head(); err != nil {
		return err
	}
	if err := t.Moments(ctx, e.moment); err != nil {
		return err
	}
	e.b = append(e.b, "\n]}\n"...)
	return cmp.Or(e.flush(), e.w.Flush())
}

type encoder struct {
	w      *bufio.Writer
	t      *timeline.Timeline
	d      timeline.Details // of the current event
	b      []byte           // bytes that are not yet written to w
	events bool             // an event was already written
}

// flush writes b to w.
func (e *encoder) flush() error {
	_, err := e.w.Write(e.b)
	e.b = e.b[:0]
	return err
}

// head writes the file up to the first event.
func (e *encoder) head() error {
	e.b = append(e.b, `{"displayTimeUnit":"ns","otherData":{"producer":"entrace"`...)
	if e.t.Made {
		e.b = append(e.b, `,"times":"made"`...)
	} else {
		e.b = append(e.b, `,"base_unix_nano":"`...)
		e.b = append(strconv.AppendInt(e.b, e.t.First, 10), '"')
	}
	e.b = append(e.b, `},"traceEvents":[`...)
	for i := range e.t.Processes {
		if err := e.process(i); err != nil {
			return err
		}
	}
	return nil
}

// process writes the names of resource i and of its lanes.
func (e *encoder) process(i int) error {
	p := &e.t.Processes[i]
	name, r, err := e.t.Resource(i)
	if err != nil {
		return err
	}
	e.meta("process_name", i, 0, "name", jsontext.AppendSafeString(nil, name))
	if len(r.Attributes) > 0 {
		e.meta("process_labels", i, 0, "labels", jsontext.AppendSafeString(nil, labels(r)))
	}
	e.order("process_sort_index", i, 0)
	lanes := int(p.Lanes)
	if p.Logs {
		lanes++
	}
	for lane := range lanes {
		name := "lane " + strconv.Itoa(lane+1)
		if lane == int(p.Lanes) {
			name = "logs"
		}
		e.meta("thread_name", i, lane+1, "name", jsontext.AppendSafeString(nil, name))
		e.order("thread_sort_index", i, lane+1)
		if err := e.flush(); err != nil {
			return err
		}
	}
	return e.flush()
}

// labels returns the attributes of a resource as one text.
func labels(r *otel.Resource) string {
	var b strings.Builder
	for i := range r.Attributes {
		if i > 0 {
			b.WriteString(", ")
		}
		v := r.Attributes[i].Any()
		b.WriteString(r.Attributes[i].Name)
		b.WriteByte('=')
		b.WriteString(v.Display())
	}
	return b.String()
}

func (e *encoder) meta(what string, process, thread int, key string, value []byte) {
	e.begin('M')
	e.b = append(append(append(e.b, `,"name":"`...), what...), '"')
	e.where(process, thread)
	e.b = append(append(append(e.b, `,"args":{"`...), key...), `":`...)
	e.b = append(append(e.b, value...), "}}"...)
}

func (e *encoder) order(what string, process, thread int) {
	at := thread
	if at == 0 {
		at = process + 1
	}
	e.meta(what, process, thread, "sort_index", strconv.AppendInt(nil, int64(at), 10))
}

// begin begins an event on a new line.
func (e *encoder) begin(phase byte) {
	if e.events {
		e.b = append(e.b, ',')
	}
	e.events = true
	e.b = append(append(append(e.b, "\n{\"ph\":\""...), phase), '"')
}

// where writes the process and the lane of an event. The parameter thread is the number of the lane, or 0 for no
// lane.
func (e *encoder) where(process, thread int) {
	e.b = strconv.AppendInt(append(e.b, `,"pid":`...), int64(process)+1, 10)
	if thread > 0 {
		e.b = strconv.AppendInt(append(e.b, `,"tid":`...), int64(thread), 10)
	}
}

// moment writes an event. The event of a span has the span's beginning and duration.
func (e *encoder) moment(m *timeline.Moment) error {
	d := &e.d
	if err := e.t.Details(m.Row, d); err != nil {
		return err
	}
	if m.IsSpan {
		e.begin('X')
	} else {
		e.begin('i')
		e.b = append(e.b, `,"s":"t"`...)
	}
	e.b = jsontext.AppendSafeString(append(e.b, `,"name":`...), eventName(d.Name))
	e.b = append(append(append(e.b, `,"cat":"`...), d.Category...), `","ts":`...)
	e.b = appendMicros(e.b, uint64(m.Time-e.t.First))
	if m.IsSpan {
		// The difference of any two times fits into a uint64.
		e.b = appendMicros(append(e.b, `,"dur":`...), uint64(m.End-m.Time))
	}
	e.where(int(m.Group), int(m.Lane)+1)
	e.args(d)
	e.b = append(e.b, '}')
	for i := range m.Flows {
		e.flow(m, m.Flows[i])
	}
	return e.flush()
}

// eventName returns the name of an event. To names of events of Chrome's own profiler it adds a space: the Firefox
// Profiler expects certain data in such events, and does not load a trace without this data.
func eventName(name string) string {
	switch name {
	case "CpuProfile", "Profile", "ProfileChunk", "Screenshot", "ScriptCatchup", "TracingStartedInBrowser":
		return name + " "
	}
	return name
}

// flow writes one end of an arrow. It is called after the event of its span and before the contents of the span, so
// that viewers attach the arrow to this span.
func (e *encoder) flow(m *timeline.Moment, f timeline.FlowEnd) {
	if f.Start {
		e.begin('s')
	} else {
		e.begin('f')
		e.b = append(e.b, `,"bp":"e"`...)
	}
	name := "child"
	if f.Link {
		name = "link"
	}
	e.b = append(append(append(e.b, `,"name":"`...), name...), `","cat":"flow","id":`...)
	e.b = strconv.AppendUint(e.b, uint64(f.Flow), 10)
	e.b = appendMicros(append(e.b, `,"ts":`...), uint64(m.Time-e.t.First))
	e.where(int(m.Group), int(m.Lane)+1)
	e.b = append(e.b, '}')
}

// appendMicros appends nanoseconds as microseconds with three decimals. It uses no floats, because floats would round
// the number.
func appendMicros(b []byte, nanos uint64) []byte {
	b = append(strconv.AppendUint(b, nanos/1000, 10), '.')
	n := nanos % 1000
	return append(b, '0'+byte(n/100), '0'+byte(n/10%10), '0'+byte(n%10))
}
