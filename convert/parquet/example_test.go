package parquet_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

func Example() {
	f, err := format.Open(filepath.Join("..", "..", "format", "testdata", "v2.iet"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	v, err := view.New(context.Background(), []*format.File{f}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	var table, back bytes.Buffer
	if err := parquet.Encode(context.Background(), &table, v); err != nil {
		fmt.Println(err)
		return
	}
	w, err := format.NewWriter(&back, f.Version(), format.IET, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	err = parquet.Decode(context.Background(), &table, w)
	fmt.Println(err, w.Close(), int64(back.Len()) == f.Size())
	// Output: <nil> <nil> true
}
