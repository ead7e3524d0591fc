package entrace_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	testkit "github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// reports collects the errors that this module reports from now on. The returned function returns
// their texts.
func reports(t *testing.T) func() string {
	t.Helper()
	var mu sync.Mutex
	var all []string
	notice.SetErrorHandler(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, err.Error())
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(all, "\n")
	}
}

// wantNoReport fails the test if something was reported.
func wantNoReport(t *testing.T, told func() string) {
	t.Helper()
	expect.Equal(t, told(), "", "it reported")
}

// clean unsets all variables that the tests set, and changes to a new working directory.
func clean(t *testing.T) string {
	t.Helper()
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	dir := hosttest.TraceDir(t)
	t.Chdir(dir)
	return dir
}

func setup(t *testing.T, o ...entrace.Option) *entrace.Pipeline {
	t.Helper()
	p, err := entrace.Setup(t.Context(), o...)
	must(t, err)
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p
}

func oneSpan(t *testing.T, p *entrace.Pipeline) {
	t.Helper()
	_, s := p.TracerProvider().Tracer("t").Start(t.Context(), "span")
	s.End()
}

func TestSetupDefaults(t *testing.T) {
	dir := clean(t)
	t.Setenv("OTEL_SERVICE_NAME", "my shop/../é")
	told := reports(t)
	p := setup(t)
	want := fmt.Sprintf("my%%20shop%%2F..%%2F%%C3%%A9-%d.et", os.Getpid())
	expect.Equal(t, filepath.Base(p.Recorder().Path()), want, "the path")
	slog.New(slogadapter.New(p.Recorder(), nil)).Info("hello")
	oneSpan(t, p)
	must(t, p.ForceFlush(t.Context()))
	f, err := format.Open(p.Recorder().StreamPath(), nil)
	must(t, err)
	if f.Len() != 5 || f.Version() != format.V1 {
		t.Errorf("%d entries of version %d while recording live, want 5 of version 1", f.Len(), f.Version())
	}
	must(t, f.Close())
	if otel.GetTracerProvider() != p.TracerProvider() {
		t.Error("the global TracerProvider is another one")
	}
	carrier := propagation.HeaderCarrier(http.Header{})
	ctx, s := p.TracerProvider().Tracer("t").Start(t.Context(), "s")
	otel.GetTextMapPropagator().Inject(ctx, carrier)
	s.End()
	if carrier.Get("traceparent") == "" {
		t.Error("the global propagator does not propagate traces")
	}
	must(t, errors.Join(p.ForceFlush(t.Context()), p.Shutdown(t.Context()), p.Shutdown(t.Context())))
	g := testkit.OpenFile(t, filepath.Join(dir, want))
	e, err := g.Entry(1)
	must(t, err)
	if e.Message.Value != "my shop/../é" || g.Format() != format.ET {
		t.Errorf("the resource is %q in %v", e.Message.Value, g.Format())
	}
	if e, err := g.Entry(2); err != nil || e.Parent != 1 {
		t.Errorf("the log record is below %d, %v; want the resource", e.Parent, err)
	}
	wantNoReport(t, told)
}

