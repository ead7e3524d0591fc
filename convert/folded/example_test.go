package folded_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

func ExampleEncodeFolded() {
	f, err := format.Open(filepath.Join("testdata", "shop.iet"), nil)
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
	if err := folded.EncodeFolded(context.Background(), os.Stdout, v); err != nil {
		fmt.Println(err)
	}
	// Output:
	// cart;(unnamed) 1
	// cart;HTTP_200 100
	// cart;last 100
	// cart;renamed 50
	// unknown_service;GET /cart 400
	// unknown_service;GET /cart;SELECT: x 650
	// unknown_service;GET /cart;SELECT: x;row 50
}
