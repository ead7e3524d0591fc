package otlp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A counter counts the bytes that are written to it.
type counter struct{ n int64 }

func (c *counter) Write(b []byte) (int, error) {
	c.n += int64(len(b))
	return len(b), nil
}

// TestScopesBudget decodes a large scope of many spans. Each span has a copy of the scope, so without a limit the
// output of a small input could have any size.
func TestScopesBudget(t *testing.T) {
	const n = 1000
	attrs := strings.Repeat(`{"key":"a","value":{"boolValue":true}},`, 10*n)
	var b strings.Builder
	b.WriteString(`{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"x","attributes":[` + attrs[:len(attrs)-1] + `]},"spans":[`)
	for i := range 4 * n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"traceId":"01000000000000000000000000000000","spanId":"%016x","name":"n"}`, i+1)
	}
	b.WriteString(`]}]}]}` + "\n")
	var c counter
	w, err := format.NewWriter(&c, format.V2, format.IET, nil)
	must(t, err)
	expect.Is(t, otlp.Decode(t.Context(), strings.NewReader(b.String()), w, nil), format.ErrTooLarge, "Decode")
	if err := w.Close(); err != nil || c.n > 1<<29 || w.Len() < 10 {
		t.Errorf("%d bytes and %d entries of %d bytes, %v", c.n, w.Len(), b.Len(), err)
	}
}
