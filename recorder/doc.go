// Package recorder records a trace from many goroutines, in such a way that nothing is lost if the process is
// killed. It also finishes the files of killed processes.
//
// # Writing
//
// [Create] opens a [Recorder]. The recorder writes an IET file while the program runs, and the finished ET
// file when it is closed:
//
//	rec, err := recorder.Create("app.et", nil) // writes app.iet
//	…
//	err = rec.Close(ctx) // leaves app.et
//
// When a recording call has returned, its record survives the death of the process. A tenth of a second
// later, the record is in the file. See [Durability] for other choices. A recording can consist of several
// files, see [Options]. OpenTelemetry spans reach a recorder through package exporter, log/slog records
// through package slogadapter. A program can write its own entries with [Recorder.Append]. Adapters for other
// libraries use a [Batch].
//
// # After a kill
//
// The next Create on the path finishes the files of a killed process in the background. [Recover] and
// [RecoverFolder] finish them immediately. [Open] and [Inspect] read an unfinished trace, including the
// records that are only in the journal, and change nothing.
package recorder
