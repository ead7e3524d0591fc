package analyze_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
)

func store(t testing.TB, o querytest.Store, seed uint64) query.Run {
	t.Helper()
	v := o.Record(t, seed).View()
	return query.Run{View: v, Rows: everything(t, v)}
}

func alone(t testing.TB, o querytest.Store, seed uint64) *analyze.Explanation {
	t.Helper()
	x, err := analyze.Explain(t.Context(), &analyze.Question{Now: []query.Run{store(t, o, seed)}, Since: analyze.NoTime})
	must(t, err)
	return x
}

// shifts is a load that goes from one route to the others.
func shifts(x float64) []float64 { return []float64{10 - 8*x, 1 + 6*x, 1 + 3*x, 0} }

// TestExplainHealthy: a recording without a fault has no cause, even if the load and the mix of requests change.
func TestExplainHealthy(t *testing.T) {
	long(t)
	found, of := 0, 0
	for name, o := range map[string]querytest.Store{
		"steady":                  {Requests: 900},
		"one route":               {Requests: 1500, Noise: .15, Mix: func(float64) []float64 { return []float64{1, 0, 0, 0} }},
		"drift":                   {Requests: 900, Drift: .1},
		"another mix":             {Requests: 900, Mix: shifts},
		"another mix, one name":   {Requests: 900, Mix: shifts, OneName: true},
		"a wrong clock":           {Requests: 900, Clock: -20 * time.Millisecond},
		"refused requests begin":  {Requests: 900, Missing: func(x float64) float64 { return max(0, x-.5) }},
		"a database is filled":    {Requests: 600, Filled: .4, Mix: func(x float64) []float64 { return []float64{max(0, 2*x-.8), max(0, 2*x-.8), 1, 0} }},
		"microseconds":            {Requests: 360, From: .5, Slow: map[string]float64{"sql.query": 2}, Mix: func(float64) []float64 { return []float64{1, 0, 0, 0} }},
		"failures from the start": {Requests: 900, Base: map[string]float64{"reserve": .03}},
	} {
		if o.Slow == nil {
			o.From = 1
		}
		for seed := range seeds(1, 4) {
			of++
			if x := alone(t, o, 900+seed); x.Found {
				found++
				t.Logf("%s, seed %d: %s: %s", name, seed, x.Verdict, x.Causes[0].Evidence[0].Text)
			}
		}
	}
	if found > 0 {
		t.Errorf("%d of %d healthy recordings have a cause", found, of)
	}
}

// TestExplainSteady: a fault that lasts from the first request to the last request is in the verdict, without a
// cause.
func TestExplainSteady(t *testing.T) {
	long(t)
	quotes := func(float64) []float64 { return []float64{5, 0, 0, 1} }
	for name, c := range map[string]struct {
		store querytest.Store
		says  []string
	}{
		"repeated calls":       {querytest.Store{More: 60}, []string{"GET /orders/:user", "select name from item where id=?"}},
		"a slow query":         {querytest.Store{Slow: map[string]float64{"sql.query": 12}}, []string{"GET /orders/:user", "sql.query"}},
		"a slow service":       {querytest.Store{Slow: map[string]float64{"POST /pay": 100}}, []string{"POST /pay"}},
		"a slow step":          {querytest.Store{Slow: map[string]float64{"reserve": 100}}, []string{"POST /buy", "reserve"}},
		"a route that fails":   {querytest.Store{Mix: quotes, Fails: map[string]float64{"quote": .6}}, []string{"requests GET /quote fail", "context deadline exceeded"}},
		"a route always fails": {querytest.Store{Mix: quotes, Fails: map[string]float64{"quote": 1}}, []string{"requests GET /quote fail", "context deadline exceeded"}},
		"a service is refused": {querytest.Store{Fails: map[string]float64{"POST /pay": 1}}, []string{"requests POST /buy fail", "connection refused"}},
		"one tenant of twelve": {querytest.Store{Slow: map[string]float64{"sql.query": 6}, Tenant: "t3", Tenants: 12, Mix: func(float64) []float64 { return []float64{1, 0, 0, 0} }}, []string{`where .tenant = "t3"`}},
		"a tenant in the logs": {querytest.Store{Slow: map[string]float64{"sql.query": 20}, Tenant: "t3", InLogs: true, Mix: func(float64) []float64 { return []float64{1, 0, 0, 0} }}, []string{`event.tenant = "t3"`}},
	} {
		t.Run(name, func(t *testing.T) {
			c.store.Requests = 600
			for seed := range seeds(1, 3) {
				x := alone(t, c.store, 300+seed)
				for _, part := range c.says {
					expect.Has(t, x.Verdict, part, "seed %d: the verdict", seed)
				}
			}
		})
	}
}

