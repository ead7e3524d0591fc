package convert_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var must = expect.Must

var read = tracetest.ReadFile

// fixture returns the name of a file that the crate entrace_core wrote.
func fixture(v format.Version, f format.StorageFormat) string {
	return filepath.Join("..", "format", "testdata", fmt.Sprintf("v%d.%v", v, f))
}

var formats = []format.StorageFormat{format.ET, format.IET, format.IETPrefix}

// encodeOnce converts the trace in r to the format to, and writes it to w.
func encodeOnce(ctx context.Context, w io.Writer, r io.Reader, to format.StorageFormat, o *convert.Options) error {
	tr, err := convert.Open(ctx, []string{"-"}, &convert.OpenOptions{Stdin: r, Once: true})
	if err != nil {
		return err
	}
	return errors.Join(tr.Encode(ctx, w, convert.Format(to.String()), o), tr.Close())
}

// encodeFile converts the file in to the new file out.
func encodeFile(ctx context.Context, in, out string, to convert.Format, o *convert.Options) error {
	tr, err := convert.Open(ctx, []string{in}, &convert.OpenOptions{Once: true})
	if err != nil {
		return err
	}
	return errors.Join(tr.EncodeFile(ctx, out, to, o), tr.Close())
}

func stream(t testing.TB, in []byte, to format.StorageFormat, v format.Version) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, encodeOnce(t.Context(), &out, bytes.NewReader(in), to, &convert.Options{Version: v}))
	return out.Bytes()
}

// TestFormatsOfOneVersion converts each of the crate's files to each of the other formats. The files have the same
// trace, so the result must be equal to the crate's file.
func TestFormatsOfOneVersion(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		for _, from := range formats {
			for _, to := range formats {
				want := read(t, fixture(v, to))
				if got := stream(t, read(t, fixture(v, from)), to, 0); !bytes.Equal(got, want) {
					t.Errorf("version %d, stream of %v to %v differs from the crate's", v, from, to)
				}
				out := hosttest.Path(t, "out")
				must(t, encodeFile(t.Context(), fixture(v, from), out, convert.Format(to.String()), nil))
				if !bytes.Equal(read(t, out), want) {
					t.Errorf("version %d, file of %v to %v differs from the crate's", v, from, to)
				}
			}
		}
	}
}

// TestSizes converts traces there and back. Their offsets and ids need every possible number of bytes.
func TestSizes(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		iet := wire.AppendMagic(nil, v, format.IET)
		for n := range 1000 {
			e := format.Root()
			if n > 0 {
				e = tracetest.Below(uint32(n/3), tracetest.Entry(strings.Repeat("n", n%150)))
				e.Attributes = tracetest.Attributes("k", uint64(n))
			}
			if n < 40 || n%97 == 0 {
				et := stream(t, iet, format.ET, 0)
				back := stream(t, et, format.IET, 0)
				again := stream(t, back, format.ET, 0)
				if !bytes.Equal(back, iet) || !bytes.Equal(again, et) {
					t.Errorf("version %d, %d entries: not the same there and back", v, n)
				}
			}
			iet = format.AppendTraceEntry(iet, v, e)
		}
	}
}

// TestVersions converts version 1 to 2, and 2 to 1.
func TestVersions(t *testing.T) {
	e := tracetest.Entry("e",
		"b", uint64(1),
		"a", uint64(2),
		"b", uint64(3),
		"B", uint64(4),
		"a", uint64(5),
	)
	sorted := *e
	sorted.Attributes = []format.Attribute{e.Attributes[3], e.Attributes[1], e.Attributes[4], e.Attributes[0], e.Attributes[2]}
	file := func(v format.Version, e *format.TraceEntry) []byte {
		b := format.AppendTraceEntry(wire.AppendMagic(nil, v, format.IET), v, format.Root())
		return format.AppendTraceEntry(b, v, e)
	}
	v2 := stream(t, file(format.V1, e), format.IET, format.V2)
	expect.Slice(t, v2, file(format.V2, &sorted), "version 1 to 2")
	v1 := stream(t, v2, format.IET, format.V1)
	expect.Slice(t, v1, file(format.V1, &sorted), "version 2 to 1")
	// A conversion of a real file from 2 to 1 and back loses nothing.
	theirs := read(t, fixture(format.V2, format.ET))
	v1 = stream(t, theirs, format.ET, format.V1)
	if got := stream(t, v1, format.ET, format.V2); !bytes.Equal(got, theirs) {
		t.Error("version 2 to 1 to 2 is another file")
	}
}

