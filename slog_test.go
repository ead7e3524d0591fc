package entrace_test

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
)

// stderr makes a file of os.Stderr and slog's default what it was at the end, and returns
// what was written to the file.
func stderr(t *testing.T) func() string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	must(t, err)
	before, logger, flags, out := os.Stderr, slog.Default(), log.Flags(), log.Writer()
	os.Stderr = f
	t.Cleanup(func() {
		os.Stderr = before
		slog.SetDefault(logger)
		log.SetFlags(flags)
		log.SetOutput(out)
		must(t, f.Close())
	})
	return func() string {
		b, err := os.ReadFile(f.Name())
		must(t, err)
		return string(b)
	}
}

// TestSlogDefault: a log record is on stderr and in the file, below its span, also by
// package log; and on stderr still when the recorder is closed.
func TestSlogDefault(t *testing.T) {
	clean(t)
	console := stderr(t)
	p, err := entrace.Setup(t.Context(), entrace.WithSlogDefault(), exporter.WithPath("app.et"))
	must(t, err)
	ctx, span := otel.Tracer("shop").Start(t.Context(), "checkout")
	slog.InfoContext(ctx, "cart loaded", "items", 3)
	slog.DebugContext(ctx, "not wanted")
	log.Print("by package log")
	span.End()
	must(t, p.Shutdown(context.Background()))
	slog.Info("later")
	for _, want := range []string{`level=INFO msg="cart loaded" items=3`, `msg="by package log"`, "msg=later"} {
		if !strings.Contains(console(), want) {
			t.Errorf("stderr has %q, not %s", console(), want)
		}
	}
	if strings.Contains(console(), "not wanted") {
		t.Errorf("stderr has %q", console())
	}
	f, err := format.Open("app.et", nil)
	must(t, err)
	defer f.Close()
	v, err := format.NewView(f)
	must(t, err)
	var got []string
	must(t, v.Walk(0, func(id uint32, _ int, _ bool) error {
		e, err := v.Entry(id)
		if err == nil && v.Role(id) == format.RoleLog {
			parent, err := v.Entry(e.Parent)
			must(t, err)
			got = append(got, e.Message.Value+" below "+parent.Metadata.Name)
		}
		return err
	}))
	if want := "cart loaded below checkout,by package log below resource"; strings.Join(got, ",") != want {
		t.Errorf("the log records are %q", got)
	}
}

// TestSlogDefaultWithoutRecorder: when nothing can be recorded the console has it all.
func TestSlogDefaultWithoutRecorder(t *testing.T) {
	clean(t)
	for name, o := range map[string]exporter.Option{
		"no folder": exporter.WithPath(filepath.Join(os.Args[0], "app.et")), // below a file
		"no file":   exporter.WithPath("none"),
	} {
		t.Run(name, func(t *testing.T) {
			console := stderr(t)
			p, err := entrace.Setup(t.Context(), entrace.WithSlogDefault(), entrace.WithoutGlobals(), o)
			if (err != nil) != (name == "no folder") {
				t.Errorf("the error is %v", err)
			}
			slog.Info("said")
			if !strings.Contains(console(), "msg=said") {
				t.Errorf("stderr has %q", console())
			}
			must(t, p.Shutdown(context.Background()))
		})
	}
}

// TestSlogDefaultComesBack: OpenTelemetry's own error handler writes through package log,
// which writes through slog's default, which records: nothing waits for itself.
func TestSlogDefaultComesBack(t *testing.T) {
	clean(t)
	console := stderr(t)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Print(err) }))
	defer otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		p, err := entrace.Setup(context.Background(), entrace.WithSlogDefault(), exporter.WithPath("app.et"))
		if err != nil {
			t.Error(err)
			return
		}
		otel.Handle(errors.New("on purpose"))
		for range 2 {
			if err := p.Recorder().Close(context.Background()); err != nil {
				t.Error(err)
			}
			_, span := p.TracerProvider().Tracer("").Start(context.Background(), "late")
			slog.Info("late")
			span.End()
		}
		if err := p.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("deadlock")
	}
	if !strings.Contains(console(), "on purpose") {
		t.Errorf("stderr has %q", console())
	}
}
