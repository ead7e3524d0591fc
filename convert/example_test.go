package convert_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// This example converts a file. Once avoids a view of all rows, which only queries need.
func ExampleTrace_EncodeFile() {
	ctx := context.Background()
	t, err := convert.Open(ctx, []string{filepath.Join("..", "format", "testdata", "v1.iet")}, &convert.OpenOptions{Once: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "v2.et")
	if err := t.EncodeFile(ctx, out, convert.ET, &convert.Options{Version: format.V2}); err != nil {
		fmt.Println(err)
		return
	}
	r, err := recorder.Inspect(out)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Format, r.Version, r.Entries, r.Reason)
	// Output: et 2 333 clean
}

// This example opens a file of another format as a view. If a file is damaged, the error says so, and the view has
// the rest.
func ExampleOpen() {
	t, err := convert.Open(context.Background(), []string{filepath.Join("otlp", "testdata", "collector-traces.jsonl")}, nil)
	if damage, ok := errors.AsType[*convert.DamageError](err); ok {
		fmt.Println("damaged:", damage)
	} else if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	for i := range t.View().Files() {
		fmt.Println(t.Format(i), t.View().Entries(i), "entries of", t.View().Services())
	}
	// Output: otlp 229 entries of [cart]
}
