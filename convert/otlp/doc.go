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
//   - OTLP JSON: one message per line, {"resourceSpans":[…]} or {"resourceLogs":[…]}. Ids are hex digits, integers
//     of 64 bits are decimal strings, bytes are base64, enums are numbers. Decode also accepts a message on several
//     lines, several messages on a line, enums as names, integers as numbers, booleans as texts, ids as base64, and
//     keys in snake_case or from before version 1.0. It skips unknown keys. The messages may be in an array, or in
//     answers of the APIs of Tempo ("trace", "batches"), Jaeger ("result") and Aspire ("data"). A line may also be a
//     ResourceSpans or ResourceLogs without a message around it, as logging exporters for Java write it.
//   - protobuf, as the Collector's file exporter writes it: messages of type TracesData or LogsData, each after its
//     size in four bytes, big endian. Decode also reads a single message without a size.
//
// Decode detects the encoding, and reads intact messages even if others are damaged. A file may have messages of
// spans and messages of log records. In protobuf, the fields of a message show which of the two signals it has.
// Metrics and profiles are skipped. If no message of an input has a field of OTLP, the error is [ErrNotOTLP].
//
// # Mapping
//
//	ResourceSpans, ResourceLogs  an entry "resource" below the root for each resource
//	                             with different attributes, schema URL or dropped count
//	Span                         a span below its parent, or below its resource if
//	                             the parent is not in the input or has another
//	                             resource; a view has it below its parent in the
//	                             latter case
//	Span.Link, Span.Event        entries below the span, links first
//	LogRecord                    a log record below its span, or below its resource
//	                             if its span is not in the input or has another one
//
// Packages exporter and slogadapter document the attributes of these entries. Log records from OTLP can also have the
// attributes below. An attribute is written only if its value differs from the value that an absent attribute stands
// for:
//
//	severity_number          U64; absent: log.level + 9, between 1 and 24, as in
//	                         OpenTelemetry's bridge for slog; without log.level
//	                         1, 5, 9, 13 or 17 for the entry's level
//	severity_text            absent: log.level, else the name of the entry's level
//	observed_time_unix_nano  U64, 0 for none; absent: the record's time
//	trace_flags              U64; absent: 1, sampled, if the record has a span, else 0
//	otel.body, otel.event_name
//
// A span without an end time has no duration. A span whose start is 0 has no time. A log record without a
// severity_number has the level that severity_text names, or else INFO.
//
// Encode reads spans with their links and events, and log records, from a view. A log record of log/slog has its
// source position not in its attributes, so it gets code.file.path and code.line.number.
//
// # What is lost
//
// Decoding loses: the order of spans; the order of attributes in version 2 (resources that differ only in this order
// become one); entity references, and fields that the versions above do not have; bytes that are not UTF-8 in names,
// keys and other texts, which become U+FFFD (the value of an attribute becomes bytes instead, also within lists and
// maps); numbers of enums without a meaning; the bits of a NaN within a list or a map; a start time of exactly 2^63
// ns, which becomes 2^63+1. If the result is encoded again, resources and scopes without spans and log records are
// also lost. If a key occurs twice, both values remain. Each span and log record of the output has a copy of its
// scope. If these copies would make the output far larger than the input, the rest of the input is omitted, and the
// error is [format.ErrTooLarge].
//
// Encoding loses: entries that are not spans, links and events of spans, resources or log records; marks of the
// recorder, for example that it made ids; integers above 63 bits, which become texts; and the name and module path
// of a log record's entry.
package otlp
