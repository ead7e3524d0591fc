// Package foreign converts spans and log records of foreign formats, most of them JSON, through package otlp:
// parents are written before children, equal resources are written once, and memory is bounded.
package foreign

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
)

// A Record holds spans, or one log record, of one resource.
type Record struct {
	Resource otel.Resource
	Spans    []*otel.Span
	Log      *otel.Log
}

// An Adder accepts the next record, or an error in its place, and reports whether to continue.
type Adder func(r *Record, err error) bool

// Decode reads JSON values from r, which are in arrays or follow each other, and writes their records to w as
// [otlp.Decode] does. The function records passes the records of a value to add, and returns the result of add.
// The parameter unit names a value in errors. Decode returns the first error, as an [*input.Error]. It does not
// read past damaged JSON.
func Decode[T any](ctx context.Context, r io.Reader, w *format.Writer, unit string, records func(v *T, add Adder) bool) error {
	return Write(ctx, w, func(yield func(*Record, error) bool) { values(ctx, r, unit, records, yield) })
}

// Write writes records to w as [otlp.Decode] does. It returns the first error.
func Write(ctx context.Context, w *format.Writer, records iter.Seq2[*Record, error]) error {
	next, stop := iter.Pull2(records)
	defer stop()
	s := stream{next: next}
	err := otlp.Decode(ctx, &s, w, nil)
	return cmp.Or(err, s.err)
}

// A stream is a reader that returns records as OTLP protobuf messages.
type stream struct {
	next func() (*Record, error, bool)
	rest []byte
	buf  []byte
	err  error
}

func (s *stream) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		r, err, ok := s.next()
		switch {
		case !ok:
			return 0, io.EOF
		case err != nil:
			s.err = cmp.Or(s.err, err)
		default:
			s.buf = appendFrame(s.buf[:0], r)
			s.rest = s.buf
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// appendFrame appends the message of a record after its size.
func appendFrame(b []byte, r *Record) []byte {
	const e = codec.Protobuf
	var scopes []*codec.ScopeGroup
	signal := codec.Spans
	for i, s := range r.Spans {
		if i == 0 || !sameScope(&s.Scope, &scopes[len(scopes)-1].Scope) {
			scopes = append(scopes, &codec.ScopeGroup{Scope: s.Scope})
		}
		to := scopes[len(scopes)-1]
		from := len(to.Records)
		to.Records = e.AppendSpan(to.Records, s)
		for i := range s.Links {
			to.Records = e.AppendLink(to.Records, &s.Links[i], i == 0)
		}
		for i := range s.Events {
			to.Records = e.AppendEvent(to.Records, &s.Events[i], i == 0)
		}
		to.Records = e.EndSpan(to.Records, from)
	}
	if r.Log != nil {
		signal, scopes = codec.Logs, []*codec.ScopeGroup{{Scope: r.Log.Scope, Records: e.AppendLog(nil, r.Log)}}
	}
	from := len(b)
	b = append(b, 0, 0, 0, 0)
	b = e.AppendMessage(b, signal, []codec.Group{{Resource: &r.Resource, Scopes: scopes}})
	binary.BigEndian.PutUint32(b[from:], uint32(len(b)-from-4))
	return b
}

func sameScope(a, b *otel.Scope) bool {
	return a.Name == b.Name && a.Version == b.Version && a.SchemaURL == b.SchemaURL && a.Dropped == b.Dropped && len(a.Attributes)+len(b.Attributes) == 0
}

// maxValue is the maximum size of one value in bytes.
const maxValue = 256 << 20

// values reads all values and yields their records.
func values[T any](ctx context.Context, r io.Reader, unit string, records func(v *T, add Adder) bool, yield func(*Record, error) bool) {
	in := opened{r: r}
	d := json.NewDecoder(&in)
	for n := int64(1); ctx.Err() == nil; n++ {
		v := new(T)
		err := d.Decode(v)
		if errors.Is(err, io.EOF) && in.depth > 0 {
			err = io.ErrUnexpectedEOF
		}
		add := func(r *Record, err error) bool {
			if err != nil {
				err = damage(d, in.from, err, input.Unit(unit, n))
			}
			return yield(r, err)
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case in.err != nil:
			yield(nil, in.err)
			return
		case err != nil && (!add(nil, err) || !wrongType(err)):
			return
		case !records(v, add): // if a value has a wrong type, only the field is lost
			return
		}
		in.from = d.InputOffset()
	}
	yield(nil, ctx.Err())
}

// Scan calls fn with each JSON value that [Decode] would read. It stops at damaged JSON.
func Scan[T any](ctx context.Context, r io.Reader, fn func(v *T)) {
	values(ctx, r, "", func(v *T, _ Adder) bool { fn(v); return true }, func(*Record, error) bool { return true })
}

// wrongType reports whether err is about a valid JSON value of a wrong type. Reading can continue after it.
func wrongType(err error) bool {
	_, wrong := errors.AsType[*json.UnmarshalTypeError](err)
	return wrong
}

// damage adds the position at, where the value begins, to err.
func damage(d *json.Decoder, at int64, err error, unit string) error {
	if e, ok := errors.AsType[*input.Error](err); ok {
		e.Offset, e.Unit = at, unit
		return e
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		at = max(d.InputOffset(), e.Offset-1)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = format.ErrTruncated
	}
	return &input.Error{Offset: at, Unit: unit, Err: err}
}

// An opened is a reader that replaces the brackets and commas of outer arrays by blanks.
type opened struct {
	r      io.Reader
	read   int64
	from   int64 // where the present value begins
	inner  int   // nesting depth within a value
	depth  int   // number of arrays around the value
	text   bool  // within a string
	escape bool
	err    error // of r
}

func (o *opened) Read(b []byte) (int, error) {
	if o.read-o.from > maxValue {
		o.err = &input.Error{Offset: o.from, Err: format.ErrTooLarge}
		return 0, o.err
	}
	n, err := o.r.Read(b)
	if n < 0 || n > len(b) {
		n, err = 0, errors.New("the input returned an impossible count from Read")
	}
	o.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		o.err = err
	}
	for i, c := range b[:n] {
		switch {
		case o.escape:
			o.escape = false
		case o.text:
			o.escape, o.text = c == '\\', c != '"'
		case c == '"':
			o.text = true
		case c == '{' || c == '[' && o.inner > 0:
			o.inner++
		case c == '}' || c == ']' && o.inner > 0:
			o.inner = max(o.inner-1, 0)
		case o.inner > 0:
		case c == '[':
			b[i] = ' '
			o.depth++
		case c == ']' && o.depth > 0:
			b[i] = ' '
			o.depth--
		case c == ',' && o.depth > 0:
			b[i] = ' '
		}
	}
	return n, err
}

