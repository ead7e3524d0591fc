package heph

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/entryjson"
	"github.com/entrace-go/entrace/view"
)

var converter = converttest.Format{Encode: Encode, Decode: Decode, Lossy: true}

func TestConverter(t *testing.T) { converter.Run(t) }

func read(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	converttest.Must(t, err)
	return b
}

// samples returns the names of all files of packets.
func samples(t testing.TB) []string {
	t.Helper()
	var names []string
	for _, dir := range []string{"testdata", filepath.Join(os.Getenv("ENTRACE_SAMPLES"), "heph")} {
		for _, pattern := range []string{"*.htf", "*.bin"} {
			found, err := filepath.Glob(filepath.Join(dir, pattern))
			converttest.Must(t, err)
			names = append(names, found...)
		}
	}
	return names
}

// open opens the trace in b.
func open(t testing.TB, b []byte) *view.View {
	t.Helper()
	name := filepath.Join(t.TempDir(), "trace.et")
	converttest.Must(t, os.WriteFile(name, b, 0o600))
	return converttest.Open(t, name)
}

// decoded decodes packets to a trace.
func decoded(t testing.TB, in []byte, version format.Version) (*view.View, error) {
	t.Helper()
	out, err := converter.Back(t.Context(), t, bytes.NewReader(in), version)
	return open(t, out), err
}

// text is a trace as JSON lines.
func text(t testing.TB, v *view.View) string {
	t.Helper()
	var b []byte
	converttest.Must(t, v.Files()[0].Walk(0, func(id uint32, e *format.TraceEntry) error {
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
