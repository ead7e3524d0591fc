// Package tracedir recovers what processes that died have left in the folder of the traces of a flight
// recorder.
package tracedir

import (
	"context"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/recorder"
)

// A Result reports on a file of a process that died: a ring, or the stream of a trace or of a
// recording. Name is that file, and Output the trace that was made of it, "" if there is none.
type Result struct {
	recorder.Report

	Ring bool // the rest is of a ring alone

	Time    time.Time // of the last record
	PID     int
	Service string
	Reason  string // the first line of the runtime's last words, "" without any
	Damaged int    // parts of the ring that could not be read
}

// Recover makes traces of the files that processes which died have left in the folder dir. It makes a
// trace of each ring of a flight recorder, and removes the ring. It finishes the streams of traces and of
// plain recordings as [recorder.Recover] does. It leaves the files of living processes alone.
//
// Recover calls each with the result or the error of each file. A ring has both if a part of it could not
// be recovered. A file with an error stays. The error of a ring is
// [recorder.ErrJournalGone] if it was in memory that is gone, and [recorder.ErrJournalElsewhere] if it is
// out of reach. Recover returns the error of the folder.
func Recover(ctx context.Context, dir string, each func(*Result, error)) error {
	return traces.Recover(ctx, dir, func(r *traces.Result, err error) { each((*Result)(r), err) })
}
