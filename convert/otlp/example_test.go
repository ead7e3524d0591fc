package otlp_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/entrace-go/entrace/convert/otlp"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// This example converts a file of the Collector to a trace file, and the trace file back to OTLP.
func Example() {
	const line = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"cart"}}]},` +
		`"scopeSpans":[{"scope":{"name":"shop"},"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"aaaaaaaaaaaaaaaa",` +
		`"flags":257,"name":"GET /cart","kind":2,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000000004096","status":{}}]}]}]}`
	if err := run(line); err != nil {
		fmt.Println(err)
	}
	// Output:
	// {"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"cart"}}]},"scopeSpans":[{"scope":{"name":"shop"},"spans":[{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"aaaaaaaaaaaaaaaa","flags":257,"name":"GET /cart","kind":2,"startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000000004096","status":{}}]}]}]}
}

func run(line string) error {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var trace bytes.Buffer
	w, err := format.NewWriter(&trace, 0, format.ET, nil)
	if err != nil {
		return err
	}
	if err := otlp.Decode(context.Background(), strings.NewReader(line), w, nil); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	name := filepath.Join(dir, "cart.et")
	if err := os.WriteFile(name, trace.Bytes(), 0o600); err != nil {
		return err
	}
	f, err := format.Open(name, nil)
	if err != nil {
		return err
	}
	defer f.Close()
	v, err := view.New(context.Background(), []*format.File{f}, nil)
	if err != nil {
		return err
	}
	return otlp.Encode(context.Background(), os.Stdout, v, nil)
}
