package otlp

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

const (
	// maxDepth is how deep values may nest: deeper ones are not read again.
	maxDepth = 64
	// maxValues is how many attributes, events, links and values a record may
	// have. They take far more memory than an input needs to name them.
	maxValues = 1 << 20
	// maxRecord is how many bytes of input a record may take, well below what
	// readers of the output accept as an entry.
	maxRecord = 32 << 20
)

// at begins to read a record.
func (s *jsonSource) at(off int64) *cursor {
	s.c.i, s.c.err, s.budget = int(off), nil, maxValues
	s.c.text.Reset()
	return &s.c
}

// done ends to read a record.
func (s *jsonSource) done(off int64) error {
	c := &s.c
	if c.err == nil && int64(c.i)-off > maxRecord {
		c.failAt(int(off), format.ErrTooLarge)
	}
	if c.err == nil {
		return nil
	}
	return &input.Error{Offset: int64(c.i), Err: c.err}
}

// count takes one from the budget of a record.
func (s *jsonSource) count() {
	if s.budget--; s.budget < 0 {
		s.c.fail(format.ErrTooLarge)
	}
}

// enum reads the number or the name of an enum.
func (s *jsonSource) enum(names map[string]int32) int32 {
	c := &s.c
	if c.space() != '"' {
		return int32(c.int(32))
	}
	at := c.i
	name := c.string()
	n, ok := names[name]
	if !ok && c.err == nil {
		i, err := strconv.ParseInt(name, 10, 32)
		if err != nil {
			c.failAt(at, ErrEnum)
		}
		n = int32(i)
	}
	return n
}

func (s *jsonSource) span(off int64, sp *otel.Span) error {
	c := s.at(off)
	resetSpan(sp)
	var start, end uint64
	for more := c.open('{'); more; more = c.more('{') {
		switch c.key() {
		case "traceId", "trace_id":
			c.id(sp.TraceID[:])
		case "spanId", "span_id":
			c.id(sp.SpanID[:])
		case "parentSpanId", "parent_span_id":
			c.id(sp.Parent[:])
		case "traceState", "trace_state":
			sp.TraceState = otel.Clean(c.string())
		case "flags":
			sp.Flags = uint32(c.uint(32))
		case "name":
			sp.Name = otel.Clean(c.string())
		case "kind":
			sp.Kind = otel.SpanKindOf(s.enum(spanKinds))
		case "startTimeUnixNano", "start_time_unix_nano":
			start = c.uint(64)
		case "endTimeUnixNano", "end_time_unix_nano":
			end = c.uint(64)
		case "attributes":
			sp.Attributes = s.attributes(sp.Attributes)
		case "droppedAttributesCount", "dropped_attributes_count":
			sp.DroppedAttributes = uint32(c.uint(32))
		case "events":
			for more := c.open('['); more; more = c.more('[') {
				sp.Events = grow(sp.Events)
				s.event(&sp.Events[len(sp.Events)-1])
			}
		case "droppedEventsCount", "dropped_events_count":
			sp.DroppedEvents = uint32(c.uint(32))
		case "links":
			for more := c.open('['); more; more = c.more('[') {
				sp.Links = grow(sp.Links)
				s.link(&sp.Links[len(sp.Links)-1])
			}
		case "droppedLinksCount", "dropped_links_count":
			sp.DroppedLinks = uint32(c.uint(32))
		case "status":
			for more := c.open('{'); more; more = c.more('{') {
				switch c.key() {
				case "message":
					sp.Description = otel.Clean(c.string())
				case "code":
					sp.Status = otel.StatusOf(s.enum(statusCodes))
				default:
					c.skip()
				}
			}
		default:
			c.skip()
		}
	}
	sp.SetTimes(start, end)
	return s.done(off)
}

func (s *jsonSource) event(ev *otel.Event) {
	c := &s.c
	s.count()
	*ev = otel.Event{Attributes: ev.Attributes[:0]}
	for more := c.open('{'); more; more = c.more('{') {
		switch c.key() {
		case "timeUnixNano", "time_unix_nano":
			ev.Time = int64(c.uint(64))
			ev.HasTime = ev.Time != 0
		case "name":
			ev.Name = otel.Clean(c.string())
		case "attributes":
			ev.Attributes = s.attributes(ev.Attributes)
		case "droppedAttributesCount", "dropped_attributes_count":
			ev.Dropped = uint32(c.uint(32))
		default:
			c.skip()
		}
	}
}

