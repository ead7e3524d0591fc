package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/entrace-go/entrace/internal/columns"
	"github.com/entrace-go/entrace/view"
)

// A Run is one recording of a program, and the rows of it that are compared.
type Run struct {
	View *view.View
	Rows view.Set[view.Row]
}

// A Diff compares the spans of some runs with those of others, path by path.
type Diff struct {
	// Runs are how many runs there are, before and after. With one on each side nothing tells a
	// change of the program from one of the machine: the probabilities take the spans of a run as
	// independent of each other. With several they are those between runs.
	Runs [2]int
	// Level is the probability up to which a difference counts as none of chance, and LeastP the
	// smallest that so many runs can give. Probabilities hold over all paths together.
	Level, LeastP float64
	// Traces are how many traces the rows are of, before and after. A row without a trace is one
	// of its own.
	Traces [2]int
	// Paths are those of both, the ones with the largest change of the self time first.
	Paths []PathDiff
	// Other is how many spans are not compared, since there are too many paths.
	Other [2]int
}

// A PathDiff compares the spans of one path: those with the same service, name and kind below the
// same path. A span that has them in common with its parent is of its parent's path.
type PathDiff struct {
	Path          []PathStep // from the top; the last one is that of the spans
	Before, After PathStats
	// P is the probability that durations are so different by chance in one path or another. Of
	// one run on each side it is by the test of Mann and Whitney, two-sided, and NaN if either side
	// has less than MinSamples spans. Of several runs it is that of so much longer ones between
	// the runs, and NaN if the path has no span that ended in one of them.
	P float64
	// ErrorsP and CountP are the probabilities that there are so many more errors, or spans,
	// after than before by chance, given how many root spans there are.
	ErrorsP, CountP float64

	level float64
}

// A PathStep is one level of a path.
type PathStep struct {
	Service, Name string
	Kind          string
}

// PathStats are figures of the spans of a path.
type PathStats struct {
	Count, Errors int
	Roots         int   // spans at the top of the path; for those themselves, traces
	P50, P95      int64 // nanoseconds, of the spans that have ended; of several runs the median of theirs
	Self          int64 // nanoseconds, of all of them together

	took []int64 // of a run
}

// Rate is how many spans of the path there are for each span at its top.
func (s *PathStats) Rate() float64 { return float64(s.Count) / float64(max(1, s.Roots)) }

const (
	// MinSamples is how many spans each side must have for a test of their durations.
	MinSamples = 20
	// levelOfSpans is the level of a test of one run on each side.
	levelOfSpans = 0.01
	// levelOfRuns is that of a test of several runs on each side.
	levelOfRuns = 0.05
	// maxPaths is how many paths are told apart, and maxPathDepth how deep they are.
	maxPaths     = 100_000
	maxPathDepth = 200
)

// IsNew reports whether the path is in the second trace alone, and whether that is significant.
func (p *PathDiff) IsNew() (is, significant bool) {
	return p.Before.Count == 0 && p.After.Count > 0, p.CountP <= p.level
}

// HasNewErrors reports whether the second trace alone has errors, and significantly so.
func (p *PathDiff) HasNewErrors() (has, significant bool) {
	return p.Before.Errors == 0 && p.After.Errors > 0, p.ErrorsP <= p.level
}

// Change returns by which share the 95th percentile of the durations has changed, and whether
// that of all durations is significant; 0 if one side has none.
func (p *PathDiff) Change() (share float64, significant bool) {
	switch {
	case p.Before.Count == 0 || p.After.Count == 0 || p.Before.P95 == p.After.P95:
		return 0, p.P <= p.level
	case p.Before.P95 == 0:
		return math.Inf(1), p.P <= p.level
	}
	return float64(p.After.P95)/float64(p.Before.P95) - 1, p.P <= p.level
}

// MoreSpans returns by which share the spans for each root span have become more, or less, and
// whether that is significant; 0 for root spans themselves, whose number is that of requests.
func (p *PathDiff) MoreSpans() (share float64, significant bool) {
	if len(p.Path) < 2 || p.Before.Count == 0 {
		return 0, false
	}
	return p.After.Rate()/p.Before.Rate() - 1, p.CountP <= p.level
}

