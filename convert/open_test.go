package convert_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/redact"
	"github.com/entrace-go/entrace/view"
)

// outlineOf returns the names of the spans and log records of a trace, indented by their depth in the tree.
func outlineOf(t *testing.T, v *view.View) string {
	t.Helper()
	var all []string
	err := v.Walk(0, func(r view.Row, depth int, _ bool) error {
		switch v.Role(r) {
		case view.RoleSpan:
			all = append(all, strings.Repeat(" ", depth)+v.Name(r))
		case view.RoleLog:
			m, _ := v.Message(r)
			all = append(all, strings.Repeat(" ", depth)+m)
		case view.RoleResource:
			all = append(all, strings.Repeat(" ", depth)+v.Service(r))
		}
		return nil
	})
	must(t, err)
	return strings.Join(all, "\n")
}

func opened(t *testing.T, o *convert.OpenOptions, names ...string) *convert.Trace {
	t.Helper()
	tr, err := convert.Open(t.Context(), names, o)
	if _, damaged := errors.AsType[*convert.DamageError](err); !damaged {
		must(t, err)
	}
	t.Cleanup(func() { _ = tr.Close() })
	return tr
}

// TestOpenAnything opens the same trace in all formats and compressions in which it can be stored.
func TestOpenAnything(t *testing.T) {
	dir := t.TempDir()
	f := service(t, format.V1, "client", []part{{name: "call", span: 1, at: 10, below: -1}, {name: "said", span: 1, at: 11, log: true, below: 0}})
	want := outlineOf(t, viewOf(t, f))
	b := read(t, f.Name())
	write := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, b, 0o600))
		return name
	}
	var lines bytes.Buffer
	must(t, otlp.Encode(t.Context(), &lines, viewOf(t, f), nil))
	zipped := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(b)
		must(t, errors.Join(err, w.Close()))
		return out.Bytes()
	}
	z, err := zstd.NewWriter(nil)
	must(t, err)
	for _, x := range []struct {
		name string
		o    *convert.OpenOptions
	}{
		{write("a.et", b), nil},
		{write("strange", b), nil},
		{write("a.jsonl", lines.Bytes()), nil},
		{write("a.jsonl.gz", zipped(lines.Bytes())), nil},
		{write("a.et.gz", zipped(b)), nil},
		{write("a.et.zst", z.EncodeAll(b, nil)), nil},
		{write("lines", lines.Bytes()), &convert.OpenOptions{From: "otlp"}},
		{"-", &convert.OpenOptions{Stdin: bytes.NewReader(b)}},
		{"-", &convert.OpenOptions{Stdin: &lines}},
	} {
		tr := opened(t, x.o, x.name)
		if got := outlineOf(t, tr.View()); got != want || tr.Damage() != nil {
			t.Errorf("%s:\n%s\nwant\n%s (%v)", x.name, got, want, tr.Damage())
		}
	}
	if f, compressed, _, err := convert.FormatOf(filepath.Join(dir, "a.jsonl.gz")); f != "otlp" || !compressed {
		t.Errorf("the compressed format is %q, %t, %v", f, compressed, err)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "entrace-*"))
	must(t, err)
	for _, name := range left {
		// On Windows, an open temporary file has a name.
		if fi, err := os.Stat(name); err == nil && time.Since(fi.ModTime()) < time.Second && runtime.GOOS != "windows" {
			t.Errorf("%s is left", name)
		}
	}
	_, err = convert.Open(t.Context(), []string{filepath.Join(dir, "a.jsonl")}, &convert.OpenOptions{MaxTemp: 100})
	expect.Says(t, err, "larger than the limit", "with little room")
}

