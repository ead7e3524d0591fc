package query_test

import (
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/query"
)

func TestCompleteOffersNamesAttributesAndValues(t *testing.T) {
	entries := querytest.Entries()
	long := *entries[2]
	long.Metadata.Name = "GET /" + strings.Repeat("x", 1<<20)
	v := viewOf(t, append(entries, &long))
	for _, x := range []struct {
		beginning string
		from      int
		want      string // the first ones
	}{
		{"na", 0, "name"},
		{"span:st", 0, "span:states span:status span:statusMessage"},
		{".us", 0, ".user"},
		{`.user = "a`, 8, `"ada"`},
		{".user = ", 8, `"ada" "bob" "Eve"`},
		{"user = ", 7, `"ada"`},
		{"{ span.user = ", 14, `"ada"`},
		{"level >= ", 9, "trace debug info warn error"},
		{".user =.r = ", 12, ""},
		{".usr =.r =\r\r=", 13, ""},
		{"{ entry:level >= w", 17, "warn"},
		{"{ status != ", 12, "unset ok error"},
		{"{ kind = s", 9, "server"},
		{`name = "GET`, 7, `"GET /cart"`},
		{"{ service = ", 12, `"shop"`},
		{"level = error .n", 14, ".n"},
		{"nonsense = ", 11, ""},
		{"{ status = error } ", 19, "| >> > << < ~ && ||"},
		{"{ status = error }", 18, "| >>"},
		{"{ status = error } | ", 21, "count() avg( compare( histogram("},
		{"{ status = error } | co", 21, "count() compare("},
		{"{ status = error } | count() | so", 31, "sort("},
		{"{ na", 2, "name"},
		{"{ status = error || na", 20, "name"},
		{"level = error | { na", 18, "name"},
		{`{ name = "}" } | `, 17, "count() avg("},
		{"{ name = `{` } | ", 17, "count() avg("},
		{`{ name =~ /"/ } | `, 18, "count() avg("},
		{`{ name =~ /"/ && .us`, 17, ".user"},
		{`{ name = "a\"}" } `, 18, "| >>"},
		{"{ name = GET /* } */ && .us", 24, ".user"},
		{"{ name = GET /* .us", 13, ""},
		{"name = `GET", 7, `"GET /cart"`},
		{`name = 'GET`, 7, `"GET /cart"`},
	} {
		from, list, err := query.Complete(t.Context(), v, x.beginning)
		must(t, err)
		var got []string
		for _, c := range list {
			got = append(got, c.Text)
		}
		if first := strings.Join(got, " "); from != x.from || !strings.HasPrefix(first, x.want) || x.want == "" && first != "" {
			t.Errorf("%s: %.99s from %d, want %s from %d", x.beginning, first, from, x.want, x.from)
		}
	}
	_, list, err := query.Complete(t.Context(), v, ".us")
	if want := (query.Completion{Text: ".user", Kind: "attribute", Count: 4}); err != nil || len(list) == 0 || list[0] != want {
		t.Errorf("got %v, %v, want %v", list, err, want)
	}
}
