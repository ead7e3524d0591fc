package exporter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

// logProcessor returns a processor that records log records to rec. If way is "exporter", it records in batches,
// otherwise at once.
func logProcessor(t testing.TB, way string, rec *recorder.Recorder) sdklog.Processor {
	t.Helper()
	if way == "exporter" {
		e, err := exporter.NewLogExporter(exporter.WithRecorder(rec))
		must(t, err)
		return sdklog.NewBatchProcessor(e)
	}
	p, err := exporter.NewLogProcessor(exporter.WithRecorder(rec))
	must(t, err)
	return p
}

// logsOf returns the log records of a view as values of package otel.
func logsOf(t *testing.T, v *view.View) (logs []*otel.Log) {
	t.Helper()
	for row := range v.Rows() {
		if v.Role(row) != view.RoleLog {
			continue
		}
		e, err := v.Entry(row)
		must(t, err)
		l := new(otel.Reader).Log(e)
		l.ID = 0
		logs = append(logs, l)
	}
	return logs
}

// TestLogValuesReadAsTheyWereEmitted: bodies and attributes of all kinds keep their kinds.
func TestLogValuesReadAsTheyWereEmitted(t *testing.T) {
	rec := create(t, nil)
	p := logProcessor(t, "processor", rec)
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(p))
	kinds := everyKind()
	for _, kv := range kinds {
		var r log.Record
		r.SetBody(kv.Value)
		r.SetEventName(string(kv.Key))
		r.AddAttributes(attribute.KeyValue{Key: "a", Value: kv.Value})
		lp.Logger("l").Emit(t.Context(), r)
	}
	must(t, lp.Shutdown(t.Context()))
	logs := logsOf(t, finish(t, rec))
	for i, l := range logs {
		// The exporter converts values with setup.Any as well.
		want := setup.Any(kinds[i].Value)
		expect.MustLen(t, l.Attributes, 1, "%s: the attributes", l.EventName)
		got := l.Attributes[0].Any()
		if l.EventName == "not text" || l.EventName == "bad strings" {
			continue // these texts become bytes, and U+FFFD in a body
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || fmt.Sprint(l.Body) != fmt.Sprint(want) {
			t.Errorf("%s: the attribute is %+v and the body %+v, want %+v", l.EventName, got, l.Body, want)
		}
	}
	expect.Equal(t, len(logs), len(kinds), "records")
}

// TestLogProcessorEnds: after Shutdown, the processor ignores records without an error, and Export returns
// ErrExporterShutdown. Nothing is reported.
func TestLogProcessorEnds(t *testing.T) {
	told := said(t)
	rec := create(t, nil)
	p, err := exporter.NewLogProcessor(exporter.WithRecorder(rec))
	must(t, err)
	e, err := exporter.NewLogExporter(exporter.WithRecorder(rec))
	must(t, err)
	ctx := t.Context()
	if !p.Enabled(ctx, sdklog.EnabledParameters{}) {
		t.Error("it is not enabled")
	}
	must(t, p.OnEmit(ctx, nil))
	must(t, p.OnEmit(ctx, new(sdklog.Record))) // no SDK made it: it has no resource and no scope
	must(t, e.Export(ctx, nil))
	must(t, e.Export(ctx, make([]sdklog.Record, 2)))
	for range 2 {
		must(t, errors.Join(p.ForceFlush(ctx), p.Shutdown(ctx), e.ForceFlush(ctx), e.Shutdown(ctx)))
	}
	must(t, p.OnEmit(ctx, new(sdklog.Record)))
	expect.Is(t, e.Export(ctx, make([]sdklog.Record, 1)), sdklog.ErrExporterShutdown, "Export after Shutdown")
	if p.Enabled(ctx, sdklog.EnabledParameters{}) {
		t.Error("it is enabled after Shutdown")
	}
	if logs := logsOf(t, finish(t, rec)); len(logs) != 3 || told() != "" {
		t.Errorf("there are %d records, want 3, and it told %q", len(logs), told())
	}
}

// TestLogProcessorWithDoneContext: a record of a canceled request is recorded. ForceFlush and Shutdown with a
// canceled context return its error.
func TestLogProcessorWithDoneContext(t *testing.T) {
	rec := create(t, nil)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := exporter.NewLogProcessor(exporter.WithRecorder(rec))
	must(t, err)
	e, err := exporter.NewLogExporter(exporter.WithRecorder(rec))
	must(t, err)
	must(t, p.OnEmit(done, new(sdklog.Record)))
	must(t, e.Export(done, make([]sdklog.Record, 1)))
	for _, err := range []error{p.ForceFlush(done), p.Shutdown(done), e.Shutdown(done)} {
		expect.Is(t, err, context.Canceled, "a call with a context that is done")
	}
	if logs := logsOf(t, finish(t, rec)); len(logs) != 2 {
		t.Errorf("there are %d records, want 2", len(logs))
	}
}

