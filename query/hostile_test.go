package query_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/query"
)

// TestHostileQueries checks that queries that try to exhaust the stack, the memory or the time end
// with an error or a result.
func TestHostileQueries(t *testing.T) {
	const n = 3000
	v := viewOf(t, querytest.Entries())
	for what, text := range map[string]string{
		"parentheses":           strings.Repeat("(", n) + "name = 1" + strings.Repeat(")", n),
		"parentheses that open": strings.Repeat("(", n),
		"braces":                strings.Repeat("{", n),
		"brackets in a filter":  "{ " + strings.Repeat("(", n) + "1" + strings.Repeat(")", n) + " = 1 }",
		"not":                   "{ " + strings.Repeat("!", n) + "true }",
		"minus":                 "{ " + strings.Repeat("-", n) + "1 = 1 }",
		"spansets":              strings.Repeat("({ } || ", n) + "{ }" + strings.Repeat(")", n),
		"powers":                "{ 2" + strings.Repeat("^2", n) + " = 1 }",
		"structure":             "{ }" + strings.Repeat(" >> { }", n),
		"alternation":           "name in (" + strings.Repeat(`"x", `, n) + `"y")`,
		"or":                    "name = 1" + strings.Repeat(" || name = 1", n),
		"words":                 strings.Repeat("word ", n),
		"stages":                "{ }" + strings.Repeat(" | count() > 0", n),
		"aggregates":            "{ }" + strings.Repeat(" | count()", n),
		"by":                    "{ } | count() by(" + strings.Repeat(".x, ", n) + ".x)",
		"regex":                 "/" + strings.Repeat("(a*)*", 1000) + "b/",
		"repeated regex":        "/((((a{30}){30}){30}){30})/",
		"regex of alternatives": "/" + strings.Repeat("a|", n) + "b/",
		"a long text":           `"` + strings.Repeat("x", 1<<20) + `"`,
		"a long number":         "duration > " + strings.Repeat("9", n),
		"a text without an end": `name = "` + strings.Repeat("x", n),
		"a comment":             "/* " + strings.Repeat("* ", n),
		"no text":               "\xff\xfe\x00",
	} {
		q, err := query.Parse(text)
		if err == nil {
			_, err = q.Run(t.Context(), v, nil)
		}
		if err == nil {
			continue
		}
		if wanted := map[string]string{"parentheses that open": "nested", "a long text": "longer"}[what]; !strings.Contains(err.Error(), wanted) {
			t.Errorf("%s: %.300v, want %q", what, err, wanted)
		}
		e, ok := errors.AsType[*query.Error](err)
		if !ok || e.Pos < 0 || e.Pos > len(text) || len(e.Error()) > 1000 {
			t.Errorf("%s: %.300v", what, err)
		}
	}
}

// TestManyGroups checks the limit of the number of groups of a table.
func TestManyGroups(t *testing.T) {
	defer func(n int) { *query.MaxGroups = n }(*query.MaxGroups)
	*query.MaxGroups = 3
	v := viewOf(t, querytest.Entries())
	for _, text := range []string{"{ kind != nil } | count() by(span:id)", "{ kind != nil } | count() by(start, name)"} {
		q, err := query.Parse(text)
		must(t, err)
		_, err = q.Run(t.Context(), v, nil)
		if e, ok := errors.AsType[*query.Error](err); !ok || !strings.Contains(e.Error(), "more than 3 groups") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
