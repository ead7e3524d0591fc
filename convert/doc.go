// Package convert opens traces of any format as one view, and writes them in any format.
//
// [Open] opens files and folders, whatever their formats and whether they are compressed or not, as one
// [view.View], in which spans are below their callers in other files. [Trace.Encode] and
// [Trace.EncodeFile] write what was opened:
//
//	t, err := convert.Open(ctx, []string{"shop.et", "stock.jsonl.gz", "traces/"}, nil)
//	…
//	defer t.Close()
//	err = t.EncodeFile(ctx, "all.et", convert.ET, nil)
//
// # ENTRACE's own formats
//
// ET, IET and IETPrefix become each other, in disk version 1 or 2. Within one version every entry is
// copied byte for byte: there and back again gives the identical file. From version 1 to 2 the
// attributes of an entry are sorted by name, those of one name in the order they had; from 2 to 1
// they stay sorted. Nothing is lost but what was no whole entry.
//
// # Other formats
//
// Each has a package below this one, whose documentation says what becomes what and what is lost:
// chrome, folded (with speedscope), heph, jaeger, measureme, otlp, parquet, perfetto, stdouttrace and
// zipkin. Their Decode functions write to a [format.Writer], their Encode functions read a view. A new
// format is such a package and a line in formats.go; [Formats] lists them.
package convert
