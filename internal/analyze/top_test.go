package analyze_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// TestTop compares an overview with one that a simple model computes from all rows.
func TestTop(t *testing.T) {
	for seed := range uint64(20) {
		v := viewOf(t, shop(rand.New(rand.NewPCG(seed, 7)), 300))
		rows := everything(t, v)
		got, err := analyze.Top(t.Context(), v, rows, 5, nil)
		must(t, err)
		var ended, open []view.Row
		var times []int64
		spans, errs := 0, 0
		for r := range v.Rows() {
			if !rows.Has(r) {
				continue
			}
			start, timed := v.Start(r)
			took, over := v.Duration(r)
			if v.Role(r) == view.RoleSpan {
				spans++
				inside := false
				for up := v.Parent(r); up != 0; up = v.Parent(up) {
					inside = inside || v.Role(up) == view.RoleSpan
				}
				if over && !inside {
					ended = append(ended, r)
				} else if !over {
					open = append(open, r)
				}
			}
			if timed {
				times = append(times, start, start+int64(took))
			}
			if v.Role(r) != view.RoleEvent && (v.Flags(r).Level() == format.LevelError || v.Flags(r).Status() == "error" || hasException(v, r)) {
				errs++
			}
		}
		slices.SortStableFunc(ended, func(a, b view.Row) int {
			x, _ := v.Duration(a)
			y, _ := v.Duration(b)
			return cmp.Compare(y, x)
		})
		slices.SortStableFunc(open, func(a, b view.Row) int {
			x, _ := v.Start(a)
			y, _ := v.Start(b)
			return cmp.Compare(x, y)
		})
		slices.Sort(times)
		first := func(list []view.Row) []view.Row {
			return slices.Clip(append([]view.Row{}, list[:min(5, len(list))]...))
		}
		if got.Spans != spans || got.Errors != errs || got.Open != len(open) || int64(got.First) != times[0] || int64(got.Last) != times[len(times)-1] {
			t.Fatalf("seed %d: %+v", seed, got)
		}
		var slowest []analyze.SlowRequest // of each service and name
		for _, r := range ended {
			of := func(x analyze.SlowRequest) bool {
				return v.Name(x.Row) == v.Name(r) && v.Service(x.Row) == v.Service(r)
			}
			if i := slices.IndexFunc(slowest, of); i >= 0 {
				slowest[i].Count++
			} else {
				slowest = append(slowest, analyze.SlowRequest{Row: r, Count: 1})
			}
		}
		slowest = slowest[:min(5, len(slowest))]
		if !slices.Equal(got.Slowest, slowest) || !reflect.DeepEqual(got.NeverEnded, first(open)) {
			t.Fatalf("seed %d: slowest %v, want %v; open %v, want %v", seed, got.Slowest, slowest, got.NeverEnded, first(open))
		}
		var gaps []int64
		for i := 1; i < len(times); i++ {
			if d := times[i] - times[i-1]; d > 1 {
				gaps = append(gaps, d)
			}
		}
		slices.Sort(gaps)
		slices.Reverse(gaps)
		var found []int64
		for _, g := range got.Gaps {
			found = append(found, g.Duration)
		}
		expect.Slice(t, found, gaps[:min(5, len(gaps))], "seed %d: gaps", seed)
	}
}

// TestTopPatterns checks that errors are counted by their patterns.
func TestTopPatterns(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	log := func(text string) {
		all = append(all, &format.TraceEntry{Message: format.Some(text), Metadata: format.Metadata{Name: "event", Level: format.LevelError}})
	}
	for i := range 7 {
		log(fmt.Sprintf("user %d is unknown", i))
	}
	for i := range analyze.MaxPatterns + 10 {
		log("other " + letters(i))
	}
	s := span(0, "1", "pay", 0, 5)
	s.Metadata.Level = format.LevelError
	s.Attributes = append(s.Attributes, tracetest.Attributes(mapping.AttrStatusCode, "ERROR", mapping.AttrStatusDescription, "no card 12")...)
	all = append(all, s)
	v := viewOf(t, all)
	got, err := analyze.Top(t.Context(), v, everything(t, v), 3, nil)
	must(t, err)
	expect.Equal(t, got.Patterns[0], analyze.ErrorPattern{Pattern: "user <number> is unknown", Role: view.RoleLog, Count: 7, First: 1}, "the first one")
	if n := 9 + got.OtherErrors; n != got.Errors || n != 7+analyze.MaxPatterns+10+1 {
		t.Errorf("%d of %d errors are told of", n, got.Errors)
	}
	r := querytest.Result(t, v, `name = "pay"`)
	got, err = analyze.Top(t.Context(), v, r.Rows, 3, nil)
	must(t, err)
	if len(got.Patterns) != 1 || got.Patterns[0].Pattern != "pay: no card <number>" {
		t.Errorf("of a span it is %+v", got.Patterns)
	}
}

