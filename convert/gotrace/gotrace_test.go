package gotrace_test

import (
	"bytes"
	"testing"

	"github.com/entrace-go/entrace/convert/gotrace"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

func viewOf(t *testing.T, entries ...*format.TraceEntry) *view.View {
	return converttest.Open(t, converttest.Write(t, format.V2, entries...))
}

func dump(data []byte) *format.TraceEntry {
	return &format.TraceEntry{Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace"}, Attributes: tracetest.Attributes("data", data)}
}

func TestEncode(t *testing.T) {
	data := bytes.Repeat([]byte("go 1.26 trace\x00\x00\x00"), 10_000) // Encode does not look at these bytes
	var b bytes.Buffer
	converttest.Must(t, gotrace.Encode(t.Context(), &b, viewOf(t, dump(data))))
	if !bytes.Equal(b.Bytes(), data) {
		t.Errorf("%d bytes became %d", len(data), b.Len())
	}
	expect.Is(t, gotrace.Encode(t.Context(), &b, viewOf(t)), gotrace.ErrNone, "without an execution trace")
	if err := gotrace.Encode(t.Context(), &b, viewOf(t, dump(data), dump(data))); err == nil {
		t.Error("one of two execution traces is written")
	}
}
