package analyze_test

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

func record(t testing.TB, m *querytest.Mall, seed uint64) query.Run {
	t.Helper()
	v := m.Record(t, seed).View()
	return query.Run{View: v, Rows: everything(t, v)}
}

func explained(t *testing.T, before, now []query.Run, since analyze.Time) *analyze.Explanation {
	t.Helper()
	x, err := analyze.Explain(t.Context(), &analyze.Question{Before: before, Now: now, Since: since, Alike: true})
	must(t, err)
	return x
}

// blames reports whether the verdict names the first cause, and whether that is in the service.
func blames(x *analyze.Explanation, service string) bool {
	return x.Found && x.Causes[0].Service == service && strings.HasPrefix(x.Verdict, "cause: "+service+", "+x.Causes[0].Operation)
}

// TestExplainServicesOfOneRoute: two services may have spans with the same name, and the time is in one of the services.
func TestExplainServicesOfOneRoute(t *testing.T) {
	x := tracetest.New(t, format.V2, format.IET, format.Root())
	front := x.Add(tracetest.Resource("front", "service.name", "front"))
	stock := x.Add(tracetest.Resource("stock", "service.name", "stock"))
	for i := range int64(60) {
		x.Add(span(front, fmt.Sprint(2*i+1), "GET /buy", 10*i, 9))
		e := span(stock, fmt.Sprint(2*i+2), "GET /buy", 10*i+1, 7)
		e.Add(format.AttrParentSpanID, format.StringValue(fmt.Sprintf("%016d", 2*i+1)))
		x.Add(e)
	}
	v := x.View()
	got := explained(t, nil, []query.Run{{View: v, Rows: everything(t, v)}}, analyze.NoTime)
	expect.Has(t, got.Verdict, "GET /buy is in GET /buy of stock", "the verdict")
}

// TestExplainHabit: if calls leave out a step, and no request is slower or fails because of it, the missing step is a
// change and not a cause.
func TestExplainHabit(t *testing.T) {
	x := explained(t, []query.Run{record(t, &querytest.Mall{Requests: 200}, 1)}, []query.Run{record(t, &querytest.Mall{Requests: 200, Gone: true}, 2)}, analyze.NoTime)
	if x.Found || len(x.Habits) == 0 || !strings.HasPrefix(x.Habits[0].Text, "no longer done call stock: now in 0 of ") {
		t.Errorf("it says %s, and of habits %+v", x.Verdict, x.Habits)
	}
}

// TestExplain: Explain finds each kind of fault, with the right service and evidence.
func TestExplain(t *testing.T) {
	healthy := record(t, &querytest.Mall{Requests: 200}, 1)
	for name, c := range map[string]struct {
		mall                      querytest.Mall
		service, kind, says, asks string
	}{
		"an operation is slower":     {querytest.Mall{Slow: map[string]float64{"UPDATE stock": 1.5}}, "stock", "slower", "median ", `{ service = "stock" && name = "UPDATE stock" && self > `},
		"its own work is slower":     {querytest.Mall{Slow: map[string]float64{"POST /order": 2}}, "shop", "slower", "median ", `{ service = "shop" && name = "POST /order" && self > `},
		"a network is slower":        {querytest.Mall{Delay: 3 * time.Millisecond}, "stock", "slower calls", "median ", `{ service = "stock" && parent:service = "shop" }`},
		"an error is more frequent":  {querytest.Mall{Declined: .3}, "shop", "error", "card declined for user <number>", `service = "shop" && "card declined for user"`},
		"an error that is passed on": {querytest.Mall{Fails: .3}, "stock", "error", "out of stock", `{ service = "stock" && name = "reserve" && (span:failed || level >= error) }`},
		"rows are read one by one":   {querytest.Mall{Reads: 8}, "shop", "more calls", "median 1 → 8 calls, over 1 in 200 of 200 (before 0 of 200)", `{ service = "shop" && name = "SELECT items" && parent:name = "POST /order" }`},
		"a cache is off":             {querytest.Mall{}, "shop", "more calls", "median 0 → 1 calls", `{ service = "shop" && name = "SELECT items" && parent:name = "POST /order" }`},
	} {
		t.Run(name, func(t *testing.T) {
			c.mall.Requests = 200
			before := healthy
			if name == "a cache is off" {
				before = record(t, &querytest.Mall{Requests: 200, From: 200, Hits: .8}, 1)
			}
			x := explained(t, []query.Run{before}, []query.Run{record(t, &c.mall, 2)}, analyze.NoTime)
			if !x.Found || len(x.Causes) == 0 || !blames(x, c.service) || x.Looked.Requests != [2]int{200, 200} || !x.Complete {
				t.Fatalf("it says %+v", x)
			}
			cause := x.Causes[0]
			e := cause.Evidence[0]
			if cause.Service != c.service || !cause.Sure || strings.HasSuffix(e.Text, ": "+cause.Operation) || string(cause.Kind) != c.kind || !strings.Contains(e.Text, c.says) || !strings.HasPrefix(cause.Query, c.asks) {
				t.Errorf("the cause is %+v", cause)
			}
			if x.Chance[1] == 0 || x.Chance[0] > 1 {
				t.Errorf("chance does as much in %v", x.Chance)
			}
		})
	}
}

