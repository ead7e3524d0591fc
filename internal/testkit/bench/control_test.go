package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
)

const (
	roleIdle   = "processor that does nothing"
	roleFlight = "flight-recorder"
	roleExec   = "exec-trace" // a flight recorder that also records Go's execution trace
)

// flightConfig returns a typical configuration of a flight recorder.
func flightConfig(dir string) *control.Config {
	always := control.Spans | control.Logs | control.RuntimeMetrics | control.GC
	return &control.Config{
		ID: "bench", Dir: dir, Ring: control.RingConfig{Bytes: 64 << 20, Persist: true, Always: always},
		Traces: []control.TraceConfig{{
			Name: "all", Providers: always | control.Goroutines,
			On: []control.On{
				{Trigger: control.TriggerLog, Level: 8},
				{Trigger: control.TriggerSpan, LongerThan: 10 * time.Second},
				{Trigger: control.TriggerWatchdog, LongerThan: 10 * time.Second},
				{Trigger: control.TriggerAPI},
			},
		}},
	}
}

type idleProcessor struct{}

func (idleProcessor) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (idleProcessor) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (idleProcessor) Shutdown(context.Context) error                  { return nil }
func (idleProcessor) ForceFlush(context.Context) error                { return nil }

// newFlight returns the telemetry of a server: for roleIdle a processor that does nothing, for the other roles a
// flight recorder. It gets all spans.
func newFlight(role string) (*telemetry, error) {
	if role == roleIdle {
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(idleProcessor{}))
		otel.SetTracerProvider(tp)
		return &telemetry{
			flush: func(context.Context) error { return nil },
			close: func() (uint64, error) { return 0, tp.Shutdown(context.Background()) },
		}, nil
	}
	config := flightConfig(filepath.Join(os.Getenv(dirVariable), "flight"))
	if role == roleExec {
		config.Ring.Always |= control.ExecTrace
	}
	ctl, err := control.New(&control.Options{Config: config, Providers: provider.All()})
	if err != nil {
		return nil, err
	}
	p, err := entrace.Setup(context.Background(), entrace.WithControl(ctl))
	if err != nil {
		return nil, err
	}
	return &telemetry{
		flush: func(context.Context) error { return nil },
		close: func() (uint64, error) {
			spans := p.Recorder().Stats().Spans.Written
			ctx := context.Background()
			return spans, errors.Join(p.Shutdown(ctx), ctl.Shutdown(ctx))
		},
	}, nil
}

const (
	// flightSpans is the number of spans of a request to the office.
	flightSpans = 10
	// requestsToFill is a number of requests that surely fills the ring once.
	requestsToFill = 20_000
)

// An office is a service whose requests need some hundred microseconds of CPU time: it checks a JSON document,
// adds up its numbers, and answers with the compressed document. It has a cache of 64 MiB. With an almost empty
// heap, garbage collection would need most of the time, and a recorder that uses more memory would make
// collections rarer.
type office struct {
	tracer trace.Tracer
	doc    []byte
	cache  map[string][]byte
	zips   sync.Pool
}

type orderLine struct {
	SKU      string   `json:"sku"`
	Quantity int      `json:"quantity"`
	Price    float64  `json:"price"`
	Tags     []string `json:"tags"`
}

func newOffice(t *telemetry) http.Handler {
	var lines []orderLine
	for i := range 120 {
		lines = append(lines, orderLine{fmt.Sprintf("sku-%05d", i*7919%100000), i%7 + 1, float64(i) * 1.25, []string{"fragile", "blue", fmt.Sprint("lot-", i%13)}})
	}
	doc, _ := json.Marshal(lines)
	o := &office{tracer: otel.Tracer("example.com/office"), doc: doc, cache: make(map[string][]byte)}
	o.zips.New = func() any {
		z, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed)
		return z
	}
	for i := range 16 << 10 {
		o.cache[fmt.Sprint("order ", i)] = make([]byte, 4<<10)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /carts/{id}", o.serve)
	mux.HandleFunc("GET /cpu", func(w http.ResponseWriter, r *http.Request) { serveCPU(w, r, t) })
	return mux
}

