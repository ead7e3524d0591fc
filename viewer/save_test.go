package viewer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

// TestSave saves the hits of a query, a subtree, and the rows that overlap a window.
func TestSave(t *testing.T) {
	v := viewOf(t, format.ET, randomTrace(3, 300))
	var got view.Set[view.Row]
	var fails error
	h := serve(t, v, viewer.Options{
		Formats: []viewer.Format{{Name: "et", Extension: ".et", Text: "a trace"}},
		Save: func(_ context.Context, w io.Writer, of *view.View, rows view.Set[view.Row], format string) error {
			got = rows
			if of != v || format != "et" {
				t.Errorf("format %s of another view", format)
			}
			_, err := io.WriteString(w, "the bytes")
			return errors.Join(err, fails)
		},
	})
	tree := v.Tree()
	var span view.Row
	for r := range v.Rows() {
		if v.Role(r) == view.RoleSpan && tree.End(r)-tree.Rank(r) > 3 {
			span = r
			break
		}
	}
	inside, err := query.Overlapping(t.Context(), v, nil, 1200*ms, 1300*ms)
	must(t, err)
	hits := resultOf(t, v, "level = error").Rows
	below := func(r view.Row) bool { return tree.Rank(r) >= tree.Rank(span) && tree.Rank(r) < tree.End(span) }
	for _, c := range []struct {
		q    url.Values
		want func(r view.Row) bool
	}{
		{url.Values{"q": {"level = error"}}, hits.Has},
		{url.Values{"q": {"level = error"}, "window": {"1200000000,1300000000"}}, func(r view.Row) bool { return hits.Has(r) && inside.Has(r) }},
		{url.Values{"root": {fmt.Sprint(span)}}, below},
		{url.Values{"root": {fmt.Sprint(span)}, "window": {"1200000000,1300000000"}}, func(r view.Row) bool { return below(r) && inside.Has(r) }},
		{url.Values{}, func(view.Row) bool { return true }},
	} {
		c.q.Set("format", "et")
		w := ask(h, "GET", "/api/save?"+c.q.Encode())
		if w.Code != 200 || w.Body.String() != "the bytes" {
			t.Errorf("%v: %d %s", c.q, w.Code, w.Body)
		}
		for r := range v.Rows() {
			expect.Equal(t, got.Has(r), c.want(r), "%v: row %d is saved", c.q, r)
		}
	}
	for _, other := range []http.Handler{h, serve(t, v, viewer.Options{})} {
		expect.Equal(t, ask(other, "GET", "/api/save?format=zip").Code, 400, "an unknown format is answered")
	}
	defer func() {
		if e := recover(); e != http.ErrAbortHandler { //nolint:errorlint // net/http compares it
			t.Errorf("what cannot be written ends with %v", e)
		}
	}()
	fails = errors.New("full")
	ask(h, "GET", "/api/save?format=et")
}

// TestGoroutines groups the goroutines of the last dump by their stacks.
func TestGoroutines(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	dump := func(parent uint32, at, count uint64, in, stack string) {
		all = append(all, &format.TraceEntry{Parent: parent, Message: format.Some(in), Metadata: format.Metadata{Name: "goroutines", Target: "runtime/pprof"}, Attributes: tracetest.Attributes(
			format.AttrTime, at,
			"count", count,
			"stack", stack,
		)})
	}
	for i := range 2 {
		all = append(all, tracetest.Entry("work",
			format.AttrTime, uint64(1),
			format.AttrSpanID, fmt.Sprintf("%016x", i+1),
			format.AttrTraceID, fmt.Sprintf("%032x", 1),
		))
	}
	dump(1, 10, 99, "main.before", "main.before /a.go:1")
	dump(1, 20, 1, "main.lock", "main.lock /a.go:2")
	dump(2, 20, 2, "main.lock", "main.lock /a.go:2")
	dump(0, 20, 7, "main.idle", "main.idle /a.go:3")
	for i := range 25 {
		dump(0, 20, 1, "main.other", fmt.Sprintf("main.other /a.go:%d", 100+i))
	}
	top := jsonOf[struct {
		Goroutines []struct {
			In                  string
			Count, Spans, Ended int
		}
		GoroutinesAt   int64 `json:"goroutines_at_unix_nano"`
		MoreGoroutines int   `json:"more_goroutines"`
	}](t, served(t, all), "/api/top")
	if g := top.Goroutines; len(g) != 20 || top.GoroutinesAt != 20 || top.MoreGoroutines != 7 || fmt.Sprint(g[:2]) != "[{main.idle 7 0 0} {main.lock 3 2 0}]" {
		t.Errorf("%+v", top)
	}
}
