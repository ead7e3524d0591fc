package record

import "time"

// An Event describes a log record of the application, or the end of a span, to a flight recorder, which may then start
// a trace.
type Event struct {
	Ref     Ref    // the span of the log record, or the span that ended; zero: no span
	Level   uint8  // of the log record
	Message string // of the log record, or the name of the span

	Ended    bool // a span has ended
	Took     time.Duration
	Panicked bool   // a panic has ended the span
	Panic    string // the text of the panic
}
