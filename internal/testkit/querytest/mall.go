package querytest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// A Mall is a system of three services: web calls shop, which reads its database and calls stock. Its fields say
// how some requests differ from the others.
type Mall struct {
	Requests int
	From     int                // the index of the first request that differs
	To       int                // the index of the first request that no longer differs; 0 if all later ones do
	Slow     map[string]float64 // by operation: the factor by which its time grows
	Delay    time.Duration      // the additional time of calls to stock
	Fails    float64            // the share of requests for which stock also fails; it is .02 in all requests
	Declined float64            // the share of requests for which shop also logs an error; it is .03 in all requests
	Gone     bool               // shop does not call stock
	Panic    string             // an error that only the first differing request logs
	Again    bool               // the last request also logs Panic
	Collects bool               // each differing request has a garbage collection
	Tenant   string             // only requests of this tenant differ; tenants are t0 to t19
	Cached   bool               // two of five reads of items take only a hundredth of the time
	Reads    int                // how often a differing request reads items, one after the other
	Hits     float64            // the share of the other requests that do not read items
	Pods     bool               // stock has two instances, and only requests to the second one differ
	Note     string             // an attribute of the spans of differing requests
	Spread   bool               // shop has six operations
	Report   time.Duration      // how long each request for a report holds a lock; 0 if there are no such requests
}

// Record records the requests of the mall. seed determines the random noise.
func (o *Mall) Record(t testing.TB, seed uint64) *tracetest.Trace {
	t.Helper()
	x, r := tracetest.New(t, format.V2, format.ET), rand.New(rand.NewPCG(seed, 7)) // #nosec G404 -- the same every time
	x.Add(format.Root())
	resources := make(map[string]uint32)
	for _, name := range []string{"web", "shop", "stock", "report", "pod"} {
		of := otel.Resource{Attributes: otel.Attributes{{Name: "service.name", Value: format.StringValue(name)}}}
		if name == "pod" {
			of.Attributes = otel.Attributes{{Name: "k8s.pod.name", Value: format.StringValue("stock-1")}, {Name: "service.name", Value: format.StringValue("stock")}}
		}
		resources[name] = x.Add(of.Entry())
	}
	id := uint64(0)
	for i := range o.Requests {
		trace := [16]byte{1, byte(i >> 8), byte(i)}
		tenant, entry := fmt.Sprint("t", r.IntN(20)), "POST /order"
		if o.Spread {
			entry += fmt.Sprint("/", r.IntN(6))
		}
		stock := "stock"
		if o.Pods && i%5 == 0 {
			stock = "pod"
		}
		differs := i >= o.From && (o.To == 0 || i < o.To) && (!o.Pods || stock == "pod") && (o.Tenant == "" || o.Tenant == tenant)
		took := func(name string, base time.Duration) int64 {
			d := float64(base) * math.Exp(.25*r.NormFloat64())
			if f := o.Slow[name]; f > 0 && differs {
				d *= f
			}
			return int64(d)
		}
		at := int64(1_700_000_000_000_000_000) + int64(i)*int64(20*time.Millisecond)
		add := func(service, name string, parent [8]byte, start, took int64, failed string) [8]byte {
			id++
			s := &otel.Span{Name: name, TraceID: trace, SpanID: [8]byte{1, byte(id >> 16), byte(id >> 8), byte(id)}, Parent: parent, Start: start, Duration: took, Ended: true}
			s.Attributes = (otel.Attributes{{Name: "tenant", Value: format.StringValue(tenant)}})
			if failed != "" {
				s.Status, s.Description = otel.StatusError, failed
			}
			if differs && o.Note != "" {
				s.Attributes = append(s.Attributes, otel.Attribute{Name: "note", Value: format.StringValue(o.Note)})
			}
			e := tracetest.Of(s, otel.Where{})
			e.Parent = resources[service]
			x.Add(e)
			return s.SpanID
		}
		log := func(service string, of [8]byte, at int64, level format.Level, text string) {
			l := &otel.Log{Body: otel.Any{Kind: otel.String, Text: text}, Time: at, HasTime: true, Severity: otel.SeverityOf(level), TraceID: trace, SpanID: of}
			e := tracetest.Of(l, otel.Where{})
			e.Parent = resources[service]
			x.Add(e)
		}
		read, update, own := took("SELECT items", 2*time.Millisecond), took("UPDATE stock", time.Millisecond), took("POST /order", time.Millisecond)
		if o.Cached && r.Float64() < .4 {
			read /= 100
		}
		if o.Report != 0 && i%10 == 3 {
			add("report", "GET /report", [8]byte{}, at, int64(40*time.Millisecond), "")
			read += max(0, int64(o.Report))
		}
		calls := !o.Gone || !differs
		fails := calls && (r.Float64() < .02 || differs && r.Float64() < o.Fails)
		wait := took("", 300*time.Microsecond)
		if differs {
			wait += int64(o.Delay)
		}
		reserve := int64(0)
		if calls {
			reserve = update + wait
		}
		why := ""
		if fails {
			why = "out of stock"
		}
		times := 1
		if differs {
			times = max(1, o.Reads)
		} else if o.Hits > 0 && r.Float64() < o.Hits {
			times = 0
		}
		own += int64(max(0, times-1)) * read
		web := add("web", "GET /buy", [8]byte{}, at, own+read+reserve+int64(time.Millisecond), why)
		order := add("shop", entry, web, at+int64(time.Millisecond)/2, own+read+reserve, why)
		for k := range times {
			add("shop", "SELECT items", order, at+int64(time.Millisecond)/2+int64(k)*read, read, "")
		}
		if calls {
			begin := at + int64(time.Millisecond)/2 + own/2 + read
			call := add("shop", "call stock", order, begin, reserve, why)
			reserved := add(stock, "reserve", call, begin+wait/2, update, why)
			add(stock, "UPDATE stock", reserved, begin+wait/2, update, "")
			log("shop", order, begin+reserve, format.LevelInfo, "order placed")
			if fails {
				log("shop", order, begin+reserve, format.LevelError, "order failed: "+why)
			}
		}
		if o.Panic != "" && (i == o.From || o.Again && i == o.Requests-1) {
			log("shop", order, at, format.LevelError, o.Panic)
		}
		if differs && o.Collects {
			e := tracetest.Entry("gc", format.AttrTime, uint64(at), format.AttrDuration, uint64(time.Millisecond))
			e.Metadata.Target = "runtime/debug"
			x.Add(e)
		}
		if r.Float64() < .03 || differs && r.Float64() < o.Declined {
			log("shop", order, at+int64(time.Millisecond), format.LevelError, "card declined for user 4711")
		}
	}
	x.Add(&format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameEnd, Level: format.LevelInfo}})
	return x
}