// TestOpenFolder checks that opening a folder opens the traces in it, and that an IET is ignored if there is its
// ET.
func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	expect.Is(t, expect.Err(convert.Open(t.Context(), []string{dir}, nil)), convert.ErrNoTrace, "of an empty folder")
	put := func(name string, f *format.File) {
		b := read(t, f.Name())
		must(t, os.WriteFile(filepath.Join(dir, name), b, 0o600))
	}
	client := service(t, format.V1, "client", []part{{name: "call", span: 1, at: 10, below: -1}})
	server := service(t, format.V2, "server", []part{{name: "serve", span: 11, up: 1, at: 25, below: -1}})
	put("client.et", client)
	put("client.iet", client) // the IET from which the ET was made
	put("server.et", server)
	must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("no trace"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "more.et"), 0o700))
	tr := opened(t, nil, dir)
	if got := outlineOf(t, tr.View()); got != " client\n  call\n   serve\n server" || len(tr.View().Files()) != 2 {
		t.Errorf("%d files:\n%s", len(tr.View().Files()), got)
	}
	// A wrong clock can be corrected by the name of the service or the file.
	for _, name := range []string{"server", "server.et", filepath.Join(dir, "server.et")} {
		v := opened(t, &convert.OpenOptions{Clock: map[string]time.Duration{name: -7}}, dir).View()
		serve, _ := v.Span(format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{11}})
		call, _ := v.Span(format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{1}})
		at, _ := v.Start(serve)
		other, _ := v.Start(call)
		e, err := v.Entry(serve)
		must(t, err)
		said, _ := e.Attribute(format.AttrTime)
		if n, _ := said.I64(); at != 18 || other != 10 || n != 18 {
			t.Errorf("with the clock of %s the times are %d, %d and %d, want 18, 10 and 18", name, at, other, n)
		}
	}
}

// TestOpenDamaged opens a damaged file. The view must have the complete entries, and the error must say where they end.
func TestOpenDamaged(t *testing.T) {
	f := service(t, format.V1, "one", []part{{name: "a", span: 1, at: 1, below: -1}, {name: "b", span: 2, at: 2, below: -1}})
	b := read(t, f.Name())
	name := hosttest.Path(t, "bad.et")
	at := bytes.LastIndex(b, []byte("\x01b\x00")) + 2 // length of b's target
	b[at] = 255
	must(t, os.WriteFile(name, b, 0o600))
	tr := opened(t, nil, name, f.Name())
	var corrupt *format.CorruptError
	if err := tr.Damage(); !errors.As(err, &corrupt) || !strings.Contains(err.Error(), name) || corrupt.Entry != 3 {
		t.Errorf("damage: %v", err)
	}
	if got := outlineOf(t, tr.View()); strings.Count(got, "a") != 1 || strings.Count(got, "b") != 1 || tr.View().Copies() != 2 {
		t.Errorf("the view is\n%s", got)
	}
}

// TestOpenCompressedDamaged opens damaged compressed files. The view must have the complete entries. The error must
// report the damaged bytes after these entries, or a wrong checksum.
func TestOpenCompressedDamaged(t *testing.T) {
	f := service(t, format.V1, "one", []part{{name: "a", span: 1, at: 1, below: -1}, {name: "b", span: 2, at: 2, below: -1}})
	plain := read(t, f.Name())
	bad := bytes.Clone(plain)
	bad[bytes.LastIndex(bad, []byte("\x01b\x00"))+2] = 255 // length of b's target
	packed := func(b []byte) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, err := w.Write(b)
		must(t, errors.Join(err, w.Close()))
		return out.Bytes()
	}
	whole := packed(plain)
	sum := bytes.Clone(whole)
	sum[len(sum)-8] ^= 1
	for what, x := range map[string]struct {
		b  []byte
		is error
		n  int
	}{
		"whole":    {whole, nil, f.Len()},
		"cut":      {packed(plain)[:len(whole)-8], io.ErrUnexpectedEOF, f.Len()},
		"checksum": {sum, gzip.ErrChecksum, f.Len()},
		"garbage":  {append(bytes.Clone(whole), "garbage behind it"...), gzip.ErrHeader, f.Len()},
		"damaged":  {packed(bad), nil, 3},
	} {
		name := hosttest.Path(t, "x.et.gz")
		must(t, os.WriteFile(name, x.b, 0o600))
		for _, from := range []convert.Format{"", "et"} {
			tr := opened(t, &convert.OpenOptions{From: from}, name)
			err := tr.Damage()
			_, corrupt := errors.AsType[*format.CorruptError](err)
			if x.is != nil && !errors.Is(err, x.is) || (err == nil) != (what == "whole") || corrupt != (what == "damaged") {
				t.Errorf("%s: damage %v, want %v", what, err, x.is)
			}
			expect.Equal(t, tr.View().Entries(0), x.n, "%s: entries", what)
		}
	}
}

