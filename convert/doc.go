// Package convert opens traces of any format as one view, and turns trace files into other
// trace files: ET, IET and IETPrefix into each other, in disk version 1 or 2.
//
// A conversion within one version copies every entry byte for byte: there and
// back again gives the identical file. From version 1 to 2 the attributes of an
// entry are sorted by name, those of one name in the order they had; from 2 to 1
// they stay sorted.
//
// Nothing is lost between these formats but what was no whole entry.
//
// # Other formats
//
// Each has a package below this one, whose documentation says what becomes what
// and what is lost: chrome, folded (with speedscope), heph, measureme, otlp, parquet
// and perfetto. Their Decode functions write to a [format.Writer], their Encode
// functions read a [view.View]; FileFrom and FileTo do what is to be done about
// files:
//
//	err := convert.FileFrom(ctx, "in.jsonl", "out.et", func(ctx context.Context, r io.Reader, w *format.Writer) error {
//		return otlp.Decode(ctx, r, w, nil)
//	}, convert.Options{})
//
// # Any files as one view
//
// [Open] opens files and folders, also of other formats and compressed ones, as one
// [view.View], in which spans hang below their callers in other files. [Merge] makes one file
// of that:
//
//	t, err := convert.Open(ctx, []string{"shop.et", "stock.jsonl.gz", "traces/"}, nil)
//	…
//	defer t.Close()
//	err = t.MergeFile(ctx, "all.et", convert.Options{})
package convert