// TestSetupRecordsTheProcess checks that spans, OpenTelemetry's log records and records of log/slog are below one
// resource, which has the command line without its secrets, and which other exporters do not get.
func TestSetupRecordsTheProcess(t *testing.T) {
	dir := clean(t)
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = []string{"./shop", "--port=80", "--db-pass", "hunter2", "--token=hunter3"}
	for _, arguments := range []bool{true, false} {
		options := []entrace.Option{entrace.WithResource(resource.NewSchemaless(attribute.String("service.version", "1.2"), attribute.String("host.name", "own")))}
		if !arguments {
			options = append(options, entrace.WithoutArguments())
		}
		p := setup(t, options...)
		oneSpan(t, p)
		slog.New(p.LogHandler(nil)).Info("of slog")
		var r log.Record
		r.SetBody(attribute.StringValue("of the log API"))
		p.LoggerProvider().Logger("t").Emit(t.Context(), r)
		must(t, p.Shutdown(t.Context()))
		f := testkit.OpenFile(t, p.Recorder().Path())
		e, err := f.Entry(1)
		must(t, err)
		expect.Equal(t, len(f.Children(1)), 3, "rows below the resource")
		for name, want := range map[string]string{
			mapping.AttrCommand: `["./shop","--port=80","--db-pass","[redacted]","--token=[redacted]"]`, mapping.AttrFolder: dir,
			mapping.AttrServiceVersion: "1.2", mapping.AttrHostName: "own", "process.runtime.version": runtime.Version(),
		} {
			got, found := e.Attribute(name)
			expect.Equal(t, found, arguments || name != mapping.AttrCommand, "%s is there", name)
			if found {
				expect.Equal(t, got.Text(), want, "%s", name)
			}
		}
		pid, _ := e.Attribute(mapping.AttrProcessID)
		n, _ := pid.I64()
		expect.Equal(t, n, int64(os.Getpid()), "the process id")
	}
}

// TestLongCommandLine checks that a long command line does not cost the resource.
func TestLongCommandLine(t *testing.T) {
	clean(t)
	args := os.Args
	t.Cleanup(func() { os.Args = args })
	os.Args = append([]string{"./shop", "--all"}, slices.Repeat([]string{strings.Repeat("\x01", 4000)}, 100)...)
	p := setup(t)
	must(t, p.Shutdown(t.Context()))
	e, err := testkit.OpenFile(t, p.Recorder().Path()).Entry(1)
	must(t, err)
	got, _ := e.Attribute(mapping.AttrCommand)
	expect.Has(t, got.Text(), `["./shop","--all",`, "the command line")
	expect.Has(t, got.Text(), `,"… 99 more"]`, "the command line")
}

func TestEnvironmentSays(t *testing.T) {
	dir := clean(t)
	told := reports(t)
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive of Windows
	}
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", "file://"+path+"/%7Bservice%7D-{pid}-{time}.et")
	t.Setenv("OTEL_EXPORTER_ENTRACE_FORMAT", "IET")
	t.Setenv("OTEL_EXPORTER_ENTRACE_VERSION", "2")
	t.Setenv("OTEL_EXPORTER_ENTRACE_MODE", "Batch")
	t.Setenv("OTEL_TRACES_EXPORTER", " entrace , mine,entrace,")
	mine := tracetest.NewInMemoryExporter()
	p := setup(t, entrace.WithSpanExporter("mine", func(context.Context) (sdktrace.SpanExporter, error) { return mine, nil }))
	oneSpan(t, p)
	expect.Equal(t, flushed(t, p.Recorder()).Stats().Spans.Written, 0, "spans written before the batch is due")
	must(t, p.ForceFlush(t.Context()))
	expect.Equal(t, len(mine.GetSpans()), 1, "spans of the other exporter")
	must(t, p.Shutdown(t.Context()))
	name := filepath.Base(p.Recorder().Path())
	if !strings.HasPrefix(name, fmt.Sprintf("shop-%d-20", os.Getpid())) || !strings.HasSuffix(name, "Z.iet") {
		t.Errorf("the file is %s", name)
	}
	f := testkit.OpenFile(t, p.Recorder().Path())
	if f.Version() != format.V2 || f.Format() != format.IET || f.Len() != 4 {
		t.Errorf("%d entries as %v of version %d, want 4 as iet of version 2", f.Len(), f.Format(), f.Version())
	}
	wantNoReport(t, told)
}