// Compare compares the spans of runs before with those of runs after. There must be one on each
// side at least.
func Compare(ctx context.Context, before, after []Run) (*Diff, error) {
	d := &Diff{Runs: [2]int{len(before), len(after)}, Level: levelOfSpans}
	if len(before)+len(after) > 2 {
		d.Level = levelOfRuns
		d.LeastP = 1 / float64(len(labelings(len(before), len(after))))
	}
	t := paths{texts: make(map[string]uint32), known: map[pathKey]int{}, before: len(before), runs: len(before) + len(after)}
	for i, run := range slices.Concat(before, after) {
		if err := t.add(ctx, run, i, d); err != nil {
			return nil, err
		}
	}
	for i := range t.list {
		p := &t.list[i]
		if !slices.ContainsFunc(p.stats, func(s PathStats) bool { return s.Count > 0 }) {
			continue // only what is below it was selected
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
	change := func(p *PathDiff) float64 { // of a run
		return math.Abs(float64(p.After.Self)/float64(d.Runs[1]) - float64(p.Before.Self)/float64(d.Runs[0]))
	}
	slices.SortStableFunc(d.Paths, func(a, b PathDiff) int { return cmp.Compare(change(&b), change(&a)) })
	return d, nil
}

// paths are the paths of all runs.
type paths struct {
	before, runs int
	traces       []int // of each run

	texts map[string]uint32 // numbers of services and names
	names []string
	known map[pathKey]int
	list  []path
}

type pathKey struct {
	parent        int // -1: none
	service, name uint32
	kind          string
}

type path struct {
	pathKey

	depth int
	top   int         // the path of the root spans
	stats []PathStats // of each run
}

func (t *paths) text(s string) uint32 {
	n, ok := t.texts[s]
	if !ok {
		n = uint32(len(t.names))
		t.texts[s], t.names = n, append(t.names, s)
	}
	return n
}

// tooMany is the path of spans that are not told apart.
const tooMany = -2

// of returns the path of a span with that key.
func (t *paths) of(k pathKey) int {
	depth := 0
	if k.parent >= 0 {
		up := &t.list[k.parent]
		if up.service == k.service && up.name == k.name && up.kind == k.kind {
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

// add adds the spans of one run.
func (t *paths) add(ctx context.Context, of Run, run int, d *Diff) error {
	v, rows := of.View, of.Rows
	side := 0
	if run >= t.before {
		side = 1
	}
	t.traces = append(t.traces, 0)
	tree := v.Tree()
	at := make([]int32, v.Len()) // the path of each row, or that of the span it is below
	services := make(map[view.Row]uint32)
	names := make(map[uint16]uint32)
	seen := make([]bool, v.Columns().Traces())
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
		if at[r] = at[v.Parent(r)]; f.Role() != view.RoleSpan {
			continue
		}
		service, ok := services[v.Resource(r)]
		if !ok {
			service = t.text(v.Service(r))
			services[v.Resource(r)] = service
		}
		code := v.Columns().Block(int(r) / columns.BlockRows).Meta[int(r)%columns.BlockRows]
		name, ok := names[code]
		if !ok || code == columns.Unknown {
			name = t.text(v.Name(r))
			names[code] = name
		}
		n := t.of(pathKey{int(at[r]), service, name, f.Kind()})
		at[r] = int32(n)
		if !rows.Has(r) {
			continue
		}
		if trace := v.Columns().Trace(uint32(r)); trace == 0 || !seen[trace] {
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
		if IsError(f) {
			s.Errors++
		}
		if took, ended := v.Duration(r); ended {
			self, _ := v.SelfTime(r)
			s.took = append(s.took, int64(took))
			s.Self += int64(self)
		}
	}
	return nil
}

// compare compares both sides of a path.
func (t *paths) compare(n int, all *Diff) PathDiff {
	p := &t.list[n]
	for i := range p.stats {
		s := &p.stats[i]
		slices.Sort(s.took)
		if n := int64(len(s.took)); n > 0 {
			s.P50, s.P95 = s.took[rank(0.5, n)], s.took[rank(0.95, n)]
		}
		if s.Roots = t.traces[i]; p.depth > 0 && t.list[p.top].stats[i].Count > 0 {
			s.Roots = t.list[p.top].stats[i].Count
		}
	}
	d := PathDiff{Before: together(p.stats[:t.before]), After: together(p.stats[t.before:]), level: all.Level}
	for i := n; i >= 0; i = t.list[i].parent {
		step := &t.list[i]
		d.Path = append(d.Path, PathStep{t.names[step.service], t.names[step.name], step.kind})
	}
	slices.Reverse(d.Path)
	if all.LeastP > 0 {
		d.P, d.CountP, d.ErrorsP = math.NaN(), 1, 1 // until they are tested together
		return d
	}
	d.P = mannWhitney(d.Before.took, d.After.took)
	roots := [2]int{d.Before.Roots, d.After.Roots}
	if roots[0] == 0 { // they are new as well
		roots = all.Traces
	}
	d.CountP = tail(d.Before.Count, d.After.Count, roots)
	d.ErrorsP = tail(d.Before.Errors, d.After.Errors, [2]int{d.Before.Count, d.After.Count})
	if d.Before.Count == 0 { // the spans are new, as their errors are
		d.ErrorsP = tail(0, d.After.Errors, all.Traces)
	}
	return d
}

// together returns the figures of several runs.
func together(runs []PathStats) PathStats {
	if len(runs) == 1 {
		return runs[0]
	}
	var s PathStats
	var p50, p95 []int64
	for i := range runs {
		r := &runs[i]
		s.Count, s.Errors, s.Roots, s.Self = s.Count+r.Count, s.Errors+r.Errors, s.Roots+r.Roots, s.Self+r.Self
		if len(r.took) > 0 {
			p50, p95 = append(p50, r.P50), append(p95, r.P95)
		}
	}
	if len(p50) > 0 {
		s.P50, s.P95 = nth(p50, len(p50)/2), nth(p95, len(p95)/2)
	}
	return s
}

// testRuns sets the probabilities of paths between runs.
func (t *paths) testRuns(ctx context.Context, d *Diff) error {
	var longer, errors, more family
	n := 0 // of the path in d
	for i := range t.list {
		p := &t.list[i]
		if n == len(d.Paths) || !slices.ContainsFunc(p.stats, func(s PathStats) bool { return s.Count > 0 }) {
			continue
		}
		if !slices.ContainsFunc(p.stats, func(s PathStats) bool { return len(s.took) == 0 }) {
			longer.add(n, p.stats, func(s *PathStats) float64 { return math.Log(float64(max(1, s.P95))) })
		}
		errors.addRates(n, p.stats, func(s *PathStats) (n, of int) { return s.Errors, s.Count })
		more.addRates(n, p.stats, func(s *PathStats) (n, of int) { return s.Count, s.Roots })
		n++
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

// mannWhitney returns the two-sided probability of two samples, which are sorted, being as
// different as they are if they are of one population: by the rank sum test of Mann and Whitney,
// in its normal approximation with a correction for ties and for continuity. It is NaN if either
// has less than MinSamples values.
func mannWhitney(a, b []int64) float64 {
	n, m := float64(len(a)), float64(len(b))
	if len(a) < MinSamples || len(b) < MinSamples {
		return math.NaN()
	}
	var ranks, ties float64 // the sum of the ranks of a; of t³-t
	for i, k := 0, 0; i < len(a) || k < len(b); {
		var value int64
		if k == len(b) || i < len(a) && a[i] <= b[k] {
			value = a[i]
		} else {
			value = b[k]
		}
		before := float64(i + k)
		from := i
		for i < len(a) && a[i] == value {
			i++
		}
		mine := float64(i - from)
		for k < len(b) && b[k] == value {
			k++
		}
		same := float64(i+k) - before
		ranks += mine * (before + (same+1)/2)
		ties += same*same*same - same
	}
	u := ranks - n*(n+1)/2
	variance := n * m / 12 * (n + m + 1 - ties/((n+m)*(n+m-1)))
	if variance <= 0 {
		return 1 // all of them are equal
	}
	z := max(0, math.Abs(u-n*m/2)-0.5) / math.Sqrt(variance)
	return math.Erfc(z / math.Sqrt2)
}

// tail returns the probability that of before+after things at least after are in the second of two
// places by chance, whose sizes are given.
func tail(before, after int, sizes [2]int) float64 {
	total := before + after
	if after == 0 || sizes[0]+sizes[1] == 0 {
		return 1
	}
	share := float64(sizes[1]) / float64(sizes[0]+sizes[1])
	if share >= 1 {
		return 1 // there was nothing before
	}
	if share <= 0 {
		return 0
	}
	// The sum of the binomial distribution from after on.
	p := 0.0
	for k := after; k <= total; k++ {
		term := math.Exp(logChoose(total, k) + float64(k)*math.Log(share) + float64(total-k)*math.Log1p(-share))
		if p += term; term < 1e-18*p && k > int(share*float64(total)) {
			break
		}
	}
	return min(p, 1)
}

// logChoose returns the logarithm of the number of ways to choose k of n.
func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n) + 1)
	b, _ := math.Lgamma(float64(k) + 1)
	c, _ := math.Lgamma(float64(n-k) + 1)
	return a - b - c
}
