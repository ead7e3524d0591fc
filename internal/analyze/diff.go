package analyze

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/internal/read/stat"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A Diff compares the spans of the runs before and after a change, path by path.
type Diff struct {
	// Runs is the number of runs before and after. With one run on each side, a change of the
	// program cannot be distinguished from a change of the machine: the probabilities then assume
	// that the spans of a run are independent of each other. With several runs, the probabilities
	// are computed from the differences between runs.
	Runs [2]int
	// Level is the significance level: a difference is significant if its probability is at most Level. LeastP is the
	// smallest probability that this number of runs can give, or 0 with one run on each side. Probabilities are
	// corrected for the number of paths.
	Level, LeastP float64
	// Traces is the number of traces that the rows belong to, before and after. A row without a
	// trace counts as a trace of its own.
	Traces [2]int
	// Paths lists the paths of both sides. Paths of the services that [Explain] names as causes are first. Otherwise
	// the paths with the largest change of the self time are first.
	Paths []PathDiff
	// Other is the number of spans, before and after, that are not compared because the runs have too many paths.
	Other [2]int
	// Errors are the errors and warnings that are more frequent after, the most significant first.
	Errors []Evidence
}

// A PathDiff compares the spans of one path. Spans are on the same path if they have the same
// service, name and kind, and their parents are on the same path. A span with the same service,
// name and kind as its parent is on its parent's path.
type PathDiff struct {
	Path   []PathStep `json:"path"` // from the top; the last step is the step of the spans themselves
	Before PathStats  `json:"before"`
	After  PathStats  `json:"after"`
	// P is the probability that chance makes the durations of any path this different. With one run
	// on each side, it comes from the two-sided test of Mann and Whitney. It is then NaN if either
	// side has fewer than MinSamples spans. With several runs, P is the probability that chance
	// makes the durations this much longer in the runs after. It is then NaN if some run has no
	// ended span of the path.
	P float64
	// ErrorsP is the probability that chance makes this many more errors after than before, given
	// the number of spans of the path. CountP is the probability that chance makes this many more
	// spans, given the number of root spans.
	ErrorsP float64 `json:"errors_p"`
	CountP  float64 `json:"count_p"`

	level float64
	of    int // its number in paths
}

// A PathStep is one level of a path.
type PathStep struct {
	Service string `json:"service"`
	Name    string `json:"name"`
	Kind    string `json:"kind"`
}

// PathStats holds statistics of the spans of a path, before or after.
type PathStats struct {
	Count  int   `json:"count"`
	Errors int   `json:"errors"`
	Roots  int   // the number of spans at the top of the path; for a path at the top, the number of traces
	P50    int64 `json:"p50_nano"`  // the median duration of the ended spans; for several runs, the median of the runs' values
	P95    int64 `json:"p95_nano"`  // the 95th percentile of the durations, for several runs as P50
	Self   int64 `json:"self_nano"` // the sum of the self times of all spans
	Known  int   // the number of spans for which an execution trace records the states of their goroutines

	states [gotrace.NumStates]int64 // the sum over the known spans, in microseconds
	took   []int64                  // durations of the ended spans of a single run
}

// Rate returns the number of spans of the path for each span at the top of the path.
func (s *PathStats) Rate() float64 { return float64(s.Count) / float64(max(1, s.Roots)) }

const (
	// MinSamples is the number of ended spans that each side must have for a test of their
	// durations.
	MinSamples = 20
	// levelOfSpans is the significance level of a test with one run on each side.
	levelOfSpans = 0.01
	// levelOfRuns is the significance level of a test with several runs.
	levelOfRuns = 0.05
	// maxPaths is the maximum number of paths, and maxPathDepth their maximum depth.
	maxPaths     = 100_000
	maxPathDepth = 200
)

// IsNew reports whether only the runs after have spans of the path, and whether that is
// significant.
func (p *PathDiff) IsNew() (is, significant bool) {
	return p.Before.Count == 0 && p.After.Count > 0, p.CountP <= p.level
}

