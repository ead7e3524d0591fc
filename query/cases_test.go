package query_test

import (
	"slices"
	"strings"
	"testing"

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
		first, ok := firstTwo(t, q, viewOf(t, querytest.Entries())) // without columns
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
		if !slices.Equal(got, c.IDs) {
			t.Errorf("%s selects %v, want %v", c.Query, got, c.IDs)
		}
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
		if rows = append(rows, r); len(rows) == 2 {
			break
		}
	}
	return rows, true
}

func TestWords(t *testing.T) {
	for text, want := range map[string][]string{
		`payment "Not Found" /re/`:               {"payment", "not found"},
		`retry (level = error || "timed out")`:   {"retry", "timed out"},
		`boom | { level = error } | count() > 1`: {"boom"},
		`name = "a"`:                             nil,
	} {
		q, err := query.Parse(text)
		must(t, err)
		if got := q.Words(); !slices.Equal(got, want) {
			t.Errorf("%s has the words %q, want %q", text, got, want)
		}
	}
}

// TestHintsAreTrue checks that an inequality has a hint if it leaves out rows without the
// attribute, and only then.
func TestHintsAreTrue(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	for text, want := range map[string]string{
		`.service.name != "x"`:                   "",
		`.env !~ "x"`:                            "",
		`.user != nil`:                           "",
		`.user != "ada" || .user = nil`:          "",
		`.user != "ada"`:                         "10 rows have no .user, and are not among these: for them write (.user != … || .user = nil)",
		`span.user != "ada"`:                     "5 rows have no span.user, and are not among these: for them write (span.user != … || span.user = nil)",
		`log.n != 1`:                             "2 rows have no log.n, and are not among these: for them write (log.n != … || log.n = nil)",
		`{ name = "authorize" || .user != "x" }`: "9 rows have no .user, and are not among these: for them write (.user != … || .user = nil)",
	} {
		q, err := query.Parse(text)
		must(t, err)
		r, err := q.Run(t.Context(), v, nil)
		must(t, err)
		var texts []string
		for _, h := range r.Hints {
			if texts = append(texts, h.Text); h.Query != "" {
				_, err := query.Parse(h.Query)
				must(t, err)
			}
		}
		if got := strings.Join(texts, "; "); got != want {
			t.Errorf("%s has the hints %q, want %q", text, got, want)
		}
	}
}

// TestConditionsMeanTheSameBesideEvents checks that a condition selects the same rows in other
// equivalent forms: in parentheses, or with conditions about events or links that do not change the
// result.
func TestConditionsMeanTheSameBesideEvents(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	rows := func(text string) []view.Row {
		q, err := query.Parse(text)
		must(t, err)
		r, err := q.Run(t.Context(), v, nil)
		must(t, err)
		return slices.Collect(r.Rows.All())
	}
	for _, c := range []string{
		"duration = nil", "duration != nil", "status = nil", "kind != nil", "self = nil", "span.user = nil", "log.n = nil", "span:open = nil", "parent = nil",
		"span:statusMessage = nil", "span:id != nil", "span:childCount = 0", ".user = nil", "message = nil", "duration > 1ms", `log.n != 3`, `span.user != "ada"`, "level = error",
	} {
		want := rows("{ " + c + " }")
		for _, same := range []string{"{ (%s) = true }", "{ %s || event.none = 1 }", "{ %s || link.none = 1 }", "{ !(!(%s)) }", "{ (%s) && (event.none = 1 || true) }"} {
			text := strings.ReplaceAll(same, "%s", c)
			if got := rows(text); !slices.Equal(got, want) {
				t.Errorf("%s selects %v, want %v", text, got, want)
			}
		}
	}
	if got := rows("{ duration = nil }"); len(got) != 1 {
		t.Errorf("the spans that have not ended are %v, want one", got)
	}
}

// TestHintsWhenNothingIsSelected checks the hints for attributes that no row has, and for
// comparisons with values of another kind.
func TestHintsWhenNothingIsSelected(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	for text, want := range map[string][2]string{
		`.http.response.status_code = "402"`: {".http.response.status_code is a number here: write 402", `.http.response.status_code = 402`},
		`{ .user = 7 }`:                      {".user is a text here: write \"7\"", `{ .user = "7" }`},
		`.uesr = "eve"`:                      {"no row has .uesr; did you mean .user?", `.user = "eve"`},
		`span.uesr = eve`:                    {"no row has span.uesr; did you mean span.user?", `span.user = eve`},
		`uesr = "eve"`:                       {"no row has .uesr; did you mean .user?", `.user = "eve"`},
		`.duration > 5ms`:                    {"no row has .duration; did you mean duration?", `duration > 5ms`},
		`.level = 5`:                         {"no row has .level; did you mean level?", ""},
		`user = eve`:                         {`.user is an attribute; for the text, write "user = eve"`, `"user = eve"`},
		`name = GET /orders`:                 {`a text of several words needs quotes: "GET /orders"`, `name = "GET /orders"`},
		`user like nobody`:                   {`like is a text here; for an attribute, write .user contains "nobody"`, `.user contains "nobody"`},
		`cash < 5`:                           {`no row has .cash; for the text, write "cash < 5"`, `"cash < 5"`},
		`cash in (5)`:                        {"no row has .cash", ""},
		`not cart /nowhere`:                  {"/nowhere is a text here; a regular expression ends with a slash", ""},
		`user:eve`:                           {"user:eve is a text here; of the attribute, write .user = \"eve\"", `.user = "eve"`},
		`.user`:                              {".user alone selects the rows where it is true; for all that have it, write .user != nil", `.user != nil`},
		`not "a" not served .n = 12345`:      {"not served selects what has no served; for the text, write \"not served\"", `not "a" "not served" .n = 12345`},
		`{ name = "none" }`:                  {},
		`{ .n = 7 }`:                         {},
		`{ .env = "test" }`:                  {},
	} {
		q, err := query.Parse(text)
		must(t, err)
		r, err := q.Run(t.Context(), v, nil)
		must(t, err)
		if n := r.Rows.Len(); n != 0 {
			t.Errorf("%s selects %d rows, want none", text, n)
		}
		var got [2]string
		for _, h := range r.Hints {
			got = [2]string{h.Text, h.Query}
		}
		if got != want {
			t.Errorf("%s has the hints %q, want %q", text, r.Hints, want)
		}
	}
}

// TestHintsOfTables checks the hints for aggregates and groups of an attribute that no row has.
func TestHintsOfTables(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	for text, want := range map[string][]query.Hint{
		`kind = server | avg(.duration) by(.user)`: {{"no row has .duration; did you mean duration?", `kind = server | avg(duration) by(.user)`}},
		`{} | p50(.m)`:                  {{"no row has .m", ""}},
		`{} | count() by(.uesr)`:        {{"no row has .uesr; did you mean .user?", `{} | count() by(.user)`}},
		`{} | avg(duration) by(.user)`:  nil,
		`{ name = "none" } | avg(.dur)`: nil,
	} {
		q, err := query.Parse(text)
		must(t, err)
		r, err := q.Run(t.Context(), v, nil)
		must(t, err)
		if !slices.Equal(r.Hints, want) {
			t.Errorf("%s has the hints %q, want %q", text, r.Hints, want)
		}
	}
}
