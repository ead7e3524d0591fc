package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// The variables for the servers of BenchmarkService. The test binary runs itself as each server. A server prints
// its address, and serves until its standard input ends. Then it prints how many spans it has recorded.
const (
	roleVariable      = "ENTRACE_BENCH_ROLE"
	dirVariable       = "ENTRACE_BENCH_DIR"
	collectorVariable = "ENTRACE_BENCH_COLLECTOR"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := serve(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

func serve(role string) error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if role == roleCollector {
		return serveCollector(ln)
	}
	t, err := newTelemetry(role)
	if err != nil {
		return err
	}
	h := newShop
	if role == roleIdle || role == roleFlight || role == roleExec {
		h = newOffice
	}
	srv := &http.Server{Handler: h(t)}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	waitForEnd(ln)
	serr := srv.Shutdown(context.Background())
	<-served
	spans, cerr := t.close()
	fmt.Println(spans)
	return errors.Join(serr, cerr)
}

// waitForEnd prints the address of ln, and waits until the standard input ends, which also happens if the parent
// process dies.
func waitForEnd(ln net.Listener) {
	fmt.Println(ln.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// A telemetry is the logger of a server, with functions that flush and close its logs and spans.
type telemetry struct {
	log *slog.Logger
	// flush completes all pending work.
	flush func(context.Context) error
	close func() (spans uint64, err error)
}

const (
	roleNothing   = "nothing"
	roleEntrace   = "entrace"
	roleOTLP      = "json+otlp"
	roleCollector = "collector"
)

func newTelemetry(role string) (*telemetry, error) {
	dir := os.Getenv(dirVariable)
	otel.SetTextMapPropagator(propagation.TraceContext{})
	switch role {
	case roleNothing:
		return &telemetry{
			log:   slog.New(slog.DiscardHandler),
			flush: func(context.Context) error { return nil },
			close: func() (uint64, error) { return 0, nil },
		}, nil
	case roleEntrace:
		rec, err := recorder.Create(filepath.Join(dir, "shop.iet"), nil)
		if err != nil {
			return nil, err
		}
		p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
		if err != nil {
			return nil, err
		}
		tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p))
		otel.SetTracerProvider(tp)
		return &telemetry{
			log: slog.New(slogadapter.New(rec, nil)),
			flush: func(ctx context.Context) error {
				return errors.Join(tp.ForceFlush(ctx), rec.Flush(context.Background()), rec.Err())
			},
			close: func() (uint64, error) {
				ctx := context.Background()
				return rec.Stats().Spans.Written, errors.Join(tp.Shutdown(ctx), rec.Close(ctx))
			},
		}, nil
	case roleIdle, roleFlight, roleExec:
		return newFlight(role)
	case roleOTLP:
		f, err := os.Create(filepath.Join(dir, "shop.json"))
		if err != nil {
			return nil, err
		}
		e, err := otlptracegrpc.New(context.Background(),
			otlptracegrpc.WithEndpoint(os.Getenv(collectorVariable)), otlptracegrpc.WithInsecure())
		if err != nil {
			return nil, err
		}
		// With blocking, no span is dropped. The collector counts them.
		tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(e, sdktrace.WithBlocking()))
		otel.SetTracerProvider(tp)
		return &telemetry{
			log:   slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{AddSource: true})),
			flush: tp.ForceFlush,
			close: func() (uint64, error) {
				return 0, errors.Join(tp.Shutdown(context.Background()), f.Close())
			},
		}, nil
	}
	return nil, errors.New("there is no such role")
}

// A shop is the service of BenchmarkService. A request makes six log records and four spans, one of them by
// otelhttp.
type shop struct {
	log    *slog.Logger
	tracer trace.Tracer
}

const (
	spansPerRequest   = 4
	recordsPerRequest = 6
)

func newShop(t *telemetry) http.Handler {
	s := &shop{log: t.log, tracer: otel.Tracer("example.com/shop")}
	mux := http.NewServeMux()
	mux.Handle("GET /carts/{id}", otelhttp.NewHandler(http.HandlerFunc(s.cart), "GET /carts/{id}"))
	mux.HandleFunc("GET /cpu", func(w http.ResponseWriter, r *http.Request) { serveCPU(w, r, t) })
	return mux
}

