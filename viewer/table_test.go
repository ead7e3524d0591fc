package viewer_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

// TestTableQueryIsRefusedBeforeItRuns sends queries that compute tables to paths that need rows. If such a query
// ran, the view would keep the columns of its attributes.
func TestTableQueryIsRefusedBeforeItRuns(t *testing.T) {
	v := viewOf(t, format.ET, querytest.Entries())
	h := serve(t, v, viewer.Options{Arguments: []string{"my app.et", "--clock", "shop=+1ms"}})
	for q, want := range map[string]string{
		"{ .user != nil } | count() by(.n)":          `entrace stats -q '{ .user != nil } | count() by(.n)' 'my app.et' --clock shop=+1ms`,
		`{ name = "it's" } | values(.n) by(span:id)`: `entrace stats -q '{ name = "it'\''s" } | values(.n) by(span:id)' 'my app.et' --clock shop=+1ms`,
	} {
		for _, path := range []string{"find?q=", "way?q=", "rows?only=", "rows?q="} {
			w := ask(h, http.MethodGet, "/api/"+path+url.QueryEscape(q))
			var got struct{ Command string }
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusUnprocessableEntity || got.Command != want {
				t.Errorf("%s%s: %d with the command %s, want %s (%v)", path, q, w.Code, got.Command, want, err)
			}
		}
	}
	for _, name := range []string{"user", "n"} {
		if _, ran := columns.Of(v).Kept(name); ran {
			t.Errorf("a query for a table has read the attribute %s of all rows", name)
		}
	}
	expect.Equal(t, ask(h, http.MethodGet, "/api/find?q="+url.QueryEscape("{ .user != nil } | count() > 1")).Code, http.StatusOK, "a condition on a count is answered")
}

// TestCorrect checks that answers with clock=auto come from the view with corrected clocks, and that a failed
// correction is reported.
func TestCorrect(t *testing.T) {
	v := viewOf(t, format.ET, querytest.Entries())
	type meta struct {
		First int64 `json:"first_unix_nano"`
	}
	failure, calls := error(nil), 0
	h := serve(t, v, viewer.Options{Correct: func(ctx context.Context) (*view.View, error) {
		calls++
		if failure != nil {
			return nil, failure
		}
		return view.New(ctx, v.Files(), &view.Options{Clock: func(*format.File, string) time.Duration { return time.Hour }})
	}})
	failure = errors.New("the disk hums")
	if w := ask(h, http.MethodGet, "/api/meta?clock=auto"); w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "the disk hums") {
		t.Errorf("a correction that fails is answered with %d %s", w.Code, w.Body)
	}
	failure = nil
	var pages sync.WaitGroup
	for range 4 { // the requests of a page are concurrent
		pages.Go(func() { ask(h, http.MethodGet, "/api/rows?clock=auto") })
	}
	pages.Wait()
	was, now := jsonOf[meta](t, h, "/api/meta").First, jsonOf[meta](t, h, "/api/meta?clock=auto").First
	if was == 0 || now-was != int64(time.Hour) || calls != 2 {
		t.Errorf("the first time is %d, and corrected by an hour %d, in %d corrections", was, now, calls)
	}
}