func TestOptionBeatsEnvironment(t *testing.T) {
	dir := clean(t)
	told := reports(t)
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", filepath.Join(dir, "missing", "env.et"))
	t.Setenv("OTEL_EXPORTER_ENTRACE_FORMAT", "nonsense")
	t.Setenv("OTEL_EXPORTER_ENTRACE_VERSION", "2")
	t.Setenv("OTEL_EXPORTER_ENTRACE_MODE", "batch")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=env,host.name=h")
	p := setup(t, exporter.WithPath("{service}.et"), exporter.WithRecorderOptions(recorder.Options{Format: format.Some(format.IET), Version: format.V1}),
		entrace.WithMode(entrace.ModeLive), entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "option"))))
	oneSpan(t, p)
	if n := flushed(t, p.Recorder()).Stats().Spans.Written; n != 1 {
		t.Errorf("%d spans are written, want 1 live", n)
	}
	must(t, p.Shutdown(t.Context()))
	f := testkit.OpenFile(t, filepath.Join(dir, "option.iet"))
	e, err := f.Entry(1)
	must(t, err)
	if host, _ := e.Attribute("host.name"); f.Version() != format.V1 || host.Text() != "h" || f.Len() != 5 {
		t.Errorf("%d entries of version %d, host %q", f.Len(), f.Version(), host.Text())
	}
	wantNoReport(t, told)
}

// TestBadValues: each bad value is reported with its text and has no other effect.
func TestBadValues(t *testing.T) {
	for name, value := range map[string]string{
		"OTEL_EXPORTER_ENTRACE_FORMAT":   "ietprefix",
		"OTEL_EXPORTER_ENTRACE_VERSION":  "3",
		"OTEL_EXPORTER_ENTRACE_MODE":     "sometimes",
		"OTEL_EXPORTER_ENTRACE_PATH":     "file://elsewhere/x.et",
		"OTEL_EXPORTER_ENTRACE_ENDPOINT": "http://h:1",
		"OTEL_TRACES_EXPORTER":           "entrace,jaeger",
		"OTEL_SDK_DISABLED":              "perhaps",
		"OTEL_PROPAGATORS":               "tracecontext,b3",
		"OTEL_CONFIG_FILE":               "otel.yaml",
		"OTEL_EXPERIMENTAL_CONFIG_FILE":  "otel.yaml",
	} {
		t.Run(name, func(t *testing.T) {
			clean(t)
			told := reports(t)
			t.Setenv("OTEL_SERVICE_NAME", "shop")
			t.Setenv(name, value)
			p := setup(t)
			oneSpan(t, p)
			if got := told(); !strings.Contains(got, name) || !strings.Contains(got, fmt.Sprintf("%q", value)) || strings.Contains(got, "\n") {
				t.Errorf("it reported %q, want %s and %q once", got, name, value)
			}
			expect.Equal(t, filepath.Base(p.Recorder().Path()), fmt.Sprintf("shop-%d.et", os.Getpid()), "the file")
			expect.Equal(t, flushed(t, p.Recorder()).Stats().Spans.Written, 1, "spans written")
		})
	}
}

func TestTracesExporterNone(t *testing.T) {
	clean(t)
	told := reports(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "none")
	p := setup(t, exporter.WithPath("a.et"))
	oneSpan(t, p)
	slog.New(slogadapter.New(p.Recorder(), nil)).Info("hello")
	if st := flushed(t, p.Recorder()).Stats(); st.Spans.Offered != 0 || st.Entries.Written != 3 {
		t.Errorf("the account is %+v, want the log record and no span", st)
	}
	wantNoReport(t, told)
}

func TestFactoryFails(t *testing.T) {
	clean(t)
	told := reports(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "mine,entrace")
	p := setup(t, exporter.WithPath("a.et"), entrace.WithSpanExporter("mine", func(context.Context) (sdktrace.SpanExporter, error) {
		return nil, errors.New("no luck")
	}))
	oneSpan(t, p)
	if n := flushed(t, p.Recorder()).Stats().Spans.Written; n != 1 || !strings.Contains(told(), "no luck") {
		t.Errorf("%d spans are written; it reported %q", n, told())
	}
}