// TestExplainCorrectedClock: calls between services are no cause if they are slower by no more than a corrected clock may
// be wrong.
func TestExplainCorrectedClock(t *testing.T) {
	before, now := []query.Run{record(t, &querytest.Mall{Requests: 200}, 1)}, []query.Run{record(t, &querytest.Mall{Requests: 200, Delay: 3 * time.Millisecond}, 2)}
	for exact, found := range map[time.Duration]bool{time.Millisecond: true, 5 * time.Millisecond: false} {
		q := &analyze.Question{Before: before, Now: now, Since: analyze.NoTime, Clocks: []analyze.Clock{{Name: "stock", Error: exact}}}
		x, err := analyze.Explain(t.Context(), q)
		must(t, err)
		if x.Found != found {
			t.Errorf("with a clock that may be wrong by %v: %s", exact, x.Verdict)
		}
	}
}

// TestExplainEqualRuns: Explain finds no cause between runs that differ only by noise.
func TestExplainEqualRuns(t *testing.T) {
	long(t)
	found, of := 0, seeds(15, 60)
	for seed := range of {
		x := explained(t, []query.Run{record(t, &querytest.Mall{Requests: 150}, 100+2*seed)}, []query.Run{record(t, &querytest.Mall{Requests: 150}, 101+2*seed)}, analyze.NoTime)
		if x.Found {
			found++
			t.Logf("seed %d: %s: %s", seed, x.Verdict, x.Causes[0].Evidence[0].Text)
		} else if !strings.HasPrefix(x.Verdict, "no cause found") || x.Chance != [2]int{} {
			t.Errorf("seed %d: %s", seed, x.Verdict)
		}
	}
	if 60*found > int(of) {
		t.Errorf("in %d of %d pairs of equal runs a cause is named", found, of)
	}
}

