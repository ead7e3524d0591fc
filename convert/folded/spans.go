package folded

import (
	"context"
	"math"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/timeline"
	"github.com/entrace-go/entrace/view"
)

// unknownService is OpenTelemetry's name for a service without a name.
const unknownService = "unknown_service"

// checkEvery is the number of entries or lines between two checks of the context.
const checkEvery = 4096

// A frame is the name and place that equal spans share.
type frame struct {
	name, file string
	line       uint32
}

// stacks holds the spans of a trace on their lanes.
//
// Invariants: intervals, frames, lanes, outers and order have one item a span;
// Group of an interval is an index of services.
type stacks struct {
	intervals []timeline.Interval
	frames    []int32 // indices of names
	names     []frame
	services  []string
	lanes     []int32
	outers    []int32 // the innermost span around a span on its lane, or -1
	order     []int32 // of beginnings
	base      int64   // when the first span began
}

// read puts the spans of v onto lanes. Spans for which key returns equal frames share a frame.
func read(ctx context.Context, v *view.View, key func(m *format.Metadata) frame) (*stacks, error) {
	s := &stacks{services: []string{unknownService}, base: math.MaxInt64}
	groups := map[string]int32{"": 0, unknownService: 0}
	frames := make(map[frame]int32)
	slots := make([]int32, v.Len()) // rows' indices of intervals, and 1
	last := int64(math.MinInt64)
	var open []int32
	for r := range v.Rows() {
		if r%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		start, timed := v.Start(r)
		if timed {
			last = max(last, start)
		}
		if v.Role(r) != view.RoleSpan || !timed {
			continue
		}
		i := int32(len(s.intervals))
		end := start
		if took, ended := v.Duration(r); ended {
			if end += int64(took); end < start {
				end = math.MaxInt64
			}
			last = max(last, end)
		} else {
			open = append(open, i)
		}
		service := v.Service(r)
		group, ok := groups[service]
		if !ok {
			group = int32(len(s.services))
			s.services = append(s.services, service)
			groups[service] = group
		}
		m := v.Metadata(r)
		f := key(&m)
		n, ok := frames[f]
		if !ok {
			n = int32(len(s.names))
			s.names = append(s.names, f)
			frames[f] = n
		}
		slots[r] = i + 1
		s.intervals = append(s.intervals, timeline.Interval{Start: start, End: end, Parent: int32(r), Group: group})
		s.frames = append(s.frames, n)
		s.base = min(s.base, start)
	}
	for i := range s.intervals {
		up := &s.intervals[i].Parent
		*up = slots[v.Owner(v.Parent(view.Row(*up)))] - 1
	}
	for _, i := range open {
		s.intervals[i].End = max(s.intervals[i].Start, last)
	}
	s.lanes, s.order = timeline.Lanes(s.intervals)
	s.outers = timeline.Outers(s.intervals, s.lanes, s.order)
	return s, ctx.Err()
}
