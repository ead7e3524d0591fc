package main

import (
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"
)

func (a *app) mergeCommand() *cobra.Command {
	flags := convertFlags{lookFlags: lookFlags{time: timeLocal, compares: true}}
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

// eachOnce returns names without duplicates: it drops a name, for example of a hard link, if an earlier name means
// the same file, because the file's spans would be read twice. It prints a note for each dropped name.
func (a *app) eachOnce(names []string) []string {
	var infos []fs.FileInfo
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return false
		}
		if slices.ContainsFunc(infos, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			a.say("%s is the same file as an earlier argument, and is read only once", name)
			return true
		}
		infos = append(infos, info)
		return false
	})
}