func (s *shop) cart(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	s.log.LogAttrs(ctx, slog.LevelInfo, "request received",
		slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("remote", r.RemoteAddr))
	items := s.load(ctx, id)
	total := s.price(ctx, id, items)
	body := s.render(ctx, id, items, total)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := io.WriteString(w, body)
	s.log.LogAttrs(ctx, slog.LevelInfo, "request served",
		slog.Int("status", http.StatusOK), slog.Int("bytes", len(body)), slog.String("cart", id),
		slog.Bool("cached", false), slog.Any("err", err))
}

func (s *shop) load(ctx context.Context, id string) []int {
	ctx, span := s.tracer.Start(ctx, "SELECT cart_items", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("db.system.name", "postgresql"),
		attribute.String("db.namespace", "shop"),
		attribute.String("db.query.text", "SELECT sku, quantity FROM cart_items WHERE cart_id = $1"),
		attribute.String("server.address", "db.example.com"),
		attribute.Int("server.port", 5432),
	))
	defer span.End()
	items := []int{4711, 815, 1729}
	s.log.LogAttrs(ctx, slog.LevelInfo, "cart loaded", slog.String("cart", id), slog.Int("items", len(items)))
	span.SetAttributes(attribute.Int("db.response.returned_rows", len(items)))
	return items
}

func (s *shop) price(ctx context.Context, id string, items []int) int {
	ctx, span := s.tracer.Start(ctx, "price", trace.WithAttributes(
		attribute.String("cart.id", id),
		attribute.Int("cart.items", len(items)),
		attribute.String("currency", "EUR"),
	))
	defer span.End()
	total := 0
	for _, sku := range items {
		total += sku
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "prices are those of yesterday",
		slog.String("upstream", "prices.example.com:8443"), slog.Duration("age", 23*time.Hour), slog.Time("since", sample.start))
	s.log.LogAttrs(ctx, slog.LevelWarn, "discount not applied",
		slog.String("code", "WELCOME"), slog.Float64("ratio", 0.1), slog.Any("err", sample.err))
	span.SetAttributes(attribute.Int("cart.total", total), attribute.Float64("cart.discount", 0), attribute.Bool("cart.stale", true))
	return total
}

func (s *shop) render(ctx context.Context, id string, items []int, total int) string {
	ctx, span := s.tracer.Start(ctx, "render", trace.WithAttributes(attribute.String("template", "cart.txt")))
	defer span.End()
	var out strings.Builder
	fmt.Fprintf(&out, "cart %s\n", id)
	for _, sku := range items {
		fmt.Fprintf(&out, "%8d\n", sku)
	}
	fmt.Fprintf(&out, "total %d\n", total)
	s.log.LogAttrs(ctx, slog.LevelInfo, "cart rendered", slog.Int("bytes", out.Len()), slog.String("template", "cart.txt"))
	span.SetAttributes(attribute.Int("bytes", out.Len()), attribute.String("language", "en"))
	return out.String()
}

// A collector stands in for OpenTelemetry's Collector: it receives spans and counts them.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer

	spans atomic.Uint64
}

func (c *collector) Export(_ context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	for _, rs := range r.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			c.spans.Add(uint64(len(ss.GetSpans())))
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func serveCollector(ln net.Listener) error {
	c := new(collector)
	srv := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(srv, c)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	waitForEnd(ln)
	srv.GracefulStop()
	fmt.Println(c.spans.Load())
	return <-served
}

// A process is a server process from the view of its parent.
type process struct {
	addr  string
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
	ended bool
}

// startProcess starts a server, which ends with the benchmark at the latest.
func startProcess(b *testing.B, role string, env ...string) *process {
	b.Helper()
	self, err := os.Executable()
	must(b, err)
	p := &process{cmd: exec.Command(self)}
	p.cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	must(b, err)
	stdout, err := p.cmd.StdoutPipe()
	must(b, err)
	p.out = bufio.NewReader(stdout)
	must(b, p.cmd.Start())
	b.Cleanup(func() {
		if !p.ended {
			_, err := p.end()
			b.Logf("%s was ended early: %v", role, err)
		}
	})
	p.addr, err = p.line()
	must(b, err)
	return p
}

func (p *process) line() (string, error) {
	s, err := p.out.ReadString('\n')
	return strings.TrimSuffix(s, "\n"), err
}

// end ends a server and returns how many spans it has recorded.
func (p *process) end() (spans int, err error) {
	p.ended = true
	kill := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	err = p.stdin.Close()
	s, lerr := p.line()
	if lerr == nil {
		spans, lerr = strconv.Atoi(s)
	}
	return spans, errors.Join(err, lerr, p.cmd.Wait())
}
