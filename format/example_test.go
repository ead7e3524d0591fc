package format_test

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/entrace-go/entrace/format"
)

func ExampleOpen() {
	f, err := format.Open("testdata/v1.et", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	e, err := f.Entry(2)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Len(), "entries, and entry 2 is", e.Metadata.Name, "below", e.Parent)
	kids := f.Children(2)
	fmt.Println(len(kids), "children, the first is", kids[0])
	// Output:
	// 333 entries, and entry 2 is many below 0
	// 300 children, the first is 3
}

func ExampleNewReader() {
	in, err := os.Open("testdata/v2.ietprefix") // or any other stream
	if err != nil {
		fmt.Println(err)
		return
	}
	defer in.Close()
	r, err := format.NewReader(in, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	levels := make(map[format.Level]int)
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		levels[e.Metadata.Level]++
	}
	fmt.Println(r.Format(), "of version", r.Version(), "with", levels[format.LevelWarn], "warnings")
	// Output: ietprefix of version 2 with 4 warnings
}
