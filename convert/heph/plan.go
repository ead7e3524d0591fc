package heph

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/timeline"
	"github.com/entrace-go/entrace/view"
)

// A node is a row that gets a packet. The row that its entry was written below has a smaller
// number.
type node struct {
	start, end uint64 // nanoseconds since 1970
	row        view.Row
	parent     uint32
	stream     uint32
	substream  uint32
	counter    uint32
	timed      bool // it says when it began
	ended      bool // it says how long it took
	span       bool
	explicit   bool // containment does not say its parent
}

// A plan says where each entry goes in the file.
type plan struct {
	nodes []node
	order []uint32 // of the packets
	epoch uint64   // the smallest start
}

// newPlan reads the times of all entries and makes a plan of them. It takes about
// 90 bytes an entry.
func newPlan(ctx context.Context, v *view.View) (*plan, error) {
	p := &plan{nodes: make([]node, 0, v.Len())}
	if err := p.read(ctx, v); err != nil {
		return nil, err
	}
	if !p.stretch() {
		p.count()
	}
	p.epoch = math.MaxUint64
	for i := range p.nodes {
		p.epoch = min(p.epoch, p.nodes[i].start)
	}
	p.lanes()
	p.arrange()
	p.parents()
	return p, ctx.Err()
}

// read fills in what the entries say themselves.
func (p *plan) read(ctx context.Context, v *view.View) error {
	numbers := make([]uint32, v.Len())
	streams := uint32(0)
	return v.Stored().Each(ctx, func(r view.Row, e *format.TraceEntry) error {
		up := numbers[v.Stored().Below(r, e)]
		role := v.Role(r)
		n := node{row: r, parent: up, span: role == view.RoleSpan}
		if t, ok := e.Attribute(format.AttrTime); ok && t.Kind() == format.KindU64 {
			n.start, n.timed = t.U64()
			n.end = n.start
		}
		if !v.Stored().HasEnd(r) {
			if d, ok := e.Attribute(format.AttrDuration); ok {
				n.setDuration(d)
			}
		} else if took, ended := v.Duration(r); ended {
			n.setDuration(format.U64Value(uint64(took)))
		}
		if role == view.RoleResource {
			streams++
			n.stream = streams
		} else if r > 0 {
			n.stream = p.nodes[up].stream
		}
		numbers[r] = uint32(len(p.nodes))
		p.nodes = append(p.nodes, n)
		return nil
	})
}

func (n *node) setDuration(d format.Value) {
	nano, ok := d.U64()
	if n.ended = n.timed && ok && d.Kind() == format.KindU64 && nano <= math.MaxUint64-n.start; n.ended {
		n.end = n.start + nano
	}
}

// stretch gives times to what has none: as long as what is below it, which it then
// contains. So does an open span. It reports whether anything
// has a time at all.
func (p *plan) stretch() bool {
	times := false
	for i := range p.nodes {
		n := &p.nodes[i]
		times = times || n.timed
		if !n.timed {
			n.start, n.end = math.MaxUint64, 0 // nothing is below it yet
		}
	}
	if !times {
		return false
	}
	for i := len(p.nodes) - 1; i > 0; i-- {
		n := &p.nodes[i]
		up := &p.nodes[n.parent]
		if n.start > n.end || up.ended {
			continue
		}
		if !up.timed {
			up.start = min(up.start, n.start)
		}
		if !up.timed || up.span {
			up.end = max(up.end, n.end)
		}
	}
	for i := range p.nodes {
		if n := &p.nodes[i]; n.start > n.end {
			n.start = p.nodes[n.parent].start // where a leaf lies says nothing
			n.end = n.start
		}
	}
	return true
}

// count gives times to a trace that has none: a nanosecond for each step of a walk
// through the tree, so that parents contain their children and nothing else.
func (p *plan) count() {
	// Until the times are known, end counts the entry and those below it.
	for i := range p.nodes {
		p.nodes[i].end = 1
	}
	for i := len(p.nodes) - 1; i > 0; i-- {
		p.nodes[p.nodes[i].parent].end += p.nodes[i].end
	}
	next := make([]uint64, len(p.nodes))
	for i := range p.nodes {
		n := &p.nodes[i]
		size := 2 * n.end
		n.start = 0
		if i > 0 {
			n.start = next[n.parent]
			next[n.parent] += size
		}
		n.end = n.start + size - 1
		next[i] = n.start + 1
	}
}

// lanes gives substreams to all but the root, which has its place.
func (p *plan) lanes() {
	if len(p.nodes) < 2 {
		return
	}
	intervals := make([]timeline.Interval, len(p.nodes)-1)
	for i := range intervals {
		n := &p.nodes[i+1]
		intervals[i] = timeline.Interval{
			Start:  int64(min(n.start-p.epoch, math.MaxInt64)),
			End:    int64(min(n.end-p.epoch, math.MaxInt64)),
			Parent: int32(n.parent) - 1,
			Group:  int32(n.stream),
		}
	}
	lanes, _ := timeline.Lanes(intervals)
	for i, l := range lanes {
		p.nodes[i+1].substream = uint32(l)
	}
}

// arrange puts the packets in order: as the events end, children before parents,
// the root last.
func (p *plan) arrange() {
	p.order = make([]uint32, len(p.nodes))
	for i := range p.order {
		p.order[i] = uint32(i)
	}
	slices.SortFunc(p.order, func(a, b uint32) int {
		if a == 0 || b == 0 {
			return cmp.Compare(b, a)
		}
		n, m := &p.nodes[a], &p.nodes[b]
		switch {
		case n.end != m.end:
			return cmp.Compare(n.end, m.end)
		case n.start != m.start:
			return cmp.Compare(m.start, n.start)
		}
		return cmp.Compare(b, a)
	})
	counters := make(map[uint32]uint32)
	for _, i := range p.order {
		n := &p.nodes[i]
		n.counter = counters[n.stream]
		counters[n.stream]++
	}
}

// parents finds out which parents have to be said.
func (p *plan) parents() {
	at := func(i uint32) interval {
		n := &p.nodes[i]
		return interval{stream: n.stream, counter: n.counter, substream: uint64(n.substream), start: n.start, end: n.end}
	}
	contain(len(p.nodes), nil, at, func(i uint32, parent int64) {
		n := &p.nodes[i]
		n.explicit = max(parent, 0) != int64(n.parent)
	})
}