// TestTopCountsNoServiceOfCrash checks that the text of a crash counts as an error, but does not add a service
// without a name.
func TestTopCountsNoServiceOfCrash(t *testing.T) {
	resource := tracetest.Resource("shop")
	crash := &format.TraceEntry{Message: format.Some("panic: no stock"), Metadata: format.Metadata{Name: mapping.NameCrash, Level: format.LevelError}}
	v := viewOf(t, []*format.TraceEntry{format.Root(), resource, span(1, "1", "pay", 0, 5), crash})
	got, err := analyze.Top(t.Context(), v, everything(t, v), 3, nil)
	must(t, err)
	if len(got.Services) != 1 || got.Services[0].Service != "shop" || got.Errors != 1 {
		t.Errorf("the services are %v; %d errors", got.Services, got.Errors)
	}
}

// TestTopLeavesOutRuns: the span of entrace run above all other spans does not count as a request, unless it is
// the only span.
func TestTopLeavesOutRuns(t *testing.T) {
	resource := func(name string) *format.TraceEntry {
		return tracetest.Resource(name, "service.name", name)
	}
	run := []*format.TraceEntry{format.Root(), resource(mapping.RunService), span(1, "1", "app.py", 0, 900)}
	sent := span(3, "2", "GET", 1, 8)
	sent.Add(format.AttrParentSpanID, format.StringValue("0000000000000001"))
	for want, all := range map[string][]*format.TraceEntry{"app.py": run, "GET": append(slices.Clone(run), resource("shop"), sent)} {
		v := viewOf(t, all)
		got, err := analyze.Top(t.Context(), v, everything(t, v), 3, nil)
		must(t, err)
		if len(got.Slowest) != 1 || v.Name(got.Slowest[0].Row) != want || len(got.Self.Lines) != 1 {
			t.Errorf("the slowest are %v, want %s; %d lines", got.Slowest, want, len(got.Self.Lines))
		}
	}
}

// TestTopTellsAPanicOnce checks that a panic counts as one error, although it adds the same
// exception to each span that it passes through.
func TestTopTellsAPanicOnce(t *testing.T) {
	all := []*format.TraceEntry{format.Root()}
	below := func(parent uint32, e *format.TraceEntry) uint32 {
		e.Parent = parent
		all = append(all, e)
		return uint32(len(all) - 1)
	}
	exception := func(parent uint32, message string) {
		below(parent, &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameException, Level: format.LevelError}, Attributes: tracetest.Attributes(mapping.AttrEvent, true, "exception.message", message)})
	}
	get := below(0, span(0, "1", "GET", 0, 9))
	compute := below(get, span(0, "2", "compute", 1, 7))
	inner := below(compute, span(0, "3", "divide", 2, 5))
	other := below(get, span(0, "4", "other", 8, 1))
	for _, id := range []uint32{get, compute, inner} {
		exception(id, "nil map")
	}
	exception(other, "refused")
	v := viewOf(t, all)
	for text, want := range map[string]string{
		`{}`:                   "divide: nil map; other: refused",
		`{ name = "GET" }`:     "GET: nil map",
		`{ name != "divide" }`: "compute: nil map; other: refused",
	} {
		r := querytest.Result(t, v, text)
		o, err := analyze.Top(t.Context(), v, r.Rows, 5, nil)
		must(t, err)
		var got []string
		for _, p := range o.Patterns {
			got = append(got, p.Pattern)
		}
		slices.Sort(got)
		if strings.Join(got, "; ") != want || o.OtherErrors != 0 {
			t.Errorf("%s: errors say %q, and there are %d others; want %s", text, got, o.OtherErrors, want)
		}
	}
}

