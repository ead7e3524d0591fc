// Command slogonly records only log records, without a tracer.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

func main() {
	if err := run(context.Background(), "slogonly.et"); err != nil {
		fmt.Fprintln(os.Stderr, "slogonly:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) (err error) {
	rec, err := recorder.Create(path, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.Close(ctx)) }()
	// Records go to the trace and, as text, to the standard error.
	slog.SetDefault(slog.New(slog.NewMultiHandler(
		slogadapter.New(rec, &slogadapter.Options{Level: slog.LevelDebug}),
		slog.NewTextHandler(os.Stderr, nil),
	)))
	log := slog.With("job", "tidy up").WithGroup("file")
	for _, name := range []string{"a.tmp", "b.tmp"} {
		begun := time.Now()
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			log.Warn("nothing to remove", "name", name, "err", err)
			continue
		}
		log.Info("removed", "name", name, "took", time.Since(begun))
	}
	return nil
}
