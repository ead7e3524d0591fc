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
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/write/bothways"
	"github.com/entrace-go/entrace/internal/write/setup"
)

var (
	_ sdklog.Processor = (*LogProcessor)(nil)
	_ sdklog.Exporter  = (*LogExporter)(nil)
)

// A LogProcessor records OpenTelemetry's log records at once: when a logger's Emit has returned,
// the record is as safe as the recorder's durability promises. Register it last, so that it sees
// the changes of other processors.
//
// A LogProcessor is safe for concurrent use.
type LogProcessor struct {
	target

	level slog.Leveler // nil: all
}

// NewLogProcessor returns a processor for the SDK's LoggerProvider. Without [WithRecorder] it
// opens a recorder of its own, as [New] does. All such recorders of a process write to one file.
func NewLogProcessor(options ...Option) (*LogProcessor, error) {
	s := setup.Resolve(options...)
	p := &LogProcessor{level: s.Level}
	return p, p.open(s, noMode)
}

// noMode is the mode of log processors and log exporters: OTEL_EXPORTER_ENTRACE_MODE applies to
// spans only.
const noMode = ""

// Enabled reports whether a record of the severity in param would be recorded.
func (p *LogProcessor) Enabled(_ context.Context, param sdklog.EnabledParameters) bool {
	// A bridge that does not know the severity yet passes 0.
	return p.takes() && (param.Severity == log.SeverityUndefined || p.enough(param.Severity))
}

// takes reports whether the recorder accepts log records now.
func (p *LogProcessor) takes() bool {
	return !p.stopped.Load() && p.recorder.TakesLogs() && !p.recorder.Discards()
}

// enough reports whether records of severity n are recorded.
func (p *LogProcessor) enough(n log.Severity) bool {
	if p.level == nil {
		return true
	}
	if n == log.SeverityUndefined {
		n = log.SeverityInfo
	}
	return slog.Level(n-log.SeverityInfo) >= p.level.Level()
}

// OnEmit records r, even if ctx is done, so that records of a canceled request are not lost. It reads
// the ids of the span from r, not from ctx. It always returns nil: the SDK may log a returned error, and
// would then pass this log record to OnEmit again. Errors are reported on the console instead. After an
// error, further errors are not reported until a call has succeeded.
func (p *LogProcessor) OnEmit(_ context.Context, r *sdklog.Record) error {
	if r == nil || !p.takes() || !p.enough(r.Severity()) {
		return nil
	}
	p.result(p.emit(r))
	return nil
}

// ForceFlush writes all records so far to the file.
func (p *LogProcessor) ForceFlush(ctx context.Context) error { return p.flush(ctx) }

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

// A LogExporter is a log exporter that writes to a recorder. Use it with a batch processor of
// the SDK. A [LogProcessor] costs less and loses no records when the process is killed.
//
// A LogExporter is safe for concurrent use, even if several processors share it.
type LogExporter struct{ target }

// NewLogExporter returns an exporter. Without [WithRecorder] it opens a recorder of its own, as
// [New] does. All such recorders of a process write to one file.
func NewLogExporter(options ...Option) (*LogExporter, error) {
	e := &LogExporter{}
	return e, e.open(setup.Resolve(options...), noMode)
}

// MarshalLog keeps loggers from printing the exporter's fields.
func (e *LogExporter) MarshalLog() any {
	return struct{ Type string }{"entrace"}
}

// Export records log records, even if ctx is done. When it returns, the records are as safe as the
// recorder's durability promises. If a record fails, Export records the other records and joins the
// error to the result. After Shutdown it returns [sdklog.ErrExporterShutdown].
func (e *LogExporter) Export(_ context.Context, records []sdklog.Record) (err error) {
	if e.stopped.Load() {
		return sdklog.ErrExporterShutdown
	}
	if !e.recorder.TakesLogs() || e.recorder.Discards() {
		return nil
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
	err = m.write(errs)
	for i := range records {
		e.tellTwice(&records[i])
	}
	return err
}

// safeRecord maps one of many records. If mapping panics, it leaves out the record and returns an error.
func (t *target) safeRecord(m *mapper, r *sdklog.Record) (err error) {
	defer func() {
		if p := recover(); p != nil {
			m.in.Undo()
			err = fmt.Errorf("exporter: panic while recording: %v", p)
		}
	}()
	return t.logRecord(m, r)
}

// ForceFlush writes all records so far to the file.
func (e *LogExporter) ForceFlush(ctx context.Context) error { return e.flush(ctx) }

// logRecord maps a log record. The record is recorded even if logRecord returns an error.
func (t *target) logRecord(m *mapper, r *sdklog.Record) error {
	res, err := t.resource(r.Resource())
	ref := format.SpanRef{TraceID: r.TraceID(), SpanID: r.SpanID()}
	to := &m.log
	to.TraceID, to.SpanID, to.Flags = ref.TraceID, ref.SpanID, uint32(r.TraceFlags())
	at := r.Timestamp()
	to.HasTime = !at.IsZero()
	if to.HasTime {
		to.Time, to.ExactTime = mapping.UnixNano(at), mapping.ExactTime(at)
	} else {
		to.Time, to.ExactTime = 0, ""
	}
	observed, when := r.ObservedTimestamp(), to.Time
	to.Observed = 0
	if !observed.IsZero() {
		to.Observed = mapping.UnixNano(observed)
	}
	if !to.HasTime {
		when = to.Observed
	}
	to.Severity, to.SeverityText, to.EventName = severity(r.Severity()), r.SeverityText(), r.EventName()
	body := r.Body()
	if body.Type() == attribute.STRING {
		to.Body = otel.TextAny(body.AsString())
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
		where = otel.Where{} // a record with only one of the two ids belongs to no span
	}
	to.Write(m.in, where, &m.users)
	return err
}

// tellTwice prints a warning on the console if the recorder gets the same record through
// log/slog as well.
func (t *target) tellTwice(r *sdklog.Record) {
	at := r.Timestamp()
	if body := r.Body(); body.Type() == attribute.STRING && !at.IsZero() {
		bothways.OTel(t.recorder, r.SpanID(), mapping.UnixNano(at), body.AsString())
	}
}

// severity returns OTLP's number for n, which is never negative. A bridge that computes severities
// from the levels of its logger may pass a negative severity.
func severity(n log.Severity) uint32 {
	if n < 0 {
		return uint32(log.SeverityTrace1)
	}
	return uint32(min(int64(n), math.MaxInt32))
}
