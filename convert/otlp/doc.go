// Package otlp converts between traces and files of OTLP, the OpenTelemetry Protocol. The files have lines
// of OTLP JSON, or protobuf messages.
//
// # The formats
//
// The source is opentelemetry-proto 1.x (trace.proto, logs.proto, common.proto,
// resource.proto), its JSON mapping, and OpenTelemetry's "OTLP File Exporter"
// (https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/); the judge is
// package pdata of the OpenTelemetry Collector. [Encode] writes, and [Decode] reads
//
//   - OTLP JSON: a message a line, {"resourceSpans":[…]} or {"resourceLogs":[…]}.
//     Ids are hex digits, integers of 64 bits decimal strings, bytes base64, enums
//     numbers. A message may be more than a line, or lines, when it is read; enums
//     may be names, integers numbers, booleans texts, ids base64, and keys in
//     snake_case or those of before version 1.0; unknown ones are passed over.
//     Messages may be in an array, or in the answers of the APIs of Tempo
//     ("trace", "batches") and Jaeger ("result").
//   - protobuf, as the Collector's file exporter writes it: messages of type
//     TracesData or LogsData, each behind its size in four bytes, big endian. Decode
//     also reads a single message without a size.
//
// Decode detects the encoding. It reads the intact messages even if others are damaged: see Decode.
// Messages of spans and of log records may be in one file; in protobuf their fields show which kind they
// are. Metrics and profiles are not read: in JSON they are skipped. An input of which no message has a field of
// OTLP is [ErrNotOTLP].
//
// # What becomes what
//
//	ResourceSpans, ResourceLogs  an entry "resource" below the root for each that
//	                             differs by attributes, schema URL or dropped count
//	Span                         a span below its parent, or below its resource
//	                             where that is not in the input or of another
//	                             resource: the logical view puts the latter
//	                             below its parent as well
//	Span.Link, Span.Event        entries below the span, links first
//	LogRecord                    a log record below its span, or below its resource,
//	                             likewise
//
// The attributes of these entries are those of packages exporter and slogadapter. Log records from OTLP
// have these attributes too, if their value differs from the value that their absence implies:
//
//	severity_number          U64; absent: log.level + 9, between 1 and 24, as in
//	                         OpenTelemetry's bridge for slog; without log.level
//	                         1, 5, 9, 13 or 17 for the entry's level
//	severity_text            absent: log.level, else the name of the entry's level
//	observed_time_unix_nano  U64, 0 for none; absent: the record's time
//	trace_flags              U64; absent: 1, sampled, if the record has a span, else 0
//	otel.body, otel.event_name
//
// A span that has no end time has no duration, and one whose start is 0 has no time. The level of a log record
// without a severity_number is the one that its severity_text names, else INFO.
//
// Encoding reads spans, with their links and events, and log records from the logical view. A log record
// of log/slog, which has its source position outside its attributes, gets code.file.path and
// code.line.number.
//
// # What is lost
//
// Of OTLP that is decoded: the order of spans, and of attributes in version 2 (resources that
// differ only in that order become one); resources and scopes
// that have no span and no log record, when they are encoded again; entity references
// and fields that are not in the versions above; the bytes of names, keys and other
// texts that are not UTF-8, which become U+FFFD, while values of attributes and texts
// within such become bytes; numbers of enums that stand for nothing; the bits of a NaN within a
// list or a map; a start time of exactly 2^63 ns, which becomes 2^63+1. Of keys that
// come twice both are kept. An input whose scopes, which each of their spans and log
// records has as a whole, would make a far larger output is [format.ErrTooLarge]
// from there on.
//
// Of traces that are encoded: entries that are neither spans, links and events of
// spans, resources nor log records; marks of the recorder, such as that ids were
// made; integers above 63 bits, which become text; the name of a log record's entry
// and its module path.
package otlp
