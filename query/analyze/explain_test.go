package analyze_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

// A mall is a system of three services: web calls shop, which reads its database and calls stock.
type mall struct {
	requests int
	from     int                // the request with which it begins to be different
	slow     map[string]float64 // by how much the time of an operation grows
	delay    time.Duration      // of calls to stock
	fails    float64            // how often stock fails, in all requests .02
	declined float64            // how often shop logs an error, in all requests .03
	gone     bool               // shop does not call stock
	tenant   string             // whose requests alone are different; there are t0 to t19
	spread   bool               // shop has six operations
}

// run records the requests of a mall, with noise that a seed makes.
func (o *mall) run(t testing.TB, seed uint64) query.Run {
	t.Helper()
	x, r := tracetest.New(t, format.V2, format.IET), rand.New(rand.NewPCG(seed, 7))
	x.Add(format.Root())
	resources := make(map[string]uint32)
	for _, name := range []string{"web", "shop", "stock"} {
		of := otel.Resource{Attributes: otel.Attributes{{Name: "service.name", Value: format.StringValue(name)}}}
		resources[name] = x.Add(of.Entry())
	}
	id := uint64(0)
	for i := range o.requests {
		trace := [16]byte{1, byte(i >> 8), byte(i)}
		tenant, entry := fmt.Sprint("t", r.IntN(20)), "POST /order"
		if o.spread {
			entry += fmt.Sprint("/", r.IntN(6))
		}
		differs := i >= o.from && (o.tenant == "" || o.tenant == tenant)
		took := func(name string, base time.Duration) int64 {
			d := float64(base) * math.Exp(.25*r.NormFloat64())
			if f := o.slow[name]; f > 0 && differs {
				d *= f
			}
			return int64(d)
		}
		at := int64(1_700_000_000_000_000_000) + int64(i)*int64(20*time.Millisecond)
		add := func(service, name string, parent [8]byte, start, took int64, failed string) [8]byte {
			id++
			s := &otel.Span{Name: name, TraceID: trace, SpanID: [8]byte{1, byte(id >> 16), byte(id >> 8), byte(id)}, Parent: parent, Start: start, Duration: took, Ended: true}
			if s.Attributes = (otel.Attributes{{Name: "tenant", Value: format.StringValue(tenant)}}); failed != "" {
				s.Status, s.Description = otel.StatusError, failed
			}
			e := s.Entry(otel.Where{})
			e.Parent = resources[service]
			x.Add(e)
			return s.SpanID
		}
		log := func(service string, of [8]byte, at int64, level format.Level, text string) {
			l := &otel.Log{Body: otel.Any{Kind: otel.String, Text: text}, Time: at, HasTime: true, Severity: otel.SeverityOf(level), TraceID: trace, SpanID: of}
			e := l.Entry(otel.Where{})
			e.Parent = resources[service]
			x.Add(e)
		}
		read, update, own := took("SELECT items", 2*time.Millisecond), took("UPDATE stock", time.Millisecond), took("POST /order", time.Millisecond)
		calls := !o.gone || !differs
		fails := calls && (r.Float64() < .02 || differs && r.Float64() < o.fails)
		wait := took("", 300*time.Microsecond)
		if differs {
			wait += int64(o.delay)
		}
		reserve := int64(0)
		if calls {
			reserve = update + wait
		}
		why := ""
		if fails {
			why = "out of stock"
		}
		web := add("web", "GET /buy", [8]byte{}, at, own+read+reserve+int64(time.Millisecond), why)
		order := add("shop", entry, web, at+int64(time.Millisecond)/2, own+read+reserve, why)
		add("shop", "SELECT items", order, at+int64(time.Millisecond)/2+own/2, read, "")
		if calls {
			begin := at + int64(time.Millisecond)/2 + own/2 + read
			call := add("shop", "call stock", order, begin, reserve, why)
			reserved := add("stock", "reserve", call, begin+wait/2, update, why)
			add("stock", "UPDATE stock", reserved, begin+wait/2, update, "")
			log("shop", order, begin+reserve, format.LevelInfo, "order placed")
			if fails {
				log("shop", order, begin+reserve, format.LevelError, "order failed: "+why)
			}
		}
		if r.Float64() < .03 || differs && r.Float64() < o.declined {
			log("shop", order, at+int64(time.Millisecond), format.LevelError, "card declined for user 4711")
		}
	}
	v := x.View()
	return query.Run{View: v, Rows: everything(t, v)}
}

