package autoexport_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	contrib "go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter/autoexport"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

func TestEnvironmentSelectsEntrace(t *testing.T) {
	path := hosttest.Path(t, "app.et")
	t.Setenv("OTEL_TRACES_EXPORTER", "entrace")
	t.Setenv("OTEL_LOGS_EXPORTER", "entrace")
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", path)
	autoexport.Register() // a second call must not panic
	ctx := t.Context()
	exp, err := contrib.NewSpanExporter(ctx)
	expect.Must(t, err)
	tp := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exp))
	logs, err := contrib.NewLogExporter(ctx)
	expect.Must(t, err)
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(logs)))
	ctx, span := tp.Tracer("test").Start(ctx, "recorded")
	var r log.Record
	r.SetBody(attribute.StringValue("hello"))
	lp.Logger("test").Emit(ctx, r)
	span.End()
	ctx = context.WithoutCancel(ctx)
	expect.Must(t, errors.Join(tp.Shutdown(ctx), lp.Shutdown(ctx), logs.Shutdown(ctx)))
	f, err := format.Open(path, nil)
	expect.Must(t, err)
	defer f.Close()
	var names []string
	err = f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
		names = append(names, e.Clone().Metadata.Name+e.Message.Value)
		return nil
	})
	expect.Must(t, err)
	// The log record and the span can have any order in the file, because the span is recorded when
	// it has ended.
	if len(names) != 5 || !slices.Contains(names, "recorded") || !slices.Contains(names, "eventhello") {
		t.Errorf("the entries are %q, want root, resource, recorded, event, entrace.end", names)
	}
}

func TestBadPathIsAnError(t *testing.T) {
	t.Setenv("OTEL_TRACES_EXPORTER", "entrace")
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", filepath.Join(os.Args[0], "app.et")) // a path below a file, which cannot exist
	t.Setenv("OTEL_LOGS_EXPORTER", "entrace")
	if _, err := contrib.NewLogExporter(t.Context()); err == nil {
		t.Error("NewLogExporter succeeded in a folder that cannot be made")
	}
	if _, err := contrib.NewSpanExporter(t.Context()); err == nil {
		t.Error("NewSpanExporter succeeded in a folder that cannot be made")
	}
}
