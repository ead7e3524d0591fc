package query_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/view"
)

// TestFreeTextLooksAtEveryRow compares the search for free text, which skips entries by their raw
// bytes, with a search in the decoded texts of every entry.
func TestFreeTextLooksAtEveryRow(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	entries := shop(r, 9000)
	notes := []string{"Timeout of 12.5s", "TIMED OUT", "time\u017f up", "\u212aelvin", "größe", "a/b", "Stack:\n\tat main.go"}
	for _, e := range entries[3:] {
		if r.IntN(40) == 0 {
			e.Add("note", format.StringValue(notes[r.IntN(len(notes))]))
		}
	}
	v := viewOf(t, entries)
	every := querytest.Result(t, v, "{}")
	for _, c := range []struct {
		query string
		match func(s string) bool
	}{
		{`"timeout"`, lowerContains("timeout")},
		{`"kelvin"`, lowerContains("kelvin")},
		{`"größe"`, lowerContains("größe")},
		{`"price"`, lowerContains("price")},
		{`/time.?out/`, regexp.MustCompile("(?i:time.?out)").MatchString},
		{`/(times|größe) ?u?/`, regexp.MustCompile("(?i:(times|größe) ?u?)").MatchString},
		{`/stack.*main/`, regexp.MustCompile("(?is:stack.*main)").MatchString},
		{`.note =~ "Stack.*go"`, regexp.MustCompile("^(?s:Stack.*go)$").MatchString},
		{`/t.m.o.t/`, regexp.MustCompile("(?i:t.m.o.t)").MatchString},
	} {
		result := querytest.Result(t, v, c.query)
		found := 0
		for row := range v.Rows() {
			want := every.Rows.Has(row) && hasText(t, v, row, c.match)
			if want {
				found++
			}
			expect.MustEqual(t, result.Rows.Has(row), want, "%s: row %d is selected", c.query, row)
		}
		if found == 0 && !strings.Contains(c.query, "t.m.o.t") {
			t.Errorf("%s is in no row, so that nothing is tested", c.query)
		}
	}
}

func lowerContains(text string) func(s string) bool {
	return func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
}

func hasText(t *testing.T, v *view.View, r view.Row, match func(s string) bool) bool {
	t.Helper()
	e, err := v.Entry(r)
	must(t, err)
	texts := []string{e.Metadata.Target, e.Message.Value}
	if v.Role(r) != view.RoleLog {
		texts = append(texts, e.Metadata.Name)
	}
	for _, a := range e.Attributes {
		name, own := mapping.UserName(a.Name)
		if own {
			texts = append(texts, name)
		}
		if a.Value.Kind() == format.KindString && (own || a.Name == mapping.AttrStatusDescription) {
			texts = append(texts, a.Value.Text())
		}
	}
	return slices.ContainsFunc(texts, match)
}
