package otlp

import (
	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

// Fields of Span and LogRecord.
const (
	spanTraceID      = 1
	spanSpanID       = 2
	spanTraceState   = 3
	spanParentSpanID = 4
	spanName         = 5
	spanKindField    = 6
	spanStart        = 7
	spanEnd          = 8
	spanAttributes   = 9
	spanDropped      = 10
	spanEvents       = 11
	spanDropEvents   = 12
	spanLinks        = 13
	spanDropLinks    = 14
	spanStatus       = 15
	spanFlags        = 16

	logTime         = 1
	logSeverity     = 2
	logSeverityText = 3
	logBody         = 5
	logAttributes   = 6
	logDropped      = 7
	logFlags        = 8
	logTraceID      = 9
	logSpanID       = 10
	logObserved     = 11
	logEventName    = 12
)

// Fields of the messages within them.
const (
	statusMessage = 2
	statusCode    = 3

	eventTime       = 1
	eventName       = 2
	eventAttributes = 3
	eventDropped    = 4

	linkTraceID    = 1
	linkSpanID     = 2
	linkTraceState = 3
	linkAttributes = 4
	linkDropped    = 5
	linkFlags      = 6

	scopeName       = 1
	scopeVersion    = 2
	scopeAttributes = 3
	scopeDropped    = 4

	resourceAttributes = 1
	resourceDropped    = 2

	pairKey   = 1
	pairValue = 2

	anyString = 1
	anyBool   = 2
	anyInt    = 3
	anyDouble = 4
	anyArray  = 5
	anyMap    = 6
	anyBytes  = 7

	listValues = 1
)

// at begins to read the record whose length is at an offset.
func (s *protoSource) at(off int64) fieldReader {
	s.budget = maxValues
	f := fieldReader{b: s.b, i: int(off), end: len(s.b), kind: 2}
	f = f.whole()
	if f.end-f.i > maxRecord {
		f.err, f.at = format.ErrTooLarge, f.i
	}
	return f
}

// done ends to read a record.
func (s *protoSource) done(f *fieldReader) error {
	if f.err == nil {
		return nil
	}
	return &input.Error{Offset: int64(f.at), Err: f.err}
}

// count takes one from the budget of a record.
func (s *protoSource) count(f *fieldReader) {
	if s.budget--; s.budget < 0 && f.err == nil {
		f.err, f.at = format.ErrTooLarge, f.i
	}
}

func (s *protoSource) span(off int64, sp *otel.Span) error {
	resetSpan(sp)
	var start, end uint64
	f := s.at(off)
	for f.next() {
		switch f.number {
		case spanTraceID:
			f.id(sp.TraceID[:])
		case spanSpanID:
			f.id(sp.SpanID[:])
		case spanTraceState:
			sp.TraceState = otel.Clean(f.string())
		case spanParentSpanID:
			f.id(sp.Parent[:])
		case spanName:
			sp.Name = otel.Clean(f.string())
		case spanKindField:
			sp.Kind = otel.SpanKindOf(int32(f.varint()))
		case spanStart:
			start = f.fixed64()
		case spanEnd:
			end = f.fixed64()
		case spanAttributes:
			sp.Attributes = s.attribute(&f, sp.Attributes)
		case spanDropped:
			sp.DroppedAttributes = uint32(f.varint())
		case spanEvents:
			sp.Events = grow(sp.Events)
			s.event(&f, &sp.Events[len(sp.Events)-1])
		case spanDropEvents:
			sp.DroppedEvents = uint32(f.varint())
		case spanLinks:
			sp.Links = grow(sp.Links)
			s.link(&f, &sp.Links[len(sp.Links)-1])
		case spanDropLinks:
			sp.DroppedLinks = uint32(f.varint())
		case spanStatus:
			st := f.whole()
			for st.next() {
				switch st.number {
				case statusMessage:
					sp.Description = otel.Clean(st.string())
				case statusCode:
					sp.Status = otel.StatusOf(int32(st.varint()))
				default:
					st.skip()
				}
			}
			f.join(&st)
		case spanFlags:
			sp.Flags = f.fixed32()
		default:
			f.skip()
		}
	}
	sp.Attributes.Unify()
	sp.SetTimes(start, end)
	return s.done(&f)
}

func (s *protoSource) event(up *fieldReader, ev *otel.Event) {
	*ev = otel.Event{Attributes: ev.Attributes[:0]}
	s.count(up)
	f := up.whole()
	for f.next() {
		switch f.number {
		case eventTime:
			ev.Time = int64(f.fixed64())
			ev.HasTime = ev.Time != 0
		case eventName:
			ev.Name = otel.Clean(f.string())
		case eventAttributes:
			ev.Attributes = s.attribute(&f, ev.Attributes)
		case eventDropped:
			ev.Dropped = uint32(f.varint())
		default:
			f.skip()
		}
	}
	ev.Attributes.Unify()
	up.join(&f)
}

func (s *protoSource) link(up *fieldReader, l *otel.Link) {
	*l = otel.Link{Attributes: l.Attributes[:0]}
	s.count(up)
	f := up.whole()
	for f.next() {
		switch f.number {
		case linkTraceID:
			f.id(l.TraceID[:])
		case linkSpanID:
			f.id(l.SpanID[:])
		case linkTraceState:
			l.TraceState = otel.Clean(f.string())
		case linkAttributes:
			l.Attributes = s.attribute(&f, l.Attributes)
		case linkDropped:
			l.Dropped = uint32(f.varint())
		case linkFlags:
			l.Flags = f.fixed32()
		default:
			f.skip()
		}
	}
	l.Attributes.Unify()
	up.join(&f)
}

func (s *protoSource) log(off int64, l *otel.Log) error {
	*l = otel.Log{Attributes: l.Attributes[:0]}
	f := s.at(off)
	for f.next() {
		switch f.number {
		case logTime:
			l.Time = int64(f.fixed64())
			l.HasTime = l.Time != 0
		case logSeverity:
			l.Severity = uint32(f.varint())
		case logSeverityText:
			l.SeverityText = otel.Clean(f.string())
		case logBody:
			l.Body = s.value(&f, 0)
		case logAttributes:
			l.Attributes = s.attribute(&f, l.Attributes)
		case logDropped:
			l.Dropped = uint32(f.varint())
		case logFlags:
			l.Flags = f.fixed32()
		case logTraceID:
			f.id(l.TraceID[:])
		case logSpanID:
			f.id(l.SpanID[:])
		case logObserved:
			l.Observed = int64(f.fixed64())
		case logEventName:
			l.EventName = otel.Clean(f.string())
		default:
			f.skip()
		}
	}
	l.Attributes.Unify()
	endLog(l)
	return s.done(&f)
}

func (s *protoSource) scope(h *head, sc *otel.Scope) error {
	*sc = otel.Scope{}
	if h.value >= 0 {
		f := s.at(h.value)
		for f.next() {
			switch f.number {
			case scopeName:
				sc.Name = keep(f.string())
			case scopeVersion:
				sc.Version = keep(f.string())
			case scopeAttributes:
				sc.Attributes = s.attribute(&f, sc.Attributes)
			case scopeDropped:
				sc.Dropped = uint32(f.varint())
			default:
				f.skip()
			}
		}
		sc.Attributes = keepAll(sc.Attributes)
		sc.Attributes.Unify()
		if err := s.done(&f); err != nil {
			return err
		}
	}
	sc.SchemaURL = s.url(h)
	return nil
}

func (s *protoSource) resource(h *head, r *otel.Resource) error {
	*r = otel.Resource{}
	if h.value >= 0 {
		f := s.at(h.value)
		for f.next() {
			switch f.number {
			case resourceAttributes:
				r.Attributes = s.attribute(&f, r.Attributes)
			case resourceDropped:
				r.Dropped = uint32(f.varint())
			default:
				f.skip()
			}
		}
		r.Attributes = keepAll(r.Attributes)
		r.Attributes.Unify()
		if err := s.done(&f); err != nil {
			return err
		}
	}
	r.SchemaURL = s.url(h)
	return nil
}

func (s *protoSource) url(h *head) string {
	if h.url < 0 {
		return ""
	}
	f := s.at(h.url)
	return keep(string(f.b[f.i:f.end]))
}

// attribute reads one KeyValue.
func (s *protoSource) attribute(up *fieldReader, attrs []otel.Attribute) []otel.Attribute {
	var kv otel.KeyValue
	s.keyValue(up, &kv, 0)
	return append(attrs, otel.NewAttribute(kv.Key, &kv.Value))
}

func (s *protoSource) keyValue(up *fieldReader, kv *otel.KeyValue, depth int) {
	s.count(up)
	f := up.whole()
	for f.next() {
		switch f.number {
		case pairKey:
			kv.Key = otel.Clean(f.string())
		case pairValue:
			kv.Value = s.value(&f, depth)
		default:
			f.skip()
		}
	}
	up.join(&f)
}

// value reads an AnyValue.
func (s *protoSource) value(up *fieldReader, depth int) (v otel.Any) {
	if depth > maxDepth && up.err == nil {
		up.err, up.at = ErrDeep, up.i
	}
	f := up.whole()
	for f.next() {
		switch f.number {
		case anyString:
			v = otel.Any{Kind: otel.String, Text: f.string()}
		case anyBool:
			v = otel.Any{Kind: otel.Bool, Bool: f.varint() != 0}
		case anyInt:
			v = otel.Any{Kind: otel.Int, Int: int64(f.varint())}
		case anyDouble:
			v = otel.Any{Kind: otel.Float, Float: f.double()}
		case anyBytes:
			v = otel.Any{Kind: otel.Bytes, Text: f.string()}
		case anyArray:
			v = otel.Any{Kind: otel.List}
			list := f.whole()
			for list.next() {
				if list.number != listValues {
					list.skip()
					continue
				}
				s.count(&list)
				v.List = append(v.List, s.value(&list, depth+1))
			}
			f.join(&list)
		case anyMap:
			v = otel.Any{Kind: otel.Map}
			pairs := f.whole()
			for pairs.next() {
				if pairs.number != listValues {
					pairs.skip()
					continue
				}
				v.Map = append(v.Map, otel.KeyValue{})
				s.keyValue(&pairs, &v.Map[len(v.Map)-1], depth+1)
			}
			f.join(&pairs)
		default:
			f.skip()
		}
	}
	up.join(&f)
	return v
}
