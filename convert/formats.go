package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/entrace-go/entrace/convert/chrome"
	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/convert/gotrace"
	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/convert/jaeger"
	"github.com/entrace-go/entrace/convert/measureme"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/convert/stdouttrace"
	"github.com/entrace-go/entrace/convert/zipkin"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/loglines"
	"github.com/entrace-go/entrace/view"
)

// A Format is the name of a file format of traces: one of ENTRACE's own formats, or another format that [Formats]
// lists, such as "otlp".
type Format string

// ENTRACE's own formats.
const (
	ET        Format = "et"
	IET       Format = "iet"
	IETPrefix Format = "ietprefix"
)

// GoTrace is the format of Go's execution traces. A trace can be encoded in this format only if it contains an
// execution trace.
const GoTrace Format = "gotrace"

// Log is the format of the lines that programs log.
const Log Format = "log"

// LogMeanings returns the meanings that fields of logs may have.
func LogMeanings() []string { return loglines.Meanings() }

// Own reports whether f is one of ENTRACE's own formats, and if so, which one.
func (f Format) Own() (format.StorageFormat, bool) {
	s, err := format.ParseStorageFormat(string(f))
	return s, err == nil
}

// A FormatInfo describes a format.
type FormatInfo struct {
	Format     Format
	Extensions []string // with the dot; the most usual extension is first
	JSON       bool     // a file NAME.json may have this format
	What       string   // a short description
	Reads      bool     // Open reads the format
	Writes     bool     // Trace.Encode writes the format
	LostIn     string   // what is lost when the format is read
	LostOut    string   // what is lost when the format is written
	CPU        bool     // the format supports Options.CPU
}

// Formats returns all known formats. The caller may change the slice, but not the Extensions.
func Formats() []FormatInfo {
	all := make([]FormatInfo, len(codecs))
	for i, c := range codecs {
		all[i] = c.FormatInfo
		all[i].Reads, all[i].Writes, all[i].CPU = c.reads(), c.writes(), c.encodeCPU != nil
	}
	return all
}

// FormatByExtension returns the format for the extension of the file called name, or "" if the extension is unknown.
func FormatByExtension(file string) Format {
	if c := codecByExtension(file); c != nil {
		return c.Format
	}
	return ""
}

// FormatOf detects the format of a file as [Open] does: by its first bytes, or by its name if the bytes do not show the
// format. It also reports whether the file is compressed. If the format is unknown, f is "", and the result unknown
// describes in a few words the probable kind of the file.
func FormatOf(file string) (f Format, compressed bool, unknown string, err error) {
	r, err := openRegular(file)
	if err != nil {
		return "", false, "", err
	}
	defer r.Close()
	head, err := beginning(r)
	if err != nil {
		return "", false, "", err
	}
	if own, err := ownFormat(head); err == nil {
		return own, false, "", nil
	}
	if c := sniff(head, file); c != nil {
		return c.Format, false, "", nil
	}
	if !isCompressed(head) {
		return "", false, unreadable(head, file), nil
	}
	x := &source{name: file}
	if err := new(opener).detect(x, head, io.MultiReader(bytes.NewReader(head), r)); err == nil && x.codec != nil {
		f = x.codec.Format
	}
	return f, true, x.guess, x.Close()
}

// A codec reads and writes files of a format.
type codec struct {
	FormatInfo

	decode func(ctx context.Context, r io.Reader, w *format.Writer) error
	encode func(ctx context.Context, w io.Writer, v *view.View) error
	// encodeCPU writes the samples of CPU profiles.
	encodeCPU func(ctx context.Context, w io.Writer, v *view.View) error
	// is reports whether a file that begins with head is of this format. It is nil if the format cannot be detected,
	// or if the codec cannot decode.
	is func(head []byte) bool
}

func (c *codec) own() bool {
	_, own := c.Format.Own()
	return own
}

func (c *codec) reads() bool  { return c.decode != nil || c.own() }
func (c *codec) writes() bool { return c.encode != nil || c.own() }

func codecOf(f Format) *codec {
	for _, c := range codecs {
		if c.Format == f {
			return c
		}
	}
	return nil
}

// A FormatError is returned for a format that is unknown, or that cannot be read or written.
type FormatError struct {
	Format Format
	Write  bool // a trace was to be written, not read
	CPU    bool // a trace was to be written with Options.CPU
}

func (e *FormatError) Error() string {
	text := fmt.Sprintf("unknown format %q", e.Format)
	switch c := codecOf(e.Format); {
	case c != nil && e.CPU:
		text = fmt.Sprintf("format %s cannot hold CPU profiles", e.Format)
	case c != nil && e.Write:
		text = fmt.Sprintf("format %s can only be read", e.Format)
	case c != nil:
		text = fmt.Sprintf("format %s can only be written", e.Format)
	}
	var known []string
	for _, c := range codecs {
		if e.Write && c.writes() && (!e.CPU || c.encodeCPU != nil) || !e.Write && c.reads() {
			known = append(known, string(c.Format))
		}
	}
	return text + "; possible formats are " + strings.Join(known, ", ")
}

