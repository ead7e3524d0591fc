package exporter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/selfmetrics"
	"github.com/entrace-go/entrace/internal/setup"
	"github.com/entrace-go/entrace/internal/twice"
	"github.com/entrace-go/entrace/recorder"
)

var (
	_ sdklog.Processor = (*LogProcessor)(nil)
	_ sdklog.Exporter  = (*LogExporter)(nil)
)

// A LogProcessor records OpenTelemetry's log records at once: when Emit of a logger has
// returned, the record is as safe as the recorder's durability says. Register it last, so that
// it sees what other processors change.
//
// A LogProcessor is safe for concurrent use.
type LogProcessor struct {
	target

	level slog.Leveler // nil: all
}

// NewLogProcessor returns a processor for the SDK's LoggerProvider. Without [WithRecorder] it
// opens a recorder of its own, as [New] does; those of one process share a file.
func NewLogProcessor(options ...Option) (*LogProcessor, error) {
	s := setup.Resolve(options...)
	p := &LogProcessor{level: s.Level}
	err := p.open(s, noMode)
	p.measure(selfmetrics.LogProcessor)
	return p, err
}

// noMode is the mode of what takes log records: OTEL_EXPORTER_ENTRACE_MODE is about spans.
const noMode = ""

// Enabled reports whether a record of that severity would be recorded.
func (p *LogProcessor) Enabled(_ context.Context, param sdklog.EnabledParameters) bool {
	// A bridge that does not know the severity yet says 0.
	return p.takes() && (param.Severity == log.SeverityUndefined || p.enough(param.Severity))
}

// takes reports whether records reach anybody.
func (p *LogProcessor) takes() bool {
	return !p.stopped.Load() && p.recorder.TakesLogs() && !p.recorder.Discards()
}

// enough reports whether records of a severity are recorded.
func (p *LogProcessor) enough(n log.Severity) bool {
	if p.level == nil {
		return true
	}
	if n == log.SeverityUndefined {
		n = log.SeverityInfo
	}
	return slog.Level(n-log.SeverityInfo) >= p.level.Level()
}

// OnEmit records r. The context is not asked: a record of a request that was canceled counts
// as well, and r has the ids of its span. It returns nil, as the SDK's answer to an error can be
// to log it, which would come back here; an error is reported on the console instead, once until
// a call succeeds again.
func (p *LogProcessor) OnEmit(ctx context.Context, r *sdklog.Record) error {
	if r == nil || !p.takes() || !p.enough(r.Severity()) {
		return nil
	}
	o := p.instruments.Begin(ctx, 1)
	err := p.emit(r)
	exported := 1
	if err != nil {
		exported = 0
	}
	o.End(ctx, exported, err)
	p.result(err)
	return nil
}

func (p *LogProcessor) emit(r *sdklog.Record) (err error) {
	defer recovered(&err)
	m := p.mapper()
	defer p.release(m)
	rerr := p.logRecord(m, r)
	if err := m.b.Write(); err != nil {
		return errors.Join(rerr, err)
	}
	p.tellTwice(r)
	return rerr
}

// ForceFlush writes what was recorded so far to the file.
func (p *LogProcessor) ForceFlush(ctx context.Context) error { return p.flush(ctx) }

// Shutdown ends the processor, which ignores records from then on. It closes the recorder if
// NewLogProcessor opened it; see [Exporter.Shutdown]. It is idempotent.
func (p *LogProcessor) Shutdown(ctx context.Context) error { return p.shutdown(ctx) }

// A LogExporter is a log exporter that writes to a recorder, for a batch processor of the SDK. A
// [LogProcessor] costs less and loses nothing when the process is killed.
//
// A LogExporter is safe for concurrent use, also when several processors share it.
type LogExporter struct{ target }

// NewLogExporter returns an exporter. Without [WithRecorder] it opens a recorder of its own, as
// [New] does; those of one process share a file.
func NewLogExporter(options ...Option) (*LogExporter, error) {
	e := &LogExporter{}
	err := e.open(setup.Resolve(options...), noMode)
	e.measure(selfmetrics.LogExporter)
	return e, err
}

// MarshalLog keeps loggers from printing what is inside.
func (e *LogExporter) MarshalLog() any {
	return struct{ Type string }{"entrace"}
}

