// Package otlp converts between traces and files of OTLP, the OpenTelemetry Protocol. The files have lines
// of OTLP JSON, or protobuf messages.
//
// # The formats
//
// The sources are opentelemetry-proto 1.x (trace.proto, logs.proto, common.proto, resource.proto), its JSON
// mapping, and OpenTelemetry's "OTLP File Exporter"
// (https://opentelemetry.io/docs/specs/otel/protocol/file-exporter/). The reference implementation is package
// pdata of the OpenTelemetry Collector. [Encode] writes, and [Decode] reads:
//
//   - OTLP JSON: one message per line, {"resourceSpans":[…]} or {"resourceLogs":[…]}.
//     Ids are hex digits, integers of 64 bits are decimal strings, bytes are base64, enums are
//     numbers. Decode also accepts a message on several lines, and several messages on a line; enums
//     as names, integers as numbers, booleans as texts, ids as base64, and keys in
//     snake_case or from before version 1.0. It skips unknown keys.
//     Messages may be in an array, or in the answers of the APIs of Tempo
//     ("trace", "batches") and Jaeger ("result").
//   - protobuf, as the Collector's file exporter writes it: messages of type
//     TracesData or LogsData, each after its size in four bytes, big endian. Decode
//     also reads a single message without a size.
//
// Decode detects the encoding. It reads the intact messages even if others are damaged: see Decode. Messages of
// spans and of log records may be in one file; in protobuf the fields of a message show its kind. Metrics and
// profiles are not read: in JSON they are skipped. If no message of an input has a field of OTLP, the error is
// [ErrNotOTLP].
//
// # Mapping
//
//	ResourceSpans, ResourceLogs  an entry "resource" below the root for each that
//	                             differs by attributes, schema URL or dropped count
//	Span                         a span below its parent, or below its resource if
//	                             the parent is not in the input or has another
//	                             resource; in the latter case, the logical view
//	                             has the span below its parent
//	Span.Link, Span.Event        entries below the span, links first
//	LogRecord                    a log record below its span, or below its resource
//	                             in the same cases
//
// The attributes of these entries are documented in packages exporter and slogadapter. Log records from OTLP
// have the following attributes as well. Each is written only if its value differs from the value that its
// absence implies:
//
//	severity_number          U64; absent: log.level + 9, between 1 and 24, as in
//	                         OpenTelemetry's bridge for slog; without log.level
//	                         1, 5, 9, 13 or 17 for the entry's level
//	severity_text            absent: log.level, else the name of the entry's level
//	observed_time_unix_nano  U64, 0 for none; absent: the record's time
//	trace_flags              U64; absent: 1, sampled, if the record has a span, else 0
//	otel.body, otel.event_name
//
// A span without an end time has no duration, and a span whose start is 0 has no time. The level of a log
// record without a severity_number is the level that severity_text names, or else INFO.
//
// Encode reads spans, with their links and events, and log records from the logical view. A log record of
// log/slog, whose source position is not in its attributes, gets code.file.path and code.line.number.
//
// # What is lost
//
// Decoding loses: the order of spans, and of attributes in version 2 (resources that differ only in this order
// become one); entity references and fields that are not in the versions above; the bytes of names, keys and
// other texts that are not UTF-8, which become U+FFFD (values of attributes and texts within such values become
// bytes instead); numbers of enums without a meaning; the bits of a NaN within a list or a map; a start time of
// exactly 2^63 ns, which becomes 2^63+1. Encoding the result again also loses resources and scopes without
// spans and log records. If a key occurs twice, both values are kept. Each span and log record of the output
// has its scope as a whole. If the scopes would make the output far larger than the input, the rest of the
// input is cut with the error [format.ErrTooLarge].
//
// Encoding loses: entries that are neither spans, links and events of spans, resources nor log records; marks
// of the recorder, such as that ids were made; integers above 63 bits, which become text; and the name and
// module path of a log record's entry.
package otlp