// TestTopTellsAFailureOnce checks that spans which pass a failure on, and log records that repeat it, do not count.
func TestTopTellsAFailureOnce(t *testing.T) {
	x := tracetest.New(t, format.V2, format.IET, format.Root())
	spans := 0
	failed := func(parent uint32, name string, why ...any) uint32 {
		spans++
		e := span(0, strconv.Itoa(spans), name, int64(spans), 9)
		e.Attributes = append(e.Attributes, tracetest.Attributes(append(why, mapping.AttrStatusCode, "ERROR")...)...)
		return x.AddBelow(e, parent)
	}
	logged := func(parent uint32, message string) {
		e := tracetest.Log(message)
		e.Metadata.Level = format.LevelError
		x.AddBelow(e, parent)
	}
	get := failed(0, "GET")
	logged(get, "no order: 503: no quota left")
	logged(get, "no disk")
	failed(failed(get, "HTTP GET"), "charge", mapping.AttrStatusDescription, "no quota left")
	failed(0, "silent")
	logged(failed(0, "said by a record"), "no stock")
	v := x.View()
	o, err := analyze.Top(t.Context(), v, everything(t, v), 9, nil)
	must(t, err)
	var got []string
	for _, p := range o.Patterns {
		got = append(got, p.Role.String()+" "+p.Pattern)
	}
	slices.Sort(got)
	expect.Slice(t, got, []string{"log no disk", "log no stock", "span charge: no quota left", "span silent"}, "errors")
}

// letters returns a text of letters that is different for each number.
func letters(n int) string {
	var s strings.Builder
	for ; n > 0; n /= 26 {
		s.WriteString(string(rune('a' + n%26)))
	}
	return s.String()
}

// recovered returns a trace with four spans: one with an exception and unset status, one with an
// exception and status error, one with an exception and status ok, and one with another event.
func recovered() []*format.TraceEntry {
	event := func(parent uint32, name, message string) *format.TraceEntry {
		return &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: format.LevelError}, Attributes: tracetest.Attributes(mapping.AttrEvent, true, "exception.message", message)}
	}
	all := []*format.TraceEntry{
		format.Root(), span(0, "1", "GET /panic", 0, 9), span(0, "2", "GET /fail", 10, 9), span(0, "3", "GET /ok", 20, 9), span(0, "4", "GET /retry", 30, 9),
		event(1, "exception", "nil map"), event(1, "exception", "again"), event(2, "exception", "refused"), event(3, "exception", "handled"), event(4, "retry", "once"),
	}
	all[2].Metadata.Level = format.LevelError
	all[2].Add(mapping.AttrStatusCode, format.StringValue("ERROR"))
	all[3].Add(mapping.AttrStatusCode, format.StringValue("OK"))
	return all
}

// TestExceptionFailsItsSpan checks that a span with unset status and an exception counts as one
// error everywhere, and that its status stays unset.
func TestExceptionFailsItsSpan(t *testing.T) {
	v := viewOf(t, recovered())
	for text, want := range map[string][]view.Row{
		`{ span:failed }`:                       {1, 2},
		`{ span:failed = false }`:               {3, 4},
		`{ span:failed != true }`:               {3, 4},
		`{ span:failed && name = "GET /panic"}`: {1},
		`{ status = error }`:                    {2},
		`{ status = unset }`:                    {1, 4},
		`level >= error`:                        {1, 2, 5, 6, 7, 8, 9},
		`{ level = info }`:                      {3, 4},
		`error`:                                 {1, 2, 5, 6, 7, 8, 9},
	} {
		r := querytest.Result(t, v, text)
		expect.Slice(t, slices.Collect(r.Rows.All()), want, "%s selects", text)
	}
	rows := everything(t, v)
	o, err := analyze.Top(t.Context(), v, rows, 10, nil)
	must(t, err)
	if o.Errors != 2 || o.OtherErrors != 0 {
		t.Errorf("Top counts %d errors, and %d others", o.Errors, o.OtherErrors)
	}
	want := []analyze.ErrorPattern{
		{Pattern: "GET /panic: nil map", Role: view.RoleSpan, Count: 1, First: 1}, {Pattern: "GET /fail: refused", Role: view.RoleSpan, Count: 1, First: 2},
	}
	expect.Slice(t, o.Patterns, want, "the patterns")
	table, err := query.Summary(t.Context(), v, rows, nil)
	must(t, err)
	for _, line := range table.Lines {
		want := "0"
		if name := line[1].String(); name == "GET /panic" || name == "GET /fail" {
			want = "1"
		}
		expect.Equal(t, line[3].String(), want, "errors of %s", line[1])
	}
}

