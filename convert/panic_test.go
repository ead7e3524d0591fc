package convert_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/view"
)

// panicking calls fn, which must panic, and checks that it leaves no file behind.
func panicking(t *testing.T, fn func(in, out string) error) {
	t.Helper()
	in, dir, temp := filepath.Join(t.TempDir(), "in.iet"), t.TempDir(), t.TempDir()
	b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	for range 5000 { // enough for Progress to be called
		b = format.AppendTraceEntry(b, format.V1, &format.TraceEntry{Metadata: format.Metadata{Name: "event"}, Message: format.Some("m")})
	}
	must(t, os.WriteFile(in, b, 0o600))
	t.Setenv("TMPDIR", temp)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("there was no panic")
			}
		}()
		t.Errorf("it returned %v", fn(in, filepath.Join(dir, "out.et")))
	}()
	for _, d := range []string{dir, temp} {
		list, err := os.ReadDir(d)
		must(t, err)
		for _, e := range list {
			t.Errorf("%s is left", filepath.Join(d, e.Name()))
		}
	}
}

// fill writes more entries than a Writer buffers.
func fill(w *format.Writer) {
	_, _ = w.Write(format.Root())
	for range 100_000 {
		_, _ = w.Write(&format.TraceEntry{Metadata: format.Metadata{Name: "event"}, Message: format.Some("m")})
	}
}

func TestPanicLeavesNoFile(t *testing.T) {
	boom := func(int64, int64) { panic("boom") }
	for name, fn := range map[string]func(in, out string) error{
		"a decoder": func(in, out string) error {
			return convert.FileFrom(t.Context(), in, out, func(_ context.Context, _ io.Reader, w *format.Writer) error { fill(w); panic("boom") }, convert.Options{})
		},
		"an encoder": func(in, out string) error {
			return convert.FileTo(t.Context(), in, out, func(context.Context, io.Writer, *view.View) error { panic("boom") }, convert.Options{})
		},
		"progress": func(in, out string) error {
			return convert.File(t.Context(), in, out, convert.Options{Version: format.V2, Progress: boom})
		},
		"progress of a finalization": func(in, out string) error {
			return convert.File(t.Context(), in, out, convert.Options{Progress: boom})
		},
		"a merge": func(in, out string) error {
			tr, err := convert.Open(t.Context(), []string{in}, nil)
			must(t, err)
			defer tr.Close()
			return tr.MergeFile(panicContext{t.Context()}, out, convert.Options{})
		},
	} {
		t.Run(name, func(t *testing.T) { panicking(t, fn) })
	}
}

// A panicContext is a context whose Err method panics.
type panicContext struct{ context.Context }

func (panicContext) Err() error { panic("boom") }

// TestPanickingInputLeavesNoFile checks decoders that copy their input to a temporary
// file, with a reader that panics.
func TestPanickingInputLeavesNoFile(t *testing.T) {
	for name, decode := range map[string]convert.Decoder{
		"otlp":    func(ctx context.Context, r io.Reader, w *format.Writer) error { return otlp.Decode(ctx, r, w, nil) },
		"parquet": func(ctx context.Context, r io.Reader, w *format.Writer) error { return parquet.Decode(ctx, r, w, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			panicking(t, func(string, string) error {
				w, err := format.NewWriter(io.Discard, 0, format.IET, nil)
				must(t, err)
				return decode(t.Context(), &panicReader{left: 64 << 20}, w)
			})
		})
	}
}

// A panicReader is a reader that panics after left bytes.
type panicReader struct{ left int }

func (r *panicReader) Read(b []byte) (int, error) {
	if r.left -= len(b); r.left < 0 {
		panic("boom")
	}
	return len(b), nil
}