func (s *jsonSource) link(l *otel.Link) {
	c := &s.c
	s.count()
	*l = otel.Link{Attributes: l.Attributes[:0]}
	for more := c.open('{'); more; more = c.more('{') {
		switch c.key() {
		case "traceId", "trace_id":
			c.id(l.TraceID[:])
		case "spanId", "span_id":
			c.id(l.SpanID[:])
		case "traceState", "trace_state":
			l.TraceState = otel.Clean(c.string())
		case "attributes":
			l.Attributes = s.attributes(l.Attributes)
		case "droppedAttributesCount", "dropped_attributes_count":
			l.Dropped = uint32(c.uint(32))
		case "flags":
			l.Flags = uint32(c.uint(32))
		default:
			c.skip()
		}
	}
}

func (s *jsonSource) log(off int64, l *otel.Log) error {
	c := s.at(off)
	*l = otel.Log{Attributes: l.Attributes[:0]}
	for more := c.open('{'); more; more = c.more('{') {
		switch c.key() {
		case "timeUnixNano", "time_unix_nano":
			l.Time = int64(c.uint(64))
			l.HasTime = l.Time != 0
		case "observedTimeUnixNano", "observed_time_unix_nano":
			l.Observed = int64(c.uint(64))
		case "severityNumber", "severity_number":
			l.Severity = uint32(s.enum(severityNumbers))
		case "severityText", "severity_text":
			l.SeverityText = otel.Clean(c.string())
		case "body":
			l.Body = s.value(0)
		case "attributes":
			l.Attributes = s.attributes(l.Attributes)
		case "droppedAttributesCount", "dropped_attributes_count":
			l.Dropped = uint32(c.uint(32))
		case "flags":
			l.Flags = uint32(c.uint(32))
		case "traceId", "trace_id":
			c.id(l.TraceID[:])
		case "spanId", "span_id":
			c.id(l.SpanID[:])
		case "eventName", "event_name":
			l.EventName = otel.Clean(c.string())
		default:
			c.skip()
		}
	}
	endLog(l)
	return s.done(off)
}

func (s *jsonSource) scope(h *head, sc *otel.Scope) error {
	*sc = otel.Scope{}
	if h.value >= 0 {
		c := s.at(h.value)
		for more := c.open('{'); more; more = c.more('{') {
			switch c.key() {
			case "name":
				sc.Name = keep(c.string())
			case "version":
				sc.Version = keep(c.string())
			case "attributes":
				sc.Attributes = keepAll(s.attributes(sc.Attributes))
			case "droppedAttributesCount", "dropped_attributes_count":
				sc.Dropped = uint32(c.uint(32))
			default:
				c.skip()
			}
		}
		if err := s.done(h.value); err != nil {
			return err
		}
	}
	var err error
	sc.SchemaURL, err = s.url(h)
	return err
}

func (s *jsonSource) resource(h *head, r *otel.Resource) error {
	*r = otel.Resource{}
	if h.value >= 0 {
		c := s.at(h.value)
		for more := c.open('{'); more; more = c.more('{') {
			switch c.key() {
			case "attributes":
				r.Attributes = keepAll(s.attributes(r.Attributes))
			case "droppedAttributesCount", "dropped_attributes_count":
				r.Dropped = uint32(c.uint(32))
			default:
				c.skip()
			}
		}
		if err := s.done(h.value); err != nil {
			return err
		}
	}
	var err error
	r.SchemaURL, err = s.url(h)
	return err
}

func (s *jsonSource) url(h *head) (string, error) {
	if h.url < 0 {
		return "", nil
	}
	url := keep(s.at(h.url).string())
	return url, s.done(h.url)
}

// attributes reads an array of KeyValues.
func (s *jsonSource) attributes(attrs []otel.Attribute) []otel.Attribute {
	c := &s.c
	for more := c.open('['); more; more = c.more('[') {
		s.count()
		if a, ok := s.quickAttribute(); ok {
			attrs = append(attrs, a)
			continue
		}
		var kv otel.KeyValue
		s.keyValue(&kv, 0)
		attrs = append(attrs, otel.NewAttribute(kv.Key, &kv.Value))
	}
	otel.Attributes(attrs).Unify()
	return attrs
}

const (
	quickKey    = `{"key":"`
	quickString = `","value":{"stringValue":"`
	quickInt    = `","value":{"intValue":"`
)

// quickAttribute reads a KeyValue that is written as most are: plain text, or an
// integer, without spaces. It is no more than a faster way than keyValue.
func (s *jsonSource) quickAttribute() (a otel.Attribute, ok bool) {
	c := &s.c
	b := c.b[c.i:]
	if c.err != nil || len(b) < len(quickKey) || string(b[:len(quickKey)]) != quickKey {
		return a, false
	}
	from := len(quickKey)
	to := plain(b, from)
	key := b[from:to]
	rest := b[to:]
	if len(rest) < len(quickString) || !utf8.Valid(key) {
		return a, false
	}
	a.Name = unsafe.String(unsafe.SliceData(key), len(key))
	if string(rest[:len(quickString)]) == quickString {
		from, to = to+len(quickString), plain(b, to+len(quickString))
		value := b[from:to]
		if !bytes.HasPrefix(b[to:], []byte(`"}}`)) || !utf8.Valid(value) {
			return a, false
		}
		a.Value = format.StringValue(unsafe.String(unsafe.SliceData(value), len(value)))
	} else if string(rest[:len(quickInt)]) == quickInt {
		from = to + len(quickInt)
		n, digits := uint64(0), from
		if b[digits] == '-' {
			digits++
		}
		for to = digits; to < len(b) && b[to]-'0' <= 9; to++ {
			n = n*10 + uint64(b[to]-'0')
		}
		if to == digits || to-digits > 18 || !bytes.HasPrefix(b[to:], []byte(`"}}`)) {
			return a, false
		}
		if digits > from {
			n = -n
		}
		a.Value = format.I64Value(int64(n))
	} else {
		return a, false
	}
	c.i += to + len(`"}}`)
	return a, true
}

// keyValue reads a KeyValue into kv, which is empty.
func (s *jsonSource) keyValue(kv *otel.KeyValue, depth int) {
	c := &s.c
	for more := c.open('{'); more; more = c.more('{') {
		switch c.key() {
		case "key":
			kv.Key = otel.Clean(c.string())
		case "value":
			kv.Value = s.value(depth)
		default:
			c.skip()
		}
	}
}

// value reads an AnyValue.
func (s *jsonSource) value(depth int) (v otel.Any) {
	c := &s.c
	if depth > maxDepth {
		c.fail(ErrDeep)
	}
	for more := c.open('{'); more; more = c.more('{') {
		key := c.key()
		if c.space() == 'n' {
			c.literal("null")
			continue
		}
		switch key {
		case "stringValue", "string_value":
			v = otel.Any{Kind: otel.String, Text: c.string()}
		case "boolValue", "bool_value":
			v = otel.Any{Kind: otel.Bool, Bool: c.bool()}
		case "intValue", "int_value":
			v = otel.Any{Kind: otel.Int, Int: c.int(64)}
		case "doubleValue", "double_value":
			v = otel.Any{Kind: otel.Float, Float: c.float()}
		case "bytesValue", "bytes_value":
			v = otel.Any{Kind: otel.Bytes, Text: c.base64()}
		case "arrayValue", "array_value":
			v = otel.Any{Kind: otel.List, List: s.list(depth)}
		case "kvlistValue", "kvlist_value":
			v = otel.Any{Kind: otel.Map, Map: s.pairs(depth)}
		default:
			c.skip()
		}
	}
	return v
}

func (s *jsonSource) list(depth int) (list []otel.Any) {
	c := &s.c
	for more := c.open('{'); more; more = c.more('{') {
		if key := c.key(); key != "values" {
			c.skip()
			continue
		}
		for more := c.open('['); more; more = c.more('[') {
			s.count()
			list = append(list, s.value(depth+1))
		}
	}
	return list
}

func (s *jsonSource) pairs(depth int) (pairs []otel.KeyValue) {
	c := &s.c
	for more := c.open('{'); more; more = c.more('{') {
		if key := c.key(); key != "values" {
			c.skip()
			continue
		}
		for more := c.open('['); more; more = c.more('[') {
			s.count()
			pairs = append(pairs, otel.KeyValue{})
			s.keyValue(&pairs[len(pairs)-1], depth+1)
		}
	}
	return pairs
}

// grow appends an item, whose memory is what an earlier record left there.
func grow[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	list = slices.Grow(list, 1)
	return append(list, *new(T))
}
