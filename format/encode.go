package format

import (
	"github.com/entrace-go/entrace/internal/core/wire"
)

// AppendTraceEntry appends the encoding of e in version v to b and returns the extended slice. It panics on an
// unknown version or level. In version 2 it also panics if e.Attributes are not sorted by name: see [SortAttributes].
// It does not check that texts are valid UTF-8, although other readers refuse texts that are not.
func AppendTraceEntry(b []byte, v Version, e *TraceEntry) []byte {
	if v.Check() != nil {
		panic("format: AppendTraceEntry in an unknown version")
	}
	if e.Metadata.Level >= numLevels {
		panic("format: AppendTraceEntry with an unknown level")
	}
	if v.hasColumns() && !isSorted(e.Attributes) {
		panic("format: AppendTraceEntry of version 2 with attributes that are not sorted")
	}
	h := e.head()
	enc := wire.Encoder{B: h.Append(wire.AppendUint(b, uint64(e.Parent)))}
	if v.hasColumns() {
		enc.B = wire.AppendNames(enc.B, len(e.Attributes), func(i int) string { return e.Attributes[i].Name })
		for i := range e.Attributes {
			encodeValue(&enc, &e.Attributes[i].Value)
		}
		return enc.B
	}
	enc.Begin()
	for i := range e.Attributes {
		enc.Name(e.Attributes[i].Name)
		encodeValue(&enc, &e.Attributes[i].Value)
	}
	enc.End()
	return enc.B
}

// head returns the part of e that package wire encodes. Package inside has the same function for packages of this
// module.
func (e *TraceEntry) head() wire.Head {
	m, message := &e.Metadata, &e.Message
	return wire.Head{
		Message: message.Value, HasMessage: message.Valid, Name: m.Name, Target: m.Target, Level: uint8(m.Level),
		Module: m.ModulePath.Value, HasModule: m.ModulePath.Valid, File: m.File.Value, HasFile: m.File.Valid,
		Line: m.Line.Value, HasLine: m.Line.Valid,
	}
}

// encodeValue adds the value of an attribute without checking its text.
func encodeValue(enc *wire.Encoder, v *Value) {
	switch v.kind {
	case KindString:
		enc.Raw(wire.KindString, v.Text())
	case KindBytes:
		enc.Raw(wire.KindBytes, v.Text())
	case KindBool:
		enc.Bool(v.lo != 0)
	case KindFloat:
		enc.Float(v.lo)
	case KindU64:
		enc.U64(v.lo)
	case KindI64:
		enc.I64(int64(v.lo))
	case KindU128:
		enc.U128(v.hi, v.lo)
	case KindI128:
		enc.I128(v.hi, v.lo)
	}
}
