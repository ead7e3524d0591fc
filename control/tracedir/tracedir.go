// Package tracedir recovers the files that dead processes left in the trace folder of a flight
// recorder.
package tracedir

import (
	"context"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/recorder"
)

// A Result describes the recovery of one file that a dead process left: a ring, or the stream of a trace or
// recording. Name is the name of this file. Output is the trace that was made from the file, or "" if no trace was
// made.
type Result struct {
	recorder.Report

	Ring bool // the file is a ring; the fields below are set only for a ring

	Time    time.Time // the time of the last record
	PID     int
	Service string
	Reason  string // the first line of the crash text of the runtime; "" if there is none
	Damaged int    // number of parts of the ring that could not be read
}

// Recover converts the files that dead processes left in the folder dir to traces. It converts each ring of
// a flight recorder to a trace, and removes the ring. It finishes the streams of traces and of plain
// recordings as [recorder.Recover] does. It does not touch the files of living processes.
//
// Recover calls the function each for every file, with a result or an error. Both are set if a ring could be
// recovered only in part. If there is an error, the file is not removed. The error is [recorder.ErrJournalGone] if a
// ring was in memory that is lost, and [recorder.ErrJournalElsewhere] if a ring cannot be reached from this process.
// Recover itself returns an error only if the folder cannot be read.
func Recover(ctx context.Context, dir string, each func(*Result, error)) error {
	return traces.Recover(ctx, dir, func(r *traces.Result, err error) { each((*Result)(r), err) })
}
