package entrace_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

// The snippets of the README are the bodies of these functions.

func environment(ctx context.Context) error {
	// README
	p, err := entrace.Setup(ctx, entrace.WithSlogDefault()) // the environment says where to and how
	if err != nil {
		slog.Warn("no trace is recorded", "err", err)
	}
	defer p.Shutdown(context.WithoutCancel(ctx))

	ctx, span := otel.Tracer("shop").Start(ctx, "checkout")
	slog.InfoContext(ctx, "cart loaded", "items", 3) // hangs below the span
	span.End()
	// END
	return err
}

func byHand(ctx context.Context) error {
	// README
	rec, err := format.Create("app.et", nil) // streams app.iet, Close makes app.et
	if err != nil {
		return err
	}
	live, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec)) // or exporter.New, for a batcher
	if err != nil {
		return err
	}
	tp := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(live))
	otel.SetTracerProvider(tp)
	console := slog.NewTextHandler(os.Stderr, nil)
	slog.SetDefault(slog.New(slog.NewMultiHandler(console, slogadapter.New(rec, nil))))
	// END
	_, span := tp.Tracer("").Start(ctx, "by hand")
	slog.Info("recorded")
	span.End()
	// README
	err = errors.Join(tp.Shutdown(ctx), rec.Close(ctx))
	// END
	return err
}

func readBack(ctx context.Context) error {
	// README
	f, err := format.Open("app.et", nil)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := view.New(ctx, []*format.File{f}, nil)
	if err != nil {
		return err
	}
	err = v.Walk(0, func(r view.Row, depth int, _ bool) error {
		if took, ended := v.Duration(r); ended {
			fmt.Println(strings.Repeat("  ", depth), v.Name(r), took)
		}
		return nil
	})
	// END
	return err
}

func TestReadmeSnippets(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(source), "\t// README\n")
	if len(parts) != 5 {
		t.Fatalf("there are %d snippets, want 4", len(parts)-1)
	}
	for _, part := range parts[1:] {
		body, _, _ := strings.Cut(part, "\t// END\n")
		body = strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:]
		if !strings.Contains(string(readme), body) {
			t.Errorf("the README does not have\n%s", body)
		}
	}
	if n := strings.Count(string(readme), "```go\n"); n != 3 {
		t.Errorf("the README has %d blocks of Go, want 3 that are compiled here", n)
	}
}

func TestReadmeSnippetsRun(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", filepath.Join(t.TempDir(), "env.et"))
	t.Chdir(t.TempDir())
	before := slog.Default()
	defer slog.SetDefault(before)
	ctx := t.Context()
	if err := errors.Join(environment(ctx), byHand(ctx), readBack(ctx)); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]int{os.Getenv("OTEL_EXPORTER_ENTRACE_PATH"): 6, "app.et": 6} {
		r, err := format.Inspect(name)
		if err != nil || r.Entries != want || !r.Ended {
			t.Errorf("%s: %+v, %v; want %d entries and a clean end", name, r, err, want)
		}
	}
}
