// Package placer turns the records of a journal into the entries of a trace: it gives
// each entry its id and finds its parent.
//
// A span is written below its parent. If its parent is not in the trace or has another resource,
// the span is written below its own resource, and its attributes name the trace and the parent. If
// a span arrives before its local parent, it is pending until the parent arrives or a bound is
// reached. A log record is written below its span; if the span is not in the trace, it is written
// below its resource, and its attributes name the span. The entry of a resource is written before
// the first entry that needs it. The end of a span is an entry below the span; a reader merges the
// two.
//
// A recording can consist of several files. An open span is written again in the next file, either
// at the beginning of that file or before the first record that refers to the span.
//
// Recorders, snapshots of a ring and recovery after a crash use this package in the same way. It
// is synchronous and starts no goroutine.
package placer
