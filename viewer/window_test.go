package viewer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

const ms = 1_000_000

// randomTrace returns spans and log records of two services at random times, some of which failed or
// never ended.
func randomTrace(seed uint64, n int) []*format.TraceEntry {
	r := rand.New(rand.NewPCG(seed, 1))
	all := []*format.TraceEntry{format.Root()}
	for _, service := range []string{"front", "back"} {
		all = append(all, tracetest.Resource(service, "service.name", service))
	}
	spans := []uint32{1, 2}
	for i := range n {
		at := uint64(1000*ms + r.Int64N(1000*ms))
		parent := spans[r.IntN(len(spans))]
		e := &format.TraceEntry{Parent: parent, Attributes: tracetest.Attributes(format.AttrTime, at)}
		if r.IntN(4) == 0 {
			e.Message, e.Metadata.Name, e.Metadata.Level = format.Some("a record"), "event", format.Level(r.IntN(5))
			all = append(all, e)
			continue
		}
		e.Metadata.Name, e.Metadata.Level = fmt.Sprint("work ", r.IntN(3)), format.LevelInfo
		e.Attributes = append(e.Attributes, tracetest.Attributes(format.AttrSpanID, fmt.Sprintf("%016x", i+1), format.AttrTraceID, fmt.Sprintf("%032x", 1), "kind", fmt.Sprint("k", r.IntN(3)))...)
		took := 1 + r.Int64N(100*ms)
		if r.IntN(5) == 0 {
			took *= 5
			e.Add("slow", format.StringValue("yes"))
		}
		if r.IntN(10) > 0 {
			e.Add(format.AttrDuration, format.U64Value(uint64(took)))
		}
		if r.IntN(6) == 0 {
			e.Metadata.Level = format.LevelError
			e.Add("otel.status_code", format.StringValue("ERROR"))
		}
		spans = append(spans, uint32(len(all)))
		all = append(all, e)
	}
	return all
}

// overlaps reports whether a row, or any row below it, overlaps a window.
func overlaps(v *view.View, r view.Row, from, to int64) bool {
	start, timed := v.Start(r)
	took, ended := v.Duration(r)
	end := start + int64(took)
	if v.Role(r) == view.RoleSpan && !ended {
		end = to
	}
	if timed && start <= to && end >= from {
		return true
	}
	return slices.ContainsFunc(v.Children(r), func(kid view.Row) bool { return overlaps(v, kid, from, to) })
}

