package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/recorder"
)

func ExampleNewSpanProcessor() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx, path := context.Background(), filepath.Join(dir, "app.et")
	live, err := exporter.NewSpanProcessor(exporter.WithPath(path))
	if err != nil {
		fmt.Println(err)
		return
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live))
	_, span := tp.Tracer("shop").Start(ctx, "checkout")
	ferr := tp.ForceFlush(ctx)       // without it, the span is in the file after a tenth of a second
	r, err := recorder.Inspect(path) // the file already has the span
	span.End()
	err = errors.Join(ferr, err, tp.Shutdown(ctx))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("while it runs:", r.Format, r.Entries, "entries")
	r, err = recorder.Inspect(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("at the end:", r.Format, r.Entries, "entries")
	// Output:
	// while it runs: iet 3 entries
	// at the end: et 5 entries
}
