package measureme_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/entrace-go/entrace/convert/measureme"
	"github.com/entrace-go/entrace/format"
)

// This example converts a profile to a trace.
func ExampleDecode() {
	in, err := os.Open("testdata/gold.mm_profdata")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	var out bytes.Buffer
	w, err := format.NewWriter(&out, format.V2, format.IET, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = errors.Join(measureme.Decode(context.Background(), in, w), w.Close())
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := format.NewReader(&out, nil)
	for err == nil {
		var e *format.TraceEntry
		e, err = r.Next()
		if err == nil {
			fmt.Printf("%d %q %q\n", e.Parent, e.Metadata.Name, e.Message.Value)
		}
	}
	if !errors.Is(err, io.EOF) {
		fmt.Println(err)
	}
	// Output:
	// 0 "root" ""
	// 0 "resource" ""
	// 1 "label" ""
	// 2 "label" ""
	// 1 "event" "late"
	// 1 "event" "label"
}
