package slogadapter_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

func ExampleNew() {
	rec, err := recorder.Create(os.TempDir()+"/slogadapter-example.et", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(rec.Path())

	logger := slog.New(slogadapter.New(rec, nil))
	logger.WithGroup("order").Warn("out of stock", "id", 17, "missing", []string{"tea"})
	if err := rec.Close(context.Background()); err != nil {
		log.Fatal(err)
	}

	f, err := format.Open(rec.Path(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	e, err := f.Entry(1) // 0 is the root
	if err != nil {
		log.Fatal(err)
	}
	id, _ := e.Attribute("order.id")
	n, _ := id.I64()
	missing, _ := e.Attribute("order.missing")
	fmt.Println(e.Metadata.Level, e.Message.Value, n, missing.Text())
	// Output: WARN out of stock 17 ["tea"]
}

// Records go to a trace and to a handler of your own.
func ExampleNew_console() {
	rec, err := recorder.Create(os.TempDir()+"/slogadapter-both.et", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(rec.Path())

	console := slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	logger := slog.New(slog.NewMultiHandler(slogadapter.New(rec, nil), console))
	logger.Warn("out of stock", "id", 17)
	if err := rec.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output: level=WARN msg="out of stock" id=17
}
