package exporter

import (
	"errors"
	"fmt"
	"math"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/recorder"
)

// A mapper turns spans into entries of a batch.
type mapper struct {
	b     *recorder.Batch
	in    inside.Batch // of b
	order spanmap.Order
	span  otel.Span
	link  otel.Link
	event otel.Event
	log   otel.Log
	users attributes // the attributes of the span, link, event or log record that is being mapped

	gathered []attribute.KeyValue             // the new attributes of an ending span, or all of a log record
	each     func(kv attribute.KeyValue) bool // appends kv to gathered; a field, so that the closure is allocated once
}

func (m *mapper) reset() {
	m.in.Discard()
	clear(m.gathered)
	m.gathered = m.gathered[:0]
	m.log.Body = otel.Any{} // free the old body, which may be large
}

// below is the place of all entries of a batch. The recorder finds the parent entry. It stores the
// trace id and the parent id only if they do not follow from the parent entry.
var below = otel.Where{Trace: true, Parent: true}

// parentsFirst returns the indexes of the spans in the order in which they are written. Nil
// spans are left out.
func (m *mapper) parentsFirst(spans []sdktrace.ReadOnlySpan) []int32 {
	m.order.Reset()
	for _, s := range spans {
		if s == nil {
			m.order.Skip()
			continue
		}
		sc, p := s.SpanContext(), s.Parent()
		own, up := ref(&sc), format.SpanRef{}
		if p.IsValid() && !p.IsRemote() {
			up = ref(&p)
		}
		m.order.Add(key(&own), key(&up))
	}
	return m.order.ParentsFirst()
}

// whole maps an ended span without its links and events. The method children maps these.
func (m *mapper) whole(s sdktrace.ReadOnlySpan, res *recorder.Resource, wait bool) {
	h := m.begin(s, s.StartTime(), s.Name(), res)
	h.Wait = wait
	m.b.Span(&h)
	m.end(s)
	m.users = s.Attributes()
	m.span.Write(m.in, below, &m.users)
}

// children maps all links and events of a span.
func (m *mapper) children(s sdktrace.ReadOnlySpan) {
	scope := s.InstrumentationScope().Name
	m.links(s.Links(), scope)
	m.events(s.Events(), scope)
}

// start maps a span that starts, with the data that is known at the start, and sets the data of b.
func (m *mapper) start(s sdktrace.ReadOnlySpan, b *startData, res *recorder.Resource) recorder.Span {
	start := s.StartTime()
	b.name, b.attrs, b.start = s.Name(), s.Attributes(), start.Sub(clock)
	h := m.begin(s, start, b.name, res)
	h.Open = true
	m.b.Span(&h)
	m.span.Ended, m.span.Status, m.span.Description = false, otel.StatusUnset, ""
	m.span.DroppedAttributes, m.span.DroppedEvents, m.span.DroppedLinks = 0, 0, 0
	m.users = b.attrs
	m.span.Write(m.in, below, &m.users)
	if links := s.Links(); len(links) > 0 {
		b.links, b.droppedLinks = len(links), s.DroppedLinks()
		m.links(links, m.span.Scope.Name)
	}
	return h
}

// finish maps the end of the span r, which began as b, with its new links and all events.
func (m *mapper) finish(s sdktrace.ReadOnlySpan, r format.SpanRef, b *startData) {
	m.b.EndSpan(r, mapping.UnixNano(s.EndTime()))
	scope := s.InstrumentationScope().Name
	if links := s.Links(); len(links) > 0 {
		m.links(b.later(links, s.DroppedLinks()), scope)
	}
	m.events(s.Events(), scope)
	m.span.Name, m.span.SpanID, m.span.Scope.Name = s.Name(), r.SpanID, scope
	m.end(s)
	m.span.DroppedLinks -= count(b.evicted(s.DroppedLinks()))
	m.gathered = b.changed(m.gathered[:0], s.Attributes())
	m.users = m.gathered
	m.span.WriteEnd(m.in, m.span.Name != b.name, &m.users)
}

