package exporter

import (
	"slices"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/internal/spanmap"
)

// An order puts the spans of a batch into one in which the recorder can write
// them at once. They come in the order of their ends, children first, and mostly
// with their parents.
type order struct {
	at    spanmap.Map[int32]
	up    []int32 // the place of each span's parent in the batch, or none
	out   []int32
	chain []int32
}

const (
	none = -1
	done = -2
)

// parentsFirst returns the places of the spans, each behind that of its parent,
// else as they come. Those that are nil are left out. The result is valid until
// the next call.
func (o *order) parentsFirst(spans []sdktrace.ReadOnlySpan) []int32 {
	o.at.Clear()
	o.up, o.out = o.up[:0], o.out[:0]
	for i, s := range spans {
		if s == nil {
			continue
		}
		sc := s.SpanContext()
		r := ref(&sc)
		at, _ := o.at.Put(key(&r))
		*at = int32(i)
	}
	for _, s := range spans {
		up := int32(none)
		if s != nil {
			if p := s.Parent(); p.IsValid() && !p.IsRemote() {
				r := ref(&p)
				if at := o.at.Get(key(&r)); at != nil {
					up = *at
				}
			}
		}
		o.up = append(o.up, up)
	}
	for i, s := range spans {
		if s == nil {
			continue
		}
		o.chain = o.chain[:0]
		for at := int32(i); at != none && o.up[at] != done; {
			up := o.up[at]
			o.up[at] = done // so that a circle of parents ends
			o.chain = append(o.chain, at)
			at = up
		}
		for _, at := range slices.Backward(o.chain) {
			o.out = append(o.out, at)
		}
	}
	return o.out
}
