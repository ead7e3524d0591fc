package telemetry

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/lane"
	"github.com/entrace-go/entrace/internal/otel"
)

// A Timeline is where everything of a trace is in time, for formats without
// parents: spans on lanes, on which they nest strictly, and what happens at one
// moment, the span events and log records. It keeps times and ids only, about 60
// bytes an entry.
//
// Spans go to a lane of their process, which is their resource. Span events and
// log records are on the lane of their span while that lasts, else on one lane of
// the process for all such. One without a time has that of the next entry above
// it that has one; is there none, it is left out. So are other entries, which
// count as log records, the root, resources and what the recorder itself wrote.
//
// A trace without any time, as other ENTRACE writers leave, has made ones: each
// beginning, end and log record in the order of the tree is [Step] later than the
// one before, and what is neither event nor log record counts as a span.
type Timeline struct {
	Processes []Process
	Made      bool // times are made up
	// First and Last are the first and the last time of all; 0 if there is none.
	First, Last int64
	// Slices are the spans by id; their Group is an index of Processes. A span
	// that has not ended ends at Last.
	Slices []lane.Interval
	IDs    []uint32 // entries of Slices
	Lanes  []int32  // lanes of Slices, from 0 on in each process
	Marks  []Mark   // in the order of time
	Flows  int      // how many there are

	v     *format.View
	order []int32 // Slices by their beginnings, as package lane has it
	ends  []FlowEnd
}

// Step is how far made times are apart, in nanoseconds.
const Step = 1000

// A Process is what spans and log records of one resource belong to.
type Process struct {
	ID    uint32 // of the resource's entry, 0 for what has none
	Lanes int32  // of spans
	Logs  bool   // there is one more lane behind these, for marks outside of spans
}

// A Mark is a moment: a span event, a log record or another entry with a time.
type Mark struct {
	Time  int64
	ID    uint32 // of its entry
	Slice int32  // the span that it is in, or -1
	Group int32
}

// A FlowEnd is one of the two ends of an arrow between spans: of a link, or to a
// child that is on another lane than its parent. Arrows point forward in time:
// they start where the span is that began first.
type FlowEnd struct {
	Flow  uint32 // its number, from 1 on
	Slice int32
	Start bool
	Link  bool // else it leads to a child
}

// errTooMany is for traces that no program could read anyway.
var errTooMany = errors.New("more than 2147483647 entries")

// never is the end of a span that has none, until Last is known.
const never = math.MinInt64

// NewTimeline puts what is in v on a timeline.
func NewTimeline(ctx context.Context, v *format.View) (*Timeline, error) {
	if int64(v.Len()) > math.MaxInt32 {
		return nil, errTooMany
	}
	b := timelineBuilder{Timeline: &Timeline{First: math.MaxInt64, Last: math.MinInt64, v: v}, none: -1}
	b.group()
	b.Made = !b.timed()
	read, slices := b.spans, format.RoleSpan
	if b.Made {
		read, slices = b.tree, format.RoleOther
	}
	b.room(slices)
	if err := read(ctx); err != nil {
		return nil, err
	}
	if b.First > b.Last {
		b.First, b.Last = 0, 0
	}
	for i := range b.Slices {
		if s := &b.Slices[i]; s.End == never {
			s.End = max(s.Start, b.Last)
		}
	}
	b.groups, b.slots = nil, nil
	b.Lanes, b.order = lane.Assign(b.Slices)
	for i, at := range b.Lanes {
		p := &b.Processes[b.Slices[i].Group]
		p.Lanes = max(p.Lanes, at+1)
	}
	b.place()
	if err := b.flows(ctx); err != nil {
		return nil, err
	}
	return b.Timeline, nil
}

type timelineBuilder struct {
	*Timeline

	groups []int32 // of entries, -1 for those below no resource
	none   int32   // the group of those, -1 as long as there is none
	slots  []int32 // entries' indices in Slices and 1
	links  []link
}

type link struct {
	to    format.SpanRef
	from  int32
	found int32 // the span to, of the first link to it, or -1
}

// group finds the processes. In the raw tree parents come before children.
func (b *timelineBuilder) group() {
	b.groups = make([]int32, b.v.Len())
	b.slots = make([]int32, b.v.Len())
	for id := range b.groups {
		switch {
		case b.v.Role(uint32(id)) == format.RoleResource:
			b.groups[id] = int32(len(b.Processes))
			b.Processes = append(b.Processes, Process{ID: uint32(id)})
		case id == 0:
			b.groups[id] = -1
		default:
			b.groups[id] = b.groups[b.v.File().Parent(uint32(id))]
		}
	}
}

