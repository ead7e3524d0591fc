package recorder

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// Begin begins an entry. The recorder finds the parent of the entry.
func (b *Batch) Begin(message format.Optional[string], m *format.Metadata) {
	h := m.Head(message)
	b.b.Head(&h)
	b.level(m.Level)
}

// BeginAt begins the entry of a log record at a call site of the same recorder.
func (b *Batch) BeginAt(c *CallSite, l format.Level, message string) {
	if c.owner != b.r || c.place == nil {
		b.err = errForeign
		return
	}
	b.b.Place(c.place, uint8(l), message)
	b.level(l)
}

// level stores the level and the message of the entry in b.event.
func (b *Batch) level(l format.Level) {
	if l > format.LevelError {
		b.err = format.ErrInvalid
	}
	b.event.Level, b.event.Message = uint8(l), b.b.Message()
}

// End ends an entry.
func (b *Batch) End() { b.b.End() }

// User says that the attributes that follow are the application's. A reserved name is then
// escaped, as the tables of package slogadapter say, and a name that occurs twice gets "#2".
// Before User, names are stored as they are.
func (b *Batch) User() { b.b.User() }

// Group makes name and a dot the prefix of the application's attributes that follow, until
// EndGroup or the end of the entry.
func (b *Batch) Group(name string) { b.b.Group(name) }

// EndGroup ends the last group.
func (b *Batch) EndGroup() { b.b.EndGroup() }

// Truncated marks the entry with "!TRUNCATED".
func (b *Batch) Truncated() { b.b.Truncated() }

// String adds an attribute. A text that is not valid UTF-8 becomes Bytes.
func (b *Batch) String(name, value string) { b.b.String(name, value) }

// JSON adds an attribute whose value is a JSON text, and lists its name in "otel.json".
func (b *Batch) JSON(name, value string) { b.b.JSON(name, value) }

// AnyValue adds an attribute whose value is the OTLP/JSON text of an AnyValue, and lists
// its name in "otel.anyvalue".
func (b *Batch) AnyValue(name, value string) { b.b.AnyValue(name, value) }

// Bytes adds an attribute.
func (b *Batch) Bytes(name string, value []byte) {
	v := format.BytesValue(value)
	b.b.Bytes(name, v.Text())
}

// Bool adds an attribute.
func (b *Batch) Bool(name string, value bool) { b.b.Bool(name, value) }

// Float adds an attribute.
func (b *Batch) Float(name string, value float64) { b.b.Float(name, math.Float64bits(value)) }

// U64 adds an attribute.
func (b *Batch) U64(name string, value uint64) {
	// A record with time 0 gets the current time later, so its time is not known here.
	if !journal.CoarseClock && value == uint64(b.time) && value != 0 && b.kind != 0 && name == format.AttrTime && b.b.Own() {
		b.b.RecordTime()
		return
	}
	b.b.U64(name, value)
}

// I64 adds an attribute.
func (b *Batch) I64(name string, value int64) { b.b.I64(name, value) }

// Duration adds d as an I64 of nanoseconds, and lists the name of the attribute in "entrace.duration".
func (b *Batch) Duration(name string, d time.Duration) { b.b.Duration(name, d) }

// Time adds the text of t in the format [time.RFC3339Nano].
func (b *Batch) Time(name string, t time.Time) { b.b.Time(name, t) }

// ID adds the text of a trace or span id, which has two lower-case hex digits for each byte.
func (b *Batch) ID(name string, id []byte) { b.b.Hex(name, id) }

// Value adds an attribute of any kind.
func (b *Batch) Value(name string, v *format.Value) {
	hi, lo := v.Words()
	if v.Kind() == format.KindU64 {
		b.U64(name, lo)
		return
	}
	b.b.Value(name, uint8(v.Kind()), v.Text(), hi, lo)
}

// Entry adds the entry e. The parent in e is ignored.
func (b *Batch) Entry(e *format.TraceEntry) {
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		b.Value(e.Attributes[i].Name, &e.Attributes[i].Value)
	}
	b.End()
}

// Attributes are attributes that many records have in common. [Batch.Attributes] makes
// them. They belong to one recorder and are safe for concurrent use.
type Attributes struct {
	owner  *Recorder
	shared atomic.Pointer[journal.Shared]
	groups record.Groups
	uses   atomic.Uint32 // number of uses, counted up to the last value of renumberAt
}

// renumberAt lists the numbers of uses after which the names of Attributes get numbers.
// Attributes that are used less often, for example by one request, get no numbers, so that
// names which never occur again use up no numbers.
var renumberAt = [2]uint32{8, 64}

// used counts a use of a, and gives the names numbers if the count is in renumberAt.
func (a *Attributes) used() {
	if a.uses.Load() >= renumberAt[1] {
		return
	}
	if n := a.uses.Add(1); n != renumberAt[0] && n != renumberAt[1] || a.owner.Discards() {
		return
	}
	if items := a.owner.intern.Renumber(a.shared.Load().Bytes()); items != nil {
		a.shared.Store(journal.NewShared(items))
	}
}

// Attributes returns the attributes and open groups of before, which may be nil, extended by
// the attributes and groups that build adds to b. The result is for Share. If b is building a
// record, that record is lost.
func (b *Batch) Attributes(before *Attributes, build func(*Batch)) *Attributes {
	b.kind, b.err = 0, nil
	b.b.Reset(0, nil, nil)
	b.b.Head(&wire.Head{})
	b.b.User()
	from := b.b.Mark()
	if before != nil && before.owner == b.r {
		b.b.Append(before.shared.Load().Bytes())
		b.b.Enter(&before.groups)
	}
	build(b)
	a := &Attributes{owner: b.r, groups: b.b.Groups()}
	a.shared.Store(journal.NewShared(b.b.Items(from)))
	return a
}

// Share adds the attributes a to a log record. Groups that are open at the end of a stay
// open. Several records that share the same Attributes need little more room than one record.
func (b *Batch) Share(a *Attributes) {
	if a.owner != b.r {
		b.err = errForeign
		return
	}
	a.used()
	b.b.Share(a.shared.Load())
	b.b.Enter(&a.groups)
}
