package viewer

import (
	"context"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// sampleMetas returns the codes of the metadata that samples of package control/provider have. The program itself
// did not record these samples.
func (s *state) sampleMetas() map[uint16]bool {
	out := make(map[uint16]bool)
	for i, m := range s.columns.Metas() {
		switch m.Target {
		case "runtime/metrics", "runtime/debug", "runtime/pprof", "runtime/trace", "github.com/entrace-go/entrace/control/provider":
			out[uint16(i)] = true
		}
	}
	return out
}

// withoutSamples returns the rows of a set that are not samples of package control/provider.
func (s *state) withoutSamples(rows view.Set[view.Row]) view.Set[view.Row] {
	metas := s.sampleMetas()
	if len(metas) == 0 {
		return rows
	}
	c := s.columns
	out := s.v.NewSet()
	for r := range rows.All() {
		if !metas[c.Block(int(r) / columns.BlockRows).Meta[r%columns.BlockRows]] {
			out.Add(r)
		}
	}
	return out
}

// isDump reports whether entries with this metadata are stacks of goroutines from package control/provider.
func isDump(m format.Metadata) bool { return m.Name == "goroutines" && m.Target == "runtime/pprof" }

// runtime answers with a flight recorder's samples of the Go runtime: the size of the heap, the number of goroutines,
// and the garbage collections with their pauses.
func (q *request) runtime(ctx context.Context) (any, error) {
	return analyze.RuntimeOf(ctx, q.v)
}
