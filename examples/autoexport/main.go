// Command autoexport refers to entrace only by an import. Environment variables determine the
// exporter of its spans.
//
//	OTEL_TRACES_EXPORTER=entrace OTEL_EXPORTER_ENTRACE_PATH=app.et autoexport
package main

import (
	"context"
	"errors"
	"log"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	_ "github.com/entrace-go/entrace/exporter/autoexport"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	exp, err := autoexport.NewSpanExporter(ctx)
	if err != nil {
		return err
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp))
	defer func() { err = errors.Join(err, tp.Shutdown(ctx)) }()
	otel.SetTracerProvider(tp)

	tracer := otel.Tracer("example.com/job")
	ctx, job := tracer.Start(ctx, "job")
	defer job.End()
	for _, name := range []string{"read", "sort", "write"} {
		_, step := tracer.Start(ctx, name)
		step.End()
	}
	return nil
}
