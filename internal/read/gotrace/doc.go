// Package gotrace reads the execution traces of Go's runtime. It finds out what each goroutine did at each time, what
// it waited for, which goroutine ended the wait, and for which span it worked.
//
// This module's span processor writes marks into an execution trace, which identify spans. A log message of
// category otel.span contains the id of a span. It comes just before the task that OpenTelemetry's SDK begins for
// the span. A log message of category otel.end comes at the end of a span that was open for long. In execution
// traces without marks, tasks count as spans without ids.
//
// [Read] reads an execution trace, and adds up the times of each span. If spans are handed over from one goroutine to
// another, Read reads the execution trace twice. [Trace.Window] reads a part of the execution trace again, and finds
// out what goroutines did at each moment.
//
// The events come from golang.org/x/exp/trace, which no other package imports. The reader of that package may panic
// on damaged data. Results from before the damage are kept: see [Trace.Damage].
package gotrace
