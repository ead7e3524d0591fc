package main

import (
	"github.com/spf13/cobra"
)

func (a *app) mergeCommand() *cobra.Command {
	flags := convertFlags{rowFlags: rowFlags{time: timeLocal, inputFlags: inputFlags{compares: true}}}
	var out string
	c := &cobra.Command{
		Use:   "merge FILE|DIR... -o OUT",
		Short: "Join the traces of several services, or of one that rotated",
		Long: `merge joins the traces of several services, or of one that rotated, into one file.

  entrace merge shop.et stock.et -o all.et
  entrace merge traces/ -o all.et
  entrace merge traces/ -o errors.et -q '{ span:failed }'

The files are of any format. A span that a service began for a caller hangs below the
caller, whose span is in another file. Files of one service that followed each other, such as
app.20261120T212712.021Z.et and app.et, become one again: a span that was open in between is one span.`,
		Args: someArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usagef("--output is missing: name the file to write, as in -o all.et")
			}
			return a.encode(cmd.Context(), a.eachOnce(args), out, &flags)
		},
	}
	set := c.Flags()
	set.StringVarP(&out, "output", "o", "", "the file to write, - for the standard output")
	flags.addDescendants(c)
	flags.add(c)
	flags.addOut(c)
	set.StringVar(&flags.disk, "version", "", "the disk version of OUT: 1 or 2")
	return c
}
