package query_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

func Example() {
	ctx := context.Background()
	f, err := format.Open(filepath.Join("..", "convert", "folded", "testdata", "shop.iet"), nil)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	v, err := view.New(ctx, []*format.File{f}, nil)
	if err != nil {
		panic(err)
	}
	q, err := query.Parse(`{ name = "GET /cart" } >> { duration > 200ns }`)
	if err != nil {
		panic(err)
	}
	r, err := q.Run(ctx, v, nil)
	if err != nil {
		panic(err)
	}
	for _, row := range query.InTime(v, r.Rows) {
		took, _ := v.Duration(row)
		fmt.Printf("%q %v\n", v.Name(row), took)
	}
	// Output:
	// "SELECT; x\n" 300ns
	// "SELECT; x\n" 300ns
}

func ExampleParse() {
	_, err := query.Parse(`{ name = "GET /cart" && duration > }`)
	fmt.Println(err)
	// Output:
	// expected a value, found }, at 36 ("}"): as in duration > 100ms
}
