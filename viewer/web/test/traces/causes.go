package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
)

// A story is a trace in which requests are slow or fail for a reason that the page should show.
type story struct {
	all  []*format.TraceEntry
	rand *rand.Rand
	ids  uint64
}

func newStory() *story {
	return &story{all: []*format.TraceEntry{format.Root()}, rand: rand.New(rand.NewPCG(1, 2)) /* #nosec G404 -- the same every time */}
}

func text(name, value string) format.Attribute {
	return format.Attribute{Name: name, Value: format.StringValue(value)}
}

func (s *story) resource(service string, more ...format.Attribute) uint32 {
	s.all = append(s.all, &format.TraceEntry{Message: format.Some(service), Metadata: format.Metadata{Name: format.NameResource}, Attributes: append([]format.Attribute{text("service.name", service)}, more...)})
	return uint32(len(s.all) - 1)
}

// begun is the time at which the stories begin.
var begun = time.Date(2026, 11, 24, 21, 27, 0, 0, time.UTC)

// span adds a span that begins at the time at after begun.
func (s *story) span(parent uint32, trace uint64, name string, at, took time.Duration, failed bool, more ...format.Attribute) uint32 {
	s.ids++
	e := span(parent, s.ids, name, more...)
	e.Attributes[1] = text(format.AttrTraceID, fmt.Sprintf("%032x", trace))
	e.Attributes[2].Value = format.U64Value(uint64(begun.Add(at).UnixNano()))
	e.Attributes[3].Value = format.U64Value(uint64(took))
	if failed {
		e.Metadata.Level = format.LevelError
		e.Attributes = append(e.Attributes, text(mapping.AttrStatusCode, "ERROR"))
	}
	s.all = append(s.all, e)
	return uint32(len(s.all) - 1)
}

// between returns a random time from least up to most.
func (s *story) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.rand.Int64N(int64(most-least)))
}

func one[T any](s *story, list ...T) T { return list[s.rand.IntN(len(list))] }

// warehouse has requests that are slow if they are for one of the warehouses. For eight seconds nothing happens.
func warehouse() []*format.TraceEntry {
	s := newStory()
	shop, stock := s.resource("shop"), s.resource("stock")
	for i := range uint64(600) {
		at := time.Duration(i) * 50 * time.Millisecond
		if i >= 300 {
			at += 8 * time.Second
		}
		where := one(s, "north", "south", "south", "west", "west")
		took := s.between(4*time.Millisecond, 9*time.Millisecond)
		if where == "north" {
			took = s.between(300*time.Millisecond, time.Second)
		}
		root := s.span(shop, i+1, "POST /checkout", at, took+6*time.Millisecond, false, text("region", one(s, "eu", "us")), text("user", fmt.Sprint("user-", i)))
		s.span(root, i+1, "authorize", at+time.Millisecond, 2*time.Millisecond, false)
		s.span(stock, i+1, "reserve", at+4*time.Millisecond, took, false, text("warehouse", where), text("region", one(s, "eu", "us")))
		s.all[len(s.all)-1].Attributes = append(s.all[len(s.all)-1].Attributes, text(format.AttrParentSpanID, fmt.Sprintf("%016x", s.ids-2)))
	}
	return s.all
}

// pool has requests that wait for a connection while one job holds it.
func pool() []*format.TraceEntry {
	s := newStory()
	shop := s.resource("shop")
	const from, to = 20 * time.Second, 28 * time.Second
	job := s.span(shop, 10_000, "reindex", from, to-from, false, text("pool", "main"))
	s.span(job, 10_000, "SELECT all", from+time.Millisecond, to-from-2*time.Millisecond, false)
	for i := range uint64(400) {
		at := time.Duration(i) * 100 * time.Millisecond
		wait := s.between(50*time.Microsecond, 200*time.Microsecond)
		if at > from && at < to {
			wait = to - at
		}
		query := s.between(3*time.Millisecond, 6*time.Millisecond)
		root := s.span(shop, i+1, "GET /orders", at, wait+query+2*time.Millisecond, false, text("region", one(s, "eu", "us")))
		s.span(root, i+1, "acquire connection", at+time.Millisecond, wait, false)
		s.span(root, i+1, "SELECT orders", at+time.Millisecond+wait, query, false)
	}
	return s.all
}

// outlier has exports. One in five exports is slower because its format is pdf, and a few exports of one tenant are
// much slower.
func outlier() []*format.TraceEntry {
	s := newStory()
	shop := s.resource("shop")
	for i := range uint64(1000) {
		kind, took, tenant := "csv", s.between(3*time.Millisecond, 6*time.Millisecond), one(s, "ikea", "otto", "coop")
		if i%5 == 0 {
			kind, took = "pdf", s.between(25*time.Millisecond, 50*time.Millisecond)
		}
		if i%200 == 99 {
			took, tenant = s.between(400*time.Millisecond, 490*time.Millisecond), "acme"
		}
		s.span(shop, i+1, "GET /export", time.Duration(i)*20*time.Millisecond, took, false, text("format", kind), text("tenant", tenant))
	}
	return s.all
}

// loop has requests that run one query for each price. The second request has the most prices.
func loop() []*format.TraceEntry {
	s := newStory()
	shop := s.resource("shop")
	for i, prices := range []int{5, 12, 7} {
		trace, at := uint64(i)+1, time.Duration(i)*time.Second
		list := s.span(shop, trace, "GET /list", at, 100*time.Millisecond, false)
		for n := range prices {
			s.span(list, trace, "SELECT", at+time.Duration(n+1)*5*time.Millisecond, time.Millisecond, false, text("db.query.text", fmt.Sprintf("SELECT <b>amount</b> FROM prices WHERE id = %d", n)))
		}
	}
	return s.all
}

// release has a service whose new version fails twice as often. It contains the requests with numbers in [from,
// to).
func release(from, to uint64) []*format.TraceEntry {
	s := newStory()
	versions := []uint32{s.resource("shop", text("service.version", "1.14.1")), s.resource("shop", text("service.version", "1.14.2"))}
	for i := from; i < to; i++ {
		at := time.Duration(i) * 20 * time.Millisecond
		version, often := 0, .06
		if i >= 1000 {
			version, often = 1, .12
		}
		s.span(versions[version], i+1, "GET /price", at, s.between(2*time.Millisecond, 9*time.Millisecond), s.rand.Float64() < often, text("region", one(s, "eu", "us")), text("currency", one(s, "EUR", "USD", "GBP")))
	}
	return s.all
}
