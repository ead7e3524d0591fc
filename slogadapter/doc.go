// Package slogadapter records log/slog records with an ENTRACE recorder.
//
//	rec, err := recorder.Create("app.et", nil)
//	console := slog.NewTextHandler(os.Stderr, nil)
//	slog.SetDefault(slog.New(slog.NewMultiHandler(console, slogadapter.New(rec, nil))))
//
// entrace.Setup's LogHandler does that. As slog's only handler it would leave the console
// silent.
//
// A record that is logged with the context of an OpenTelemetry span hangs below
// that span. A record survives the death of the process once the call has returned
// that logged it; see [recorder.Durability].
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
//	trace_id, span_id where the record is not below its span's entry
//	trace_flags       U64, the flags of its span; absent: 1, sampled, if it has one
//
// Attributes keep their order; groups are joined with dots, empty ones vanish. A
// name that slogadapter, package exporter or the recorder uses itself, or that
// begins with "otel." or "entrace.", is stored as otel.attr.NAME. A key that comes
// twice is kept twice, the second as key#2.
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
// JSON texts are named in the attribute otel.json. A method that panics leaves
// "!PANIC: …", and the program goes on. Groups and LogValuers nest 32 deep at
// most; a record has 1,000 attributes and 1 MiB at most. What is cut ends in "…",
// and the entry has an attribute !TRUNCATED.
//
// The handler never calls slog, log or otel.Handle, since it may be their output.
// What goes wrong is returned by Handle, which slog ignores, and counted by the
// recorder.
//
// What the records of a call site have in common is encoded once, so that a record
// costs little more than its values. That holds for plain ones: groups, ReplaceAttr,
// LogValuers and values of Any other than errors take longer. Calls of Error may
// come twice.
package slogadapter