// TestExplainChange: a fault that begins within a recording is the first cause.
func TestExplainChange(t *testing.T) {
	long(t)
	for name, c := range map[string]struct {
		store   querytest.Store
		service string
		says    string
	}{
		"a slow step":           {querytest.Store{Slow: map[string]float64{"reserve": 2.5}}, "shop", "reserve"},
		"a step slows, mix too": {querytest.Store{Slow: map[string]float64{"reserve": 3}, Mix: shifts}, "shop", "reserve"},
		"a step fails":          {querytest.Store{Fails: map[string]float64{"reserve": .4}, Base: map[string]float64{"reserve": .02}}, "shop", ""},
		"a service is slow":     {querytest.Store{Slow: map[string]float64{"POST /pay": 4}}, "pay", "POST /pay"},
		"a service fails":       {querytest.Store{Fails: map[string]float64{"POST /pay": .5}}, "pay", "POST /pay"},
		"more calls":            {querytest.Store{More: 12}, "shop", "sql.query"},
		"a slow tenant":         {querytest.Store{Slow: map[string]float64{"sql.query": 8}, Tenant: "t1"}, "shop", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.store.Requests = 900
			for seed, from := range []float64{.4, .5, .6}[:seeds(1, 3)] {
				c.store.From = from
				x := alone(t, c.store, 500+uint64(seed))
				if !x.Found || x.Causes[0].Service != c.service || !strings.Contains(x.Verdict, c.says) {
					t.Errorf("from %v: %s %+v", from, x.Verdict, x.Failures)
				}
			}
		})
	}
}

// TestPeriodOf: the period of slow calls is found; calls that are slow at all times have no period.
func TestPeriodOf(t *testing.T) {
	for until, want := range map[float64]bool{.6: true, 0: false} {
		o := querytest.Store{Requests: 900, From: .4, Until: until, Slow: map[string]float64{"reserve": 50}}
		if !want {
			o.From, o.Tenant = 0, "t2"
		}
		v := o.Record(t, 7).View()
		same, err := runOn(t, v, `{ name = "reserve" }`)
		must(t, err)
		slow, err := runOn(t, v, `{ name = "reserve" && duration > 40ms }`)
		must(t, err)
		p := analyze.PeriodOf(v, slow.Rows, same.Rows)
		if (p != nil) != want || want && (p.In != 1 || p.Share < .15 || p.Share > .25) {
			t.Errorf("until %v: %+v", until, p)
		}
	}
}

// TestExplainBusy: if a busy machine slows all operations, no operation is the cause, and the verdict says so.
func TestExplainBusy(t *testing.T) {
	long(t)
	for seed := range seeds(2, 5) {
		x := alone(t, querytest.Store{Requests: 900, From: .6, Stalls: .4}, 80+seed)
		if x.Found || !strings.HasPrefix(x.Verdict, "nearly everything is slower from ") {
			t.Errorf("seed %d: %s %+v", seed, x.Verdict, x.Causes)
		}
	}
}

