package query_test

import (
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
)

// TestDocuments parses the queries that the documents show.
func TestDocuments(t *testing.T) {
	b := tracetest.ReadFile(t, "../docs/query.md")
	_, block, _ := strings.Cut(string(b), "```\n")
	block, _, _ = strings.Cut(block, "```")
	n := 0
	for line := range strings.Lines(block) {
		text := strings.TrimSpace(strings.SplitN(strings.TrimSpace(line), "   ", 2)[0])
		expect.Is(t, expect.Err(query.Parse(text)), nil, "%s", text)
		n++
	}
	if n < 8 {
		t.Errorf("there are %d queries", n)
	}
	b = tracetest.ReadFile(t, "../examples/queries/README.md")
	n = 0
	for line := range strings.Lines(string(b)) {
		_, rest, ok := strings.Cut(line, "-q '")
		if !ok {
			_, rest, ok = strings.Cut(line, "grep '")
		}
		if !ok {
			continue
		}
		text, _, _ := strings.Cut(rest, "'")
		expect.Is(t, expect.Err(query.Parse(text)), nil, "%s", text)
		n++
	}
	if n < 10 {
		t.Errorf("there are %d queries in the examples", n)
	}
}

// TestNamesInDocuments compares the table of names in docs/query.md with the fields of the language. With -update, it
// writes the table again.
func TestNamesInDocuments(t *testing.T) {
	head, rows, _ := strings.Cut(query.NamesTable(), "\n")
	tracetest.Part(t, "../docs/query.md", head+"\n", "\n", rows, *update)
}

// TestResults compares tables and sorted rows with the expected ones.
func TestResults(t *testing.T) {
	v := viewOf(t, fixed())
	for text, want := range map[string]string{
		`{} | count()`:                                              `count()=5`,
		`duration > 0 | count() by(name)`:                           `name=a count()=2; name=b count()=1`,
		`{ name = "a" } | p50(duration) | max(duration)`:            `p50(duration)=10ns max(duration)=30ns`,
		`{} | avg(.n) by(service)`:                                  `service=shop avg(.n)=2`,
		`{} | sum(.n) | min(.n) | stddev(.n)`:                       `sum(.n)=6 min(.n)=1 stddev(.n)=0.816496580927726`,
		`{} | values(.user)`:                                        `value=ada count=2; value=bob count=1`,
		`{} | count() by(.user) | sort(count desc) | limit(1)`:      `.user=nil count()=2`,
		`{} | count() by(.user) | topk(1, count)`:                   `.user=nil count()=2`,
		`{ kind = internal } | quantile(duration, 0, 1)`:            `quantile(duration, 0)=10ns quantile(duration, 1)=40ns`,
		`{ name = "a" } | histogram(duration)`:                      `from=10ns to=12ns count=1; from=12ns to=14ns count=0; from=14ns to=16ns count=0; from=16ns to=20ns count=0; from=20ns to=24ns count=0; from=24ns to=28ns count=0; from=28ns to=32ns count=1`,
		`{ name = "none" } | count()`:                               `count()=0`,
		`{} | compare({ .user = "nobody" }) | limit(2)`:             "",
		`{} | compare({ .user = "ada" }) | limit(2)`:                `attribute=user value=ada selection %=100 baseline %=0 difference=100 selection=2 baseline=0; attribute=event.user value=ada selection %=50 baseline %=0 difference=50 selection=1 baseline=0`,
		`{} | by(.user) | count()`:                                  `.user=nil count()=2; .user=ada count()=2; .user=bob count()=1`,
		`{ duration > 0 } | self > 0 | count()`:                     `error`,
		`{ duration > 0 } | { self = 0 } | count()`:                 `count()=0`,
		`{ name = "a" && self = 10 } | count()`:                     `count()=2`,
		`{ trace:rootName = "a" } | count()`:                        `count()=5`,
		`{} | count() by(bucket(start, 10ns))`:                      `bucket(start, 10ns)=1970-01-01T00:00:00.0000001Z count()=2; bucket(start, 10ns)=1970-01-01T00:00:00.00000011Z count()=1; bucket(start, 10ns)=1970-01-01T00:00:00.00000012Z count()=2`,
		`{ bucket(duration, 20ns) = 20ns } | max(bucket(.n, 2))`:    `max(bucket(.n, 2))=0`,
		`{ span:childCount = 1 } | count()`:                         `count()=1`,
		`{ depth = 3 } | count()`:                                   `count()=3`,
		`{ entry:role = resource } | count()`:                       `count()=1`,
		`{ start > "1970-01-01T00:00:00.000000105Z" } | count()`:    `count()=3`,
		`start + 10ns > "1970-01-01T00:00:00.000000115Z" | count()`: `count()=3`,
		`{ start - start = 0ns } | max(start - 100ns)`:              `max((start - 100ns))=1970-01-01T00:00:00.000000025Z`,
	} {
		q, err := query.Parse(text)
		if err != nil {
			if want != "error" {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		r, err := q.Run(t.Context(), v, nil)
		must(t, err)
		var lines []string
		for _, line := range r.Table.Lines {
			var cells []string
			for i, c := range line {
				cells = append(cells, r.Table.Columns[i]+"="+c.String())
			}
			lines = append(lines, strings.Join(cells, " "))
		}
		expect.Equal(t, strings.Join(lines, "; "), want, "%s", text)
	}
	for text, want := range map[string]string{
		`{} | sort(duration desc)`:         "3 2 5 4 6",
		`{} | topk(2, duration)`:           "3 2",
		`{} | bottomk(1, .n)`:              "2",
		`{} | limit(2)`:                    "2 4",
		`{ name = "a" } | count() > 1`:     "2 5",
		`{} | by(name) | count() > 1`:      "2 5",
		`{} | { .user = "ada" }`:           "2 4",
		`{ .n >= 1 } | avg(.n) > 2.5`:      "",
		`{ parent.user = "ada" }`:          "4 3",
		`{ span:open }`:                    "",
		`{ .n * 2 = 4 }`:                   "3",
		`{ parent = nil }`:                 "2 5",
		`ada`:                              "2 4",
		`"HELLO w"`:                        "4",
		`/^h.*o/`:                          "4",
		`{ message =~ "hello.*" }`:         "4",
		`{ span:id = "0000000000000005" }`: "5",
	} {
		q, err := query.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		r, err := q.Run(t.Context(), v, nil)
		must(t, err)
		order := r.Order
		if order == nil {
			order = query.InTime(v, r.Rows)
		}
		var ids []string
		for _, row := range order {
			ids = append(ids, string(rune('0'+row)))
		}
		expect.Equal(t, strings.Join(ids, " "), want, "%s selects", text)
	}
}

// FuzzQuery runs every text that parses as a query, to find queries that panic or do not end.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{`{ .a = 1 } >> { level >= error } | count() by(name)`, `payment /fa.l/ .user != "x"`, `!{} && ({} | p50(duration) > 1)`, `{ -.n ^ 2 % 3 / 0 > 1d2h }`, "{ `x` contains \"y\" } // z"} {
		f.Add(s)
	}
	v := viewOf(f, fixed())
	f.Fuzz(func(t *testing.T, s string) {
		q, err := query.Parse(s)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without a text")
			}
			return
		}
		if _, err := query.Parse(query.Tree(q)); err != nil && len(s) < 1000 {
			t.Logf("%s: its tree %s is none: %v", s, query.Tree(q), err)
		}
		_, _ = q.Run(t.Context(), v, nil)
	})
}
