// Command generate writes a trace of an invented shop for benchmarks that read traces:
//
//	go run ./generate -entries 10000000 /tmp/shop.et
//
// The same flags result in the same file. Each OpenTelemetry trace in the file has a root span, three spans below
// it, and a log record. The three spans end in another order than they began.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
)

func main() {
	entries := flag.Int("entries", 10_000_000, "about how many entries to write")
	version := flag.Int("version", 1, "the disk version, 1 or 2")
	flag.Parse()
	if err := write(flag.Arg(0), *entries, format.Version(*version)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(name string, entries int, version format.Version) error {
	stream, isET := strings.CutSuffix(name, ".et")
	if isET {
		name = stream + ".iet"
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	w, err := format.NewWriter(f, version, format.IET, nil)
	if err != nil {
		return err
	}
	s := shop{w: w, rand: rand.New(rand.NewPCG(1, 2)) /* #nosec G404 -- it is to be the same every time */, clock: 1_790_000_000_000_000_000}
	s.put(0, format.TraceEntry{Metadata: format.Metadata{Name: "root"}})
	for i := range 3 {
		s.resources[i] = s.put(0, format.TraceEntry{
			Message: format.Some(services[i]), Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo},
			Attributes: []format.Attribute{{Name: "service.name", Value: format.StringValue(services[i])}, {Name: "host.name", Value: format.StringValue("host-1")}},
		})
	}
	for n := 0; w.Len() < int64(entries) && s.err == nil; n++ {
		s.trace(n)
	}
	s.put(0, format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameEnd, Level: format.LevelInfo}})
	if err := errors.Join(s.err, w.Close(), f.Close()); err != nil || !isET {
		return err
	}
	return format.Finalize(context.Background(), name, stream+".et", nil)
}

var (
	services = [...]string{"shop", "price", "stock"}
	routes   = [...]string{"GET /cart", "GET /item", "POST /order", "GET /search", "GET /login"}
	calls    = [...]string{"SELECT price", "GET stock", "render", "authorize", "SELECT item", "cache get"}
	systems  = [...]string{"postgres", "redis", "mysql"}
)

type shop struct {
	w         *format.Writer
	rand      *rand.Rand
	clock     int64
	resources [3]uint32
	err       error
}

func (s *shop) put(parent uint32, e format.TraceEntry) uint32 {
	e.Parent = parent
	if s.w.Version() == format.V2 {
		format.SortAttributes(e.Attributes)
	}
	id, err := s.w.Write(&e)
	s.err = errors.Join(s.err, err)
	return id
}

func (s *shop) hex(n int) format.Value {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.rand.Uint32())
	}
	return format.StringValue(fmt.Sprintf("%x", b))
}

type open struct {
	entry uint32
	id    format.Value
	start int64
	took  int64
	fails bool
}

func (s *shop) begin(parent uint32, name, scope, kind string, start int64, attrs ...format.Attribute) open {
	o := open{id: s.hex(8), start: start}
	o.entry = s.put(parent, format.TraceEntry{
		Metadata: format.Metadata{Name: name, Target: scope, Level: format.LevelInfo},
		Attributes: append([]format.Attribute{
			{Name: format.AttrSpanID, Value: o.id},
			{Name: format.AttrTime, Value: format.U64Value(uint64(start))},
			{Name: mapping.AttrKind, Value: format.StringValue(kind)},
		}, attrs...),
	})
	return o
}

func (s *shop) end(o open) {
	e := format.TraceEntry{
		Metadata: format.Metadata{Name: format.NameSpanEnd, Level: format.LevelInfo},
		Attributes: []format.Attribute{
			{Name: format.AttrSpanID, Value: o.id},
			{Name: format.AttrDuration, Value: format.U64Value(uint64(o.took))},
		},
	}
	if o.fails {
		e.Metadata.Level = format.LevelError
		e.Add(mapping.AttrStatusCode, format.StringValue("ERROR"))
	}
	s.put(o.entry, e)
}

// trace writes trace number n, which has nine entries.
func (s *shop) trace(n int) {
	s.clock += int64(s.rand.IntN(200_000))
	at := s.clock
	route := routes[n%len(routes)]
	fails := n%33 == 0
	top := s.begin(s.resources[0], route, "shop/http", "server", at,
		format.Attribute{Name: format.AttrTraceID, Value: s.hex(16)},
		format.Attribute{Name: "http.request.method", Value: format.StringValue(route[:strings.IndexByte(route, ' ')])},
		format.Attribute{Name: "url.path", Value: format.StringValue(fmt.Sprintf("/cart/%d", n%1000))},
	)
	top.fails = fails
	var parts [3]open
	for i := range parts {
		call := calls[(n+i*7)%len(calls)]
		parent := top.entry
		if i == 2 {
			parent = parts[1].entry
		}
		at += int64(1000 + s.rand.IntN(50_000))
		parts[i] = s.begin(parent, call, "shop/db", "client", at,
			format.Attribute{Name: "db.system", Value: format.StringValue(systems[(n+i)%len(systems)])},
			format.Attribute{Name: "rows", Value: format.I64Value(int64(s.rand.IntN(100)))},
		)
		parts[i].took = int64(s.rand.ExpFloat64() * 60_000)
		parts[i].fails = fails && i == 2
	}
	level, text := format.LevelInfo, "cart shown"
	switch {
	case fails:
		level, text = format.LevelError, "payment failed"
	case n%10 == 0:
		level, text = format.LevelWarn, "cache miss"
	}
	s.put(parts[1].entry, format.TraceEntry{
		Message:  format.Some(text),
		Metadata: format.Metadata{Name: "event", Target: "shop", Level: level, File: format.Some("/src/shop/cart.go"), Line: format.Some(uint32(40 + n%7))},
		Attributes: []format.Attribute{
			{Name: format.AttrTime, Value: format.U64Value(uint64(at + 500))},
			{Name: "user", Value: format.StringValue(fmt.Sprintf("user-%d", n%5000))},
			{Name: "n", Value: format.I64Value(int64(n))},
		},
	})
	for _, i := range []int{2, 0, 1} {
		s.end(parts[i])
		top.took = max(top.took, parts[i].start+parts[i].took-top.start)
	}
	top.took += int64(s.rand.IntN(20_000))
	s.end(top)
}
