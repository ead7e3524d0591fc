package viewer_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

// at returns a span that began at start.
func at(parent uint32, id int, name string, start format.Value, took int64, more ...format.Attribute) *format.TraceEntry {
	return &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelInfo}, Attributes: append(tracetest.Attributes(
		format.AttrSpanID, fmt.Sprintf("%016x", id),
		format.AttrTraceID, fmt.Sprintf("%032x", 1),
		format.AttrTime, start,
		format.AttrDuration, uint64(took),
	), more...)}
}

func word(name, value string) format.Attribute {
	return format.Attribute{Name: name, Value: format.StringValue(value)}
}

// dataOf returns the parts of the data in a static page.
func dataOf(t *testing.T, h *viewer.Handler, q string) map[string]json.RawMessage {
	t.Helper()
	var page bytes.Buffer
	must(t, h.Static(t.Context(), &page, &viewer.StaticOptions{Query: q}))
	m := regexp.MustCompile(`id="entrace-data">([^<]*)<`).FindSubmatch(page.Bytes())
	if m == nil {
		t.Fatal("the page has no data")
	}
	b, err := base64.StdEncoding.DecodeString(string(m[1]))
	must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	var d map[string]json.RawMessage
	must(t, json.Unmarshal(text, &d))
	return d
}

// TestStaticHasNothingElse checks that a static page of selected rows contains no names, values, services or errors
// of other rows.
func TestStaticHasNothingElse(t *testing.T) {
	resource := func(name string) *format.TraceEntry {
		return tracetest.Resource(name, "service.name", name)
	}
	all := []*format.TraceEntry{format.Root(), resource("shop"), resource("hidden-service")}
	for i := range 30 {
		name, user, up := "chosen", "ada", uint32(1)
		if i%3 == 1 {
			name, user, up = "hidden-work", "hidden-customer", 2
		}
		if i%3 == 2 {
			name, user, up = "hidden-work", "hidden-customer", uint32(len(all)-2) // below a chosen span
		}
		all = append(all, at(up, i+1, name, format.U64Value(uint64(1000*ms+i*ms)), 1000, word("user", user), word("otel.status_code", "ERROR"), word("otel.status_description", "cannot charge "+user)))
	}
	d := dataOf(t, viewer.New(viewOf(t, format.ET, all), nil), `{ name = "chosen" }`)
	for part, text := range d {
		if strings.Contains(string(text), "hidden") {
			t.Errorf("%s has what was not chosen: %.600s", part, text)
		}
	}
	var top struct{ Spans, Errors int }
	must(t, json.Unmarshal(d["top"], &top))
	if top.Spans != 10 || top.Errors != 10 {
		t.Errorf("Top has %d spans and %d errors", top.Spans, top.Errors)
	}
}

// TestStaticRowsAreThoseOfTheTree compares the rows of a static page with the rows of a handler. A page of some rows
// must count only these rows.
func TestStaticRowsAreThoseOfTheTree(t *testing.T) {
	type line struct {
		Row, Below, Errors, Depth int
		Flags                     uint32
		Name, Service             string
		Text                      string
		Ticks                     []any
	}
	type row struct {
		Up   int
		Line line
	}
	h := viewer.New(viewOf(t, format.ET, randomTrace(3, 200)), nil)
	rows := func(q string) (all []row) {
		must(t, json.Unmarshal(dataOf(t, h, q)["rows"], &all))
		return all
	}
	all := rows("")
	want := jsonOf[struct{ Rows []line }](t, h, "/api/rows?depth=99&n=500").Rows
	expect.MustEqual(t, len(all), len(want), "rows of the page")
	for i, w := range want {
		w.Row, w.Flags = i+1, w.Flags&^(1<<16) // in the page, each row is closed
		expect.DeepEqual(t, all[i].Line, w, "row %d", i)
	}
	some := rows("{ span:failed }")
	for i, r := range some {
		below, errors := 0, 0
		for _, x := range some {
			for up := x.Up; up > 0; up = some[up-1].Up {
				if up == i+1 {
					below++
					errors += int(x.Line.Flags >> 20 & 1)
				}
			}
		}
		if got := [2]int{r.Line.Below, r.Line.Errors}; got != [2]int{below, errors} {
			t.Errorf("row %d of some has %d rows and errors below, want %d and %d", i, got, below, errors)
		}
	}
	if len(some) == 0 || len(some) == len(all) {
		t.Errorf("the query selects %d rows of %d", len(some), len(all))
	}
	expect.Equal(t, string(dataOf(t, h, `{ name = "nothing" }`)["rows"]), "[]", "a page without rows has") // the page does not read null
}