// TestExplainSharedSlows: if most operations take far longer, something that they share is slow, and no operation is
// the cause. This also holds if only one operation has no slow call before, because it has no calls just before the
// given time.
func TestExplainSharedSlows(t *testing.T) {
	long(t)
	slow := map[string]float64{"sql.query": 30, "audit": 30, "reserve": 30}
	pauses := func(x float64) []float64 {
		if x > .55 && x < .68 {
			return []float64{1, 1, 0, 0}
		}
		return []float64{1, 1, 1, 0}
	}
	for seed := range seeds(2, 5) {
		run := store(t, querytest.Store{Requests: 900, From: .6, Slow: slow, Mix: pauses}, 110+seed)
		late := analyze.Time(1_700_000_000_000_000_000 + 6200*int64(time.Millisecond))
		for _, since := range []analyze.Time{analyze.NoTime, late} {
			x, err := analyze.Explain(t.Context(), &analyze.Question{Now: []query.Run{run}, Since: since})
			must(t, err)
			if x.Found || since == analyze.NoTime && !strings.HasPrefix(x.Verdict, "nearly everything is slower from ") {
				t.Errorf("seed %d: %s %+v", seed, x.Verdict, x.Causes)
			}
		}
	}
}

// TestExplainFewCalls: fewer than ten calls on one side of a change that was searched for are too few.
func TestExplainFewCalls(t *testing.T) {
	quotes := func(float64) []float64 { return []float64{1, 1, 1, .055} }
	for seed := range seeds(2, 5) {
		x := alone(t, querytest.Store{Requests: 900, From: .5, Slow: map[string]float64{"quote": 30}, Mix: quotes}, 140+seed)
		if x.Found {
			t.Errorf("seed %d: %s: %s", seed, x.Verdict, x.Causes[0].Evidence[0].Text)
		}
	}
}

// TestExplainStalls: requests that wait while nothing happens are in the verdict, with the place where they wait.
func TestExplainStalls(t *testing.T) {
	quotes := func(float64) []float64 { return []float64{0, 0, 0, 1} }
	for seed := range seeds(2, 5) {
		x := alone(t, querytest.Store{Requests: 900, Frozen: 2 * time.Second, Mix: quotes, Slow: map[string]float64{"quote": 4}}, 120+seed)
		if x.Found || !strings.HasPrefix(x.Verdict, "no change in this file; nothing happened for 2") || !strings.Contains(x.Verdict, " in quote of shop") {
			t.Errorf("seed %d: %s", seed, x.Verdict)
		}
	}
}

// TestExplainFellowVictims: if requests wait for the same thing, none of them is reported as slow because of the
// others.
func TestExplainFellowVictims(t *testing.T) {
	for seed := range seeds(2, 5) {
		x := alone(t, querytest.Store{Requests: 900, From: 1, Frozen: 2 * time.Second, Arrive: true}, 130+seed)
		if strings.Contains(x.Verdict, "while ") {
			t.Errorf("seed %d: %s", seed, x.Verdict)
		}
	}
}

// TestExplainFailuresAtOneTime: failures of a short time are in the verdict, with their time, however few they are.
func TestExplainFailuresAtOneTime(t *testing.T) {
	for seed := range seeds(2, 5) {
		x := alone(t, querytest.Store{Requests: 900, From: .5, Until: .53, Fails: map[string]float64{"POST /pay": 1}}, 90+seed)
		if x.Found || !strings.Contains(x.Verdict, "requests POST /buy fail: pay POST /pay: ") || !strings.Contains(x.Verdict, ", nearly all within ") {
			t.Errorf("seed %d: %s", seed, x.Verdict)
		}
		for _, f := range x.Failures {
			if timed := f.From != analyze.NoTime && f.To != analyze.NoTime; timed != (f.State == analyze.AtOneTime) {
				t.Errorf("seed %d: %q from %v to %v", seed, f.State, f.From, f.To)
			}
		}
	}
}