func TestDisabled(t *testing.T) {
	dir := clean(t)
	t.Setenv("OTEL_SDK_DISABLED", "TRUE")
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	p := setup(t)
	if len(otel.GetTextMapPropagator().Fields()) == 0 {
		t.Error("nothing is propagated")
	}
	ctx := propagation.TraceContext{}.Extract(t.Context(), propagation.MapCarrier{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
	_, s := p.TracerProvider().Tracer("t").Start(ctx, "s")
	if s.IsRecording() || s.SpanContext().SpanID().String() != "b7ad6b7169203331" || !s.SpanContext().IsSampled() {
		t.Errorf("the span is recorded or not its parent's context: %+v", s.SpanContext())
	}
	s.End()
	slog.New(slogadapter.New(p.Recorder(), nil)).Info("dropped")
	expect.OK(t, expect.Err(p.Recorder().Append(format.Root())))
	must(t, errors.Join(p.ForceFlush(t.Context()), p.Shutdown(t.Context())))
	expect.Len(t, hosttest.Names(t, dir), 0, "the folder has")
}

// TestSetupFails: the program continues without a trace.
func TestSetupFails(t *testing.T) {
	clean(t)
	t.Setenv("OTEL_TRACES_EXPORTER", "mine,Entrace")
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator())
	mine := tracetest.NewInMemoryExporter()
	must(t, os.WriteFile("file", nil, 0o600))
	p, err := entrace.Setup(t.Context(), exporter.WithPath("file/a.et"),
		entrace.WithSpanExporter("mine", func(context.Context) (sdktrace.SpanExporter, error) { return mine, nil }))
	if _, ok := errors.AsType[*fs.PathError](err); !ok || p == nil {
		t.Fatalf("Setup: %v, %v; want the error of a path and a Pipeline", p, err)
	}
	oneSpan(t, p)
	if !p.Recorder().Discards() {
		t.Error("the recorder does not discard")
	}
	must(t, p.ForceFlush(t.Context()))
	if len(mine.GetSpans()) != 1 || len(otel.GetTextMapPropagator().Fields()) == 0 {
		t.Errorf("the other exporter has %d spans, the propagator sets %v", len(mine.GetSpans()), otel.GetTextMapPropagator().Fields())
	}
	must(t, p.Shutdown(t.Context()))
}

// slow is an exporter that hangs until the channel is closed.
type slow chan struct{}

func (s slow) ExportSpans(ctx context.Context, _ []sdktrace.ReadOnlySpan) error {
	<-s
	return ctx.Err()
}
func (slow) Shutdown(context.Context) error { return nil }

// TestSlowNeighbour: Shutdown finishes the file although another exporter hangs.
func TestSlowNeighbour(t *testing.T) {
	for _, mode := range []entrace.Mode{entrace.ModeLive, entrace.ModeBatch} {
		synctest.Test(t, func(t *testing.T) { slowNeighbour(t, mode) })
	}
}

func slowNeighbour(t *testing.T, mode entrace.Mode) {
	for _, timeout := range []time.Duration{50 * time.Millisecond, 20 * time.Second} {
		clean(t)
		t.Setenv("OTEL_TRACES_EXPORTER", "slow,entrace")
		hangs := make(slow)
		p := setup(t, exporter.WithPath("a.et"), entrace.WithMode(mode),
			entrace.WithSpanExporter("slow", func(context.Context) (sdktrace.SpanExporter, error) { return hangs, nil }))
		oneSpan(t, p)
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		expect.Is(t, p.Shutdown(ctx), context.DeadlineExceeded, "%s, %v: Shutdown", mode, timeout)
		cancel()
		close(hangs)
		r, err := recorder.Inspect("a.et")
		must(t, err)
		if n := flushed(t, p.Recorder()).Stats().Spans.Written; r.Format != format.ET || n != 1 {
			t.Errorf("%s, %v: an %v with %d spans, want an ET with 1", mode, timeout, r.Format, n)
		}
	}
}

func TestWithoutGlobals(t *testing.T) {
	clean(t)
	before := otel.GetTracerProvider()
	p := setup(t, exporter.WithPath("a.et"), entrace.WithoutGlobals())
	if otel.GetTracerProvider() != before || p.TracerProvider() == before {
		t.Error("the global TracerProvider changed")
	}
}

func TestSetupBorrowedRecorder(t *testing.T) {
	clean(t)
	rec := create(t, nil)
	p := setup(t, exporter.WithRecorder(rec), entrace.WithoutGlobals())
	oneSpan(t, p)
	must(t, p.Shutdown(t.Context()))
	expect.Is(t, expect.Err(rec.Append(format.Root())), nil, "after Shutdown")
}

// TestSetupShutdownDead: Shutdown with a context that is done leaves a complete IET.
func TestSetupShutdownDead(t *testing.T) {
	for mode, want := range map[entrace.Mode]int{entrace.ModeLive: 5, entrace.ModeBatch: 4} {
		shutdownDead(t, mode, want)
	}
}

func shutdownDead(t *testing.T, mode entrace.Mode, want int) {
	clean(t)
	p := setup(t, exporter.WithPath("a.et"), entrace.WithMode(mode))
	oneSpan(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Is(t, p.Shutdown(ctx), context.Canceled, "Shutdown")
	r, err := recorder.Inspect("a.et")
	must(t, err)
	if r.Format != format.IET || r.Reason != mapping.CutClean || !r.Ended || r.Entries != want {
		t.Errorf("%s: what is left is %+v, want a whole IET of %d entries", mode, r, want)
	}
	must(t, p.Shutdown(t.Context()))
	if r, err := recorder.Inspect("a.et"); err != nil || r.Format != format.ET || r.Entries != want {
		t.Errorf("%s: after another Shutdown there is %+v, %v, want an ET", mode, r, err)
	}
}

// TestPathWithoutFolder: Setup makes the folder of the file, which only the user can read. If the
// service has no name, the file has the name of the program.
func TestPathWithoutFolder(t *testing.T) {
	dir := clean(t)
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", "new/sub/{service}.et")
	// The SDK gives a service without a name this name.
	p := setup(t, entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "unknown_service:shop.exe"))))
	oneSpan(t, p)
	must(t, p.Shutdown(t.Context()))
	expect.OK(t, expect.Err(os.Stat(filepath.Join(dir, "new", "sub", "shop.et"))))
	if fi, err := os.Stat("new"); err != nil || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
}

// TestHostileServiceNames: for any name of the service, the file is in the right folder, and no two services share a
// file.
func TestHostileServiceNames(t *testing.T) {
	dir := clean(t)
	long := strings.Repeat("x", 300)
	seen := make(map[string]string)
	for _, name := range []string{"../../x", "a/b", `a\b`, "a\x00b", "a\nb", "CON", "con.txt", "_CON", "..", ".", ".hidden", long + "1", long + "2", "a%2Fb", "AUX1", "LPT1"} {
		p, err := entrace.Setup(t.Context(), exporter.WithPath("{service}.et"), entrace.WithoutGlobals(),
			entrace.WithResource(resource.NewSchemaless(attribute.String("service.name", name))))
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		path := p.Recorder().Path()
		base := filepath.Base(path)
		if want, _ := filepath.EvalSymlinks(dir); filepath.Dir(path) != want || strings.HasPrefix(base, ".") || len(base) > 103 || strings.EqualFold(base, "con.et") {
			t.Errorf("%q is recorded to %q", name, path)
		}
		if other, taken := seen[path]; taken {
			t.Errorf("%q and %q are recorded to %q", name, other, path)
		}
		seen[path] = name
		must(t, p.Shutdown(t.Context()))
	}
}
