package format

import "errors"

// Dropped counts what could not be recorded, by reason.
type Dropped struct {
	IO       uint64 // the file could not be written
	TooLarge uint64 // larger than the limit, after cutting too
	Full     uint64 // the file holds all the entries that 32 bits count
	Closed   uint64 // came after Close
	Invalid  uint64 // no entry: an unknown parent or level
}

// Total returns the sum of all reasons.
func (d Dropped) Total() uint64 { return d.IO + d.TooLarge + d.Full + d.Closed + d.Invalid }

// Counts is the account of one kind of thing that was recorded.
// Offered = Written + Waiting + Dropped.Total() at every moment.
type Counts struct {
	Offered uint64
	Written uint64 // in the file
	Waiting uint64 // taken, but waits in memory for its parent
	Dropped Dropped
}

// Stats is the account of a [Recorder].
type Stats struct {
	Entries Counts // everything, spans and the recorder's own entries included
	Spans   Counts
	Bytes   int64 // size of the IET file
}

// reason returns the counter for err.
func (d *Dropped) reason(err error) *uint64 {
	switch {
	case errors.Is(err, ErrTooLarge):
		return &d.TooLarge
	case errors.Is(err, ErrFull):
		return &d.Full
	case errors.Is(err, ErrClosed):
		return &d.Closed
	case errors.Is(err, ErrBadParent), errors.Is(err, ErrBadLevel):
		return &d.Invalid
	}
	return &d.IO
}