func explained(t *testing.T, before, now []query.Run, since analyze.Time) *analyze.Explanation {
	t.Helper()
	x, err := analyze.Explain(t.Context(), before, now, since)
	must(t, err)
	return x
}

// TestExplain: each kind of a fault is found, with the service that has it first and its evidence.
func TestExplain(t *testing.T) {
	healthy := (&mall{requests: 200}).run(t, 1)
	for name, c := range map[string]struct {
		mall                     mall
		service, kind, says, run string
	}{
		"an operation is slower":        {mall{slow: map[string]float64{"UPDATE stock": 1.5}}, "stock", "slower", "UPDATE stock", `{ service = "stock" && name = "UPDATE stock" && duration > `},
		"its own work is slower":        {mall{slow: map[string]float64{"POST /order": 2}}, "shop", "slower", "POST /order", `{ service = "shop" && name = "POST /order" && duration > `},
		"a network is slower":           {mall{delay: 3 * time.Millisecond}, "stock", "slower calls", "shop → stock", `{ service = "stock" && parent:service = "shop" }`},
		"an error is more frequent":     {mall{declined: .3}, "shop", "error", "card declined for user <number>", `service = "shop" && "card declined for user"`},
		"an error that is passed on":    {mall{fails: .3}, "stock", "error", "out of stock", `{ service = "stock" && name = "reserve" && (span:failed || level >= error) }`},
		"a service is no longer called": {mall{gone: true}, "shop", "no longer", "no longer called stock reserve", `{ service = "shop" && name = "POST /order" }`},
	} {
		t.Run(name, func(t *testing.T) {
			c.mall.requests = 200
			x := explained(t, []query.Run{healthy}, []query.Run{c.mall.run(t, 2)}, analyze.NoTime)
			if !x.Found || len(x.Causes) == 0 || x.Verdict != "cause: "+c.service || x.Looked.Requests != [2]int{200, 200} || !x.Complete {
				t.Fatalf("it says %+v", x)
			}
			cause := x.Causes[0]
			e := cause.Evidence[0]
			if cause.Service != c.service || !cause.Sure || cause.Kind != c.kind || !strings.Contains(e.Text, c.says) || !strings.HasPrefix(cause.Query, c.run) {
				t.Errorf("the cause is %+v", cause)
			}
			if x.Chance[1] == 0 || x.Chance[0] > 1 {
				t.Errorf("chance does as much in %v", x.Chance)
			}
		})
	}
}

// TestExplainEqualRuns: between equal runs there is no cause, whatever the noise.
func TestExplainEqualRuns(t *testing.T) {
	found := 0
	for seed := range uint64(60) {
		x := explained(t, []query.Run{(&mall{requests: 150}).run(t, 100+2*seed)}, []query.Run{(&mall{requests: 150}).run(t, 101+2*seed)}, analyze.NoTime)
		if x.Found {
			found++
			t.Logf("seed %d: %s: %s", seed, x.Verdict, x.Causes[0].Evidence[0].Text)
		} else if !strings.HasPrefix(x.Verdict, "no cause found") || x.Chance != [2]int{} {
			t.Errorf("seed %d: %s", seed, x.Verdict)
		}
	}
	if found > 1 {
		t.Errorf("in %d of 60 pairs of equal runs a cause is named", found)
	}
}

// TestExplainAlone: without a baseline, the first sign divides the requests; a healthy recording has no cause.
func TestExplainAlone(t *testing.T) {
	for seed := range uint64(8) {
		if x := explained(t, nil, []query.Run{(&mall{requests: 300}).run(t, 300+seed)}, analyze.NoTime); x.Found || x.Since != nil {
			t.Errorf("seed %d: a healthy recording has a cause: %+v", seed, x)
		}
		x := explained(t, nil, []query.Run{(&mall{requests: 300, from: 200, fails: .5}).run(t, 400+seed)}, analyze.NoTime)
		if x.Verdict != "cause: stock" || x.Since == nil {
			t.Fatalf("seed %d: %+v", seed, x)
		}
		if share := float64(x.Since.After) / float64(300*20*time.Millisecond); share < .55 || share > .78 {
			t.Errorf("seed %d: the first sign is at %.2f of the time, and not at two thirds", seed, share)
		}
	}
	run := (&mall{requests: 300, from: 200, fails: .5}).run(t, 5)
	since := analyze.Time(1_700_000_000_000_000_000 + 200*int64(20*time.Millisecond))
	if x := explained(t, nil, []query.Run{run}, since); x.Verdict != "cause: stock" || x.Looked.Requests != [2]int{200, 100} || x.Failed[1] < 30 || x.Failed[0] > 20 {
		t.Errorf("since its begin: %+v", x)
	}
}

