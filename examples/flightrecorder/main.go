// Command flightrecorder is an HTTP service with a flight recorder. The recorder keeps the spans
// and log records of the last minute in memory, and writes them to a file when a trigger fires, for
// example an error or a slow request. Try
//
//	go run ./examples/flightrecorder -listen localhost:8080 -dir traces
//	curl localhost:8080/ok?user=ada       # no reason, no file
//	curl localhost:8080/error             # the first ERROR: a file
//	curl localhost:8080/slow              # takes 1 s, the limit is 500 ms: a file
//	curl localhost:8080/hang              # hangs for 15 s: a file while it does
//	curl localhost:8080/panic             # a file
//	kill -USR1 PID                        # a file
//	curl -X POST localhost:8080/debug/entrace/snapshot
//	kill -9 PID                           # a file, at the next start
//
// and then entrace tree traces/*-slow.et.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/httpapi"
	"github.com/entrace-go/entrace/control/provider"
)

var tracer = otel.Tracer("example.com/flightrecorder")

func main() {
	listen := flag.String("listen", "localhost:8080", "serve on `ADDR`")
	dir := flag.String("dir", "traces", "put the traces into `DIR`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "flightrecorder:", err)
		os.Exit(1)
	}
}

// config returns the configuration, which says when the program writes a trace.
func config(dir string) *control.Config {
	always := control.Spans | control.Logs | control.RuntimeMetrics | control.GC
	snapshot := func(name string, every time.Duration, on ...control.On) control.TraceConfig {
		return control.TraceConfig{Name: name, On: on, Providers: always | control.Goroutines, Window: time.Minute, Every: every, PerHour: 20}
	}
	return &control.Config{
		ID: "flightrecorder-1", Dir: dir,
		Keep: control.Keep{Files: 50, Bytes: 1 << 30},
		Ring: control.RingConfig{Bytes: 32 << 20, Persist: true, Always: always},
		Traces: []control.TraceConfig{
			snapshot("error", time.Minute, control.On{Trigger: control.TriggerLog, Level: slog.LevelError}),
			snapshot("slow", time.Minute, control.On{Trigger: control.TriggerSpan, LongerThan: 500 * time.Millisecond}),
			snapshot("hang", time.Minute, control.On{Trigger: control.TriggerWatchdog, LongerThan: 2 * time.Second}),
			snapshot("panic", time.Minute, control.On{Trigger: control.TriggerPanic}),
			snapshot("asked", 5*time.Second, control.On{Trigger: control.TriggerSignal}, control.On{Trigger: control.TriggerHTTP}),
			{
				Name: "deep", Mode: control.ModeStream, Timeout: 30 * time.Second, MaxBytes: 256 << 20,
				On:        []control.On{{Trigger: control.TriggerHTTP}},
				Providers: always | control.Sched | control.CPUProfile | control.Goroutines,
				Params:    map[string]string{"runtime.metrics.interval": "100ms"},
			},
		},
	}
}

func run(ctx context.Context, listen, dir string) error {
	ctl, err := control.New(&control.Options{
		Config: config(dir), Providers: provider.All(), Service: "flightrecorder",
		OnError: func(err error) { fmt.Fprintln(os.Stderr, "trace control:", err) },
		OnTrace: func(t *control.Trace) { fmt.Fprintln(os.Stderr, "trace:", t.Path(), t.Verdict()) },
	})
	if err != nil {
		return err
	}
	p, err := entrace.Setup(ctx, entrace.WithControl(ctl), entrace.WithSampler(sdktrace.NeverSample()), // the flight recorder still gets all spans
		entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "flightrecorder"))))
	if err != nil {
		return errors.Join(err, ctl.Shutdown(ctx))
	}
	slog.SetDefault(slog.New(p.LogHandler(nil))) // to stderr and to the recorder
	err = serve(ctx, listen, ctl)
	ctx = context.WithoutCancel(ctx)
	return errors.Join(err, p.Shutdown(ctx), ctl.Shutdown(ctx))
}

func serve(ctx context.Context, listen string, ctl *control.Control) error {
	mux := http.NewServeMux()
	mux.Handle("/debug/entrace/", http.StripPrefix("/debug/entrace", httpapi.New(ctl, nil)))
	mux.Handle("GET /ok", traced(ctl, func(ctx context.Context) { slog.DebugContext(ctx, "all is well") }))
	mux.Handle("GET /slow", traced(ctl, func(ctx context.Context) { query(ctx, time.Second) }))
	mux.Handle("GET /error", traced(ctl, func(ctx context.Context) {
		slog.ErrorContext(ctx, "the warehouse is on fire", "floor", 3)
		trace.SpanFromContext(ctx).SetStatus(codes.Error, "no warehouse")
	}))
	mux.Handle("GET /hang", traced(ctl, func(ctx context.Context) { waitForLock(ctx, 15*time.Second) }))
	mux.Handle("GET /panic", traced(ctl, func(context.Context) { panic("on purpose") }))
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	s := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// traced returns a handler that runs fn for each request, in a span of its own.
func traced(ctl *control.Control, fn func(context.Context)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), r.Method+" "+r.URL.Path, trace.WithSpanKind(trace.SpanKindServer),
			trace.WithAttributes(attribute.String("url.full", "http://"+r.Host+r.URL.RequestURI())))
		defer span.End()
		defer ctl.CapturePanic()
		fn(ctx)
		fmt.Fprintln(w, "done")
	})
}

// query simulates a database query that takes d.
func query(ctx context.Context, d time.Duration) {
	_, span := tracer.Start(ctx, "SELECT orders", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	time.Sleep(d)
}

// waitForLock simulates waiting for a lock for d.
func waitForLock(ctx context.Context, d time.Duration) {
	slog.InfoContext(ctx, "waiting for the lock")
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
