package tracetest

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
)

// Version is the next release. The test flag -update writes its fixtures in testdata/earlier.
const Version = "v0.1.0"

// Versions calls fn for each version in testdata/earlier. The fixtures of a version are the files of a killed
// process. dir is a folder with the unpacked files. want is the outline of the trace that the version itself
// computed from the files.
func Versions(t *testing.T, fn func(t *testing.T, dir, want string)) {
	t.Helper()
	versions, err := filepath.Glob("testdata/earlier/*")
	if err != nil || len(versions) < 2 {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
	for _, version := range versions {
		t.Run(filepath.Base(version), func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(version, "app.txt"))
			expect.Must(t, err)
			dir := t.TempDir()
			names, err := filepath.Glob(filepath.Join(version, "*"))
			check(t, err)
			for _, name := range names {
				check(t, unpack(name, filepath.Join(dir, strings.TrimSuffix(filepath.Base(name), ".gz"))))
			}
			fn(t, dir, string(want))
		})
	}
}

// Pack writes b as the fixture called name of Version. It compresses b, unless the name ends with .txt.
func Pack(t *testing.T, name string, b []byte) {
	t.Helper()
	if !strings.HasSuffix(name, ".txt") {
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		check(t, err)
		_, err = z.Write(b)
		check(t, err)
		check(t, z.Close())
		name, b = name+".gz", packed.Bytes()
	}
	dir := filepath.Join("testdata", "earlier", Version)
	check(t, os.MkdirAll(dir, 0o755)) //nolint:gosec // as git has it
	check(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
}

// Fixture records the content of the fixtures: spans that ended, spans that did not end, spans that were recorded
// in one piece, log records with and without a span, events, a link, and values of every kind.
func Fixture(t *testing.T, rec *recorder.Recorder) {
	t.Helper()
	begun := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	named := func(name string, attributes ...format.Attribute) *format.TraceEntry {
		return &format.TraceEntry{Metadata: format.Metadata{Name: name, Level: format.LevelInfo}, Attributes: attributes}
	}
	text := func(name, value string) format.Attribute {
		return format.Attribute{Name: name, Value: format.StringValue(value)}
	}
	res, err := rec.Resource(Resource("fixture", "service.name", "fixture"))
	check(t, err)
	ref := func(id byte) format.SpanRef { return format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{id}} }
	span := func(id, parent byte, took time.Duration, children ...format.TraceEntry) {
		s := &Span{Span: recorder.Span{Resource: res, Ref: ref(id)}, Children: children}
		if parent > 0 {
			s.Parent = ref(parent)
		}
		s.Entry = *named(fmt.Sprint("span ", id), text(format.AttrSpanID, fmt.Sprintf("%02x00000000000000", id)),
			format.Attribute{Name: format.AttrTime, Value: format.TimeValue(begun.Add(time.Duration(id) * time.Millisecond))}, text("of", fmt.Sprint("span ", id)))
		if took > 0 {
			s.Entry.Add(format.AttrDuration, format.U64Value(uint64(took)))
		}
		check(t, WriteSpan(rec, s))
	}
	event := func(of string) format.TraceEntry {
		return *named("event", format.Attribute{Name: "otel.event", Value: format.BoolValue(true)}, text("of", of))
	}
	link := named("link", text("otel.link.trace_id", strings.Repeat("ab", 16)), text("otel.link.span_id", strings.Repeat("cd", 8)))
	span(1, 0, 0)
	span(2, 1, 0)
	logged := func(of format.SpanRef, message string, attributes ...format.Attribute) {
		e := named("log", attributes...)
		e.Message = format.Some(message)
		check(t, rec.Log(of, e))
	}
	logged(ref(2), "of 2", text("s", "é\n"), format.Attribute{Name: "i", Value: format.I64Value(-1)}, format.Attribute{Name: "u", Value: format.U64Value(1 << 63)},
		format.Attribute{Name: "f", Value: format.FloatValue(0.5)}, format.Attribute{Name: "b", Value: format.BoolValue(true)}, format.Attribute{Name: "x", Value: format.BytesValue([]byte{0, 255})})
	check(t, EndSpan(rec, ref(2), []format.TraceEntry{event("end of 2"), *link}, named(format.NameSpanEnd, text(format.AttrSpanID, "0200000000000000"),
		format.Attribute{Name: format.AttrDuration, Value: format.U64Value(1_000_000)}, text("of", "end of 2"))))
	span(3, 1, time.Millisecond, event("3"))
	span(5, 4, time.Millisecond) // its parent is missing
	logged(format.SpanRef{}, "of none")
}

func check(t *testing.T, err error) {
	t.Helper()
	expect.Must(t, err)
}

func unpack(from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	r := io.Reader(f)
	if strings.HasSuffix(from, ".gz") {
		r, err = gzip.NewReader(f)
		if err != nil {
			return err
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o600)
}

// Entries returns one line per entry of a trace file, without times, levels and messages, and without the
// recorder's own entries at the end.
func Entries(t *testing.T, name string) string {
	t.Helper()
	f, err := format.Open(name, nil)
	check(t, err)
	defer f.Close()
	var b strings.Builder
	for i := range f.Len() {
		e, err := f.Entry(uint32(i))
		check(t, err)
		if e.IsEnd() || e.IsRecovered() {
			break
		}
		fmt.Fprintf(&b, "%d below %d: %s", i, e.Parent, e.Metadata.Name)
		for _, a := range e.Attributes {
			if a.Name != format.AttrTime {
				fmt.Fprintf(&b, " %s=%s", a.Name, strings.Trim(fmt.Sprint(a.Value), "{}"))
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
