package entrace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

// The snippets of docs/library.md are the bodies of these functions.

func byHand(ctx context.Context) error {
	// README
	rec, err := recorder.Create("app.et", nil) // streams app.iet, Close makes app.et
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
	slog.SetDefault(slog.New(slog.NewMultiHandler(slogadapter.New(rec, nil), console)))
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
	readme := tracetest.ReadFile(t, "docs/library.md")
	source := tracetest.ReadFile(t, "readme_test.go")
	parts := strings.Split(string(source), "\t// README\n")
	if len(parts) != 4 {
		t.Fatalf("there are %d snippets, want 3", len(parts)-1)
	}
	for _, part := range parts[1:] {
		body, _, _ := strings.Cut(part, "\t// END\n")
		body = strings.ReplaceAll("\n"+body, "\n\t", "\n")[1:]
		if !strings.Contains(string(readme), body) {
			t.Errorf("docs/library.md does not have\n%s", body)
		}
	}
	if n := strings.Count(string(readme), "```go\n"); n != 2 {
		t.Errorf("docs/library.md has %d blocks of Go, want 2 that are compiled here", n)
	}
}

// TestReadmeProgram builds the first Go block of the README without changes, and runs
// it.
func TestReadmeProgram(t *testing.T) {
	readme := tracetest.ReadFile(t, "README.md")
	_, rest, _ := strings.Cut(string(readme), "```go\n")
	program, _, _ := strings.Cut(rest, "```\n")
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	must(t, os.WriteFile(file, []byte(program), 0o600))
	at, err := filepath.Abs("internal/readme/main.go") // the file exists only in the overlay
	must(t, err)
	list, err := json.Marshal(map[string]map[string]string{"Replace": {at: file}})
	must(t, err)
	must(t, os.WriteFile(overlay, list, 0o600))
	exe := filepath.Join(dir, "shop.exe")
	goCommand(t, "build", "-overlay", overlay, "-o", exe, "./internal/readme")
	cmd := exec.Command(exe)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "OTEL_EXPORTER_ENTRACE_PATH=shop.et")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "cart loaded") {
		t.Fatalf("%v: %s", err, out)
	}
	r, err := recorder.Inspect(filepath.Join(dir, "shop.et"))
	if err != nil || r.Entries != 6 || !r.Ended {
		t.Errorf("%+v, %v; want 6 entries and a clean end", r, err)
	}
}

func TestReadmeSnippetsRun(t *testing.T) {
	t.Chdir(t.TempDir())
	before := slog.Default()
	defer slog.SetDefault(before)
	ctx := t.Context()
	must(t, errors.Join(byHand(ctx), readBack(ctx)))
	r, err := recorder.Inspect("app.et")
	if err != nil || r.Entries != 6 || !r.Ended {
		t.Errorf("%+v, %v; want 6 entries and a clean end", r, err)
	}
}
