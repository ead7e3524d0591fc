// Package slogadapter records log/slog records with an ENTRACE recorder.
//
//	rec, err := recorder.Create("app.et", nil)
//	console := slog.NewTextHandler(os.Stderr, nil)
//	slog.SetDefault(slog.New(slog.NewMultiHandler(slogadapter.New(rec, nil), console)))
//
// The recorder's handler is first, so that no record is lost if the console blocks or panics. The
// LogHandler of entrace.Setup has the same order. Without the console handler, the program would
// print nothing.
//
// A record that is logged with the context of an OpenTelemetry span becomes a child of
// that span. When the log call has returned, the record survives the death of the
// process; see [recorder.Durability].
//
// # What becomes of a record
//
//	message           Record.Message, even if it is empty
//	name              event BASENAME:LINE; event if there is no PC
//	target            the import path of the calling package
//	file, line        from Record.PC
//	level             Trace below Debug, then Debug, Info, Warn, Error
//	log.level         Level.String(), if the level is not one of slog's four
//	time_unix_nano    Record.Time; absent when zero
//	entrace.time      String, RFC 3339: Record.Time, if its year is before 1678 or after 2553.
//	                  time_unix_nano then has the nearest time that it can represent
//	trace_id, span_id if the parent entry is not the span of the record
//	trace_flags       U64, the flags of the span; absent: no span, or 1, which is sampled
//
// Attributes keep their order. slogadapter joins names of groups and keys with dots, and omits
// empty groups. If slogadapter, package exporter or the recorder uses a NAME itself, or if NAME
// begins with "otel." or "entrace.", the attribute is stored as otel.attr.NAME. If a key occurs
// twice, slogadapter stores both attributes, the second under the name key#2.
//
//	slog                            kind
//	String                          String; Bytes if it is not UTF-8
//	Int64                           I64
//	Duration                        I64 in nanoseconds; entrace.duration lists its name,
//	                                so that readers show 24ms
//	Uint64                          U64
//	Float64                         Float
//	Bool                            Bool
//	Time                            String, RFC 3339 with nanoseconds
//	[]byte                          Bytes
//	error                           String, Error()
//	json.Marshaler                  as the text, number or boolean in its JSON; else String, the JSON
//	TextMarshaler                   String, the text
//	named basic types               as their underlying types
//	json.Number                     as its number
//	others                          String, the JSON; or the error of package json
//	nil                             String null
//
// The attribute otel.json lists the attributes whose values are JSON text. If a method of a value
// panics, the value becomes "!PANIC: …" and the program continues. Groups and LogValuers are
// recorded to a depth of 32. A record has at most 1,000 attributes and 1 MiB of text. Truncated
// text ends in "…". If something in a record was truncated, the entry has the attribute !TRUNCATED.
//
// The handler never calls slog, log or otel.Handle, because these may call the handler again.
// Handle returns errors; slog ignores them, but the recorder counts them.
//
// The handler encodes the data that all records of a call site share only once, so that a record
// costs little more than its values. Three things make a record slower: groups and LogValuers,
// values of kind Any that are not errors, and ReplaceAttr. The handler may call the Error method of
// a value twice.
package slogadapter
