// Package inside has what format does for the packages of this module and for nobody
// else. Package format sets the variables when it is initialized; what is an any here is a
// type of format, which this package cannot name, as format imports it.
package inside

import (
	"context"
	"os"

	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/placer"
	"github.com/entrace-go/entrace/internal/record"
)

// An Event describes a log record to a target. There is none, a nil pointer, for what is
// no log record of the application.
type Event struct {
	Level   uint8
	Message string
	Ref     record.Ref // of its span; zero: none
}

// An Import writes journal records to the file of a recorder whose interner has their
// names.
type Import interface {
	Placer() *placer.Placer
	// Place counts a record as offered and places it.
	Place(e *journal.Entry)
	// Flush writes what is staged, if that is much, or now. If that fails it drops and
	// counts it and goes on, as a later write may succeed.
	Flush(now bool)
	// Err is why the file cannot be written to any more.
	Err() error
}

// Entries are the encoded entries of a file. Its methods are safe for concurrent use.
type Entries interface {
	// Columns reports whether they are of version 2.
	Columns() bool
	// Gap is how many bytes there are before each entry.
	Gap() int
	// Offset returns where in the file entry id begins; the one behind the last is where
	// that ends.
	Offset(id uint32) int64
	// End returns where the last whole entry ends.
	End() int64
	// View calls fn with n bytes at off of the file. fn must not keep them, and call
	// nothing of the file.
	View(off, n int64, fn func(b []byte)) error
	// Append appends the encoding of entry id to buf and returns that.
	Append(buf []byte, id uint32) ([]byte, error)
	// Decode decodes raw, the encoding of entry id, into a *format.TraceEntry, whose texts
	// alias raw.
	Decode(raw []byte, id uint32, entry any) error
	// Grow looks for entries that were added to the file.
	Grow(ctx context.Context) error
}

var (
	// OpenFile returns a *format.File of an open file, which it takes over, too with an
	// error. It has that name.
	OpenFile func(f *os.File, name string) (any, error)
	// EntriesOf returns the entries of a *format.File.
	EntriesOf func(file any) Entries
	// NewRecorder returns a *format.Recorder that hands its records to a ring, a target of
	// format. Texts of more than maxText bytes are cut.
	NewRecorder func(target any, in *record.Interner, version uint8, maxText int) any
	// Create is format.Create with *format.RecorderOptions for a recorder whose names in
	// has. Died says that what is recorded comes from a process that died: Close writes that
	// instead of a clean end.
	Create func(name string, options any, in *record.Interner, died bool) (any, error)
	// Put hands to a *format.Recorder a record that was built with its interner.
	Put func(recorder any, r *journal.Record, hint *journal.Hint) error
	// WithFile runs fn on the goroutine that writes the file of a *format.Recorder, if
	// it has one.
	WithFile func(recorder any, fn func(Import) error) error
	// SetProviders says what a *format.Recorder takes.
	SetProviders func(recorder any, p record.Providers)
	// SetProvider says that the record that a *format.Batch builds, which Log began, is
	// of a provider that is neither spans nor log records. It hangs below its span as
	// those do, else below what AppendAnchor has written. Its entry needs a message if
	// it has a span. A record that is said to be of ProviderLogs fires no trigger.
	SetProvider func(batch any, p record.Provider)
	// AppendAnchor writes a *format.TraceEntry below the root of what a
	// *format.Recorder writes, and returns its id. Entries of providers other than
	// spans, and log records that belong to no span, hang below it from then on.
	AppendAnchor func(recorder, entry any) (uint32, error)
)
