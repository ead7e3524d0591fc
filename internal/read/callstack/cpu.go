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

// A Sample is a call stack, and the time for which it was on a processor.
type Sample struct {
	Row  view.Row // the row of the sample; its parent is the span for which the stack worked, if known
	Nano int64
	// Stack has the innermost function first. Stack is empty in the sample that stands for all stacks without their
	// own entry.
	Stack []Frame
}

// IsCPU reports whether entries with this metadata may be samples of a CPU profile. Packages control/provider
// and convert/gotrace write such entries.
func IsCPU(m format.Metadata) bool { return m.Target == "runtime/pprof" && m.Name != "goroutines" }

// HasCPU reports whether a view may have samples of a CPU profile. It does not search the rows.
func HasCPU(v *view.View) bool {
	metas := columns.Of(v).Metas()
	return len(metas) >= columns.Unknown || slices.ContainsFunc(metas, IsCPU)
}

// CPU returns the samples of CPU profiles in a view, in the order of the view. The error is an error of the
// view or ctx.
func CPU(ctx context.Context, v *view.View) iter.Seq2[*Sample, error] {
	return func(yield func(*Sample, error) bool) {
		if !HasCPU(v) {
			return
		}
		n := 0
		for r := range v.Rows() {
			n++
			if n%4096 == 0 && ctx.Err() != nil {
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

// CPUAt returns the sample in row r. [IsCPU] must be true for the metadata of the row.
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