// TestExplainSeeding: a call without a caller is no request of a program that serves requests.
func TestExplainSeeding(t *testing.T) {
	x := alone(t, querytest.Store{Requests: 300, From: 1, Seeding: 300}, 5)
	if x.Found || x.Looked.Requests != [2]int{0, 300} || strings.Contains(x.Verdict, "sql.exec") {
		t.Errorf("of %v requests: %s", x.Looked.Requests, x.Verdict)
	}
}

// TestExplainAnotherWay: calls that leave out a step because they take another path are slow, but the missing step is
// not the reason.
func TestExplainAnotherWay(t *testing.T) {
	for seed := range seeds(2, 5) {
		x := alone(t, querytest.Store{Requests: 900, From: .4, Gone: true, Instead: "connect", Tenant: "t3", Tenants: 9}, 95+seed)
		for _, c := range x.Causes {
			for _, e := range c.Evidence {
				if e.Sure && e.Kind == analyze.KindNoLonger {
					t.Errorf("seed %d: %s: %s", seed, x.Verdict, e.Text)
				}
			}
		}
	}
}

// TestExplainNewFailures: if all requests of a name fail and the baseline has no request of this name, they are the
// verdict. This also holds if they begin within one recording, or are there from the start.
func TestExplainNewFailures(t *testing.T) {
	long(t)
	with := func(w float64) func(x float64) []float64 {
		return func(float64) []float64 { return []float64{1, 1, 1, w} }
	}
	fails := map[string]float64{"quote": 1}
	for seed := range seeds(2, 10) {
		before := store(t, querytest.Store{Requests: 300, From: 1}, 40+seed)
		now := store(t, querytest.Store{Requests: 550, Mix: with(2), Fails: fails}, 70+seed)
		x, err := analyze.Explain(t.Context(), &analyze.Question{Before: []query.Run{before}, Now: []query.Run{now}, Since: analyze.NoTime})
		must(t, err)
		if !x.Found || x.Causes[0].Operation != "quote" || x.Causes[0].Covers.Failed[0] < 100 {
			t.Errorf("beside a baseline, seed %d: %s, %+v", seed, x.Verdict, x.Causes)
		}
		for name, x := range map[string]*analyze.Explanation{
			"beside a baseline": x,
			"from the start":    alone(t, querytest.Store{Requests: 600, Mix: with(1), Fails: fails}, 70+seed),
			"from the middle on": alone(t, querytest.Store{Requests: 600, Fails: fails, Mix: func(x float64) []float64 {
				if x < .5 {
					return []float64{1, 1, 1, 0}
				}
				return []float64{1, 1, 1, 2}
			}}, 70+seed),
		} {
			if !strings.Contains(x.Verdict, "quote") || !x.Alarming {
				t.Errorf("%s, seed %d: %s", name, seed, x.Verdict)
			}
		}
	}
}

// TestExplainOldBaseline: a baseline of another time of day has other caches and steps. The answer says so, and the
// difference is not a cause.
func TestExplainOldBaseline(t *testing.T) {
	long(t)
	for seed := range seeds(2, 8) {
		before := store(t, querytest.Store{Requests: 500, From: 1}, 20+seed)
		now := store(t, querytest.Store{Requests: 500, Gone: true, Mix: shifts, Start: 7 * time.Hour}, 60+seed)
		x, err := analyze.Explain(t.Context(), &analyze.Question{Before: []query.Run{before}, Now: []query.Run{now}, Since: analyze.NoTime})
		must(t, err)
		if x.Found || len(x.Habits) == 0 || !strings.Contains(x.Baseline.Text, "away in time") {
			t.Errorf("seed %d: %s, of habits %d, and %q", seed, x.Verdict, len(x.Habits), x.Baseline.Text)
		}
	}
}

// TestExplainBaselineOfAnotherVersion: the answer says if another version recorded the baseline.
func TestExplainBaselineOfAnotherVersion(t *testing.T) {
	before := store(t, querytest.Store{Requests: 60, From: 1, Version: "1.2"}, 1)
	for version, want := range map[string]string{"1.2": "", "1.3": "the baseline is of version 1.2 and not 1.3"} {
		now := store(t, querytest.Store{Requests: 60, From: 1, Version: version, Start: time.Minute}, 2)
		x, err := analyze.Explain(t.Context(), &analyze.Question{Before: []query.Run{before}, Now: []query.Run{now}, Since: analyze.NoTime})
		must(t, err)
		expect.Equal(t, x.Baseline.Text, want, "version %s", version)
	}
}

