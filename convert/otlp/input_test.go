package otlp_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
)

// TestReaders reads from all that Decode treats differently.
func TestReaders(t *testing.T) {
	line := spans(span("A", spanA, spanB))
	in := strings.Repeat(line, 9<<20/len(line)) + spans(span("B", spanB, ""))
	want := strings.Count(in, "\n")
	name := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(name, []byte("skipped"+in), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Close()
	go func() {
		defer pw.Close()
		_, _ = io.WriteString(pw, in)
	}()
	broken := errors.New("broken")
	temp := t.TempDir()
	for name, r := range map[string]io.Reader{
		"file": file, "pipe": pr, "seeker": strings.NewReader(in), "stream": struct{ io.Reader }{strings.NewReader(in)},
		"broken": io.MultiReader(strings.NewReader(in), errReader{broken}),
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			w, err := format.NewWriter(&b, 0, format.IET, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = otlp.Decode(t.Context(), r, w, &otlp.DecodeOptions{TempDir: temp})
			if name == "broken" && !errors.Is(err, broken) || name != "broken" && err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			rd, err := format.NewReader(&b, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := -2 // root and resource
			for _, err = rd.Next(); err == nil; _, err = rd.Next() {
				got++
			}
			if got != want {
				t.Errorf("%d spans, want %d", got, want)
			}
			left, err := os.ReadDir(temp)
			if err != nil || len(left) > 0 {
				t.Errorf("temporary files that are left: %v, %v", left, err)
			}
		})
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }
