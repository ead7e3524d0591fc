package otlp

import (
	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
)

// A jsonSource reads OTLP JSON.
type jsonSource struct {
	c      cursor
	begin  int // behind a byte order mark
	budget int // how many values the record may still have
}

func newJSONSource(b []byte, begin int) *jsonSource {
	return &jsonSource{c: cursor{b: b, i: begin}, begin: begin}
}

// index finds the spans and log records of all messages. The error says where
// their syntax is damaged, or where the input stops.
func (s *jsonSource) index(ix *index, check func() error) error {
	c := &s.c
	for number := int64(1); c.space() != 0 || c.i < len(c.b); number++ {
		c.text.Reset()
		if err := check(); err != nil {
			return err
		}
		for more := c.open('{'); more; more = c.more('{') {
			switch c.key() {
			case "resourceSpans", "resource_spans":
				s.indexResources(ix, false)
			case "resourceLogs", "resource_logs":
				s.indexResources(ix, true)
			default:
				c.skip()
			}
		}
		if c.err != nil {
			return &input.Error{Offset: int64(c.i), Unit: input.Unit("message", number), Err: c.err}
		}
	}
	return nil
}

// indexResources indexes the array of ResourceSpans or ResourceLogs.
func (s *jsonSource) indexResources(ix *index, logs bool) {
	c := &s.c
	for more := c.open('['); more; more = c.more('[') {
		from, h := ix.records.n, noHead
		for more := c.open('{'); more; more = c.more('{') {
			switch c.key() {
			case "resource":
				h.value, h.valueEnd = s.place()
			case "schemaUrl", "schema_url":
				h.url, h.urlEnd = s.place()
			case "scopeSpans", "scope_spans":
				s.indexScopes(ix, logs, !logs)
			case "scopeLogs", "scope_logs":
				s.indexScopes(ix, logs, logs)
			default:
				c.skip()
			}
		}
		ix.endResource(c.b, from, h)
		c.text.Reset()
	}
}

// indexScopes indexes the array of ScopeSpans or ScopeLogs, unless it is of the
// other signal.
func (s *jsonSource) indexScopes(ix *index, logs, wanted bool) {
	c := &s.c
	if !wanted {
		c.skip()
		return
	}
	for more := c.open('['); more; more = c.more('[') {
		from, h := ix.records.n, noHead
		for more := c.open('{'); more; more = c.more('{') {
			switch key := c.key(); {
			case key == "scope":
				h.value, h.valueEnd = s.place()
			case key == "schemaUrl" || key == "schema_url":
				h.url, h.urlEnd = s.place()
			case key == "spans" && !logs:
				for more := c.open('['); more; more = c.more('[') {
					s.indexSpan(ix)
				}
			case (key == "logRecords" || key == "log_records") && logs:
				for more := c.open('['); more; more = c.more('[') {
					s.indexLog(ix)
				}
			default:
				c.skip()
			}
		}
		ix.endScope(c.b, from, h)
	}
}

// place passes over a value and returns where it is, a place below 0 if it is not
// whole.
func (s *jsonSource) place() (from, to int64) {
	s.c.space()
	from = int64(s.c.i)
	if s.c.skip(); s.c.err != nil {
		return -1, -1
	}
	return from, int64(s.c.i)
}

func (s *jsonSource) indexSpan(ix *index) {
	c := &s.c
	c.space()
	off := int64(c.i)
	var trace [16]byte
	var span, parent [8]byte
	for more := c.open('{'); more; more = c.more('{') {
		switch c.key() {
		case "traceId", "trace_id":
			s.indexID(trace[:])
		case "spanId", "span_id":
			s.indexID(span[:])
		case "parentSpanId", "parent_span_id":
			s.indexID(parent[:])
		default:
			c.skip()
		}
	}
	if c.err == nil {
		ix.span(off, &trace, &span, &parent)
	}
}

func (s *jsonSource) indexLog(ix *index) {
	c := &s.c
	c.space()
	off := int64(c.i)
	var trace [16]byte
	var span [8]byte
	for more := c.open('{'); more; more = c.more('{') {
		switch c.key() {
		case "traceId", "trace_id":
			s.indexID(trace[:])
		case "spanId", "span_id":
			s.indexID(span[:])
		default:
			c.skip()
		}
	}
	if c.err == nil {
		ix.logRecord(off, &trace, &span)
	}
}

// indexID reads an id. That it is wrong is for the second pass to say.
func (s *jsonSource) indexID(id []byte) {
	c := &s.c
	c.id(id)
	if c.err != nil && c.err != ErrSyntax && c.err != format.ErrTruncated { //nolint:errorlint // c.err is never wrapped
		c.err = nil
		clear(id)
		c.skip()
	}
}

// message returns the number of the message that is at an offset.
func (s *jsonSource) message(off int64) (number int64) {
	c := cursor{b: s.c.b, i: s.begin}
	for c.err == nil && int64(c.i) <= off {
		number++
		c.skip()
		c.space()
	}
	return max(number, 1)
}
