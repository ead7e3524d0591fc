package callstack

import (
	"context"
	"iter"
	"math"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// A Sample says for how long a stack was on a processor.
type Sample struct {
	Row  view.Row // of the entry; its parent is the span that the stack worked for, if it worked for one
	Nano int64
	// Stack has the innermost function first. It is empty for the stacks that have no entry of their own.
	Stack []Frame
}

// IsCPU reports whether entries with this metadata may be samples of a CPU profile, which packages control/provider and
// convert/gotrace write.
func IsCPU(m format.Metadata) bool { return m.Target == "runtime/pprof" && m.Name != "goroutines" }

// HasCPU reports whether a view may have samples of a CPU profile, without looking for them among its rows.
func HasCPU(v *view.View) bool {
	metas := v.Columns().Metas()
	return len(metas) >= columns.Unknown || slices.ContainsFunc(metas, IsCPU)
}

// CPU returns the samples of CPU profiles in a view, in its order. The error is that of the view or ctx.
func CPU(ctx context.Context, v *view.View) iter.Seq2[*Sample, error] {
	return func(yield func(*Sample, error) bool) {
		if !HasCPU(v) {
			return
		}
		n := 0
		for r := range v.Rows() {
			if n++; n%4096 == 0 && ctx.Err() != nil {
				yield(nil, ctx.Err())
				return
			}
			if !IsCPU(v.Metadata(r)) {
				continue
			}
			s, err := CPUAt(v, r)
			if err != nil {
				yield(nil, err)
				return
			}
			if s.Nano > 0 && !yield(s, nil) {
				return
			}
		}
	}
}

// CPUAt returns the sample in a row for which [IsCPU] holds.
func CPUAt(v *view.View, r view.Row) (*Sample, error) {
	e, err := v.Entry(r)
	if err != nil {
		return nil, err
	}
	s := &Sample{Row: r}
	if a, ok := e.Attribute("cpu_nano"); ok {
		u, _ := a.U64()
		s.Nano = int64(min(u, math.MaxInt64))
	}
	if a, ok := e.Attribute("stack"); ok && s.Nano > 0 {
		s.Stack = Parse(a.Text())
	}
	return s, nil
}
