package measureme

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/input"
)

// Attributes of entries that were converted from a profile. They are a part of the file format of this project.
const (
	attrKind     = "measureme.kind"
	attrArg      = "measureme.arg."
	attrValue    = "measureme.value"
	attrMetadata = "measureme.metadata"
	attrVersion  = "measureme.version"
	attrCounter  = "measureme.counter"
	attrThread   = "thread.id"
	attrMadeIDs  = "otel.made_ids"

	attrService = "service.name"
	attrPID     = "process.pid"
	attrCommand = "process.command_line"
)

// nameLog is the name of the entries of log records.
const nameLog = "event"

// Decode reads a profile of version 8 or 9 from r and writes its entries to w. It does not close w.
//
// If the file is damaged, Decode writes all complete events and returns an *Error of package convert for the first
// damage. If the file ends too early, for example because its writer was killed, the error is [format.ErrTruncated]. If
// r is not a measureme file, Decode writes nothing.
//
// Decode maps a large file, and copies other input of more than 8 MiB to a temporary file. In memory it needs 64
// bytes per event and 16 bytes per virtual id. It reads the whole file before it writes, because the file has parents
// after their children.
func Decode(ctx context.Context, r io.Reader, w *format.Writer) error {
	return input.View(ctx, r, "", func(in *input.Input, b []byte) error { return decodeProfile(ctx, b, w, in.Progress) })
}

func decodeProfile(ctx context.Context, b []byte, w *format.Writer, progress func(done int64)) error {
	s := &scanner{ctx: ctx, b: b, progress: progress}
	end := s.scan()
	if s.version == 0 && !errors.Is(end, format.ErrTruncated) {
		return end
	}
	if _, damaged := errors.AsType[*input.Error](end); end != nil && !damaged {
		return end
	}
	d := &decoder{scanner: s, w: w, strings: newStringTable(s), tops: make(map[uint32]uint32), whole: end == nil}
	if err := d.write(); err != nil {
		return err
	}
	switch {
	case s.damage == nil:
		return end
	case end == nil:
		return s.damage
	}
	return errors.Join(s.damage, end)
}

// A decoder writes the entries for the records that the scanner has read.
type decoder struct {
	*scanner

	w       *format.Writer
	strings *stringTable
	whole   bool // all pages were read
	meta    metadata
	traceID [32]byte // hex digits

	// order has the events with a time, containers before their contents. parents[i] is the index in order of the
	// interval around order[i], plus 1; 0 means none. tops has, for each thread, the index in order of its innermost
	// open interval, plus 1.
	order    []place
	parents  []uint32
	tops     map[uint32]uint32
	integers int

	resource uint32
	entry    format.TraceEntry
	buf      []byte
}

// A place is an event with a time.
type place struct {
	start, end uint64
	event      uint32 // its number
	instant    uint32 // 1 for an instant, otherwise 0
}

func (d *decoder) write() error {
	d.readMetadata()
	if _, err := d.w.Write(format.Root()); err != nil {
		return err
	}
	var err error
	d.resource, err = d.w.Write(d.resourceEntry())
	if err != nil {
		return err
	}
	d.sort()
	for n := range d.order {
		if n%1024 == 0 {
			if err := d.ctx.Err(); err != nil {
				return err
			}
		}
		if err := d.timed(n); err != nil {
			return err
		}
	}
	if d.integers == 0 {
		return nil
	}
	for i := range int64(d.events.Len()) {
		if i%someEvents == 0 {
			if err := d.ctx.Err(); err != nil {
				return err
			}
		}
		if e := d.event(i); e.second() == markInteger {
			if err := d.integer(i, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// readMetadata reads the metadata. It finds the metadata even without the index.
func (d *decoder) readMetadata() {
	if _, ok := d.strings.address(metadataID); !ok && d.data.size > 0 {
		d.strings.index = append(d.strings.index, indexEntry{id: metadataID, addr: metadataOffset})
	}
	text, err := d.strings.text(metadataID)
	ok := false
	if err == nil && text != unknown {
		d.meta, ok = parseMetadata(text)
	}
	id := sha256.Sum256([]byte(text))
	if !ok {
		d.meta = metadata{}
		copy(id[:], d.first[:])
		if d.whole { // otherwise the error says that the file is truncated
			d.setDamage(&input.Error{Offset: int64(d.off), Err: errMetadata})
		}
	}
	copy(d.traceID[:], wire.AppendHex(nil, id[:16]))
}

func (d *decoder) resourceEntry() *format.TraceEntry {
	m := &d.meta
	e := &format.TraceEntry{Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo}}
	if m.counter != "" {
		e.Add(attrCounter, format.StringValue(m.counter))
	}
	if m.text != "" {
		e.Add(attrMetadata, format.StringValue(m.text))
	}
	e.Add(attrVersion, format.I64Value(int64(d.version)))
	if m.command != "" {
		e.Add(attrCommand, format.StringValue(m.command))
	}
	if m.processID != 0 {
		e.Add(attrPID, format.I64Value(int64(m.processID)))
	}
	if name := m.service(); name != "" {
		e.Add(attrService, format.StringValue(name))
		e.Message = format.Some(name)
	}
	return e
}

// sort sorts the events that have a time, and finds their parents.
func (d *decoder) sort() {
	d.order = make([]place, 0, d.events.Len())
	holes := false
	for i := range int64(d.events.Len()) {
		e := d.event(i)
		start, end := e.first(), e.second()
		switch {
		case *e == event{}:
			// Only a part of the page was written to the disk.
			if !holes {
				d.setDamage(d.eventError(i, errHole))
			}
			holes = true
		case end == markInteger:
			d.integers++
		case end == markInstant:
			d.order = append(d.order, place{start, start, uint32(i), 1})
		case end < start:
			d.setDamage(d.eventError(i, errTime))
		default:
			d.order = append(d.order, place{start, end, uint32(i), 0})
		}
	}
	// If events begin at the same time, the longest event comes first. If events have equal times, the latest record,
	// which is the parent, comes first.
	slices.SortFunc(d.order, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end), cmp.Compare(a.instant, b.instant), cmp.Compare(b.event, a.event))
	})
	d.parents = make([]uint32, len(d.order))
	for n, p := range d.order {
		thread := d.event(int64(p.event)).thread
		top := d.tops[thread]
		for top != 0 && d.order[top-1].end < p.end {
			top = d.parents[top-1]
		}
		d.parents[n] = top
		if p.instant == 0 {
			top = uint32(n) + 1
		}
		d.tops[thread] = top
	}
}

