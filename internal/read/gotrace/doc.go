// Package gotrace reads the execution traces of Go's runtime. For each goroutine it finds what the goroutine
// did at each time, what it waited for, which goroutine ended the wait, and for which span it worked.
//
// Spans are recognized by marks that this module's span processor writes to a trace. A log message of category
// otel.span has the id of a span; it comes just before the task that OpenTelemetry's SDK begins for the span. A
// log message otel.end comes at the end of a span that was open for long. In traces without marks, tasks count
// as spans without ids.
//
// [Read] reads a trace and adds up the times of each span. It reads the trace twice if spans are handed over
// from one goroutine to another. [Trace.Window] reads a part of the trace again, and finds what goroutines did
// at each moment.
//
// The events are from golang.org/x/exp/trace, which only this package imports. Its reader may panic on damaged
// traces. Data before the damage is kept, see [Trace.Damage].
package gotrace
