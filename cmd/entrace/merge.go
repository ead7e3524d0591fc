package main

import (
	"context"

	"github.com/spf13/pflag"
)

func mergeCommand() *command {
	o := &convertFlags{rowFlags: rowFlags{time: timeLocal, inputFlags: inputFlags{compares: true}}}
	var out string
	return &command{
		use:   "merge FILE|DIR... -o OUT",
		short: "Join the traces of several services, or of one that rotated",
		long: `merge joins the traces of several services, or of one that rotated, into one file.

  entrace merge shop.et stock.et -o all.et
  entrace merge traces/ -o all.et
  entrace merge traces/ -o errors.et -q '{ span:failed }'

The files can have any format. If a service began a span for a caller, merge puts it below the caller's span,
which is in another file. Consecutive files of one service, such as app.20261120T212712.021Z.et and app.et,
become one again: a span that was open at the rotation is one span.`,
		args: someArgs,
		flags: func(flags *pflag.FlagSet) {
			flags.StringVarP(&out, "output", "o", "", "the file to write, - for the standard output")
			o.addDescendants(flags)
			o.add(flags)
			o.addOut(flags)
			flags.StringVar(&o.disk, "version", "", "the disk version of OUT: 1 or 2")
		},
		run: func(ctx context.Context, c *console, args []string) error {
			if out == "" {
				return usagef("--output is missing: name the file to write, as in -o all.et")
			}
			return o.encode(ctx, c, args, out)
		},
	}
}