func codecByExtension(file string) *codec {
	for _, c := range codecs {
		for _, ext := range c.Extensions {
			if strings.HasSuffix(file, ext) {
				return c
			}
		}
	}
	return nil
}

// sniffSize is how many bytes of a file are read to detect its format.
const sniffSize = 4 << 10

// sniff returns the codec for the file called file, whose first bytes are head, or nil if no codec can read the file.
// The bytes take precedence over the name. sniff does not know ENTRACE's own formats.
func sniff(head []byte, file string) *codec {
	if isParquet(head) { // a Parquet file is not a log, even if text follows
		return nil
	}
	for _, c := range codecs {
		if c.is != nil && c.is(head) {
			return c
		}
	}
	if c := codecByExtension(file); c != nil && c.decode != nil {
		return c
	}
	return nil
}

// ownFormat returns which of ENTRACE's own formats a file has. The parameter head has the first bytes of the file.
func ownFormat(head []byte) (Format, error) {
	_, f, err := format.ReadMagic(bytes.NewReader(head))
	return Format(f.String()), err
}

func isOwn(head []byte) bool {
	_, err := ownFormat(head)
	return err == nil
}

// unreadable describes the probable kind of a file that cannot be read. It returns "" if this is unknown.
func unreadable(head []byte, name string) string {
	if isParquet(head) {
		return "is Parquet, which entrace can only write: query it with DuckDB, or open the trace that it was made from"
	}
	if c := codecByExtension(name); c != nil && !c.reads() {
		return "is of format " + string(c.Format) + ", which entrace can only write"
	}
	switch {
	case len(head) == 0:
		return ""
	case head[0] == 0x0a && isMessage(head):
		return "looks like a single OTLP protobuf message without a length before it: read it with --from otlp"
	case isText(head):
		return "is a text file; entrace reads et, iet and the formats that 'entrace convert --list' prints, and any text as lines with --from log"
	}
	return ""
}

// isMessage reports whether head seems to begin an OTLP request in protobuf, that is, whether field 1 is a message
// that begins with a length-delimited field 1.
func isMessage(head []byte) bool {
	n, size := binary.Uvarint(head[1:])
	return size > 0 && n > 1 && len(head) > 1+size && head[1+size] == 0x0a
}

// isText reports whether head is UTF-8 without control characters. A rune that is incomplete at the end of head is
// accepted.
func isText(head []byte) bool {
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n <= 1 {
			return len(head) < utf8.UTFMax
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		head = head[n:]
	}
	return true
}

