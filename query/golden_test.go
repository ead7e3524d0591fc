package query_test

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
)

var update = flag.Bool("update", false, "write the expected texts in testdata again")

// TestGolden runs the queries in the files of testdata, and compares the output with the text below each query.
func TestGolden(t *testing.T) {
	v := viewOf(t, querytest.Entries())
	long := *querytest.Entries()[2]
	long.Metadata.Name = "GET /" + strings.Repeat("x", 1<<20)
	completed := viewOf(t, append(querytest.Entries(), &long))
	for name, say := range map[string]func(text string) string{
		// parse.txt has the tree of each query, or its error and the query that the error proposes.
		"parse": func(text string) string {
			q, err := query.Parse(text)
			if err == nil {
				return query.Tree(q)
			}
			e, ok := errors.AsType[*query.Error](err)
			if !ok {
				t.Errorf("%s: %v is of another type", text, err)
			}
			expect.Is(t, expect.Err(query.Parse(e.Try)), nil, "%s: offers %s", text, e.Try)
			return fmt.Sprintf("%v\ntry %s", err, e.Try)
		},
		// hints.txt has the number of rows that each query selects, and its hints with the queries that they
		// propose.
		"hints": func(text string) string {
			r := resultOf(t, v, text)
			var said strings.Builder
			fmt.Fprint(&said, r.Rows.Len(), " rows")
			for _, h := range r.Hints {
				expect.Is(t, expect.Err(query.Parse(h.Query)), nil, "%s: offers %s", text, h.Query)
				fmt.Fprintf(&said, "\n%s\ntry %s", h.Text, h.Query)
			}
			return said.String()
		},
		// complete.txt has the first completions of each unfinished query, and the offset of the word that they
		// complete.
		"complete": func(text string) string {
			from, list, err := query.Complete(t.Context(), completed, text)
			must(t, err)
			var said strings.Builder
			fmt.Fprint(&said, "from ", from, ":")
			for _, c := range list[:min(10, len(list))] {
				fmt.Fprintf(&said, " %.40s", c.Text)
			}
			return said.String()
		},
		// nearest.txt has the rows that fulfill the most conditions of each query, with the conditions that
		// they do not fulfill.
		"nearest": func(text string) string {
			q, err := query.Parse(text)
			must(t, err)
			near, err := q.Nearest(t.Context(), v, 3)
			must(t, err)
			var said []string
			for _, n := range near {
				_, id := v.ID(n.Row)
				said = append(said, fmt.Sprint(id, " ", strings.Join(n.Failed, ", ")))
			}
			return strings.Join(said, "\n")
		},
		"words": func(text string) string {
			q, err := query.Parse(text)
			must(t, err)
			return fmt.Sprintf("%q", q.Words())
		},
	} {
		tracetest.Golden(t, "testdata/"+name+".txt", *update, say)
	}
	_, list, err := query.Complete(t.Context(), completed, ".us")
	if want := (query.Completion{Text: ".user", Kind: "attribute", Count: 4}); err != nil || !slices.Contains(list, want) {
		t.Errorf("got %v, %v, want %v", list, err, want)
	}
}
