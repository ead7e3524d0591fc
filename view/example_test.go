package view_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

func Example() {
	f, err := format.Open(filepath.Join("..", "convert", "folded", "testdata", "shop.iet"), nil)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	v, err := view.New(context.Background(), []*format.File{f}, nil)
	if err != nil {
		panic(err)
	}
	err = v.Walk(0, func(r view.Row, depth int, _ bool) error {
		if took, ended := v.Duration(r); ended && v.Role(r) == view.RoleSpan {
			fmt.Printf("%s%q %v\n", strings.Repeat("  ", depth-1), v.Name(r), took)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// "HTTP 200" 100ns
	//   "renamed" 50ns
	//   "last" 100ns
	//   "" 1ns
	//   "nothing" 0s
	//   "GET /cart" 1µs
	//     "SELECT; x\n" 300ns
	//       "row" 50ns
	//     "SELECT; x\n" 300ns
	//     "SELECT; x\n" 100ns
}
