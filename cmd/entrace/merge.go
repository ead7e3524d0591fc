package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
)

func (a *app) mergeCommand() *cobra.Command {
	var flags convertFlags
	var out string
	c := &cobra.Command{
		Use:   "merge FILE... -o OUT",
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
	c.Flags().StringVar(&flags.from, "from", "", "the format of the files")
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
			return usagef("--version is for ENTRACE's own formats, %s is not one", to.foreign.name)
		}
		if to.o.Version, err = format.ParseVersion(flags.disk); err != nil {
			return usagef("--version: %w", err)
		}
	}
	to.o.Replace = flags.force
	var views []*format.View
	var damage []error
	for _, name := range names {
		if _, err := os.Stat(name); name != "-" && err == nil {
			if err := notSame(name, out); err != nil {
				return err
			}
		}
		v, wrong, done, err := a.view(ctx, name, flags.from)
		if err != nil {
			return err
		}
		defer done()
		if wrong != nil {
			damage = append(damage, fmt.Errorf("%s: %w", name, wrong))
		}
		views = append(views, v)
	}
	switch {
	case to.foreign != nil:
		err = a.mergeTo(ctx, views, out, to)
	case out == "-":
		err = convert.MergeStream(ctx, views, a.out, to.o)
	default:
		err = convert.MergeFile(ctx, views, out, to.o)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", thereAlready(out))
	}
	return errors.Join(err, errors.Join(damage...))
}

// mergeTo merges into a file of another format, by way of one of ENTRACE's own.
func (a *app) mergeTo(ctx context.Context, views []*format.View, out string, to target) error {
	dir, err := os.MkdirTemp("", "entrace-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "merged.et")
	if err := convert.MergeFile(ctx, views, path, convert.Options{Format: format.ET}); err != nil {
		return err
	}
	return a.convertTo(ctx, path, out, nil, to)
}

// view opens the trace name, of whatever format.
func (a *app) view(ctx context.Context, name, from string) (v *format.View, damage error, done func(), err error) {
	path, done, err := a.seekable(name)
	if err != nil {
		return nil, nil, nil, err
	}
	foreign, err := source(path, from)
	if err == nil && foreign != nil {
		before := done
		var remove func()
		if path, remove, damage, err = asTrace(ctx, path, foreign); err == nil {
			done = func() { remove(); before() }
		}
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	f, err := a.openTrace(path, nil)
	if err == nil {
		if v, err = format.NewView(f); err != nil {
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		done()
		return nil, nil, nil, err
	}
	if damage == nil {
		damage = torn(name, f.Damage())
	}
	before := done
	return v, damage, func() { _ = f.Close(); before() }, nil
}
