package entrace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/view"
)

// stderr replaces os.Stderr by a file. The returned function returns the content of the file. The end of
// the test restores os.Stderr and slog's default.
func stderr(t *testing.T) func() string {
	t.Helper()
	f, err := os.Create(hosttest.Path(t, "stderr"))
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
		b := tracetest.ReadFile(t, f.Name())
		return string(b)
	}
}

// TestConsoleCostsNoRecords: if the console blocks or panics, its record is recorded nevertheless. While
// it blocks, other goroutines can record.
func TestConsoleCostsNoRecords(t *testing.T) {
	clean(t)
	stderr(t)
	p, err := entrace.Setup(t.Context(), exporter.WithPath("app.et"))
	must(t, err)
	stands, held := make(chan bool), make(chan bool)
	console := consoleFunc(func(r slog.Record) {
		switch r.Message {
		case "blocks":
			close(stands)
			<-held
		case "panics":
			panic("in the console")
		}
	})
	h := p.LogHandler(console)
	go slog.New(h).Info("blocks")
	<-stands
	func() {
		defer func() { _ = recover() }()
		slog.New(h).Info("panics")
	}()
	slog.New(h).Info("the database is gone")
	must(t, p.Recorder().Flush(t.Context()))
	f := tracetest.OpenFile(t, "app.iet")
	var got []string
	for id := range uint32(f.Len()) {
		e, err := f.Entry(id)
		must(t, err)
		if strings.HasPrefix(e.Metadata.Name, "event") {
			got = append(got, e.Message.Value)
		}
	}
	if strings.Join(got, ", ") != "blocks, panics, the database is gone" {
		t.Errorf("recorded are %q", got)
	}
	close(held)
	must(t, p.Shutdown(t.Context()))
}

// A consoleFunc is a handler whose Handle calls the function.
type consoleFunc func(slog.Record)

func (consoleFunc) Enabled(context.Context, slog.Level) bool         { return true }
func (fn consoleFunc) Handle(_ context.Context, r slog.Record) error { fn(r); return nil }
func (fn consoleFunc) WithAttrs([]slog.Attr) slog.Handler            { return fn }
func (fn consoleFunc) WithGroup(string) slog.Handler                 { return fn }

// TestNilArguments: a nil context and a nil level stand for the defaults.
func TestNilArguments(t *testing.T) {
	clean(t)
	var level *slog.LevelVar
	var ctx context.Context
	p, err := entrace.Setup(ctx, exporter.WithPath("app.et"), entrace.WithLogLevel(level))
	must(t, err)
	if h := p.LogHandler(slog.DiscardHandler); !h.Enabled(t.Context(), slog.LevelInfo) || h.Enabled(t.Context(), slog.LevelDebug) {
		t.Error("the level is not INFO")
	}
	must(t, p.Shutdown(ctx))
}

// TestSlogDefault: a log record, also one of package log, is on stderr and in the file. After the recorder is closed, records are still on stderr.
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
		expect.Has(t, console(), want, "stderr has")
	}
	if strings.Contains(console(), "not wanted") {
		t.Errorf("stderr has %q", console())
	}
	f := tracetest.OpenFile(t, "app.et")
	v := tracetest.View(t, f)
	var got []string
	must(t, v.Walk(0, func(id view.Row, _ int, _ bool) error {
		e, err := v.Entry(id)
		if err == nil && v.Role(id) == view.RoleLog {
			parent, err := v.Entry(view.Row(e.Parent))
			must(t, err)
			got = append(got, e.Message.Value+" below "+parent.Metadata.Name)
		}
		return err
	}))
	if want := "cart loaded below checkout,by package log below resource"; strings.Join(got, ",") != want {
		t.Errorf("the log records are %q", got)
	}
}

// TestSlogDefaultWithoutRecorder: if nothing can be recorded, the console gets all records.
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
			expect.Has(t, console(), "msg=said", "stderr has")
			must(t, p.Shutdown(context.Background()))
		})
	}
}

// TestSlogDefaultComesBack: OpenTelemetry's own error handler writes through package log, which
// writes through slog's default, which records. This must not deadlock.
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
			expect.OK(t, p.Recorder().Close(context.Background()))
			_, span := p.TracerProvider().Tracer("").Start(context.Background(), "late")
			slog.Info("late")
			span.End()
		}
		expect.OK(t, p.Shutdown(context.Background()))
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("deadlock")
	}
	expect.Has(t, console(), "on purpose", "stderr has")
}

