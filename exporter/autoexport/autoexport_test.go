package autoexport_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	contrib "go.opentelemetry.io/contrib/exporters/autoexport"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter/autoexport"
	"github.com/entrace-go/entrace/format"
)

func TestEnvironmentSelectsEntrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	t.Setenv("OTEL_TRACES_EXPORTER", "entrace")
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", path)
	autoexport.Register() // again, which must not panic
	ctx := t.Context()
	exp, err := contrib.NewSpanExporter(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp))
	_, span := tp.Tracer("test").Start(ctx, "recorded")
	span.End()
	if err := tp.Shutdown(context.WithoutCancel(ctx)); err != nil {
		t.Fatal(err)
	}
	f, err := format.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	err = f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
		names = append(names, e.Clone().Metadata.Name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := "recorded"; len(names) != 4 || names[2] != want {
		t.Errorf("the entries are %q, want root, resource, %s, entrace.end", names, want)
	}
}

func TestBadPathIsAnError(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "entrace")
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", filepath.Join(os.Args[0], "app.et")) // below a file
	if _, err := contrib.NewSpanExporter(t.Context()); err == nil {
		t.Error("NewSpanExporter succeeded in a folder that cannot be made")
	}
}
