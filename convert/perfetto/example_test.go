package perfetto_test

import (
	"bytes"
	"context"
	"fmt"

	"github.com/entrace-go/entrace/convert/perfetto"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

func Example() {
	n, err := size("../chrome/testdata/sample.iet")
	fmt.Println("a trace was written:", n > 0, err)
	// Output:
	// a trace was written: true <nil>
}

func size(name string) (int, error) {
	f, err := format.Open(name, nil)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	v, err := view.New(context.Background(), []*format.File{f}, nil)
	if err != nil {
		return 0, err
	}
	var b bytes.Buffer // usually a file, which https://ui.perfetto.dev opens
	err = perfetto.Encode(context.Background(), &b, v)
	return b.Len(), err
}
