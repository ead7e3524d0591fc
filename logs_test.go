package entrace_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// emit emits a log record through OpenTelemetry's global LoggerProvider.
func emit(ctx context.Context, severity log.Severity, body string) {
	var r log.Record
	r.SetTimestamp(time.Now())
	r.SetSeverity(severity)
	r.SetBody(attribute.StringValue(body))
	otel.Logger("t").Emit(ctx, r)
}

// messages returns the log records of a.et, each with the name of its parent entry.
func messages(t *testing.T) string {
	t.Helper()
	f := tracetest.OpenFile(t, "a.et")
	v := tracetest.View(t, f)
	var all []string
	for row := range v.Rows() {
		if v.Role(row) == view.RoleLog {
			message, _ := v.Message(row)
			all = append(all, v.Name(v.Parent(row))+": "+strings.Clone(message))
		}
	}
	return strings.Join(all, "\n")
}

// TestSetupRecordsOpenTelemetrysLogs: records of OpenTelemetry's log API become children of their
// span, as records of log/slog do, and the level applies to both kinds. A second Setup replaces the
// LoggerProvider of the first.
func TestSetupRecordsOpenTelemetrysLogs(t *testing.T) {
	clean(t)
	for range 2 {
		p := setup(t, exporter.WithPath("a.et"))
		if otel.GetLoggerProvider() != p.LoggerProvider() {
			t.Error("the global LoggerProvider is another one")
		}
		ctx, span := p.TracerProvider().Tracer("t").Start(t.Context(), "request")
		emit(ctx, log.SeverityInfo, "loaded")
		emit(ctx, log.SeverityDebug, "not recorded")
		slog.New(p.LogHandler(slog.DiscardHandler)).InfoContext(ctx, "by slog")
		emit(t.Context(), log.SeverityError, "alone")
		span.End()
		must(t, errors.Join(p.ForceFlush(t.Context()), p.Shutdown(t.Context())))
		emit(t.Context(), log.SeverityError, "after the end")
		expect.Equal(t, messages(t), "request: loaded\nrequest: by slog\nresource: alone", "the records")
	}
}

// TestSetupLeavesLoggerProvider: if the program has set a global LoggerProvider, Setup does not
// replace it, and its records are not recorded. With WithoutLogs, WithoutGlobals or the exporter
// none, Setup sets no global LoggerProvider.
func TestSetupLeavesLoggerProvider(t *testing.T) {
	for _, test := range []struct {
		name      string
		option    entrace.Option
		variable  string
		recording bool // the LoggerProvider of the Pipeline records
	}{
		{"the program's own", nil, "", true},
		{"without globals", entrace.WithoutGlobals(), "", true},
		{"without logs", entrace.WithoutLogs(), "", false},
		{"none", nil, "none", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			clean(t)
			t.Setenv("OTEL_LOGS_EXPORTER", test.variable)
			before := sdklog.NewLoggerProvider()
			otel.SetLoggerProvider(before)
			o := []entrace.Option{exporter.WithPath("a.et")}
			if test.option != nil {
				o = append(o, test.option)
			}
			p := setup(t, o...)
			if otel.GetLoggerProvider() != before {
				t.Error("the LoggerProvider was replaced")
			}
			var r log.Record
			p.LoggerProvider().Logger("t").Emit(t.Context(), r)
			must(t, p.Shutdown(t.Context()))
			expect.Equal(t, messages(t) != "", test.recording, "the LoggerProvider of the Pipeline records")
		})
	}
	entrace.ForgetLoggerProvider()
}

// A logSink is a log exporter that only counts the records.
type logSink struct{ records *int }

func (s logSink) Export(_ context.Context, r []sdklog.Record) error { *s.records += len(r); return nil }
func (logSink) Shutdown(context.Context) error                      { return nil }
func (logSink) ForceFlush(context.Context) error                    { return nil }

