package heph

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
)

// A recording is the sequence of packets from which Decode made the entries of a file.
type recording struct {
	f      *format.File
	ids    []uint32 // ids of entries in the order of their packets
	places []uint32 // for each entry id minus 1, the index in ids
	epochs []setEpoch
}

// A setEpoch is a packet that sets the epoch.
type setEpoch struct{ packet, nano uint64 }

// errNot ends a walk because Decode did not make an entry from a packet.
var errNot = errors.New("not a packet")

// recordingOf returns the packets from which Decode made the entries of f. It returns nil if an entry has no
// packet, or was changed so that it no longer represents a packet. It needs 16 bytes per entry.
func recordingOf(f *format.File) (*recording, error) {
	rec := &recording{f: f}
	type numbered struct {
		packet uint64
		id     uint32
	}
	var packets []numbered
	var section []byte
	err := f.Walk(1, func(id uint32, e *format.TraceEntry) error {
		if e.IsAddedEnd() {
			return nil
		}
		n, ok := e.Attribute(attrHephPacket)
		if !ok || n.Kind() != format.KindU64 {
			return errNot
		}
		packet, _ := n.U64()
		packets = append(packets, numbered{packet, id})
		if o, ok := optionOf(e); ok {
			if nano, ok := o.Epoch(); ok {
				rec.epochs = append(rec.epochs, setEpoch{packet, nano})
			}
			return nil
		}
		section, ok = appendReplayedSection(section[:0], e)
		if !ok || len(textOf(e)) > math.MaxUint16 {
			return errNot
		}
		return nil
	})
	if errors.Is(err, errNot) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(packets, func(a, b numbered) int { return cmp.Compare(a.packet, b.packet) })
	slices.SortFunc(rec.epochs, func(a, b setEpoch) int { return cmp.Compare(a.packet, b.packet) })
	rec.ids, rec.places = make([]uint32, len(packets)), make([]uint32, f.Len())
	for i, p := range packets {
		if i > 0 && p.packet == packets[i-1].packet {
			return nil, nil
		}
		rec.ids[i], rec.places[p.id-1] = p.id, uint32(i)
	}
	return rec, nil
}

// maxAhead is the maximum size of the packets that are kept until the packets before them are written.
const maxAhead = 32 << 20

// replay writes the packets in their order. It reads the entries in the order of the file, which is nearly the
// same.
func (rec *recording) replay(ctx context.Context, w io.Writer) error {
	ahead := make(map[uint32][]byte)
	size, next := 0, uint32(0)
	var b []byte
	return rec.f.Walk(1, func(id uint32, e *format.TraceEntry) error {
		if id%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if e.IsAddedEnd() {
			return nil
		}
		place := rec.places[id-1]
		if place != next && size >= maxAhead {
			return nil // no room to keep it: it is read again when it is next
		}
		b = rec.append(b[:0], e)
		if place != next {
			ahead[place] = bytes.Clone(b)
			size += len(b)
			return nil
		}
		for {
			if _, err := w.Write(b); err != nil {
				return err
			}
			next++
			if next == uint32(len(rec.ids)) || rec.ids[next] > id {
				return nil
			}
			if kept, ok := ahead[next]; ok {
				b = append(b[:0], kept...)
				size -= len(kept)
				delete(ahead, next)
				continue
			}
			e, err := rec.f.Entry(rec.ids[next])
			if err != nil {
				return err
			}
			b = rec.append(b[:0], e)
		}
	})
}

// append appends the packet from which e was made.
func (rec *recording) append(b []byte, e *format.TraceEntry) []byte {
	if o, ok := optionOf(e); ok {
		return appendOption(b, o)
	}
	return appendReplayed(b, e, rec.epoch(e))
}

// epoch returns the epoch of the event from which e was made: the last epoch before the event, or else the first
// epoch.
func (rec *recording) epoch(e *format.TraceEntry) uint64 {
	switch len(rec.epochs) {
	case 0:
		return 0
	case 1:
		return rec.epochs[0].nano
	}
	n, _ := e.Attribute(attrHephPacket)
	packet, _ := n.U64()
	at, _ := slices.BinarySearchFunc(rec.epochs, packet, func(s setEpoch, packet uint64) int { return cmp.Compare(s.packet, packet) })
	return rec.epochs[max(at-1, 0)].nano
}

// optionOf returns the option from which e was made. ok is false if e was not made from one.
func optionOf(e *format.TraceEntry) (*option, bool) {
	if e.Metadata.Name != nameOption || e.Parent != 0 {
		return nil, false
	}
	name, named := e.Attribute(attrHephName)
	value, ok := e.Attribute(attrHephValue)
	if !named || !ok || len(name.Text()) > maxText+1 {
		return nil, false
	}
	return &option{Name: name.Text(), Value: value.Bytes()}, true
}

// appendReplayed appends the event packet from which e was made.
func appendReplayed(b []byte, e *format.TraceEntry, epoch uint64) []byte {
	number := func(name string) uint64 {
		v, _ := e.Attribute(name)
		n, _ := v.U64()
		return n
	}
	start, end := packetTimes(epoch, e.Attributes)
	at := len(b)
	b = appendEventHead(b, &event{
		StreamID: uint32(number(attrHephStream)), Counter: uint32(number(attrHephCounter)), SubstreamID: number(attrHephSubstream),
		Start: start, End: end, Description: textOf(e),
	})
	b, _ = appendReplayedSection(b, e)
	return setSize(b, at)
}

// textOf returns the description of the event from which e was made.
func textOf(e *format.TraceEntry) string {
	if v, ok := e.Attribute(attrHephText); ok {
		return v.Text()
	}
	return e.Metadata.Name
}

// appendReplayedSection appends the attributes of the event from which e was made. It returns false if they cannot
// be restored.
func appendReplayedSection(b []byte, e *format.TraceEntry) (_ []byte, ok bool) {
	v, ok := e.Attribute(attrHephAttributes)
	if !ok {
		_, made := e.Attribute(otel.AttrMadeIDs)
		return appendSection(b, e.Attributes, made)
	}
	_, err := parseAttributes(nil, v.Bytes())
	return append(b, v.Bytes()...), err == nil
}
