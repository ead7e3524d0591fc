package querytest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// A Store is a service with several routes, whose neighboring requests are similar, because they share the caches, the
// garbage collections and the other programs of a machine. Its fields say how the requests from From on differ.
type Store struct {
	Requests int
	From     float64                   // the part of the requests before the first one that differs; 1: none differs
	Mix      func(x float64) []float64 // the weights of GET /item, GET /orders, POST /buy and GET /quote at a part of the requests
	Noise    float64                   // the standard deviation of the factor that neighbors share; .1 if 0
	Drift    float64                   // the share by which all times grow from the first request to the last one
	OneName  bool                      // all routes have spans of one name
	Slow     map[string]float64        // by operation: the factor by which its time grows
	Fails    map[string]float64        // by operation: the share of its calls that fail
	Base     map[string]float64        // as Fails, for the requests that do not differ
	More     int                       // additional queries that GET /orders makes
	Missing  func(x float64) float64   // the share of GET /item that is answered with 404 and logged as an error
	Gone     bool                      // GET /item has no span audit
	Instead  string                    // a longer span that replaces audit
	Tenant   string                    // only requests of this tenant differ
	Tenants  int                       // the number of tenants, from t0 on; 5 if 0
	InLogs   bool                      // the tenant is in a log record, and not on the span
	Start    time.Duration             // the time of the first request
	Clock    time.Duration             // how far the clock of pay is ahead
	Version  string                    // of both services
	Until    float64                   // the part of the requests before the first one that no longer differs; 0: all later ones differ
	Stalls   float64                   // the share of all calls that a busy machine delays
	Seeding  int                       // queries that the program makes while it starts, without a request
	Filled   float64                   // the part of the requests that come first, fast and one after the other
	Frozen   time.Duration             // a time in the middle of the recording in which no call ends
	Arrive   bool                      // requests nevertheless begin while calls are frozen
}

// middle returns when the recording is about half over.
func (o *Store) middle() int64 {
	return 1_700_000_000_000_000_000 + int64(o.Start) + int64(o.Requests/2)*int64(10*time.Millisecond)
}

// thawed returns the end of a call. Without Frozen, the call would end at the time end.
func (o *Store) thawed(end int64) int64 {
	began := o.middle()
	if thaws := began + int64(o.Frozen); end > began && end < thaws {
		return thaws + (end-began)%int64(time.Millisecond)
	}
	return end
}

// Record records the requests of the store. The seed determines the random noise.
func (o *Store) Record(t testing.TB, seed uint64) *tracetest.Trace {
	t.Helper()
	x, r := tracetest.New(t, format.V2, format.ET), rand.New(rand.NewPCG(seed, 11)) // #nosec G404 -- the same every time
	x.Add(format.Root())
	resources := make(map[string]uint32)
	for _, name := range []string{"shop", "pay"} {
		of := otel.Resource{Attributes: textAttributes([]string{"service.name", name, "service.version", o.Version})}
		resources[name] = x.Add(of.Entry())
	}
	noise := o.Noise
	if noise == 0 {
		noise = .1
	}
	for i := range o.Seeding {
		q := &otel.Span{Name: "sql.exec", Kind: otel.KindClient, TraceID: [16]byte{9, byte(i >> 8), byte(i)}, SpanID: [8]byte{9, byte(i >> 8), byte(i)}, Ended: true}
		q.Start, q.Duration = 1_700_000_000_000_000_000-int64(o.Seeding-i)*1e6, 1e5+int64(i)*1e3
		e := tracetest.Of(q, otel.Where{})
		e.Parent = resources["shop"]
		x.Add(e)
	}
	shared, burst, id := noise*r.NormFloat64(), 0, uint64(0)
	now := int64(1_700_000_000_000_000_000) + int64(o.Start)
	for i := range o.Requests {
		part := float64(i) / float64(o.Requests)
		const alike = .0125 // of 80 requests
		shared = (1-alike)*shared + math.Sqrt(1-(1-alike)*(1-alike))*noise*r.NormFloat64()
		burst--
		if burst < -60 && r.Float64() < .01 {
			burst = 4
		}
		factor := math.Exp(shared) * (1 + o.Drift*part)
		if burst > 0 {
			factor *= 1.5 + r.Float64()
		}
		if part < o.Filled {
			factor *= .4
		}
		weights := []float64{1, 1, 1, 0}
		if o.Mix != nil {
			weights = o.Mix(part)
		}
		tenant := fmt.Sprint("t", r.IntN(cmp.Or(o.Tenants, 5)))
		differs := part >= o.From && (o.Until == 0 || part < o.Until) && (o.Tenant == "" || o.Tenant == tenant)
		s := storeRequest{x: x, r: r, o: o, id: &id, resources: resources, trace: [16]byte{2, byte(i >> 16), byte(i >> 8), byte(i)}, at: now, factor: factor, part: part, differs: differs, tenant: tenant}
		s.serve(pick(r, weights))
		gap := float64(10 * time.Millisecond)
		if part < o.Filled {
			gap /= 50
		}
		next := now + int64(gap*r.ExpFloat64())
		if now < o.middle() && next >= o.middle() && !o.Arrive {
			next += int64(o.Frozen)
		}
		now = next
	}
	return x
}

