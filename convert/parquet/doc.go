// Package parquet writes the entries of a trace as a table in Apache Parquet, for SQL, and converts such a
// table back to a trace.
//
// The format is that of https://parquet.apache.org/docs/file-format/. Files are
// compressed with zstd, in groups of at most 65,536 rows or 32 MiB of text.
//
// # The table
//
// The table has a row for each entry of a view, in the order of the file. The row of a span includes the end of the
// span. Null means absent.
//
//	id               INT64   the entry's id in the file; ends of spans have no rows
//	parent           INT64   the id of the parent in the view
//	stored_parent    INT64   the id of the parent in the file, if it is another one
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
//	attribute_order  STRING  a letter for each attribute, see below
//	attribute_rest   BYTE_ARRAY
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
// # The order of attributes
//
// attribute_order has a letter for each attribute. T, S, P, D, K and X mean trace_id, span_id, parent_span_id,
// duration_nano, kind and status. M and N mean time_unix_nano, as U64 and as I64. s, f, b and y mean the next
// attribute in the maps of strings, floats, bools and bytes. i and u mean the next attribute in attributes_int, as
// I64 and as U64. U, v and w mean the next attribute in attributes_big, as U64, U128 and I128. The sign + means the
// next attribute in attribute_rest, which is an encoded entry of version 1. It has the attributes that a map cannot
// represent: those whose name occurred before, and those whose name or text is not UTF-8.
//
// # From a table
//
// [Decode] reads files with these columns, even if another program wrote them, for example DuckDB's COPY. Rows must
// be sorted by id. Only id, parent and name are required. An unknown column is an error, because it would be lost.
// Children of a missing row move below the root. Without attribute_order, attributes are in the order of the
// columns and then of the maps above, and whole numbers are I64. Values may have each encoding and compression that
// github.com/parquet-go/parquet-go reads; booleans may be plain or in runs. A column must have the same compression
// in all row groups.
//
// A file that was truncated has no footer and cannot be read at all. Decode also rejects a footer that claims what
// the file cannot have: values outside of the file, more than 1024 elements of the schema, or more rows than 262,144
// plus 64 for each byte of the file. But the library believes the header of a page. So a stranger's file takes the
// memory that it asks for, and can end the process: decode it in a process of its own, with a limit.
//
// # What is lost
//
// To Parquet: nothing of the view but the end that a conversion to an ET added. The end of a span becomes a part of its span. If a live recording is converted
// to Parquet and back, its entries therefore have other ids, but the same content. In other traces, every entry is
// restored unchanged, with its kinds and the order of its attributes. In names, messages and source positions,
// bytes that are not UTF-8 become U+FFFD.
//
// From Parquet: service, role, and ids that attribute_order does not name, which all follow from other columns; and
// the key-value metadata of the file. If dictionaries give a file far more text than its size allows, the error is
// [format.ErrTooLarge] at that place.
package parquet
