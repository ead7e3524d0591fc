package timeline

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// A Timeline is where everything of a trace is in time, for formats without
// parents: spans on lanes, on which they nest strictly, and what happens at one
// moment, the span events and log records. It keeps numbers of rows only, about
// 4 bytes a span, 2 an entry and 16 an arrow; times are the view's.
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
//
// A span that has not ended ends at Last.
type Timeline struct {
	Processes []Process
	Made      bool // times are made up
	// First and Last are the first and the last time of all; 0 if there is none.
	First, Last int64
	Flows       int // the number of arrows

	v      *view.View
	links  bool // a span has links
	groups map[view.Row]int32
	order  order
	begins []int32   // rows of spans in their order
	marks  []int32   // rows of marks in the order of time
	few    []uint16  // by row, the lane of a span and 1, while lanes are few; then
	many   []int32   // the same
	ends   []FlowEnd // in the order of their spans
	made   []ticks   // by row, times that are made up
	owners []int32   // see above; nil as long as the view knows in which span a row is
	times  []int32   // see above; nil as long as every mark has a time
}

// ticks are when an entry begins and ends, in steps.
type ticks struct{ start, end uint32 }

// Step is how far made times are apart, in nanoseconds.
const Step = 1000

// A Process stands for a resource, to which spans and log records belong.
type Process struct {
	Row   view.Row // of the resource, 0 for what has none
	Lanes int32    // of spans
	Logs  bool     // there is one more lane behind these, for marks outside of spans
}

// errTooMany is for traces that no program could read anyway.
var errTooMany = errors.New("more than 1073741823 entries")

// NewTimeline puts what is in v on a timeline.
func NewTimeline(ctx context.Context, v *view.View) (*Timeline, error) {
	if int64(v.Len()) > math.MaxInt32/2 {
		return nil, errTooMany
	}
	t := &Timeline{First: math.MaxInt64, Last: math.MinInt64, v: v, groups: make(map[view.Row]int32)}
	t.order = order{spans: t, n: v.Len()}
	t.survey()
	read := t.read
	if t.Made {
		read = t.tree
	}
	if err := read(ctx); err != nil {
		return nil, err
	}
	if t.First > t.Last {
		t.First, t.Last = 0, 0
	}
	slices.SortFunc(t.begins, t.order.compare)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.place()
	slices.SortFunc(t.marks, func(x, y int32) int {
		if c := cmp.Compare(t.at(x), t.at(y)); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(t.turn(x), t.turn(y)), cmp.Compare(x, y))
	})
	return t, t.arrows(ctx)
}

// survey finds the processes, whether there are times, and how many spans and marks there are.
func (t *Timeline) survey() {
	var counts, timed [view.RoleRecorder + 1]int
	for r := range t.v.Rows() {
		role := t.v.Role(r)
		counts[role]++
		if _, ok := t.v.Start(r); ok {
			timed[role]++
		}
		if role == view.RoleResource {
			t.groups[r] = int32(len(t.Processes))
			t.Processes = append(t.Processes, Process{Row: r})
		}
	}
	t.links = counts[view.RoleLink] > 0
	spans, marks := timed[view.RoleSpan], counts[view.RoleEvent]+counts[view.RoleLog]+counts[view.RoleOther]
	if t.Made = spans+timed[view.RoleEvent]+timed[view.RoleLog]+timed[view.RoleOther] == 0; t.Made {
		spans, marks = counts[view.RoleOther], marks-counts[view.RoleOther]
		t.made = make([]ticks, t.v.Len())
	}
	if t.Made || spans < counts[view.RoleSpan] {
		t.owners = make([]int32, t.v.Len())
	}
	t.begins, t.marks, t.few = make([]int32, 0, spans), make([]int32, 0, marks), make([]uint16, t.v.Len())
}

// read takes in a trace with times.
func (t *Timeline) read(ctx context.Context) error {
	for r := range t.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		start, timed := t.v.Start(r)
		switch role := t.v.Role(r); role {
		case view.RoleRecorder:
			if timed {
				t.Last = max(t.Last, start) // as long as it recorded
			}
		case view.RoleSpan:
			if timed {
				t.begins = append(t.begins, int32(r))
				t.First, t.Last = min(t.First, start), max(t.Last, start)
				if _, ended := t.v.Duration(r); ended {
					t.Last = max(t.Last, t.end(int32(r)))
				}
			}
		case view.RoleEvent, view.RoleLog, view.RoleOther:
			if !timed && t.times == nil {
				t.times = make([]int32, t.v.Len())
			}
			if timed || t.above(t.times, r, t.isTime) >= 0 {
				at := t.at(int32(r))
				t.marks = append(t.marks, int32(r))
				t.First, t.Last = min(t.First, at), max(t.Last, at)
			}
		}
	}
	return nil
}

// tree takes in a trace without times.
func (t *Timeline) tree(ctx context.Context) error {
	var up []view.Row // the rows that the next one is below
	clock := uint32(0)
	leave := func(depth int) {
		for ; len(up) > depth; up = up[:len(up)-1] {
			if r := up[len(up)-1]; t.v.Role(r) == view.RoleOther {
				t.made[r].end = clock
				clock++
			}
		}
	}
	err := t.v.Walk(0, func(r view.Row, depth int, _ bool) error {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		leave(depth)
		up = append(up, r)
		switch t.v.Role(r) {
		case view.RoleEvent, view.RoleLog:
			t.marks = append(t.marks, int32(r))
		case view.RoleOther:
			t.begins = append(t.begins, int32(r))
		default:
			return nil
		}
		t.made[r].start, clock = clock, clock+1
		return nil
	})
	leave(0)
	t.First, t.Last = 0, max(int64(clock)-1, 0)*Step
	return err
}

