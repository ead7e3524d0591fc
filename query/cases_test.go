package query_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/querytest"
	"github.com/entrace-go/entrace/query"
)

// TestCases has the rows of all cases, and of those that Tempo #2618 is about the hint.
func TestCases(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	for _, c := range querytest.Cases {
		q, err := query.Parse(c.Query)
		if err != nil {
			t.Errorf("%s: %v", c.Query, err)
			continue
		}
		r, err := q.Run(t.Context(), v)
		must(t, err)
		var got []uint32
		for _, row := range r.Rows.Rows() {
			_, id := v.ID(row)
			got = append(got, id)
		}
		if first, ok, err := q.First(t.Context(), v, 2); err != nil || ok && !slices.Equal(first, r.Rows.Rows()[:min(2, len(got))]) || !ok && strings.HasPrefix(c.Query, "name") {
			t.Errorf("the first of %s are %v, %v, %v", c.Query, first, ok, err)
		}
		if !slices.Equal(got, c.IDs) {
			t.Errorf("%s selects %v, want %v", c.Query, got, c.IDs)
		}
		if c.Query == querytest.Lacks && (len(r.Hints) == 0 || !strings.Contains(r.Hints[0], "user")) {
			t.Errorf("%s has the hints %q", c.Query, r.Hints)
		}
	}
}