// TestExplainAlone: without a baseline, Explain divides the requests where the fault begins. It finds no cause in a
// healthy recording.
func TestExplainAlone(t *testing.T) {
	long(t)
	for seed := range seeds(8, 30) {
		if x := explained(t, nil, []query.Run{record(t, &querytest.Mall{Requests: 300, Report: -1}, 300+seed)}, analyze.NoTime); x.Found || x.Since != nil {
			t.Errorf("seed %d: a healthy recording has a cause: %+v", seed, x)
		}
	}
	for seed := range seeds(3, 8) {
		x := explained(t, nil, []query.Run{record(t, &querytest.Mall{Requests: 300, From: 200, Fails: .5}, 400+seed)}, analyze.NoTime)
		if !blames(x, "stock") || x.Since == nil {
			t.Fatalf("seed %d: %+v", seed, x)
		}
		if share := float64(x.Since.After) / float64(300*20*time.Millisecond); share < .55 || share > .78 {
			t.Errorf("seed %d: the first sign is at %.2f of the time, and not at two thirds", seed, share)
		}
	}
	for to := range 2 { // the first cause has its period, unless Since has it
		x := explained(t, nil, []query.Run{record(t, &querytest.Mall{Requests: 400, From: 200, To: 280 * to, Fails: .8}, 9)}, analyze.NoTime)
		at := func(i int) analyze.Time {
			return analyze.Time(1_700_000_000_000_000_000 + int64(i)*int64(20*time.Millisecond))
		}
		c, from := x.Causes[0], x.Causes[0].From
		if to == 0 {
			from = x.Since.At
		}
		if from < at(196) || from > at(206) || (to == 0) != (c.From == analyze.NoTime && c.To == analyze.NoTime) || to == 1 && (c.To < at(274) || c.To > at(284)) {
			t.Errorf("%d: since %v, it is from %v to %v, want from %v to %v", to, x.Since, c.From, c.To, at(200), at(280))
		}
	}
	// Explain mentions an error that happened only when the fault began.
	for _, m := range []querytest.Mall{{Slow: map[string]float64{"SELECT items": 8}}} {
		for _, panics := range []string{"worker panicked: index 7 is out of range", ""} {
			m.Requests, m.From, m.Panic, m.Collects = 400, 200, panics, panics != ""
			x := explained(t, nil, []query.Run{record(t, &m, 9)}, analyze.NoTime)
			var said strings.Builder
			for _, e := range x.Causes[0].Evidence {
				if e.Kind == "onset" {
					said.WriteString(e.Text + "; ")
				}
			}
			m.Again = true // an error that happens again later is not mentioned
			for _, e := range explained(t, nil, []query.Run{record(t, &m, 9)}, analyze.NoTime).Causes[0].Evidence {
				if strings.HasPrefix(e.Text, "only then") {
					t.Errorf("of an error that comes again: %s", e.Text)
				}
			}
			m.Again = false
			want := ""
			if panics != "" {
				want = "only then: error worker panicked: index <number> is out of range; garbage is collected 50 times a second from then on, before "
			}
			if !strings.HasPrefix(said.String(), want) || want == "" && said.String() != "" {
				t.Errorf("%v: %s, and when it began %q, want %q", m, x.Verdict, said.String(), want)
			}
		}
	}
	run := record(t, &querytest.Mall{Requests: 300, From: 200, Fails: .5}, 5)
	since := analyze.Time(1_700_000_000_000_000_000 + 200*int64(20*time.Millisecond))
	if x := explained(t, nil, []query.Run{run}, since); !blames(x, "stock") || x.Looked.Requests != [2]int{200, 100} || x.Failed[1] < 30 || x.Failed[0] > 20 {
		t.Errorf("since its begin: %+v", x)
	}
}

// TestExplainTriggered: Explain compares the requests after the trigger of a flight recorder with earlier ones, even if
// they are few.
func TestExplainTriggered(t *testing.T) {
	long(t)
	const from = 295
	of := func(m querytest.Mall, seed uint64, triggered bool) *analyze.Explanation {
		m.Requests, m.From = 300, from
		recorded := m.Record(t, seed)
		if triggered { // the trigger names a span within the request by its ids
			v := m.Record(t, seed).View()
			rows, err := runOn(t, v, `{ name = "reserve" && duration > 0ns }`)
			must(t, err)
			for r := range rows.Rows.All() {
				if at, _ := v.Start(r); at < 1_700_000_000_000_000_000+from*int64(20*time.Millisecond) {
					continue
				}
				ref := v.Ref(r)
				recorded.Add(&format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Level: format.LevelInfo}, Attributes: tracetest.Attributes(
					format.AttrTime, 1_700_000_000_000_000_000+(from+1)*uint64(20*time.Millisecond)+5e6,
					"request.trace_id", hex.EncodeToString(ref.TraceID[:]),
					"request.span_id", hex.EncodeToString(ref.SpanID[:]),
				)})
				break
			}
		}
		v := recorded.View()
		x, err := analyze.Explain(t.Context(), &analyze.Question{Now: []query.Run{{View: v, Rows: everything(t, v)}}, Since: analyze.NoTime})
		must(t, err)
		return x
	}
	slow := querytest.Mall{Slow: map[string]float64{"UPDATE stock": 3}}
	healthy, all := 0, seeds(5, 20)
	for seed := range all {
		if x := of(slow, 700+seed, false); x.Found {
			t.Errorf("seed %d: five requests are told apart without a trigger: %s", seed, x.Verdict)
		}
		if x := of(slow, 700+seed, true); !blames(x, "stock") || x.Looked.Requests != [2]int{from, 300 - from} || x.Since == nil {
			t.Errorf("seed %d: %+v", seed, x)
		}
		if of(querytest.Mall{}, 800+seed, true).Found {
			healthy++
		}
	}
	if 20*healthy > int(all) {
		t.Errorf("%d of %d healthy recordings have a cause", healthy, all)
	}
}

