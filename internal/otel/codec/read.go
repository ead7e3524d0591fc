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

// The causes of an [Error], in addition to [format.ErrTruncated] and [format.ErrTooLarge].
var (
	ErrSyntax = errors.New("unexpected character")
	ErrID     = errors.New("the id has the wrong length or is not hexadecimal")
	ErrNumber = errors.New("not a number, or out of range")
	ErrEnum   = errors.New("unknown enum name")
	ErrBase64 = errors.New("not base64")
	ErrField  = errors.New("malformed protobuf field")
	ErrDeep   = errors.New("values are nested too deeply")
	ErrMany   = errors.New("too many resources, scopes and records")
)

// An Error says where and why an input is damaged.
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
	// maxValues is the maximum number of attributes, events, links and values of a record. In memory, each of these
	// is far larger than in the input.
	maxValues = 1 << 16
	// manyValues is the number of these values at which a record counts as large.
	manyValues = 1 << 12
	// maxRecord is the maximum size of a record in the input. It is well below the largest entry that readers of
	// traces accept.
	maxRecord = 32 << 20
)

// An input reads the fields of messages in one encoding. Its error is sticky: after an error, no more fields or
// items are found, and values are zero. A string is valid as long as the input does not change, and only until
// seek. It need not be UTF-8.
type input interface {
	// seek begins to read a record at an offset, and clears the error.
	seek(off int64)
	// offset returns the offset of the next byte to read.
	offset() int64
	failure() *Error
	// isObject reports whether the next value is a JSON object.
	isObject() bool
	fail(err error)

	// enter begins a message. If the parameter whole is set, the message must be complete; otherwise the fields
	// before a missing end are accepted.
	enter(whole bool) frame
	// field returns the index of the next known field, or a negative number at the end of the message. The parameter
	// next is a guess: usually the next field has this index or a slightly larger one.
	field(n fieldNames, next int) int
	// leave ends the message that enter has begun. The parameter f is the result of enter.
	leave(f frame)

	// first begins a repeated field, and reports whether it has an item.
	first() bool
	// more continues a repeated field, and reports whether another item follows.
	more() bool

	// place skips a value and returns its place. If the value is not complete, the place is absent.
	place() Place

	text() string
	bytes() string
	id(id []byte)
	// looseID is like id, but treats an invalid id as no id.
	looseID(id []byte)
	count() uint32
	fixed32() uint32
	fixed64() uint64
	enum(names map[string]int32) int32
	bool() bool
	int() int64
	float() float64
	// quickAttribute reads a KeyValue if it has a frequent form. The result ok is false if it has another form.
	// quickAttribute is only an optimization.
	quickAttribute() (a otel.Attribute, ok bool)
}

// A frame is the state of the outer message while an input reads a message in it.
type frame struct {
	end int
	cut bool
}

// A Reader reads OTLP in one encoding. Only one goroutine at a time may use it.
type Reader struct {
	e  Encoding
	in input
	// OnLarge, if set, is called during the read of a record that needs far more memory than its size in the input,
	// before most of this memory is allocated.
	OnLarge func()

	budget int    // number of values that the record may still have
	signal Signal // signal of the last protobuf message
	most   int    // see Limit
	left   int    // the part of most that is left, during Walk
	ids    ids
	known  bool // see Known
}

// ids are the ids of the current record.
type ids struct {
	trace        [16]byte
	span, parent [8]byte
}

// NewReader returns a Reader of b, which must not change. If a method does not say otherwise, its results may refer
// to b, and to memory of the Reader that the next read overwrites.
func NewReader(b []byte, e Encoding) *Reader {
	r := &Reader{e: e, most: math.MaxInt, left: math.MaxInt}
	if e == JSON {
		r.in = &cursor{b: b}
	} else {
		r.in = &fieldReader{b: b}
	}
	return r
}

// Assume sets the signal of protobuf messages that do not show it, for example because their records are empty.
func (r *Reader) Assume(s Signal) { r.signal = s }

// Limit bounds the total number of resources, scopes and records that later calls of Walk report. If the number
// exceeds most, the error of Walk is [ErrMany].
func (r *Reader) Limit(most int) { r.most, r.left = most, most }

// seek begins to read a record.
func (r *Reader) seek(off int64) {
	r.in.seek(off)
	r.budget = maxValues
}

// done ends the read of the record at the offset off, and returns the error.
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

// count counts a value of the current record against its budget.
func (r *Reader) count() {
	r.budget--
	switch {
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
		l.Body.Text = wire.ValidText(l.Body.Text) // the body becomes the message of an entry, which must be UTF-8
	}
	l.Attributes.Unify()
	l.TakeMarks()
	return r.done(off)
}

// Scope reads a scope. The result does not refer to the input.
func (r *Reader) Scope(h *Head, s *otel.Scope) (err error) {
	*s = otel.Scope{}
	err = readHead(r, h, scopeMessage, s, &s.SchemaURL)
	if err != nil {
		return err
	}
	s.Name, s.Version = strings.Clone(s.Name), strings.Clone(s.Version)
	s.Attributes = cloneTexts(s.Attributes)
	return nil
}

// Resource reads a resource. The result does not refer to the input.
func (r *Reader) Resource(h *Head, to *otel.Resource) (err error) {
	*to = otel.Resource{}
	err = readHead(r, h, resourceMessage, to, &to.SchemaURL)
	if err != nil {
		return err
	}
	to.Attributes = cloneTexts(to.Attributes)
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

// cloneTexts copies the texts of attributes, so that they remain valid after the input.
func cloneTexts(attrs otel.Attributes) otel.Attributes {
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
