package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/viewer"
)

type exportOptions struct {
	inputFlags
	selection

	output, maxSize string
	force           bool
}

func exportCommand() *command {
	o := new(exportOptions)
	return &command{
		use:   "export FILE|DIR... -o report.html",
		short: "Write a trace into a web page that works without entrace",
		long: `export writes a trace and its web viewer into one HTML file, for an email or an issue.

  entrace export app.et -o report.html
  entrace export app.et -o report.html -q '{ span:failed }'      the selected rows, and the rows above
  entrace export app.et -o report.html --redact                  without secrets

The page works without entrace and without a network. It finds words, but cannot run queries. It has at most
200,000 rows and 20 MB; --max-size changes the size.`,
		args: someArgs,
		flags: func(flags *pflag.FlagSet) {
			o.addQuery(flags)
			o.addFrom(flags)
			redactFlag(flags, &o.redact, redactRead)
			flags.StringVarP(&o.output, "output", "o", "", "the `FILE` to write")
			flags.BoolVar(&o.force, "force", false, "replace the file if it exists")
			flags.StringVar(&o.maxSize, "max-size", "20MB", "the maximum size of the page in `BYTES`")
		},
		run:      o.run,
		complete: completeTraces,
	}
}

func (o *exportOptions) run(ctx context.Context, c *console, names []string) error {
	most, err := quantity.ParseBytes(o.maxSize)
	if err != nil {
		return usagef("--max-size: %w", err)
	}
	if _, err := o.parse(); err != nil {
		return err
	}
	if o.output == "" {
		return usagef("--output is missing: name the file to write, as in -o report.html")
	}
	if osfile.Exists(o.output) && !o.force {
		return fmt.Errorf("%w; --force replaces it", thereAlready(o.output))
	}
	t, err := open(ctx, c, names, &o.inputFlags)
	if err != nil {
		return err
	}
	defer t.Close()
	h := viewer.New(t.View(), &viewer.Options{Names: t.Name})
	err = writeNew(o.output, o.force, func(w io.Writer) error {
		return h.Static(ctx, w, &viewer.StaticOptions{Query: o.query, MaxBytes: most})
	})
	if s, ok := errors.AsType[*viewer.SizeError](err); ok {
		text := "select fewer rows, as with -q 'level = error'"
		if s.Bytes > 0 {
			text += ", or raise --max-size"
		}
		return fmt.Errorf("%w; %s", err, text)
	}
	return errors.Join(asUsage(err), t.Damage())
}

// writeNew writes a temporary file, and renames it to name when it is complete.
func writeNew(name string, replace bool, write func(w io.Writer) error) error {
	f, err := osfile.CreateTemp(name)
	if err != nil {
		return err
	}
	defer f.Discard()
	if err := write(f); err != nil {
		return err
	}
	return f.Commit(replace)
}