// isJSON reports whether head is the beginning of a JSON object with at least one of the keys, or of an array of
// such objects.
func isJSON(head []byte, keys ...string) bool {
	head = bytes.TrimLeft(head, " \t\r\n[")
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

// begins returns a function that reports whether a file begins with one of the strings in with.
func begins(with ...string) func(head []byte) bool {
	return func(head []byte) bool {
		for _, s := range with {
			if bytes.HasPrefix(head, []byte(s)) {
				return true
			}
		}
		return false
	}
}

// isParquet reports whether a file that begins with head is Parquet, perhaps encrypted.
var isParquet = begins("PAR1", "PARE")

// codecs lists all codecs in the order of Formats.
var codecs = []*codec{
	{FormatInfo: FormatInfo{Format: ET, Extensions: []string{".et"}, What: "ENTRACE's mapped format"}},
	{FormatInfo: FormatInfo{Format: IET, Extensions: []string{".iet"}, What: "ENTRACE's stream"}},
	{FormatInfo: FormatInfo{Format: IETPrefix, Extensions: []string{".ietprefix"}, What: "the stream with lengths, as sent over TCP"}},
	{
		FormatInfo: FormatInfo{
			Format: "heph", Extensions: []string{".htf"}, What: "Heph's trace format",
			LostIn: "damaged and oversized packets, the order of attributes",
		},
		decode: heph.Decode, is: begins("\x75\xd1\x1d\x4d", "\xc1\xfc\x1f\xb7"),
	},
	{
		FormatInfo: FormatInfo{
			Format: "measureme", Extensions: []string{".mm_profdata"}, What: "rustc's self profile, versions 8 and 9",
			LostIn: "which strings were shared, strings over 4 MiB",
		},
		decode: measureme.Decode, is: begins("MMPD"),
	},
	{
		FormatInfo: FormatInfo{
			Format: "otlp", Extensions: []string{".jsonl"}, JSON: true, What: "OTLP, as JSON lines of spans and log records; reads protobuf as well",
			LostIn: "the order of spans, empty resources, unknown fields", LostOut: "entries that are no spans or log records; numbers beyond 63 bits become strings",
		},
		decode: decodeOTLP,
		encode: func(ctx context.Context, w io.Writer, v *view.View) error { return otlp.Encode(ctx, w, v, nil) },
		is: func(head []byte) bool {
			return isJSON(head, "resourceSpans", "resourceLogs", "resourceMetrics", "resource_spans", "resource_logs", "batches", "scopeSpans", "scopeLogs", "scopeMetrics")
		},
	},
	{
		FormatInfo: FormatInfo{
			Format: "otlp-proto", Extensions: []string{".binpb"}, What: "OTLP, as protobuf messages, each after its length",
			LostIn: "as otlp", LostOut: "as otlp",
		},
		decode: decodeOTLP,
		encode: func(ctx context.Context, w io.Writer, v *view.View) error {
			return otlp.Encode(ctx, w, v, &otlp.EncodeOptions{Protobuf: true})
		},
		is: func(head []byte) bool { // a length below 160 MiB, and then a message
			return len(head) > frameSize+1 && head[0] < 0x0a && head[frameSize] == 0x0a && isMessage(head[frameSize:])
		},
	},
	{
		FormatInfo: FormatInfo{
			Format: "stdouttrace", Extensions: []string{".stdouttrace.json"}, JSON: true,
			What: "what OpenTelemetry's stdouttrace and stdoutlog for Go print", LostIn: "which parents are remote, counts of child spans",
		},
		decode: stdouttrace.Decode, is: func(head []byte) bool { return isJSON(head, "SpanContext", "ObservedTimestamp") },
	},
	{
		FormatInfo: FormatInfo{
			Format: Log, Extensions: []string{".log"}, What: "lines that programs log: JSON, logfmt, the layouts of loggers and servers",
			LostIn: "colors, blanks around fields",
		},
		decode: loglines.Decode, is: loglines.Is,
	},
	{
		FormatInfo: FormatInfo{
			Format: "jaeger", Extensions: []string{".jaeger.json"}, JSON: true, What: "Jaeger's JSON, as its UI and docker buildx write it",
			LostIn: "warnings of traces",
		},
		decode: jaeger.Decode, is: func(head []byte) bool { return isJSON(head, "traceID") },
	},
	{
		FormatInfo: FormatInfo{
			Format: "zipkin", Extensions: []string{".zipkin.json"}, JSON: true, What: "Zipkin's JSON, version 2",
			LostIn: "the order of tags",
		},
		decode: zipkin.Decode, is: func(head []byte) bool { return isJSON(head, "traceId") && bytes.Contains(head, []byte(`"id"`)) },
	},
	{
		FormatInfo: FormatInfo{
			Format: "chrome", Extensions: []string{".trace.json", ".chrome.json"}, JSON: true, What: "Chrome's trace events, for Perfetto, Firefox's profiler and speedscope",
			LostOut: "types of resource attributes, schema URLs, levels of spans; large numbers become strings",
		},
		encode: chrome.Encode,
	},
	{
		FormatInfo: FormatInfo{
			Format: "parquet", Extensions: []string{".parquet"}, What: "Parquet, a row for each entry, for SQL",
			LostOut: "the order of attributes, the kinds of whole numbers, which entries ended a span",
		},
		encode: parquet.Encode,
	},
	{
		FormatInfo: FormatInfo{
			Format: GoTrace, Extensions: []string{".trace"}, What: "Go's execution traces, which go tool trace reads",
			LostIn: "what goroutines did in less than a millisecond", LostOut: "all but the execution trace in it",
		},
		decode: gotrace.Decode,
		encode: gotrace.Encode,
		is:     gotrace.Is,
	},
	{
		FormatInfo: FormatInfo{
			Format: "folded", Extensions: []string{".folded"}, What: "folded stacks of self time, for flame graphs",
			LostOut: "all but the names of spans and their self times; an open span has no time, but the ended spans below it have",
		},
		encode: folded.EncodeFolded, encodeCPU: folded.EncodeFoldedCPU,
	},
}

func decodeOTLP(ctx context.Context, r io.Reader, w *format.Writer) error {
	return otlp.Decode(ctx, r, w, nil)
}

func openRegular(name string) (*os.File, error) {
	f, err := osfile.OpenRead(name)
	if errors.Is(err, osfile.ErrNotRegular) {
		err = fmt.Errorf("%s: %w", name, format.ErrNotRegular)
	}
	return f, err
}

// beginning returns the first bytes of r.
func beginning(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, sniffSize))
}
