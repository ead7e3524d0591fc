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

// User begins the attributes of the application. From here on, a reserved name is escaped, as the tables of
// package slogadapter say, and a name that occurs twice gets "#2". Names before User are stored unchanged.
func (b *Batch) User() { b.b.User() }

// Group begins a group: the names of the application's attributes get the prefix name and a dot, until
// EndGroup or the end of the entry.
func (b *Batch) Group(name string) { b.b.Group(name) }

// EndGroup ends the last group.
func (b *Batch) EndGroup() { b.b.EndGroup() }

// Truncated marks the entry with "!TRUNCATED".
func (b *Batch) Truncated() { b.b.Truncated() }

// String adds an attribute. A text that is not valid UTF-8 becomes Bytes.
func (b *Batch) String(name, value string) { b.b.String(name, value) }

// JSON adds a string attribute that is a JSON text, and adds its name to the list in "otel.json".
func (b *Batch) JSON(name, value string) { b.b.JSON(name, value) }

// AnyValue adds a string attribute that is the OTLP/JSON text of an AnyValue, and adds its name to the list
// in "otel.anyvalue".
func (b *Batch) AnyValue(name, value string) { b.b.AnyValue(name, value) }

// Bytes adds an attribute. value is copied.
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
	// If b.time is 0, handOver sets the time of the record later, so it is not known here.
	if !journal.CoarseClock && value == uint64(b.time) && value != 0 && b.kind != 0 && name == format.AttrTime && b.b.Own() {
		b.b.RecordTime()
		return
	}
	b.b.U64(name, value)
}

// I64 adds an attribute.
func (b *Batch) I64(name string, value int64) { b.b.I64(name, value) }

// Duration adds d as an I64 of nanoseconds, and adds its name to the list in "entrace.duration".
func (b *Batch) Duration(name string, d time.Duration) { b.b.Duration(name, d) }

// Time adds a string attribute, t in the format [time.RFC3339Nano].
func (b *Batch) Time(name string, t time.Time) { b.b.Time(name, t) }

// ID adds a string attribute, a trace or span id as lower-case hex digits.
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

// Entry adds the entry e. It ignores e.Parent.
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
	uses   atomic.Uint32 // number of uses; not counted beyond the last value of renumberAt
}

// renumberAt lists the counts of uses at which the names in Attributes are replaced by numbers. Numbers are
// scarce: Attributes with fewer uses, for example those of one request, get none.
var renumberAt = [2]uint32{8, 64}

// used counts a use of a. If the count is in renumberAt, it replaces names by numbers.
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

// Attributes returns new attributes: those of before, which may be nil, and those that build adds to b.
// Groups that are open in before, or after build, remain open in the result. The result is for Share. Call
// Attributes while b is building no record, because such a record is lost.
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

// Share adds the attributes a to a log record, and opens the groups that are open in a. Many records that
// share Attributes need little more memory than one.
func (b *Batch) Share(a *Attributes) {
	if a.owner != b.r {
		b.err = errForeign
		return
	}
	a.used()
	b.b.Share(a.shared.Load())
	b.b.Enter(&a.groups)
}