// TestExplainDeath: if a service dies, the verdict says when, and how many requests of another service did not reach
// it. A death without a known reason and without missed requests is not in the verdict.
func TestExplainDeath(t *testing.T) {
	const requests, reached = 60, 40
	at := func(i int) int64 { return 1_700_000_000_000_000_000 + int64(i)*int64(10*time.Millisecond) }
	edge, shop := tracetest.New(t, format.V2, format.ET, format.Root()), tracetest.New(t, format.V2, format.ET, format.Root())
	in := func(x *tracetest.Trace, service string) func(s *otel.Span) {
		r := otel.Resource{Attributes: otel.Attributes{{Name: "service.name", Value: format.StringValue(service)}}}
		parent := x.Add(r.Entry())
		return func(s *otel.Span) {
			e := tracetest.Of(s, otel.Where{})
			e.Parent = parent
			x.Add(e)
		}
	}
	addEdge, addShop := in(edge, "edge"), in(shop, "shop")
	path := func(of string) otel.Attributes {
		return otel.Attributes{{Name: "url.path", Value: format.StringValue(of)}}
	}
	for i := range requests {
		trace, root := [16]byte{3, byte(i)}, [8]byte{3, byte(i)}
		// A proxy gives all its spans one name. The requests that it serves itself have never reached shop.
		addEdge(&otel.Span{Name: "edge", TraceID: [16]byte{5, byte(i)}, SpanID: [8]byte{5, byte(i)}, Start: at(i), Duration: 5e6, Ended: true, Attributes: path("/static/app.css")})
		s := &otel.Span{Name: "edge", TraceID: trace, SpanID: root, Start: at(i), Duration: 5e6, Ended: true, Attributes: path(fmt.Sprint("/item/", i))}
		if i < reached {
			addShop(&otel.Span{Name: "GET /item", TraceID: trace, SpanID: [8]byte{4, byte(i)}, Parent: root, Start: at(i) + 1e6, Duration: 3e6, Ended: true})
		} else {
			s.Status, s.Description = otel.StatusError, "connection refused"
		}
		addEdge(s)
	}
	v := tracetest.View(t, edge.Open(), shop.Open())
	question := &analyze.Question{Now: []query.Run{{View: v, Rows: everything(t, v)}}, Since: analyze.NoTime, Deaths: []analyze.Death{{File: 1}}}
	x, err := analyze.Explain(t.Context(), question)
	must(t, err)
	expect.Equal(t, x.Verdict, "shop was killed at 22:13:20.394; from then on 20 of 20 requests did not reach it", "the verdict")
	question.Deaths[0].File = 0
	x, err = analyze.Explain(t.Context(), question)
	must(t, err)
	if len(x.Deaths) != 0 || strings.Contains(x.Verdict, "killed") {
		t.Errorf("nobody noticed the death of edge, but the verdict is %q", x.Verdict)
	}
	question.Deaths[0].Reason = "panic: index out of range"
	x, err = analyze.Explain(t.Context(), question)
	must(t, err)
	expect.Equal(t, x.Verdict, "edge died: panic: index out of range", "the verdict")
}

// TestGrowsEvenly: a value that grows from the beginning on is distinguished from a step, and from a growth that begins
// later.
func TestGrowsEvenly(t *testing.T) {
	for name, of := range map[string]struct {
		value func(i int) float64
		want  bool
	}{
		"grows":    {func(i int) float64 { return float64(i) }, true},
		"uneven":   {func(i int) float64 { return float64(i + i%3) }, true},
		"one step": {func(i int) float64 { return float64(i / 12) }, false},
		"later":    {func(i int) float64 { return float64(max(0, i-10)) }, false},
	} {
		list := make([]float64, 24)
		for i := range list {
			list[i] = of.value(i)
		}
		expect.Equal(t, analyze.GrowsEvenly(list, 12), of.want, "%s", name)
	}
}

