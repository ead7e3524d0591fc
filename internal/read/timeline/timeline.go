package timeline

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/view"
)

// A Timeline is the layout of a trace for formats without parent links. It has spans on lanes, on which spans nest
// strictly. It also has marks, that is, span events and log records, which happen at one moment. A Timeline stores
// only row numbers, and reads times from the view. It needs about 4 bytes of memory for each span, 4 for each
// entry and 24 for each arrow.
//
// A span is on a lane of its process. A process stands for a resource. A mark is on the lane of its span if it
// happens during the span. All other marks of a process share one lane. Entries of other kinds count as log records,
// and spans without a time count as marks. A mark without a time gets the time of the nearest ancestor with a time,
// or else the time at which the trace begins. The root, resources, links and the recorder's own entries are omitted.
//
// Other ENTRACE writers make traces without any time. For these traces, the Timeline invents times: in the order of
// the tree, each begin, end and log record is [Step] later than the previous one. Every entry that is not an event or
// log record then counts as a span.
//
// If a span has not ended, its length is the duration that [view.View.OpenFor] returns.
type Timeline struct {
	Processes []Process
	Made      bool   // the times are invented
	First     int64  // the first time of the trace, or 0 if no row has a time
	Flows     uint32 // the number of arrows; 0 before the call of [Timeline.Arrows]

	v      *view.View
	links  bool // whether some span has links
	groups map[view.Row]int32
	depths []int32   // by row: the depth of a span, from 1 on; 0 if it is not computed yet
	chain  []int32   // a buffer of Timeline.depth
	begins []int32   // the rows of the spans, in order
	marks  []int32   // the rows of the marks, in chronological order
	lanes  []int32   // by row: the lane of a span plus 1; 0 if it has none yet
	ends   []FlowEnd // in the order of the arrows' spans
	made   []ticks   // by row: the invented times
	owners []int32   // the cache of Timeline.above for spans; nil if the view itself knows the span of a row
	times  []int32   // the cache of Timeline.above for times; nil if every mark has its own time
}

// ticks holds the invented begin and end of an entry, in units of Step.
type ticks struct{ start, end uint32 }

// Step is the distance between invented times, in nanoseconds.
const Step = 1000

// A Process stands for a resource. Each span and each mark belongs to a process.
type Process struct {
	Row   view.Row // the row of the resource; 0 for rows without a resource
	Lanes int32    // the number of lanes for spans
	Logs  bool     // whether one more lane follows, for marks outside of spans
}

// Resource returns the resource of a process, and a name for it. If the process has no resource, the result is
// empty.
func (t *Timeline) Resource(process int) (name string, r *otel.Resource, err error) {
	row := t.Processes[process].Row
	if row == 0 {
		return "no resource", new(otel.Resource), nil
	}
	e, err := t.v.Entry(row)
	if err != nil {
		return "", nil, err
	}
	r = otel.ReadResource(e)
	return cmp.Or(r.Service(), "resource "+strconv.Itoa(process+1)), r, nil
}

// errTooMany is the error for a trace with more rows than a Timeline supports. No program could display such a
// layout.
var errTooMany = errors.New("the trace has more than 1073741823 entries")

// NewTimeline returns the Timeline of a view.
func NewTimeline(ctx context.Context, v *view.View) (*Timeline, error) {
	if int64(v.Len()) > math.MaxInt32/2 {
		return nil, errTooMany
	}
	t := &Timeline{First: math.MaxInt64, v: v, groups: make(map[view.Row]int32)}
	t.survey()
	read := t.read
	if t.Made {
		read = t.tree
	}
	if err := read(ctx); err != nil {
		return nil, err
	}
	slices.SortFunc(t.begins, t.compare)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.assignLanes()
	slices.SortFunc(t.marks, func(x, y int32) int {
		if c := cmp.Compare(t.at(x), t.at(y)); c != 0 {
			return c
		}
		return cmp.Or(cmp.Compare(t.markOrder(x), t.markOrder(y)), cmp.Compare(x, y))
	})
	return t, ctx.Err()
}

// survey finds the processes, counts spans and marks, and checks whether any of them has a time.
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
	t.Made = spans+timed[view.RoleEvent]+timed[view.RoleLog]+timed[view.RoleOther] == 0
	if t.Made {
		spans, marks = counts[view.RoleOther], marks-counts[view.RoleOther]
		t.made = make([]ticks, t.v.Len())
	}
	if t.Made || spans < counts[view.RoleSpan] {
		t.owners = make([]int32, t.v.Len())
	}
	t.begins, t.marks, t.lanes = make([]int32, 0, spans), make([]int32, 0, marks), make([]int32, t.v.Len())
}

// read adds the spans and marks of a trace with times.
func (t *Timeline) read(ctx context.Context) error {
	for r := range t.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		start, timed := t.v.Start(r)
		switch role := t.v.Role(r); {
		case role == view.RoleSpan && timed:
			t.begins = append(t.begins, int32(r))
			t.First = min(t.First, start)
		case role == view.RoleSpan, role == view.RoleEvent, role == view.RoleLog, role == view.RoleOther:
			t.marks = append(t.marks, int32(r))
			if timed {
				t.First = min(t.First, start)
			} else if t.times == nil {
				t.times = make([]int32, t.v.Len())
			}
		}
	}
	return nil
}

