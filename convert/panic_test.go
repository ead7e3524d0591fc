package convert_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// panicking calls fn, which must panic, and checks that no file is left behind.
func panicking(t *testing.T, fn func(in, out string) error) {
	t.Helper()
	in, dir, temp := hosttest.Path(t, "in.iet"), t.TempDir(), t.TempDir()
	b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	for range 5000 { // enough to call Progress
		b = format.AppendTraceEntry(b, format.V1, tracetest.Log("m"))
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
		expect.Len(t, hosttest.Names(t, d), 0, "files in %s", d)
	}
}

func TestPanicLeavesNoFile(t *testing.T) {
	boom := func(int64, int64) { panic("boom") }
	once := func(in, out string, to convert.Format, o *convert.OpenOptions) error {
		o.Once = true
		tr, err := convert.Open(t.Context(), []string{in}, o)
		must(t, err)
		defer tr.Close()
		return tr.EncodeFile(t.Context(), out, to, &convert.Options{Version: format.V2})
	}
	for name, fn := range map[string]func(in, out string) error{
		"progress": func(in, out string) error {
			return once(in, out, convert.IET, &convert.OpenOptions{Progress: boom})
		},
		"progress of a finalization": func(in, out string) error {
			tr, err := convert.Open(t.Context(), []string{in}, &convert.OpenOptions{Progress: boom, Once: true})
			must(t, err)
			defer tr.Close()
			return tr.EncodeFile(t.Context(), out, convert.ET, nil)
		},
		"a merge": func(in, out string) error {
			tr, err := convert.Open(t.Context(), []string{in}, nil)
			must(t, err)
			defer tr.Close()
			return tr.EncodeFile(panicContext{t.Context()}, out, convert.ET, nil)
		},
	} {
		t.Run(name, func(t *testing.T) { panicking(t, fn) })
	}
}

// A panicContext is a context whose Err method panics.
type panicContext struct{ context.Context }

func (panicContext) Err() error { panic("boom") }

// TestPanickingInputLeavesNoFile decodes from a reader that panics, with decoders that copy their input to a
// temporary file.
func TestPanickingInputLeavesNoFile(t *testing.T) {
	for name, decode := range map[string]func(ctx context.Context, r io.Reader, w *format.Writer) error{
		"otlp": func(ctx context.Context, r io.Reader, w *format.Writer) error { return otlp.Decode(ctx, r, w, nil) },
		"heph": heph.Decode,
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

// A panicReader returns left bytes and then panics.
type panicReader struct{ left int }

func (r *panicReader) Read(b []byte) (int, error) {
	r.left -= len(b)
	if r.left < 0 {
		panic("boom")
	}
	return len(b), nil
}
