package codec

import "google.golang.org/protobuf/encoding/protowire"

// A Place is the position of a value in an input. From is negative if the value is absent.
type Place struct{ From, To int64 }

// A Head is the position of a resource or scope, and the position of its schema URL.
type Head struct{ Value, URL Place }

// Bytes returns the parts of b at both positions.
func (h *Head) Bytes(b []byte) (value, url []byte) { return h.Value.bytes(b), h.URL.bytes(b) }

// Size returns the total size of both values in bytes.
func (h *Head) Size() int64 { return h.Value.To - h.Value.From + h.URL.To - h.URL.From }

func (p Place) bytes(b []byte) []byte {
	if p.From < 0 {
		return nil
	}
	return b[p.From:p.To]
}

var nowhere = Place{-1, -1}

// A Visitor receives the structure of a message: first the records of a scope, then the scope, and after all scopes
// of a resource the resource.
type Visitor interface {
	Span(off int64, trace *[16]byte, span, parent *[8]byte)
	Log(off int64, trace *[16]byte, span *[8]byte)
	EndScope(h Head)
	EndResource(h Head)
}

// Known reports whether Walk has found a field of OTLP in any message.
func (r *Reader) Known() bool { return r.known }

// Walk calls v for the content of the message in [from, to), a TracesData or LogsData, and returns the offset at
// which the message ends. Only in JSON can the message end before the offset to. If the input is damaged or, with
// cut, ends within the message, v receives the content before the damage, and the error is an [*Error]. Walk does not
// detect invalid values in records; methods that read a record do.
func (r *Reader) Walk(from, to int64, cut bool, v Visitor) (end int64, err error) {
	r.seek(from)
	if p, ok := r.in.(*fieldReader); ok {
		p.end, p.cut = int(to), cut
		if signal, known := sniff(*p, r.most); known {
			r.signal = signal
		}
	}
	r.walkData(v, true)
	if damage := r.in.failure(); damage != nil {
		return damage.Offset, damage
	}
	return r.in.offset(), nil
}

func (r *Reader) walkData(v Visitor, outer bool) {
	if r.e == JSON { // a top-level protobuf message has no length prefix
		r.in.enter(false)
	}
	head, scopes := Head{nowhere, nowhere}, false // of a bare ResourceSpans or ResourceLogs
	for i := r.in.field(dataNames, 0); i >= 0; i = r.in.field(dataNames, i) {
		signal := Signal(i)
		r.known = r.known || signal < bareHead
		switch {
		case signal >= around && outer && r.in.isObject():
			r.walkData(v, false)
		case signal == bareHead:
			head.Value = r.in.place()
		case signal == bareURL:
			head.URL = r.in.place()
		case signal == bare+Spans, signal == bare+Logs:
			scopes = true
			for more := r.in.first(); more; more = r.in.more() {
				r.walkScope(signal-bare, v)
			}
		case signal >= metrics && r.e == JSON:
			r.in.place()
		default:
			if r.e == Protobuf {
				signal = r.signal
			}
			for more := r.in.first(); more; more = r.in.more() {
				v.EndResource(r.walkGroup(signals[signal].holder, func() { r.walkScope(signal, v) }))
			}
		}
	}
	if scopes {
		v.EndResource(head)
	}
}

func (r *Reader) walkScope(signal Signal, v Visitor) {
	s := &signals[signal]
	v.EndScope(r.walkGroup(s.scope, func() { r.walkRecord(s, signal, v) }))
}

// walkGroup walks a message with a resource or a scope and the items that belong to it, in any order.
func (r *Reader) walkGroup(n fieldNames, item func()) Head {
	h := Head{nowhere, nowhere}
	r.countItem()
	f := r.in.enter(false)
	for i := r.in.field(n, 0); i >= 0; i = r.in.field(n, i+1) {
		switch i {
		case fieldHead:
			h.Value = r.in.place()
		case fieldURL:
			h.URL = r.in.place()
		case fieldItems:
			for more := r.in.first(); more; more = r.in.more() {
				item()
			}
		}
	}
	r.in.leave(f)
	return h
}

func (r *Reader) walkRecord(s *signal, signal Signal, v Visitor) {
	off := r.in.offset()
	r.ids = ids{}
	r.countItem()
	f := r.in.enter(true)
	for i := r.in.field(s.ids, 0); i >= 0; i = r.in.field(s.ids, i+1) {
		switch i {
		case idTrace:
			r.in.looseID(r.ids.trace[:])
		case idSpan:
			r.in.looseID(r.ids.span[:])
		case idParent:
			r.in.looseID(r.ids.parent[:])
		}
	}
	r.in.leave(f)
	switch {
	case r.in.failure() != nil:
	case signal == Logs:
		v.Log(off, &r.ids.trace, &r.ids.span)
	default:
		v.Span(off, &r.ids.trace, &r.ids.span, &r.ids.parent)
	}
}

// countItem counts a resource, scope or record against the limit of Limit.
func (r *Reader) countItem() {
	r.left--
	if r.left < 0 {
		r.in.fail(ErrMany)
	}
}

// sniff detects the signal of a protobuf message from the fields of its records: fields with the same number have
// different wire types in spans and log records. It reads until a record shows the signal, but no more messages
// than the limit most.
func sniff(f fieldReader, most int) (_ Signal, known bool) {
	for f.item(1, &most) {
		holder := f.enter(false)
		for f.item(2, &most) {
			scope := f.enter(false)
			for f.item(2, &most) {
				record := f.enter(false)
				for f.next() {
					if signal, known := tells(f.number, f.kind); known {
						return signal, true
					}
					f.skip()
				}
				f.leave(record)
			}
			f.leave(scope)
		}
		f.leave(holder)
	}
	return Spans, false
}

// item advances to the next field with this number that is a message, and decrements *left. It returns false if there
// is no such field, or if *left was 0.
func (f *fieldReader) item(number protowire.Number, left *int) bool {
	for f.next() {
		if f.number == number && f.kind == protowire.BytesType {
			*left--
			return *left >= 0
		}
		f.skip()
	}
	return false
}

// tells returns the signal of a record that has a field with this number and wire type. The result known is false if
// both signals or neither signal has such a field.
func tells(number protowire.Number, kind protowire.Type) (_ Signal, known bool) {
	span, log := spanMessage.has(number, kind), logMessage.has(number, kind)
	if log {
		return Logs, !span
	}
	return Spans, span
}