// HasNewErrors reports whether only the runs after have errors on the path, and whether that is
// significant.
func (p *PathDiff) HasNewErrors() (has, significant bool) {
	return p.Before.Errors == 0 && p.After.Errors > 0, p.ErrorsP <= p.level
}

// Change returns the relative change of the 95th percentile of the durations: 0.1 means 10% longer.
// It is 0 if one side has no spans. The second result reports whether the change of the durations
// is significant.
func (p *PathDiff) Change() (share float64, significant bool) {
	switch {
	case p.Before.Count == 0 || p.After.Count == 0 || p.Before.P95 == p.After.P95:
		return 0, p.P <= p.level
	case p.Before.P95 == 0:
		return math.Inf(1), p.P <= p.level
	}
	return float64(p.After.P95)/float64(p.Before.P95) - 1, p.P <= p.level
}

// MoreSpans returns the relative change of the number of spans for each root span, and whether an increase is
// significant. For root spans it returns 0, because their number is the number of requests.
func (p *PathDiff) MoreSpans() (share float64, significant bool) {
	if len(p.Path) < 2 || p.Before.Count == 0 {
		return 0, false
	}
	return p.After.Rate()/p.Before.Rate() - 1, p.CountP <= p.level
}

// Grew returns the states in which the goroutines of spans spent more time after than before, the largest
// difference first. The times are means per span. Grew returns nil unless execution traces cover spans on both
// sides.
func (p *PathDiff) Grew() []StateTime {
	if p.Before.Known == 0 || p.After.Known == 0 {
		return nil
	}
	var more [gotrace.NumStates]int64
	for s := range more {
		more[s] = p.After.states[s]*1000/int64(p.After.Known) - p.Before.states[s]*1000/int64(p.Before.Known)
	}
	return byTime(more)
}

