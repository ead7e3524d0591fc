// Package parquet writes the entries of a trace as a table in Apache Parquet, for SQL. DuckDB, ClickHouse, pyarrow
// and polars can read the table; entrace cannot, so keep the trace.
//
// The format is described at https://parquet.apache.org/docs/file-format/. Files are compressed with zstd, in groups
// of at most 65,536 rows or 32 MiB of text.
//
// # The table
//
// The table has a row for each entry of a view, in the order of the file. The row of a span includes the end of the
// span. Null means absent.
//
//	id               INT64   the entry's id in the file; ends of spans have no rows
//	parent           INT64   the id of the parent in the view
//	role             STRING  root, resource, span, event, link, log, recorder or other
//	name             STRING
//	message          STRING
//	target           STRING  the instrumentation scope, or the package
//	level            STRING  TRACE, DEBUG, INFO, WARN or ERROR
//	module_path      STRING
//	file             STRING
//	line             INT64
//	service          STRING  service.name of the entry's resource
//	trace_id         STRING  32 hex digits, also for entries below a span
//	span_id          STRING  16 hex digits, of the span or of the span above the entry
//	parent_span_id   STRING  16 hex digits, of spans
//	time_unix_nano   INT64   the time of the entry; for a span its beginning
//	duration_nano    INT64   null for a span that has not ended
//	kind             STRING  of spans: internal, server, client, producer, consumer, unspecified
//	status           STRING  of spans: UNSET, OK or ERROR
//
//	attributes_string  MAP<STRING, STRING>
//	attributes_int     MAP<STRING, INT64>  I64, and U64 of up to 63 bits
//	attributes_float   MAP<STRING, DOUBLE>
//	attributes_bool    MAP<STRING, BOOLEAN>
//	attributes_bytes   MAP<STRING, BYTE_ARRAY>
//	attributes_big     MAP<STRING, STRING>  U64 of 64 bits, U128 and I128, in decimal digits
//
// Times are plain INT64, because query engines round timestamps to microseconds. Attributes have the names under
// which they are stored. Some attributes have their own columns: trace_id, span_id, parent_span_id, time_unix_nano,
// duration_nano, otel.kind (kind) and otel.status_code (status). They are in a map only if their value does not fit
// the column. So DuckDB can run this query:
//
//	SELECT name, max(duration_nano) FROM 'app.parquet'
//	WHERE role = 'span' AND attributes_int['http.response.status_code'] >= 500
//	GROUP BY name
//
// # What is changed
//
//   - The end of a span is a part of its span. An entry entrace.end that a conversion to an ET added is left out.
//   - No two attributes of a row have the same name, not even in different maps: a second attribute k is called k (2),
//     a third k (3). If an earlier attribute has that name, the next number is used.
//   - A text that is not UTF-8 is in attributes_bytes.
//   - In names of attributes, and in names, messages and source positions, bytes that are not UTF-8 become U+FFFD.
//   - The order of attributes, and the kinds of whole numbers (I64 or U64; in attributes_big U64, U128 or I128), are
//     lost.
package parquet
