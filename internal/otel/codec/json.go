package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

// A cursor is an input in JSON. If err is set, the error is at offset i.
type cursor struct {
	b       []byte
	i       int
	err     error
	opened  bool    // a message was entered, and no field of it was read yet
	scratch scratch // for strings with escapes
}

func (c *cursor) seek(off int64) {
	c.i, c.err, c.opened = int(off), nil, false
	c.scratch.reset()
}

func (c *cursor) offset() int64 {
	c.space()
	return int64(c.i)
}

func (c *cursor) failure() *Error {
	if c.err == nil {
		return nil
	}
	return &Error{Offset: int64(c.i), Err: c.err}
}

func (c *cursor) isObject() bool { return c.space() == '{' }

func (c *cursor) enter(bool) frame {
	c.opened = true
	return frame{}
}

func (c *cursor) field(n fieldNames, next int) int {
	for {
		more := false
		if c.opened {
			c.opened = false
			more = c.open('{')
		} else {
			more = c.follows('{')
		}
		if !more {
			return -1
		}
		i := n.key(c.key(), next)
		switch {
		case c.err != nil:
			return -1
		case i < 0:
			c.skip()
		case c.space() == 'n':
			c.literal("null") // a null means that the field is absent
		default:
			return i
		}
	}
}

func (c *cursor) leave(frame) {}

func (c *cursor) first() bool { return c.open('[') }

func (c *cursor) more() bool { return c.follows('[') }

func (c *cursor) place() Place {
	from := c.offset()
	c.skip()
	if c.err != nil {
		return nowhere
	}
	return Place{from, int64(c.i)}
}

// fail records an error.
func (c *cursor) fail(err error) {
	if c.err == nil {
		if c.i >= len(c.b) {
			c.i, err = len(c.b), format.ErrTruncated
		}
		c.err = err
	}
}

// space skips white space and returns the next byte, or 0 at the end.
func (c *cursor) space() byte {
	for c.i < len(c.b) {
		switch ch := c.b[c.i]; ch {
		case ' ', '\n', '\r', '\t':
			c.i++
		default:
			return ch
		}
	}
	return 0
}

// open reads the beginning of an object or array, and reports whether it has content. null counts as empty.
func (c *cursor) open(begin byte) bool {
	if c.err != nil {
		return false
	}
	switch c.space() {
	case begin:
	case 'n':
		c.literal("null")
		return false
	default:
		c.fail(ErrSyntax)
		return false
	}
	c.i++
	switch c.space() {
	case begin + 2: // the codes of '}' and ']' are the codes of '{' and '[' plus 2
		c.i++
		return false
	case 0:
		c.fail(ErrSyntax)
		return false
	}
	return true
}

// follows reads the comma or the closing bracket after a field or item, and reports whether another field or item
// follows.
func (c *cursor) follows(begin byte) bool {
	if c.err != nil {
		return false
	}
	switch c.space() {
	case ',':
		c.i++
		return true
	case begin + 2:
		c.i++
		return false
	}
	c.fail(ErrSyntax)
	return false
}

func (c *cursor) literal(s string) {
	if rest := c.b[c.i:]; len(rest) < len(s) && string(rest) == s[:len(rest)] {
		c.i = len(c.b)
		c.fail(format.ErrTruncated)
	} else if len(rest) < len(s) || string(rest[:len(s)]) != s {
		c.fail(ErrSyntax)
	} else {
		c.i += len(s)
	}
}

// key reads the name of a field and the colon after it.
func (c *cursor) key() string {
	if b := c.b; c.err == nil && c.i < len(b) && b[c.i] == '"' {
		// Most keys have no escapes, and no space after them.
		from := c.i + 1
		if to := jsontext.Plain(b, from); to+1 < len(b) && b[to] == '"' && b[to+1] == ':' {
			c.i = to + 2
			return wire.View(b[from:to])
		}
	}
	if c.err == nil && c.space() != '"' {
		c.fail(ErrSyntax)
	}
	key := c.text()
	if c.err == nil && c.space() != ':' {
		c.fail(ErrSyntax)
	}
	if c.err != nil {
		return ""
	}
	c.i++
	return key
}

// text reads a string, which need not be UTF-8. The string is valid until the next record is read, and as long as
// the input does not change.
func (c *cursor) text() string {
	if c.err != nil {
		return ""
	}
	if c.space() != '"' {
		c.fail(ErrSyntax)
		return ""
	}
	from := c.i + 1
	to := jsontext.Plain(c.b, from)
	if to < len(c.b) && c.b[to] == '"' {
		c.i = to + 1
		return wire.View(c.b[from:to])
	}
	return c.escaped(from, to)
}

