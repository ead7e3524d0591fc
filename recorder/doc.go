// Package recorder records a trace from many goroutines so that nothing is lost when the
// process is killed, and finishes what killed processes have left.
//
// # Writing
//
// [Create] opens a [Recorder]. It streams an IET file while the program runs
// and makes the ET file when it is closed:
//
//	rec, err := recorder.Create("app.et", nil) // streams app.iet
//	…
//	err = rec.Close(ctx) // leaves app.et
//
// What a call brings survives the death of the process once the call has returned,
// and is in the file a tenth of a second later; [Durability] has other choices. A
// recording can go over several files, see [Options]. OpenTelemetry
// spans reach a recorder through package exporter, log/slog records through
// package slogadapter; [Recorder.Append] takes entries of one's own, and a [Batch]
// is what adapters of one's own use.
//
// # After a kill
//
// The next Create on the path finishes what a killed process has left, in the background.
// [Recover] and [RecoverFolder] do so now. Until then [Open] and [Inspect] show what is
// there, those records included that are only in the journal, and change nothing.
package recorder
