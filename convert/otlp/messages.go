package otlp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/chunked"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/read/input"
)

const (
	// tagOne is the tag of a field with the number 1 and a length.
	tagOne = 1<<3 | byte(protowire.BytesType)
	// sizeSize is the number of bytes of the size before a message.
	sizeSize = 4
)

// messages finds the messages in an input.
type messages struct {
	b        []byte
	encoding codec.Encoding
	framed   bool // the size of each message precedes it
	begin    int  // offset after a byte order mark
	starts   chunked.List[int64]
	glued    int64 // the last result of nextGlued
}

// newMessages detects the encoding of b from its first bytes. JSON begins with a brace. A single protobuf message
// begins with the tag of its only field. The tag is the same byte as a newline. A sequence of protobuf messages
// begins with a size below 160 MiB.
func newMessages(b []byte) (*messages, error) {
	begin := 0
	if len(b) >= utf8.UTFMax-1 && string(b[:3]) == "\ufeff" {
		begin = 3
	}
	begin = space(b, begin)
	switch {
	case len(bytes.TrimSpace(b)) == 0 && !bare(b), begin < len(b) && b[begin] == '{' && !bare(b) && object(b[begin+1:]):
		return &messages{b: b, encoding: codec.JSON, begin: begin}, nil
	case b[0] == tagOne:
		return &messages{b: b, encoding: codec.Protobuf}, nil
	case len(b) < sizeSize && b[0] == 0:
		return &messages{b: b, encoding: codec.Protobuf, framed: true}, nil
	case len(b) >= sizeSize:
		n := binary.BigEndian.Uint32(b)
		if b[0] < tagOne && (n == 0 || len(b) == sizeSize || b[sizeSize] == tagOne) {
			return &messages{b: b, encoding: codec.Protobuf, framed: true}, nil
		}
	}
	return nil, &input.Error{Unit: "message 1", Err: ErrNotOTLP}
}

// space returns the offset after the white space from i on. The brackets and commas of an array of messages count
// as white space.
func space(b []byte, i int) int {
	for i < len(b) && strings.IndexByte(" \n\r\t[,]", b[i]) >= 0 {
		i++
	}
	return i
}

// object reports whether b may follow the opening brace of a JSON object.
func object(b []byte) bool {
	i := space(b, 0)
	return i == len(b) || b[i] == '"' || b[i] == '}'
}

// bare reports whether b is a single, complete protobuf message.
func bare(b []byte) bool {
	if len(b) == 0 || b[0] != tagOne {
		return false
	}
	for len(b) > 0 {
		if b[0] != tagOne {
			return false
		}
		_, n := protowire.ConsumeBytes(b[1:])
		if n < 0 {
			return false
		}
		b = b[1+n:]
	}
	return true
}

// walk calls v for the content of all messages. If a message is damaged, v gets the intact records before the damage,
// and the records of all later messages that can be found. The error is then an [*input.Error] for the first damaged
// message. The function check is called for each message, and walk returns its error.
func (m *messages) walk(r *codec.Reader, v codec.Visitor, check func() error) error {
	var first error
	for at := int64(m.begin); at < int64(len(m.b)); {
		if err := check(); err != nil {
			return err
		}
		m.starts.Add(at)
		end, err := m.walkOne(r, at, v)
		if damage, ok := errors.AsType[*codec.Error](err); ok {
			if first == nil {
				first = m.damage(damage, int64(m.starts.Len()))
			}
			end = m.next(at, end)
		}
		at = end
		if m.encoding == codec.JSON {
			at = int64(space(m.b, int(at)))
		}
	}
	if first == nil && m.starts.Len() > 0 && !r.Known() {
		return &input.Error{Offset: int64(m.begin), Unit: "message 1", Err: ErrNotOTLP}
	}
	return first
}

// walkOne walks the message at the offset at, and returns the offset after it.
func (m *messages) walkOne(r *codec.Reader, at int64, v codec.Visitor) (end int64, err error) {
	whole := int64(len(m.b))
	switch {
	case m.encoding == codec.JSON:
		return r.Walk(at, whole, false, v)
	case !m.framed:
		_, err = r.Walk(at, whole, !bare(m.b), v)
		return whole, err
	case whole-at < sizeSize:
		return whole, &codec.Error{Offset: whole, Err: format.ErrTruncated}
	}
	end = at + sizeSize + int64(binary.BigEndian.Uint32(m.b[at:]))
	_, err = r.Walk(at+sizeSize, min(end, whole), end > whole, v)
	return min(end, whole), err
}

// next returns the offset of the message after a damaged message. The damaged message begins at the offset at, and
// the damage is at the offset damage. In JSON, the next message begins on the first line after the damage that begins
// with a brace, or earlier on the same line: a writer that was killed within a line and started again continued on
// this line.
func (m *messages) next(at, damage int64) int64 {
	if m.encoding == codec.Protobuf {
		return damage // here damage is the end of the message
	}
	glued := m.nextGlued(at)
	from := min(max(damage, at+1), glued)
	if n := bytes.Index(m.b[from-1:glued], []byte("\n{")); n >= 0 {
		return from + int64(n)
	}
	return glued
}

var (
	head     = regexp.MustCompile(`\{\s*"resource(Spans|Logs|Metrics|_spans|_logs|_metrics)"`)
	ownHeads = regexp.MustCompile(`^\{\s*("[a-z]+"\s*:\s*\{\s*)?"resource(Spans|Logs|Metrics|_spans|_logs|_metrics)"`)
)

// nextGlued returns the offset of the next message after the message at the offset at, at any position in a line, or
// the size of the input. The beginning of a message inside a string has escapes, and is not found.
func (m *messages) nextGlued(at int64) int64 {
	from := at + max(1, int64(len(ownHeads.Find(m.b[at:]))))
	if m.glued < from {
		m.glued = int64(len(m.b))
		if found := head.FindIndex(m.b[from:]); found != nil {
			m.glued = from + int64(found[0])
		}
	}
	return m.glued
}

func (m *messages) damage(e *codec.Error, number int64) *input.Error {
	return &input.Error{Offset: e.Offset, Unit: input.Unit("message", number), Err: e.Err}
}

// begins reports whether a message begins at the offset off. After a damaged message, the reader may have read the
// beginning of the next message as a record.
func (m *messages) begins(off int64) bool { return *m.starts.At(int(m.number(off) - 1)) == off }

// number returns the number of the message that contains the offset off.
func (m *messages) number(off int64) int64 {
	n := sort.Search(m.starts.Len(), func(i int) bool { return *m.starts.At(i) > off })
	return int64(max(n, 1))
}
