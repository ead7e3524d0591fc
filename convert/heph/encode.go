package heph

import (
	"bufio"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"net"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/timeline"
	texts "github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// maxText is the length in bytes of the longest text that Heph's own writer accepts.
const maxText = math.MaxUint16 - 1

// Encode writes the trace v as Heph's packets: an event packet for each row except the root. The package
// documentation lists what Heph's format cannot hold. If Decode made the trace from a file, Encode writes the same
// file again. A packet of more than 128 MiB is an error.
//
// w may be a connection. On a [net.PacketConn], such as a UDP connection, each packet is a datagram, and a packet
// that is too large for one is an error.
//
// Encode needs about 90 bytes of memory per row.
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

// encodeTo writes each packet with a single call of Write.
func encodeTo(ctx context.Context, w io.Writer, v *view.View) error {
	if v.Len() < 2 {
		return nil
	}
	if files := v.Files(); len(files) == 1 {
		if rec, err := recordingOf(files[0]); err != nil {
			return err
		} else if rec != nil {
			return rec.replay(ctx, w)
		}
	}
	enc := encoder{v: v, rows: v.NewReader(), counters: make(map[uint32]uint32)}
	lanes, err := timeline.NewTimeline(ctx, v)
	if err != nil {
		return err
	}
	enc.arrange(lanes)
	b := appendEpoch(nil, uint64(enc.epoch))
	for i := 0; ; i++ {
		if i%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := w.Write(b); err != nil || i == len(enc.events) {
			return err
		}
		var err error
		b, err = enc.append(b[:0], &enc.events[i])
		if err != nil {
			return err
		}
	}
}

type encoder struct {
	v      *view.View
	rows   *view.Reader
	events []rowEvent
	epoch  int64 // the smallest start
	// counters has the number of packets in each stream.
	counters map[uint32]uint32
	attrs    []attribute
}

// A rowEvent is a row that becomes an event packet.
type rowEvent struct {
	start, end int64 // nanoseconds since 1970
	row        view.Row
	stream     uint32
	substream  int32
}

// arrange makes an event of each row, and sorts them by the time at which they end. The substreams are the lanes.
func (enc *encoder) arrange(lanes *timeline.Timeline) {
	v := enc.v
	events := make([]rowEvent, 0, v.Len())
	place := make([]int32, v.Len())
	streams := make(map[view.Row]uint32)
	latest := int64(0)
	enc.epoch = math.MaxInt64
	for r := range v.Rows() {
		if v.Role(r) == view.RoleRecorder {
			if e, err := enc.rows.Entry(r); err == nil && e.IsAddedEnd() {
				continue
			}
		}
		place[r] = int32(len(events)) - 1
		ev := rowEvent{row: r, start: -1}
		resource := v.Resource(r)
		if v.Role(r) == view.RoleResource {
			resource = r
		}
		if _, ok := streams[resource]; !ok && resource > 0 {
			streams[resource] = uint32(len(streams) + 1)
		}
		ev.stream = streams[resource]
		if start, ok := v.Start(r); ok {
			took, _ := v.Lasted(r)
			ev.start = max(start, 0)
			ev.end = ev.start + min(max(int64(took), 0), math.MaxInt64-ev.start)
			enc.epoch, latest = min(enc.epoch, ev.start), max(latest, ev.end)
		}
		events = append(events, ev)
	}
	enc.epoch = min(enc.epoch, latest)
	events = events[1:] // without the root
	for i := range events {
		ev := &events[i]
		up := v.Parent(ev.row)
		switch {
		case ev.start >= 0:
		case v.Role(ev.row) == view.RoleResource:
			ev.start, ev.end = enc.epoch, latest
		case up > 0 && up < ev.row:
			ev.start = events[place[up]].start
			ev.end = ev.start
		default:
			ev.start, ev.end = enc.epoch, enc.epoch
		}
		ev.substream = lanes.Lane(v.Owner(ev.row))
	}
	slices.SortFunc(events, func(a, b rowEvent) int {
		return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(b.start, a.start), cmp.Compare(b.row, a.row))
	})
	enc.events = events
}