// TestGapsInWindow checks that the gaps of a window are times within the window in which nothing happened.
func TestGapsInWindow(t *testing.T) {
	all := []*format.TraceEntry{format.Root(), at(0, 1, "root", format.U64Value(1e18), 100e9)}
	for i := range 100 {
		all = append(all, at(1, i+2, fmt.Sprint("kid", i), format.U64Value(uint64(1e18+int64(i)*1e9)), 5e8))
	}
	h := served(t, all)
	got := jsonOf[struct {
		Gaps []struct {
			Took int64 `json:"duration_nano"`
		}
	}](t, h, fmt.Sprintf("/api/top?window=%d,%d", int64(1e18+40e9), int64(1e18+45e9)))
	if len(got.Gaps) == 0 {
		t.Error("there is no gap")
	}
	for _, g := range got.Gaps {
		if g.Took >= 1e9 {
			t.Errorf("in %+v there is a span each second", g)
		}
	}
}

// TestMetaChangesWithNotices checks that a client that loads the page again gets new notices.
func TestMetaChangesWithNotices(t *testing.T) {
	var notices []string
	h := viewer.New(viewOf(t, format.ET, randomTrace(1, 20)), &viewer.Options{Follow: true, Notices: func() []string { return notices }})
	tag := ask(h, http.MethodGet, "/api/meta?f=1").Header().Get("ETag")
	expect.Equal(t, ask(h, http.MethodGet, "/api/meta?f=1", "If-None-Match", tag).Code, http.StatusNotModified, "without news the answer")
	notices = []string{"the file is damaged"}
	expect.Equal(t, ask(h, http.MethodGet, "/api/meta?f=1", "If-None-Match", tag).Code, http.StatusOK, "with news the answer")
}

// TestTimesFarApart requests all answers about two spans that are more than 2⁶³ nanoseconds apart.
func TestTimesFarApart(t *testing.T) {
	h := serve(t, viewOf(t, format.ET, []*format.TraceEntry{
		format.Root(), at(0, 1, "early", format.I64Value(-9e18), 1000), at(0, 2, "late", format.I64Value(9e18), 1000),
	}), viewer.Options{})
	for _, path := range []string{
		"meta?", "rows?", "top?", "runtime?", "table?", "table?form=rows", "table?form=logs", "facets?", "flame?", "lanes?n=100", "why?row=1", "why?row=2", "critical?row=1", "strip?n=10",
		"strip?n=4000&q=late",
	} {
		for _, more := range []string{"", "&window=last:1000"} {
			if w := ask(h, http.MethodGet, "/api/"+path+more); w.Code != http.StatusOK || w.Body.Len() == 0 {
				t.Errorf("%s%s: %d %s", path, more, w.Code, w.Body)
			}
		}
	}
}

// TestRuntimeOfManySamples checks the answer about too many samples: each item stands for several samples, and has
// the largest value of them.
func TestRuntimeOfManySamples(t *testing.T) {
	all := []*format.TraceEntry{format.Root(), {Metadata: format.Metadata{Name: "runtime.metrics", Target: "runtime/metrics"}, Attributes: tracetest.Attributes(format.AttrTime, uint64(1e18), "/sched/goroutines:goroutines", math.NaN())}}
	for i := range 9001 {
		pause := uint64(1000)
		if i == 4444 {
			pause = 5e6
		}
		all = append(all, &format.TraceEntry{Metadata: format.Metadata{Name: "gc", Target: "runtime/debug"}, Attributes: tracetest.Attributes(format.AttrTime, uint64(1e18+int64(i)*1e8), format.AttrDuration, pause)})
	}
	got := jsonOf[struct {
		Goroutines  []any
		Collections []struct {
			Value float64
			Count int
		}
	}](t, served(t, all), "/api/runtime")
	most, n := 0.0, 0
	for _, x := range got.Collections {
		most = max(most, x.Value)
		n += x.Count
	}
	if most != 5e6 || n != 9001 || len(got.Collections) > 4000 || len(got.Goroutines) > 0 {
		t.Errorf("%d collections in %d, the longest pause of %v; %d numbers of goroutines", n, len(got.Collections), most, len(got.Goroutines))
	}
}

// TestWhyOfNoFailures checks that why explains the slow spans of a name if none failed, even if the request asks
// for failed spans. Bars of the longest possible durations do not overflow.
func TestWhyOfNoFailures(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	for i := range 40 {
		took := int64(10 * ms)
		if i%8 == 0 {
			took = math.MaxInt64
		}
		all = append(all, at(0, i+1, "s", format.U64Value(uint64(1e18+int64(i)*1e9)), took))
	}
	w := jsonOf[struct {
		Of   string
		Slow int
		Bars []struct {
			To int64 `json:"to_nano"`
		}
	}](t, served(t, all), "/api/why?row=1&of=failed")
	if w.Of != "slow" || w.Slow != 5 || w.Bars[len(w.Bars)-1].To < 0 {
		t.Errorf("it is %+v", w)
	}
}

