package recorder

import "github.com/entrace-go/entrace/format"

// A testSpan is a span with its entries. External tests use tracetest.Span.
type testSpan struct {
	Span

	Entry    format.TraceEntry
	Children []format.TraceEntry
}

func writeSpan(r *Recorder, s *testSpan) error {
	b := r.Batch()
	b.Span(&s.Span)
	b.Entry(&s.Entry)
	for i := range s.Children {
		b.Entry(&s.Children[i])
	}
	return b.Write()
}
