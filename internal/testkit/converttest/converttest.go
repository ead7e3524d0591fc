// Package converttest has the tests that every converter must pass.
package converttest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var update = flag.Bool("update", false, "write the golden files again")

// A Format is a format with its functions for conversion.
type Format struct {
	Encode func(ctx context.Context, w io.Writer, v *view.View) error
	// Check, if set, checks any output of Encode.
	Check func(t testing.TB, out []byte)
	// Decode is nil if the format cannot be read.
	Decode func(ctx context.Context, r io.Reader, w *format.Writer) error
	// Lossy says that Encode and Decode do not restore the same file.
	Lossy bool
	// Golden has the names of golden files in testdata, and for each the trace file that Encode must convert to it.
	Golden map[string]string
}

// Run runs all tests.
func (f Format) Run(t *testing.T) {
	t.Run("golden", f.golden)
	t.Run("files of the reference", f.reference)
	t.Run("broken writer", f.brokenWriter)
	t.Run("cancel", f.cancel)
	if f.Decode != nil {
		t.Run("temporary file", f.temporary)
		t.Run("hostile", func(t *testing.T) { f.hostile(t, f.Bytes(t, View(t, Random(10, 1)...))) })
	}
}

// Bytes returns the output of Encode for v.
func (f Format) Bytes(t testing.TB, v *view.View) []byte {
	t.Helper()
	var b bytes.Buffer
	Must(t, f.Encode(t.Context(), &b, v))
	return b.Bytes()
}

// Back returns the output of Decode as an IET, and its error.
func (f Format) Back(ctx context.Context, t testing.TB, r io.Reader, version format.Version) ([]byte, error) {
	t.Helper()
	var b bytes.Buffer
	w, err := format.NewWriter(&b, version, format.IET, nil)
	Must(t, err)
	derr := f.Decode(ctx, r, w)
	Must(t, w.Close())
	return b.Bytes(), derr
}

func (f Format) check(t testing.TB, out []byte) {
	t.Helper()
	if f.Check != nil {
		f.Check(t, out)
	}
}

func (f Format) golden(t *testing.T) {
	for name, trace := range f.Golden {
		got := f.Bytes(t, Open(t, trace))
		Golden(t, name, got)
		f.check(t, got)
	}
}

// Golden compares got with the file name in testdata.
func Golden(t *testing.T, name string, got []byte) {
	t.Helper()
	Update(t, name, got)
	if want, err := os.ReadFile(filepath.Join("testdata", name)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s, %v", name, got, want, err)
	}
}

// Update writes a file to testdata if the tests run with -update.
func Update(t *testing.T, name string, content []byte) {
	t.Helper()
	if *update {
		Must(t, os.WriteFile(filepath.Join("testdata", name), content, 0o600))
	}
}

// reference encodes the files that the Rust reference wrote, in all versions, and the files in ENTRACE_SAMPLES.
func (f Format) reference(t *testing.T) {
	names := references(t)
	if dir := os.Getenv("ENTRACE_SAMPLES"); dir != "" {
		more, err := filepath.Glob(filepath.Join(dir, "*.iet"))
		Must(t, err)
		names = append(names, more...)
	}
	for _, name := range names {
		v := Open(t, name)
		out := f.Bytes(t, v)
		f.check(t, out)
		file := v.Files()[0]
		if f.Decode == nil || f.Lossy || file.Format() != format.IET {
			continue
		}
		got, err := f.Back(t.Context(), t, bytes.NewReader(out), file.Version())
		Must(t, err)
		want, err := os.ReadFile(name) //nolint:gosec // the tests choose it
		Must(t, err)
		if !bytes.Equal(got, want[:file.WholeSize()]) {
			t.Errorf("%s: after encoding and decoding the file differs: %d bytes, want %d", name, len(got), file.WholeSize())
		}
	}
}

// references returns the names of the files that the Rust reference wrote.
func references(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("..", "..", "format", "testdata", "v*.*et*"))
	Must(t, err)
	if len(names) < 6 {
		t.Errorf("there are only %q", names)
	}
	return names
}

// A brokenWriter accepts left bytes and then fails.
type brokenWriter struct{ left int }