func pick(r *rand.Rand, weights []float64) int {
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	at := r.Float64() * sum
	for i, w := range weights {
		at -= w
		if at < 0 {
			return i
		}
	}
	return 0
}

// A storeRequest records one request of a store.
type storeRequest struct {
	x         *tracetest.Trace
	r         *rand.Rand
	o         *Store
	id        *uint64
	resources map[string]uint32
	trace     [16]byte
	at        int64
	factor    float64
	part      float64
	differs   bool
	tenant    string
}

func (s *storeRequest) took(operation string, milliseconds float64) int64 {
	d := milliseconds * 1e6 * s.factor * math.Exp(.25*s.r.NormFloat64())
	if f := s.o.Slow[operation]; f > 0 && s.differs {
		d *= f
	}
	if s.o.Stalls > 0 && s.differs && s.r.Float64() < s.o.Stalls {
		d += 30e6 * s.r.ExpFloat64()
	}
	return int64(d)
}

func (s *storeRequest) fails(operation string) bool {
	if f, has := s.o.Fails[operation]; has && s.differs {
		return s.r.Float64() < f
	}
	return s.r.Float64() < s.o.Base[operation]
}

func (s *storeRequest) next() [8]byte {
	*s.id++
	return [8]byte{2, byte(*s.id >> 16), byte(*s.id >> 8), byte(*s.id)}
}

// textAttributes returns attributes from their names and values in turns.
func textAttributes(list []string) (all otel.Attributes) {
	for pair := range slices.Chunk(list, 2) {
		all = append(all, otel.Attribute{Name: pair[0], Value: format.StringValue(pair[1])})
	}
	return all
}

// span adds a span and returns its end.
func (s *storeRequest) span(service, name string, id, parent [8]byte, start, took int64, failed string, attributes ...string) int64 {
	took = s.o.thawed(start+took) - start
	x := &otel.Span{Name: name, TraceID: s.trace, SpanID: id, Parent: parent, Start: start, Duration: took, Ended: true}
	x.Attributes = textAttributes(attributes)
	if parent == ([8]byte{}) && s.o.Seeding > 0 {
		x.Kind = otel.KindServer
	}
	if failed != "" {
		x.Status, x.Description = otel.StatusError, failed
	}
	e := tracetest.Of(x, otel.Where{})
	e.Parent = s.resources[service]
	s.x.Add(e)
	return start + took
}

func (s *storeRequest) log(of [8]byte, level format.Level, text string, attributes ...string) {
	l := &otel.Log{Body: otel.Any{Kind: otel.String, Text: text}, Time: s.at, HasTime: true, Severity: otel.SeverityOf(level), TraceID: s.trace, SpanID: of}
	l.Attributes = textAttributes(attributes)
	e := tracetest.Of(l, otel.Where{})
	e.Parent = s.resources["shop"]
	s.x.Add(e)
}

// serve records a request of a route.
func (s *storeRequest) serve(route int) {
	root := s.next()
	name := []string{"GET /item/:id", "GET /orders/:user", "POST /buy", "GET /quote"}[route]
	own := s.took(name, .1)
	end := s.at + own/2
	child := func(operation string, milliseconds float64, failed string, attributes ...string) {
		end = s.span("shop", operation, s.next(), root, end, s.took(operation, milliseconds), failed, attributes...)
	}
	failed, status := "", "200"
	switch route {
	case 0:
		if s.o.Missing != nil && s.r.Float64() < s.o.Missing(s.part) {
			status = "404"
			s.log(root, format.LevelError, "item failed: sql: no rows in result set")
			break
		}
		child("sql.query", .4, "", "db.query.text", "select name from item where id=?")
		if !s.o.Gone || !s.differs {
			child("audit", .05, "")
		} else if s.o.Instead != "" {
			child(s.o.Instead, 5, "")
		}
	case 1:
		child("sql.query", 5, "", "db.query.text", "select id from orders where user=?")
		for range s.o.More {
			if s.differs {
				child("sql.query", .3, "", "db.query.text", "select name from item where id=?")
			}
		}
	case 2:
		if s.fails("reserve") {
			failed, status = "out of stock", "500"
		}
		child("reserve", 2, failed)
		if failed != "" {
			break
		}
		call, took, said := s.next(), s.took("POST /pay", 1.5), ""
		if s.fails("POST /pay") {
			said, failed, status = "card service: connection refused", "payment failed", "502"
		}
		s.span("pay", "POST /pay", s.next(), call, end+int64(s.o.Clock), took, said)
		end = s.span("shop", "call pay", call, root, end, took, said)
	case 3:
		if s.fails("quote") {
			failed, status = "carrier: context deadline exceeded", "500"
		}
		child("quote", 30, failed)
	}
	attributes := []string{"http.route", name, "http.response.status_code", status}
	if !s.o.InLogs {
		attributes = append(attributes, "tenant", s.tenant)
	}
	if s.o.OneName {
		name = "HTTP"
	}
	if failed != "" {
		s.log(root, format.LevelError, failed)
	}
	if s.o.InLogs {
		s.log(root, format.LevelInfo, "request", "tenant", s.tenant)
	}
	s.span("shop", name, root, [8]byte{}, s.at, end+own/2-s.at, failed, attributes...)
}
