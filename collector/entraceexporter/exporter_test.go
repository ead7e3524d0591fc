package entraceexporter_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exportertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/entrace-go/entrace/collector/entraceexporter"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// envDies is an environment variable. If it is set, the test program exports spans and log records to
// the file that it names, and waits until it is killed.
const envDies = "ENTRACE_TEST_DIES"

func TestMain(m *testing.M) {
	if path := os.Getenv(envDies); path != "" {
		t := new(testing.T)
		p := create(t, map[string]any{"path": path}).start(t)
		must(t, errors.Join(p.traces.ConsumeTraces(context.Background(), spansOf(1000)), p.logs.ConsumeLogs(context.Background(), logsOf(1000))))
		fmt.Println("taken")
		select {}
	}
	goleak.VerifyTestMain(m)
}

var must = expect.Must

// configOf returns the configuration that a user writes as written.
func configOf(t testing.TB, written map[string]any) (*entraceexporter.Config, error) {
	t.Helper()
	cfg := entraceexporter.NewFactory().CreateDefaultConfig().(*entraceexporter.Config)
	if err := confmap.NewFromStringMap(written).Unmarshal(cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// A pair holds the exporters of both signals.
type pair struct {
	traces exporter.Traces
	logs   exporter.Logs
	logged *observer.ObservedLogs
}

// create returns the exporters of a configuration. They are shut down when the test ends.
func create(t testing.TB, written map[string]any) pair {
	t.Helper()
	cfg, err := configOf(t, written)
	must(t, err)
	f := entraceexporter.NewFactory()
	set := exportertest.NewNopSettings(f.Type())
	core, logged := observer.New(zap.InfoLevel)
	set.Logger = zap.New(core)
	traces, err := f.CreateTraces(t.Context(), set, cfg)
	must(t, err)
	logs, err := f.CreateLogs(t.Context(), set, cfg)
	must(t, err)
	t.Cleanup(func() {
		must(t, errors.Join(traces.Shutdown(context.Background()), logs.Shutdown(context.Background())))
	})
	return pair{traces, logs, logged}
}

func (p pair) start(t testing.TB) pair {
	t.Helper()
	for _, c := range []component.Component{p.traces, p.logs} {
		must(t, c.Start(t.Context(), componenttest.NewNopHost()))
	}
	return p
}

func traceID(n byte) pcommon.TraceID { return pcommon.TraceID{15: n} }

func spanID(n int) pcommon.SpanID { return pcommon.SpanID{6: byte(n >> 8), 7: byte(n)} }

// spansOf returns n spans. Each span is the parent of the next one, and the last one comes first.
func spansOf(n int) ptrace.Traces {
	td := ptrace.NewTraces()
	rs := td.ResourceSpans().AppendEmpty()
	rs.Resource().Attributes().PutStr("service.name", "shop")
	spans := rs.ScopeSpans().AppendEmpty().Spans()
	for i := n; i > 0; i-- {
		s := spans.AppendEmpty()
		s.SetName(fmt.Sprint("span ", i))
		s.SetTraceID(traceID(1))
		s.SetSpanID(spanID(i))
		s.SetParentSpanID(spanID(i - 1))
		s.SetStartTimestamp(pcommon.Timestamp(1_700_000_000_000_000_000 + i))
		s.SetEndTimestamp(s.StartTimestamp() + 5)
		s.Events().AppendEmpty().SetName("event")
	}
	td.MarkReadOnly()
	return td
}

// logsOf returns n log records of the first span in the chain of spansOf.
func logsOf(n int) plog.Logs {
	ld := plog.NewLogs()
	rl := ld.ResourceLogs().AppendEmpty()
	rl.Resource().Attributes().PutStr("service.name", "shop")
	records := rl.ScopeLogs().AppendEmpty().LogRecords()
	for i := range n {
		l := records.AppendEmpty()
		l.Body().SetStr(fmt.Sprint("log ", i))
		l.SetTraceID(traceID(1))
		l.SetSpanID(spanID(1))
		l.SetTimestamp(1_700_000_000_000_000_003)
	}
	ld.MarkReadOnly()
	return ld
}

// count returns how many rows have a role.
func count(v *view.View, role view.Role) (n int) {
	for r := range v.Rows() {
		if v.Role(r) == role {
			n++
		}
	}
	return n
}

// TestSignalsShareAFile: spans and log records go to one file, which is finished when both exporters
// are shut down, and not before.
func TestSignalsShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made", "trace.et")
	p := create(t, map[string]any{"path": path}).start(t)
	must(t, p.traces.ConsumeTraces(t.Context(), spansOf(3)))
	must(t, p.traces.Shutdown(t.Context()))
	must(t, p.logs.ConsumeLogs(t.Context(), logsOf(2)))
	must(t, p.logs.Shutdown(t.Context()))
	v := tracetest.OpenView(t, path)
	if got := [...]int{count(v, view.RoleResource), count(v, view.RoleSpan), count(v, view.RoleEvent), count(v, view.RoleLog)}; got != [...]int{1, 3, 3, 2} {
		t.Errorf("the file has %d resources, spans, events and log records, want 1, 3, 3, 2", got)
	}
	for r := range v.Rows() {
		up := v.Name(v.Parent(r))
		switch v.Role(r) {
		case view.RoleLog:
			expect.Equal(t, up, "span 1", "a log record is below")
		case view.RoleSpan:
			if want := map[string]string{"span 1": "resource", "span 2": "span 1", "span 3": "span 2"}[v.Name(r)]; up != want {
				t.Errorf("%s is below %q, want %q", v.Name(r), up, want)
			}
		}
	}
}

// TestSecrets: the exporter replaces secrets only if the option redact is set.
func TestSecrets(t *testing.T) {
	const secret = "hunter2hunter2"
	for redact, want := range map[string]bool{"off": true, "default": false} {
		path := filepath.Join(t.TempDir(), "trace.et")
		p := create(t, map[string]any{"path": path, "redact": redact}).start(t)
		td := ptrace.NewTraces()
		spansOf(1).CopyTo(td)
		span := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans().At(0)
		span.Attributes().PutStr("db.password", secret)
		m := span.Attributes().PutEmptyMap("m")
		m.PutStr("token", secret)
		m.PutEmptyBytes("note").FromRaw([]byte("password=" + secret))
		must(t, p.traces.ConsumeTraces(t.Context(), td))
		must(t, p.traces.Shutdown(t.Context()))
		must(t, p.logs.Shutdown(t.Context()))
		b, err := os.ReadFile(path)
		must(t, err)
		expect.Equal(t, strings.Contains(string(b), secret), want, "with redact: %s the secret is in the file", redact)
	}
}

// TestWhatWasTakenSurvivesAKill: if the Collector is killed, all records that it has accepted are in
// the file or in the crash buffer.
func TestWhatWasTakenSurvivesAKill(t *testing.T) {
	path := filepath.Join(hosttest.TraceDir(t), "trace.et")
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), envDies+"="+path)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if said := bufio.NewScanner(out); !said.Scan() || said.Text() != "taken" {
		t.Fatalf("it says %q", said.Text())
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // an error, because the process was killed
	v := tracetest.OpenView(t, path)
	if spans, logs := count(v, view.RoleSpan), count(v, view.RoleLog); spans != 1000 || logs != 1000 {
		t.Errorf("there are %d spans and %d log records, want 1000 each", spans, logs)
	}
}

