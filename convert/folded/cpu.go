package folded

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"

	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/view"
)

// ErrNoCPU is returned if a trace has no samples of a CPU profile.
var ErrNoCPU = errors.New("no samples of a CPU profile to write")

// maxSpans is the maximum number of spans in the stack of a sample. If there are more spans, the innermost spans
// remain.
const maxSpans = maxFrames / 2

// eachCPU calls fn for each sample of a CPU profile in v. The parameter frames of fn has the spans above the sample
// and then its functions, the outermost first. It is only valid until fn returns.
func eachCPU(ctx context.Context, v *view.View, fn func(service string, frames []string, nano int64)) error {
	n := 0
	var frames []string
	for s, err := range callstack.CPU(ctx, v) {
		if err != nil {
			return err
		}
		n++
		frames = frames[:0]
		for up := v.Owner(v.Parent(s.Row)); v.Role(up) == view.RoleSpan && len(frames) < maxSpans; up = v.Owner(v.Parent(up)) {
			frames = append(frames, v.Name(up))
		}
		slices.Reverse(frames)
		for _, f := range slices.Backward(s.Stack) {
			frames = append(frames, f.Function)
		}
		if len(s.Stack) == 0 {
			frames = append(frames, "other functions")
		}
		fn(cmp.Or(v.Service(s.Row), unknownService), frames, s.Nano)
	}
	if n == 0 {
		return ErrNoCPU
	}
	return nil
}

// EncodeFoldedCPU writes the samples of CPU profiles in v to w as folded stacks of processor time in nanoseconds. The
// package documentation describes folded stacks. The error is an error of v, w or ctx, or ErrNoCPU if there are no
// samples.
func EncodeFoldedCPU(ctx context.Context, w io.Writer, v *view.View) error {
	all := make(stacks)
	err := eachCPU(ctx, v, func(service string, frames []string, nano int64) {
		at := all.down(nil, service)
		for _, name := range frames {
			next := all.down(at, name)
			if next == at {
				break
			}
			at = next
		}
		at.count(uint64(nano))
	})
	if err != nil {
		return err
	}
	return all.write(ctx, w)
}
