package heph

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
)

// maxForeign is the maximum size of a packet that is converted. Its entry may be larger, with numbers as texts.
const maxForeign = 16 << 20

// entryOf sets e to the entry of an event. The entry refers to the memory of the packet. If trace is "", the span has
// the trace id of its parent.
func entryOf(e *format.TraceEntry, v *pendingEvent, ev *event, epoch uint64, trace string) {
	foreign(e, ev)
	e.Add(attrHephCounter, format.U64Value(uint64(ev.Counter)))
	if e.Metadata.Name != ev.Description {
		e.Add(attrHephText, format.BytesValue([]byte(ev.Description)))
	}
	e.Add(attrHephPacket, format.U64Value(uint64(v.packet)))
	e.Add(attrHephStream, format.U64Value(uint64(ev.StreamID)))
	e.Add(attrHephSubstream, format.U64Value(ev.SubstreamID))
	addIDs(e, v, trace)
	addTimes(e, ev, epoch)
	format.SortAttributes(e.Attributes)
}

// foreign sets e to the entry of a packet, without times and parent. The entry refers to the memory of the packet.
func foreign(e *format.TraceEntry, ev *event) {
	*e = format.TraceEntry{Attributes: e.Attributes[:0]}
	e.Metadata.Name, e.Metadata.Level = valid(ev.Description), format.LevelInfo
	var ids originIDs
	w := otel.Entry{E: e} // records which values are arrays
	for i := range ev.Attributes {
		a := &ev.Attributes[i]
		name := valid(a.Name)
		switch {
		case strings.HasPrefix(name, prefixHeph):
			name = escapeHeph + name
		case isTaken(name):
			name = escapeOTel + name
		case isIDName(name) && !ids.add(a):
			name = escapeOTel + name
		case name == mapping.AttrStatusCode && a.Value.Text() == "ERROR":
			e.Metadata.Level = format.LevelError
		}
		if a.Value.typ&kindArray == 0 {
			e.Add(name, valueOf(a.Value))
		} else if text, encoding := arrayText(a.Value); encoding == otel.JSON {
			w.JSON(name, text)
		} else {
			w.AnyValue(name, text)
		}
	}
	w.End()
}

func isIDName(name string) bool {
	return name == format.AttrTraceID || name == format.AttrSpanID || name == format.AttrParentSpanID
}

// isTaken reports whether an attribute of a packet must be renamed, because entries use its name for the packet
// itself.
func isTaken(name string) bool {
	switch name {
	case format.AttrTime, format.AttrDuration, mapping.AttrClockSkew, mapping.AttrEvent, mapping.AttrLinkTraceID,
		mapping.AttrJSON, mapping.AttrAnyValue, otel.AttrMadeIDs:
		return true
	}
	return strings.HasPrefix(name, "entrace.")
}

// addIDs adds the ids that the packet of a span lacks.
func addIDs(e *format.TraceEntry, v *pendingEvent, trace string) {
	if v.span != 0 && v.trace != 0 {
		return
	}
	e.Add(otel.AttrMadeIDs, format.BoolValue(true))
	if v.span == 0 {
		e.Add(format.AttrSpanID, format.StringValue(fmt.Sprintf("%016x", v.packet+1)))
	}
	if v.trace == 0 && trace != "" {
		e.Add(format.AttrTraceID, format.StringValue(trace))
	}
}

// addTimes adds the times of a packet, and the numbers in the packet if they are too large for times.
func addTimes(e *format.TraceEntry, ev *event, epoch uint64) {
	duration, exact := uint64(0), ev.Start <= math.MaxUint64-epoch
	if ev.End >= ev.Start {
		duration = ev.End - ev.Start
	} else {
		skew := min(ev.Start-ev.End, math.MaxInt64)
		exact = exact && skew == ev.Start-ev.End
		e.Add(mapping.AttrClockSkew, format.I64Value(-int64(skew)))
	}
	e.Add(format.AttrDuration, format.U64Value(duration))
	e.Add(format.AttrTime, format.U64Value(later([]uint64{epoch}, 0, ev.Start)))
	if !exact {
		e.Add(attrHephStart, format.U64Value(ev.Start))
		e.Add(attrHephEnd, format.U64Value(ev.End))
	}
}

// valid returns s with U+FFFD instead of invalid UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// textValue returns s as a String, or as Bytes if s is not valid UTF-8.
func textValue(s string) format.Value {
	if utf8.ValidString(s) {
		return format.StringValue(s)
	}
	return format.BytesValue([]byte(s))
}

// valueOf returns v, which is not an array, as a value of an entry.
func valueOf(v value) format.Value {
	switch v.typ {
	case kindU64:
		return format.U64Value(v.num)
	case kindI64:
		return format.I64Value(v.I64())
	case kindF64:
		return format.FloatValue(v.F64())
	}
	return textValue(v.text)
}
