package input_test

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/input"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

var must = expect.Must

// content returns n bytes in which no two parts of a page are equal.
func content(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		b.WriteString(strings.Repeat(string(rune('a'+i%26)), 1+i%1021))
	}
	return b.String()[:n]
}

// file returns an open file with text, after seven bytes that were already read.
func file(t *testing.T, text string) *os.File {
	t.Helper()
	name := hosttest.Path(t, "in")
	must(t, os.WriteFile(name, []byte("skipped"+text), 0o600))
	f, err := os.Open(name)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	must(t, expect.Err(f.Seek(7, io.SeekStart)))
	return f
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// TestReaders opens readers of all kinds, whose content is kept in different ways.
func TestReaders(t *testing.T) {
	broken := errors.New("broken")
	for _, size := range []int{0, 1, 900 << 10, 2 << 20, 9 << 20} {
		text := content(size)
		pr, pw, err := os.Pipe()
		must(t, err)
		defer pr.Close()
		go func() {
			defer pw.Close()
			_, _ = io.WriteString(pw, text)
		}()
		temp := t.TempDir()
		for name, r := range map[string]io.Reader{
			"file": file(t, text), "file that counts": struct{ *os.File }{file(t, text)}, "pipe": pr, "seeker": strings.NewReader(text),
			"stream": struct{ io.Reader }{strings.NewReader(text)}, "broken": io.MultiReader(strings.NewReader(text), errReader{broken}),
		} {
			in, err := input.Open(t.Context(), r, temp)
			expect.MustIs(t, err, nil, "%d bytes, %s", size, name)
			expect.Equal(t, in.Size(), int64(size), "%d bytes, %s: the size", size, name)
			if err := in.View(func(b []byte) error {
				if string(b) != text {
					t.Errorf("%d bytes, %s: View has other bytes", size, name)
				}
				return nil
			}); err != nil {
				t.Errorf("%d bytes, %s: %v", size, name, err)
			}
			if want := name == "broken"; errors.Is(in.Err(), broken) != want {
				t.Errorf("%d bytes, %s: the error is %v", size, name, in.Err())
			}
			expect.Is(t, in.Close(), nil, "%d bytes, %s: Close", size, name)
			expect.Len(t, hosttest.Names(t, temp), 0, "%d bytes, %s: files that are left", size, name)
		}
	}
}

// TestShrunkFile truncates a file that is mapped.
func TestShrunkFile(t *testing.T) {
	f := file(t, content(2<<20))
	in, err := input.Open(t.Context(), f, "")
	must(t, err)
	defer in.Close()
	if runtime.GOOS == "windows" {
		t.Skip("a file that is mapped cannot be cut")
	}
	must(t, os.Truncate(f.Name(), 100))
	sum := byte(0)
	err = in.View(func(b []byte) error {
		for _, c := range b {
			sum += c
		}
		return nil
	})
	expect.Is(t, err, format.ErrShrunk, "View of a file that was cut")
}

func TestEndOfContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Is(t, expect.Err(input.Open(ctx, strings.NewReader("text"), "")), context.Canceled, "the error")
}

// TestNoTempDir reads more than fits into memory, without a folder for the temporary file. The beginning must be in
// the Input.
func TestNoTempDir(t *testing.T) {
	text := content(9 << 20)
	in, err := input.Open(t.Context(), struct{ io.Reader }{strings.NewReader(text)}, hosttest.Path(t, "missing"))
	must(t, err)
	defer in.Close()
	if !errors.Is(in.Err(), os.ErrNotExist) || in.Size() < 7<<20 {
		t.Errorf("%d bytes and the error %v, want 8 MiB and that there is no folder", in.Size(), in.Err())
	}
	must(t, in.View(func(b []byte) error {
		if !strings.HasPrefix(text, string(b)) {
			t.Error("View has other bytes")
		}
		return nil
	}))
}