// begin sets the fields of m.span that are known when a span begins, and returns the ids, parent
// and resource of the span. It assigns each field, because copying an otel.Span is expensive.
func (m *mapper) begin(s sdktrace.ReadOnlySpan, start time.Time, name string, res *recorder.Resource) recorder.Span {
	sc, parent, scope := s.SpanContext(), s.Parent(), s.InstrumentationScope()
	h := recorder.Span{Ref: ref(&sc), Resource: res, Time: mapping.UnixNano(start)}
	if parent.IsValid() {
		h.Parent = ref(&parent)
		h.Remote = parent.IsRemote()
	}
	to := &m.span
	to.Name, to.SpanID, to.Start, to.ExactStart = name, h.Ref.SpanID, h.Time, mapping.ExactTime(start)
	to.Kind, to.Flags = otel.SpanKindOf(int32(s.SpanKind())), flags(sc.TraceFlags(), parent.IsRemote())
	to.TraceState = sc.TraceState().String()
	setScope(&to.Scope, &scope)
	return h
}

// setScope sets the fields of an instrumentation scope.
func setScope(to *otel.Scope, scope *instrumentation.Scope) {
	to.Name, to.Version, to.SchemaURL, to.Attributes = scope.Name, scope.Version, scope.SchemaURL, nil
	if scope.Attributes.Len() > 0 {
		to.Attributes = setup.Attributes(scope.Attributes.ToSlice())
	}
}

// end sets the fields of m.span that are known when a span has ended.
func (m *mapper) end(s sdktrace.ReadOnlySpan) {
	to, end := &m.span, s.EndTime()
	to.Ended = !end.IsZero()
	if to.Ended {
		to.Duration = int64(duration(s.StartTime(), end))
	}
	status := s.Status()
	to.Status, to.Description = statusOf(status.Code), status.Description
	to.DroppedAttributes = count(s.DroppedAttributes())
	to.DroppedEvents = count(s.DroppedEvents())
	to.DroppedLinks = count(s.DroppedLinks())
}

// links maps span links to children.
func (m *mapper) links(links []sdktrace.Link, scope string) {
	for i := range links {
		l := &links[i]
		sc := &l.SpanContext
		m.link = otel.Link{
			TraceID: sc.TraceID(), SpanID: sc.SpanID(), Flags: flags(sc.TraceFlags(), sc.IsRemote()),
			TraceState: sc.TraceState().String(), Dropped: count(l.DroppedAttributeCount),
		}
		m.users = l.Attributes
		m.link.Write(m.in, scope, &m.users)
	}
}

// events maps span events to children.
func (m *mapper) events(events []sdktrace.Event, scope string) {
	for i := range events {
		ev := &events[i]
		m.event = otel.Event{Name: ev.Name, Time: mapping.UnixNano(ev.Time), ExactTime: mapping.ExactTime(ev.Time), HasTime: true, Dropped: count(ev.DroppedAttributeCount)}
		m.users = ev.Attributes
		m.event.Write(m.in, scope, &m.users)
	}
}

func ref(sc *trace.SpanContext) format.SpanRef {
	return format.SpanRef{TraceID: sc.TraceID(), SpanID: sc.SpanID()}
}

// duration returns the difference of the wall times, because wall times are stored. It ignores
// monotonic readings. The monotonic reading and the wall time of one time.Time belong to slightly
// different moments, so an end time that the program passed would not be restored exactly. In the
// SDK's own end times both clocks agree, because the SDK computes them from the start.
func duration(start, end time.Time) time.Duration { return end.Round(0).Sub(start.Round(0)) }

// count converts the SDK's count of dropped items.
func count(n int) uint32 { return uint32(min(uint64(max(n, 0)), math.MaxUint32)) }

// statusOf returns OTLP's number for c, which differs from the SDK's number.
func statusOf(c codes.Code) otel.Status {
	switch c {
	case codes.Error:
		return otel.StatusError
	case codes.Ok:
		return otel.StatusOK
	}
	return otel.StatusUnset
}

// The bits of OTLP's Span.flags above the eight bits of W3C's trace flags.
const (
	flagRemoteKnown = 0x100
	flagRemote      = 0x200
)

func flags(f trace.TraceFlags, remote bool) uint32 {
	n := uint32(f) | flagRemoteKnown
	if remote {
		n |= flagRemote
	}
	return n
}

// write writes the batch, and joins the error of the recorder to errs.
func (m *mapper) write(errs []error) error {
	err := m.b.Write()
	if len(errs) > 0 {
		err = errors.Join(append(errs, err)...)
	}
	return err
}

// recovered turns a panic into an error: a bug in this package must not end the
// application.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("exporter: panic while recording: %v", r)
	}
}