// TestTable compares tables with the results of the same queries.
func TestTable(t *testing.T) {
	v := viewOf(t, format.ET, randomTrace(3, 800))
	h := serve(t, v, viewer.Options{})
	type table struct {
		Columns []struct{ Name, Kind string }
		Lines   []struct {
			Values []any
			Where  string
			Row    int
			Spark  []int
		}
		Total int
	}
	window := "&window=1200000000,1300000000"
	for _, q := range []string{"{ duration > 10ms } | count() by(name)", "{} | count() | p95(duration) by(service, level)", "level = error | histogram(duration)", "{ name != nil } | compare({ .slow = \"yes\" })"} {
		for _, within := range []string{"", window} {
			got := jsonOf[table](t, h, "/api/table?q="+url.QueryEscape(q)+within)
			var o *query.Options
			if within != "" {
				o = &query.Options{From: time.Unix(0, 1200*ms), To: time.Unix(0, 1300*ms)}
			}
			parsed, err := query.Parse(q)
			must(t, err)
			want, err := parsed.Run(t.Context(), v, o)
			must(t, err)
			expect.Equal(t, got.Total, len(want.Table.Lines), "%s: lines", q)
			for i, l := range got.Lines {
				spark := 0
				for _, n := range l.Spark {
					spark += n
				}
				if c := slices.Index(want.Table.Columns, "count()"); c >= 0 {
					n := want.Table.Lines[i][c].String()
					if l.Values[c] != n || within == "" && fmt.Sprint(spark) != n {
						t.Errorf("%s: line %d is %v with %d over time, want %s", q, i, l.Values, spark, n)
					}
				}
			}
		}
	}
	byName := jsonOf[table](t, h, "/api/table?sort=-3")
	if len(byName.Lines) != 6 || byName.Columns[2].Name != "count" || byName.Columns[5].Kind != "duration" {
		t.Errorf("got %+v", byName)
	}
	for _, l := range jsonOf[table](t, h, "/api/table?x="+window).Lines {
		n, _ := strconv.ParseFloat(l.Values[2].(string), 64) //nolint:forcetypeassert // a number
		if rate, _ := l.Values[4].(float64); n >= 20 && math.Abs(rate-n/.1) > 1e-6 {
			t.Errorf("in a tenth of a second there are %v spans, at a rate of %v", n, l.Values[4])
		}
	}
	last := 0
	for _, l := range byName.Lines {
		n, err := strconv.Atoi(l.Values[2].(string)) //nolint:forcetypeassert // a number
		if err != nil || n < last || resultOf(t, v, l.Where).Rows.Len() != n {
			t.Errorf("%s has %v rows", l.Where, l.Values[2])
		}
		last = n
	}
	for _, sort := range []int{0, 4, -4, 5, 2} {
		got := jsonOf[table](t, h, fmt.Sprintf("/api/table?form=rows&q=duration+%%3E+0ns&n=500&sort=%d", sort))
		all := slices.Collect(resultOf(t, v, "duration > 0ns").Rows.All())
		slices.SortStableFunc(all, func(a, b view.Row) int {
			x, _ := v.Duration(a)
			y, _ := v.Duration(b)
			s, _ := v.Start(a)
			e, _ := v.Start(b)
			selfA, _ := v.SelfTime(a)
			selfB, _ := v.SelfTime(b)
			return map[int]int{0: cmp.Compare(e, s), 4: cmp.Compare(y, x), -4: cmp.Compare(x, y), 5: cmp.Compare(selfB, selfA), 2: cmp.Compare(v.Service(b), v.Service(a))}[sort]
		})
		expect.Equal(t, got.Total, len(all), "rows")
		for i, l := range got.Lines {
			if l.Row != int(all[i]) {
				t.Errorf("sorted by %d, line %d is row %d, want %d", sort, i, l.Row, all[i])
				break
			}
		}
	}
	for _, c := range []struct{ asked, want string }{
		{"", "{ kind = log }"},
		{"level=warn", "{ kind = log && level >= warn }"},
		{"level=error&q=" + url.QueryEscape("{ duration > 1ms } >> {}"), "{ duration > 1ms } >> { kind = log && level >= error }"},
		{"q=" + url.QueryEscape("{ kind = span && duration > 10ms }"), "{ duration > 10ms } >> { kind = log }"},
	} {
		got := jsonOf[table](t, h, "/api/table?form=logs&n=500&"+c.asked)
		all := slices.Collect(resultOf(t, v, c.want).Rows.All())
		slices.SortStableFunc(all, func(a, b view.Row) int {
			s, _ := v.Start(a)
			e, _ := v.Start(b)
			return cmp.Compare(e, s)
		})
		expect.Equal(t, got.Total, len(all), "log records of %s", c.asked)
		for i, l := range got.Lines {
			expect.Equal(t, l.Row, int(all[i]), "row of log record %d of %s", i, c.asked)
			expect.Equal(t, l.Values[1], any(v.Flags(all[i]).Level().String()), "level of log record %d", i)
			expect.Equal(t, l.Values[4] == nil, v.Owner(all[i]) == 0, "log record %d of %s belongs to no span", i, c.asked)
		}
		if len(all) < 5 {
			t.Errorf("%s selects %d log records: they show nothing", c.want, len(all))
		}
	}
	calls := jsonOf[table](t, h, "/api/table?form=calls")
	for _, l := range calls.Lines {
		if n := resultOf(t, v, l.Where).Rows.Len(); fmt.Sprint(n) != l.Values[2] {
			t.Errorf("%s has %v calls, want %d", l.Where, l.Values[2], n)
		}
	}
	expect.Equal(t, calls.Total, 0, "services call each other; a span has the resource that it is below")
	formula := viewOf(t, format.ET, []*format.TraceEntry{format.Root(), {Metadata: format.Metadata{Name: "=1+1"}, Message: format.Some("@SUM(A1)")}})
	if text := ask(serve(t, formula, viewer.Options{}), http.MethodGet, "/api/table?form=rows&csv=1").Body.String(); !strings.Contains(text, `,"'=1+1",`) {
		t.Errorf("a spreadsheet takes this for a formula: %s", text)
	}
}
