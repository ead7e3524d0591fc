package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// known adds the codec c as the format "test" until the test ends.
func known(t *testing.T, c codec) {
	t.Helper()
	c.Format = "test"
	before := codecs
	codecs = append([]*codec{&c}, codecs...)
	t.Cleanup(func() { codecs = before })
}

var must = expect.Must

// fill writes a root and other entries, entries in all.
func fill(t *testing.T, w *format.Writer, entries int) {
	t.Helper()
	for i := range entries {
		e := format.Root()
		if i > 0 {
			e = tracetest.Entry("entry")
		}
		expect.OK(t, expect.Err(w.Write(e)))
	}
}

// files returns the names of the files in a folder.
var files = hosttest.Names

// TestDamagedInput decodes a damaged input, with a view and without. The output must have the complete entries, and
// there must be an error. If no entry except the root is complete, or ctx is done, there must be no output.
func TestDamagedInput(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in")
	must(t, os.WriteFile(in, []byte("anything"), 0o600))
	damaged := errors.New("damaged")
	for _, x := range []struct {
		name    string
		entries int
		err     error
		cancel  bool
		there   bool
	}{
		{"whole", 2, nil, false, true},
		{"damaged", 2, damaged, false, true},
		{"nothing", 0, damaged, false, false},
		{"root alone", 1, damaged, false, false},
		{"empty", 1, nil, false, true},
		{"stopped", 2, nil, true, false},
	} {
		for _, once := range []bool{true, false} {
			t.Run(fmt.Sprint(x.name, " once=", once), func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				known(t, codec{decode: func(_ context.Context, r io.Reader, w *format.Writer) error {
					if b, err := io.ReadAll(r); err != nil || string(b) != "anything" {
						t.Errorf("the input is %q, %v", b, err)
					}
					fill(t, w, x.entries)
					if x.cancel {
						cancel()
					}
					return x.err
				}})
				out := hosttest.Path(t, "out.et")
				tr, err := Open(ctx, []string{in}, &OpenOptions{From: "test", Once: once})
				if tr != nil {
					err = errors.Join(err, tr.EncodeFile(ctx, out, ET, nil), tr.Close())
				}
				want := x.err
				if x.cancel {
					want = context.Canceled
				}
				expect.Is(t, err, want, "the error")
				if _, is := errors.AsType[*DamageError](err); is != (x.there && x.err != nil) {
					t.Errorf("the error is %T", err)
				}
				expect.Equal(t, len(files(t, filepath.Dir(out))) == 1, x.there, "the output is there")
				if !x.there {
					return
				}
				f := tracetest.OpenFile(t, out)
				if last, _ := f.Entry(uint32(f.Len() - 1)); last.IsEnd() != (x.err == nil) || f.Len() != x.entries && !last.IsEnd() {
					t.Errorf("%d entries, want %d, and the end of what is whole", f.Len(), x.entries)
				}
			})
		}
	}
}

// TestEncodeFileFails checks that the output gets its name only when it is complete, and that there is no output if
// the encoder fails.
func TestEncodeFileFails(t *testing.T) {
	for _, want := range []error{nil, errors.New("failed")} {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		known(t, codec{encode: func(_ context.Context, w io.Writer, v *view.View) error {
			expect.OK(t, expect.Err(fmt.Fprint(w, v.Len())))
			if _, err := os.Lstat(out); err == nil {
				t.Error("the output is there before it is complete")
			}
			return want
		}})
		tr, err := Open(t.Context(), []string{filepath.Join("..", "format", "testdata", "v1.et")}, &OpenOptions{Once: want == nil})
		must(t, err)
		expect.Is(t, tr.EncodeFile(t.Context(), out, "test", nil), want, "the error")
		must(t, tr.Close())
		if names := files(t, dir); (len(names) == 1) != (want == nil) {
			t.Errorf("the folder has %v", names)
		}
	}
}

// TestPanicOfCodec checks that no file is left behind if a decoder or an encoder panics.
func TestPanicOfCodec(t *testing.T) {
	temp, dir := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	known(t, codec{
		decode: func(_ context.Context, _ io.Reader, w *format.Writer) error { fill(t, w, 100_000); panic("boom") },
		encode: func(context.Context, io.Writer, *view.View) error { panic("boom") },
	})
	in := filepath.Join("..", "format", "testdata", "v1.et")
	for _, x := range []struct{ from, to Format }{{"test", ET}, {"", "test"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("there was no panic")
				}
			}()
			tr, err := Open(t.Context(), []string{in}, &OpenOptions{From: x.from, Once: true})
			must(t, err)
			defer tr.Close()
			t.Errorf("it returned %v", tr.EncodeFile(t.Context(), filepath.Join(dir, "out"), x.to, nil))
		}()
	}
	if names := append(files(t, temp), files(t, dir)...); len(names) > 0 {
		t.Errorf("%v is left", names)
	}
}

// TestFormatErrors checks the errors for unknown formats, and for formats that cannot be read or written.
func TestFormatErrors(t *testing.T) {
	in := filepath.Join("..", "format", "testdata", "v1.et")
	for _, from := range []Format{"nothing", "chrome"} {
		_, err := Open(t.Context(), []string{in}, &OpenOptions{From: from})
		if e, ok := errors.AsType[*FormatError](err); !ok || e.Format != from || e.Write {
			t.Errorf("from %s: %v", from, err)
		}
	}
	tr, err := Open(t.Context(), []string{in}, nil)
	must(t, err)
	defer tr.Close()
	if e, ok := errors.AsType[*FormatError](tr.Encode(t.Context(), io.Discard, "nothing", nil)); !ok || !e.Write {
		t.Errorf("to nothing: %v", e)
	}
}
