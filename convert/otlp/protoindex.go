package otlp

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
)

// A protoSource reads OTLP protobuf: one message, or framed ones.
type protoSource struct {
	b      []byte
	framed bool
	logs   bool // what the message before was
	budget int
}

// Fields of TracesData, LogsData, and of ResourceSpans, ResourceLogs, ScopeSpans
// and ScopeLogs, where those of both signals are the same.
const (
	fieldResources = 1
	fieldHead      = 1 // the resource or the scope
	fieldItems     = 2 // scopes, or spans or log records
	fieldSchemaURL = 3
)

// index finds the spans and log records of all messages.
func (s *protoSource) index(ix *index, check func() error) error {
	at := 0
	for number := int64(1); at < len(s.b); number++ {
		if err := check(); err != nil {
			return err
		}
		f := s.frame(at)
		at = f.end
		if f.err == nil {
			s.indexMessage(ix, &f)
		}
		if f.err != nil {
			return &input.Error{Offset: int64(f.at), Unit: input.Unit("message", number), Err: f.err}
		}
	}
	return nil
}

// frame returns a reader of the message at an offset.
func (s *protoSource) frame(at int) fieldReader {
	if !s.framed {
		return fieldReader{b: s.b, i: at, end: len(s.b), cut: !bare(s.b)}
	}
	f := fieldReader{b: s.b, i: at + sizeSize, end: len(s.b)}
	if len(s.b)-at < sizeSize {
		f.err, f.at = format.ErrTruncated, len(s.b)
		return f
	}
	n := int64(binary.BigEndian.Uint32(s.b[at:]))
	if left := int64(len(s.b) - f.i); n > left {
		f.cut = true
	} else {
		f.end = f.i + int(n)
	}
	return f
}

func (s *protoSource) indexMessage(ix *index, f *fieldReader) {
	if logs, known := sniff(*f); known {
		s.logs = logs
	}
	for f.next() {
		if f.number != fieldResources {
			f.skip()
			continue
		}
		from, h := ix.records.n, noHead
		resource := f.message()
		for resource.next() {
			switch resource.number {
			case fieldHead:
				h.value, h.valueEnd = resource.place()
			case fieldSchemaURL:
				h.url, h.urlEnd = resource.place()
			case fieldItems:
				scope := resource.message()
				s.indexScope(ix, &scope)
				resource.join(&scope)
			default:
				resource.skip()
			}
		}
		f.join(&resource)
		ix.endResource(s.b, from, h)
	}
}

func (s *protoSource) indexScope(ix *index, scope *fieldReader) {
	from, h := ix.records.n, noHead
	for scope.next() {
		switch scope.number {
		case fieldHead:
			h.value, h.valueEnd = scope.place()
		case fieldSchemaURL:
			h.url, h.urlEnd = scope.place()
		case fieldItems:
			off := int64(scope.i)
			item := scope.whole()
			if scope.err != nil {
				break
			}
			if s.logs {
				item.indexLog(ix, off)
			} else {
				item.indexSpan(ix, off)
			}
			scope.join(&item)
		default:
			scope.skip()
		}
	}
	ix.endScope(s.b, from, h)
}

// place passes over a field with a length, and returns where it is, a place below
// 0 if it is not whole.
func (f *fieldReader) place() (from, to int64) {
	from = int64(f.i)
	if f.whole(); f.err != nil {
		return -1, -1
	}
	return from, int64(f.i)
}

func (f *fieldReader) indexSpan(ix *index, off int64) {
	var trace [16]byte
	var span, parent [8]byte
	for f.next() {
		switch f.number {
		case spanTraceID:
			f.indexID(trace[:])
		case spanSpanID:
			f.indexID(span[:])
		case spanParentSpanID:
			f.indexID(parent[:])
		default:
			f.skip()
		}
	}
	if f.err == nil {
		ix.span(off, &trace, &span, &parent)
	}
}

func (f *fieldReader) indexLog(ix *index, off int64) {
	var trace [16]byte
	var span [8]byte
	for f.next() {
		switch f.number {
		case logTraceID:
			f.indexID(trace[:])
		case logSpanID:
			f.indexID(span[:])
		default:
			f.skip()
		}
	}
	if f.err == nil {
		ix.logRecord(off, &trace, &span)
	}
}

// indexID reads an id. That it is wrong is for the second pass to say.
func (f *fieldReader) indexID(id []byte) {
	if f.id(id); f.err == ErrID { //nolint:errorlint // it is never wrapped
		f.err = nil
		clear(id)
	}
}

// sniff tells the signal of a message from the fields of its first record that
// says it: in spans and log records, fields of one number are of different kinds.
func sniff(f fieldReader) (logs, known bool) {
	for f.next() {
		if f.number != fieldResources {
			f.skip()
			continue
		}
		resource := f.message()
		for resource.next() {
			if resource.number != fieldItems {
				resource.skip()
				continue
			}
			scope := resource.message()
			for scope.next() {
				if scope.number != fieldItems {
					scope.skip()
					continue
				}
				item := scope.message()
				for item.next() {
					if logs, known := tells(item.number, item.kind); known {
						return logs, true
					}
					item.skip()
				}
			}
		}
	}
	return false, false
}

// tells reports what a field of a record says about the record.
func tells(number protowire.Number, kind protowire.Type) (logs, known bool) {
	switch number {
	case 1: // trace_id, time_unix_nano
		return kind == protowire.Fixed64Type, kind == protowire.BytesType || kind == protowire.Fixed64Type
	case 2: // span_id, severity_number
		return kind == protowire.VarintType, kind == protowire.BytesType || kind == protowire.VarintType
	case 6: // kind, attributes
		return kind == protowire.BytesType, kind == protowire.BytesType || kind == protowire.VarintType
	case 7: // start_time_unix_nano, dropped_attributes_count
		return kind == protowire.VarintType, kind == protowire.Fixed64Type || kind == protowire.VarintType
	case 8: // end_time_unix_nano, flags
		return kind == protowire.Fixed32Type, kind == protowire.Fixed64Type || kind == protowire.Fixed32Type
	case 10: // dropped_attributes_count, span_id
		return kind == protowire.BytesType, kind == protowire.BytesType || kind == protowire.VarintType
	case 11: // events, observed_time_unix_nano
		return kind == protowire.Fixed64Type, kind == protowire.BytesType || kind == protowire.Fixed64Type
	case 13, 14, 15, 16: // only spans have them
		return false, true
	}
	return false, false
}

// message returns the number of the message that is at an offset.
func (s *protoSource) message(off int64) int64 {
	number := int64(1)
	for at := 0; s.framed; number++ {
		f := s.frame(at)
		if at = f.end; int64(at) > off || at >= len(s.b) {
			break
		}
	}
	return number
}
