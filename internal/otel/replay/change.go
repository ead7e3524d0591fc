package replay

import (
	"encoding/binary"
	"hash"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel/codec"
)

// A use says how a replay treats a field.
type use int

const (
	enter   use = iota // a message: read its fields
	record             // the message of a span or log record: read its fields
	time64             // a time that is shifted
	ends               // a time that is shifted, and that is the start or end of a span, or the time of a log record
	traceID            // a trace id, which is replaced
	spanID
)

// A field is a field that a replay changes, or a message with such fields. Changing a field does not change its
// size.
type field struct {
	use use
	of  message
}

// A message maps the numbers of the fields of an OTLP message to the fields that matter for a replay.
type message map[protowire.Number]field

// requests are the request messages of the signals.
var requests = [...]message{
	codec.Spans: request(message{
		1: {use: traceID}, 2: {use: spanID}, 4: {use: spanID}, 7: {use: ends}, 8: {use: ends},
		11: {enter, message{1: {use: time64}}},                    // events
		13: {enter, message{1: {use: traceID}, 2: {use: spanID}}}, // links
	}),
	codec.Logs: request(message{1: {use: ends}, 11: {use: time64}, 9: {use: traceID}, 10: {use: spanID}}),
}

// request returns the fields of a request. Its records are grouped by resource and scope, and have the fields in
// the parameter of.
func request(of message) message {
	return message{1: {enter, message{2: {enter, message{2: {record, of}}}}}}
}

// A change replaces times and ids in a message, and counts its records.
type change struct {
	shift time.Duration
	ids   *ids // nil if the ids do not change

	records     int64
	first, last int64 // the earliest and the latest time; 0: none
}

// message changes b, a message with the fields m, in place. The length of b does not change.
func (c *change) message(b []byte, m message) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		size := protowire.ConsumeFieldValue(number, kind, b)
		if size < 0 {
			return
		}
		if f, ok := m[number]; ok {
			c.field(b[:size], kind, f)
		}
		b = b[size:]
	}
}

func (c *change) field(b []byte, kind protowire.Type, f field) {
	switch kind {
	case protowire.Fixed64Type:
		if f.use == time64 || f.use == ends {
			c.time(b, f.use)
		}
	case protowire.BytesType:
		value, _ := protowire.ConsumeBytes(b)
		switch f.use {
		case record:
			c.records++
			c.message(value, f.of)
		case enter:
			c.message(value, f.of)
		case traceID, spanID:
			c.ids.change(f.use, value)
		}
	}
}

func (c *change) time(b []byte, u use) {
	t := shifted(binary.LittleEndian.Uint64(b), c.shift)
	binary.LittleEndian.PutUint64(b, t)
	if u != ends || t == 0 {
		return
	}
	at := int64(min(t, math.MaxInt64))
	if c.first == 0 || at < c.first {
		c.first = at
	}
	c.last = max(c.last, at)
}

// shifted returns the time t plus the duration in the parameter by. 0 means no time and stays 0. OTLP has no times
// before 1970: a result before 1970 becomes 1.
func shifted(t uint64, by time.Duration) uint64 {
	switch {
	case t == 0:
		return 0
	case by < 0:
		if back := uint64(-(by + 1)) + 1; back < t { // correct even for the smallest Duration
			return t - back
		}
		return 1
	default:
		return t + min(uint64(by), math.MaxUint64-t)
	}
}

// ids maps ids to new ids. The mapping depends only on the key of the hash.
type ids struct {
	hash hash.Hash
	sum  []byte

	lastTrace, newTrace [16]byte // a cache, because consecutive spans usually have the same trace
}

// change replaces an id in place. An empty or zero id does not change. If i is nil, no id changes.
func (i *ids) change(u use, id []byte) {
	switch {
	case i == nil || len(id) == 0 || wire.IsZero(id):
	case u == traceID && string(id) == string(i.lastTrace[:]):
		copy(id, i.newTrace[:])
	case u == traceID:
		copy(i.lastTrace[:], id)
		copy(id, i.of('t', id))
		copy(i.newTrace[:], id)
	default:
		copy(id, i.of('s', id))
	}
}

// of returns the hash of an id of the given kind.
func (i *ids) of(kind byte, id []byte) []byte {
	i.hash.Reset()
	_, _ = i.hash.Write([]byte{kind}) // cannot fail
	_, _ = i.hash.Write(id)
	i.sum = i.hash.Sum(i.sum[:0])
	return i.sum
}
