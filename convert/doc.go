// Package convert opens traces of any format as one view, and writes them in any format.
//
// [Open] opens files and folders as one [view.View]. They may have different formats and may be
// compressed by gzip or zstd, or begin with a byte order mark. In the view, spans are below their callers in other files. [Trace.Encode] and
// [Trace.EncodeFile] write the opened trace:
//
//	t, err := convert.Open(ctx, []string{"shop.et", "stock.jsonl.gz", "traces/"}, nil)
//	…
//	defer t.Close()
//	err = t.EncodeFile(ctx, "all.et", convert.ET, nil)
//
// # ENTRACE's own formats
//
// ET, IET and IETPrefix can be converted into each other, in disk version 1 or 2. Within one version every
// entry is copied byte for byte: converting there and back gives the identical file. From version 1 to 2
// the attributes of an entry are sorted by name; attributes with the same name keep their order. From
// version 2 to 1 they stay sorted. Only incomplete entries are lost.
//
// # Other formats
//
// Each format has a package below this one. Its documentation says how each part is converted and which
// parts are lost: chrome, folded (with speedscope), heph, jaeger, measureme, otlp, parquet, perfetto,
// stdouttrace and zipkin. Their Decode functions write to a [format.Writer], their Encode functions read a
// view. A new format needs such a package and a line in formats.go; [Formats] lists all formats.
package convert