// TestLogProcessorReportsFailureOnce: an error is printed once on the console. OnEmit does not return it,
// because the SDK might log it.
func TestLogProcessorReportsFailureOnce(t *testing.T) {
	told := said(t)
	rec := create(t, nil)
	p, err := exporter.NewLogProcessor(exporter.WithRecorder(rec))
	must(t, err)
	must(t, rec.Close(t.Context()))
	for range 3 {
		must(t, p.OnEmit(t.Context(), new(sdklog.Record)))
	}
	if n := strings.Count(told(), recorder.ErrClosed.Error()); n != 1 {
		t.Errorf("it told %q, want %q once", told(), recorder.ErrClosed)
	}
	e, err := exporter.NewLogExporter(exporter.WithRecorder(rec))
	must(t, err)
	expect.Is(t, e.Export(t.Context(), make([]sdklog.Record, 2)), recorder.ErrClosed, "Export")
}

// TestLogProcessorOpensTheFileOfTheSpans: a span processor and a log processor with the same path record to one
// file. The file is finished when both are shut down.
func TestLogProcessorOpensTheFileOfTheSpans(t *testing.T) {
	told := said(t)
	path := exporter.WithPath(t.TempDir() + "/app.et")
	t.Setenv("OTEL_EXPORTER_ENTRACE_MODE", "live") // the variable applies only to spans
	sp, err := exporter.NewSpanProcessor(path)
	must(t, err)
	p, err := exporter.NewLogProcessor(path)
	must(t, err)
	e, err := exporter.NewLogExporter(path)
	must(t, err)
	if p.Recorder() != sp.Recorder() || e.Recorder() != sp.Recorder() {
		t.Error("they record to several files")
	}
	rec := p.Recorder()
	must(t, sp.Shutdown(t.Context()))
	must(t, p.OnEmit(t.Context(), new(sdklog.Record)))
	must(t, errors.Join(p.Shutdown(t.Context()), e.Shutdown(t.Context())))
	if logs := logsOf(t, finish(t, rec)); len(logs) != 1 || told() != "" {
		t.Errorf("there are %d records, want 1, and it told %q", len(logs), told())
	}
}

// TestConcurrentLogs: many goroutines emit, some flush, and all records are there.
func TestConcurrentLogs(t *testing.T) {
	const goroutines, each = 8, 200
	rec := create(t, nil)
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(logProcessor(t, "processor", rec)))
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			logger := lp.Logger(fmt.Sprint("l", g))
			for i := range each {
				var r log.Record
				r.SetBody(attribute.IntValue(i))
				r.AddAttributes(attribute.Int("g", g))
				logger.Emit(t.Context(), r)
				if i%50 == 0 {
					must(t, lp.ForceFlush(t.Context()))
				}
			}
		})
	}
	wg.Wait()
	must(t, lp.Shutdown(t.Context()))
	if logs := logsOf(t, finish(t, rec)); len(logs) != goroutines*each {
		t.Errorf("there are %d records, want %d", len(logs), goroutines*each)
	}
}

// TestLogProcessorTakesNoMemory: recording a log record in a span allocates nothing, if the format has the kinds
// of its attributes.
func TestLogProcessorTakesNoMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rec := create(t, &recorder.Options{MaxFileSize: 0})
	p, err := exporter.NewLogProcessor(exporter.WithRecorder(rec))
	must(t, err)
	var kept sdklog.Record
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(keeper{&kept}), sdklog.WithResource(resource.NewSchemaless(attribute.String("service.name", "s"))))
	var r log.Record
	r.SetTimestamp(epoch)
	r.SetBody(attribute.StringValue("cart loaded"))
	r.SetSeverity(log.SeverityWarn)
	r.SetSeverityText("WARN")
	r.SetEventName("cart")
	r.AddAttributes(attribute.Int("n", 1), attribute.String("s", "t"), attribute.Bool("b", true), attribute.Float64("f", 1.5),
		attribute.Int("m", 2), attribute.String("u", "v"), attribute.String("w", "x"))
	ctx := trace.ContextWithSpanContext(t.Context(), spanContext(1, trace.FlagsSampled, false, ""))
	lp.Logger("scope", log.WithInstrumentationVersion("v1")).Emit(ctx, r)
	// The recorder's own goroutine allocates now and then.
	got := math.Inf(1)
	for i := 0; i < 10 && got > 0; i++ {
		got = min(got, testing.AllocsPerRun(200, func() { _ = p.OnEmit(ctx, &kept) }))
	}
	if got > 0 {
		t.Errorf("a record takes %v allocations", got)
	}
}

// A keeper is a log processor that keeps the last record.
type keeper struct{ r *sdklog.Record }

func (keeper) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (keeper) Shutdown(context.Context) error                         { return nil }
func (keeper) ForceFlush(context.Context) error                       { return nil }
func (k keeper) OnEmit(_ context.Context, r *sdklog.Record) error {
	*k.r = r.Clone()
	return nil
}

