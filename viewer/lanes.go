package viewer

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

const (
	maxPacked = 100_000 // up to this number, spans are packed into lanes in which they do not overlap
	maxLevel  = 199     // the number of the last lane of a service
	noLevel   = 255
	maxRuns   = 8000 // the maximum number of runs in an answer
	maxCells  = 1 << 20
	maxClimb  = 100 // the search for an ancestor of the same service ends after this number of ancestors
)

// A levels holds the lane of each selected span, counted within the lanes of its service.
type levels struct {
	of     []uint8 // the lane of each row; noLevel for rows that are not selected
	counts []int   // the number of lanes of each service
	packed bool    // spans may overlap only in the last lane; if false, a span's lane is its depth
}

// A laneRuns holds spans by service, lane and time.
type laneRuns struct {
	From   int64      `json:"from_unix_nano"`
	To     int64      `json:"to_unix_nano"`
	Packed bool       `json:"packed"`
	Lanes  []laneHead `json:"lanes"`
	Runs   []laneRun  `json:"runs"`
	Spans  int        `json:"spans"` // the number of spans in all runs
}

// A laneRun has the spans of a lane that begin in the same part of the time.
type laneRun struct {
	Lane   int      `json:"lane"` // the number of the lane, counted across all services
	At     int64    `json:"at"`   // the start of the first span, in nanoseconds since laneRuns.From; may be negative
	Long   int64    `json:"long"` // nanoseconds from At to the end of the last span
	Row    view.Row `json:"row"`  // the row of the longest span
	Name   string   `json:"name"` // of Row
	Open   bool     `json:"open"` // whether the span in Row has not ended
	Count  int32    `json:"count"`
	Errors int32    `json:"errors"`
}

// A laneHead says how many lanes a service has.
type laneHead struct {
	Service string `json:"service"`
	Levels  int    `json:"levels"`
}

// lanes answers with the spans of a flame over time. With a query, the answer has the selected spans and all spans
// below them. Without a query, it has all spans at and below root. Spans that do not overlap the time between the
// parameters from and to are omitted. That time is divided into as many parts as the parameter n says.
func (q *request) lanes(ctx context.Context) (any, error) {
	n := q.bins()
	c, err := q.selection(ctx)
	if err != nil {
		return nil, err
	}
	l, err := remember(&q.results, "levels", c.key, func() (*levels, error) { return q.levelsOf(ctx, c) })
	if err != nil {
		return nil, err
	}
	x := q.extent(c.root, c.window)
	if q.Has("from") {
		x = q.extent(c.root, q.windowOf(q.Get("from")+","+q.Get("to")))
		if q.err != nil {
			return nil, q.err
		}
	}
	if !l.packed && q.Has("from") {
		l, err = remember(&q.results, "levels in a part", fmt.Sprint(c.key, " ", x.from, x.to), func() (*levels, error) { return q.packPart(ctx, l, x.from, x.to) })
		if err != nil {
			return nil, err
		}
	}
	return q.runsOf(ctx, l, x.from, x.to, n)
}

// levelsOf assigns a lane to each selected span.
func (s *state) levelsOf(ctx context.Context, c *selection) (*levels, error) {
	v, t := s.v, s.v.Tree()
	l := &levels{of: slices.Repeat([]uint8{noLevel}, v.Len()), counts: make([]int, len(s.services())+1)}
	services := s.servicesByRow()
	type level struct {
		end     int
		service int
		level   uint8
	}
	var above []level // the selected spans that contain the span at rank
	var spans []view.Row
	hitEnd, n := 0, 0
	for rank := c.from; rank < c.end; rank++ {
		if rank%(1<<16) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		r := t.Row(rank)
		if v.Role(r) != view.RoleSpan {
			continue
		}
		if s.hidden().Has(rank) {
			rank = t.End(r) - 1
			continue
		}
		if c.hits != nil && rank >= hitEnd {
			if !c.hits.Has(r) {
				continue
			}
			hitEnd = t.End(r)
		}
		if _, timed := v.Start(r); !timed || !c.isInside(r) {
			continue
		}
		for len(above) > 0 && above[len(above)-1].end <= rank {
			above = above[:len(above)-1]
		}
		now := level{t.End(r), services(r), 0}
		for _, a := range slices.Backward(above[max(0, len(above)-maxClimb):]) {
			if a.service == now.service {
				now.level = min(maxLevel, a.level+1)
				break
			}
		}
		above = append(above, now)
		l.of[r] = now.level
		l.counts[now.service] = max(l.counts[now.service], int(now.level)+1)
		n++
		if n <= maxPacked {
			spans = append(spans, r)
		}
	}
	if n <= maxPacked {
		l.pack(s, spans, services)
	}
	return l, nil
}

