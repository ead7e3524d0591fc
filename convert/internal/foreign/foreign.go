// Package foreign converts spans and log records of other formats, most of them JSON. A converter passes spans and
// log records in OpenTelemetry's types. Package foreign encodes them as entries. When it has all entries, it writes
// them to the trace, parents before children.
package foreign

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/input"
)

// A Record holds some spans of one resource, or one log record.
type Record struct {
	Resource otel.Resource
	Spans    []*otel.Span
	Log      *otel.Log

	at input.Error // the position of the record in the input, without an error
}

// An Adder accepts the next record, or an error instead of a record, and reports whether to continue.
type Adder func(r *Record, err error) bool

// Decode reads JSON values from r, in sequence or in arrays, and writes their records to w as [Write] does. The
// function records must pass each record of a value to add, and return the result of add. The parameter unit is the
// name of a value in errors. Decode returns the first error, as an [*input.Error]. It does not read on after damaged
// JSON.
func Decode[T any](ctx context.Context, r io.Reader, w *format.Writer, unit string, records func(v *T, add Adder) bool) error {
	return Write(ctx, w, func(yield func(*Record, error) bool) { values(ctx, r, unit, records, yield) })
}

// maxValue is the maximum size in bytes of a JSON value.
const maxValue = 256 << 20

// values reads all JSON values and passes their records to yield.
func values[T any](ctx context.Context, r io.Reader, unit string, records func(v *T, add Adder) bool, yield func(*Record, error) bool) {
	in := arrayReader{r: r}
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
			} else {
				r.at = input.Error{Offset: in.from, Unit: input.Unit(unit, n)}
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
		case !records(v, add): // if a value has a wrong type, only its field is missing
			return
		}
		in.from = d.InputOffset()
	}
	yield(nil, ctx.Err())
}

// wrongType reports whether err is about valid JSON of a wrong type. Reading can continue after such an error.
func wrongType(err error) bool {
	_, wrong := errors.AsType[*json.UnmarshalTypeError](err)
	return wrong
}

// damage adds a position to err. The value begins at the offset at.
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

// An arrayReader replaces the brackets and commas of outer arrays in its input by spaces.
type arrayReader struct {
	r      io.Reader
	read   int64
	from   int64 // offset at which the current value begins
	inner  int   // nesting depth within the current value
	depth  int   // number of arrays around the current value
	text   bool  // in a string
	escape bool
	err    error // the error of r
}

func (o *arrayReader) Read(b []byte) (int, error) {
	if o.read-o.from > maxValue {
		o.err = &input.Error{Offset: o.from, Err: format.ErrTooLarge}
		return 0, o.err
	}
	n, err := o.r.Read(b)
	if n < 0 || n > len(b) {
		n, err = 0, errors.New("the input's Read returned an invalid count")
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

// Any parses a JSON value. A number without a point and an exponent becomes an integer.
func Any(raw json.RawMessage) otel.Any {
	a := otel.Attribute{Value: format.StringValue(string(raw)), Encoding: otel.JSON}
	return a.Any()
}

// ErrID is returned for an id that [ID] cannot read.
var ErrID = errors.New("the id is too long or not hexadecimal")

// ID parses an id of hex digits. It adds leading zeros if there are too few digits. It returns false if digits is
// invalid.
func ID(id []byte, digits string) bool {
	clear(id)
	if len(digits) > 2*len(id) {
		// Some programs write ids of 64 bits with 128 bits.
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

// ErrNumber is returned for a record with an invalid [Number].
var ErrNumber = errors.New("a field such as a time or duration is not a number")

// A Number is an integer, such as a time or a duration in microseconds. Some programs write the number with a
// fraction or in quotes.
type Number int64

const (
	wrong     Number = math.MinInt64        // marks an invalid Number
	maxNumber        = math.MaxInt64 / 1000 // in microseconds; this number as nanoseconds still fits in an int64
)

// UnmarshalJSON implements [json.Unmarshaler]. It never returns an error, because json would then not read the rest
// of the document.
func (m *Number) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil && s != "null" {
		f, ferr := strconv.ParseFloat(s, 64)
		n = int64(f)
		if ferr != nil || math.Abs(f) > maxNumber {
			n = math.MinInt64
		}
	}
	*m = Number(n)
	if n > maxNumber || n < -maxNumber {
		*m = wrong
	}
	return nil
}

// Numbers returns [ErrNumber] if one of the Numbers is invalid.
func Numbers(all ...Number) error {
	if slices.Contains(all, wrong) {
		return ErrNumber
	}
	return nil
}

// Micros returns m, which is in microseconds, in nanoseconds.
func (m Number) Micros() int64 { return int64(m) * 1000 }

// A Loose is a text. Some programs write a number or a boolean instead.
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

// Text removes the attribute called name from attrs and returns its text. It returns "" if there is no such
// attribute.
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

// Marks sets fields of s, such as its kind and status, from attributes, and removes these attributes. OpenTelemetry's
// exporters write them to formats that do not have these fields. See OpenTelemetry's page "Transformation to non-OTLP formats".
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