// TestLifecycle: a Collector that fails to start calls Shutdown for components that it has not
// started, and may call it twice.
func TestLifecycle(t *testing.T) {
	p := create(t, map[string]any{"path": filepath.Join(t.TempDir(), "trace.et")})
	for _, c := range []component.Component{p.traces, p.logs} {
		must(t, c.Shutdown(t.Context()))
	}
	p.start(t)
	for range 2 {
		for _, c := range []component.Component{p.traces, p.logs} {
			must(t, c.Shutdown(t.Context()))
		}
	}
	expect.Is(t, p.traces.ConsumeTraces(t.Context(), spansOf(1)), recorder.ErrClosed, "spans after the shutdown")
	if p.traces.Capabilities().MutatesData || p.logs.Capabilities().MutatesData {
		t.Error("it says that it changes the data")
	}
}

// TestDefaultConfigHasTagsOfFields is the Collector's own check of a configuration.
func TestDefaultConfigHasTagsOfFields(t *testing.T) {
	must(t, componenttest.CheckConfigStruct(entraceexporter.NewFactory().CreateDefaultConfig()))
}

func TestConfig(t *testing.T) {
	for _, test := range []struct {
		name    string
		written map[string]any
		says    string // part of the error; "": the configuration is valid
	}{
		{"smallest", map[string]any{"path": "a.et"}, ""},
		{"full", map[string]any{
			"path": "a.iet", "durability": "power", "buffer_dir": "/b", "max_file_size": "64MiB", "max_file_age": "1h", "keep_files": 3, "keep_bytes": 1 << 30,
			"redact": "default",
		}, ""},
		{"no path", nil, "path: must name the file to write"},
		{"a folder", map[string]any{"path": "traces/"}, `path: must end with .et or .iet, not "traces/"`},
		{"durability", map[string]any{"path": "a.et", "durability": "none"}, "durability: must be process, writethrough or power, not \"none\""},
		{"size", map[string]any{"path": "a.et", "max_file_size": "big"}, `"big": not a size such as 1000`},
		{"negative", map[string]any{"path": "a.et", "keep_files": -1}, "keep_files: must not be negative; 0 means no limit"},
		{"policy", map[string]any{"path": "a.et", "redact": "nosuch.json"}, "policy file: open nosuch.json"},
		{"unknown field", map[string]any{"path": "a.et", "rotate": true}, "rotate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg, err := configOf(t, test.written)
			if test.says == "" {
				must(t, err)
			} else if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("the error is %v, want %q", err, test.says)
			}
			if test.name == "full" && cfg.MaxFileSize != 64<<20 {
				t.Errorf("max_file_size is %d", cfg.MaxFileSize)
			}
		})
	}
}

