package query_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// TestCases checks the rows that each case of querytest selects. For the case of Tempo #2618 it
// also checks the hint.
func TestCases(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	for _, c := range querytest.Cases {
		q, err := query.Parse(c.Query)
		if err != nil {
			t.Errorf("%s: %v", c.Query, err)
			continue
		}
		first, ok := firstTwo(t, q, viewOf(t, querytest.Entries())) // a new view, which has no columns of attributes yet
		r, err := q.Run(t.Context(), v, nil)
		must(t, err)
		var got []uint32
		for _, row := range slices.Collect(r.Rows.All()) {
			_, id := v.ID(row)
			got = append(got, id)
		}
		want := slices.Collect(r.Rows.All())[:min(2, len(got))]
		if ok && !slices.Equal(first, want) || !ok && strings.HasPrefix(c.Query, "name") {
			t.Errorf("the first of %s are %v, %v, want %v", c.Query, first, ok, want)
		}
		if first, ok := firstTwo(t, q, v); ok && !slices.Equal(first, want) {
			t.Errorf("with columns the first of %s are %v, want %v", c.Query, first, want)
		}
		expect.Slice(t, got, c.IDs, "%s selects", c.Query)
		if c.Query == querytest.Lacks && (len(r.Hints) == 0 || !strings.Contains(r.Hints[0].Text, "user")) {
			t.Errorf("%s has the hints %q", c.Query, r.Hints)
		}
	}
}

// firstTwo returns the first two rows of a query.
func firstTwo(t *testing.T, q *query.Query, v *view.View) (rows []view.Row, ok bool) {
	t.Helper()
	all, ok := q.First(t.Context(), v, nil)
	if !ok {
		return nil, false
	}
	for r, err := range all {
		must(t, err)
		rows = append(rows, r)
		if len(rows) == 2 {
			break
		}
	}
	return rows, true
}

// TestConditionsMeanTheSameBesideEvents checks that a condition selects the same rows in other
// equivalent forms: in parentheses, or with conditions about events or links that do not change the
// result.
func TestConditionsMeanTheSameBesideEvents(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	rows := func(text string) []view.Row {
		r := querytest.Result(t, v, text)
		return slices.Collect(r.Rows.All())
	}
	for _, c := range []string{
		"duration = nil", "duration != nil", "status = nil", "kind != nil", "self = nil", "span.user = nil", "log.n = nil", "span:open = nil", "parent = nil",
		"span:statusMessage = nil", "span:id != nil", "span:childCount = 0", ".user = nil", "message = nil", "duration > 1ms", `log.n != 3`, `span.user != "ada"`, "level = error",
	} {
		want := rows("{ " + c + " }")
		for _, same := range []string{"{ (%s) = true }", "{ %s || event.none = 1 }", "{ %s || link.none = 1 }", "{ !(!(%s)) }", "{ (%s) && (event.none = 1 || true) }"} {
			text := strings.ReplaceAll(same, "%s", c)
			expect.Slice(t, rows(text), want, "%s selects", text)
		}
	}
	if got := rows("{ duration = nil }"); len(got) != 1 {
		t.Errorf("the spans that have not ended are %v, want one", got)
	}
}
