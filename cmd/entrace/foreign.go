package main

import (
	"bytes"
	"context"
	"io"

	"github.com/entrace-go/entrace/convert/chrome"
	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/convert/measureme"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/convert/perfetto"
	"github.com/entrace-go/entrace/format"
)

// foreignFormats are the formats of others, in the order in which --list has them.
var foreignFormats = []foreignFormat{
	{
		name: "heph", extensions: []string{".htf"}, what: "Heph's trace format",
		decode: func(ctx context.Context, r io.Reader, w *format.Writer) error { return heph.Decode(ctx, r, w, nil) },
		encode: func(ctx context.Context, w io.Writer, v *format.View) error { return heph.Encode(ctx, w, v, nil) },
		lostIn: "damaged and oversized packets", lostOut: "the order of attributes, ends of spans as entries of their own",
		is: func(head []byte) bool {
			return bytes.HasPrefix(head, []byte("\x75\xd1\x1d\x4d")) || bytes.HasPrefix(head, []byte("\xc1\xfc\x1f\xb7"))
		},
	},
	{
		name: "measureme", extensions: []string{".mm_profdata"}, what: "rustc's self profile, versions 8 and 9",
		decode: func(ctx context.Context, r io.Reader, w *format.Writer) error {
			return measureme.Decode(ctx, r, w, nil)
		},
		encode: func(ctx context.Context, w io.Writer, v *format.View) error { return measureme.Encode(ctx, w, v, nil) },
		lostIn: "which strings were shared, those over 4 MiB", lostOut: "types, as all but times and names becomes arguments; parents across threads",
		is: func(head []byte) bool { return bytes.HasPrefix(head, []byte("MMPD")) },
	},
	{
		name: "otlp", json: true, extensions: []string{".jsonl"}, what: "OTLP, as JSON lines of spans and log records; protobuf is read, too",
		decode: func(ctx context.Context, r io.Reader, w *format.Writer) error { return otlp.Decode(ctx, r, w, nil) },
		encode: func(ctx context.Context, w io.Writer, v *format.View) error { return otlp.Encode(ctx, w, v, nil) },
		lostIn: "the order of spans, resources without any, unknown fields", lostOut: "entries that are no spans or log records; numbers beyond 63 bits become texts",
		is: func(head []byte) bool {
			return isJSON(head, "resourceSpans", "resourceLogs", "resource_spans", "resource_logs")
		},
	},
	{
		name: "otlp-proto", extensions: []string{".binpb"}, what: "OTLP, as protobuf messages behind their lengths",
		decode: func(ctx context.Context, r io.Reader, w *format.Writer) error { return otlp.Decode(ctx, r, w, nil) },
		encode: func(ctx context.Context, w io.Writer, v *format.View) error {
			return otlp.Encode(ctx, w, v, &otlp.EncodeOptions{Protobuf: true})
		},
		lostIn: "as otlp", lostOut: "as otlp",
	},
	{
		name: "chrome", extensions: []string{".chrome.json"}, what: "Chrome's trace events, for its viewers and Firefox's",
		encode:  func(ctx context.Context, w io.Writer, v *format.View) error { return chrome.Encode(ctx, w, v, nil) },
		lostOut: "types of resource attributes, schema URLs, levels of spans; large numbers become texts",
	},
	{
		name: "perfetto", extensions: []string{".pftrace"}, what: "Perfetto's traces",
		encode:  func(ctx context.Context, w io.Writer, v *format.View) error { return perfetto.Encode(ctx, w, v, nil) },
		lostOut: "types of resource attributes, schema URLs, levels of spans",
	},
	{
		name: "parquet", extensions: []string{".parquet"}, what: "Parquet, a row an entry, for SQL",
		decode: func(ctx context.Context, r io.Reader, w *format.Writer) error { return parquet.Decode(ctx, r, w, nil) },
		encode: func(ctx context.Context, w io.Writer, v *format.View) error { return parquet.Encode(ctx, w, v, nil) },
		lostIn: "nothing, but only such tables are read", lostOut: "nothing but which entries ended a span",
		is: func(head []byte) bool { return bytes.HasPrefix(head, []byte("PAR1")) },
	},
	{
		name: "folded", extensions: []string{".folded"}, what: "folded stacks of self time, for flame graphs",
		encode: func(ctx context.Context, w io.Writer, v *format.View) error {
			return folded.EncodeFolded(ctx, w, v, nil)
		},
		lostOut: "all but the names of spans and their self times",
	},
	{
		name: "speedscope", extensions: []string{".speedscope.json"}, what: "speedscope's profiles",
		encode: func(ctx context.Context, w io.Writer, v *format.View) error {
			return folded.EncodeSpeedscope(ctx, w, v, nil)
		},
		lostOut: "all but the names and times of spans",
	},
}
