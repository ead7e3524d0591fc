// Package placer turns the records of a journal into the entries of a trace: it gives
// each entry its id and finds its parent.
//
// A span goes below its parent, or below its resource if it has no parent in the trace or
// one of another resource, and says then which trace and parent it belongs to. A span that comes before its local
// parent is pending until that comes, or until a bound is reached. A log record goes
// below its span, or else below its resource and names its span. The entry of a resource
// comes before the first one that needs it. The end of a span is an entry below it: a
// reader folds the two.
//
// A recording can go over several files. An open span is written again in the next file: at
// its beginning, or when the first record comes that refers to it.
//
// A recorder that runs, a snapshot of a ring and a recovery after a crash all use it in
// the same way. It is synchronous and starts no goroutine.
package placer