// Compare compares the spans of the runs before with the spans of the runs after. There must be at
// least one run on each side.
func Compare(ctx context.Context, before, after []query.Run) (*Diff, error) {
	d := &Diff{Runs: [2]int{len(before), len(after)}, Level: levelOfSpans}
	if len(before)+len(after) > 2 {
		d.Level = levelOfRuns
		d.LeastP = 1 / float64(len(labelings(len(before), len(after))))
	}
	t := paths{operations: operations{known: make(map[operation]int32)}, known: map[pathKey]int{}, before: len(before), runs: len(before) + len(after)}
	for i, run := range slices.Concat(before, after) {
		if err := t.add(ctx, run, i, d); err != nil {
			return nil, err
		}
	}
	for i := range t.list {
		p := &t.list[i]
		if !slices.ContainsFunc(p.stats, func(s PathStats) bool { return s.Count > 0 }) {
			continue // no span of this path was selected, only spans below it
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d.Paths = append(d.Paths, t.compare(i, d))
	}
	if d.LeastP == 0 {
		for i := range d.Paths {
			p := &d.Paths[i]
			for _, chance := range []*float64{&p.P, &p.ErrorsP, &p.CountP} {
				*chance = min(1, *chance*float64(len(d.Paths))) // Bonferroni's correction
			}
		}
	} else if err := t.testRuns(ctx, d); err != nil {
		return nil, err
	}
	change := func(p *PathDiff) float64 { // per run
		return math.Abs(float64(p.After.Self)/float64(d.Runs[1]) - float64(p.Before.Self)/float64(d.Runs[0]))
	}
	w, _, err := workloadOf(ctx, &Question{Before: before, Now: after}, false)
	if err != nil {
		return nil, err
	}
	x := w.rank(0)
	causes := x.Causes
	d.Errors = w.moreErrors(x)
	rank := func(p *PathDiff) int { // -1, the largest uint, if the path's service is no cause
		return slices.IndexFunc(causes, func(c Cause) bool { return c.Sure && c.Service == p.Path[len(p.Path)-1].Service })
	}
	slices.SortStableFunc(d.Paths, func(a, b PathDiff) int {
		return cmp.Or(cmp.Compare(uint(rank(&a)), uint(rank(&b))), cmp.Compare(change(&b), change(&a)))
	})
	return d, nil
}

// paths holds the paths of all runs.
type paths struct {
	before, runs int
	traces       []int // of each run

	operations operations
	known      map[pathKey]int
	list       []path
}

type pathKey struct {
	parent    int // -1: none
	operation int32
	kind      string
}

type path struct {
	pathKey

	depth int
	top   int         // the path of the root spans above
	stats []PathStats // of each run
}

// tooMany is the path number of spans beyond the maximum number of paths.
const tooMany = -2

// of returns the number of the path with the given key, or tooMany.
func (t *paths) of(k pathKey) int {
	depth := 0
	if k.parent >= 0 {
		up := &t.list[k.parent]
		if up.operation == k.operation && up.kind == k.kind {
			return k.parent
		}
		depth = up.depth + 1
	}
	if n, ok := t.known[k]; ok {
		return n
	}
	if k.parent == tooMany || len(t.list) >= maxPaths || depth > maxPathDepth {
		return tooMany
	}
	t.known[k] = len(t.list)
	top := len(t.list)
	if k.parent >= 0 {
		top = t.list[k.parent].top
	}
	t.list = append(t.list, path{pathKey: k, depth: depth, top: top, stats: make([]PathStats, t.runs)})
	return len(t.list) - 1
}

// add adds the spans of one run to the paths.
func (t *paths) add(ctx context.Context, of query.Run, run int, d *Diff) error {
	v, rows := of.View, of.Rows
	side := 0
	if run >= t.before {
		side = 1
	}
	t.traces = append(t.traces, 0)
	states, err := spanstates.Of(ctx, v)
	if err != nil {
		return err
	}
	tree := v.Tree()
	at := make([]int32, v.Len()) // for each row, its path or the path of the nearest span above it
	number := t.operations.reader(v)
	c := columns.Of(v)
	seen := make([]bool, c.Traces())
	for rank := range tree.Len() {
		if rank%(1<<16) == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		r := tree.Row(rank)
		if r == 0 {
			at[0] = -1
			continue
		}
		f := v.Flags(r)
		at[r] = at[v.Parent(r)]
		if f.Role() != view.RoleSpan {
			continue
		}
		b, i := c.Block(int(r)/columns.BlockRows), r%columns.BlockRows
		n := t.of(pathKey{int(at[r]), number(r, b.Resource[i], b.Meta[i]), f.Kind()})
		at[r] = int32(n)
		if !rows.Has(r) {
			continue
		}
		if trace := c.Trace(uint32(r)); trace == 0 || !seen[trace] {
			seen[trace] = true
			d.Traces[side]++
			t.traces[run]++
		}
		if n == tooMany {
			d.Other[side]++
			continue
		}
		s := &t.list[n].stats[run]
		s.Count++
		if f.IsError() {
			s.Errors++
		}
		if x, ok := states.Of(r); ok {
			s.Known++
			for i, d := range x.Times {
				s.states[i] += int64(d)
			}
		}
		if took, ended := v.Duration(r); ended {
			self, _ := v.SelfTime(r)
			s.took = append(s.took, int64(took))
			s.Self += int64(self)
		}
	}
	return nil
}

// compare compares both sides of path n.
func (t *paths) compare(n int, all *Diff) PathDiff {
	p := &t.list[n]
	for i := range p.stats {
		s := &p.stats[i]
		slices.Sort(s.took)
		if n := int64(len(s.took)); n > 0 {
			s.P50, s.P95 = s.took[stat.Rank(0.5, n)], s.took[stat.Rank(0.95, n)]
		}
		s.Roots = t.traces[i]
		if p.depth > 0 && t.list[p.top].stats[i].Count > 0 {
			s.Roots = t.list[p.top].stats[i].Count
		}
	}
	d := PathDiff{Before: together(p.stats[:t.before]), After: together(p.stats[t.before:]), level: all.Level, of: n}
	for i := n; i >= 0; i = t.list[i].parent {
		step := &t.list[i]
		of := t.operations.list[step.operation]
		d.Path = append(d.Path, PathStep{of.service, of.name, step.kind})
	}
	slices.Reverse(d.Path)
	if all.LeastP > 0 {
		d.P, d.CountP, d.ErrorsP = math.NaN(), 1, 1 // testRuns sets these later
		return d
	}
	d.P = mannWhitney(d.Before.took, d.After.took)
	roots := [2]int{d.Before.Roots, d.After.Roots}
	if roots[0] == 0 { // the root spans are new as well
		roots = all.Traces
	}
	d.CountP = tail(d.Before.Count, d.After.Count, roots)
	d.ErrorsP = tail(d.Before.Errors, d.After.Errors, [2]int{d.Before.Count, d.After.Count})
	if d.Before.Count == 0 { // the spans are new, and so are the errors
		d.ErrorsP = tail(0, d.After.Errors, all.Traces)
	}
	return d
}

// together combines the statistics of several runs.
func together(runs []PathStats) PathStats {
	if len(runs) == 1 {
		return runs[0]
	}
	var s PathStats
	var p50, p95 []int64
	for i := range runs {
		r := &runs[i]
		s.Count, s.Errors, s.Roots, s.Self = s.Count+r.Count, s.Errors+r.Errors, s.Roots+r.Roots, s.Self+r.Self
		s.Known += r.Known
		for i, d := range r.states {
			s.states[i] += d
		}
		if len(r.took) > 0 {
			p50, p95 = append(p50, r.P50), append(p95, r.P95)
		}
	}
	if len(p50) > 0 {
		s.P50, s.P95 = stat.Nth(p50, len(p50)/2), stat.Nth(p95, len(p95)/2)
	}
	return s
}

// testRuns sets the probabilities of all paths by the test between runs.
func (t *paths) testRuns(ctx context.Context, d *Diff) error {
	var longer, errors, more family
	for n := range d.Paths {
		p := &t.list[d.Paths[n].of]
		if !slices.ContainsFunc(p.stats, func(s PathStats) bool { return len(s.took) == 0 }) {
			longer.add(n, p.stats, func(s *PathStats) float64 { return math.Log(float64(max(1, s.P95))) })
		}
		errors.addRates(n, p.stats, func(s *PathStats) (n, of int) { return s.Errors, s.Count })
		more.addRates(n, p.stats, func(s *PathStats) (n, of int) { return s.Count, s.Roots })
	}
	families := []family{longer, errors, more}
	if err := test(ctx, families, t.before, t.runs-t.before); err != nil {
		return err
	}
	for i := range families {
		for _, f := range families[i].figures {
			p := &d.Paths[f.path]
			*[]*float64{&p.P, &p.ErrorsP, &p.CountP}[i] = f.p
		}
	}
	return nil
}

// mannWhitney returns the two-sided p-value of the rank sum test of Mann and Whitney for two sorted
// samples. It uses the normal approximation with corrections for ties and for continuity. The
// result is NaN if either sample has fewer than MinSamples values.
func mannWhitney(a, b []int64) float64 {
	if len(a) < MinSamples || len(b) < MinSamples {
		return math.NaN()
	}
	u, variance := stat.RankSum(a, b)
	if variance <= 0 {
		return 1 // all values are equal
	}
	z := max(0, math.Abs(u)-0.5) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

// tail returns the probability that chance puts at least after of before+after items into the
// second of two bins. The probability of each bin is proportional to its size.
func tail(before, after int, sizes [2]int) float64 {
	total := before + after
	if after == 0 || sizes[0]+sizes[1] == 0 {
		return 1
	}
	share := float64(sizes[1]) / float64(sizes[0]+sizes[1])
	if share >= 1 {
		return 1 // the first bin is empty
	}
	if share <= 0 {
		return 0
	}
	return math.Pow(10, -stat.AtLeast(after, total, share))
}