// TestExplainSelection: requests that a query selects are compared with the others of the same name, and what they share
// is told.
func TestExplainSelection(t *testing.T) {
	run := (&mall{requests: 400, slow: map[string]float64{"SELECT items": 20}, tenant: "t7"}).run(t, 6)
	r, err := runOn(t, run.View, `{ name = "GET /buy" && duration > 10ms }`)
	must(t, err)
	x := explained(t, nil, []query.Run{{View: run.View, Rows: r.Rows}}, analyze.NoTime)
	if x.Verdict != "cause: shop" || x.Causes[0].Operation != "SELECT items" {
		t.Errorf("it says %+v", x)
	}
	if len(x.Shares) != 1 || x.Shares[0].Where != `.tenant = "t7"` || x.Shares[0].In != int64(r.Rows.Len()) || x.Shares[0].Others > 2 {
		t.Errorf("they share %+v, of %d", x.Shares, r.Rows.Len())
	}
	// So it is for the slow ones, where nothing has begun.
	if x := explained(t, nil, []query.Run{run}, analyze.NoTime); x.Found || len(x.Shares) != 1 || x.Shares[0].Where != `.tenant = "t7"` {
		t.Errorf("the slow requests: %+v", x)
	}
}

// TestExplainSpreadErrors: an error that is rare in each operation of a service is found in all of them together, and other
// numbers of requests of each are no sign.
func TestExplainSpreadErrors(t *testing.T) {
	before := (&mall{requests: 600, spread: true}).run(t, 1)
	x := explained(t, []query.Run{before}, []query.Run{(&mall{requests: 600, spread: true, declined: .1}).run(t, 2)}, analyze.NoTime)
	if x.Verdict != "cause: shop" || !strings.Contains(x.Causes[0].Evidence[0].Text, " of 600 calls (before ") {
		t.Errorf("it says %+v", x)
	}
	if x := explained(t, []query.Run{before}, []query.Run{(&mall{requests: 300}).run(t, 3)}, analyze.NoTime); x.Found {
		t.Errorf("another mix has a cause: %+v", x)
	}
}

// TestExplainHostile: what has no requests, no times or absurd ones says that there is no cause.
func TestExplainHostile(t *testing.T) {
	odd := func(start, took int64) *format.TraceEntry { return span(0, "0000000000000001", "odd", start, took) }
	for name, entries := range map[string][]*format.TraceEntry{
		"nothing":  {format.Root()},
		"logs":     {format.Root(), {Message: format.Some("alone"), Metadata: format.Metadata{Name: "event", Level: format.LevelError}}},
		"no time":  {format.Root(), {Metadata: format.Metadata{Name: "x"}, Attributes: []format.Attribute{{Name: format.AttrSpanID, Value: format.StringValue("0000000000000001")}}}},
		"overflow": {format.Root(), odd(math.MaxInt64-5, math.MaxInt64-1), odd(-1<<62, math.MaxInt64-1)},
		"fixed":    fixed(),
	} {
		v := viewOf(t, entries)
		run := query.Run{View: v, Rows: everything(t, v)}
		for _, before := range [][]query.Run{nil, {run}, {(&mall{requests: 5}).run(t, 1)}} {
			for _, since := range []analyze.Time{analyze.NoTime, math.MaxInt64, 0} {
				x := explained(t, before, []query.Run{run}, since)
				if x.Found || !strings.HasPrefix(x.Verdict, "no cause found") {
					t.Errorf("%s: %+v", name, x)
				}
				if _, err := (&analyze.Form{Row: func(r view.Row) (any, error) { return r, nil }}).JSON(x, ""); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}
