package main

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/format"
)

func (a *app) tailCommand() *cobra.Command {
	var follow, asJSON bool
	n := 10
	c := &cobra.Command{
		Use:   "tail FILE",
		Short: "Print the last entries of a trace, and with -f those to come",
		Long: "tail prints the last entries of FILE as cat does. With -f it goes on with those\n" +
			"that a running program adds, each once and whole, until the program ends or tail\n" +
			"is interrupted.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tail(cmd.Context(), args[0], n, follow, asJSON)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "wait for more")
	c.Flags().IntVarP(&n, "lines", "n", n, "how many entries to begin with, -1 for all")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an entry")
	return fileArgs(c, 1)
}

func (a *app) tail(ctx context.Context, name string, n int, follow, asJSON bool) error {
	if follow && name == "-" {
		return usagef("tail -f needs a file")
	}
	seekable, done, err := a.seekable(name)
	if err != nil {
		return err
	}
	defer done()
	f, err := a.openTrace(seekable, &format.OpenOptions{Prefix: true})
	if err != nil {
		return torn(name, err)
	}
	path, length, damage := f.Name(), f.Len(), f.Damage()
	from := 0
	if n >= 0 {
		from = max(0, length-n)
	}
	var line []byte
	show := func(id uint32, e *format.TraceEntry) error {
		line = a.appendLine(line[:0], int64(id), e, asJSON)
		_, err := a.out.Write(line)
		return err
	}
	if !follow || f.Format() == format.ET {
		err := f.Walk(uint32(from), show)
		return errors.Join(err, f.Close(), torn(name, damage))
	}
	if err := f.Close(); err != nil {
		return err
	}
	for {
		was, err := os.Stat(path)
		if err != nil {
			return err
		}
		rotated, err := follow1(ctx, path, int64(from), show)
		if err != nil || !rotated {
			return err
		}
		// The next file is about to get the name.
		for now, err := os.Stat(path); err != nil || os.SameFile(was, now); now, err = os.Stat(path) {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(10 * time.Millisecond):
			}
		}
		from = 0
	}
}

// follow1 shows the entries of a growing file from one on. It returns true when
// another file follows.
func follow1(ctx context.Context, path string, from int64, show func(uint32, *format.TraceEntry) error) (rotated bool, err error) {
	fl, err := format.Follow(path, nil)
	if err != nil {
		return false, err
	}
	defer fl.Close()
	for {
		id, e, err := fl.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return rotated, nil
		case err != nil:
			return false, err
		}
		rotated = format.EndsRotated(e)
		if int64(id) < from {
			continue
		}
		if err := show(id, e); err != nil {
			return false, err
		}
	}
}
