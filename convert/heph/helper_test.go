package heph

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/entryjson"
	"github.com/entrace-go/entrace/view"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return b
}

// samples returns the names of all files of packets.
func samples(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"testdata", filepath.Join(os.Getenv("ENTRACE_SAMPLES"), "heph")} {
		for _, pattern := range []string{"*.htf", "*.bin"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			must(t, err)
			names = append(names, found...)
		}
	}
	return names
}

// open opens the trace in b.
func open(t testing.TB, b []byte) *view.View {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace.et")
	must(t, os.WriteFile(name, b, 0o600))
	f, err := format.Open(name, nil)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	must(t, err)
	return v
}

// decode decodes packets to a trace.
func decoded(t testing.TB, in []byte, version format.Version) (*view.View, error) {
	t.Helper()
	var out bytes.Buffer
	w, err := format.NewWriter(&out, version, format.IET, nil)
	must(t, err)
	derr := Decode(t.Context(), bytes.NewReader(in), w)
	must(t, w.Close())
	return open(t, out.Bytes()), derr
}

func encoded(t testing.TB, v *view.View) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, Encode(t.Context(), &out, v))
	return out.Bytes()
}

// write makes a trace of entries.
func write(t testing.TB, entries ...*format.TraceEntry) *view.View {
	t.Helper()
	var out bytes.Buffer
	w, err := format.NewWriter(&out, format.V2, format.IET, nil)
	must(t, err)
	for _, e := range entries {
		_, err := w.Write(e)
		must(t, err)
	}
	must(t, w.Close())
	return open(t, out.Bytes())
}

// text is a trace as JSON lines.
func text(t testing.TB, v *view.View) string {
	t.Helper()
	var b []byte
	must(t, v.Files()[0].Walk(0, func(id uint32, e *format.TraceEntry) error {
		b = append(entryjson.Append(b, int64(id), e), '\n')
		return nil
	}))
	return string(b)
}

func attr(name string, v format.Value) format.Attribute {
	return format.Attribute{Name: name, Value: v}
}

// appendEvent appends the packet of e.
func appendEvent(b []byte, e *event) []byte {
	at := len(b)
	b = appendEventHead(b, e)
	for i := range e.Attributes {
		b = appendAttribute(b, &e.Attributes[i])
	}
	return setSize(b, at)
}
