package recorder

import (
	"errors"

	"github.com/entrace-go/entrace/format"
)

// Dropped counts entries or spans that could not be recorded, by reason.
type Dropped struct {
	IO       uint64 // the file could not be written
	TooLarge uint64 // still larger than the limit after cutting
	Full     uint64 // the file holds as many entries as 32-bit ids allow
	Closed   uint64 // recorded after Close
	Invalid  uint64 // an unknown parent or level, or the end of a span without an entry
	Overflow uint64 // the journal had no room for longer than MaxBlock
}

// Total returns the sum of all reasons.
func (d Dropped) Total() uint64 {
	return d.IO + d.TooLarge + d.Full + d.Closed + d.Invalid + d.Overflow
}

// Each calls fn for every reason. The attributes of "entrace.end" use the same names.
func (d Dropped) Each(fn func(reason string, n uint64)) {
	fn("io", d.IO)
	fn("too_large", d.TooLarge)
	fn("full", d.Full)
	fn("closed", d.Closed)
	fn("invalid", d.Invalid)
	fn("overflow", d.Overflow)
}

// Counts has the numbers of entries, or of spans, that were recorded.
// Offered = Written + Waiting + Dropped.Total() at every moment.
type Counts struct {
	Offered uint64
	Written uint64 // in the file
	Waiting uint64 // accepted, but not in the file yet
	Dropped Dropped
}

// Add adds n to the count of entries or spans that were dropped because of err.
func (d *Dropped) Add(err error, n uint64) { *d.reason(err) += n }

// add adds the counts of e.
func (d *Dropped) add(e *Dropped) {
	d.IO, d.TooLarge, d.Full = d.IO+e.IO, d.TooLarge+e.TooLarge, d.Full+e.Full
	d.Closed, d.Invalid, d.Overflow = d.Closed+e.Closed, d.Invalid+e.Invalid, d.Overflow+e.Overflow
}

// Stats holds the counts of a [Recorder].
type Stats struct {
	Entries Counts // all entries, including spans and the entries of the recorder itself
	Spans   Counts // a span counts twice if it was recorded first as an open span and then as an ended one
	Bytes   int64  // size of the growing IET file
	Files   int    // number of files that a new file has replaced
	// Redacted counts the replaced secrets for each rule of package redact. It is nil if no secret was
	// replaced.
	Redacted map[string]uint64
}

// reason returns the counter for err. If err joins several errors, the first matching case decides.
func (d *Dropped) reason(err error) *uint64 {
	switch {
	case errors.Is(err, ErrClosed):
		return &d.Closed
	case errors.Is(err, ErrOverflow):
		return &d.Overflow
	case errors.Is(err, format.ErrFull):
		return &d.Full
	case errors.Is(err, format.ErrTooLarge):
		return &d.TooLarge
	case errors.Is(err, format.ErrInvalid), errors.Is(err, errNotOpen):
		return &d.Invalid
	}
	return &d.IO
}
