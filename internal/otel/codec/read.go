package codec

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
)

// The causes in an [Error], in addition to [format.ErrTruncated] and [format.ErrTooLarge].
var (
	ErrSyntax = errors.New("unexpected character")
	ErrID     = errors.New("the id has the wrong length or is not hexadecimal")
	ErrNumber = errors.New("not a number, or out of range")
	ErrEnum   = errors.New("unknown enum name")
	ErrBase64 = errors.New("not base64")
	ErrField  = errors.New("malformed protobuf field")
	ErrDeep   = errors.New("values nest too deep")
	ErrMany   = errors.New("too many resources, scopes and records")
)

// An Error says where an input is damaged.
type Error struct {
	Offset int64
	Err    error
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("at offset %d: %v", e.Offset, e.Err) }

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

const (
	// maxDepth is the maximum nesting depth of values, as in protobuf parsers.
	maxDepth = 100
	// maxValues is the maximum number of attributes, events, links and values of a record. Each takes far more
	// memory than its bytes in the input.
	maxValues = 1 << 16
	// manyValues is the number of such values from which on a record counts as large.
	manyValues = 1 << 12
	// maxRecord is the maximum number of input bytes of a record. It is well below the size of an entry that
	// readers of the output accept.
	maxRecord = 32 << 20
)

// An input reads the fields of messages in one encoding. Its error is sticky: after an error there are no more
// fields and items, and values are zero. Strings are valid as long as the bytes of the input, but only until
// seek. They need not be UTF-8.
type input interface {
	// seek begins to read a record at an offset, and clears the error.
	seek(off int64)
	// offset returns the offset of the present value.
	offset() int64
	failure() *Error
	// isObject reports whether the present value is a JSON object.
	isObject() bool
	fail(err error)

	// enter begins a message. The parameter whole says that the message must be whole; if it is false, the intact
	// part of a truncated message is accepted. field returns the index of the next known field, or a negative
	// number at the end. This index is usually next or slightly larger. leave ends the message.
	enter(whole bool) frame
	field(n fieldNames, next int) int
	leave(f frame)

	// first begins a repeated field, and more continues it. They report whether there is an item.
	first() bool
	more() bool

	// place skips a value and returns its place. The place is absent if the value is not whole.
	place() Place

	text() string
	bytes() string
	id(id []byte)
	// looseID reads an id. An invalid id counts as no id.
	looseID(id []byte)
	count() uint32
	fixed32() uint32
	fixed64() uint64
	enum(names map[string]int32) int32
	bool() bool
	int() int64
	float() float64
	// quickAttribute reads a KeyValue in its most common form. It exists only because it is faster.
	quickAttribute() (a otel.Attribute, ok bool)
}

// A frame is the state of a message while an input reads a message nested in it.
type frame struct {
	end int
	cut bool
}

// A Reader reads OTLP in one encoding. Only one goroutine at a time may use it.
type Reader struct {
	e  Encoding
	in input
	// OnLarge, if set, is called while a record is read that needs far more memory than its bytes. It is called
	// before the reader uses most of that memory.
	OnLarge func()

	budget int    // number of values that the record may still have
	signal Signal // of the latest protobuf message
	most   int    // see Limit
	left   int    // the rest of most, in Walk
	ids    ids
	known  bool // see Known
}

// ids are the ids of the present record.
type ids struct {
	trace        [16]byte
	span, parent [8]byte
}

// NewReader returns a Reader of b, which must not change. Values that the Reader returns may alias b, and
// memory of the Reader that the next read overwrites, unless a method says otherwise.
func NewReader(b []byte, e Encoding) *Reader {
	r := &Reader{e: e, most: math.MaxInt, left: math.MaxInt}
	if e == JSON {
		r.in = &cursor{b: b}
	} else {
		r.in = &fieldReader{b: b}
	}
	return r
}

// Assume sets the signal for protobuf messages that do not show it, such as messages with empty records.
func (r *Reader) Assume(s Signal) { r.signal = s }

// Limit bounds the total number of resources, scopes and records that later calls of Walk report. When the
// number exceeds most, the error is [ErrMany].
func (r *Reader) Limit(most int) { r.most, r.left = most, most }

// seek begins to read a record.
func (r *Reader) seek(off int64) {
	r.in.seek(off)
	r.budget = maxValues
}

// done ends the read of the record at off, and returns its error.
func (r *Reader) done(off int64) error {
	if r.in.offset()-off > maxRecord {
		r.in.seek(off)
		r.in.fail(format.ErrTooLarge)
	}
	if damage := r.in.failure(); damage != nil {
		return damage
	}
	return nil
}

// count counts a value against the budget of a record.
func (r *Reader) count() {
	switch r.budget--; {
	case r.budget < 0:
		r.in.fail(format.ErrTooLarge)
	case r.budget == maxValues-manyValues && r.OnLarge != nil:
		r.OnLarge()
	}
}

// Span reads the span at an offset, with its links and events.
func (r *Reader) Span(off int64, s *otel.Span) error {
	*s = otel.Span{Attributes: s.Attributes[:0], Links: s.Links[:0], Events: s.Events[:0]}
	r.seek(off)
	spanMessage.read(r, s)
	s.SetTimes(uint64(s.Start), uint64(s.Duration))
	s.Attributes.Unify()
	s.TakeMarks()
	return r.done(off)
}

// Log reads the log record at an offset.
func (r *Reader) Log(off int64, l *otel.Log) error {
	*l = otel.Log{Attributes: l.Attributes[:0]}
	r.seek(off)
	logMessage.read(r, l)
	if l.Body.Kind == otel.String {
		l.Body.Text = wire.ValidText(l.Body.Text) // the body is the message
	}
	l.Attributes.Unify()
	l.TakeMarks()
	return r.done(off)
}

// Scope reads a scope. The result aliases nothing.
func (r *Reader) Scope(h *Head, s *otel.Scope) (err error) {
	*s = otel.Scope{}
	if err = readHead(r, h, scopeMessage, s, &s.SchemaURL); err != nil {
		return err
	}
	s.Name, s.Version = strings.Clone(s.Name), strings.Clone(s.Version)
	s.Attributes = keep(s.Attributes)
	return nil
}

// Resource reads a resource. The result aliases nothing.
func (r *Reader) Resource(h *Head, to *otel.Resource) (err error) {
	*to = otel.Resource{}
	if err = readHead(r, h, resourceMessage, to, &to.SchemaURL); err != nil {
		return err
	}
	to.Attributes = keep(to.Attributes)
	return nil
}

func readHead[T any](r *Reader, h *Head, m *message[T], to *T, url *string) error {
	if h.URL.From >= 0 {
		r.seek(h.URL.From)
		s := strings.Clone(wire.ValidText(r.in.text()))
		if err := r.done(h.URL.From); err != nil {
			return err
		}
		*url = s
	}
	if h.Value.From < 0 {
		return nil
	}
	r.seek(h.Value.From)
	m.read(r, to)
	return r.done(h.Value.From)
}

// keep copies attributes, so that they remain valid after their input.
func keep(attrs otel.Attributes) otel.Attributes {
	for i := range attrs {
		a := &attrs[i]
		a.Name = strings.Clone(a.Name)
		if a.Encoding == otel.Native && a.Value.Kind() == format.KindString {
			a.Value = format.StringValue(strings.Clone(a.Value.Text()))
		}
	}
	attrs.Unify()
	return attrs
}
