package view_test

import (
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// BenchmarkNew makes a view of 200,000 spans, in trees of ten spans each.
func BenchmarkNew(b *testing.B) {
	const n = 200_000
	f := fabricate(b, format.IET, n, func(id int) *format.TraceEntry { return spanEntry(max(0, id-1)/10*10, id) })
	b.SetBytes(f.WholeSize())
	for b.Loop() {
		v, err := view.New(b.Context(), []*format.File{f}, nil)
		must(b, err)
		if v.Len() != n+1 {
			b.Fatalf("%d rows", v.Len())
		}
	}
}
