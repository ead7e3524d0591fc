package main

import (
	"context"
	"errors"
	"io"

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
	f, err := format.Open(seekable, &format.OpenOptions{Prefix: true})
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
	fl, err := format.Follow(path, nil)
	if err != nil {
		return err
	}
	defer fl.Close()
	for {
		id, e, err := fl.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if int64(id) < int64(from) {
			continue
		}
		if err := show(id, e); err != nil {
			return err
		}
	}
}
