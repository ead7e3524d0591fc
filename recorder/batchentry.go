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

// Begin begins an entry. The recorder finds its parent.
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

// level notes what the first entry of a record is.
func (b *Batch) level(l format.Level) {
	if l > format.LevelError {
		b.err = format.ErrInvalid
	}
	b.event.Level, b.event.Message = uint8(l), b.b.Message()
}

// End ends an entry.
func (b *Batch) End() { b.b.End() }

// User says that the attributes that follow are the application's: a name that is reserved
// is escaped, as the tables of package slogadapter say, and one that comes twice gets "#2".
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

// JSON adds an attribute whose value is a JSON text, and names it in "otel.json".
func (b *Batch) JSON(name, value string) { b.b.JSON(name, value) }

// AnyValue adds an attribute whose value is the OTLP/JSON text of an AnyValue, and names
// it in "otel.anyvalue".
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
	// 0 becomes now.
	if !journal.CoarseClock && value == uint64(b.time) && value != 0 && b.kind != 0 && name == format.AttrTime && b.b.Own() {
		b.b.RecordTime()
		return
	}
	b.b.U64(name, value)
}

// I64 adds an attribute.
func (b *Batch) I64(name string, value int64) { b.b.I64(name, value) }

// Duration adds an attribute that is an I64 of nanoseconds, and names it in "entrace.duration".
func (b *Batch) Duration(name string, d time.Duration) { b.b.Duration(name, d) }

// Time adds an attribute that is the text of t as [time.RFC3339Nano] has it.
func (b *Batch) Time(name string, t time.Time) { b.b.Time(name, t) }

// ID adds an attribute that is the text of a trace or span id: two lower-case hex digits
// a byte.
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

// Entry adds an entry. Its parent is not used.
func (b *Batch) Entry(e *format.TraceEntry) {
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		b.Value(e.Attributes[i].Name, &e.Attributes[i].Value)
	}
	b.End()
}

// Attributes are attributes that many records have in common. They are made by
// [Batch.Attributes], belong to one recorder, and are safe for concurrent use.
type Attributes struct {
	owner  *Recorder
	shared atomic.Pointer[journal.Shared]
	groups record.Groups
	uses   atomic.Uint32 // up to the last of renumberAt
}

// renumberAt is the number of uses after which the names of Attributes get numbers. Attributes
// that are used less often, such as those of one request, get none, so that names which never
// come again use up no numbers.
var renumberAt = [2]uint32{8, 64}

// used counts a use.
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
// those that build adds to b. The result is for Share. The record that b is building is lost.
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

// Share adds attributes to a log record. Groups that a leaves open stay open. Several
// records that share a need little more room than one record.
func (b *Batch) Share(a *Attributes) {
	if a.owner != b.r {
		b.err = errForeign
		return
	}
	a.used()
	b.b.Share(a.shared.Load())
	b.b.Enter(&a.groups)
}