func TestTornInput(t *testing.T) {
	for _, from := range formats {
		whole := read(t, fixture(format.V1, from))
		in := hosttest.Path(t, "in")
		must(t, os.WriteFile(in, whole[:len(whole)-3], 0o600))
		for _, to := range formats {
			out := hosttest.Path(t, "out")
			expect.Is(t, encodeFile(t.Context(), in, out, convert.Format(to.String()), nil), format.ErrTruncated, "%v to %v", from, to)
			f, err := format.Open(out, nil)
			if err != nil {
				t.Errorf("%v to %v: %v", from, to, err)
				continue
			}
			if f.Len() != 332 || f.Damage() != nil {
				t.Errorf("%v to %v: %d entries, %v; want 332 whole ones", from, to, f.Len(), f.Damage())
			}
			must(t, f.Close())
		}
	}
}

// TestCorruptInput converts a corrupt file to each format. The output must have the complete entries, and there must be
// an error.
func TestCorruptInput(t *testing.T) {
	for _, from := range formats {
		b := read(t, fixture(format.V1, from))
		copy(b[len(b)/5:], bytes.Repeat([]byte{0xff}, 300))
		in := hosttest.Path(t, "in")
		must(t, os.WriteFile(in, b, 0o600))
		for _, to := range formats {
			out := hosttest.Path(t, "out")
			err := encodeFile(t.Context(), in, out, convert.Format(to.String()), nil)
			_, damaged := errors.AsType[*convert.DamageError](err)
			if _, corrupt := errors.AsType[*format.CorruptError](err); !damaged || !corrupt {
				t.Errorf("%v to %v: %v, want a DamageError of a CorruptError", from, to, err)
			}
			f, err := format.Open(out, nil)
			if err != nil {
				t.Errorf("%v to %v: %v", from, to, err)
				continue
			}
			if f.Len() < 100 || f.Len() > 330 || f.Damage() != nil {
				t.Errorf("%v to %v: %d entries, %v; want whole ones", from, to, f.Len(), f.Damage())
			}
			must(t, f.Close())
		}
	}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.iet")
	whole := read(t, fixture(format.V1, format.IET))
	must(t, os.WriteFile(in, whole, 0o600))
	must(t, os.Link(in, filepath.Join(dir, "hard.et")))
	tracetest.Symlink(t, in, filepath.Join(dir, "soft.et"))
	must(t, os.WriteFile(filepath.Join(dir, "there.et"), []byte("x"), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	corrupt := bytes.Clone(whole)
	corrupt[10] = 9
	must(t, os.WriteFile(filepath.Join(dir, "corrupt.iet"), corrupt, 0o600))
	before := fmt.Sprint(os.ReadDir(dir))
	for _, x := range []struct {
		in, out string
		force   bool
		want    error // nil: the error must say that the files are the same
	}{
		{"in.iet", "in.iet", true, nil},
		{"in.iet", "hard.et", true, nil},
		{"in.iet", "soft.et", true, nil},
		{"in.iet", "there.et", false, fs.ErrExist},
		{"in.iet", "folder", true, format.ErrNotRegular},
		{"in.iet", "missing/x.et", false, fs.ErrNotExist},
		{"missing.iet", "x.et", false, fs.ErrNotExist},
		{"folder", "x.et", false, convert.ErrNoTrace},
		{"there.et", "x.et", false, format.ErrNotEntrace},
		{"corrupt.iet", "x.et", false, format.ErrInvalid},
	} {
		err := encodeFile(t.Context(), filepath.Join(dir, x.in), filepath.Join(dir, x.out), convert.ET, &convert.Options{Replace: x.force})
		if x.want == nil && !strings.Contains(fmt.Sprint(err), "are the same file") || !errors.Is(err, x.want) && x.want != nil {
			t.Errorf("%s to %s: %v, want %v", x.in, x.out, err, x.want)
		}
		if after := fmt.Sprint(os.ReadDir(dir)); after != before {
			t.Fatalf("%s to %s: the folder had %s and has %s", x.in, x.out, before, after)
		}
		if !bytes.Equal(read(t, in), whole) {
			t.Fatalf("%s to %s: the input changed", x.in, x.out)
		}
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	must(t, os.WriteFile(kept, []byte("x"), 0o600))
	for _, name := range []string{"file.et", "link.et"} {
		out := filepath.Join(dir, name)
		if name == "link.et" {
			tracetest.Symlink(t, kept, out)
		} else {
			must(t, os.WriteFile(out, []byte("old"), 0o644))
		}
		must(t, encodeFile(t.Context(), fixture(format.V2, format.IET), out, convert.ET, &convert.Options{Replace: true}))
		if !bytes.Equal(read(t, out), read(t, fixture(format.V2, format.ET))) {
			t.Errorf("%s is not the ET", name)
		}
		fi, err := os.Lstat(out)
		must(t, err)
		if !fi.Mode().IsRegular() || runtime.GOOS != "windows" && fi.Mode() != 0o600 {
			t.Errorf("%s has mode %v, want a file of 0600", name, fi.Mode())
		}
	}
	if string(read(t, kept)) != "x" {
		t.Error("what a link led to was replaced")
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := hosttest.Path(t, "out.et")
	err := encodeFile(ctx, fixture(format.V1, format.IET), out, convert.ET, nil)
	expect.Is(t, err, context.Canceled, "File")
	expect.Len(t, hosttest.Names(t, filepath.Dir(out)), 0, "the folder has")
}

// A failingWriter behaves like a disk that becomes full.
type failingWriter struct{ n int }

func (w *failingWriter) Write(b []byte) (int, error) {
	w.n -= len(b)
	if w.n < 0 {
		return 0, errFull
	}
	return len(b), nil
}

var errFull = errors.New("full")

func TestStreamWriteFails(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	in := read(t, fixture(format.V1, format.IET))
	for _, to := range formats {
		for _, room := range []int{0, 5, 1000, 100000} {
			err := encodeOnce(t.Context(), &failingWriter{room}, bytes.NewReader(in), to, nil)
			expect.Is(t, err, errFull, "%v with room for %d bytes", to, room)
		}
	}
	expect.Len(t, hosttest.Names(t, temp), 0, "temporary files")
}

func BenchmarkStream(b *testing.B) {
	in := read(b, fixture(format.V1, format.IET))
	for _, to := range formats {
		for _, v := range tracetest.BothVersions {
			b.Run(fmt.Sprintf("to=%v/version=%d", to, v), func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(in)))
				for b.Loop() {
					must(b, encodeOnce(b.Context(), io.Discard, bytes.NewReader(in), to, &convert.Options{Version: v}))
				}
			})
		}
	}
}

// TestReplaceNoRecording checks that a conversion does not write to the name of a recording.
func TestReplaceNoRecording(t *testing.T) {
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), nil)
	must(t, rec.Log(format.SpanRef{}, tracetest.Log("said")))
	in := fixture(format.V1, format.IET)
	for _, replace := range []bool{false, true} {
		if err := encodeFile(t.Context(), in, rec.StreamPath(), convert.ET, &convert.Options{Replace: replace}); !errors.Is(err, format.ErrLocked) && replace || err == nil {
			t.Errorf("replace %v: %v, want ErrLocked", replace, err)
		}
	}
	expect.Is(t, encodeFile(t.Context(), in, rec.Path(), convert.ET, nil), format.ErrLocked, "to what the recording will be")
	must(t, rec.Close(t.Context()))
	f := tracetest.OpenFile(t, rec.Path())
	expect.Equal(t, f.Len(), 3, "entries of the recording")
	must(t, encodeFile(t.Context(), in, rec.Path(), convert.ET, &convert.Options{Replace: true})) // now no process records to it
}