// TestExplainSelection: requests that a query selects are compared with other requests of the same name. Explain says
// which attribute they share.
func TestExplainSelection(t *testing.T) {
	run := record(t, &querytest.Mall{Requests: 400, Slow: map[string]float64{"SELECT items": 20}, Tenant: "t7"}, 6)
	r, err := runOn(t, run.View, `{ name = "GET /buy" && duration > 10ms }`)
	must(t, err)
	x := explained(t, nil, []query.Run{{View: run.View, Rows: r.Rows}}, analyze.NoTime)
	if !blames(x, "shop") || x.Causes[0].Operation != "SELECT items" {
		t.Errorf("it says %+v", x)
	}
	if len(x.Shares) != 1 || x.Shares[0].Pattern != `where .tenant = "t7"` || x.Shares[0].Now.N != r.Rows.Len() || x.Shares[0].Before.N > 2 {
		t.Errorf("they share %+v, of %d", x.Shares, r.Rows.Len())
	}
}

// TestExplainAllAlong: if nothing changes over time, the cause is a property that distinguishes slow calls, or calls
// with an error, from other calls of their operation.
func TestExplainAllAlong(t *testing.T) {
	for name, c := range map[string]struct {
		mall                              querytest.Mall
		verdict, kind, operation, because string
	}{
		"a slow tenant":         {querytest.Mall{Slow: map[string]float64{"SELECT items": 20}, Tenant: "t7"}, `cause: shop, SELECT items, where .tenant = "t7"`, "slow", "SELECT items", `.tenant = "t7": 2`},
		"a text that is long":   {querytest.Mall{Slow: map[string]float64{"SELECT items": 20}, Tenant: "t7", Note: strings.Repeat("x", 400)}, `cause: shop, SELECT items, where .tenant = "t7"`, "slow", "SELECT items", `.tenant = "t7": 22 of these 22 calls, 0 of the 372 others`},
		"a tenant and a cache":  {querytest.Mall{Slow: map[string]float64{"SELECT items": 20}, Tenant: "t7", Cached: true}, `cause: shop, SELECT items, where .tenant = "t7"`, "slow", "SELECT items", `.tenant = "t7": `},
		"a tenant with many":    {querytest.Mall{Reads: 20, Tenant: "t5"}, `cause: shop, POST /order → SELECT items, where .tenant = "t5"`, "more calls", "POST /order → SELECT items", `.tenant = "t5": `},
		"an instance":           {querytest.Mall{Slow: map[string]float64{"UPDATE stock": 20}, Pods: true}, `cause: stock, UPDATE stock, where resource.k8s.pod.name = "stock-1"`, "slow", "UPDATE stock", `resource.k8s.pod.name = "stock-1": 77 of these 77 calls, 0 of the 312 others`},
		"a tenant that fails":   {querytest.Mall{Fails: .8, Tenant: "t3"}, `cause: stock, reserve: out of stock, where .tenant = "t3"`, "error", "", `.tenant = "t3": `},
		"a lock of another one": {querytest.Mall{Report: 30 * time.Millisecond}, "cause: shop, SELECT items, while GET /report runs", "slow", "SELECT items", "GET /report of report runs during most of the call in 100 % of these calls and 1"},
	} {
		t.Run(name, func(t *testing.T) {
			c.mall.Requests = 400
			x := explained(t, nil, []query.Run{record(t, &c.mall, 6)}, analyze.NoTime)
			if !x.Found || x.Verdict != c.verdict || x.Since != nil || x.Looked.Requests[0] != 0 {
				t.Fatalf("it says %+v", x)
			}
			cause := x.Causes[0]
			if string(cause.Kind) != c.kind || cause.Operation != c.operation || !cause.Sure || len(cause.Evidence) != 2 || !strings.HasPrefix(cause.Evidence[1].Text, c.because) {
				t.Errorf("the cause is %+v", cause)
			}
		})
	}
}