// TestExplainDeathWithoutRequests: the verdict names the reason of a death also if the program recorded no requests.
func TestExplainDeathWithoutRequests(t *testing.T) {
	v := tracetest.New(t, format.V2, format.IET, format.Root(), tracetest.Log("started")).View()
	got, err := analyze.Explain(t.Context(), &analyze.Question{
		Now: []query.Run{{View: v, Rows: everything(t, v)}}, Since: analyze.NoTime, Deaths: []analyze.Death{{Reason: "panic: boom, at main.work main.go:9"}},
	})
	must(t, err)
	expect.Equal(t, got.Verdict, "(no service) died: panic: boom, at main.work main.go:9", "the verdict")
}

// TestExplainTrigger: the verdict on a flight recorder's file begins with the trigger of the file, and names the
// failure in the request that the trigger names. A file that a person or a program asked for has no trigger.
func TestExplainTrigger(t *testing.T) {
	for kind, want := range map[string]string{
		"log": "ERROR: payment failed; POST /buy failed: POST /pay: card service: connection refused",
		"api": "no change in this file; ",
	} {
		o := querytest.Store{Requests: 60, From: 1, Base: map[string]float64{"POST /pay": .02}}
		x := o.Record(t, 8)
		v := o.Record(t, 8).View()
		rows, err := runOn(t, v, `{ name = "POST /buy" && span:failed }`)
		must(t, err)
		for r := range rows.Rows.All() {
			ref := v.Ref(r)
			x.Add(&format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Level: format.LevelInfo}, Attributes: tracetest.Attributes(
				format.AttrTime, uint64(1_700_000_000_000_000_000), "trigger", kind, "reason", fmt.Sprintf("ERROR: payment failed (request POST /buy, trace %x)", ref.TraceID),
				"request.trace_id", hex.EncodeToString(ref.TraceID[:]), "request.span_id", hex.EncodeToString(ref.SpanID[:]),
			)})
			break
		}
		recorded := x.View()
		answer, err := analyze.Explain(t.Context(), &analyze.Question{Now: []query.Run{{View: recorded, Rows: everything(t, recorded)}}, Since: analyze.NoTime})
		must(t, err)
		if !strings.HasPrefix(answer.Verdict, want) {
			t.Errorf("%s: the verdict is %q, want %q", kind, answer.Verdict, want)
		}
	}
}

// TestExplainRetries: calls that a span makes again after the same call failed are counted.
func TestExplainRetries(t *testing.T) {
	x := tracetest.New(t, format.V2, format.ET, format.Root())
	id := byte(0)
	add := func(trace byte, name string, parent [8]byte, at, took int64, failed bool) [8]byte {
		id++
		s := &otel.Span{Name: name, TraceID: [16]byte{5, trace}, SpanID: [8]byte{5, id}, Parent: parent, Start: 1e18 + at, Duration: took, Ended: true}
		if failed {
			s.Status, s.Description = otel.StatusError, "try later"
		}
		x.Add(tracetest.Of(s, otel.Where{}))
		return s.SpanID
	}
	for i := range int64(24) {
		root := add(byte(i), "POST /mail", [8]byte{}, i*1e8, 5e7, false)
		for try := range int64(4) {
			add(byte(i), "send", root, i*1e8+try*1e7, 9e6, try < 3)
		}
	}
	v := x.View()
	answer, err := analyze.Explain(t.Context(), &analyze.Question{Now: []query.Run{{View: v, Rows: everything(t, v)}}, Since: analyze.NoTime})
	must(t, err)
	expect.Equal(t, answer.Verdict, "no change in this file; 72 of 96 calls of send repeat a call that failed", "the verdict")
}