// TestConvertRoundTrip converts traces of many sizes to each format and back.
func TestConvertRoundTrip(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		var sizes []int
		for n := range 40 {
			sizes = append(sizes, n)
		}
		for _, n := range append(sizes, 250, 251, 252, 1000) {
			dir := t.TempDir()
			b := wire.AppendMagic(nil, v, format.IET)
			for i := range n {
				e := tracetest.Entry(fmt.Sprint("entry ", i))
				if i == 0 {
					e = format.Root()
				} else {
					e.Parent = uint32(i / 2)
				}
				if i%100 == 99 {
					e.Message = format.Some(strings.Repeat("m", 1<<16))
				}
				b = format.AppendTraceEntry(b, v, e)
			}
			in := filepath.Join(dir, "a.iet")
			must(t, os.WriteFile(in, b, 0o600))
			from := in
			for i, f := range []format.StorageFormat{format.ET, format.IETPrefix, format.ET, format.IET} {
				to := filepath.Join(dir, fmt.Sprint(i, ".", f))
				tr, err := convert.Open(t.Context(), []string{from}, &convert.OpenOptions{Once: true})
				must(t, err)
				must(t, errors.Join(tr.EncodeFile(t.Context(), to, convert.Format(f.String()), nil), tr.Close()))
				from = to
			}
			if !bytes.Equal(read(t, from), b) {
				t.Errorf("version %d: an IET of %d entries is not what it was", v, n)
			}
		}
	}
}
