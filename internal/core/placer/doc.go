// Package placer turns the records of a journal into the entries of a trace. It gives each entry an id, finds its
// parent and encodes it. The entry is then staged: the caller writes it to the file.
//
// A span is written below its parent. If its parent is not in the trace or has another resource, the span is
// written below its own resource, and its attributes name the trace and the parent. If a span arrives before its
// local parent, it is pending until the parent arrives or a bound is reached. A log record is written below its
// span. If the span is not in the trace, the log record is written below its resource, and its attributes name the
// span. A resource is written before the first entry that needs it. The end of a span is an entry below the span; a
// reader merges the two.
//
// A recording can consist of several files. A span that is still open when a file begins is written again in this
// file, either at its beginning or before the first record that refers to the span.
//
// Recorders, snapshots of a ring and recovery after a crash use this package in the same way. The package starts no
// goroutine.
package placer
