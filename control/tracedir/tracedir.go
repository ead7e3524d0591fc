// Package tracedir recovers the files that dead processes left in the trace folder of a flight
// recorder.
package tracedir

import (
	"context"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/recorder"
)

// A Result describes the recovery of one file of a dead process: of a ring, or of the stream of a
// trace or of a recording. Name is that file. Output is the trace that was made of it, or "" if
// none was made.
type Result struct {
	recorder.Report

	Ring bool // the file is a ring; the fields below are set only for a ring

	Time    time.Time // the time of the last record
	PID     int
	Service string
	Reason  string // the first line of the text that the runtime wrote at the crash; "": none
	Damaged int    // parts of the ring that could not be read
}

// Recover makes traces of the files that dead processes left in the folder dir. It makes a trace of
// each ring of a flight recorder, and removes the ring. It finishes the streams of traces and of
// plain recordings as [recorder.Recover] does. It leaves the files of living processes alone.
//
// Recover calls each with the result or the error for each file. For a ring it passes both if a
// part of the ring could not be recovered. A file with an error stays. The error for a ring is
// [recorder.ErrJournalGone] if the ring was in memory that is gone, and
// [recorder.ErrJournalElsewhere] if it cannot be reached from here. Recover itself returns an error
// only if the folder cannot be read.
func Recover(ctx context.Context, dir string, each func(*Result, error)) error {
	return traces.Recover(ctx, dir, func(r *traces.Result, err error) { each((*Result)(r), err) })
}
