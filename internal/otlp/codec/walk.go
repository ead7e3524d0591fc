package codec

import "google.golang.org/protobuf/encoding/protowire"

// A Place is where a value is in an input. One that is not there is from below 0.
type Place struct{ From, To int64 }

// A Head is where a resource or a scope is, and where the schema URL beside it.
type Head struct{ Value, URL Place }

// Bytes returns the bytes of both in b.
func (h *Head) Bytes(b []byte) (value, url []byte) { return h.Value.bytes(b), h.URL.bytes(b) }

// Size returns how many bytes both have.
func (h *Head) Size() int64 { return h.Value.To - h.Value.From + h.URL.To - h.URL.From }

func (p Place) bytes(b []byte) []byte {
	if p.From < 0 {
		return nil
	}
	return b[p.From:p.To]
}

var nowhere = Place{-1, -1}

// A Visitor is told what a message has: first the records of a scope, then which scope they
// are of, and after the scopes of a resource, which resource they are of.
type Visitor interface {
	Span(off int64, trace *[16]byte, span, parent *[8]byte)
	Log(off int64, trace *[16]byte, span *[8]byte)
	EndScope(h Head)
	EndResource(h Head)
}

// Walk tells v what the message in [from, to) has, a TracesData or LogsData, and returns
// where it ends. Only in JSON may that be before to. If the input stops within the message,
// or is damaged, v is told all that is whole before, and the error is an [*Error]. That a
// record has a wrong value is found when it is read.
func (r *Reader) Walk(from, to int64, cut bool, v Visitor) (end int64, err error) {
	r.seek(from)
	if p, ok := r.in.(*fieldReader); ok {
		p.end, p.cut = int(to), cut
		if signal, known := sniff(*p); known {
			r.signal = signal
		}
	}
	r.walkData(v)
	if damage := r.in.failure(); damage != nil {
		return damage.Offset, damage
	}
	return r.in.offset(), nil
}

func (r *Reader) walkData(v Visitor) {
	if r.e == JSON { // else the message has no length before it
		r.in.enter(false)
	}
	for i := r.in.field(dataNames, 0); i >= 0; i = r.in.field(dataNames, i) {
		signal := Signal(i)
		if r.e == Protobuf {
			signal = r.signal
		}
		s := &signals[signal]
		for more := r.in.first(); more; more = r.in.more() {
			r.walkHolder(s, signal, v)
		}
	}
}

func (r *Reader) walkHolder(s *signal, signal Signal, v Visitor) {
	h := Head{nowhere, nowhere}
	f := r.in.enter(false)
	for i := r.in.field(s.holder, 0); i >= 0; i = r.in.field(s.holder, i+1) {
		switch i {
		case fieldHead:
			h.Value = r.in.place()
		case fieldURL:
			h.URL = r.in.place()
		case fieldItems:
			for more := r.in.first(); more; more = r.in.more() {
				r.walkScope(s, signal, v)
			}
		}
	}
	r.in.leave(f)
	v.EndResource(h)
}

func (r *Reader) walkScope(s *signal, signal Signal, v Visitor) {
	h := Head{nowhere, nowhere}
	f := r.in.enter(false)
	for i := r.in.field(s.scope, 0); i >= 0; i = r.in.field(s.scope, i+1) {
		switch i {
		case fieldHead:
			h.Value = r.in.place()
		case fieldURL:
			h.URL = r.in.place()
		case fieldItems:
			for more := r.in.first(); more; more = r.in.more() {
				r.walkRecord(s, signal, v)
			}
		}
	}
	r.in.leave(f)
	v.EndScope(h)
}

func (r *Reader) walkRecord(s *signal, signal Signal, v Visitor) {
	off := r.in.offset()
	r.ids = ids{}
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

// sniff tells the signal of a message of protobuf from the fields of its first record that
// says it: in spans and log records, fields of one number are of different kinds.
func sniff(f fieldReader) (_ Signal, known bool) {
	for f.item(1) {
		holder := f.enter(false)
		for f.item(2) {
			scope := f.enter(false)
			for f.item(2) {
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

// item goes to the next field that is a message of a number.
func (f *fieldReader) item(number protowire.Number) bool {
	for f.next() {
		if f.number == number && f.kind == protowire.BytesType {
			return true
		}
		f.skip()
	}
	return false
}

// tells reports what a field of a record says about the record.
func tells(number protowire.Number, kind protowire.Type) (_ Signal, known bool) {
	span, log := spanMessage.has(number, kind), logMessage.has(number, kind)
	if log {
		return Logs, !span
	}
	return Spans, span
}
