package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/view"
)

// convertFlags are the flags of convert.
type convertFlags struct {
	rowFlags

	to, disk    string
	weight      string
	force, list bool
}

// addOut adds the flags for the output.
func (f *convertFlags) addOut(c *cobra.Command) {
	c.Flags().StringVar(&f.to, "to", "", "the format of OUT")
	c.Flags().BoolVar(&f.force, "force", false, "replace OUT if it exists")
}

// weights are the values that frames of a flame graph can have as weights.
var weights = [...]string{"time", "cpu"}

func (a *app) convertCommand() *cobra.Command {
	flags := convertFlags{rowFlags: rowFlags{time: timeLocal}}
	c := &cobra.Command{
		Use:   "convert IN [OUT]",
		Short: "Convert a trace to another format or version",
		Long: `convert converts a trace to another format or version.

  entrace convert app.et app.jsonl                        by the extension: OTLP as JSON lines
  entrace convert spans.json app.et                       Jaeger's JSON; convert looks at the first bytes
  entrace convert app.et --to folded -q 'name = checkout' > app.folded

The format of IN is found by its first bytes, by its name, or by --from; the format of OUT by --to or by its
extension. - is the standard input or output. Without OUT, convert writes to the standard output and needs
--to. ENTRACE's own formats keep their version unless --version names another. --list prints all formats, and
what each cannot hold.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.list {
				return a.listFormats()
			}
			out := "-"
			if len(args) > 1 {
				out = args[1]
			}
			return a.convert(cmd.Context(), args[0], out, &flags)
		},
	}
	flags.addDescendants(c)
	flags.add(c)
	redactFlag(c, &flags.redact, redactRead)
	set := c.Flags()
	flags.addOut(c)
	set.StringVar(&flags.weight, "weight", weights[0], "for flame graphs: time, which spans took, or cpu, the samples of CPU profiles at and below the selected spans")
	set.StringVar(&flags.disk, "version", "", "the disk version of OUT: 1 or 2")
	set.BoolVar(&flags.list, "list", false, "print all formats")
	for flag, values := range map[string][]string{"from": formatNames(true), "to": formatNames(false), "version": {"1", "2"}, "weight": weights[:]} {
		err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		if err != nil {
			panic(err) // the flag does not exist
		}
	}
	c.Args = func(cmd *cobra.Command, args []string) error {
		if flags.list {
			return cobra.NoArgs(cmd, args)
		}
		if len(args) == 1 && flags.to != "" {
			return nil
		}
		if len(args) == 1 {
			return usagef("without OUT, --to must name the format")
		}
		return takes(2, 2)(cmd, args)
	}
	return c
}

func (a *app) convert(ctx context.Context, in, out string, flags *convertFlags) error {
	flags.once = !flags.selects()
	return a.encode(ctx, []string{in}, out, flags)
}

// encode converts the files and writes the result to out.
func (a *app) encode(ctx context.Context, names []string, out string, flags *convertFlags) error {
	to, err := targetOf(out, flags.to)
	if err != nil {
		return err
	}
	o := &convert.Options{Replace: flags.force}
	switch flags.weight {
	case "cpu":
		if !slices.ContainsFunc(convert.Formats(), func(f convert.FormatInfo) bool { return f.Format == to && f.CPU }) {
			return usagef("--weight: %w", &convert.FormatError{Format: to, Write: true, CPU: true})
		}
		o.CPU, flags.descendants = true, true
	case "", "time":
	default:
		return usagef("--weight is %q: must be time or cpu", flags.weight)
	}
	if flags.disk != "" {
		if _, own := to.Own(); !own {
			return usagef("--version works only with ENTRACE's own formats, not with %s", to)
		}
		o.Version, err = format.ParseVersion(flags.disk)
		if err != nil {
			return usagef("--version: %w", err)
		}
	}
	bar := a.progress()
	defer bar.done()
	flags.progress = bar.update
	if out == "-" {
		flags.progress = nil
	}
	t, err := a.openPart(ctx, names, &flags.rowFlags, func(*view.View) {})
	if err != nil {
		return err
	}
	defer t.Close()
	if out == "-" {
		err = t.Encode(ctx, a.out, to, o)
	} else {
		err = t.EncodeFile(ctx, out, to, o)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", thereAlready(out))
	}
	return errors.Join(err, t.Damage())
}