// escaped reads the rest of a string that has escapes. b[from:to] are its first characters.
func (c *cursor) escaped(from, to int) string {
	mark := len(c.scratch.b)
	for {
		c.scratch.b = append(c.scratch.b, c.b[from:to]...)
		c.i = to
		if to >= len(c.b) || c.b[to] < ' ' {
			c.fail(ErrSyntax)
			return ""
		}
		if c.b[to] == '"' {
			c.i++
			return c.scratch.since(mark)
		}
		from = c.escape(to + 1)
		if c.err != nil {
			return ""
		}
		to = jsontext.Plain(c.b, from)
	}
}

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends the character of an escape and returns the offset after the escape. i is the offset after the
// backslash.
func (c *cursor) escape(i int) int {
	if i >= len(c.b) {
		c.i = i
		c.fail(ErrSyntax)
		return i
	}
	if ch := escapes[c.b[i]]; ch != 0 {
		c.scratch.b = append(c.scratch.b, ch)
		return i + 1
	}
	r, ok := c.unit(i)
	if !ok {
		return i
	}
	i += 5
	if utf16.IsSurrogate(r) {
		// A surrogate without a partner becomes U+FFFD.
		pair := rune(utf8.RuneError)
		if i+1 < len(c.b) && c.b[i] == '\\' && c.b[i+1] == 'u' {
			low, ok := c.unit(i + 1)
			if !ok {
				return i
			}
			pair = utf16.DecodeRune(r, low)
			if pair != utf8.RuneError {
				i += 6
			}
		}
		r = pair
	}
	c.scratch.b = utf8.AppendRune(c.scratch.b, r)
	return i
}

// unit reads the escape sequence at the offset i: a u and four hexadecimal digits.
func (c *cursor) unit(i int) (r rune, ok bool) {
	var n [2]byte
	if i+5 > len(c.b) {
		c.i = len(c.b)
		c.fail(format.ErrTruncated)
		return 0, false
	}
	if c.b[i] == 'u' {
		if _, err := hex.Decode(n[:], c.b[i+1:i+5]); err == nil {
			return rune(binary.BigEndian.Uint16(n[:])), true
		}
	}
	c.i = i
	c.fail(ErrSyntax)
	return 0, false
}

// The kinds of bytes that skip distinguishes.
const (
	scalar = 1 + iota // part of a number, or of true, false or null
	quote
	begin
	end
	between
)

var kinds = func() (k [256]byte) {
	for c := byte('0'); c <= '9'; c++ {
		k[c] = scalar
	}
	for c := byte('a'); c <= 'z'; c++ {
		k[c] = scalar
	}
	k['+'], k['-'], k['.'], k['E'] = scalar, scalar, scalar, scalar
	k['"'], k['{'], k['['], k['}'], k[']'] = quote, begin, begin, end, end
	for _, c := range ", :\n\r\t" {
		k[c] = between
	}
	return k
}()

// skip skips a value of any kind and depth. It checks the value only as far as is necessary to find its end.
func (c *cursor) skip() {
	if c.err != nil {
		return
	}
	c.space()
	b, i, depth := c.b, c.i, 0
	for i < len(b) {
		switch kinds[b[i]] {
		case quote:
			for i = jsontext.Plain(b, i+1); i < len(b) && b[i] == '\\'; {
				i = jsontext.Plain(b, i+2)
			}
			if i >= len(b) || b[i] != '"' {
				c.i = i
				c.fail(ErrSyntax)
				return
			}
			i++
		case begin:
			depth++
			i++
			continue
		case end:
			depth--
			i++
		case scalar:
			for i < len(b) && kinds[b[i]] == scalar {
				i++
			}
			if i == len(b) && depth == 0 {
				c.i = i // the rest of the value may be missing
				c.fail(format.ErrTruncated)
				return
			}
		case between:
			if depth == 0 {
				c.i = i
				c.fail(ErrSyntax)
				return
			}
			i++
			continue
		default:
			c.i = i
			c.fail(ErrSyntax)
			return
		}
		if depth <= 0 {
			c.i = i
			if depth < 0 {
				c.i--
				c.fail(ErrSyntax)
			}
			return
		}
	}
	c.i = i
	c.fail(format.ErrTruncated)
}

// number reads the text of a number, which may be in quotes.
func (c *cursor) number() string {
	if c.err != nil {
		return ""
	}
	if c.space() == '"' {
		return c.text()
	}
	from := c.i
	for c.i < len(c.b) && kinds[c.b[c.i]] == scalar {
		c.i++
	}
	if c.i == len(c.b) {
		c.fail(format.ErrTruncated)
		return ""
	}
	if c.i == from {
		c.fail(ErrSyntax)
	}
	return wire.View(c.b[from:c.i])
}

// failAt records an error for the value that begins at i.
func (c *cursor) failAt(i int, err error) {
	if c.err == nil {
		c.i, c.err = i, err
	}
}

func (c *cursor) count() uint32 { return uint32(c.uint(32)) }

func (c *cursor) fixed32() uint32 { return uint32(c.uint(32)) }

func (c *cursor) fixed64() uint64 { return c.uint(64) }

func (c *cursor) int() int64 { return c.signed(64) }

