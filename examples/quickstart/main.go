// Command quickstart is a small HTTP service that records itself. It sends requests
// to itself, and handlers send further ones. The trace has log records inside and
// outside of spans, an error, a panic that is recovered, and goroutines with spans of
// their own. The command writes trace.et, which 'entrace tree' prints.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
)

var tracer = otel.Tracer("example.com/shop")

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	p, err := entrace.Setup(ctx, exporter.WithPath("trace.et"), entrace.WithLogLevel(slog.LevelDebug),
		entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "shop"))))
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(p.LogHandler(nil))) // to stderr and to the recorder
	slog.Info("starting up", "pid", os.Getpid())
	if err := traffic(ctx); err != nil {
		return errors.Join(err, p.Shutdown(ctx))
	}
	slog.Info("shutting down")
	if err := p.Shutdown(ctx); err != nil {
		return err
	}
	fmt.Println("Look at it: entrace tree", p.Recorder().Path())
	return nil
}

// traffic runs the service on a free port of this machine, and sends requests to it.
func traffic(ctx context.Context) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := "http://" + l.Addr().String()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /cart", func(w http.ResponseWriter, r *http.Request) { cart(w, r, address) })
	mux.HandleFunc("GET /price/{item}", price)
	mux.HandleFunc("GET /broken", broken)
	s := &http.Server{Handler: otelhttp.NewHandler(mux, "request"), ReadHeaderTimeout: time.Second}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	for _, path := range []string{"/cart?user=ada", "/cart?user=mallory", "/broken"} {
		if status, err := get(ctx, address+path); err != nil {
			return err
		} else if status != http.StatusOK {
			slog.Warn("request was not served", "path", path, "status", status)
		}
	}
	return nil
}

// cart looks up the prices of the items in a cart, all at once.
func cart(w http.ResponseWriter, r *http.Request, address string) {
	ctx := r.Context()
	user := r.URL.Query().Get("user")
	items := []string{"teapot", "kettle", "spoon"}
	slog.InfoContext(ctx, "cart loaded", "user", user, "items", len(items))
	if user == "mallory" {
		err := errors.New("account is locked")
		span := trace.SpanFromContext(ctx)
		span.RecordError(err)
		span.SetStatus(codes.Error, "no checkout")
		slog.ErrorContext(ctx, "checkout refused", "user", user, "err", err)
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	var wg sync.WaitGroup
	for _, item := range items {
		wg.Go(func() {
			ctx, span := tracer.Start(ctx, "look up", trace.WithAttributes(attribute.String("item", item)))
			defer span.End()
			if _, err := get(ctx, address+"/price/"+item); err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
		})
	}
	wg.Wait()
	fmt.Fprintln(w, "3 items")
}

// price returns the price of an item.
func price(w http.ResponseWriter, r *http.Request) {
	_, span := tracer.Start(r.Context(), "SELECT price", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	time.Sleep(2 * time.Millisecond) // simulates a database
	span.AddEvent("row read", trace.WithAttributes(attribute.Int("cents", 1999)))
	slog.DebugContext(r.Context(), "price found", "item", r.PathValue("item"), "took", 2*time.Millisecond)
	fmt.Fprintln(w, 1999)
}

// broken panics and recovers.
func broken(w http.ResponseWriter, r *http.Request) {
	ctx, span := tracer.Start(r.Context(), "divide")
	defer func() {
		if p := recover(); p != nil {
			span.RecordError(fmt.Errorf("panic: %v", p), trace.WithStackTrace(true))
			span.SetStatus(codes.Error, "panic")
			slog.ErrorContext(ctx, "recovered", "panic", fmt.Sprint(p))
			w.WriteHeader(http.StatusInternalServerError)
		}
		span.End()
	}()
	zero := 0
	fmt.Fprintln(w, 1/zero)
}

var client = &http.Client{Transport: otelhttp.NewTransport(http.DefaultTransport), Timeout: 5 * time.Second}

func get(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}
