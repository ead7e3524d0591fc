package chrome_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert/chrome"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// FuzzEncode opens anything, and writes what is whole in it.
func FuzzEncode(f *testing.F) {
	for _, pattern := range []string{filepath.Join("testdata", "*.iet"), filepath.Join("..", "..", "format", "testdata", "v*.*et*")} {
		names, err := filepath.Glob(pattern)
		must(f, err)
		for _, name := range names {
			b, err := os.ReadFile(name)
			must(f, err)
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		name := filepath.Join(t.TempDir(), "trace")
		must(t, os.WriteFile(name, in, 0o600))
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
		if err := chrome.Encode(t.Context(), &b, v, nil); err == nil {
			parse(t, b.Bytes())
		}
	})
}
