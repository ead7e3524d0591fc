package query_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/query"
)

// TestNearest: rows for which the most conditions hold come, with the conditions that do not hold.
func TestNearest(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	for text, want := range map[string]string{
		`{ name = "SELECT price" && .db.system = "postgres" && status = ok }`: "4 status = ok: it is error; 8 status = ok: it is unset",
		`{ name = "GET /cart" && .user = "eve" && duration > 50ms }`:          `2 .user = "eve": it is ada`,
		`{ name = "GET /cart" } > { name = "authorize" && duration > 1s }`:    "3 duration > 1s: it is 5ms",
		`{ kind = client && (.n = 1 || .n = 2) }`:                             "4 (.n = 1) || (.n = 2); 8 (.n = 1) || (.n = 2); 11 (.n = 1) || (.n = 2)",
		`{ kind = client && .n = 1 }`:                                         "4 .n = 1: it has none; 8 .n = 1: it has none; 11 .n = 1: it has none",
		`{}`:                                                                  "",
		`{ name = "hang" } || { name = "render" }`:                            "",
	} {
		q, err := query.Parse(text)
		must(t, err)
		near, err := q.Nearest(t.Context(), v, 3)
		must(t, err)
		var got []string
		for _, n := range near {
			_, id := v.ID(n.Row)
			got = append(got, fmt.Sprint(id, " ", strings.Join(n.Failed, ", ")))
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}