// TestOldDurability: the former durability "buffered" is taken as process, and the log says so.
func TestOldDurability(t *testing.T) {
	p := create(t, map[string]any{"path": filepath.Join(t.TempDir(), "trace.et"), "durability": "buffered"}).start(t)
	if n := p.logged.FilterMessage("durability buffered is gone: process is used instead").Len(); n == 0 {
		t.Errorf("the log has %v", p.logged.All())
	}
}

// TestNothingTakenIsAnError: if the recorder accepts no record of a request, the exporter returns an
// error, so that the sender tries again.
func TestNothingTakenIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.et")
	p := create(t, map[string]any{"path": path}).start(t)
	rec, err := recorder.Create(path, &recorder.Options{Shared: true})
	must(t, err)
	for range 3 { // also the two uses of the exporters, so that the shared recorder closes
		must(t, rec.Close(t.Context()))
	}
	expect.Is(t, p.traces.ConsumeTraces(t.Context(), spansOf(2)), receive.ErrFull, "the error of the spans")
	expect.Is(t, p.logs.ConsumeLogs(t.Context(), logsOf(2)), receive.ErrFull, "the error of the log records")
	if n := p.logged.FilterMessage("some records were refused, and are lost").Len(); n != 0 {
		t.Errorf("it says %d times that records are lost, which the sender still has", n)
	}
}

// TestBadRecordsAreLeftOut: the exporter logs the number of records that can never be recorded, and
// records the others. It returns no error, because the sender would then send all of them again.
func TestBadRecordsAreLeftOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.et")
	p := create(t, map[string]any{"path": path}).start(t)
	td := ptrace.NewTraces()
	spansOf(3).CopyTo(td)
	spans := td.ResourceSpans().At(0).ScopeSpans().At(0).Spans()
	spans.At(0).SetSpanID(pcommon.SpanID{})
	deep := spans.At(1).Attributes().PutEmpty("deep")
	for range 200 {
		deep = deep.SetEmptySlice().AppendEmpty()
	}
	must(t, p.traces.ConsumeTraces(t.Context(), td))
	must(t, errors.Join(p.traces.Shutdown(t.Context()), p.logs.Shutdown(t.Context())))
	expect.Equal(t, count(tracetest.OpenView(t, path), view.RoleSpan), 1, "spans of the file")
	lost := p.logged.FilterMessage("some records were refused, and are lost").All()
	if len(lost) != 1 || lost[0].ContextMap()["lost"] != int64(2) {
		t.Errorf("it logs %+v", lost)
	}
}

// TestPanicIsAnError: a zero ptrace.Traces makes pdata panic. The exporter returns this as an error.
func TestPanicIsAnError(t *testing.T) {
	p := create(t, map[string]any{"path": filepath.Join(t.TempDir(), "trace.et")}).start(t)
	if err := p.traces.ConsumeTraces(t.Context(), ptrace.Traces{}); err == nil {
		t.Error("spans that are none are no error")
	}
	if err := p.logs.ConsumeLogs(t.Context(), plog.Logs{}); err == nil {
		t.Error("log records that are none are no error")
	}
	must(t, p.traces.ConsumeTraces(t.Context(), spansOf(1)))
}

// TestFilesAreRotatedAndRemoved: the recorder observes the limits of the configuration.
func TestFilesAreRotatedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	p := create(t, map[string]any{"path": filepath.Join(dir, "trace.et"), "max_file_size": "16KiB", "keep_files": 2}).start(t)
	for range 50 {
		must(t, p.logs.ConsumeLogs(t.Context(), logsOf(100)))
	}
	must(t, errors.Join(p.traces.Shutdown(t.Context()), p.logs.Shutdown(t.Context())))
	names, err := filepath.Glob(filepath.Join(dir, "trace*.et"))
	must(t, err)
	if len(names) < 2 || len(names) > 3 {
		t.Errorf("there are %q, want 2 that are kept and the last one", names)
	}
}
