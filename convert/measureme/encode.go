package measureme

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"io"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/view"
)

// Encode writes the trace v to w as a profile of version 9. Times in it have 48 bits for nanoseconds,
// which are 78 hours, and begin after 1969. If the trace does not fit, the output is unusable.
//
// Spans are put onto lanes, which are the threads of the profile, so that the spans of one lane nest. They
// are written in the order in which they end, as the tools require. Encode needs about 84 bytes of memory
// a span in addition to v, 48 for any other entry, and at most 40 MiB for strings.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	e := &encoder{ctx: ctx, v: v, groups: make(map[groupKey]int32), latest: math.MinInt64, earliest: math.MaxInt64}
	if err := e.survey(); err != nil {
		return err
	}
	text := e.metadata()
	if e.start < 0 {
		return errRange
	}
	e.w = bufio.NewWriterSize(w, fullPage)
	if _, err := e.w.Write(appendStart(nil, text)); err != nil {
		return err
	}
	e.strings = newWriteTable(func(payload []byte) error { return e.page(tagStrings, payload) })
	e.strings.next += uint64(len(text)) + 1
	if err := e.collect(); err != nil {
		return err
	}
	if e.strings.flush(); e.strings.err != nil {
		return e.strings.err
	}
	if !e.complete() {
		return errRange
	}
	e.assign()
	if err := e.events(); err != nil {
		return err
	}
	return e.w.Flush()
}

// An encoder writes one profile.
type encoder struct {
	ctx     context.Context
	v       *view.View
	w       *bufio.Writer
	strings *writeTable
	id      []byte // of an event: a label and arguments
	unique  bool   // hardly another record has them
	buf     []byte

	// Invariants: records are in the order of their entries until they are
	// written; spans[i] is the record of intervals[i]; spanOf is the index of a
	// row there, or -1.
	records   []record
	spans     []uint32
	intervals []timeline.Interval
	spanOf    []int32
	groups    map[groupKey]int32
	keys      []groupKey

	earliest, latest int64
	start            int64
	resource         []*format.TraceEntry
}

// A record becomes an event.
type record struct {
	first, second int64 // times since 1970, or a number; second also says what it is
	kind, id      stringID
	row           view.Row // its rank among the spans, once the texts are made
	thread        uint32
	what          what
}

// what is a set of marks.
type what uint8

const (
	isSpan what = 1 << iota
	isInteger
	isOpen // it has no end
	isTimeless
	hasThread // the entry names its thread
)

// Spans of equal groupKeys share lanes.
type groupKey struct {
	resource view.Row
	thread   int64 // -1 for none
}

// maxResources bounds how many resources the metadata names.
const maxResources = 64

// survey counts, finds when the trace begins, and reads the resources, without
// reading all entries.
func (e *encoder) survey() error {
	spans, all := 0, 0
	e.spanOf = make([]int32, e.v.Len())
	for row := range e.v.Rows() {
		e.spanOf[row] = -1
		switch e.v.Role(row) {
		case view.RoleResource:
			if len(e.resource) < maxResources {
				r, err := e.v.Entry(row)
				if err != nil {
					return err
				}
				e.resource = append(e.resource, r)
			}
			continue
		case view.RoleSpan:
			spans++
		case view.RoleEvent, view.RoleLog:
		default:
			continue
		}
		all++
		if at, ok := e.v.Start(row); ok {
			e.earliest = min(e.earliest, at)
			e.latest = max(e.latest, at)
		}
	}
	e.records = make([]record, 0, all)
	e.intervals = make([]timeline.Interval, 0, spans)
	e.spans = make([]uint32, 0, spans)
	return nil
}

// collect makes the records, with their texts.
func (e *encoder) collect() error {
	return e.v.Stored().Each(e.ctx, func(row view.Row, t *format.TraceEntry) error {
		r := record{row: row}
		switch e.v.Role(row) {
		case view.RoleSpan:
			r.what = isSpan | isOpen
			if e.v.Stored().HasEnd(row) {
				var err error
				if t, err = e.v.Entry(row); err != nil {
					return err
				}
			}
			e.spanOf[row] = int32(len(e.spans))
			e.spans = append(e.spans, uint32(len(e.records)))
		case view.RoleEvent, view.RoleLog:
		default:
			return nil
		}
		e.read(&r, t)
		if err := e.text(&r, t); err != nil {
			return err
		}
		e.records = append(e.records, r)
		return e.strings.err
	})
}

// read takes times and numbers from the entry of r.
func (e *encoder) read(r *record, t *format.TraceEntry) {
	if at, ok := e.v.Start(r.row); ok {
		r.first = at
	} else {
		r.what |= isTimeless
	}
	if r.what&isSpan == 0 {
		r.second = r.first
	}
	for i := range t.Attributes {
		a := &t.Attributes[i]
		switch a.Name {
		case format.AttrDuration:
			if n, ok := a.Value.U64(); ok && r.what&isSpan != 0 {
				r.what &^= isOpen
				r.second = r.first + int64(min(n, uint64(math.MaxInt64)-uint64(max(r.first, 0))))
			}
		case attrThread:
			if n, ok := threadOf(a.Value); ok {
				r.what |= hasThread
				r.thread = n
			}
		case attrValue:
			if n, ok := a.Value.U64(); ok && n <= maxNano && r.what&isTimeless != 0 {
				r.what ^= isTimeless | isInteger
				r.first = int64(n)
			}
		}
	}
}

func threadOf(v format.Value) (uint32, bool) {
	n, ok := v.U64()
	return uint32(n), ok && n <= math.MaxUint32
}