func (w *brokenWriter) Write(b []byte) (int, error) {
	w.left -= len(b)
	if w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

func (f Format) brokenWriter(t *testing.T) {
	v := View(t, Random(5000, 1)...)
	size := len(f.Bytes(t, v))
	for _, left := range []int{0, size / 2, size - 1} {
		expect.Is(t, f.Encode(t.Context(), &brokenWriter{left}, v), io.ErrShortWrite, "after %d bytes of %d", left, size)
	}
}

func (f Format) cancel(t *testing.T) {
	v := View(t, Random(100, 1)...)
	out := f.Bytes(t, v)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Is(t, f.Encode(ctx, io.Discard, v), context.Canceled, "Encode")
	if f.Decode == nil {
		return
	}
	expect.Is(t, expect.Err(f.Back(ctx, t, bytes.NewReader(out), format.V1)), context.Canceled, "Decode")
}

// temporary decodes from a reader that cannot seek. No temporary file must remain.
func (f Format) temporary(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	for _, version := range []format.Version{format.V1, format.V2} {
		out := f.Bytes(t, View(t, Random(100, 1)...))
		want, err := f.Back(t.Context(), t, bytes.NewReader(out), version)
		Must(t, err)
		got, err := f.Back(t.Context(), t, io.MultiReader(bytes.NewReader(out)), version)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("decoded from a pipe: %d bytes, want %d; error %v", len(got), len(want), err)
		}
		if _, err := f.Back(t.Context(), t, io.MultiReader(bytes.NewReader(out[:len(out)/2])), version); err == nil {
			t.Error("decoding half of the input returns no error")
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// hostile decodes parts of a sample, and copies with a flipped bit. Each must give entries, or an error with the
// position of the damage.
func (f Format) hostile(t *testing.T, sample []byte) {
	for at := 0; at < len(sample); at += 7 {
		if at%70 == 0 {
			f.try(t, sample[:at])
		}
		flipped := bytes.Clone(sample)
		flipped[at] ^= 1 << (at % 8)
		f.try(t, flipped)
	}
}

// try decodes in, which may be anything. The result must be entries, and maybe an error with a position.
func (f Format) try(t *testing.T, in []byte) {
	t.Helper()
	iet, err := f.Back(t.Context(), t, bytes.NewReader(in), format.V1)
	if e, _ := errors.AsType[*input.Error](err); err != nil && (e == nil || e.Offset < 0 || e.Offset > int64(len(in))) {
		t.Errorf("%q: the error %v has no offset in the input", in, err)
	}
	if err != nil && err.Error() == "" { // call Error, because fmt would hide a panic in it
		t.Errorf("%q: the error has no text", in)
	}
	if len(iet) <= wire.MagicSize {
		return
	}
	r, err := format.NewReader(bytes.NewReader(iet), nil)
	for err == nil {
		_, err = r.Next()
	}
	expect.Is(t, err, io.EOF, "%q: read the decoded trace", in)
}

// FuzzDecode decodes random input. The seeds are files in testdata.
func (f Format) FuzzDecode(fz *testing.F, samples ...string) {
	for _, name := range samples {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		Must(fz, err)
		fz.Add(b)
	}
	fz.Fuzz(func(t *testing.T, in []byte) { f.try(t, in) })
}

// Text decodes a text and encodes the result. It returns the output of Encode and the error of Decode.
func (f Format) Text(t *testing.T, in string) (string, error) {
	iet, err := f.Back(t.Context(), t, strings.NewReader(in), format.V2)
	return string(f.Bytes(t, Read(t, iet))), err
}

// Samples decodes files in testdata that other programs wrote. It encodes each NAME.json as OTLP and compares the
// result with the golden file NAME.otlp.jsonl. It reads the samples byte by byte. For half of a sample, Decode must
// return an error.
func (f Format) Samples(t *testing.T, names ...string) {
	for _, name := range names {
		sample, err := os.ReadFile(filepath.Join("testdata", name))
		Must(t, err)
		iet, err := f.Back(t.Context(), t, iotest.OneByteReader(bytes.NewReader(sample)), format.V2)
		Must(t, err)
		Golden(t, strings.TrimSuffix(name, ".json")+".otlp.jsonl", f.Bytes(t, Read(t, iet)))
		expect.Is(t, expect.Err(f.Back(t.Context(), t, bytes.NewReader(sample[:len(sample)/2]), format.V2)), format.ErrTruncated, "half of %s", name)
		expect.Is(t, expect.Err(f.Back(t.Context(), t, iotest.TimeoutReader(bytes.NewReader(sample)), format.V2)), iotest.ErrTimeout, "%s", name)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		expect.Is(t, expect.Err(f.Back(ctx, t, bytes.NewReader(sample), format.V2)), context.Canceled, "%s", name)
		f.hostile(t, sample)
	}
}

// Fuzz opens random input as a trace, encodes its complete entries, and checks the output.
func (f Format) Fuzz(fz *testing.F) {
	names, err := filepath.Glob(filepath.Join("..", "chrome", "testdata", "*.iet"))
	Must(fz, err)
	for _, name := range append(names, references(fz)...) {
		b, err := os.ReadFile(name)
		Must(fz, err)
		fz.Add(b)
	}
	fz.Fuzz(func(t *testing.T, in []byte) {
		name := filepath.Join(t.TempDir(), "trace")
		Must(t, os.WriteFile(name, in, 0o600))
		file, err := format.Open(name, nil)
		if err != nil {
			return
		}
		defer file.Close()
		v, err := view.New(t.Context(), []*format.File{file}, nil)
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := f.Encode(t.Context(), &b, v); err == nil {
			f.check(t, b.Bytes())
		}
	})
}

// Must ends the test if err is not nil.
var Must = expect.Must

// Write writes entries to a new file and returns its name.
func Write(t testing.TB, version format.Version, entries ...*format.TraceEntry) string {
	return tracetest.New(t, version, format.IET, entries...).Save("")
}

// Open returns a view of a file.
func Open(t testing.TB, name string) *view.View {
	t.Helper()
	f, err := format.Open(name, nil)
	Must(t, err)
	t.Cleanup(func() { Must(t, f.Close()) })
	return tracetest.View(t, f)
}

// Read returns a view of a file with the given bytes.
func Read(t testing.TB, file []byte) *view.View {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace")
	Must(t, os.WriteFile(name, file, 0o600)) //nolint:gosec // the folder is of the test
	return Open(t, name)
}

// View returns a view of a file with the given entries.
func View(t testing.TB, entries ...*format.TraceEntry) *view.View {
	return tracetest.New(t, format.V2, format.IET, entries...).View()
}

// Base is when the first span of Random begins.
const Base = 1_700_000_000_000_000_123

// Random returns the entries of a random trace, in which spans overlap in all possible ways. The same seed gives
// the same entries.
func Random(n int, seed uint64) []*format.TraceEntry {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // tests need the same traces each time
	entries := []*format.TraceEntry{format.Root(), (&otel.Resource{}).Entry(), (&otel.Resource{SchemaURL: "s"}).Entry()}
	for len(entries) < n {
		var e *format.TraceEntry
		switch r.IntN(6) {
		case 0:
			e = tracetest.Of(&otel.Event{Name: "event", Time: Base + r.Int64N(60), HasTime: r.IntN(4) > 0}, "")
		case 1:
			e = tracetest.Of(&otel.Log{Body: otel.Any{Kind: otel.String, Text: "log"}, Time: Base + r.Int64N(60), HasTime: r.IntN(4) > 0}, otel.Where{})
		case 2:
			e = tracetest.Of(&otel.Link{TraceID: [16]byte{15: 1}, SpanID: [8]byte{7: byte(r.IntN(40))}}, "")
		default:
			s := &otel.Span{
				Name: "span " + strconv.Itoa(len(entries)), TraceID: [16]byte{15: 1}, SpanID: [8]byte{7: byte(len(entries))},
				Start: Base + r.Int64N(50), Duration: r.Int64N(20), Ended: r.IntN(8) > 0, Kind: otel.KindInternal,
			}
			if r.IntN(3) == 0 {
				s.Parent = [8]byte{7: byte(r.IntN(40))}
			}
			e = tracetest.Of(s, otel.Where{})
		}
		e.Parent = uint32(r.IntN(len(entries)))
		entries = append(entries, e)
	}
	return entries
}