// TestWhyCut checks which spans are slow if there are three groups of durations: only the slowest group, even if a
// few spans are far shorter than the others, or a third is somewhat longer. Spans in a range that the user has
// drawn are compared with all others.
func TestWhyCut(t *testing.T) {
	for name, most := range map[string]func(i int) int64{
		"a few are short":        func(i int) int64 { return []int64{8, 8, 8, 8, 8, 8, 8, 8, 8, 1}[i/10%10] },
		"a third is rather slow": func(i int) int64 { return []int64{1, 1, 4}[i%3] },
	} {
		all := []*format.TraceEntry{format.Root()}
		for i := range 1500 {
			took := most(i) * int64(ms)
			if i >= 1490 {
				took = int64(200+i%10) * int64(ms)
			}
			all = append(all, at(0, i+1, "s", format.U64Value(uint64(1e18+int64(i)*1e9)), took))
		}
		type why struct {
			Of     string
			Slow   int
			Least  int64 `json:"least_nano"`
			Most   int64 `json:"most_nano"`
			Among  bool
			Shares struct{ In, Others int }
		}
		h := served(t, all)
		if w := jsonOf[why](t, h, "/api/why?row=1500"); w.Slow != 10 || w.Shares.In != 10 || w.Least < 200*ms || !w.Among {
			t.Errorf("%s: it is %+v", name, w)
		}
		w := jsonOf[why](t, h, "/api/why?row=1500&of=200000000-205000000")
		expect.Equal(t, w, (why{"drawn", 10, 200 * ms, 205 * ms, false, struct{ In, Others int }{5, 1495}}), "%s", name)
		expect.Equal(t, ask(h, "GET", "/api/why?row=1500&of=a-b").Code, http.StatusBadRequest, "two words")
	}
}

// TestFlameOfLongNames checks that the comparison does not confuse long names with the same beginning.
func TestFlameOfLongNames(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	long := "SELECT " + strings.Repeat("column, ", 60) + " FROM "
	for i := range 40 {
		name, took := long+"a", int64(10*ms)
		if i%2 == 1 {
			name, took = long+"b", 1000*ms
		}
		all = append(all, at(0, i+1, name, format.U64Value(uint64(1e18+int64(i)*1e9)), took, word("half", fmt.Sprint(i/20))))
	}
	f := jsonOf[struct{ Nodes []struct{ More float64 } }](t, served(t, all), "/api/flame?q=.half%20%3D%20%221%22")
	if len(f.Nodes) != 2 || math.Abs(f.Nodes[0].More) > 1e-9 || math.Abs(f.Nodes[1].More) > 1e-9 {
		t.Errorf("hits that take as long as the others are %+v", f.Nodes)
	}
}

// TestRowOfFileWithHash checks that the name of a file may contain #, which also separates the name from the
// entry.
func TestRowOfFileWithHash(t *testing.T) {
	h := viewer.New(viewOf(t, format.ET, randomTrace(1, 20)), &viewer.Options{Names: func(int) string { return "run#3.et" }})
	id := jsonOf[struct{ ID string }](t, h, "/api/entry?row=4").ID
	if w := ask(h, http.MethodGet, "/api/row?id="+strings.ReplaceAll(id, "#", "%23")); w.Code != http.StatusOK {
		t.Errorf("%s: %d %s", id, w.Code, w.Body)
	}
}

// TestTableIsWhatRowsSay compares the table by name with counts over the rows, also in a window.
func TestTableIsWhatRowsSay(t *testing.T) {
	for seed := range uint64(4) {
		v := viewOf(t, format.ET, randomTrace(seed+50, 3000))
		h := serve(t, v, viewer.Options{})
		for _, window := range [][2]int64{{math.MinInt64, math.MaxInt64}, {1300000000, 1500000000}} {
			path := "/api/table?"
			if window[0] > 0 {
				path += fmt.Sprintf("window=%d,%d", window[0], window[1])
			}
			for _, l := range jsonOf[struct{ Lines []struct{ Values []any } }](t, h, path).Lines {
				n, errs, took := tally(v, fmt.Sprint(l.Values[0]), fmt.Sprint(l.Values[1]), window)
				q := func(x float64) string { return fmt.Sprint(took[int(math.Ceil(x*float64(len(took))))-1]) }
				got, want := fmt.Sprintln(l.Values[2], l.Values[3], l.Values[5:9]), fmt.Sprintln(n, errs, []string{q(.5), q(.95), q(.99), q(1)})
				expect.Equal(t, got, want, "seed %d, %v, %v", seed, window, l.Values[:2])
			}
		}
	}
}

