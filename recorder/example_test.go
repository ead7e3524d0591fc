package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

func ExampleCreate() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	rec, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("while it runs:", filepath.Base(rec.StreamPath()))
	_, err = rec.Append(&format.TraceEntry{
		Message:    format.Some("an entry of my own"),
		Metadata:   format.Metadata{Name: "event", Level: format.LevelInfo},
		Attributes: []format.Attribute{{Name: "n", Value: format.I64Value(1)}},
	})
	err = errors.Join(err, rec.Close(context.Background()))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("at the end:", filepath.Base(rec.Path()))
	// Output:
	// while it runs: app.iet
	// at the end: app.et
}
