package heph

import (
	"bufio"
	"context"
	"hash/crc32"
	"io"
	"net"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/view"
)

// castagnoli is the polynomial of attrSum. Part of the mapping.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode writes the trace v as Heph's packets: spans, log records and all other entries, so that [Decode]
// restores them. A trace that Decode made from a file becomes that file again, byte for byte. An entry
// that does not fit into 128 MiB is an error.
//
// w can be a connection. On a [net.PacketConn], such as a UDP connection, each packet is a datagram of its
// own; a packet that is too large for a datagram is an error.
//
// Encode needs about 90 bytes of memory an entry.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	if _, ok := w.(net.PacketConn); ok {
		return encodeTo(ctx, w, v)
	}
	out := bufio.NewWriterSize(w, 256<<10)
	if err := encodeTo(ctx, out, v); err != nil {
		return err
	}
	return out.Flush()
}

// encodeTo writes each packet with a single Write.
func encodeTo(ctx context.Context, w io.Writer, v *view.View) error {
	if v.Len() == 0 {
		return nil
	}
	root, err := v.Entry(0)
	if err != nil {
		return err
	}
	plain := isPlainRoot(root)
	if plain && v.Len() == 1 {
		return nil
	}
	var rec *recording
	if files := v.Files(); len(files) == 1 {
		rec, err = recordingOf(files[0], plain)
	}
	switch {
	case err != nil:
		return err
	case rec != nil:
		return rec.replay(ctx, w)
	}
	return encode(ctx, w, v)
}

func isPlainRoot(e *format.TraceEntry) bool {
	return e.Metadata == format.Root().Metadata && !e.Message.Valid && len(e.Attributes) == 0
}

// encode writes packets for entries that have none yet.
func encode(ctx context.Context, w io.Writer, v *view.View) error {
	p, err := newPlan(ctx, v)
	if err != nil {
		return err
	}
	enc := encoder{v: v, plan: p}
	b := appendEpoch(nil, p.epoch)
	for i := 0; ; i++ {
		enc.sum = crc32.Update(enc.sum, castagnoli, b)
		if _, err := w.Write(b); err != nil || i == len(p.order) {
			return err
		}
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if b, err = enc.append(b[:0], p.order[i]); err != nil {
			return err
		}
	}
}

type encoder struct {
	v    *view.View
	plan *plan
	sum  uint32
	p    packer
}

// append appends the packet of an entry.
func (enc *encoder) append(b []byte, number uint32) ([]byte, error) {
	n := &enc.plan.nodes[number]
	e, err := enc.v.Entry(n.row)
	if err != nil {
		return b, err
	}
	enc.identify(e, n)
	format.SortAttributes(e.Attributes)
	at := len(b)
	name := e.Metadata.Name
	if len(name) > maxText {
		name = name[:cut(name)]
	}
	b = appendEventHead(b, &event{
		StreamID: n.stream, Counter: n.counter, SubstreamID: uint64(n.substream),
		Start: n.start - enc.plan.epoch, End: n.end - enc.plan.epoch, Description: name,
	})
	b = appendAttribute(b, &attribute{attrID, u64Value(uint64(number))})
	if n.explicit {
		b = appendAttribute(b, &attribute{attrParent, u64Value(uint64(n.parent))})
	}
	if number == 0 {
		b = appendAttribute(b, &attribute{attrEncoding, u64Value(encoding)})
		b = appendAttribute(b, &attribute{attrSum, u64Value(uint64(enc.sum))})
	}
	p := &enc.p
	p.reset()
	if len(name) < len(e.Metadata.Name) {
		p.string(attrName, e.Metadata.Name[len(name):])
	}
	enc.pack(e, n)
	if len(p.types) > 0 {
		b = appendParts(b, attrTypes, alias(append(p.types, '}')))
	}
	b = append(b, p.body...)
	if len(b)-at > maxPacket {
		return b, errTooLarge
	}
	return setSize(b, at), nil
}

// identify says of a span which one it belongs to, which its place in the view says
// here, but does not elsewhere.
func (enc *encoder) identify(e *format.TraceEntry, n *node) {
	if !n.span || enc.v.Role(view.Row(e.Parent)) != view.RoleSpan {
		return
	}
	if _, ok := e.Attribute(format.AttrParentSpanID); ok {
		return
	}
	up := enc.v.Ref(view.Row(e.Parent)).SpanID
	e.Attributes = append(e.Attributes, format.Attribute{
		Name: format.AttrParentSpanID, Value: format.StringValue(string(wire.AppendHex(nil, up[:]))),
	})
}

// pack adds all of e that the packet does not say yet.
func (enc *encoder) pack(e *format.TraceEntry, n *node) {
	p, m := &enc.p, &e.Metadata
	if m.Level != format.LevelInfo {
		p.string(attrLevel, m.Level.String())
	}
	if m.Target != "" {
		p.string(attrTarget, m.Target)
	}
	if e.Message.Valid {
		p.string(attrMessage, e.Message.Value)
	}
	if m.ModulePath.Valid {
		p.string(attrModule, m.ModulePath.Value)
	}
	if m.File.Valid {
		p.string(attrFile, m.File.Value)
	}
	if m.Line.Valid {
		p.number(attrLine, uint64(m.Line.Value))
	}
	says := n.takeTimes(e)
	if says != impliedTimes(n.start, n.end) {
		p.string(attrTime, says)
	}
	if n.span && says == timeStart {
		p.number(attrOpen, 1)
	}
	jsons := jsonNames(e.Attributes)
	for i := range e.Attributes {
		a := &e.Attributes[i]
		// They are sorted.
		twice := i > 0 && e.Attributes[i-1].Name == a.Name || i+1 < len(e.Attributes) && e.Attributes[i+1].Name == a.Name
		p.attribute(a, twice, jsons[a.Name])
	}
}

// impliedTimes is what a packet without attrTime says.
func impliedTimes(start, end uint64) string {
	if start == end {
		return timeStart
	}
	return timeBoth
}

// takeTimes removes from e what the packet's times say, and returns what they do.
func (n *node) takeTimes(e *format.TraceEntry) string {
	if !n.timed || !only(e, format.AttrTime, n.start) {
		return timeNone
	}
	e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool { return a.Name == format.AttrTime })
	if !n.ended || !only(e, format.AttrDuration, n.end-n.start) {
		return timeStart
	}
	e.Attributes = slices.DeleteFunc(e.Attributes, func(a format.Attribute) bool { return a.Name == format.AttrDuration })
	return timeBoth
}

// only reports whether e has one attribute of that name, a U64 of that value.
func only(e *format.TraceEntry, name string, value uint64) bool {
	count, same := 0, false
	for i := range e.Attributes {
		if a := &e.Attributes[i]; a.Name == name {
			count++
			same = a.Value.Equal(format.U64Value(value))
		}
	}
	return count == 1 && same
}
