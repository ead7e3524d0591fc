// Package parquet writes the entries of a trace as a table in Apache Parquet, for SQL, and converts such a
// table back to a trace.
//
// The format is that of https://parquet.apache.org/docs/file-format/. Files are
// compressed with zstd, in groups of at most 65,536 rows or 32 MiB of text.
//
// # The table
//
// The table has a row for each entry of the logical view, in the order of the file. The end of a span is part
// of the row of its span. Null means absent.
//
//	id               INT64   the entry's id in the file; those of span ends are left out
//	parent           INT64   the parent's in the view
//	stored_parent    INT64   the parent's in the file, where that is another one
//	role             STRING  root, resource, span, event, link, log, recorder or other
//	name             STRING
//	message          STRING
//	target           STRING  the instrumentation scope, or the package
//	level            STRING  TRACE, DEBUG, INFO, WARN or ERROR
//	module_path      STRING
//	file             STRING
//	line             INT64
//	service          STRING  service.name of the resource that the entry is below
//	trace_id         STRING  32 hex digits, of what is below a span too
//	span_id          STRING  16 hex digits, of the span that the entry is or is below
//	parent_span_id   STRING  16 hex digits, of spans
//	time_unix_nano   INT64   when the entry was, of a span when it began
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
// Times are plain INT64, because the engines round timestamps to microseconds. Ids are hex digits, as
// everywhere. Attributes have the names under which they are stored. Attributes with their own column
// (trace_id, span_id, parent_span_id, time_unix_nano, duration_nano, otel.kind as kind and
// otel.status_code as status) are in no map, unless their value does not fit the column. So DuckDB can run
// this query:
//
//	SELECT name, max(duration_nano) FROM 'app.parquet'
//	WHERE role = 'span' AND attributes_int['http.response.status_code'] >= 500
//	GROUP BY name
//
// # The order of attributes
//
// In attribute_order the letters T, S, P, D, K and X stand for trace_id, span_id,
// parent_span_id, duration_nano, kind and status. M and N stand for time_unix_nano as U64
// and as I64. The letters s, f, b and y stand for the next attribute in the maps of strings, floats,
// bools and bytes; i and u for the next attribute in attributes_int, as I64 and U64; U, v
// and w for the next attribute in attributes_big, as U64, U128 and I128. The sign + stands for the next
// attribute of attribute_rest. The column attribute_rest holds an encoded entry of version 1. This entry has the
// attributes that a map cannot hold: attributes whose name occurred before, and names and
// strings that are not UTF-8.
//
// # From a table
//
// [Decode] reads files with these columns, whichever program wrote them, for example DuckDB's COPY. Rows
// must be in the order of ids. Only id, parent and name are required. Any other column is an error,
// because it would be lost. Children of a missing row are moved below the root. Without attribute_order,
// attributes have the order of the columns and then of the maps above, and whole numbers are I64. Values may
// be plain, in dictionaries or in runs; bytes and whole numbers may also be in the delta encodings. Compression
// may be none, snappy or zstd.
//
// A file that was cut off has no footer and cannot be read at all. Three things are treated as an attack:
// pages and footers of more than 128 MiB; pages of all columns that together take more than 144 MiB in
// memory; and more rows than 262,144 plus 64 for each byte of the file.
//
// # What is lost
//
// To Parquet: nothing of the view. Span ends are folded into their spans. A live recording that is
// converted back therefore has other ids, but the same content. In other traces, every entry is restored
// unchanged, with its kinds and the order of its attributes. Bytes of names, messages and places that are not
// UTF-8 become U+FFFD.
//
// From Parquet: service, role, ids that attribute_order does not name, and the key-value metadata of the file.
// Service, role and these ids follow from other columns. If dictionaries give a file far more text than its size
// allows, the error is [format.ErrTooLarge] at that place.
package parquet
