// Package convert opens traces of any format as one view, and writes them in any format.
//
// [Open] opens files and folders as one [view.View]. The files may have different formats, may be compressed with
// gzip or zstd or be in a ZIP, and may begin with a byte order mark. In the view, a span is below its caller even if
// the caller is in another file. [Trace.Encode] and [Trace.EncodeFile] write the opened trace:
//
//	t, err := convert.Open(ctx, []string{"shop.et", "stock.jsonl.gz", "traces/"}, nil)
//	…
//	defer t.Close()
//	err = t.EncodeFile(ctx, "all.et", convert.ET, nil)
//
// # ENTRACE's own formats
//
// ET, IET and IETPrefix can be converted into each other, in disk version 1 or 2. If the version does not change,
// every entry is copied byte for byte, so a round trip gives an identical file. A conversion from version 1 to 2
// sorts the attributes of an entry by name; attributes with the same name keep their order. A conversion from version
// 2 to 1 does not change their order. Only incomplete entries are lost.
//
// # Other formats
//
// Each format has a subpackage: chrome, folded, gotrace, heph, jaeger, loglines, measureme, otlp, parquet,
// stdouttrace and zipkin. The documentation of a subpackage says how it converts each part, and which parts are lost.
// Decode functions write to a [format.Writer]; Encode functions read a view. A new format needs such a package and a
// line in formats.go. [Formats] lists all formats.
package convert