// enum reads an enum as a number or a name.
func (c *cursor) enum(names map[string]int32) int32 {
	if c.space() != '"' {
		return int32(c.signed(32))
	}
	at := c.i
	name := c.text()
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

// uint reads an unsigned integer that fits in size bits.
func (c *cursor) uint(size int) uint64 {
	c.space()
	at := c.i
	s := c.number()
	// A number of nineteen digits does not overflow.
	if len(s) > 0 && len(s) <= 19 && size == 64 {
		n := uint64(0)
		for i := 0; ; i++ {
			if i == len(s) {
				return n
			}
			d := s[i] - '0'
			if d > 9 {
				break
			}
			n = n*10 + uint64(d)
		}
	}
	n, err := strconv.ParseUint(s, 10, size)
	if err == nil {
		return n
	}
	// Some programs write integers as 1.7e18 or 5.0.
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil && f >= 0 && f < 1<<64 && f == math.Trunc(f) && bits.Len64(uint64(f)) <= size {
		return uint64(f)
	}
	c.failAt(at, ErrNumber)
	return 0
}

// signed is like uint for signed integers.
func (c *cursor) signed(size int) int64 {
	c.space()
	at := c.i
	s := c.number()
	n, err := strconv.ParseInt(s, 10, size)
	if err == nil {
		return n
	}
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil && math.Abs(f) < 1<<63 && f == math.Trunc(f) && bits.Len64(uint64(math.Abs(f))) < size {
		return int64(f)
	}
	c.failAt(at, ErrNumber)
	return 0
}

// float reads a number. In quotes, the number may also be a value that JSON cannot represent, such as NaN.
func (c *cursor) float() float64 {
	c.space()
	at := c.i
	s := c.number()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		c.failAt(at, ErrNumber)
	}
	return f
}

func (c *cursor) bool() bool {
	switch c.space() {
	case 't':
		c.literal("true")
		return c.err == nil
	case 'f':
		c.literal("false")
	case '"': // some programs write every value as a string
		return c.text() == "true"
	default:
		c.fail(ErrSyntax)
	}
	return false
}

// bytes reads base64 and returns the decoded bytes as a string.
func (c *cursor) bytes() string {
	c.space()
	at := c.i
	s := c.text()
	mark := len(c.scratch.b)
	var err error
	enc := base64.StdEncoding
	if strings.ContainsAny(s, "-_") {
		enc = base64.URLEncoding
	}
	if len(s)%4 != 0 {
		enc = enc.WithPadding(base64.NoPadding)
	}
	c.scratch.b, err = enc.AppendDecode(c.scratch.b, unsafe.Slice(unsafe.StringData(s), len(s)))
	if err != nil {
		c.failAt(at, ErrBase64)
		return ""
	}
	return c.scratch.since(mark)
}

// id reads an id of hex digits into id. An empty string means no id.
func (c *cursor) id(id []byte) {
	c.space()
	at := c.i
	s := c.text()
	switch len(s) {
	case 2 * len(id):
		if _, err := hex.Decode(id, unsafe.Slice(unsafe.StringData(s), len(s))); err != nil {
			c.failAt(at, ErrID)
		}
	case 0:
		clear(id)
	case base64.StdEncoding.EncodedLen(len(id)): // some programs write ids in base64, as protobuf's JSON mapping does with bytes
		b, err := base64.StdEncoding.DecodeString(s)
		copy(id, b)
		if err != nil || len(b) != len(id) {
			c.failAt(at, ErrID)
		}
	default:
		c.failAt(at, ErrID)
	}
}

// looseID is like id, but treats an invalid id as no id.
func (c *cursor) looseID(id []byte) {
	c.id(id)
	if c.err != nil && c.err != ErrSyntax && c.err != format.ErrTruncated { //nolint:errorlint // c.err is never wrapped
		c.err = nil
		clear(id)
		c.skip()
	}
}

const (
	quickKey    = `{"key":"`
	quickString = `","value":{"stringValue":"`
	quickInt    = `","value":{"intValue":"`
)

// quickAttribute reads an attribute whose value is a plain text or an integer, without white space.
func (c *cursor) quickAttribute() (a otel.Attribute, ok bool) {
	b := c.b[c.i:]
	if c.err != nil || len(b) < len(quickKey) || string(b[:len(quickKey)]) != quickKey {
		return a, false
	}
	from := len(quickKey)
	to := jsontext.Plain(b, from)
	key := b[from:to]
	rest := b[to:]
	if len(rest) < len(quickString) || !utf8.Valid(key) {
		return a, false
	}
	a.Name = wire.View(key)
	if string(rest[:len(quickString)]) == quickString {
		from, to = to+len(quickString), jsontext.Plain(b, to+len(quickString))
		value := b[from:to]
		if !bytes.HasPrefix(b[to:], []byte(`"}}`)) || !utf8.Valid(value) {
			return a, false
		}
		a.Value = format.StringValue(wire.View(value))
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