// TestTopGrows: leaked goroutines and leaked memory are reported as growth. A heap that garbage collections
// empty, or that is filled only at the start, is not.
func TestTopGrows(t *testing.T) {
	const mib = 1 << 20
	for name, x := range map[string]struct {
		heap, goroutines func(i int) int
		want             string
	}{
		"a leak":  {func(i int) int { return (4 + i%7) * mib }, func(i int) int { return 20 + 5*i }, "[{goroutines 20 165 29000000000 true}]"},
		"kept":    {func(i int) int { return (1 + 15*i) * mib }, func(int) int { return 20 }, "[{MiB of the heap 1 436 29000000000 true}]"},
		"later":   {func(int) int { return 0 }, func(i int) int { return 20 + 50*max(0, i-12) }, "[{goroutines 20 870 29000000000 false}]"},
		"a start": {func(i int) int { return min(i, 5) * 40 * mib }, func(i int) int { return min(20+5*i, 60) }, "[]"},
		"too few": {func(int) int { return 0 }, func(i int) int { return 1 + i/10 }, "[]"},
		"a burst": {func(i int) int { return (1 + i%2) * 100 * mib }, func(i int) int { return 20 + 500*(i/10%2) }, "[]"},
		"no heap": {func(i int) int { return i * 100000 }, func(int) int { return 5 }, "[]"},
	} {
		trace := tracetest.New(t, format.V2, format.ET)
		trace.Add(format.Root())
		for i := range 30 {
			trace.Add(&format.TraceEntry{Metadata: format.Metadata{Name: "runtime.metrics", Target: "runtime/metrics"}, Attributes: tracetest.Attributes(
				format.AttrTime, 1e18+uint64(i)*1e9,
				"/memory/classes/heap/objects:bytes", uint64(x.heap(i)),
				"/sched/goroutines:goroutines", uint64(x.goroutines(i)),
			)})
		}
		v := trace.View()
		top, err := analyze.Top(t.Context(), v, everything(t, v), 5, nil)
		must(t, err)
		expect.Equal(t, fmt.Sprint(top.Growth), x.want, "%s: grows", name)
	}
}

// TestTopCountsRequests: a failed request counts once, even if spans below it and log records also report the
// failure. The pattern of a log record includes the error in its attributes.
func TestTopCountsRequests(t *testing.T) {
	entries := []*format.TraceEntry{format.Root(), span(0, "1", "GET /a", 1, 5), span(1, "2", "call", 2, 2), span(0, "3", "GET /b", 9, 5)}
	for _, failed := range entries[1:3] {
		failed.Metadata.Level = format.LevelError
	}
	for _, err := range []string{"upstream is gone", "upstream is gone", "no such user"} {
		e := &format.TraceEntry{Parent: 1, Message: format.Some("request failed"), Metadata: format.Metadata{Name: "event", Level: format.LevelError}}
		e.Add("err", format.StringValue(err))
		entries = append(entries, e)
	}
	v := viewOf(t, entries)
	top, err := analyze.Top(t.Context(), v, everything(t, v), 9, nil)
	must(t, err)
	if top.Failed != 1 || top.Errors != 5 || top.Patterns[0].Pattern != "request failed: upstream is gone" || top.Patterns[0].Count != 2 {
		t.Errorf("%d requests failed, %d errors: %+v", top.Failed, top.Errors, top.Patterns)
	}
}
