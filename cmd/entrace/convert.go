package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
func (o *convertFlags) addOut(flags *pflag.FlagSet) {
	flags.StringVar(&o.to, "to", "", "the format of OUT")
	flags.BoolVar(&o.force, "force", false, "replace OUT if it exists")
}

// weights are the values that frames of a flame graph can have as weights.
var weights = [...]string{"time", "cpu"}

func convertCommand() *command {
	o := &convertFlags{rowFlags: rowFlags{time: timeLocal}}
	return &command{
		use:   "convert IN [OUT]",
		short: "Convert a trace to another format or version",
		long: `convert converts a trace to another format or version.

  entrace convert app.et app.jsonl                        by the extension: OTLP as JSON lines
  entrace convert spans.json app.et                       Jaeger's JSON; convert looks at the first bytes
  entrace convert app.et --to folded -q 'name = checkout' > app.folded

convert recognizes the format of IN by its first bytes or its name, unless you give --from. It chooses the
format of OUT by its extension, unless you give --to. - is the standard input or output. Without OUT, convert
writes to the standard output and needs --to. ENTRACE's own formats keep their version unless --version names
another. --list prints all formats, and the data that each of them loses.`,
		flags: func(flags *pflag.FlagSet) {
			o.addDescendants(flags)
			o.add(flags)
			redactFlag(flags, &o.redact, redactRead)
			o.addOut(flags)
			flags.StringVar(&o.weight, "weight", weights[0], "width in flame graphs: time (self time of spans), or cpu (samples of CPU profiles at and below the selected spans)")
			flags.StringVar(&o.disk, "version", "", "the disk version of OUT: 1 or 2")
			flags.BoolVar(&o.list, "list", false, "print all formats")
		},
		values: map[string][]string{"from": formatNames(true), "to": formatNames(false), "version": {"1", "2"}, "weight": weights[:]},
		args: func(cmd *cobra.Command, args []string) error {
			if o.list {
				return cobra.NoArgs(cmd, args)
			}
			if len(args) == 1 && o.to != "" {
				return nil
			}
			if len(args) == 1 {
				return usagef("without OUT, --to must name the format")
			}
			return takes(2, 2)(cmd, args)
		},
		run: func(ctx context.Context, c *console, args []string) error {
			if o.list {
				return listFormats(c)
			}
			out := "-"
			if len(args) > 1 {
				out = args[1]
			}
			return o.convert(ctx, c, args[0], out)
		},
	}
}

func (o *convertFlags) convert(ctx context.Context, c *console, in, out string) error {
	o.files([]string{in})
	o.once = !o.selects()
	return o.encode(ctx, c, []string{in}, out)
}

// encode converts the files and writes the result to out.
func (o *convertFlags) encode(ctx context.Context, c *console, names []string, out string) error {
	to, err := targetOf(out, o.to)
	if err != nil {
		return err
	}
	options := &convert.Options{Replace: o.force}
	switch o.weight {
	case "cpu":
		if !slices.ContainsFunc(convert.Formats(), func(f convert.FormatInfo) bool { return f.Format == to && f.CPU }) {
			return usagef("--weight: %w", &convert.FormatError{Format: to, Write: true, CPU: true})
		}
		options.CPU, o.descendants = true, true
	case "", "time":
	default:
		return usagef("--weight is %q: must be time or cpu", o.weight)
	}
	if o.disk != "" {
		if _, own := to.Own(); !own {
			return usagef("--version works only with ENTRACE's own formats, not with %s", to)
		}
		options.Version, err = format.ParseVersion(o.disk)
		if err != nil {
			return usagef("--version: %w", err)
		}
	}
	bar := c.progress()
	defer bar.done()
	o.progress = bar.update
	if out == "-" {
		o.progress = nil
	}
	t, err := openPart(ctx, c, names, &o.rowFlags, func(*view.View) {})
	if err != nil {
		return err
	}
	defer t.Close()
	if out == "-" {
		err = t.Encode(ctx, c.out, to, options)
	} else {
		err = t.EncodeFile(ctx, out, to, options)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", thereAlready(out))
	}
	return errors.Join(err, t.Damage())
}
