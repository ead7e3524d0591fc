// Command otlp sends spans and log records by OTLP and also records them with entrace.
//
//	OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 otlp
//	entrace tree otlp.et
//
// With -setup, entrace.Setup makes the providers.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/recorder"
)

func main() {
	short := flag.Bool("setup", false, "let entrace.Setup make the providers")
	flag.Parse()
	run := beside
	if *short {
		run = withSetup
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "otlp:", err)
		os.Exit(1)
	}
}

// beside adds entrace to the providers that the program makes itself.
func beside(ctx context.Context) error {
	// PAGE
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	logs, err := otlploghttp.New(ctx)
	if err != nil {
		return err
	}

	rec, err := recorder.Create("otlp.et", nil) // new
	if err != nil {
		return err
	}
	liveSpans, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec)) // new
	if err != nil {
		return err
	}
	liveLogs, err := exporter.NewLogProcessor(exporter.WithRecorder(rec)) // new
	if err != nil {
		return err
	}

	tp := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(spans),
		sdktrace.WithSpanProcessor(liveSpans), // new
	)
	lp := sdklog.NewLoggerProvider(
		sdklog.WithProcessor(sdklog.NewBatchProcessor(logs)),
		sdklog.WithProcessor(liveLogs), // new
	)
	otel.SetTracerProvider(tp)
	otel.SetLoggerProvider(lp)
	// END
	work(ctx)
	// PAGE
	return errors.Join(tp.Shutdown(ctx), lp.Shutdown(ctx), rec.Close(ctx)) // the recorder last
	// END
}

// withSetup lets entrace.Setup make the providers.
func withSetup(ctx context.Context) error {
	// PAGE
	spans, err := otlptracehttp.New(ctx)
	if err != nil {
		return err
	}
	logs, err := otlploghttp.New(ctx)
	if err != nil {
		return err
	}
	p, err := entrace.Setup(ctx, exporter.WithPath("otlp.et"),
		entrace.WithTracerProviderOptions(sdktrace.WithBatcher(spans)),
		entrace.WithLoggerProviderOptions(sdklog.WithProcessor(sdklog.NewBatchProcessor(logs))),
	)
	if err != nil {
		return err
	}
	// END
	work(ctx)
	// PAGE
	return p.Shutdown(ctx)
	// END
}

func work(ctx context.Context) {
	logger := otelslog.NewLogger("example.com/otlp")
	ctx, span := otel.Tracer("example.com/otlp").Start(ctx, "GET /cart")
	defer span.End()
	logger.InfoContext(ctx, "cart loaded", "items", 3)
}
