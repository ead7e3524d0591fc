package query

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// A Diff compares the spans of two traces, path by path.
type Diff struct {
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
	// P is the probability of durations as different as these if nothing has changed, by the
	// test of Mann and Whitney, two-sided; NaN if either side has less than MinSamples.
	P float64
	// ErrorsP and CountP are the probabilities that this many of the errors, or of the spans,
	// are in the second trace by chance, given how many spans, or traces, there are.
	ErrorsP, CountP float64
}

// A PathStep is one level of a path.
type PathStep struct {
	Service, Name string
	Kind          view.Kind
}

// PathStats are figures of the spans of a path.
type PathStats struct {
	Count, Errors int
	P50, P95      int64 // nanoseconds, of the spans that have ended
	Self          int64 // nanoseconds, of all of them together
	took          []int64
}

const (
	// MinSamples is how many spans each side must have for a test of their durations.
	MinSamples = 20
	// Significant is below which a probability says that a difference is no chance.
	Significant = 0.01
	// maxPaths is how many paths are told apart, and maxPathDepth how deep they are.
	maxPaths     = 100_000
	maxPathDepth = 200
)

// IsNew reports whether the path is in the second trace alone, and whether that is significant.
func (p *PathDiff) IsNew() (is, significant bool) {
	return p.Before.Count == 0 && p.After.Count > 0, p.CountP < Significant
}

// HasNewErrors reports whether there are errors in the second trace alone, and whether that is
// significant.
func (p *PathDiff) HasNewErrors() (has, significant bool) {
	return p.Before.Errors == 0 && p.After.Errors > 0, p.ErrorsP < Significant
}

// Change returns by which share the 95th percentile of the durations has changed, and whether
// that of all durations is significant; 0 if one side has none.
func (p *PathDiff) Change() (share float64, significant bool) {
	switch {
	case len(p.Before.took) == 0 || len(p.After.took) == 0 || p.Before.P95 == p.After.P95:
		return 0, p.P < Significant
	case p.Before.P95 == 0:
		return math.Inf(1), p.P < Significant
	}
	return float64(p.After.P95)/float64(p.Before.P95) - 1, p.P < Significant
}

// Compare compares the spans among rows of one view with those of another one.
func Compare(ctx context.Context, before *view.View, rows Set, after *view.View, others Set) (*Diff, error) {
	d := new(Diff)
	t := paths{texts: make(map[string]uint32), known: map[pathKey]int{}}
	for side, of := range []struct {
		v    *view.View
		rows Set
	}{{before, rows}, {after, others}} {
		if err := t.add(ctx, of.v, of.rows, side, d); err != nil {
			return nil, err
		}
	}
	for i := range t.list {
		p := &t.list[i]
		if p.stats[0].Count+p.stats[1].Count == 0 {
			continue // only what is below it was selected
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d.Paths = append(d.Paths, t.compare(i, d.Traces))
	}
	slices.SortStableFunc(d.Paths, func(a, b PathDiff) int {
		return cmp.Compare(math.Abs(float64(b.After.Self)-float64(b.Before.Self)), math.Abs(float64(a.After.Self)-float64(a.Before.Self)))
	})
	return d, nil
}

// paths are the paths of both traces.
type paths struct {
	texts map[string]uint32 // numbers of services and names
	names []string
	known map[pathKey]int
	list  []path
}

type pathKey struct {
	parent        int // -1: none
	service, name uint32
	kind          view.Kind
}

type path struct {
	pathKey

	depth int
	stats [2]PathStats
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
	t.list = append(t.list, path{pathKey: k, depth: depth})
	return len(t.list) - 1
}

// add adds the spans of one side.
func (t *paths) add(ctx context.Context, v *view.View, rows Set, side int, d *Diff) error {
	tree := v.Tree()
	at := make([]int32, v.Len()) // the path of each row, or that of the span it is below
	services := make(map[view.Row]uint32)
	names := make(map[uint16]uint32)
	seen := make([]bool, v.Traces())
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
		code := v.Block(int(r) / view.BlockRows).Meta[int(r)%view.BlockRows]
		name, ok := names[code]
		if !ok || code == view.Unknown {
			name = t.text(v.Name(r))
			names[code] = name
		}
		n := t.of(pathKey{int(at[r]), service, name, f.Kind()})
		at[r] = int32(n)
		if !rows.Has(r) {
			continue
		}
		if trace := v.Trace(r); trace == 0 || !seen[trace] {
			seen[trace] = true
			d.Traces[side]++
		}
		if n == tooMany {
			d.Other[side]++
			continue
		}
		s := &t.list[n].stats[side]
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
func (t *paths) compare(n int, traces [2]int) PathDiff {
	p := &t.list[n]
	d := PathDiff{Before: p.stats[0], After: p.stats[1]}
	for i := n; i >= 0; i = t.list[i].parent {
		step := &t.list[i]
		d.Path = append(d.Path, PathStep{t.names[step.service], t.names[step.name], step.kind})
	}
	slices.Reverse(d.Path)
	for _, s := range []*PathStats{&d.Before, &d.After} {
		slices.Sort(s.took)
		if n := int64(len(s.took)); n > 0 {
			s.P50, s.P95 = s.took[rank(0.5, n)], s.took[rank(0.95, n)]
		}
	}
	d.P = MannWhitney(d.Before.took, d.After.took)
	d.CountP = tail(d.Before.Count, d.After.Count, traces)
	d.ErrorsP = tail(d.Before.Errors, d.After.Errors, [2]int{d.Before.Count, d.After.Count})
	if d.Before.Count == 0 { // the spans are new, as their errors are
		d.ErrorsP = tail(0, d.After.Errors, traces)
	}
	return d
}

// MannWhitney returns the two-sided probability of two samples, which are sorted, being as
// different as they are if they are of one population: by the rank sum test of Mann and Whitney,
// in its normal approximation with a correction for ties and for continuity. It is NaN if either
// has less than MinSamples values.
func MannWhitney(a, b []int64) float64 {
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
	choose := func(n, k int) float64 {
		a, _ := math.Lgamma(float64(n) + 1)
		b, _ := math.Lgamma(float64(k) + 1)
		c, _ := math.Lgamma(float64(n-k) + 1)
		return a - b - c
	}
	for k := after; k <= total; k++ {
		term := math.Exp(choose(total, k) + float64(k)*math.Log(share) + float64(total-k)*math.Log1p(-share))
		if p += term; term < 1e-18*p && k > int(share*float64(total)) {
			break
		}
	}
	return min(p, 1)
}
