package viewer

import (
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/view"
)

// A processorTime says how long a span and the rows below it were on a processor, and in which functions.
// The numbers come from the samples of CPU profiles in the trace.
type processorTime struct {
	Own       int64         `json:"own_nano"` // of the span
	All       int64         `json:"all_nano"` // of all spans of the same name
	OfSpan    bool          `json:"ofSpan"`   // Functions belong to the span; otherwise to all spans of the same name
	Functions []cpuFunction `json:"functions"`
}

// A cpuFunction is a function in which processor time passed. Functions that are in all samples but have no time
// of their own are omitted.
type cpuFunction struct {
	Name  string  `json:"name"`
	File  string  `json:"file"`
	Line  int     `json:"line"`
	Self  float64 `json:"self"`  // the share of the time that passed in the function itself
	Total float64 `json:"total"` // the share of the time that passed in the function and in functions that it called
}

const (
	maxCPUFunctions = 8
	maxCPUSamples   = 20_000 // the maximum number of samples that are read
	fewCPU          = 100e6  // in nanoseconds; samples come every 10 ms, so fewer of them say little about a span
)

// processorTime returns the processor time of the span r. The set "same" has all spans with the name of r. The
// result is nil if there are no samples of these spans.
func (s *state) processorTime(ctx context.Context, r view.Row, same view.Set[view.Row]) (*processorTime, error) {
	if !callstack.HasCPU(s.v) {
		return nil, nil //nolint:nilnil // the trace has no samples
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

// functionsOf returns the time of the samples in some rows, and the functions in which most of that time passed.
// If there are many rows, it reads only one of every few rows. The sample in such a row then also counts for the
// skipped rows.
func (s *state) functionsOf(ctx context.Context, rows []view.Row) (whole int64, functions []cpuFunction, err error) {
	type function struct {
		name        string
		self, total int64
		last        *callstack.Sample // the last sample that has the function
		place       callstack.Frame   // the frame of the function in the sample with the longest time
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