// Any parses a JSON value. Numbers without a point or an exponent are integers.
func Any(raw json.RawMessage) otel.Any {
	a := otel.Attribute{Value: format.StringValue(string(raw)), Encoding: otel.JSON}
	return a.Any()
}

// ErrID is the error of an id that [ID] cannot read.
var ErrID = errors.New("the id is too long or not hexadecimal")

// ID parses an id of hex digits. If digits are fewer than fit in id, ID adds leading zeros. It reports whether
// digits are valid.
func ID(id []byte, digits string) bool {
	clear(id)
	if len(digits) > 2*len(id) {
		// Some writers use 128 bits for ids of 64 bits.
		extra := digits[:len(digits)-2*len(id)]
		if strings.Trim(extra, "0") != "" {
			return false
		}
		digits = digits[len(extra):]
	}
	if len(digits)%2 != 0 {
		digits = "0" + digits
	}
	b, err := hex.DecodeString(digits)
	copy(id[len(id)-len(b):], b)
	return err == nil
}

// ErrNumber is the error of a record with an invalid [Number].
var ErrNumber = errors.New("a value that must be a number is none")

// A Number is an integer, such as a time or a duration in microseconds. Some writers use a fraction or quotes.
type Number int64

const (
	wrong     Number = math.MinInt64        // an invalid Number
	maxNumber        = math.MaxInt64 / 1000 // in microseconds, limited so that nanoseconds fit in an int64
)

// UnmarshalJSON implements [json.Unmarshaler]. It never returns an error, because an error would end the
// document.
func (m *Number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && s != "null" {
		f, ferr := strconv.ParseFloat(s, 64)
		if n = int64(f); ferr != nil || math.Abs(f) > maxNumber {
			n = math.MinInt64
		}
	}
	if *m = Number(n); n > maxNumber || n < -maxNumber {
		*m = wrong
	}
	return nil
}

// Numbers returns [ErrNumber] if at least one Number is invalid.
func Numbers(all ...Number) error {
	if slices.Contains(all, wrong) {
		return ErrNumber
	}
	return nil
}

// Micros converts m from microseconds to nanoseconds.
func (m Number) Micros() int64 { return int64(m) * 1000 }

// A Loose is a text. Some writers use a number or a boolean in its place.
type Loose string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Loose) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b)
	}
	*t = Loose(s)
	return nil
}

// Text removes the attribute called name from attrs and returns its text.
func Text(attrs *otel.Attributes, name string) string {
	for i := range *attrs {
		if a := &(*attrs)[i]; a.Name == name && a.Encoding == otel.Native && a.Value.Kind() == format.KindString {
			s := a.Value.Text()
			*attrs = slices.Delete(*attrs, i, i+1)
			return s
		}
	}
	return ""
}

// Marks converts the attributes of s in which OpenTelemetry's exporters store fields that other formats lack.
// See OpenTelemetry's page "Transformation to non-OTLP formats".
func Marks(s *otel.Span) {
	a := &s.Attributes
	if kind, ok := otel.ParseSpanKind(strings.ToLower(Text(a, "span.kind"))); ok {
		s.Kind = kind
	}
	switch strings.ToUpper(Text(a, "otel.status_code")) {
	case "OK":
		s.Status = otel.StatusOK
	case "ERROR":
		s.Status = otel.StatusError
	}
	s.Description = Text(a, "otel.status_description")
	s.Scope.Name = cmp.Or(Text(a, "otel.scope.name"), Text(a, "otel.library.name"))
	s.Scope.Version = cmp.Or(Text(a, "otel.scope.version"), Text(a, "otel.library.version"))
	s.TraceState = Text(a, "w3c.tracestate")
}
