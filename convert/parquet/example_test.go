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
	var table bytes.Buffer
	err = parquet.Encode(context.Background(), &table, v)
	fmt.Printf("%.4s %v\n", &table, err)
	// Output: PAR1 <nil>
}