// TestLogProcessorLevel: records below the level are dropped; records without a severity count as
// INFO.
func TestLogProcessorLevel(t *testing.T) {
	rec := create(t, nil)
	level := new(slog.LevelVar)
	level.Set(slog.LevelInfo)
	p, err := exporter.NewLogProcessor(exporter.WithRecorder(rec), setup.WithLevel(level))
	must(t, err)
	for _, test := range []struct {
		severity      log.Severity
		level         slog.Level
		enabled, kept bool
	}{
		{log.SeverityDebug4, slog.LevelInfo, false, false},
		{log.SeverityInfo, slog.LevelInfo, true, true},
		{log.SeverityFatal, slog.LevelInfo, true, true},
		{log.SeverityUndefined, slog.LevelInfo, true, true},
		{log.SeverityUndefined, slog.LevelWarn, true, false},
		{log.SeverityInfo4, slog.LevelWarn, false, false},
		{-11, slog.LevelDebug, false, false},
		{log.SeverityDebug, slog.LevelDebug, true, true},
	} {
		level.Set(test.level)
		before := rec.Stats().Entries.Offered
		var r sdklog.Record
		r.SetSeverity(test.severity)
		must(t, p.OnEmit(t.Context(), &r))
		must(t, rec.Flush(t.Context()))
		kept := rec.Stats().Entries.Offered > before
		if enabled := p.Enabled(t.Context(), sdklog.EnabledParameters{Severity: test.severity}); enabled != test.enabled || kept != test.kept {
			t.Errorf("severity %d from %s on: enabled %t, recorded %t", test.severity, test.level, enabled, kept)
		}
	}
}

// TestRecordsOfBothWaysAreTold: if a record arrives through log/slog and through OpenTelemetry, a warning is
// printed once for each recorder. Records that are only similar cause no warning.
func TestRecordsOfBothWaysAreTold(t *testing.T) {
	for _, test := range []struct {
		name    string
		later   time.Duration
		message string
		inSpan  bool
		want    int
	}{
		{"the same", 0, "hello", false, 1},
		{"another time", 1, "hello", false, 0},
		{"another message", 0, "world", false, 0},
		{"another span", 0, "hello", true, 0},
	} {
		told := said(t)
		rec := create(t, nil)
		h := slogadapter.New(rec, nil)
		p := logProcessor(t, "processor", rec)
		lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(p))
		for i := range 3 {
			at := epoch.Add(time.Duration(i) * time.Second)
			must(t, h.Handle(t.Context(), slog.NewRecord(at, slog.LevelInfo, "hello", 0)))
			var r log.Record
			r.SetTimestamp(at.Add(test.later))
			r.SetBody(attribute.StringValue(test.message))
			ctx := t.Context()
			if test.inSpan {
				ctx = trace.ContextWithSpanContext(ctx, spanContext(1, trace.FlagsSampled, false, ""))
			}
			lp.Logger("l").Emit(ctx, r)
		}
		if n := strings.Count(told(), "recorded twice"); n != test.want {
			t.Errorf("%s: it told %q", test.name, told())
		}
	}
}

// loggingConsole is a console that logs each message, as a bridge does.
type loggingConsole struct{ emit func() }

func (c loggingConsole) Enabled(context.Context, slog.Level) bool { return true }
func (c loggingConsole) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c loggingConsole) WithGroup(string) slog.Handler            { return c }
func (c loggingConsole) Handle(context.Context, slog.Record) error {
	c.emit()
	return nil
}

// TestReportThatIsLoggedEnds: the console emits each error of the processor as a log record to the same
// processor. This must neither loop nor deadlock.
func TestReportThatIsLoggedEnds(t *testing.T) {
	rec := create(t, nil)
	p := logProcessor(t, "processor", rec)
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(p))
	reported := 0
	emit := func() {
		var r log.Record
		lp.Logger("l").Emit(context.Background(), r)
	}
	said(t) // the end of the test restores the console
	notice.SetConsole(loggingConsole{func() { reported++; emit() }})
	must(t, rec.Close(t.Context()))
	emit()
	expect.Equal(t, reported, 1, "times that it reported")
}

// A loggingError is an error whose Error method logs.
type loggingError struct{ emit func() }

func (e loggingError) Error() string { e.emit(); return "no stock" }

// TestErrorThatLogsIsRecorded: the Error method of an attribute is called while the record is made, and may
// itself log.
func TestErrorThatLogsIsRecorded(t *testing.T) {
	rec := create(t, nil)
	lp := sdklog.NewLoggerProvider(sdklog.WithProcessor(logProcessor(t, "processor", rec)))
	var outer, inner log.Record
	inner.SetBody(attribute.StringValue("inner"))
	outer.SetBody(attribute.StringValue("outer"))
	outer.SetErr(loggingError{func() { lp.Logger("l").Emit(t.Context(), inner) }})
	lp.Logger("l").Emit(t.Context(), outer)
	logs := logsOf(t, finish(t, rec))
	slices.SortFunc(logs, func(a, b *otel.Log) int { return strings.Compare(a.Message, b.Message) }) // either order is right
	if len(logs) != 2 || logs[0].Message != "inner" || logs[1].Message != "outer" {
		t.Fatalf("the records are %+v", logs)
	}
	for _, a := range logs[1].Attributes {
		if a.Name == "exception.message" && a.Value.Text() == "no stock" {
			return
		}
	}
	t.Errorf("the attributes are %+v", logs[1].Attributes)
}