func serveCPU(w http.ResponseWriter, r *http.Request, t *telemetry) {
	if err := t.flush(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	used, _ := cpuTime()
	fmt.Fprint(w, used.Nanoseconds())
}

func (o *office) step(ctx context.Context, name string, fn func(context.Context)) {
	ctx, span := o.tracer.Start(ctx, name, trace.WithAttributes(
		attribute.String("order.id", "2026-0815"), attribute.Int("order.lines", 100), attribute.String("customer", "ada")))
	fn(ctx)
	span.SetAttributes(attribute.Bool("ok", true))
	span.End()
}

func (o *office) serve(w http.ResponseWriter, r *http.Request) {
	o.step(r.Context(), "GET /carts/{id}", func(ctx context.Context) {
		_ = o.cache[r.PathValue("id")]
		var lines []orderLine
		o.step(ctx, "decode", func(context.Context) { _ = json.Unmarshal(o.doc, &lines) })
		total := 0.0
		o.step(ctx, "check", func(ctx context.Context) {
			for _, part := range []string{"stock", "prices", "customs", "limits"} {
				o.step(ctx, part, func(context.Context) {
					slices.SortFunc(lines, func(a, b orderLine) int { return bytes.Compare([]byte(a.SKU), []byte(b.SKU)) })
					for _, l := range lines {
						total += float64(l.Quantity) * l.Price
					}
				})
			}
		})
		var body []byte
		o.step(ctx, "encode", func(context.Context) { body, _ = json.Marshal(lines) })
		o.step(ctx, "sign", func(context.Context) { w.Header().Set("Digest", fmt.Sprintf("%x", sha256.Sum256(body))) })
		o.step(ctx, "compress", func(context.Context) {
			z := o.zips.Get().(*gzip.Writer)
			z.Reset(w)
			_, _ = z.Write(body)
			_ = z.Close()
			o.zips.Put(z)
		})
	})
}

// BenchmarkFlightRecorder sends 1,000 requests a second, with 10 spans each, to three HTTP services. The first one
// sends its spans to a processor that does nothing. The second one has a flight recorder, and the third one a
// flight recorder with Go's execution trace. The ring is full before the measurement. An operation is one request
// to each service. The benchmark reports the CPU time of each server's process per request.
func BenchmarkFlightRecorder(b *testing.B) {
	if _, ok := cpuTime(); !ok {
		b.Skip("this system does not say how much of the CPU a process used")
	}
	b.Run("spans=10", func(b *testing.B) {
		roles := []string{roleIdle, roleFlight, roleExec}
		var clients []*client
		var servers []*process
		for _, role := range roles {
			p := startProcess(b, role, dirVariable+"="+b.TempDir())
			servers = append(servers, p)
			clients = append(clients, newClient(b, p.addr))
		}
		const slice = 250
		load := func(n int) {
			for done := 0; done < n; done += slice {
				for _, c := range clients {
					must(b, c.paced(min(slice, n-done), time.Millisecond))
				}
			}
		}
		warm := 1
		if b.N > 1 {
			warm = requestsToFill
		}
		for _, c := range clients {
			must(b, c.paced(warm, 0))
		}
		before := make([]time.Duration, len(roles))
		for i, c := range clients {
			before[i] = c.cpu(b)
		}
		b.ResetTimer()
		load(b.N)
		b.StopTimer()
		for i, name := range []string{"nothing", roleFlight, roleExec} {
			b.ReportMetric(float64((clients[i].cpu(b)-before[i]).Nanoseconds())/float64(b.N), name+"-cpu-ns/req")
		}
		for i, p := range servers {
			spans, err := p.end()
			must(b, err)
			if want := (b.N + warm) * flightSpans; i > 0 && spans < want {
				b.Fatalf("%d spans were recorded, want %d", spans, want)
			}
		}
	})
}

// paced makes n requests. It begins one request in each period of length every.
func (c *client) paced(n int, every time.Duration) error {
	var wg sync.WaitGroup
	var failed atomic.Pointer[error]
	begin := time.Now()
	slots := make(chan struct{}, 4*connections)
	for i := range n {
		time.Sleep(time.Until(begin.Add(time.Duration(i) * every)))
		slots <- struct{}{}
		wg.Go(func() {
			if _, err := c.get("/carts/0815"); err != nil {
				failed.Store(&err)
			}
			<-slots
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// BenchmarkSpanEnd measures the end of a span in two cases: while nothing else happens, and while one snapshot
// after the other of a full ring is made. It reports the 99th percentile for both.
func BenchmarkSpanEnd(b *testing.B) {
	b.Run("snapshots", func(b *testing.B) {
		ctl, err := control.New(&control.Options{Config: flightConfig(b.TempDir()), Providers: provider.All()})
		must(b, err)
		p, err := entrace.Setup(context.Background(), entrace.WithControl(ctl), entrace.WithoutGlobals())
		must(b, err)
		tracer := p.TracerProvider().Tracer("example.com/office")
		span := func() time.Duration {
			_, s := tracer.Start(context.Background(), "work", trace.WithAttributes(spanAttrs()...))
			begin := time.Now()
			s.End()
			return time.Since(begin)
		}
		for ctl.Stats().Ring.Evicted == 0 { // until the ring is full
			for range 1000 {
				span()
			}
		}
		p99 := func(n int) float64 {
			took := make([]time.Duration, n)
			for i := range took {
				took[i] = span()
				if i%10 == 9 {
					time.Sleep(500 * time.Microsecond) // about 10,000 spans a second
				}
			}
			slices.Sort(took)
			return float64(took[n*99/100].Nanoseconds())
		}
		normal := p99(b.N)
		stop, done := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					done <- n
					return
				default:
				}
				if _, err := ctl.Start(context.Background(), control.Request{Trigger: control.TriggerAPI, Manual: true}); err != nil {
					b.Error(err)
				}
				n++
			}
		}()
		b.ResetTimer()
		during := p99(b.N)
		b.StopTimer()
		close(stop)
		b.ReportMetric(float64(<-done), "snapshots")
		b.ReportMetric(normal, "p99-normal-ns")
		b.ReportMetric(during, "p99-snapshot-ns")
		must(b, errors.Join(p.Shutdown(context.Background()), ctl.Shutdown(context.Background())))
	})
}

// BenchmarkProviderOff measures Enabled for a provider that is off.
func BenchmarkProviderOff(b *testing.B) {
	c := flightConfig(b.TempDir())
	ctl, err := control.New(&control.Options{Config: c, Providers: provider.All()})
	must(b, err)
	b.ReportAllocs()
	for b.Loop() {
		if ctl.Enabled(control.CPUProfile) {
			b.Fatal("it is on")
		}
	}
	must(b, ctl.Shutdown(context.Background()))
}