// complete gives an end to what has none, and a time. It reports whether all is
// within what the format can hold.
func (e *encoder) complete() bool {
	for i := range e.records {
		if r := &e.records[i]; r.what&(isInteger|isTimeless|isOpen) == 0 {
			e.latest = max(e.latest, r.second)
		}
	}
	if e.earliest <= e.latest && uint64(e.latest)-uint64(e.start) > maxEnd {
		return false
	}
	for i := range e.records {
		r := &e.records[i]
		switch {
		case r.what&isOpen != 0:
			r.second = e.latest
		case r.what&isTimeless != 0:
			r.first = e.start
			if at := e.spanOf[e.v.Parent(r.row)]; at >= 0 {
				r.first = e.records[e.spans[at]].first
			}
			r.second = r.first
		}
	}
	return true
}

// assign gives each record its thread.
func (e *encoder) assign() {
	for _, at := range e.spans {
		r := &e.records[at]
		parent := e.spanOf[e.v.Parent(r.row)]
		e.intervals = append(e.intervals, timeline.Interval{Start: r.first, End: r.second, Parent: parent, Group: e.group(r)})
	}
	lanes, order := timeline.Lanes(e.intervals)
	wanted := make(map[uint32]bool)
	for i := range e.records {
		if r := &e.records[i]; r.what&hasThread != 0 {
			wanted[r.thread] = true
		}
	}
	type line struct{ group, lane int32 }
	threads := make(map[line]uint32)
	free := uint32(0)
	taken := make(map[uint32]bool)
	number := func(group, lane int32) uint32 {
		n, ok := threads[line{group, lane}]
		if ok {
			return n
		}
		if want := e.keys[group].thread; lane == 0 && want >= 0 && !taken[uint32(want)] {
			n = uint32(want)
		} else {
			for free++; wanted[free]; {
				free++
			}
			n = free
		}
		taken[n] = true
		threads[line{group, lane}] = n
		return n
	}
	for i, at := range e.spans {
		e.records[at].thread = number(e.intervals[i].Group, lanes[i])
	}
	for i := range e.records {
		r := &e.records[i]
		if r.what&isSpan != 0 {
			continue
		}
		if at := e.spanOf[e.v.Parent(r.row)]; at >= 0 {
			r.thread = e.records[e.spans[at]].thread
		} else {
			r.thread = number(e.group(r), 0)
		}
	}
	// The ranks take the place of what is not needed any more.
	e.intervals = nil
	for rank, i := range order {
		lanes[i] = int32(rank)
	}
	e.spanOf = lanes
}

func (e *encoder) group(r *record) int32 {
	key := groupKey{e.v.Resource(r.row), -1}
	if r.what&hasThread != 0 {
		key.thread = int64(r.thread)
	}
	g, ok := e.groups[key]
	if !ok {
		g = int32(len(e.keys))
		e.groups[key] = g
		e.keys = append(e.keys, key)
	}
	return g
}

// events writes the records in the order in which they end, what is contained
// before what contains it, and numbers at the end.
func (e *encoder) events() error {
	for i, at := range e.spans {
		e.records[at].row = view.Row(e.spanOf[i])
	}
	slices.SortFunc(e.records, func(a, b record) int {
		if n := cmp.Compare(a.what&isInteger, b.what&isInteger); n != 0 {
			return n
		}
		if n := cmp.Compare(a.second, b.second); n != 0 {
			return n
		}
		if n := cmp.Compare(b.first, a.first); n != 0 {
			return n
		}
		if n := cmp.Compare(a.what&isSpan, b.what&isSpan); n != 0 || a.what&isSpan == 0 {
			return cmp.Or(n, cmp.Compare(a.row, b.row))
		}
		return cmp.Compare(b.row, a.row) // what is contained before what contains it
	})
	page := make([]byte, 0, fullPage)
	for i := range e.records {
		r := &e.records[i]
		ev := event{kind: uint64(r.kind), id: uint64(r.id), thread: r.thread}
		switch {
		case r.what&isInteger != 0:
			ev.setPayload(uint64(r.first), markInteger)
		case r.what&isSpan != 0:
			ev.setPayload(uint64(r.first-e.start), uint64(r.second-e.start))
		default:
			ev.setPayload(uint64(r.first-e.start), markInstant)
		}
		page = ev.appendTo(page)
		if len(page) == fullPage {
			if err := e.page(tagEvents, page); err != nil {
				return err
			}
			page = page[:0]
		}
	}
	if len(page) == 0 {
		return nil
	}
	return e.page(tagEvents, page)
}

func (e *encoder) page(tag byte, payload []byte) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	var head [pageHeaderSize]byte
	if _, err := e.w.Write(appendPageHeader(head[:0], tag, len(payload))); err != nil {
		return err
	}
	_, err := e.w.Write(payload)
	return err
}

// appendStart appends a whole file without events: its header, and a page of each
// kind with the header of the stream. The only string is the metadata.
func appendStart(b, metadata []byte) []byte {
	b = appendHeader(b, magicFile)
	b = appendHeader(appendPageHeader(b, tagEvents, headerSize), magicEvents)
	b = appendHeader(appendPageHeader(b, tagStrings, headerSize+len(metadata)+1), magicStrings)
	b = append(append(b, metadata...), terminator)
	b = appendHeader(appendPageHeader(b, tagIndex, headerSize+indexSize), magicIndex)
	b = binary.LittleEndian.AppendUint64(b, metadataID)
	return binary.LittleEndian.AppendUint64(b, metadataOffset)
}