func (b *timelineBuilder) groupOf(id uint32) int32 {
	if g := b.groups[id]; g >= 0 {
		return g
	}
	if b.none < 0 {
		b.none = int32(len(b.Processes))
		b.Processes = append(b.Processes, Process{})
	}
	return b.none
}

// timed reports whether anything that is on a timeline has a time.
func (b *timelineBuilder) timed() bool {
	for id := range uint32(b.v.Len()) {
		switch b.v.Role(id) {
		case format.RoleSpan, format.RoleEvent, format.RoleLog, format.RoleOther:
			if _, ok := b.v.Time(id); ok {
				return true
			}
		}
	}
	return false
}

// room makes as much room as there will be slices and marks.
func (b *timelineBuilder) room(role format.Role) {
	var counts [format.RoleRecorder + 1]int
	for id := range uint32(b.v.Len()) {
		counts[b.v.Role(id)]++
	}
	b.Slices, b.IDs = make([]lane.Interval, 0, counts[role]), make([]uint32, 0, counts[role])
	marks := counts[format.RoleEvent] + counts[format.RoleLog]
	if !b.Made {
		marks += counts[format.RoleOther]
	}
	b.Marks = make([]Mark, 0, marks)
	b.links = make([]link, 0, counts[format.RoleLink])
}

func (b *timelineBuilder) slice(id uint32, start, end int64, parent int32) int32 {
	at := int32(len(b.Slices))
	b.Slices = append(b.Slices, lane.Interval{Start: start, End: end, Parent: parent, Group: b.groupOf(id)})
	b.IDs = append(b.IDs, id)
	b.slots[id] = at + 1
	return at
}

func (b *timelineBuilder) mark(id uint32, at int64, slice int32) {
	m := Mark{Time: at, ID: id, Slice: slice}
	if slice >= 0 {
		m.Group = b.Slices[slice].Group
	} else {
		m.Group = b.groupOf(id)
	}
	b.Marks = append(b.Marks, m)
	b.First, b.Last = min(b.First, at), max(b.Last, at)
}

// spans takes in a trace with times.
func (b *timelineBuilder) spans(ctx context.Context) error {
	for id := range uint32(b.v.Len()) {
		if id%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at, ok := b.v.Time(id)
		if !ok {
			continue
		}
		start := at.UnixNano()
		switch b.v.Role(id) {
		case format.RoleRecorder:
			b.Last = max(b.Last, start) // as long as it recorded
			continue
		case format.RoleSpan:
		default:
			continue
		}
		took, ended, err := b.v.Ended(id)
		if err != nil {
			return err
		}
		end := int64(never)
		if ended {
			end = start + min(int64(took), math.MaxInt64-max(start, 0))
			b.Last = max(b.Last, end)
		}
		b.slice(id, start, end, -1)
		b.First, b.Last = min(b.First, start), max(b.Last, start)
	}
	return b.hang(ctx)
}

// hang finds what is in which span.
func (b *timelineBuilder) hang(ctx context.Context) error {
	type level struct {
		slice int32
		time  int64
		timed bool
	}
	var up []level // of the entries above
	n := 0
	return b.v.Walk(0, func(id uint32, depth int, _ bool) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		here := level{slice: -1}
		if depth > 0 {
			here = up[depth-1]
		}
		role := b.v.Role(id)
		if at, ok := b.v.Time(id); ok && role != format.RoleRecorder {
			here.time, here.timed = at.UnixNano(), true
		}
		switch role {
		case format.RoleSpan:
			at := b.slots[id] - 1
			b.Slices[at].Parent = here.slice
			here.slice = at
		case format.RoleLink:
			if err := b.link(id, here.slice); err != nil {
				return err
			}
		case format.RoleEvent, format.RoleLog, format.RoleOther:
			if here.timed {
				b.mark(id, here.time, here.slice)
			}
		}
		up = append(up[:depth], here)
		return nil
	})
}

// link notes a link of the span from.
func (b *timelineBuilder) link(id uint32, from int32) error {
	if from < 0 {
		return nil
	}
	trace, _, err := b.v.File().Attribute(id, format.AttrLinkTraceID)
	if err != nil {
		return err
	}
	span, _, err := b.v.File().Attribute(id, format.AttrLinkSpanID)
	if err != nil {
		return err
	}
	var to format.SpanRef
	to.TraceID, _ = otel.ParseID[[16]byte](trace.Text())
	to.SpanID, _ = otel.ParseID[[8]byte](span.Text())
	if to.IsValid() {
		b.links = append(b.links, link{to, from, -1})
	}
	return nil
}

