package recorder

import (
	"math"

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

func (i insideBatch) Bytes(name string, value []byte) {
	v := format.BytesValue(value)
	i.Builder.Bytes(name, v.Text())
}

func (i insideBatch) Float(name string, value float64) {
	i.Builder.Float(name, math.Float64bits(value))
}

func (i insideBatch) ID(name string, id []byte) { i.Hex(name, id) }

func (i insideBatch) Begin(message format.Optional[string], m *format.Metadata) {
	i.batch.Begin(message, m)
}

func (i insideBatch) Value(name string, v *format.Value) { i.batch.value(name, v) }

func (b *Batch) value(name string, v *format.Value) {
	hi, lo := v.Words()
	b.b.Value(name, uint8(v.Kind()), v.Text(), hi, lo)
}

// Attr adds an attribute.
func (b *Batch) Attr(name string, v format.Value) { b.value(name, &v) }

// Entry adds the entry e. It ignores e.Parent.
func (b *Batch) Entry(e *format.TraceEntry) {
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		b.value(e.Attributes[i].Name, &e.Attributes[i].Value)
	}
	b.End()
}