// pack assigns each span to a lane of its service: the first lane that is free at the span's time and below the
// lane of the nearest ancestor of the same service.
func (l *levels) pack(s *state, spans []view.Row, services func(r view.Row) int) {
	v, t := s.v, s.v.Tree()
	start := func(r view.Row) int64 { at, _ := v.Start(r); return at }
	slices.SortFunc(spans, func(a, b view.Row) int {
		return cmp.Or(cmp.Compare(start(a), start(b)), cmp.Compare(t.Rank(a), t.Rank(b)))
	})
	l.packed = true
	clear(l.counts)
	busy := make([][]int64, len(l.counts)) // the end of the last span in each lane, by service and lane
	placed := v.NewSet()
	for _, r := range spans {
		at, service, first := start(r), services(r), 0
		for up, n := v.Parent(r), 0; up != 0 && n < maxClimb; up, n = v.Parent(up), n+1 {
			if placed.Has(up) && services(up) == service {
				first = int(l.of[up]) + 1
				break
			}
		}
		for len(busy[service]) <= min(first, maxLevel) {
			busy[service] = append(busy[service], math.MinInt64)
		}
		level := min(first, maxLevel)
		for level < len(busy[service]) && busy[service][level] > at {
			level++
		}
		level = min(level, maxLevel)
		if level == len(busy[service]) {
			busy[service] = append(busy[service], math.MinInt64)
		}
		took, _ := v.Lasted(r)
		busy[service][level] = max(busy[service][level], endOf(at, max(1, int64(took))))
		l.of[r], l.counts[service] = uint8(level), len(busy[service])
		placed.Add(r)
	}
}

