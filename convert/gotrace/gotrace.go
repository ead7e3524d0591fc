// Package gotrace reads the execution traces of Go's runtime, which runtime/trace writes and 'go tool trace' reads.
// It can also extract the execution trace that a flight recorder has stored in a trace.
//
// The spans belong to three services, called program, goroutines and runtime:
//
//	task       a span of program, below the task around it, even if that has ended
//	region     a span below the region or task around it
//	log        a log record below the region or task, with attribute category
//	goroutine  a span of goroutines, named as its function
//	wait       a span below its goroutine, with wait.reason, wait.stack, and wait.by, the goroutine that ended it
//	sample     a log record below the region, task or goroutine, with stack and cpu_nano, if a CPU profile was on
//	range      a span of runtime: collections, and times in which the world stood
//
// Goroutines and waits become spans only if they last for at least a millisecond. Shorter goroutines are counted by
// function. Waits of the runtime's own goroutines are omitted. If a span began before the trace or ended after it,
// the attribute cut is begin, end or both. Tasks and regions that did not end are open spans. This module marks the
// beginning of some tasks with the id of a span; such a task gets this id. The package reads traces of Go 1.24 to
// 1.27. Traces of Go 1.24 lack the time of day, so they begin in 1970.
//
// Package convert also passes the execution trace to the view, which measures the work of goroutines for each task
// as it does for spans.
//
// A flight recorder with the provider exec.trace writes an entry named exec.trace, with the execution trace in the
// attribute named data. [Encode] writes this execution trace. The rest of the trace is lost, except the ids of spans
// in marks.
package gotrace

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/entrace-go/entrace/view"
)

// ErrNone is returned if a trace contains no execution trace.
var ErrNone = errors.New("gotrace: no execution trace to write: a flight recorder records one with OTEL_EXPORTER_ENTRACE_CONTROL_EXEC_TRACE=1")

// Encode writes the only execution trace in v. If v has no execution trace, it returns ErrNone. If v has several
// execution traces, it returns another error.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	all, err := v.ExecTraces(ctx)
	switch {
	case err != nil:
		return err
	case len(all) == 0:
		return ErrNone
	case len(all) > 1:
		_, first := v.ID(all[len(all)-1].Row)
		return fmt.Errorf("gotrace: expected one execution trace, found %d: select one, as with -q '{ entry:id = %d }'", len(all), first)
	}
	_, err = io.Copy(w, io.NewSectionReader(all[0].Data, 0, all[0].Size))
	return err
}
