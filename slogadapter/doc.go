// Package slogadapter records log/slog records with an ENTRACE recorder.
//
//	rec, err := recorder.Create("app.et", nil)
//	console := slog.NewTextHandler(os.Stderr, nil)
//	slog.SetDefault(slog.New(slog.NewMultiHandler(slogadapter.New(rec, nil), console)))
//
// The recorder is first in the list, so that no record is lost if the console blocks or panics.
// entrace.Setup's LogHandler does the same. Without the console handler nothing would be printed.
//
// A record that is logged with the context of an OpenTelemetry span becomes a child of
// that span. When the log call has returned, the record survives the death of the
// process; see [recorder.Durability].
//
// # What becomes of a record
//
//	message           Record.Message, always there
//	name              event BASENAME:LINE; event without a PC
//	target            the import path of the calling package
//	file, line        from Record.PC
//	level             Trace below Debug, then Debug, Info, Warn, Error
//	log.level         Level.String() where the level is none of slog's four
//	time_unix_nano    Record.Time; absent when zero
//	entrace.time      String, RFC 3339: Record.Time before 1678 or behind 2553, where
//	                  time_unix_nano is the nearest time that a number can hold
//	trace_id, span_id where the record is not below its span's entry
//	trace_flags       U64, the flags of its span; absent: 1, sampled, if it has one
//
// Attributes keep their order. Names of groups and keys are joined with dots; empty groups are
// left out. A NAME that slogadapter, package exporter or the recorder uses itself, or that begins
// with "otel." or "entrace.", is stored as otel.attr.NAME. If a key occurs twice, both
// attributes are kept, the second with the name key#2.
//
//	slog                            kind
//	String                          String; Bytes if it is not UTF-8
//	Int64                           I64
//	Duration                        I64 in nanoseconds, named in entrace.duration, so
//	                                that readers show 24ms
//	Uint64                          U64
//	Float64                         Float
//	Bool                            Bool
//	Time                            String, RFC 3339 with nanoseconds
//	[]byte                          Bytes
//	error                           String, Error()
//	json.Marshaler, TextMarshaler   String, the JSON, the text
//	named basic types               as their kind
//	others                          String of JSON; what JSON refuses, its error
//	nil                             String null
//
// The attribute otel.json lists the attributes whose values are JSON texts. If a method
// of a value panics, the value becomes "!PANIC: …" and the program continues. Groups and
// LogValuers nest at most 32 deep; a record has at most 1,000 attributes and 1 MiB. Text
// that is cut ends in "…", and the entry gets an attribute !TRUNCATED.
//
// The handler never calls slog, log or otel.Handle, because the output of these may go to the
// handler itself. Handle returns errors. slog ignores them, but the recorder counts them.
//
// The data that all records of a call site share is encoded once, so that a record costs
// little more than its values. Records take longer if they have groups, LogValuers, or values
// of kind Any other than errors, or if ReplaceAttr is set. The Error method of a value may be
// called twice.
package slogadapter
