package folded

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"

	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/view"
)

// ErrNoCPU is returned if a trace has no samples of a CPU profile.
var ErrNoCPU = errors.New("no samples of a CPU profile to write")

// maxSpans is the maximum number of spans in the stack of a sample. Of more spans, the innermost remain.
const maxSpans = maxFrames / 2

// sum returns a + b, or the largest int64 if the sum is larger. Neither a nor b is negative.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// eachCPU calls fn for each sample of a CPU profile in v. The parameter frames of fn has the spans above the sample
// and then its functions, the outermost first. It is only valid until fn returns.
func eachCPU(ctx context.Context, v *view.View, fn func(service string, frames []frame, nano int64)) error {
	n := 0
	var frames []frame
	for s, err := range callstack.CPU(ctx, v) {
		if err != nil {
			return err
		}
		n++
		frames = frames[:0]
		for up := v.Owner(v.Parent(s.Row)); v.Role(up) == view.RoleSpan && len(frames) < maxSpans; up = v.Owner(v.Parent(up)) {
			m := v.Metadata(up)
			frames = append(frames, frame{name: m.Name, file: m.File.Value, line: m.Line.Value})
		}
		slices.Reverse(frames)
		for _, f := range slices.Backward(s.Stack) {
			frames = append(frames, frame{name: f.Function, file: f.File})
		}
		if len(s.Stack) == 0 {
			frames = append(frames, frame{name: "other functions"})
		}
		fn(cmp.Or(v.Service(s.Row), unknownService), frames, s.Nano)
	}
	if n == 0 {
		return ErrNoCPU
	}
	return nil
}

// EncodeFoldedCPU writes the samples of CPU profiles in v to w as folded stacks of processor time in nanoseconds.
// The package documentation describes them. The error is an error of v, w or ctx, or ErrNoCPU if there are no
// samples.
func EncodeFoldedCPU(ctx context.Context, w io.Writer, v *view.View) error {
	t := newTree()
	err := eachCPU(ctx, v, func(service string, frames []frame, nano int64) {
		at := t.down(-1, service)
		for i := range frames {
			next := t.down(at, frames[i].name)
			if next == at {
				break
			}
			at = next
		}
		t.count(at, uint64(nano))
	})
	if err != nil {
		return err
	}
	return t.write(ctx, w)
}

// EncodeSpeedscopeCPU writes the samples of CPU profiles in v to w as a speedscope file. The package documentation
// describes it. The error is an error of v, w or ctx, or ErrNoCPU if there are no samples.
func EncodeSpeedscopeCPU(ctx context.Context, w io.Writer, v *view.View) error {
	type named struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line uint32 `json:"line,omitempty"`
	}
	type sampled struct {
		Type       string    `json:"type"`
		Name       string    `json:"name"`
		Unit       string    `json:"unit"`
		StartValue int64     `json:"startValue"`
		EndValue   int64     `json:"endValue"` // the sum of all weights
		Samples    [][]int32 `json:"samples"`
		Weights    []int64   `json:"weights"`
	}
	var file struct {
		Schema   string `json:"$schema"`
		Exporter string `json:"exporter"`
		Shared   struct {
			Frames []named `json:"frames"`
		} `json:"shared"`
		Profiles []*sampled `json:"profiles"`
	}
	file.Schema, file.Exporter = speedscopeSchema, "entrace"
	numbers := make(map[frame]int32)
	profiles := make(map[string]*sampled)
	err := eachCPU(ctx, v, func(service string, frames []frame, nano int64) {
		p := profiles[service]
		if p == nil {
			p = &sampled{Type: "sampled", Name: service, Unit: "nanoseconds"}
			profiles[service] = p
			file.Profiles = append(file.Profiles, p)
		}
		list := make([]int32, len(frames))
		for i, f := range frames {
			n, ok := numbers[f]
			if !ok {
				n = int32(len(numbers))
				numbers[f] = n
				file.Shared.Frames = append(file.Shared.Frames, named{f.name, f.file, f.line})
			}
			list[i] = n
		}
		p.Samples, p.Weights = append(p.Samples, list), append(p.Weights, nano)
		p.EndValue = sum(p.EndValue, nano)
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(&file)
}