// isSpan reports whether row r counts as a span.
func (t *Timeline) isSpan(r view.Row) bool {
	if t.Made {
		return t.v.Role(r) == view.RoleOther
	}
	_, timed := t.v.Start(r)
	return timed && t.v.Role(r) == view.RoleSpan
}

func (t *Timeline) start(r int32) int64 {
	if t.Made {
		return int64(t.made[r].start) * Step
	}
	start, _ := t.v.Start(view.Row(r))
	return start
}

func (t *Timeline) end(r int32) int64 {
	if t.Made {
		return int64(t.made[r].end) * Step
	}
	start := t.start(r)
	if took, ended := t.v.Duration(view.Row(r)); ended {
		return start + min(int64(took), math.MaxInt64-max(start, 0))
	}
	return max(start, t.Last)
}

// parent returns the span that row r is below, or -1.
func (t *Timeline) parent(r int32) int32 {
	up := t.v.Parent(view.Row(r))
	if t.owners != nil {
		return t.above(t.owners, up, t.isSpan)
	}
	if owner := t.v.Owner(up); owner != 0 {
		return int32(owner)
	}
	return -1
}

// at returns the time of a mark.
func (t *Timeline) at(r int32) int64 {
	if _, timed := t.v.Start(view.Row(r)); !timed && !t.Made {
		r = t.above(t.times, view.Row(r), t.isTime)
	}
	return t.start(r)
}

// in returns the span that a mark is in, or -1: it must be while the span lasts.
func (t *Timeline) in(r int32) int32 {
	up, at := t.parent(r), t.at(r)
	if up >= 0 && t.start(up) <= at && at <= t.end(up) {
		return up
	}
	return -1
}

// turn says whether a mark comes before, 0, or behind, 1, what begins at its time.
// It must stay within its span.
func (t *Timeline) turn(r int32) int {
	if in := t.in(r); in >= 0 && t.start(in) == t.at(r) {
		return 1
	}
	return 0
}

// group returns the process of a span.
func (t *Timeline) group(r int32) int32 {
	if g, ok := t.groups[t.v.Resource(view.Row(r))]; ok {
		return g
	}
	return int32(len(t.groups))
}

// markGroup returns the process of a mark, which is that of the span that it is below.
func (t *Timeline) markGroup(r int32) int32 {
	if up := t.parent(r); up >= 0 {
		return t.group(up)
	}
	return t.group(r)
}

// above climbs from row r towards the root and returns the first row that is meant, -1 without any.
// In known, a row and one is what was found before, 0 that nothing is known of a row yet, and -1
// that there is nothing above it. What is found is noted for all rows on the way, so that none is
// passed twice.
func (t *Timeline) above(known []int32, r view.Row, is func(r view.Row) bool) int32 {
	found, from := int32(-1), r
	for ; r != 0; r = t.v.Parent(r) {
		if known[r] == 0 && is(r) {
			known[r] = int32(r) + 1
		}
		if found = known[r]; found != 0 {
			break
		}
		found = -1
	}
	for ; from != r; from = t.v.Parent(from) {
		known[from] = found
	}
	return max(found, 0) - 1
}

// isTime reports whether row r has a time that rows below it can have.
func (t *Timeline) isTime(r view.Row) bool {
	_, timed := t.v.Start(r)
	return timed && t.v.Role(r) != view.RoleRecorder
}

// place finds the lanes of spans, and the processes that need one for marks outside of spans.
func (t *Timeline) place() {
	groups := make([]*group, len(t.groups)+1)
	for i := range groups {
		groups[i] = newGroup()
	}
	// The last process is that of what has no resource, if there is such.
	none, used := int32(len(t.groups)), false
	t.Processes = append(t.Processes, Process{})
	for _, r := range t.begins {
		g, up, on := t.group(r), t.parent(r), int32(-1)
		if up >= 0 && t.group(up) == g {
			on = t.lane(up)
		}
		on = groups[g].place(r, t.start(r), t.end(r), up, on)
		t.setLane(r, on)
		t.Processes[g].Lanes = max(t.Processes[g].Lanes, on+1)
		used = used || g == none
	}
	for _, r := range t.marks {
		g := t.markGroup(r)
		t.Processes[g].Logs = t.Processes[g].Logs || t.in(r) < 0
		used = used || g == none
	}
	if !used {
		t.Processes = t.Processes[:none]
	}
}

// lane returns the lane of a span, -1 as long as it has none.
func (t *Timeline) lane(r int32) int32 {
	if t.many != nil {
		return t.many[r] - 1
	}
	return int32(t.few[r]) - 1
}

func (t *Timeline) setLane(r, lane int32) {
	if lane >= math.MaxUint16 && t.many == nil {
		t.many = make([]int32, len(t.few))
		for i, lane := range t.few {
			t.many[i] = int32(lane)
		}
		t.few = nil
	}
	if t.many != nil {
		t.many[r] = lane + 1
	} else {
		t.few[r] = uint16(lane + 1)
	}
}