// tally counts the spans of a service and name that overlap a window.
func tally(v *view.View, service, name string, window [2]int64) (n, errs int, took []int64) {
	for r := range v.Rows() {
		if v.Role(r) != view.RoleSpan || v.Name(r) != name || v.Service(r) != service {
			continue
		}
		start, _ := v.Start(r)
		d, ended := v.Duration(r)
		if start > window[1] || ended && start+int64(d) < window[0] {
			continue
		}
		n++
		if v.Flags(r).Failed() {
			errs++
		}
		if ended {
			took = append(took, int64(d))
		}
	}
	slices.Sort(took)
	return n, errs, took
}

// TestFlameBottomUp checks a flame with by=up: each name is a root with the sum of its self times, and below it
// are the names that were above it.
func TestFlameBottomUp(t *testing.T) {
	var all []*format.TraceEntry
	all = append(all, format.Root())
	for i := range 3 { // three times: a › b › c, and a › c
		add := func(up uint32, name string, start, took int64) uint32 {
			all = append(all, at(up, len(all), name, format.U64Value(uint64(1e18+int64(i)*1e9+start)), took))
			return uint32(len(all) - 1)
		}
		a := add(0, "a", 0, 100)
		b := add(a, "b", 10, 50)
		add(b, "c", 20, 30)
		add(a, "c", 70, 20)
	}
	f := jsonOf[struct {
		Nodes []struct {
			Name   string
			Up     int
			Self   int64 `json:"self_nano"`
			Count  int
			Weight float64
		}
	}](t, serve(t, viewOf(t, format.ET, all), viewer.Options{}), "/api/flame?by=up")
	got := make(map[string]string)
	for _, n := range f.Nodes {
		name := n.Name
		for up := n.Up; up >= 0; up = f.Nodes[up].Up {
			name = f.Nodes[up].Name + " < " + name
		}
		got[name] = fmt.Sprint(n.Self, n.Count, math.Round(100*n.Weight))
	}
	want := map[string]string{
		"a": "90 3 30", "b": "60 3 20", "b < a": "60 3 20", "c": "150 6 50", "c < a": "60 3 20", "c < b": "90 3 30", "c < b < a": "90 3 30",
	}
	if !maps.Equal(got, want) {
		t.Errorf("it is %v, want %v", got, want)
	}
}

// TestRequestOfCalls checks that why compares the requests of slow calls if the calls have no attributes. It also
// checks that the details of a failed request have the innermost failure below it, in the last failed child.
func TestRequestOfCalls(t *testing.T) {
	all, id := []*format.TraceEntry{format.Root()}, 0
	add := func(parent int, name string, took int64, pairs ...any) int {
		id++
		e := at(uint32(parent), id, name, format.U64Value(uint64(1e18+int64(id)*1e9)), took)
		e.Attributes = append(e.Attributes, tracetest.Attributes(pairs...)...)
		all = append(all, e)
		return len(all) - 1
	}
	for i := range 40 {
		request := add(0, "GET /", 200*ms, "tenant", fmt.Sprint("t", i%8))
		took := int64(10*ms + i)
		if i%8 == 3 {
			took = 100 * ms
		}
		add(request, "SELECT", took)
	}
	failed := func(says string) []any {
		return []any{mapping.AttrStatusCode, "ERROR", mapping.AttrStatusDescription, says}
	}
	request := add(0, "GET /broken", 200*ms, failed("")...)
	add(request, "try", ms, failed("refused")...)
	again := add(request, "try", ms, failed("")...)
	add(again, "connect", ms, failed("timeout")...)
	h := served(t, all)
	type shares struct {
		Fields []struct {
			Field  string
			Values []struct{ Where string }
		}
	}
	w := jsonOf[struct{ Shares, Request shares }](t, h, "/api/why?row=2")
	if len(w.Shares.Fields) != 0 || len(w.Request.Fields) != 1 || w.Request.Fields[0].Values[0].Where != `.tenant = "t3"` {
		t.Errorf("it is %+v", w)
	}
	for row, want := range map[int]string{request: "connect: timeout", again: "connect: timeout", request + 1: ""} {
		d := jsonOf[struct{ Inner *struct{ Name string } }](t, h, fmt.Sprint("/api/entry?row=", row))
		if got := d.Inner; (got == nil) != (want == "") || got != nil && got.Name != want {
			t.Errorf("within row %d failed %+v, want %q", row, got, want)
		}
	}
}