// TestExplainSpreadErrors: an error that is rare in each operation of a service is found if all operations are tested
// together. A different mix of requests is not reported.
func TestExplainSpreadErrors(t *testing.T) {
	before := record(t, &querytest.Mall{Requests: 600, Spread: true}, 1)
	x := explained(t, []query.Run{before}, []query.Run{record(t, &querytest.Mall{Requests: 600, Spread: true, Declined: .1}, 2)}, analyze.NoTime)
	if x.Verdict != "cause: shop, card declined for user <number>" || !strings.Contains(x.Causes[0].Evidence[0].Text, " of 600 calls (before ") {
		t.Errorf("it says %+v", x)
	}
	if x := explained(t, []query.Run{before}, []query.Run{record(t, &querytest.Mall{Requests: 300}, 3)}, analyze.NoTime); x.Found {
		t.Errorf("another mix has a cause: %+v", x)
	}
}

// TestExplainHostile: Explain finds no cause in traces without requests, without times or with absurd times.
func TestExplainHostile(t *testing.T) {
	odd := func(start, took int64) *format.TraceEntry { return span(0, "0000000000000001", "odd", start, took) }
	for name, entries := range map[string][]*format.TraceEntry{
		"nothing":  {format.Root()},
		"logs":     {format.Root(), {Message: format.Some("alone"), Metadata: format.Metadata{Name: "event", Level: format.LevelError}}},
		"no time":  {format.Root(), tracetest.Entry("x", format.AttrSpanID, "0000000000000001")},
		"overflow": {format.Root(), odd(math.MaxInt64-5, math.MaxInt64-1), odd(-1<<62, math.MaxInt64-1)},
		"fixed":    fixed(),
	} {
		v := viewOf(t, entries)
		run := query.Run{View: v, Rows: everything(t, v)}
		for _, before := range [][]query.Run{nil, {run}, {record(t, &querytest.Mall{Requests: 5}, 1)}} {
			for _, since := range []analyze.Time{analyze.NoTime, math.MaxInt64, 0} {
				x := explained(t, before, []query.Run{run}, since)
				said := strings.HasPrefix(x.Verdict, "no cause found") || strings.HasPrefix(x.Verdict, "too few requests to find a change; ")
				if x.Found || !said {
					t.Errorf("%s: %+v", name, x)
				}
				expect.Is(t, expect.Err((&analyze.Form{Row: func(r view.Row) (any, error) { return int(r), nil }}).JSON(x, "")), nil, "%s", name)
			}
		}
	}
}

// TestExplainOthers: if runs have no operation in common, the verdict says that they cannot be compared.
func TestExplainOthers(t *testing.T) {
	v := viewOf(t, fixed())
	x := explained(t, []query.Run{record(t, &querytest.Mall{Requests: 5}, 1)}, []query.Run{{View: v, Rows: everything(t, v)}}, analyze.NoTime)
	if x.Verdict != "no cause found: too few calls of the same operations to compare" || x.Looked.Requests[0] != 5 {
		t.Errorf("it says %+v", x)
	}
}

// TestMoreErrors: Compare finds the one kind of error that is twice as frequent. Between equal runs it finds no
// error.
func TestMoreErrors(t *testing.T) {
	before := record(t, &querytest.Mall{Requests: 3000}, 1)
	for declined, want := range map[float64]string{0: "[]", .06: "[error card declined for user <number>]"} {
		d, err := analyze.Compare(t.Context(), []query.Run{before}, []query.Run{record(t, &querytest.Mall{Requests: 3000, Declined: declined}, 2)})
		must(t, err)
		var sure []string
		for _, e := range d.Errors {
			if e.Sure {
				sure = append(sure, string(e.Kind)+" "+e.Pattern)
			}
		}
		expect.Equal(t, fmt.Sprint(sure), want, "with %v declined are more frequent", declined)
	}
}