// tree adds the spans and marks of a trace without times.
func (t *Timeline) tree(ctx context.Context) error {
	var up []view.Row // the ancestors of the current row
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
	t.First = 0
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
	took, _ := t.v.Lasted(view.Row(r))
	return start + min(int64(took), math.MaxInt64-max(start, 0))
}

// parent returns the row of the nearest span above row r, or -1.
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

// at returns the time of a mark in nanoseconds.
func (t *Timeline) at(r int32) int64 {
	if _, timed := t.v.Start(view.Row(r)); !timed && !t.Made {
		r = t.above(t.times, view.Row(r), t.isTime)
		if r < 0 {
			return t.First
		}
	}
	return t.start(r)
}

// spanDuring returns the row of the span during which a mark happens, or -1.
func (t *Timeline) spanDuring(r int32) int32 {
	up, at := t.parent(r), t.at(r)
	if up >= 0 && t.start(up) <= at && at <= t.end(up) {
		return up
	}
	return -1
}

// markOrder decides the order of a mark and of spans that begin at the same time. It returns 0 if the mark comes before
// these spans, and 1 if it comes after them. It returns 1 if the mark's own span begins at that time, because the
// mark must be inside its span.
func (t *Timeline) markOrder(r int32) int {
	if in := t.spanDuring(r); in >= 0 && t.start(in) == t.at(r) {
		return 1
	}
	return 0
}

// group returns the index of the process of a span.
func (t *Timeline) group(r int32) int32 {
	if g, ok := t.groups[t.v.Resource(view.Row(r))]; ok {
		return g
	}
	return int32(len(t.groups))
}

// markGroup returns the index of the process of a mark. If a span is above the mark, the mark belongs to the process
// of that span.
func (t *Timeline) markGroup(r int32) int32 {
	if up := t.parent(r); up >= 0 {
		return t.group(up)
	}
	return t.group(r)
}

// above returns the first row on the way from row r to the root for which is returns true, or -1 if there is none.
// The slice known is a cache with one item per row: the result plus 1, or -1 if there is no result, or 0 if the
// row was not visited. above stores the result for all rows on the way, so that it visits each row only once.
func (t *Timeline) above(known []int32, r view.Row, is func(r view.Row) bool) int32 {
	found, from := int32(-1), r
	for ; r != 0; r = t.v.Parent(r) {
		if known[r] == 0 && is(r) {
			known[r] = int32(r) + 1
		}
		found = known[r]
		if found != 0 {
			break
		}
		found = -1
	}
	for ; from != r; from = t.v.Parent(from) {
		known[from] = found
	}
	return max(found, 0) - 1
}

// isTime reports whether row r has a time that rows below it inherit.
func (t *Timeline) isTime(r view.Row) bool {
	_, timed := t.v.Start(r)
	return timed && t.v.Role(r) != view.RoleRecorder
}

// assignLanes assigns lanes to spans. It also finds the processes that need a lane for marks outside of spans.
func (t *Timeline) assignLanes() {
	groups := make([]group, len(t.groups)+1)
	// The last process is for rows without a resource. It is removed if there are no such rows.
	none, used := int32(len(t.groups)), false
	t.Processes = append(t.Processes, Process{})
	for _, r := range t.begins {
		g, up, on := t.group(r), t.parent(r), int32(-1)
		if up >= 0 && t.group(up) == g {
			on = t.lane(up)
		}
		on = groups[g].assign(r, t.start(r), t.end(r), up, on)
		t.lanes[r] = on + 1
		t.Processes[g].Lanes = max(t.Processes[g].Lanes, on+1)
		used = used || g == none
	}
	for _, r := range t.marks {
		g := t.markGroup(r)
		t.Processes[g].Logs = t.Processes[g].Logs || t.spanDuring(r) < 0
		used = used || g == none
	}
	if !used {
		t.Processes = t.Processes[:none]
	}
}

// lane returns the lane of a span, or -1 if the span has no lane yet.
func (t *Timeline) lane(r int32) int32 { return t.lanes[r] - 1 }

// compare returns the order of two spans by their start. If they start at the same time, the longer span is first,
// because it contains the other. If they are equally long, a parent is before its children. Otherwise the row numbers
// decide.
func (t *Timeline) compare(a, b int32) int {
	if c := cmp.Compare(t.start(a), t.start(b)); c != 0 || a == b {
		return c
	}
	if c := cmp.Compare(t.end(b), t.end(a)); c != 0 {
		return c
	}
	return cmp.Or(cmp.Compare(t.depth(a), t.depth(b)), cmp.Compare(a, b))
}

// depth returns the depth of a span.
func (t *Timeline) depth(id int32) int32 {
	if t.depths == nil {
		t.depths = make([]int32, t.v.Len())
	}
	chain := t.chain[:0]
	at := id
	for ; at >= 0 && t.depths[at] == 0; at = t.parent(at) {
		t.depths[at] = 1 // stops at a cycle of parents
		chain = append(chain, at)
	}
	depth := int32(0)
	if at >= 0 {
		depth = t.depths[at]
	}
	for _, at := range slices.Backward(chain) {
		depth++
		t.depths[at] = depth
	}
	t.chain = chain
	return t.depths[id]
}
