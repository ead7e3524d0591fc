package folded

import (
	"context"
	"math"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/lane"
	"github.com/entrace-go/entrace/internal/otel"
)

// unknownService is OpenTelemetry's name of a service that has none.
const unknownService = "unknown_service"

// unknown is the span above an entry before it is looked for.
const unknown = -2

// checkEvery is after how many entries or lines the context is asked.
const checkEvery = 4096

// A frame is what spans of one place have in common.
type frame struct {
	name, file string
	line       uint32
}

// stacks are the spans of a trace on their lanes.
//
// Invariants: intervals, frames, lanes, outers and order have one item a span;
// Group of an interval is an index of services.
type stacks struct {
	intervals []lane.Interval
	frames    []int32 // indices of names
	names     []frame
	services  []string
	lanes     []int32
	outers    []int32 // what a span is directly in on its lane, or -1
	order     []int32 // of beginnings
	base      int64   // when the first one began
}

// collector reads spans from the entries in the order of the file.
type collector struct {
	*stacks

	v      *format.View
	key    func(m *format.Metadata, name string) frame
	byName map[frame]int32
	above  []int32 // the span that an entry is or is below, -1 for none
	ended  []bool
	// Invariant: groups[id] is the service of entry id, for all that came so far.
	groups  []int32
	byGroup map[string]int32
	last    int64
}

// read puts the spans of v onto lanes. Those for which key returns the same frame
// are of the same frame; key gets strings that are valid during the call alone.
func read(ctx context.Context, v *format.View, key func(m *format.Metadata, name string) frame) (*stacks, error) {
	c := collector{
		stacks: &stacks{}, v: v, key: key,
		byName: make(map[frame]int32), above: make([]int32, v.Len()), groups: make([]int32, v.Len()),
		byGroup: make(map[string]int32), last: math.MinInt64,
	}
	c.group(unknownService)
	for id := range c.above {
		c.above[id] = unknown
	}
	err := v.File().Walk(0, func(id uint32, e *format.TraceEntry) error {
		if id%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		c.entry(id, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.finish()
	return c.stacks, ctx.Err()
}

func (c *collector) entry(id uint32, e *format.TraceEntry) {
	c.groups[id] = c.groups[c.v.File().Parent(id)]
	if t, ok := c.v.Time(id); ok {
		c.last = max(c.last, t.UnixNano())
	}
	switch c.v.Role(id) {
	case format.RoleResource:
		service := otel.ReadResource(e).Service()
		if service == "" {
			service = unknownService
		}
		c.groups[id] = c.group(service)
	case format.RoleSpan:
		t, _ := c.v.Time(id)
		start := t.UnixNano()
		i := int32(len(c.intervals))
		c.above[id] = i
		c.intervals = append(c.intervals, lane.Interval{Start: start, End: start, Parent: -1, Group: c.groups[id]})
		c.frames = append(c.frames, c.frame(&e.Metadata, e.Metadata.Name))
		c.ended = append(c.ended, false)
		c.end(i, e)
	case format.RoleSpanEnd:
		i := c.above[c.v.File().Parent(id)]
		if i == unknown {
			return
		}
		c.rename(i, e)
		c.end(i, e)
	}
}

// rename takes the name and the place of span i from its end, if that says them.
func (c *collector) rename(i int32, end *format.TraceEntry) {
	m := &end.Metadata
	if !end.Message.Valid && !m.File.Valid && !m.Line.Valid {
		return
	}
	f := c.names[c.frames[i]]
	if end.Message.Valid {
		f.name = end.Message.Value
	}
	place := format.Metadata{File: format.Some(f.file), Line: format.Some(f.line)}
	if m.File.Valid {
		place.File = m.File
	}
	if m.Line.Valid {
		place.Line = m.Line
	}
	c.frames[i] = c.frame(&place, f.name)
}

// end takes how long span i lasted from e, if that says so.
func (c *collector) end(i int32, e *format.TraceEntry) {
	d, ok := e.Attribute(format.AttrDuration)
	if !ok {
		return
	}
	v := &c.intervals[i]
	n, _ := d.U64()
	v.End = v.Start + int64(min(n, math.MaxInt64))
	if v.End < v.Start {
		v.End = math.MaxInt64
	}
	c.ended[i] = true
	c.last = max(c.last, v.End)
}

func (c *collector) group(service string) int32 {
	g, ok := c.byGroup[service]
	if !ok {
		g, service = int32(len(c.services)), strings.Clone(service)
		c.services = append(c.services, service)
		c.byGroup[service] = g
	}
	return g
}

func (c *collector) frame(m *format.Metadata, name string) int32 {
	k := c.key(m, name)
	n, ok := c.byName[k]
	if !ok {
		k.name, k.file = strings.Clone(k.name), strings.Clone(k.file)
		n = int32(len(c.names))
		c.names = append(c.names, k)
		c.byName[k] = n
	}
	return n
}

// finish finds parents and lanes.
func (c *collector) finish() {
	c.base = math.MaxInt64
	c.dropNames()
	c.parents()
	for i := range c.intervals {
		v := &c.intervals[i]
		if !c.ended[i] {
			v.End = max(v.Start, c.last)
		}
		c.base = min(c.base, v.Start)
	}
	c.lanes, c.order = lane.Assign(c.intervals)
	c.outers = lane.Outers(c.intervals, c.lanes, c.order)
}

// dropNames drops names that no span has any more, since it was renamed.
func (c *collector) dropNames() {
	at := make([]int32, len(c.names)) // from 1 on; 0: nobody has it
	kept := c.names[:0:0]
	for i, n := range c.frames {
		if at[n] == 0 {
			kept = append(kept, c.names[n])
			at[n] = int32(len(kept))
		}
		c.frames[i] = at[n] - 1
	}
	c.names = kept
}

// parents gives each span the one above it in the view, across entries of other
// roles between them.
func (c *collector) parents() {
	var chain []uint32
	for id := range uint32(c.v.Len()) {
		at := id
		chain = chain[:0]
		for at != 0 && c.above[at] == unknown {
			chain = append(chain, at)
			at = c.v.Parent(at)
		}
		found := c.above[at]
		if found == unknown {
			found = -1 // the root
		}
		for _, at := range chain {
			c.above[at] = found
		}
	}
	for id := range uint32(c.v.Len()) {
		if p := c.v.Parent(id); c.v.Role(id) == format.RoleSpan && id != 0 {
			c.intervals[c.above[id]].Parent = max(c.above[p], -1)
		}
	}
}