// tree takes in a trace without times.
func (b *timelineBuilder) tree(ctx context.Context) error {
	type level struct {
		slice int32 // the entry itself, or that which it is in
		own   bool
	}
	var up []level
	clock := int64(0)
	leave := func(depth int) {
		for ; len(up) > depth; up = up[:len(up)-1] {
			if l := up[len(up)-1]; l.own {
				b.Slices[l.slice].End = clock
				clock += Step
			}
		}
	}
	n := 0
	err := b.v.Walk(0, func(id uint32, depth int, _ bool) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		leave(depth)
		here := level{slice: -1}
		if depth > 0 {
			here.slice = up[depth-1].slice
		}
		switch b.v.Role(id) {
		case format.RoleEvent, format.RoleLog:
			b.mark(id, clock, here.slice)
			clock += Step
		case format.RoleOther:
			here = level{b.slice(id, clock, 0, here.slice), true}
			clock += Step
		}
		up = append(up, here)
		return nil
	})
	leave(0)
	b.First, b.Last = 0, max(clock-Step, 0)
	return err
}

// place puts marks outside of their spans on lanes of their own, and all in order.
func (b *timelineBuilder) place() {
	for i := range b.Marks {
		m := &b.Marks[i]
		if m.Slice >= 0 {
			if s := &b.Slices[m.Slice]; m.Time < s.Start || m.Time > s.End {
				m.Slice = -1
			}
		}
		if m.Slice < 0 {
			b.Processes[m.Group].Logs = true
		}
	}
	slices.SortFunc(b.Marks, func(x, y Mark) int {
		return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(b.turn(&x), b.turn(&y)), cmp.Compare(x.ID, y.ID))
	})
}

// turn says whether a mark comes before, 0, or behind, 1, what begins at its time.
// It must stay within its span.
func (t *Timeline) turn(m *Mark) int {
	if m.Slice >= 0 && t.Slices[m.Slice].Start == m.Time {
		return 1
	}
	return 0
}

// flows finds the arrows.
func (b *timelineBuilder) flows(ctx context.Context) error {
	ranks := make([]int32, len(b.order))
	for rank, i := range b.order {
		ranks[i] = int32(rank)
	}
	elsewhere := func(i int, s *lane.Interval) bool {
		return s.Parent >= 0 && (b.Slices[s.Parent].Group != s.Group || b.Lanes[s.Parent] != b.Lanes[i])
	}
	n := len(b.links)
	for i := range b.Slices {
		if elsewhere(i, &b.Slices[i]) {
			n++
		}
	}
	b.ends = make([]FlowEnd, 0, 2*n)
	add := func(from, to int32, isLink bool) {
		b.Flows++
		if ranks[to] < ranks[from] {
			from, to = to, from
		}
		b.ends = append(b.ends, FlowEnd{uint32(b.Flows), from, true, isLink}, FlowEnd{uint32(b.Flows), to, false, isLink})
	}
	for i := range b.Slices {
		if s := &b.Slices[i]; elsewhere(i, s) {
			add(s.Parent, int32(i), false)
		}
	}
	if len(b.links) > 0 {
		slices.SortFunc(b.links, func(x, y link) int { return cmp.Or(compareRefs(&x.to, &y.to), cmp.Compare(x.from, y.from)) })
		for i, id := range b.IDs {
			if i%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			ref := b.v.Ref(id)
			at, found := slices.BinarySearchFunc(b.links, ref, func(l link, ref format.SpanRef) int { return compareRefs(&l.to, &ref) })
			if !found {
				continue
			}
			b.links[at].found = int32(i) // the last one of that id, as in the view
		}
		found := int32(-1)
		for i := range b.links {
			l := &b.links[i]
			if i == 0 || l.to != b.links[i-1].to {
				found = l.found
			}
			if found >= 0 && found != l.from {
				add(found, l.from, true)
			}
		}
		b.links = nil
	}
	slices.SortFunc(b.ends, func(x, y FlowEnd) int {
		return cmp.Or(cmp.Compare(ranks[x.Slice], ranks[y.Slice]), cmp.Compare(x.Flow, y.Flow))
	})
	return nil
}

func compareRefs(x, y *format.SpanRef) int {
	return cmp.Or(slices.Compare(x.TraceID[:], y.TraceID[:]), slices.Compare(x.SpanID[:], y.SpanID[:]))
}