// TestLogsExporterNamesOthers: OTEL_LOGS_EXPORTER lists exporters as OTEL_TRACES_EXPORTER does, and
// processors of the program see the records as well.
func TestLogsExporterNamesOthers(t *testing.T) {
	for variable, want := range map[string]struct {
		recorded bool
		sent     int
		told     string
	}{
		"":             {true, 0, ""},
		"sink":         {false, 1, ""},
		"sink,ENTRACE": {true, 1, ""},
		"otlp":         {true, 0, "unknown exporter \"otlp\": register the exporter with entrace.WithLogExporter"},
		"broken":       {true, 0, "no network"},
	} {
		t.Run(variable, func(t *testing.T) {
			clean(t)
			told := reports(t)
			t.Setenv("OTEL_LOGS_EXPORTER", variable)
			sent, seen := 0, 0
			p := setup(t, exporter.WithPath("a.et"),
				entrace.WithLogExporter("sink", func(context.Context) (sdklog.Exporter, error) { return logSink{&sent}, nil }),
				entrace.WithLogExporter("broken", func(context.Context) (sdklog.Exporter, error) { return nil, errors.New("no network") }),
				entrace.WithLoggerProviderOptions(sdklog.WithProcessor(sdklog.NewSimpleProcessor(logSink{&seen}))))
			var r log.Record
			p.LoggerProvider().Logger("t").Emit(t.Context(), r)
			must(t, p.Shutdown(t.Context()))
			if recorded := messages(t) != ""; recorded != want.recorded || sent != want.sent || seen != 1 {
				t.Errorf("recorded %t, sent %d, seen %d", recorded, sent, seen)
			}
			if got := told(); (got == "") != (want.told == "") || !strings.Contains(got, want.told) {
				t.Errorf("it told %q, want %q", got, want.told)
			}
		})
	}
}

// TestDisabledSetsNoLoggerProvider: with OTEL_SDK_DISABLED records are dropped.
func TestDisabledSetsNoLoggerProvider(t *testing.T) {
	clean(t)
	t.Setenv("OTEL_SDK_DISABLED", "true")
	before := otel.GetLoggerProvider()
	p := setup(t)
	if otel.GetLoggerProvider() != before {
		t.Error("the LoggerProvider was replaced")
	}
	if p.LoggerProvider().Logger("t").Enabled(t.Context(), log.EnabledParameters{}) {
		t.Error("a logger is enabled")
	}
}

// TestExportersOfTheEnvironmentShareARecording: a span exporter and a log exporter share a
// recording or a flight recorder. After one is shut down, the other still records.
func TestExportersOfTheEnvironmentShareARecording(t *testing.T) {
	clean(t)
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", "a.et")
	for range 2 {
		spans, err := entrace.NewSpanExporter()
		must(t, err)
		logs, err := entrace.NewLogExporter()
		must(t, err)
		must(t, errors.Join(spans.Shutdown(t.Context()), spans.Shutdown(t.Context())))
		lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(logs)))
		var r log.Record
		r.SetBody(attribute.StringValue("hello"))
		lp.Logger("t").Emit(t.Context(), r)
		must(t, lp.Shutdown(t.Context()))
		expect.Equal(t, messages(t), "resource: hello", "the records")
	}
	setenv(t, map[string]string{"": "ring", "_DIR": "traces"})
	spans, err := entrace.NewSpanExporter()
	must(t, err)
	one := len(glob(t, "traces/*"))
	logs, err := entrace.NewLogExporter()
	must(t, err)
	if both := len(glob(t, "traces/*")); one == 0 || both != one {
		t.Errorf("the folder of the flight recorder has %d files with one exporter, and with both %d", one, both)
	}
	must(t, errors.Join(spans.Shutdown(t.Context()), logs.Shutdown(t.Context())))
}

// TestErrorOfOpenTelemetrysLogsAsksForATrace: an error record of OpenTelemetry's log API makes the
// flight recorder write a trace, like an error record of log/slog.
func TestErrorOfOpenTelemetrysLogsAsksForATrace(t *testing.T) {
	clean(t)
	setenv(t, map[string]string{"": "ring", "_DIR": "traces", "_ON_ERROR": "30s"})
	p := setup(t)
	ctx, span := p.TracerProvider().Tracer("t").Start(t.Context(), "request")
	emit(ctx, log.SeverityDebug, "noticed before")
	emit(ctx, log.SeverityError, "it broke")
	span.End()
	must(t, p.Shutdown(t.Context()))
	list := glob(t, "traces/*.et")
	if len(list) != 1 {
		t.Fatalf("there are %q, want a trace", list)
	}
	must(t, os.Rename(list[0], "a.et"))
	expect.Equal(t, messages(t), "request: noticed before\nrequest: it broke", "the records")
}
