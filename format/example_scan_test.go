package format_test

import (
	"context"
	"fmt"

	"github.com/entrace-go/entrace/format"
)

func ExampleFile_Scan() {
	f, err := format.Open("testdata/v2.et", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	var found, sum uint64
	o := &format.ScanOptions{Attributes: []string{"i", "square"}}
	err = f.Scan(context.Background(), o, func(batch *format.ScanBatch) error {
		for _, e := range batch.Entries {
			i, square := e.Values[0], e.Values[1]
			if n, ok := i.Value.U64(); ok && i.Valid && n >= 298 {
				n, _ = square.Value.U64()
				found, sum = found+1, sum+n
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(found, "entries whose squares are", sum, "in all")
	// Output: 2 entries whose squares are 178205 in all
}