// append appends the packet of the row of ev.
func (enc *encoder) append(b []byte, ev *rowEvent) ([]byte, error) {
	trace, up := enc.v.TraceID(ev.row), enc.rows.Ref(enc.v.Parent(ev.row)).SpanID
	e, err := enc.rows.Entry(ev.row)
	if err != nil {
		return b, err
	}
	text := e.Metadata.Name
	if e.Message.Valid {
		text = e.Message.Value
	}
	at := len(b)
	b = appendEventHead(b, &event{
		StreamID: ev.stream, Counter: enc.counters[ev.stream], SubstreamID: uint64(ev.substream),
		Start: uint64(ev.start - enc.epoch), End: uint64(ev.end - enc.epoch), Description: cut(text),
	})
	enc.counters[ev.stream]++
	attrs := enc.attrs[:0]
	add := func(name string, v value) { attrs = append(attrs, attribute{cut(name), v}) }
	addText := func(name, s string) {
		if s != "" {
			add(name, stringValue(cut(s)))
		}
	}
	m := &e.Metadata
	if m.Level != format.LevelInfo {
		addText("level", m.Level.String())
	}
	addText("target", m.Target)
	addText("module_path", m.ModulePath.Value)
	addText("file", m.File.Value)
	if m.Line.Valid {
		add("line", u64Value(uint64(m.Line.Value)))
	}
	hasTrace, hasUp := trace != [16]byte{}, up != [8]byte{}
	if hasTrace {
		addText(format.AttrTraceID, hex.EncodeToString(trace[:]))
	}
	if hasUp {
		addText(format.AttrParentSpanID, hex.EncodeToString(up[:]))
	}
	list, _ := e.Attribute(mapping.AttrJSON)
	jsons := otel.Names(list)
	for i := range e.Attributes {
		a := &e.Attributes[i]
		name := a.Name
		if name == format.AttrSpanID && enc.v.Role(ev.row) == view.RoleLog {
			name = format.AttrParentSpanID // a log record has no id; its span_id is that of its span
		}
		switch name {
		case format.AttrTime, format.AttrDuration, mapping.AttrJSON:
			continue
		case format.AttrTraceID:
			if hasTrace {
				continue
			}
		case format.AttrParentSpanID:
			if hasUp {
				continue
			}
		}
		array, isArray := value{}, false
		if jsons[name] {
			array, isArray = arrayOf(a.Value.Text())
		}
		native, ok := nativeOf(a.Value)
		if isArray {
			add(name, array)
		} else if ok {
			native.text = cut(native.text)
			add(name, native)
		} else if a.Value.Kind() == format.KindBytes {
			add(name, stringValue(cut(base64.StdEncoding.EncodeToString(a.Value.Bytes()))))
		} else {
			add(name, stringValue(a.Value.String()))
		}
	}
	slices.SortStableFunc(attrs, func(a, b attribute) int { return cmp.Compare(a.Name, b.Name) })
	for i := range attrs {
		b = appendAttribute(b, &attrs[i])
	}
	enc.attrs = attrs
	if len(b)-at > maxPacket {
		return b, errTooLarge
	}
	return setSize(b, at), nil
}

// nativeOf returns v as a value of Heph, if Heph has its type.
func nativeOf(v format.Value) (native value, ok bool) {
	switch v.Kind() {
	case format.KindString:
		return stringValue(v.Text()), true
	case format.KindFloat:
		return f64Value(v.Float()), true
	case format.KindU64:
		n, _ := v.U64()
		return u64Value(n), true
	case format.KindI64:
		n, _ := v.I64()
		return i64Value(n), true
	}
	return value{}, false
}

// arrayOf parses a JSON text as an array. ok is false if Heph has no arrays of these values.
func arrayOf(text string) (v value, ok bool) {
	a := otel.Attribute{Value: format.StringValue(text), Encoding: otel.JSON}
	list := a.Any().List
	if len(list) == 0 || len(list) > math.MaxUint16 {
		return v, false
	}
	var b []byte
	for i := range list {
		item := &list[i]
		typ := kindArray
		switch item.Kind {
		case otel.Int:
			typ, b = typ|kindI64, binary.BigEndian.AppendUint64(b, uint64(item.Int))
		case otel.Float:
			typ, b = typ|kindF64, binary.BigEndian.AppendUint64(b, math.Float64bits(item.Float))
		case otel.String:
			typ, b = typ|kindString, appendString(b, cut(item.Text))
		default:
			return v, false
		}
		if i > 0 && typ != v.typ {
			return v, false
		}
		v.typ = typ
	}
	v.num, v.text = uint64(len(list)), wire.View(b)
	return v, true
}

// cut returns as much of s as Heph's own writer accepts, without cutting within a rune.
func cut(s string) string { return texts.Head(s, maxText) }