// TestOpenBomb checks that compressed input is read up to 256 times its size, and that the rest is reported.
func TestOpenBomb(t *testing.T) {
	name := hosttest.Path(t, "x.jsonl.zst")
	z, err := zstd.NewWriter(nil)
	must(t, err)
	line := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"00000000000000000000000000000001","spanId":"0000000000000001","name":"a"}]}]}]}` + "\n"
	b := z.EncodeAll(bytes.Repeat([]byte(line), 1<<17), nil)
	must(t, os.WriteFile(name, b, 0o600))
	tr := opened(t, nil, name)
	if n := tr.View().Entries(0); n < 2 || n > 257*len(b)/len(line) || !strings.Contains(fmt.Sprint(tr.Damage()), "more than 256 times") {
		t.Errorf("of %d bytes it has %d entries, and says %v", len(b), n, tr.Damage())
	}
}

// TestReplacedRedacted opens a file without its secrets, and replaces the file by a new one, which often gets the number
// of a removed file.
func TestReplacedRedacted(t *testing.T) {
	name := hosttest.Path(t, "app.iet")
	must(t, os.WriteFile(name, encodeTrace(t, name), 0o600))
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open is not replaced")
	}
	tr, err := convert.Open(t.Context(), []string{name}, &convert.OpenOptions{Redact: redact.New(redact.Default(), nil)})
	must(t, err)
	defer tr.Close()
	must(t, os.Remove(name))
	must(t, os.WriteFile(name, encodeTrace(t, name), 0o600))
	if got := tr.Replaced(); len(got) != 1 {
		t.Errorf("it says %v", got)
	}
}

// TestLogsWithoutSpace opens a log and its spans with too little temporary space, up to the space that is enough.
func TestLogsWithoutSpace(t *testing.T) {
	names := []string{filepath.Join("..", "internal", "read", "loglines", "testdata", "caddy.log"), filepath.Join("..", "internal", "read", "loglines", "testdata", "caddy.jsonl")}
	for room := int64(1 << 10); ; room += 1 << 10 {
		tr, err := convert.Open(t.Context(), names, &convert.OpenOptions{MaxTemp: room})
		if err == nil {
			must(t, tr.Close())
			return
		}
	}
}

// TestReplaced checks that Replaced reports a name that now belongs to another file.
func TestReplaced(t *testing.T) {
	dir := t.TempDir()
	name, other := filepath.Join(dir, "app.iet"), filepath.Join(dir, "new.iet")
	for _, n := range []string{name, other} {
		must(t, os.WriteFile(n, encodeTrace(t, n), 0o600))
	}
	if runtime.GOOS == "windows" {
		t.Skip("a file that is open is not replaced")
	}
	tr, err := convert.Open(t.Context(), []string{name}, nil)
	must(t, err)
	defer tr.Close()
	if got := tr.Replaced(); got != nil {
		t.Errorf("at first it says %v", got)
	}
	must(t, os.Rename(other, name))
	if got := tr.Replaced(); len(got) != 1 || got[0] != name {
		t.Errorf("then it says %v", got)
	}
	must(t, os.Remove(name))
	if got := tr.Replaced(); got != nil {
		t.Errorf("without another one it says %v", got)
	}
}

func encodeTrace(t *testing.T, message string) []byte {
	return tracetest.New(t, format.V2, format.IET, format.Root(), tracetest.Log(message)).Bytes()
}

// TestOpenFolderSaysWhatItLeavesOut opens a folder with symbolic links, an empty file, a file that is not a trace,
// and damaged traces that recovery has renamed.
func TestOpenFolderSaysWhatItLeavesOut(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	root := tracetest.New(t, format.V2, format.ET, format.Root()).Bytes()
	must(t, errors.Join(os.WriteFile(in("app.et"), root, 0o600), os.WriteFile(in("empty.et"), nil, 0o600), os.WriteFile(in("notes.txt"), []byte("notes"), 0o600),
		os.WriteFile(in("text.iet"), []byte("this is only text"), 0o600),
		os.WriteFile(in("app.et.broken"), root, 0o600), os.WriteFile(in("b.iet.broken"), root, 0o600)))
	tracetest.Symlink(t, "gone.et", in("dangling.et"))
	tracetest.Symlink(t, "app.et", in("link.et"))
	c, err := convert.Open(t.Context(), []string{dir}, nil)
	must(t, err)
	defer c.Close()
	const link = " is skipped: not a regular file, and links are not followed"
	want := []string{
		in("dangling.et") + link, in("empty.et") + " is skipped: the file is empty", in("link.et") + link, in("text.iet") + " is skipped: not a trace",
		dir + ": skipped damaged originals of recovered traces: app.et.broken, b.iet.broken",
	}
	if files := c.View().Files(); len(files) != 1 {
		t.Errorf("%d files are traces, want app.et alone", len(files))
	}
	expect.Slice(t, c.LeftOut(), want, "LeftOut")
}

// TestProgressOfLargeFile opens a file that is mapped, and a smaller one that is not.
func TestProgressOfLargeFile(t *testing.T) {
	for _, n := range []int{100, 20_000} {
		name := hosttest.Path(t, "in.jsonl")
		line := `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"eee19b7ec3c1b174","name":"n"}]}]}]}` + "\n"
		must(t, os.WriteFile(name, []byte(strings.Repeat(line, n)), 0o600))
		var last, size int64
		opened(t, &convert.OpenOptions{Progress: func(done, total int64) {
			if done < 0 || done > total {
				t.Errorf("%d of %d bytes are done", done, total)
			}
			last, size = max(last, done), total
		}}, name)
		if want := int64(n * len(line)); size != want || last < want/2 {
			t.Errorf("at last %d of %d bytes are done, want %d", last, size, want)
		}
	}
}

// TestDamageNamesFile opens two truncated files at a time, and converts one. The error must name each file once.
func TestDamageNamesFile(t *testing.T) {
	dir := t.TempDir()
	cut := func(name, from string) string {
		b := read(t, from)
		name = filepath.Join(dir, name)
		must(t, os.WriteFile(name, b[:len(b)/2], 0o600))
		return name
	}
	lines := cut("a.jsonl", filepath.Join("otlp", "testdata", "collector-traces.jsonl"))
	packets := cut("b.htf", filepath.Join("heph", "testdata", "real-plain.htf"))
	own := cut("c.iet", fixture(format.V1, format.IET))
	for _, names := range [][]string{{lines, own}, {packets, lines}} {
		_, err := convert.Open(t.Context(), names, nil)
		for _, name := range names {
			if n := strings.Count(fmt.Sprint(err), name); n != 1 {
				t.Errorf("%s is named %d times in %v", name, n, err)
			}
		}
	}
	for _, name := range []string{lines, own} {
		if err := encodeFile(t.Context(), name, filepath.Join(dir, "out.et"), convert.ET, &convert.Options{Replace: true}); strings.Count(fmt.Sprint(err), name) != 1 {
			t.Errorf("%s is not named once in %v", name, err)
		}
	}
}

// TestOpenExecutionTrace checks that the view shows what the tasks of an execution trace waited for. If secrets are
// replaced, the view cannot show this.
func TestOpenExecutionTrace(t *testing.T) {
	for _, version := range []string{"1.24", "1.27"} {
		name := "../internal/read/gotrace/testdata/go" + version + ".trace"
		in := read(t, name)
		tr, err := convert.Open(t.Context(), []string{name}, nil)
		must(t, err)
		v := tr.View()
		r := querytest.Result(t, v, "{ span:mutex > 90ms && span:states = matched || span:mutex > 90ms && span:states = marked }")
		expect.MustEqual(t, r.Rows.Len(), 1, "Go %s: tasks waited for a mutex: %v", version, r.Hints)
		for row := range r.Rows.All() {
			m, err := analyze.Measured(t.Context(), v, row)
			must(t, err)
			if v.Name(row) != "request" || m.Known < analyze.MeasuredShare {
				t.Errorf("Go %s: of %s %.2f is known", version, v.Name(row), m.Known)
			}
			if by := m.Longest(v, 1)[0].EndedBy; by == nil || v.Name(by.Span) != "reindex" {
				t.Errorf("Go %s: %q ended the wait", version, v.Name(by.Span))
			}
		}
		var out bytes.Buffer
		must(t, tr.Encode(t.Context(), &out, convert.GoTrace, nil))
		if !bytes.Equal(out.Bytes(), in) {
			t.Errorf("Go %s: %d bytes are written, and not the %d that were read", version, out.Len(), len(in))
		}
		must(t, tr.Close())

		tr, err = convert.Open(t.Context(), []string{name}, &convert.OpenOptions{Redact: redact.New(redact.Default(), nil)})
		must(t, err)
		if states, err := spanstates.Of(t.Context(), tr.View()); err != nil || states.Unknown() == "" || tr.View().HasStates() {
			t.Errorf("Go %s: without its secrets it has tasks, %v", version, err)
		}
		must(t, tr.Close())
	}
}
