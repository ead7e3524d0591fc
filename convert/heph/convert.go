package heph

import (
	"bytes"
	"encoding/binary"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
)

// maxForeign is the maximum size of a packet that is converted. Its entry may contain the packet twice, with
// numbers as texts.
const maxForeign = 16 << 20

// A builder converts packets to entries. Each entry has enough attributes to restore its packet.
type builder struct {
	section []byte
	own     []format.Attribute // attributes for the fields of the packet
	merged  []format.Attribute
	id      []byte
}

func (b *builder) add(name string, v format.Value) {
	b.own = append(b.own, format.Attribute{Name: name, Value: v})
}

// event sets e to the entry of the packet raw. The entry refers to the memory of the packet and of the builder. If
// trace is "", the span has the trace id of its parent.
func (b *builder) event(e *format.TraceEntry, v *pendingEvent, ev *event, epoch uint64, trace string, raw []byte) {
	b.own = b.own[:0]
	foreign(e, ev)
	made := v.span == 0 || v.trace == 0
	format.SortAttributes(e.Attributes)
	section := raw[eventSize+len(ev.Description):]
	var ok bool
	b.section, ok = appendSection(b.section[:0], e.Attributes, made)
	if !ok || !bytes.Equal(b.section, section) {
		b.add(attrHephAttributes, format.BytesValue(section))
	}
	b.add(attrHephCounter, format.U64Value(uint64(ev.Counter)))
	if e.Metadata.Name != ev.Description {
		b.add(attrHephText, format.BytesValue([]byte(ev.Description)))
	}
	b.add(attrHephPacket, format.U64Value(uint64(v.packet)))
	b.add(attrHephStream, format.U64Value(uint64(ev.StreamID)))
	b.add(attrHephSubstream, format.U64Value(ev.SubstreamID))
	if made {
		b.identify(v, trace)
	}
	b.own = appendTimes(b.own, ev, epoch)
	// Attributes that come from the packet may also set times. Of several, the first counts.
	if start, end := packetTimes(epoch, e.Attributes, b.own); start != ev.Start || end != ev.End {
		b.add(attrHephStart, format.U64Value(ev.Start))
		b.add(attrHephEnd, format.U64Value(ev.End))
	}
	format.SortAttributes(b.own)
	b.merged = merge(b.merged[:0], e.Attributes, b.own)
	e.Attributes, b.merged = b.merged, e.Attributes
}

// merge appends the items of two sorted lists to the slice called to, in their order.
func merge(to, x, y []format.Attribute) []format.Attribute {
	for len(x) > 0 && len(y) > 0 {
		if y[0].Name < x[0].Name {
			to, y = append(to, y[0]), y[1:]
		} else {
			to, x = append(to, x[0]), x[1:]
		}
	}
	return append(append(to, x...), y...)
}

// foreign sets e to the entry of a packet, without times and parent. The entry refers to the memory of the packet.
func foreign(e *format.TraceEntry, ev *event) {
	*e = format.TraceEntry{Attributes: e.Attributes[:0]}
	e.Metadata.Name, e.Metadata.Level = valid(ev.Description), format.LevelInfo
	var ids originIDs
	w := otel.Entry{E: e} // used to note which values are arrays
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

// identify adds the ids that the packet of a span does not have.
func (b *builder) identify(v *pendingEvent, trace string) {
	b.add(otel.AttrMadeIDs, format.BoolValue(true))
	if v.span == 0 {
		var id [8]byte
		binary.BigEndian.PutUint64(id[:], uint64(v.packet)+1)
		b.id = wire.AppendHex(b.id[:0], id[:])
		b.add(format.AttrSpanID, format.StringValue(wire.View(b.id)))
	}
	if v.trace == 0 && trace != "" {
		b.add(format.AttrTraceID, format.StringValue(trace))
	}
}

// appendTimes appends the times of a packet.
func appendTimes(attrs []format.Attribute, ev *event, epoch uint64) []format.Attribute {
	duration := uint64(0)
	if ev.End >= ev.Start {
		duration = ev.End - ev.Start
	} else {
		// the largest possible skew is the largest int64
		skew := -int64(min(ev.Start-ev.End, math.MaxInt64))
		attrs = append(attrs, format.Attribute{Name: mapping.AttrClockSkew, Value: format.I64Value(skew)})
	}
	return append(attrs, format.Attribute{Name: format.AttrDuration, Value: format.U64Value(duration)},
		format.Attribute{Name: format.AttrTime, Value: format.U64Value(later([]uint64{epoch}, 0, ev.Start))})
}

// packetTimes is the inverse of appendTimes. Of several attributes with the same name, the first counts.
func packetTimes(epoch uint64, lists ...[]format.Attribute) (start, end uint64) {
	var time, duration, skew, rawStart, rawEnd *format.Value
	for _, attrs := range lists {
		for i := range attrs {
			a := &attrs[i]
			to := &time
			switch a.Name {
			case format.AttrTime:
			case format.AttrDuration:
				to = &duration
			case mapping.AttrClockSkew:
				to = &skew
			case attrHephStart:
				to = &rawStart
			case attrHephEnd:
				to = &rawEnd
			default:
				continue
			}
			if *to == nil {
				*to = &a.Value
			}
		}
	}
	number := func(v *format.Value) (n uint64) {
		if v != nil {
			n, _ = v.U64()
		}
		return n
	}
	if rawStart != nil && rawEnd != nil {
		return number(rawStart), number(rawEnd)
	}
	start = number(time) - epoch
	end = start + number(duration)
	if skew != nil {
		if n, ok := skew.I64(); ok {
			end = start + uint64(n)
		}
	}
	return start, end
}

// appendSection restores the attributes of a packet from those of its entry. It returns false if one of them cannot
// be restored. The parameter made says that the packet had no ids.
func appendSection(b []byte, attrs []format.Attribute, made bool) (_ []byte, ok bool) {
	for i := range attrs {
		a := &attrs[i]
		name := a.Name
		switch name {
		case format.AttrTime, format.AttrDuration, mapping.AttrClockSkew, otel.AttrMadeIDs:
			continue
		case format.AttrTraceID, format.AttrSpanID:
			if made {
				continue
			}
		}
		if strings.HasPrefix(name, prefixHeph) {
			name, ok = strings.CutPrefix(name, escapeHeph)
			if !ok {
				continue
			}
		} else if rest, ok := strings.CutPrefix(name, escapeOTel); ok {
			name = rest
		}
		v, native := nativeOf(a.Value)
		if !native || len(name) > math.MaxUint16 || len(v.text) > math.MaxUint16 || !utf8.ValidString(name) {
			return b, false
		}
		b = appendAttribute(b, &attribute{name, v})
	}
	return b, true
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