// timed writes the entry of order[n].
func (d *decoder) timed(n int) error {
	p := d.order[n]
	i := int64(p.event)
	ev := d.event(i)
	d.entry.Attributes = d.entry.Attributes[:0]
	if p.instant == 0 {
		d.entry.Add(format.AttrDuration, format.U64Value(p.end-p.start))
	}
	e := d.begin(i, ev)
	parent := d.parents[n]
	e.Parent = d.resource + parent
	at := max(d.meta.start+p.start, 1) // 0 would mean no time
	switch {
	case p.instant == 0:
		d.entry.Add(attrMadeIDs, format.BoolValue(true))
		var id [8]byte
		binary.BigEndian.PutUint64(id[:], uint64(i)+1)
		d.buf = wire.AppendHex(d.buf[:0], id[:])
		d.entry.Add(format.AttrSpanID, format.StringValue(wire.View(d.buf)))
	case parent != 0:
		d.entry.Add(mapping.AttrEvent, format.BoolValue(true))
	default:
		e.Message = format.Some(e.Metadata.Name)
		e.Metadata.Name = nameLog
	}
	d.entry.Add(attrThread, format.I64Value(int64(ev.thread)))
	d.entry.Add(format.AttrTime, format.U64Value(at))
	if p.instant == 0 && parent == 0 {
		d.entry.Add(format.AttrTraceID, format.StringValue(wire.View(d.traceID[:])))
	}
	_, err := d.w.Write(e)
	return err
}

// integer writes the entry of an event that has an integer instead of a time.
func (d *decoder) integer(i int64, ev *event) error {
	d.entry.Attributes = d.entry.Attributes[:0]
	e := d.begin(i, ev)
	e.Parent = d.resource
	e.Message = format.Some(e.Metadata.Name)
	e.Metadata.Name = nameLog
	d.entry.Add(attrValue, format.I64Value(int64(ev.first())))
	d.entry.Add(attrThread, format.I64Value(int64(ev.thread)))
	_, err := d.w.Write(e)
	return err
}

// begin adds the attributes that every kind of event has to d.entry, after the attributes that d.entry already has.
// With up to ten arguments, the attributes are then sorted by name.
func (d *decoder) begin(i int64, ev *event) *format.TraceEntry {
	kind := d.text(i, ev.kind)
	id := d.text(i, ev.id)
	label, args, more := strings.Cut(id, string(separator))
	e := &d.entry
	*e = format.TraceEntry{Metadata: format.Metadata{Name: label, Level: format.LevelInfo}, Attributes: e.Attributes}
	for n := 0; more; n++ {
		var arg string
		arg, args, more = strings.Cut(args, string(separator))
		if n == maxArgs-1 && more {
			arg, more = arg+string(separator)+args, false
		}
		d.entry.Add(argName(n), format.StringValue(arg))
	}
	d.entry.Add(attrKind, format.StringValue(kind))
	return e
}

func (d *decoder) text(i int64, id uint64) string {
	s, err := d.strings.text(id)
	// If the file is truncated, a missing string is no further damage.
	if err != nil && d.damage == nil && (d.whole || !errors.Is(err, errString)) {
		d.setDamage(d.eventError(i, err))
	}
	return s
}

// maxArgs is the maximum number of attributes for arguments. The last attribute has the remaining arguments.
const maxArgs = 1000

var argNames = func() (names [10]string) {
	for i := range names {
		names[i] = attrArg + strconv.Itoa(i)
	}
	return names
}()

func argName(n int) string {
	if n < len(argNames) {
		return argNames[n]
	}
	return attrArg + strconv.Itoa(n)
}
