package viewer

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

// A processorTime says for how long a span and what is below it were on a processor, and in which functions, as the samples of
// CPU profiles in the trace tell.
type processorTime struct {
	Own       int64         `json:"own_nano"` // of the span
	All       int64         `json:"all_nano"` // of all of its name
	OfSpan    bool          `json:"ofSpan"`   // Functions are those of the span, else those of all of its name
	Functions []cpuFunction `json:"functions"`
}

// A cpuFunction is a function in which some of the time passed. One that has none of its own, and is in all of the
// samples, is left out.
type cpuFunction struct {
	Name  string  `json:"name"`
	File  string  `json:"file"`
	Line  int     `json:"line"`
	Self  float64 `json:"self"`  // its share of the time
	Total float64 `json:"total"` // with what it has called
}

const (
	maxCPUFunctions = 8
	maxCPUSamples   = 20_000 // that are read
	fewCPU          = 100e6  // nanoseconds of samples, of which 10 ms have one, that say little about a span
)

// processorTime returns the time of r, which is one of the spans same of its name; nil if there are no samples of them.
func (s *state) processorTime(ctx context.Context, r view.Row, same view.Set[view.Row]) (*processorTime, error) {
	if !callstack.HasCPU(s.v) {
		return nil, nil //nolint:nilnil // there is none
	}
	f, err := s.found(ctx, `{ target = "runtime/pprof" && name != "goroutines" }`)
	if err != nil {
		return nil, err
	}
	var own, all []view.Row
	t := s.v.Tree()
	above := analyze.Above(s.v, same)
	for x := range f.rows.All() {
		if rank := t.Rank(x); rank > t.Rank(r) && rank < t.End(r) {
			own = append(own, x)
		}
		if above(x) {
			all = append(all, x)
		}
	}
	ownTime, functions, err := s.functionsOf(ctx, own)
	if err != nil {
		return nil, err
	}
	allTime, ofAll, err := s.functionsOf(ctx, all)
	if err != nil || allTime == 0 {
		return nil, err
	}
	out := &processorTime{Own: ownTime, All: allTime, OfSpan: ownTime >= fewCPU, Functions: functions}
	if !out.OfSpan {
		out.Functions = ofAll
	}
	return out, nil
}

// functionsOf returns the time of the samples in some rows, and the functions in which most of it passed. Of many rows it reads
// some, evenly chosen, which stand for the others.
func (s *state) functionsOf(ctx context.Context, rows []view.Row) (whole int64, functions []cpuFunction, err error) {
	type function struct {
		name        string
		self, total int64
		last        *callstack.Sample // the one that has it
		place       callstack.Frame   // where most of the time passed
		most        int64
	}
	known := make(map[string]*function)
	var list []*function
	read := int64(0)
	step := max(1, (len(rows)+maxCPUSamples-1)/maxCPUSamples)
	for at := 0; at < len(rows); at += step {
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		x, err := callstack.CPUAt(s.v, rows[at])
		if err != nil {
			return 0, nil, err
		}
		for range step {
			whole = sum(whole, x.Nano)
		}
		for i, f := range x.Stack {
			k := known[f.Function]
			if k == nil {
				k = &function{name: f.Function}
				known[f.Function] = k
				list = append(list, k)
			}
			if x.Nano > k.most {
				k.most, k.place = x.Nano, f
			}
			if i == 0 {
				k.self = sum(k.self, x.Nano)
			}
			if k.last != x {
				k.last, k.total = x, sum(k.total, x.Nano)
			}
		}
		read = sum(read, x.Nano)
	}
	list = slices.DeleteFunc(list, func(f *function) bool { return f.self == 0 && f.total >= read })
	slices.SortStableFunc(list, func(a, b *function) int { return cmp.Compare(b.total, a.total) })
	out := []cpuFunction{}
	for _, f := range list[:min(len(list), maxCPUFunctions)] {
		out = append(out, cpuFunction{
			preview(f.name), preview(f.place.File), f.place.Line, float64(f.self) / float64(read), float64(f.total) / float64(read),
		})
	}
	return whole, out, nil
}
