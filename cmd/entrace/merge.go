package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/format"
)

func (a *app) mergeCommand() *cobra.Command {
	flags := convertFlags{lookFlags: lookFlags{time: timeLocal}}
	var out string
	c := &cobra.Command{
		Use:   "merge FILE|DIR... -o OUT",
		Short: "Join the traces of several services, or of one that rotated",
		Long: "merge joins traces, of whatever format, into OUT. A span that a service began for a\n" +
			"caller whose span is in another file hangs below that one. Files of one service\n" +
			"that followed each other, as app.20261120T212712.021Z.et and app.et, become one\n" +
			"again: a span that was open in between is one span.",
		Args: someArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.merge(cmd.Context(), args, out, &flags)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "the file to write, - for the standard output")
	flags.addQuery(c)
	flags.addDescendants(c)
	flags.add(c)
	c.Flags().StringVar(&flags.to, "to", "", "the format of OUT")
	c.Flags().StringVar(&flags.disk, "version", "", "the disk version of OUT: 1 or 2")
	c.Flags().BoolVar(&flags.force, "force", false, "replace an OUT that is there")
	return c
}

func (a *app) merge(ctx context.Context, names []string, out string, flags *convertFlags) error {
	if out == "" {
		return usagef("--output must name the file to write")
	}
	to, err := targetOf(out, flags.to)
	if err != nil {
		return err
	}
	if flags.disk != "" {
		if to.foreign != nil {
			return usagef("--version is for ENTRACE's own formats, %s is not one", to.foreign.Name)
		}
		if to.o.Version, err = format.ParseVersion(flags.disk); err != nil {
			return usagef("--version: %w", err)
		}
	}
	to.o.Replace = flags.force
	if to.foreign != nil {
		return a.encode(ctx, names, out, &flags.lookFlags, to)
	}
	return a.mergeTo(ctx, names, out, &flags.lookFlags, to)
}

// mergeTo writes the files to out as one of ENTRACE's own formats.
func (a *app) mergeTo(ctx context.Context, names []string, out string, o *lookFlags, to target) error {
	t, err := a.openPart(ctx, a.eachOnce(names), o)
	if err != nil {
		return err
	}
	defer t.Close()
	if out == "-" {
		err = t.Merge(ctx, a.out, to.o)
	} else {
		err = t.MergeFile(ctx, out, to.o)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", thereAlready(out))
	}
	return errors.Join(err, t.Damage())
}

// eachOnce returns names without those of a file that another one leads to, as a hard link does,
// and says so: its spans would be there twice.
func (a *app) eachOnce(names []string) []string {
	var infos []fs.FileInfo
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		info, err := os.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			return false
		}
		if slices.ContainsFunc(infos, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
			fmt.Fprintf(a.err, "entrace: %s is a file that is named before, and is read once\n", safe(name))
			return true
		}
		infos = append(infos, info)
		return false
	})
}
