package heph_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/entrace-go/entrace/convert/heph"
	"github.com/entrace-go/entrace/format"
)

func ExampleDecode() {
	in, err := os.Open(filepath.Join("testdata", "real-plain.htf"))
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
	if err := errors.Join(heph.Decode(context.Background(), in, w), w.Close()); err != nil {
		fmt.Println(err)
		return
	}
	r, err := format.NewReader(&out, nil)
	for err == nil {
		var e *format.TraceEntry
		e, err = r.Next()
		if err == nil {
			fmt.Println(r.ID(), "below", e.Parent, e.Metadata.Name)
		}
	}
	// Output:
	// 0 below 0 root
	// 1 below 0 heph.option
	// 2 below 0 outer
	// 3 below 2 inner
	// 4 below 0 rt
	// 5 below 0 coord
}