// packPart returns lanes for the spans that overlap the time between from and to. Spans in these lanes do not
// overlap. If there are too many spans, it returns l.
func (s *state) packPart(ctx context.Context, l *levels, from, to int64) (*levels, error) {
	times := s.times()
	var spans []view.Row
	for k := range s.columns.Blocks() {
		if times[k][0] > to || times[k][1] < from {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b := s.columns.Block(k)
		for i := range b.Start {
			if _, ok := s.spanIn(l, &b, i, from, to); ok {
				spans = append(spans, view.Row(b.First)+view.Row(i))
			}
		}
		if len(spans) > maxPacked {
			return l, nil
		}
	}
	out := &levels{of: slices.Repeat([]uint8{noLevel}, len(l.of)), counts: make([]int, len(l.counts))}
	out.pack(s, spans, s.servicesByRow())
	return out, nil
}

// spanIn returns a run that consists of the span in row i of a block. The second result is false if the span is
// not selected or does not overlap the time between from and to.
func (s *state) spanIn(l *levels, b *columns.Block, i int, from, to int64) (run, bool) {
	r := view.Row(b.First) + view.Row(i)
	start := b.Start[i]
	if int(r) >= len(l.of) || l.of[r] == noLevel || start > to {
		return run{}, false
	}
	took := b.Duration[i]
	if took == columns.NoDuration {
		d, _ := s.v.Lasted(r)
		took = int64(d)
	}
	took = max(0, took)
	x := run{row: r, at: start, end: endOf(start, took), long: took, count: 1}
	if view.Flags(b.Flags[i]).IsError() {
		x.errors = 1
	}
	return x, x.end >= from
}

// endOf returns at+took, or math.MaxInt64 if the sum overflows. The parameter took is not negative.
func endOf(at, took int64) int64 {
	if end := at + took; end >= at {
		return end
	}
	return math.MaxInt64
}

// A run stands for the spans of a lane that begin in the same part of the time.
type run struct {
	row           view.Row // the row of the longest span
	at, end, long int64    // the start of the first span, the end of the last span, and the duration of the longest span
	count, errors int32
}

func (r *run) add(o run) {
	if r.count == 0 {
		*r = o
		return
	}
	if o.long > r.long || o.long == r.long && o.row < r.row {
		r.row, r.long = o.row, o.long
	}
	r.at, r.end = min(r.at, o.at), max(r.end, o.end)
	r.count += o.count
	r.errors += o.errors
}

// runsOf divides the time between from and to into at most n parts, and returns the runs of spans in them.
func (s *state) runsOf(ctx context.Context, l *levels, from, to int64, n int) (*laneRuns, error) {
	services := append(slices.Clone(s.services()), "") // the last element is for rows without a service
	out := &laneRuns{From: from, To: to, Packed: l.packed, Lanes: []laneHead{}, Runs: []laneRun{}}
	base, lanes := make([]int, len(l.counts)), 0 // the number of each service's first lane
	for i, c := range l.counts {
		base[i] = lanes
		lanes += c
		if c > 0 {
			out.Lanes = append(out.Lanes, laneHead{services[i], c})
		}
	}
	n = min(n, max(1, maxCells/max(1, lanes)))
	cells, err := s.cells(ctx, l, base, lanes, from, to, n)
	if err != nil {
		return nil, err
	}
	// If there are too many runs, halve the number of parts until the runs are few enough.
	count := func() (all int) {
		for _, lane := range cells {
			for _, c := range lane {
				if c.count > 0 {
					all++
				}
			}
		}
		return all
	}
	for count() > maxRuns && n > 1 {
		n = (n + 1) / 2
		for _, lane := range cells {
			for i := range lane {
				if c := lane[i]; i > 0 && c.count > 0 {
					lane[i] = run{}
					lane[i/2].add(c)
				}
			}
		}
	}
	for lane, list := range cells {
		for _, c := range list {
			if c.count == 0 {
				continue
			}
			out.Runs = append(out.Runs, laneRun{
				lane, difference(c.at, from), difference(c.end, c.at), c.row, preview(s.title(c.row)), s.v.Flags(c.row).Open(), c.count, c.errors,
			})
			out.Spans += int(c.count)
		}
	}
	return out, nil
}

// difference returns a - b, limited to ±2⁵³ because a JavaScript number holds such values exactly.
func difference(a, b int64) int64 {
	const most = 1 << 53
	d := a - b
	switch {
	case a > b && (d < 0 || d > most):
		return most
	case a < b && (d > 0 || d < -most):
		return -most
	}
	return d
}

// cells returns the runs of each lane, one for each part of the time. The run of a part has the spans that begin in
// that part. Spans that began before from are in the first part.
func (s *state) cells(ctx context.Context, l *levels, base []int, lanes int, from, to int64, n int) ([][]run, error) {
	numbers, times := s.serviceNumbers(), s.times()
	parts, err := columns.Collect(ctx, s.columns.Each, func() ([][]run, func(k int)) {
		cells := make([][]run, lanes)
		return cells, func(k int) {
			if times[k][0] > to || times[k][1] < from {
				return
			}
			b := s.columns.Block(k)
			for i := range b.Start {
				x, ok := s.spanIn(l, &b, i, from, to)
				if !ok {
					continue
				}
				lane := base[serviceIn(&b, i, numbers, len(base)-1)] + int(l.of[x.row])
				if cells[lane] == nil {
					cells[lane] = make([]run, n)
				}
				cells[lane][max(0, bin(max(x.at, from), from, to, n))].add(x)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	out := make([][]run, lanes)
	for _, p := range parts {
		for lane, list := range p {
			if out[lane] == nil {
				out[lane] = list
				continue
			}
			for i, c := range list {
				if c.count > 0 {
					out[lane][i].add(c)
				}
			}
		}
	}
	return out, nil
}
