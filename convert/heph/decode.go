package heph

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/input"
)

// Decode reads packets from r and writes their content to w. An event becomes a span below the span that contains
// it. Decode closes neither r nor w.
//
// Decode skips a packet that it cannot read. After writing all other packets, it returns an *Error of package convert
// that names the packet, or the first sixteen such errors, joined. It stops at a packet whose length is unknown. It
// also stops if r ends within a packet; in this case the error is [format.ErrTruncated].
//
// Decode maps a large file, and copies other input of more than 8 MiB to a temporary file. r may be a TCP
// connection that ends, or a UDP connection with a deadline, each of whose datagrams is a packet. Decode also needs
// 96 bytes of memory per event, and 50 more if packets name their parents.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) (err error) {
	in, err := input.Open(ctx, r, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	return errors.Join(in.View(func(b []byte) error { return decode(ctx, b, w, in.Progress) }), in.Err())
}

func decode(ctx context.Context, b []byte, w *format.Writer, progress func(done int64)) (err error) {
	d := &decoder{ctx: ctx, w: w, b: b, progress: progress}
	if err := d.scan(); err != nil {
		return err
	}
	return errors.Join(append(d.damage, d.convert())...)
}

// maxDamage is how many errors of packets are kept.
const maxDamage = 16

type decoder struct {
	ctx      context.Context
	w        *format.Writer
	b        []byte // the whole input
	progress func(done int64)
	events   index
	epochs   []uint64
	opts     []packetAt
	damage   []error
	first    [sha256.Size]byte // hash of the first packet
	packet   packet
	entry    format.TraceEntry
	trace    string
}

// errChanged says that a packet was different when it was read again.
var errChanged = errors.New("the input changed while it was read")

// A packetAt is the position of a metadata packet.
type packetAt struct {
	offset       int64
	size, packet uint32
}

// addDamage keeps the error of a packet, but not more than maxDamage errors.
func (d *decoder) addDamage(err error) {
	if len(d.damage) < maxDamage {
		d.damage = append(d.damage, err)
	}
}

// scan reads all packets and remembers their positions.
func (d *decoder) scan() error {
	rd := &reader{b: d.b}
	for n := 0; rd.more(); n++ {
		if n%4096 == 0 {
			if d.ctx.Err() != nil {
				return d.ctx.Err()
			}
			d.progress(int64(rd.off))
		}
		p, err := rd.next()
		if err != nil {
			d.addDamage(err)
			continue
		}
		if p.Number > math.MaxUint32-2 {
			return format.ErrFull
		}
		d.add(p)
	}
	return nil
}

// add remembers the position of p.
func (d *decoder) add(p *packet) {
	if d.events.Len() == 0 && len(d.opts) == 0 {
		d.first = sha256.Sum256(p.Raw)
	}
	if p.Metadata {
		d.opts = append(d.opts, packetAt{p.Offset, uint32(len(p.Raw)), uint32(p.Number)})
		if epoch, ok := p.Option.Epoch(); ok {
			d.epochs = append(d.epochs, epoch)
		}
	} else {
		v := d.events.Add(pendingEvent{
			offset: p.Offset, size: uint32(len(p.Raw)), packet: uint32(p.Number), epoch: uint32(max(len(d.epochs)-1, 0)),
			stream: p.Event.StreamID, substream: p.Event.SubstreamID, counter: p.Event.Counter, start: p.Event.Start, end: p.Event.End,
		})
		v.identify(p.Event.Attributes)
	}
}

// convert writes an entry for each packet.
func (d *decoder) convert() error {
	if _, err := d.w.Write(format.Root()); err != nil {
		return err
	}
	d.trace = hex.EncodeToString(d.first[:16])
	for i := range d.opts {
		if i%4096 == 0 && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		if err := d.option(&d.opts[i]); err != nil {
			return err
		}
	}
	d.events.findParents(d.epochs)
	var chain []uint32
	for i := range uint32(d.events.Len()) {
		if i%4096 == 0 && d.ctx.Err() != nil {
			return d.ctx.Err()
		}
		// Write parents first. If events are each other's parents, break the cycle.
		chain = chain[:0]
		for at := i; ; {
			v := d.events.at(at)
			if v.visited {
				break
			}
			v.visited = true
			chain = append(chain, at)
			if v.parent == 0 {
				break
			}
			at = v.parent - 1
		}
		for _, at := range slices.Backward(chain) {
			if err := d.event(d.events.at(at)); err != nil {
				return err
			}
		}
	}
	return nil
}

// option writes the entry of the metadata packet at o.
func (d *decoder) option(o *packetAt) error {
	d.packet.Raw = d.b[o.offset:][:o.size]
	if _, err := d.packet.parse(); err != nil || !d.packet.Metadata {
		return errors.Join(errChanged, err)
	}
	if o.size > maxForeign {
		d.addDamage(packetError(o.offset, int64(o.packet), "", errTooLarge))
		return nil
	}
	e := &d.entry
	*e = format.TraceEntry{Metadata: format.Metadata{Name: nameOption, Level: format.LevelInfo}, Attributes: append(e.Attributes[:0],
		format.Attribute{Name: attrHephName, Value: textValue(d.packet.Option.Name)},
		format.Attribute{Name: attrHephPacket, Value: format.U64Value(uint64(o.packet))},
		format.Attribute{Name: attrHephValue, Value: format.BytesValue(d.packet.Option.Value)},
	)}
	_, err := d.w.Write(e)
	return err
}

// event reads an event packet again and writes its entry. The entry of its parent has been written already.
func (d *decoder) event(v *pendingEvent) error {
	d.packet.Raw = d.b[v.offset:][:v.size]
	field, err := d.packet.parse()
	if err != nil {
		return fmt.Errorf("%w: %w", errChanged, packetError(v.offset, int64(v.packet), field, err))
	}
	if d.packet.Metadata {
		return errChanged
	}
	if v.size > maxForeign {
		d.addDamage(packetError(v.offset, int64(v.packet), "", errTooLarge))
		return nil // its children go below the root
	}
	epoch := uint64(0)
	if len(d.epochs) > 0 {
		epoch = d.epochs[v.epoch]
	}
	trace, parent := d.trace, uint32(0)
	if v.parent > 0 {
		parent = d.events.at(v.parent - 1).entry
		if parent > 0 {
			trace = "" // the parent has the same trace id
		}
	}
	e := &d.entry
	entryOf(e, v, &d.packet.Event, epoch, trace)
	e.Parent = parent
	v.entry, err = d.w.Write(e)
	return err
}
