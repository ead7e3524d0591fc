// Package gotrace reads the execution traces of Go's runtime: what each goroutine did when, what it waited
// for, who ended the wait, and for which span it worked.
//
// Spans are known by the marks that this module's span processor puts into a trace: a log message of the
// category otel.span with the id of a span, right before the task that OpenTelemetry's SDK begins for it, and
// otel.end at the end of a span that was open for long. Without marks the tasks are taken for spans without
// ids.
//
// [Read] goes over a trace and adds up the times of each span, twice if spans are handed from one goroutine to another. [Trace.Window] goes over a part of it
// again, and says for each moment what goroutines did.
//
// The events come from golang.org/x/exp/trace, which only this package imports. That reader may panic on
// damaged traces: what is read before the damage is kept, see [Trace.Damage].
package gotrace
