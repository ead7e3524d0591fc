package timeline

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
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
	// Slices are the spans by row; their Group is an index of Processes. A span
	// that has not ended ends at Last.
	Slices []Interval
	Rows   []view.Row // of Slices
	Lanes  []int32    // lanes of Slices, from 0 on in each process
	Marks  []Mark     // in the order of time
	Flows  int        // how many there are

	v     *view.View
	links bool    // there are links
	order []int32 // Slices by their beginnings, as package lane has it
	ends  []FlowEnd
}

// Step is how far made times are apart, in nanoseconds.
const Step = 1000

// A Process is what spans and log records of one resource belong to.
type Process struct {
	Row   view.Row // of the resource, 0 for what has none
	Lanes int32    // of spans
	Logs  bool     // there is one more lane behind these, for marks outside of spans
}

// A Mark is a moment: a span event, a log record or another entry with a time.
type Mark struct {
	Time  int64
	Row   view.Row
	Slice int32 // the span that it is in, or -1
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
func NewTimeline(ctx context.Context, v *view.View) (*Timeline, error) {
	if int64(v.Len()) > math.MaxInt32 {
		return nil, errTooMany
	}
	b := timelineBuilder{Timeline: &Timeline{First: math.MaxInt64, Last: math.MinInt64, v: v}, none: -1}
	b.group()
	b.Made = !b.timed()
	read, slices := b.spans, view.RoleSpan
	if b.Made {
		read, slices = b.tree, view.RoleOther
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
	b.Lanes, b.order = Lanes(b.Slices)
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

	groups map[view.Row]int32 // of resources
	none   int32              // the group of what has none, -1 as long as there is none
	slots  []int32            // rows' indices in Slices and 1
	to     []link
}

type link struct {
	to    format.SpanRef
	from  int32
	found int32 // the span to, of the first link to it, or -1
}

// group finds the processes.
func (b *timelineBuilder) group() {
	b.groups = make(map[view.Row]int32)
	b.slots = make([]int32, b.v.Len())
	for r := range b.v.Rows() {
		if b.v.Role(r) == view.RoleResource {
			b.groups[r] = int32(len(b.Processes))
			b.Processes = append(b.Processes, Process{Row: r})
		}
	}
}

func (b *timelineBuilder) groupOf(r view.Row) int32 {
	if g, ok := b.groups[b.v.Resource(r)]; ok {
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
	for r := range b.v.Rows() {
		switch b.v.Role(r) {
		case view.RoleSpan, view.RoleEvent, view.RoleLog, view.RoleOther:
			if _, ok := b.v.Time(r); ok {
				return true
			}
		}
	}
	return false
}

// room makes as much room as there will be slices and marks.
func (b *timelineBuilder) room(role view.Role) {
	var counts [view.RoleRecorder + 1]int
	for r := range b.v.Rows() {
		counts[b.v.Role(r)]++
	}
	b.Slices, b.Rows = make([]Interval, 0, counts[role]), make([]view.Row, 0, counts[role])
	marks := counts[view.RoleEvent] + counts[view.RoleLog]
	if !b.Made {
		marks += counts[view.RoleOther]
	}
	b.Marks = make([]Mark, 0, marks)
	b.to = make([]link, 0, counts[view.RoleLink])
	b.links = counts[view.RoleLink] > 0
}

func (b *timelineBuilder) slice(r view.Row, start, end int64, parent int32) int32 {
	at := int32(len(b.Slices))
	b.Slices = append(b.Slices, Interval{Start: start, End: end, Parent: parent, Group: b.groupOf(r)})
	b.Rows = append(b.Rows, r)
	b.slots[r] = at + 1
	return at
}

func (b *timelineBuilder) mark(r view.Row, at int64, slice int32) {
	m := Mark{Time: at, Row: r, Slice: slice}
	if slice >= 0 {
		m.Group = b.Slices[slice].Group
	} else {
		m.Group = b.groupOf(r)
	}
	b.Marks = append(b.Marks, m)
	b.First, b.Last = min(b.First, at), max(b.Last, at)
}

// spans takes in a trace with times.
func (b *timelineBuilder) spans(ctx context.Context) error {
	for r := range b.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		at, ok := b.v.Time(r)
		if !ok {
			continue
		}
		start := at.UnixNano()
		switch b.v.Role(r) {
		case view.RoleRecorder:
			b.Last = max(b.Last, start) // as long as it recorded
			continue
		case view.RoleSpan:
		default:
			continue
		}
		took, ended := b.v.Duration(r)
		end := int64(never)
		if ended {
			end = start + min(int64(took), math.MaxInt64-max(start, 0))
			b.Last = max(b.Last, end)
		}
		b.slice(r, start, end, -1)
		b.First, b.Last = min(b.First, start), max(b.Last, start)
	}
	return b.hang(ctx)
}

// hang finds what is in which span.
func (b *timelineBuilder) hang(ctx context.Context) error {
	var times []int32 // the rows whose times others have, once one has none of its own
	for r := range b.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		switch b.v.Role(r) {
		case view.RoleSpan:
			if at := b.slots[r]; at > 0 {
				b.Slices[at-1].Parent = b.above(b.slots, b.v.Parent(r), nil)
			}
		case view.RoleLink:
			if err := b.link(r, b.above(b.slots, b.v.Parent(r), nil)); err != nil {
				return err
			}
		case view.RoleEvent, view.RoleLog, view.RoleOther:
			from := r
			if _, timed := b.v.Start(r); !timed {
				if times == nil {
					times = make([]int32, b.v.Len())
				}
				from = view.Row(max(b.above(times, r, b.timeOf), 0)) // the root has none
			}
			if at, timed := b.v.Start(from); timed {
				b.mark(r, at, b.above(b.slots, b.v.Parent(r), nil))
			}
		}
	}
	return nil
}

// above climbs from row r towards the root and returns the first number in known, less one; -1
// without any. In known, 0 means that nothing is known of a row yet, and -1 that there is nothing
// above it. Of, unless it is nil, is asked for a row of which nothing is known. What was found is
// noted for all rows on the way, so that none is passed twice.
func (b *timelineBuilder) above(known []int32, r view.Row, of func(r view.Row) int32) int32 {
	found, from := int32(-1), r
	for ; r != 0; r = b.v.Parent(r) {
		if known[r] == 0 && of != nil {
			known[r] = of(r)
		}
		if found = known[r]; found != 0 {
			break
		}
		found = -1
	}
	for ; from != r; from = b.v.Parent(from) {
		known[from] = found
	}
	return max(found, 0) - 1
}

// timeOf returns the number of a row plus one if it has a time, else 0.
func (b *timelineBuilder) timeOf(r view.Row) int32 {
	if _, timed := b.v.Start(r); timed && b.v.Role(r) != view.RoleRecorder {
		return int32(r) + 1
	}
	return 0
}

// link notes a link of the span from.
func (b *timelineBuilder) link(r view.Row, from int32) error {
	if from < 0 {
		return nil
	}
	e, err := b.v.Entry(r)
	if err != nil {
		return err
	}
	l := otel.ReadLink(e)
	to := format.SpanRef{TraceID: l.TraceID, SpanID: l.SpanID}
	if to.IsValid() {
		b.to = append(b.to, link{to, from, -1})
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
	err := b.v.Walk(0, func(r view.Row, depth int, _ bool) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		leave(depth)
		here := level{slice: -1}
		if depth > 0 {
			here.slice = up[depth-1].slice
		}
		switch b.v.Role(r) {
		case view.RoleEvent, view.RoleLog:
			b.mark(r, clock, here.slice)
			clock += Step
		case view.RoleOther:
			here = level{b.slice(r, clock, 0, here.slice), true}
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
		return cmp.Or(cmp.Compare(x.Time, y.Time), cmp.Compare(b.turn(&x), b.turn(&y)), cmp.Compare(x.Row, y.Row))
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
	elsewhere := func(i int, s *Interval) bool {
		return s.Parent >= 0 && (b.Slices[s.Parent].Group != s.Group || b.Lanes[s.Parent] != b.Lanes[i])
	}
	n := len(b.to)
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
	if len(b.to) > 0 {
		slices.SortFunc(b.to, func(x, y link) int { return cmp.Or(compareRefs(&x.to, &y.to), cmp.Compare(x.from, y.from)) })
		for i, r := range b.Rows {
			if i%4096 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			ref := b.v.Ref(r)
			at, found := slices.BinarySearchFunc(b.to, ref, func(l link, ref format.SpanRef) int { return compareRefs(&l.to, &ref) })
			if !found || b.to[at].found >= 0 {
				continue
			}
			b.to[at].found = int32(i) // the first one of that id, as in the view
		}
		found := int32(-1)
		for i := range b.to {
			l := &b.to[i]
			if i == 0 || l.to != b.to[i-1].to {
				found = l.found
			}
			if found >= 0 && found != l.from {
				add(found, l.from, true)
			}
		}
		b.to = nil
	}
	slices.SortFunc(b.ends, func(x, y FlowEnd) int {
		return cmp.Or(cmp.Compare(ranks[x.Slice], ranks[y.Slice]), cmp.Compare(x.Flow, y.Flow))
	})
	return nil
}

func compareRefs(x, y *format.SpanRef) int {
	return cmp.Or(slices.Compare(x.TraceID[:], y.TraceID[:]), slices.Compare(x.SpanID[:], y.SpanID[:]))
}