// Export records log records. When it returns they are as safe as the recorder's durability
// promises. It does its work even if ctx is done. What is wrong with one record is joined to the
// error, and the others are recorded. After Shutdown it returns [sdklog.ErrExporterShutdown].
func (e *LogExporter) Export(ctx context.Context, records []sdklog.Record) error {
	o := e.instruments.Begin(ctx, len(records))
	exported, err := e.export(records)
	o.End(ctx, exported, err)
	if errors.Is(err, selfmetrics.ErrShutdown) {
		return sdklog.ErrExporterShutdown // which tells the SDK the same
	}
	return err
}

func (e *LogExporter) export(records []sdklog.Record) (exported int, err error) {
	if e.stopped.Load() {
		return 0, selfmetrics.ErrShutdown
	}
	if !e.recorder.TakesLogs() || e.recorder.Discards() {
		return len(records), nil
	}
	defer recovered(&err)
	m := e.mapper()
	defer e.release(m)
	var errs []error
	for i := range records {
		if err := e.safeRecord(m, &records[i]); err != nil && len(errs) < maxErrors {
			errs = append(errs, fmt.Errorf("log record %d: %w", i, err))
		}
	}
	err = m.b.Write()
	for i := range records {
		e.tellTwice(&records[i])
	}
	exported = len(records)
	if refused, ok := errors.AsType[*recorder.RefusedError](err); ok {
		exported = max(0, exported-refused.Records)
	}
	if len(errs) == 0 {
		return exported, err
	}
	return exported, errors.Join(append(errs, err)...)
}

// safeRecord maps one of many records, and leaves it out if it panics.
func (t *target) safeRecord(m *mapper, r *sdklog.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			m.b.Undo()
			err = fmt.Errorf("exporter: panic: %v", p)
		}
	}()
	return t.logRecord(m, r)
}

// ForceFlush writes what was recorded so far to the file.
func (e *LogExporter) ForceFlush(ctx context.Context) error { return e.flush(ctx) }

// Shutdown ends the exporter. It closes the recorder if NewLogExporter opened it; see
// [Exporter.Shutdown]. It is idempotent.
func (e *LogExporter) Shutdown(ctx context.Context) error { return e.shutdown(ctx) }

// logRecord maps a log record. In spite of an error it is recorded.
func (t *target) logRecord(m *mapper, r *sdklog.Record) error {
	res, err := t.resource(r.Resource())
	ref := format.SpanRef{TraceID: r.TraceID(), SpanID: r.SpanID()}
	to := &m.log
	to.TraceID, to.SpanID, to.Flags = ref.TraceID, ref.SpanID, uint32(r.TraceFlags())
	at := r.Timestamp()
	if to.HasTime = !at.IsZero(); to.HasTime {
		to.Time = unixNano(at)
	} else {
		to.Time = 0
	}
	observed, when := r.ObservedTimestamp(), to.Time
	if to.Observed = 0; !observed.IsZero() {
		to.Observed = unixNano(observed)
	}
	if !to.HasTime {
		when = to.Observed
	}
	to.Severity, to.SeverityText, to.EventName = severity(r.Severity()), r.SeverityText(), r.EventName()
	body := r.Body()
	if body.Type() == attribute.STRING {
		to.Body = otel.Any{Kind: otel.String, Text: body.AsString()}
	} else {
		to.Body = setup.Any(body)
	}
	scope := r.InstrumentationScope()
	setScope(&to.Scope, &scope)
	to.Dropped = count(r.DroppedAttributes())
	m.gathered = m.gathered[:0]
	r.WalkAttributes(m.each)
	m.users = m.gathered

	m.b.Log(ref, when)
	m.b.Below(res)
	where := below
	if !ref.IsValid() {
		where = otel.Where{} // the recorder does not know of half an id
	}
	to.Write(m.b, where, &m.users)
	return err
}

// tellTwice tells of a record if it came through log/slog as well.
func (t *target) tellTwice(r *sdklog.Record) {
	at := r.Timestamp()
	if body := r.Body(); body.Type() == attribute.STRING && !at.IsZero() {
		twice.OTel(t.recorder, r.SpanID(), at.UnixNano(), body.AsString())
	}
}

// severity returns OTLP's number, which is never negative. A bridge that counts from the levels
// of its logger has some that are.
func severity(n log.Severity) uint32 {
	if n < 0 {
		return uint32(log.SeverityTrace1)
	}
	return uint32(min(int64(n), math.MaxInt32))
}
