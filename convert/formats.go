package convert

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/convert/chrome"
	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/convert/measureme"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/convert/perfetto"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// A Format is a format of others that is read or written.
type Format struct {
	Name       string
	JSON       bool     // it is JSON, whatever the extension
	Extensions []string // with the dot; the first is the usual one
	What       string   // it is, in a few words
	Decode     Decoder  // nil: it is written only
	Encode     Encoder  // nil: it is read only
	LostIn     string   // what Decode loses
	LostOut    string   // what Encode loses

	// is tells from its beginning that a file is of the format; nil: it cannot be
	// told.
	is func(head []byte) bool
}

// Formats returns the formats of others that are known. The caller owns the slice.
func Formats() []Format { return slices.Clone(formats) }

// FormatNamed returns the format of that name, nil if it is none.
func FormatNamed(name string) *Format {
	for i := range formats {
		if formats[i].Name == name {
			return &formats[i]
		}
	}
	return nil
}

// FormatByExtension returns the format whose files have such a name, nil if there is none.
// JSON is of several.
func FormatByExtension(file string) *Format {
	for i := range formats {
		for _, ext := range formats[i].Extensions {
			if strings.HasSuffix(file, ext) {
				return &formats[i]
			}
		}
	}
	return nil
}

// SniffSize is how much of a file tells its format.
const SniffSize = 4 << 10

// FormatOf returns the format that is read of a file with that beginning and name, nil if it
// is none. What it holds tells more than what it is called.
func FormatOf(head []byte, file string) *Format {
	for i := range formats {
		if f := &formats[i]; f.Decode != nil && f.is != nil && f.is(head) {
			return f
		}
	}
	if f := FormatByExtension(file); f != nil && f.Decode != nil {
		return f
	}
	return nil
}

// isJSON reports whether head is the beginning of a JSON object with one of keys.
func isJSON(head []byte, keys ...string) bool {
	head = bytes.TrimLeft(head, " \t\r\n")
	if len(head) == 0 || head[0] != '{' {
		return false
	}
	for _, key := range keys {
		if bytes.Contains(head, []byte(`"`+key+`"`)) {
			return true
		}
	}
	return false
}

// formats are in the order in which Formats has them.
var formats = []Format{
	{
		Name: "heph", Extensions: []string{".htf"}, What: "Heph's trace format",
		Decode: heph.Decode, Encode: heph.Encode,
		LostIn: "damaged and oversized packets", LostOut: "the order of attributes, ends of spans as entries of their own",
		is: func(head []byte) bool {
			return bytes.HasPrefix(head, []byte("\x75\xd1\x1d\x4d")) || bytes.HasPrefix(head, []byte("\xc1\xfc\x1f\xb7"))
		},
	},
	{
		Name: "measureme", Extensions: []string{".mm_profdata"}, What: "rustc's self profile, versions 8 and 9",
		Decode: measureme.Decode, Encode: measureme.Encode,
		LostIn: "which strings were shared, those over 4 MiB", LostOut: "types, as all but times and names becomes arguments; parents across threads",
		is: func(head []byte) bool { return bytes.HasPrefix(head, []byte("MMPD")) },
	},
	{
		Name: "otlp", JSON: true, Extensions: []string{".jsonl"}, What: "OTLP, as JSON lines of spans and log records; protobuf is read, too",
		Decode: func(ctx context.Context, r io.Reader, w *format.Writer) error { return otlp.Decode(ctx, r, w, nil) },
		Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
		LostIn: "the order of spans, resources without any, unknown fields", LostOut: "entries that are no spans or log records; numbers beyond 63 bits become texts",
		is: func(head []byte) bool {
			return isJSON(head, "resourceSpans", "resourceLogs", "resource_spans", "resource_logs")
		},
	},
	{
		Name: "otlp-proto", Extensions: []string{".binpb"}, What: "OTLP, as protobuf messages behind their lengths",
		Decode: func(ctx context.Context, r io.Reader, w *format.Writer) error { return otlp.Decode(ctx, r, w, nil) },
		Encode: func(ctx context.Context, w io.Writer, v *view.View) error {
			return otlp.Encode(ctx, w, v, &otlp.EncodeOptions{Protobuf: true})
		},
		LostIn: "as otlp", LostOut: "as otlp",
	},
	{
		Name: "chrome", Extensions: []string{".chrome.json"}, What: "Chrome's trace events, for its viewers and Firefox's",
		Encode:  func(ctx context.Context, w io.Writer, v *view.View) error { return chrome.Encode(ctx, w, v, nil) },
		LostOut: "types of resource attributes, schema URLs, levels of spans; large numbers become texts",
	},
	{
		Name: "perfetto", Extensions: []string{".pftrace"}, What: "Perfetto's traces",
		Encode:  func(ctx context.Context, w io.Writer, v *view.View) error { return perfetto.Encode(ctx, w, v, nil) },
		LostOut: "types of resource attributes, schema URLs, levels of spans",
	},
	{
		Name: "parquet", Extensions: []string{".parquet"}, What: "Parquet, a row an entry, for SQL",
		Decode: func(ctx context.Context, r io.Reader, w *format.Writer) error { return parquet.Decode(ctx, r, w, nil) },
		Encode: func(ctx context.Context, w io.Writer, v *view.View) error { return parquet.Encode(ctx, w, v, nil) },
		LostIn: "nothing, but only such tables are read", LostOut: "nothing but which entries ended a span",
		is: func(head []byte) bool { return bytes.HasPrefix(head, []byte("PAR1")) },
	},
	{
		Name: "folded", Extensions: []string{".folded"}, What: "folded stacks of self time, for flame graphs",
		Encode: func(ctx context.Context, w io.Writer, v *view.View) error {
			return folded.EncodeFolded(ctx, w, v, nil)
		},
		LostOut: "all but the names of spans and their self times",
	},
	{
		Name: "speedscope", Extensions: []string{".speedscope.json"}, What: "speedscope's profiles",
		Encode: func(ctx context.Context, w io.Writer, v *view.View) error {
			return folded.EncodeSpeedscope(ctx, w, v, nil)
		},
		LostOut: "all but the names and times of spans",
	},
}