// TestLogHandler: the console uses its own level, the recorder uses
// OTEL_EXPORTER_ENTRACE_LEVEL, and messages of this module go only to the console.
func TestLogHandler(t *testing.T) {
	for _, tt := range []struct {
		level, control string
		want           string // messages that are recorded
	}{
		{"", "", "info,warn"},
		{"debug", "", "debug,info,warn"},
		{"WARN", "", "warn"},
		{"loud", "", "info,warn"},
		{"", "ring", "debug,info,warn"},
		{"info", "ring", "info,warn"},
	} {
		t.Run(tt.level+" "+tt.control, func(t *testing.T) {
			dir := clean(t)
			t.Setenv("OTEL_EXPORTER_ENTRACE_LEVEL", tt.level)
			t.Setenv("OTEL_EXPORTER_ENTRACE_CONTROL", tt.control)
			t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", "app.et")
			if tt.control != "" {
				t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", "")
			}
			before := notice.SetErrorHandler(nil)
			defer func() { notice.SetErrorHandler(before) }()
			defer notice.SetConsole(nil)
			p := setup(t, entrace.WithoutGlobals())
			var console lockedBuffer
			log := slog.New(p.LogHandler(slog.NewTextHandler(&console, &slog.HandlerOptions{Level: slog.LevelWarn})))
			for _, l := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn} {
				log.Log(t.Context(), l, strings.ToLower(l.String()))
			}
			notice.Error(errors.New("entrace: the disk is full"))
			if p.Control() != nil {
				tr, err := p.Control().Start(t.Context(), control.Request{Trigger: control.TriggerAPI, Key: "snapshot"})
				must(t, err)
				<-tr.Done()
			}
			must(t, p.Shutdown(t.Context()))
			if got := console.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "level=WARN msg=warn") || !strings.Contains(got, `level=WARN msg="entrace: the disk is full"`) {
				t.Errorf("the console has %s", got)
			}
			var got []string
			for _, name := range glob(t, filepath.Join(dir, "*.et"), filepath.Join(dir, "*", "*.et")) {
				f, err := format.Open(name, nil)
				must(t, err)
				v := tracetest.View(t, f)
				must(t, v.Walk(0, func(id view.Row, _ int, _ bool) error {
					e, err := v.Entry(id)
					if err == nil && e.Message.Valid && v.Role(id) == view.RoleLog && strings.HasPrefix(e.Metadata.Name, "event ") {
						got = append(got, e.Message.Value)
					}
					return err
				}))
				must(t, f.Close())
			}
			if strings.Join(got, ",") != tt.want {
				t.Errorf("recorded are %q, want %s", got, tt.want)
			}
		})
	}
}

// TestLogHandlerOfDefault: a program may pass slog's own default handler as the console, or a handler that
// passes records to it. LogHandler replaces it, because it would deadlock.
func TestLogHandlerOfDefault(t *testing.T) {
	for _, wrap := range []func(slog.Handler) slog.Handler{
		func(h slog.Handler) slog.Handler { return h },
		func(h slog.Handler) slog.Handler { return &tagged{"shop", tagged{"cart", h}} },
	} {
		logHandlerOfDefault(t, wrap)
	}
}

func logHandlerOfDefault(t *testing.T, wrap func(slog.Handler) slog.Handler) {
	clean(t)
	out, logger := log.Writer(), slog.Default()
	defer func() {
		slog.SetDefault(logger)
		log.SetOutput(out)
	}()
	console := stderr(t)
	defer notice.SetConsole(nil)
	p := setup(t, entrace.WithoutGlobals(), exporter.WithPath("app.et"))
	slog.SetDefault(slog.New(p.LogHandler(wrap(slog.Default().Handler()))))
	done := make(chan struct{})
	go func() {
		defer close(done)
		slog.Info("said")
		log.Print("printed")
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("deadlock")
	}
	if got := console(); !strings.Contains(got, "msg=said") || !strings.Contains(got, "msg=printed") {
		t.Errorf("stderr has %q", got)
	}
}

// tagged is a console that passes records to another handler.
type tagged struct {
	name string
	next slog.Handler
}

func (tagged) Enabled(context.Context, slog.Level) bool          { return true }
func (h tagged) Handle(ctx context.Context, r slog.Record) error { return h.next.Handle(ctx, r) }
func (h tagged) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tagged{h.name, h.next.WithAttrs(attrs)}
}

func (h tagged) WithGroup(name string) slog.Handler { return tagged{h.name, h.next.WithGroup(name)} }

