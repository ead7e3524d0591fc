package recorder

import (
	"math"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/write/inside"
)

// Begin begins an entry. The recorder finds the parent of the entry.
func (b *Batch) Begin(message format.Optional[string], m *format.Metadata) {
	h := inside.Head(m, message)
	b.b.Head(&h)
	if m.Level > format.LevelError {
		b.err = format.ErrInvalid
	}
}

// End ends an entry.
func (b *Batch) End() { b.b.End() }

// User begins the attributes of the application. From here on, a reserved name is escaped, as the tables of
// package slogadapter say, and a name that occurs twice gets "#2". Names before User are stored unchanged.
func (b *Batch) User() { b.b.User() }

func (b insideBatch) String(name, value string) { b.b.String(name, value) }

func (b insideBatch) JSON(name, value string) { b.b.JSON(name, value) }

func (b insideBatch) AnyValue(name, value string) { b.b.AnyValue(name, value) }

func (b insideBatch) Bytes(name string, value []byte) {
	v := format.BytesValue(value)
	b.b.Bytes(name, v.Text())
}

func (b insideBatch) Bool(name string, value bool) { b.b.Bool(name, value) }

func (b insideBatch) Float(name string, value float64) { b.b.Float(name, math.Float64bits(value)) }

func (b insideBatch) U64(name string, value uint64) { b.b.U64(name, value) }

func (b insideBatch) I64(name string, value int64) { b.b.I64(name, value) }

func (b insideBatch) Duration(name string, d time.Duration) { b.b.Duration(name, d) }

func (b insideBatch) ID(name string, id []byte) { b.b.Hex(name, id) }

func (b insideBatch) Value(name string, v *format.Value) {
	hi, lo := v.Words()
	b.b.Value(name, uint8(v.Kind()), v.Text(), hi, lo)
}

// Attr adds an attribute.
func (b *Batch) Attr(name string, v format.Value) { insideBatch{b}.Value(name, &v) }

// Entry adds the entry e. It ignores e.Parent.
func (b *Batch) Entry(e *format.TraceEntry) {
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		insideBatch{b}.Value(e.Attributes[i].Name, &e.Attributes[i].Value)
	}
	b.End()
}