// TestWindow compares the rows in a window, the hits in it, and the numbers of rows outside with each single row.
func TestWindow(t *testing.T) {
	for seed := range uint64(10) {
		v := viewOf(t, format.ET, randomTrace(seed, 300))
		h := serve(t, v, viewer.Options{})
		for _, w := range [][2]int64{{1000 * ms, 1100 * ms}, {1400 * ms, 1410 * ms}, {1990 * ms, 3000 * ms}, {0, 900 * ms}, {1500 * ms, 1500 * ms}} {
			window := fmt.Sprintf("window=%d,%d", w[0], w[1])
			var want []int
			outside := 0
			hits := resultOf(t, v, "level = error").Rows
			inside, hitsOutside := 0, 0
			for r := range v.Rows() {
				if role := v.Role(r); role != view.RoleSpan && role != view.RoleLog {
					continue
				}
				if overlaps(v, r, w[0], w[1]) {
					want = append(want, int(r))
				} else if v.Role(v.Parent(r)) == view.RoleResource {
					outside++
				}
				if hits.Has(r) {
					start, _ := v.Start(r)
					took, ended := v.Duration(r)
					if start <= w[1] && (start+int64(took) >= w[0] || v.Role(r) == view.RoleSpan && !ended) {
						inside++
					} else {
						hitsOutside++
					}
				}
			}
			r := rowsOf(t, h, "depth=1000&n=500&"+window)
			var got []int
			for _, row := range r.row {
				got = append(got, int(row))
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || r.Outside != outside || r.From != w[0] {
				t.Errorf("trace %d, %s: %d rows and %d outside, want %d and %d", seed, window, len(got), r.Outside, len(want), outside)
			}
			found := jsonOf[struct{ Count, Outside int }](t, h, "/api/find?at=0&q=level%3Derror&"+window)
			if found.Count != inside || found.Outside != hitsOutside {
				t.Errorf("trace %d, %s: %+v, want %d and %d", seed, window, found, inside, hitsOutside)
			}
			top := jsonOf[struct{ Errors int }](t, h, "/api/top?"+window)
			expect.Equal(t, top.Errors, inside, "trace %d, %s: errors", seed, window)
		}
		for _, least := range []int64{1, 50 * ms, 300 * ms} {
			want := 0
			var long func(r view.Row) bool
			long = func(r view.Row) bool {
				of := r
				if v.Role(r) == view.RoleLog {
					of = v.Parent(r)
				}
				took, ended := v.Duration(of)
				return !ended || int64(took) >= least || v.Flags(of).IsError() || slices.ContainsFunc(v.Children(r), long)
			}
			for r := range v.Rows() {
				if role := v.Role(r); (role == view.RoleSpan || role == view.RoleLog) && long(r) {
					want++
				}
			}
			expect.Equal(t, rowsOf(t, h, fmt.Sprint("depth=1000&least=", least)).Total, want, "trace %d: rows of at least %d ns", seed, least)
		}
		for _, bad := range []string{"1", "2,1", "-9223372036854775808,9223372036854775807", "last:0", "last:x", "a,b"} {
			expect.Equal(t, ask(h, "GET", "/api/rows?window="+bad).Code, 400, "the window %s is answered", bad)
		}
	}
}

// TestStrip compares the sums and bins of a strip with the rows.
func TestStrip(t *testing.T) {
	v := viewOf(t, format.ET, randomTrace(1, 500))
	h := serve(t, v, viewer.Options{})
	type strip struct {
		Services           [][]int
		Errors, Open, Hits []int
		Idle               [][2]string
	}
	for _, q := range []string{"n=100&q=slow", "n=7&window=1200000000,1300000000"} {
		s := jsonOf[strip](t, h, "/api/strip?"+q)
		values, _ := url.ParseQuery(q)
		n, _ := strconv.Atoi(values.Get("n"))
		from, to, _ := v.Period()
		if values.Has("window") {
			from, to = 1200*ms, 1300*ms
		}
		want := strip{Services: [][]int{make([]int, n), make([]int, n)}, Errors: make([]int, n), Open: make([]int, n), Hits: make([]int, n)}
		hits := resultOf(t, v, "slow").Rows
		for r := range v.Rows() {
			start, timed := v.Start(r)
			if role := v.Role(r); role != view.RoleSpan && role != view.RoleLog || !timed || start < from || start > to {
				continue
			}
			i := min(n-1, int(float64(start-from)*float64(n)/float64(to-from)))
			service := slices.Index(jsonOf[struct{ Services []string }](t, h, "/api/meta").Services, v.Service(r))
			want.Services[service][i]++
			if v.Flags(r).IsError() {
				want.Errors[i]++
			}
			if v.Flags(r).Open() {
				want.Open[i]++
			}
			if hits.Has(r) {
				want.Hits[i]++
			}
		}
		if !values.Has("q") {
			want.Hits = []int{}
		}
		if !slices.EqualFunc(s.Services, want.Services, slices.Equal) || !slices.Equal(s.Errors, want.Errors) || !slices.Equal(s.Open, want.Open) || !slices.Equal(s.Hits, want.Hits) {
			t.Errorf("%s: got %+v\nwant %+v", q, s, want)
		}
	}
}

// TestExtremeTimes requests answers about the earliest and the latest times that nanoseconds can express, and
// about traces without entries.
func TestExtremeTimes(t *testing.T) {
	e := func(at, took uint64) *format.TraceEntry {
		return tracetest.Entry("extreme",
			format.AttrSpanID, "00000000000000a1",
			format.AttrTraceID, strings.Repeat("b", 32),
			format.AttrTime, at,
			format.AttrDuration, took,
		)
	}
	for i, entries := range [][]*format.TraceEntry{
		{format.Root()},
		{format.Root(), tracetest.Entry("untimed")},
		{format.Root(), e(0, math.MaxInt64), e(math.MaxInt64, math.MaxInt64), e(math.MaxUint64, 1), e(1, math.MaxUint64)},
	} {
		h := served(t, entries)
		for _, path := range []string{"rows?x=", "top?x=", "strip?n=10", "strip?n=0", "strip?n=4000&q=extreme", "find?at=0&q=extreme", "facets?q=extreme", "facets?x=", "table?x=", "table?form=rows&sort=5", "table?form=calls", "table?csv=1", "flame?q=extreme", "flame?by=count", "why?row=1", "critical?row=1", "talk?row=0", "entry?row=0"} {
			for _, more := range []string{"", "&window=0,9223372036854775807", "&window=last:9223372036854775807", "&window=-9223372036854775808,-9223372036854775807", "&window=-9223372036854775808,9223372036854775807", "&window=9223372036854775806,9223372036854775807", "&least=9223372036854775807"} {
				if w := ask(h, "GET", "/api/"+path+more); w.Code >= 500 {
					t.Errorf("trace %d: %s%s: %d %s", i, path, more, w.Code, w.Body)
				}
			}
		}
	}
}

// TestWhy compares the position of a span among the durations, and the properties that slow spans share, with the
// spans one by one.
func TestWhy(t *testing.T) {
	v := viewOf(t, format.ET, randomTrace(2, 2000))
	h := serve(t, v, viewer.Options{})
	type why struct {
		Where, Without              string
		Count, Faster, Failed, Slow int
		Of                          string
		Median                      int64 `json:"median_nano"`
		Least                       int64 `json:"least_nano"`
		Bars                        []struct{ Count int }
		Shares                      struct {
			In, Others int
			Fields     []struct {
				Field  string
				Values []struct {
					Where      string
					In, Others int
				}
			}
		}
	}
	looked, compared := 0, 0
	for r := range v.Rows() {
		took, ended := v.Duration(r)
		if v.Role(r) != view.RoleSpan || !ended || int(r)%hosttest.InCI(14, 7) != 0 {
			continue
		}
		looked++
		got := jsonOf[why](t, h, fmt.Sprint("/api/why?row=", r))
		var all []int64
		faster, failed, slow := 0, 0, 0
		least := got.Least
		in := v.NewSet()
		for s := range v.Rows() {
			if v.Role(s) != view.RoleSpan || v.Name(s) != v.Name(r) || v.Service(s) != v.Service(r) {
				continue
			}
			if v.Flags(s).IsError() {
				failed++
			}
			d, ended := v.Duration(s)
			if !ended {
				if open, _ := v.OpenFor(s); int64(open) >= least {
					in.Add(s)
				}
				continue
			}
			all = append(all, int64(d))
			if d < took {
				faster++
			}
			if int64(d) >= least {
				slow++
				in.Add(s)
			}
		}
		slices.Sort(all)
		bars := 0
		for _, b := range got.Bars {
			bars += b.Count
		}
		if got.Count != len(all) || bars != len(all) || got.Faster != faster || got.Failed != failed || got.Slow != slow || got.Median != all[(len(all)-1)/2] {
			t.Fatalf("row %d: %+v, want %d spans, %d faster, %d failed, %d slow", r, got, len(all), faster, failed, slow)
		}
		if n := resultOf(t, v, got.Where).Rows.Len(); n < got.Count {
			t.Errorf("%s selects %d rows", got.Where, n)
		}
		root, have, named := r, v.NewSet(), 0 // the spans that are like root and have a span like r below them
		for up := v.Parent(r); v.Role(up) == view.RoleSpan; up = v.Parent(up) {
			root = up
		}
		is := func(s, other view.Row) bool {
			return v.Role(s) == view.RoleSpan && v.Name(s) == v.Name(other) && v.Service(s) == v.Service(other)
		}
		for s := range v.Rows() {
			if is(s, root) {
				named++
			}
			for up := v.Parent(s); is(s, r) && v.Role(up) == view.RoleSpan; up = v.Parent(up) {
				if is(up, root) {
					have.Add(up)
				}
			}
		}
		if (root == r) != (got.Without == "") {
			t.Errorf("row %d: without is %s", r, got.Without)
		} else if root != r && resultOf(t, v, got.Without).Rows.Len() != named-have.Len() {
			t.Errorf("row %d: %s selects %d rows, want %d of %d", r, got.Without, resultOf(t, v, got.Without).Rows.Len(), named-have.Len(), named)
		}
		if got.Of != "slow" {
			continue
		}
		for _, f := range got.Shares.Fields {
			for _, x := range f.Values {
				n := 0
				for s := range resultOf(t, v, strings.Replace(got.Where, " }", " && "+x.Where+" }", 1)).Rows.All() {
					if in.Has(s) {
						n++
					}
				}
				expect.Equal(t, n, x.In, "row %d: %s has slow ones", r, x.Where)
			}
		}
		compared += len(got.Shares.Fields)
	}
	if looked < 50 || compared < 50 {
		t.Errorf("only %d spans and %d fields were compared", looked, compared)
	}
	if w := ask(h, "GET", "/api/why?row=1"); w.Code != 400 {
		t.Errorf("a row that is no span is answered with %d", w.Code)
	}
}

func resultOf(t *testing.T, v *view.View, text string) *query.Result {
	t.Helper()
	q, err := query.Parse(text)
	expect.MustIs(t, err, nil, "%s", text)
	r, err := q.Run(t.Context(), v, nil)
	expect.MustIs(t, err, nil, "%s", text)
	return r
}

// TestFlame compares two flames with the spans one by one: a flame of all spans, and a flame of the spans that a
// query selects.
func TestFlame(t *testing.T) {
	v := viewOf(t, format.ET, randomTrace(4, 600))
	h := serve(t, v, viewer.Options{})
	type node struct {
		Name, Service     string
		Up, Count, Errors int
		Self              int64 `json:"self_nano"`
		Total             int64 `json:"total_nano"`
		Weight            float64
	}
	for _, q := range []string{"", "work 1"} {
		var hits view.Set[view.Row]
		if q != "" {
			hits = resultOf(t, v, q).Rows
		}
		type sums struct{ count, errors, self, total int64 }
		want := make(map[string]sums)
		all, roots := int64(0), 0
		var walk func(r view.Row, path string)
		walk = func(r view.Row, path string) {
			if v.Role(r) == view.RoleSpan && (path != "" || hits == nil || hits.Has(r)) {
				if path == "" {
					roots++
				}
				path += "/" + v.Service(r) + " " + v.Name(r)
				s := want[path]
				s.count++
				if v.Flags(r).IsError() {
					s.errors++
				}
				if self, ended := v.SelfTime(r); ended {
					s.self += int64(self)
					all += int64(self)
				}
				took, ended := v.Duration(r)
				if !ended {
					took, _ = v.OpenFor(r)
				}
				s.total += int64(took)
				want[path] = s
			}
			for _, kid := range v.Children(r) {
				walk(kid, path)
			}
		}
		walk(0, "")
		got := jsonOf[struct {
			Nodes       []node
			Roots, Left int
		}](t, h, "/api/flame?q="+url.QueryEscape(q))
		if len(got.Nodes) != len(want) || got.Roots != roots || got.Left != 0 {
			t.Errorf("%q: %d nodes of %d spans, want %d of %d", q, len(got.Nodes), got.Roots, len(want), roots)
		}
		paths := make([]string, len(got.Nodes))
		weights := make([]float64, len(got.Nodes))
		for i, n := range got.Nodes {
			up := ""
			if n.Up >= 0 {
				up = paths[n.Up]
			}
			paths[i] = up + "/" + n.Service + " " + n.Name
			s := want[paths[i]]
			if n.Count != int(s.count) || n.Errors != int(s.errors) || n.Self != s.self || n.Total != s.total {
				t.Errorf("%s is %+v, want %+v", paths[i], n, s)
			}
			for at := i; at >= 0; at = got.Nodes[at].Up {
				weights[at] += float64(s.self) / float64(all)
			}
		}
		for i, n := range got.Nodes {
			if math.Abs(n.Weight-weights[i]) > 1e-9 {
				t.Errorf("%s is %v wide, want %v", paths[i], n.Weight, weights[i])
			}
		}
	}
}

// TestAgainst compares a trace with another trace in each panel of the page.
func TestAgainst(t *testing.T) {
	v, other := viewOf(t, format.ET, randomTrace(5, 800)), viewOf(t, format.IET, randomTrace(6, 700))
	h := serve(t, v, viewer.Options{Against: other, AgainstName: "old.et", AgainstArguments: []string{"--against", "old.et"}, Arguments: []string{"new.et"}})
	meta := jsonOf[struct{ Against, Command string }](t, h, "/api/meta")
	if meta.Against != "old.et" || meta.Command != "entrace view --against old.et new.et" {
		t.Errorf("got %+v", meta)
	}
	type shares struct {
		In, Others int
		Fields     []struct {
			Values []struct {
				Where      string
				In, Others int
			}
		}
	}
	for _, q := range []string{"", "level = error"} {
		c := jsonOf[shares](t, h, "/api/facets?q="+url.QueryEscape(q))
		if all := resultOf(t, v, q).Rows.Len(); c.In != all || c.Others != resultOf(t, other, q).Rows.Len() || len(c.Fields) == 0 {
			t.Errorf("%q: %d rows and %d", q, c.In, c.Others)
		}
		for _, f := range c.Fields {
			for _, x := range f.Values {
				where := "{ (" + x.Where + ") } | {" + strings.TrimSpace(" "+q) + "}"
				if in, others := resultOf(t, v, where).Rows.Len(), resultOf(t, other, where).Rows.Len(); in != x.In || others != x.Others {
					t.Errorf("%s: %d and %d, want %d and %d", where, x.In, x.Others, in, others)
				}
			}
		}
	}
	both := jsonOf[shares](t, h, "/api/facets?q=level%3Derror&than=level%3Dinfo") // the query in than selects rows of the other trace
	if in, others := resultOf(t, v, "level = error").Rows.Len(), resultOf(t, other, "level = info").Rows.Len(); both.In != in || both.Others != others {
		t.Errorf("%d rows and %d, want %d and %d", both.In, both.Others, in, others)
	}
	row := view.Row(0)
	for v.Role(row) != view.RoleSpan {
		row++
	}
	why := jsonOf[struct {
		Where   string
		Against struct {
			Here, There struct{ Count int }
			Shares      shares
		}
	}](t, h, fmt.Sprint("/api/why?q=name%3Dnosuch&row=", row)) // this query does not matter, because there is no than
	if n := resultOf(t, other, strings.Replace(why.Where, " }", " && duration != nil }", 1)).Rows.Len(); why.Against.There.Count != n || n == 0 {
		t.Errorf("of %s there are %d, want %d", why.Where, why.Against.There.Count, n)
	}
	table := jsonOf[struct {
		Lines []struct{ Values []any }
		Total int
	}](t, h, "/api/table?form=compare")
	want, err := analyze.Compare(t.Context(), []query.Run{{View: other, Rows: resultOf(t, other, "{}").Rows}}, []query.Run{{View: v, Rows: resultOf(t, v, "{}").Rows}})
	must(t, err)
	if table.Total != len(want.Paths) || table.Total == 0 {
		t.Errorf("%d paths, want %d", table.Total, len(want.Paths))
	}
	for i, l := range table.Lines {
		if p := want.Paths[i]; l.Values[8] != strconv.Itoa(p.After.Count) || l.Values[9] != strconv.Itoa(p.Before.Count) {
			t.Errorf("line %d has %v, want %d and %d", i, l.Values, p.After.Count, p.Before.Count)
		}
	}
	expect.Equal(t, ask(serve(t, v, viewer.Options{}), "GET", "/api/table?form=compare").Code, 400, "without another trace it is answered")
}

// TestFlameOfEqualWidths checks that a flame has exactly the maximum number of nodes, even if many nodes have the
// smallest width.
func TestFlameOfEqualWidths(t *testing.T) {
	span := func(parent uint32, name string) *format.TraceEntry {
		return tracetest.Below(parent, tracetest.Entry(name,
			format.AttrSpanID, fmt.Sprintf("%016x", len(name)),
			format.AttrTraceID, strings.Repeat("b", 32),
			format.AttrTime, uint64(1),
			format.AttrDuration, uint64(1000),
		))
	}
	wide, deep := []*format.TraceEntry{format.Root(), span(0, "all")}, []*format.TraceEntry{format.Root()}
	for i := range uint32(9000) {
		wide, deep = append(wide, span(1, fmt.Sprint("kid ", i))), append(deep, span(i, fmt.Sprint("level ", i)))
	}
	for _, entries := range [][]*format.TraceEntry{wide, deep} {
		got := jsonOf[struct {
			Nodes []struct{ Up int }
			Left  int
		}](t, served(t, entries), "/api/flame?by=count")
		if len(got.Nodes) != 8000 || got.Left != len(entries)-1-8000 {
			t.Errorf("%d nodes, and %d left out", len(got.Nodes), got.Left)
		}
		for i, n := range got.Nodes {
			if n.Up >= i {
				t.Fatalf("node %d is before %d, which it is below", i, n.Up)
			}
		}
	}
}

// TestBesideOfLongSpans checks which other spans are given as a reason for slow spans. The span "tick" runs for a
// tenth of the time: during every long span but few short spans. It is not a reason. The span "reindex" runs only
// during the long spans. It is a reason. The test also checks that a span outside the window is compared with all
// spans of its name.
func TestBesideOfLongSpans(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	span := func(name string, at, took uint64) {
		all = append(all, tracetest.Entry(name,
			format.AttrSpanID, fmt.Sprintf("%016x", len(all)),
			format.AttrTraceID, fmt.Sprintf("%032x", len(all)),
			format.AttrTime, at*ms+1,
			format.AttrDuration, took*ms,
		))
	}
	for i := range uint64(20) {
		span("get", 10_000*(i+1), 2000)
		span("reindex", 10_000*(i+1), 1900)
		for k := range uint64(20) {
			span("get", 10_000*(i+1)+2500+371*k, 1)
		}
		for k := range uint64(10) {
			span("tick", 10_000*(i+1)+1000*k, 100)
		}
	}
	h := served(t, all)
	type answer struct {
		Count   int
		Slow    int
		Outside bool
		Beside  []struct {
			Name       string
			In, Others float64
		}
	}
	got := jsonOf[answer](t, h, "/api/why?row=1")
	if got.Slow != 20 || got.Outside || len(got.Beside) != 1 || got.Beside[0].Name != "reindex" || got.Beside[0].In != 1 || got.Beside[0].Others != 0 {
		t.Errorf("got %+v", got)
	}
	far := jsonOf[answer](t, h, fmt.Sprintf("/api/why?row=1&window=%d,%d", int64(50_000*ms), int64(70_000*ms)))
	if !far.Outside || far.Count != got.Count {
		t.Errorf("outside of the chosen time it is one of %d: %+v", far.Count, far)
	}
	near := jsonOf[answer](t, h, fmt.Sprintf("/api/why?row=1&window=%d,%d", 0, int64(30_000*ms)))
	if near.Outside || near.Count >= got.Count {
		t.Errorf("within the chosen time it is one of %d: %+v", near.Count, near)
	}
}

// TestBesideByChance has slow spans and other spans at random times. Chance may rarely make one of the others a
// reason.
func TestBesideByChance(t *testing.T) {
	if testing.Short() {
		t.Skip("a long computation")
	}
	trials := hosttest.InCI(16, 40)
	r := rand.New(rand.NewPCG(1, 2))
	for slow := 1; slow <= 6; slow++ {
		wrong := 0
		for range trials {
			all := []*format.TraceEntry{format.Root()}
			span := func(name string, took uint64) {
				all = append(all, tracetest.Entry(name,
					format.AttrSpanID, fmt.Sprintf("%016x", len(all)),
					format.AttrTraceID, fmt.Sprintf("%032x", len(all)),
					format.AttrTime, (1000+r.Uint64N(100_000))*ms,
					format.AttrDuration, took*ms,
				))
			}
			for range slow {
				span("get", 2000)
			}
			for range 200 {
				span("get", 1+r.Uint64N(3))
			}
			for i := range 30 {
				span(fmt.Sprint("job ", i%10), 2000)
			}
			got := jsonOf[struct{ Beside []struct{ Name string } }](t, served(t, all), "/api/why?row=1")
			if len(got.Beside) > 0 {
				wrong++
			}
		}
		if wrong > trials/8 {
			t.Errorf("with %d slow spans, chance is said to be why %d times of %d", slow, wrong, trials)
		}
	}
}

// TestBesideOfTheSameName checks that a reason can be a span of the same name in another process.
func TestBesideOfTheSameName(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	for i := range 2 {
		all = append(all, tracetest.Resource("svc", "service.name", "svc", "pid", uint64(i)))
	}
	span := func(resource uint32, at, took uint64) {
		all = append(all, tracetest.Below(resource, tracetest.Entry("job",
			format.AttrSpanID, fmt.Sprintf("%016x", len(all)),
			format.AttrTraceID, fmt.Sprintf("%032x", len(all)),
			format.AttrTime, at*ms+1,
			format.AttrDuration, took*ms,
		)))
	}
	for i := range uint64(8) {
		span(1, 1000*i, 200) // while the next span runs
		span(2, 1000*i+10, 180)
		span(1, 1000*i+500, 1)
		span(1, 1000*i+600, 2)
	}
	got := jsonOf[struct {
		Beside []struct {
			Name       string
			In, Others float64
		}
	}](t, served(t, all), "/api/why?row=3")
	// Of the 15 other slow spans, 8 began while the span of the other process ran; the rest had begun before it.
	if len(got.Beside) != 1 || got.Beside[0].Name != "job" || got.Beside[0].In != 8./15 || got.Beside[0].Others != 0 {
		t.Errorf("got %+v", got.Beside)
	}
	flame := jsonOf[struct{ Nodes []struct{ Count int } }](t, served(t, all), "/api/flame")
	if len(flame.Nodes) != 1 || flame.Nodes[0].Count != 32 {
		t.Errorf("the flame is %+v", flame.Nodes)
	}
}

// TestTwoQueries compares the rows of two queries.
func TestTwoQueries(t *testing.T) {
	v := viewOf(t, format.ET, randomTrace(7, 800))
	h := serve(t, v, viewer.Options{})
	ask := url.Values{"q": {"service = front"}, "than": {"service = back"}}
	c := jsonOf[struct {
		In, Others int
		Fields     []struct {
			Values []struct {
				Where      string
				In, Others int
			}
		}
	}](t, h, "/api/facets?"+ask.Encode())
	if in, others := resultOf(t, v, "service = front").Rows.Len(), resultOf(t, v, "service = back").Rows.Len(); c.In != in || c.Others != others {
		t.Errorf("%d rows and %d, want %d and %d", c.In, c.Others, in, others)
	}
	for _, f := range c.Fields {
		for _, x := range f.Values {
			in, others := resultOf(t, v, "{ ("+x.Where+") && service = front }").Rows.Len(), resultOf(t, v, "{ ("+x.Where+") && service = back }").Rows.Len()
			if in != x.In || others != x.Others {
				t.Errorf("%s: %d and %d, want %d and %d", x.Where, x.In, x.Others, in, others)
			}
		}
	}
	table := jsonOf[struct {
		Lines []struct{ Values []any }
		Total int
	}](t, h, "/api/table?form=compare&"+ask.Encode())
	want, err := analyze.Compare(t.Context(), []query.Run{{View: v, Rows: resultOf(t, v, "service = back").Rows}}, []query.Run{{View: v, Rows: resultOf(t, v, "service = front").Rows}})
	must(t, err)
	if table.Total != len(want.Paths) || table.Total == 0 {
		t.Errorf("%d paths, want %d", table.Total, len(want.Paths))
	}
	span := view.Row(0)
	for v.Role(span) != view.RoleSpan {
		span++
	}
	type group struct{ Count, Failed int }
	ask = url.Values{"row": {fmt.Sprint(span)}, "q": {".slow = yes"}, "than": {"!(.slow = yes)"}}
	why := jsonOf[struct {
		Where   string
		Against struct{ Here, There group }
	}](t, h, "/api/why?"+ask.Encode())
	count := func(q string) group {
		of := strings.Replace(why.Where, " }", " && "+q, 1)
		return group{resultOf(t, v, of+" && duration != nil }").Rows.Len(), resultOf(t, v, of+" && (span:failed || level >= error) }").Rows.Len()}
	}
	if here, there := count(".slow = yes"), count("!(.slow = yes)"); why.Against.Here != here || why.Against.There != there || here.Count == 0 || there.Count == 0 {
		t.Errorf("%+v, want %+v and %+v", why.Against, here, there)
	}
}

// TestHitsAmongTheirNamesakes checks that with the parameter alike, hits are compared with other rows of the same
// names.
func TestHitsAmongTheirNamesakes(t *testing.T) {
	v := viewOf(t, format.ET, randomTrace(7, 800))
	h := serve(t, v, viewer.Options{})
	for _, q := range []string{"{ span:failed }", ".slow = yes", "level = error"} {
		hits, want, names := resultOf(t, v, q).Rows, 0, make(map[string]bool)
		for r := range hits.All() {
			names[v.Name(r)] = true
		}
		for r := range resultOf(t, v, "{}").Rows.All() {
			if names[v.Name(r)] && !hits.Has(r) {
				want++
			}
		}
		c := jsonOf[struct{ In, Others int }](t, h, "/api/facets?alike=true&q="+url.QueryEscape(q))
		if c.In != hits.Len() || c.Others != want || want == 0 {
			t.Errorf("%s: %d rows and %d others, want %d and %d", q, c.In, c.Others, hits.Len(), want)
		}
	}
}