// TestLinesOfPackageLog: lines of log.Panic and of net/http about a panic are recorded at level ERROR, with
// their stack and place.
func TestLinesOfPackageLog(t *testing.T) {
	for _, flags := range []int{log.LstdFlags, log.LstdFlags | log.Lshortfile} {
		clean(t)
		stderr(t)
		t.Cleanup(func() { notice.SetConsole(nil) })
		log.SetFlags(flags)
		p := setup(t, entrace.WithoutGlobals(), exporter.WithPath("app.et"))
		slog.SetDefault(slog.New(p.LogHandler(nil)))
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("no such page") }))
		if resp, err := http.Get(server.URL); err == nil { //nolint:noctx // it ends at once
			_ = resp.Body.Close()
			t.Error("the handler did not panic")
		}
		server.Close()
		func() {
			defer func() { _ = recover() }()
			log.Panicln("no", "price")
		}()
		log.Print("printed")
		slog.Info("said")
		must(t, p.Shutdown(t.Context()))
		var got []string
		must(t, tracetest.Open(t, "app.et").Walk(0, func(_ uint32, e *format.TraceEntry) error {
			stack, has := e.Attribute("exception.stacktrace")
			if strings.HasPrefix(e.Metadata.Name, "event") {
				message, _, _ := strings.Cut(e.Message.Value, "127.0.0.1")
				ours := strings.Contains(stack.Text(), "TestLinesOfPackageLog") && strings.HasPrefix(stack.Text(), "goroutine ")
				got = append(got, fmt.Sprint(e.Metadata.Level, " ", message, " ", has == ours, " ", strings.HasSuffix(e.Metadata.File.Value, "slog_test.go")))
			}
			return nil
		}))
		want := []string{"ERROR http: panic serving  true true", "ERROR no price true true", "INFO printed true " + strconv.FormatBool(flags != log.LstdFlags), "INFO said true true"}
		expect.Slice(t, got, want, "recorded")
	}
}

// TestWritesAreTold: when a flight recorder has written a file, it prints the file's name and the reason
// on the console.
func TestWritesAreTold(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		dir := clean(t)
		console := stderr(t)
		t.Setenv("OTEL_EXPORTER_ENTRACE_CONTROL", "ring")
		t.Setenv("OTEL_SERVICE_NAME", "shop")
		o := []entrace.Option{entrace.WithSlogDefault()}
		if quiet {
			o = append(o, entrace.WithoutNotices())
		}
		p := setup(t, o...)
		slog.Error("it broke")
		must(t, p.Shutdown(t.Context()))
		notice.SetQuiet(false)
		notice.SetConsole(nil)
		made := glob(t, filepath.Join(dir, "shop-traces", "*-error.et"))
		if len(made) != 1 {
			t.Fatalf("there is %q", made)
		}
		message := strconv.Quote("entrace: wrote " + made[0] + ": ERROR: it broke")
		if told := strings.Contains(console(), "level=INFO msg="+strings.TrimSuffix(message, `"`)); told == quiet {
			t.Errorf("stderr has %s", console())
		}
	}
}

func glob(t *testing.T, patterns ...string) (names []string) {
	t.Helper()
	for _, p := range patterns {
		more, err := filepath.Glob(p)
		must(t, err)
		names = append(names, more...)
	}
	return names
}

// lockedBuffer can be written to by several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestLogOptions: WithLogLevel takes precedence over the environment and is read for each record.
// Errors go to the function of WithErrorHandler and not to the console.
func TestLogOptions(t *testing.T) {
	clean(t)
	console := stderr(t)
	t.Setenv("OTEL_EXPORTER_ENTRACE_LEVEL", "error")
	t.Setenv("OTEL_EXPORTER_ENTRACE_NOSUCH", "x")
	before := notice.SetErrorHandler(nil)
	defer func() { notice.SetErrorHandler(before); notice.SetConsole(nil) }()
	var told []string
	var level slog.LevelVar
	p := setup(t, entrace.WithLogLevel(&level), entrace.WithErrorHandler(func(err error) { told = append(told, err.Error()) }), exporter.WithPath("app.et"))
	log := slog.New(p.LogHandler(nil))
	log.Info("first")
	level.Set(slog.LevelWarn)
	log.Info("second")
	must(t, p.Shutdown(t.Context()))
	b := tracetest.ReadFile(t, "app.et")
	if !strings.Contains(string(b), "first") || strings.Contains(string(b), "second") {
		t.Errorf("recorded is %q", b)
	}
	if len(told) != 1 || !strings.Contains(told[0], "NOSUCH") || strings.Contains(console(), "NOSUCH") {
		t.Errorf("the handler was told %q, stderr has %s", told, console())
	}
}
