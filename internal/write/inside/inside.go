// Package inside gives the packages of this module functions that package recorder does not export, because its users
// cannot name the types, or must not make the calls. Package recorder sets the variables, so a program that calls them
// has to import it.
package inside

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
)

var (
	// Of returns the inside of a *recorder.Recorder.
	Of func(recorder any) Recorder
	// OfBatch returns the inside of a *recorder.Batch.
	OfBatch func(batch any) Batch
	// NewRing returns the *recorder.Recorder of a ring, which passes its records to the target, a recorder.target. The
	// parameter taken is a record.Providers that can change: the recorder accepts only records of providers whose bits are
	// set. The *recorder.Options must have values.
	NewRing func(target any, in *record.Interner, options any, taken *atomic.Uint64) any
	// Create is recorder.Create with *recorder.Options and an Interner. The new *recorder.Recorder can write the
	// records of another recorder that uses the same Interner. If died is set, the records come from a process that
	// died: Close then writes an entry that says so, not the entry of a clean end.
	Create func(name string, options any, in *record.Interner, died bool) (any, error)
)

// Head returns m and message in the form in which records have them.
func Head(m *format.Metadata, message format.Optional[string]) wire.Head {
	return wire.Head{
		Message: message.Value, HasMessage: message.Valid, Name: m.Name, Target: m.Target, Level: uint8(m.Level),
		Module: m.ModulePath.Value, HasModule: m.ModulePath.Valid, File: m.File.Value, HasFile: m.File.Valid,
		Line: m.Line.Value, HasLine: m.Line.Valid,
	}
}

// A Recorder has the methods of a *recorder.Recorder that only this module may call.
type Recorder interface {
	// IsRing reports whether the records go to the ring of a flight recorder.
	IsRing() bool
	// HasOnError reports whether OnError is set. If so, callers need not report the error of Err.
	HasOnError() bool
	// RedactedText returns s with its secrets replaced, as in records.
	RedactedText(s string) string
	// Place returns a place that makes log records, for record.Builder. A record of the place does not store the
	// message again, if its message is equal. If the recorder drops everything, Place returns nil.
	Place(m *format.Metadata, message string) *record.Place
	// AppendAnchor writes e below the root and returns the id of e. From then on, log records without a span
	// and entries of providers other than spans are written below e.
	AppendAnchor(e *format.TraceEntry) (uint32, error)
	// Put records rec, which must have been built with the Interner of the recorder.
	Put(rec *journal.Record, hint *journal.Hint) error
	// WithFile runs fn on the goroutine that writes the file. If the recorder writes no file and has no Tee,
	// WithFile does nothing. fn may place only records that were built with the Interner of the recorder.
	WithFile(fn func(placer.Importer) error) error
	// Suspend writes the waiting records to the file, including the spans that wait for their parents, and
	// removes the journal. The next recording call makes a new journal and waits for it. Until then the file
	// stays locked, and the recorder uses only one file descriptor. Suspend suits a program with many recorders
	// that uses few of them at a time. If Suspend fails, the recorder continues as before. If calls already wait
	// for a new journal, Suspend does nothing.
	Suspend(ctx context.Context) error
	// Admit reserves room in the journal for records of about size bytes, until leave is called. It is harmless to
	// call leave twice. Admit waits a few seconds for room, to slow down the caller's sender. If it fails, the error
	// says why the caller must not record now. The first call of Admit also changes the recorder: recording calls
	// that find no room wait longer than MaxBlock, so that all records of an admitted request are recorded.
	Admit(ctx context.Context, size int) (leave func(), err error)
	// FinishLeft makes the ET if Close has left the file unfinished. In contrast to another call of Close, it does
	// not close a recorder that others use.
	FinishLeft(ctx context.Context) error
}

// A Batch has the methods of a *recorder.Batch that only this module may call.
type Batch interface {
	// A Writer adds the attributes of an entry.
	otel.Writer
	// Direct returns the Builder of the batch, which adds attributes as the Writer does, without an interface.
	Direct() *record.Builder
	// Undo drops the record that is being built, and counts it as invalid.
	Undo()
	// Discard drops the record that is being built, and removes the errors of earlier records.
	Discard()
	// Elsewhere reports that the span ref is in another file, so that its child spans do not wait for it. Call
	// Elsewhere before the other records of the batch.
	Elsewhere(ref format.SpanRef)
	// SetProvider sets the provider of the record that is being built. Call it after Log. The record is written
	// below its span, or if it has none, below the entry of AppendAnchor. A record with a span must have a message.
	// The record fires no trigger, even if p is ProviderLogs.
	SetProvider(p record.Provider)
	// Ended notifies a flight recorder that the record that is being built ends the span ref. The parameter took
	// is the duration of the span. Call Ended last.
	Ended(ref format.SpanRef, name string, took time.Duration)
	// Panicked adds to Ended that a panic has ended the span.
	Panicked(text string)
}
