package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/internal/quantity"
)

// convertFlags are what the command line says of a conversion.
type convertFlags struct {
	lookFlags

	to, disk    string
	force, list bool
}

func (a *app) convertCommand() *cobra.Command {
	flags := convertFlags{lookFlags: lookFlags{time: timeLocal}}
	c := &cobra.Command{
		Use:   "convert IN [OUT]",
		Short: "Convert a trace to another format or version",
		Long: "convert converts IN to OUT. What IN is shows in its first bytes, or in its name, or\n" +
			"--from says it. OUT is of the format that --to names or its extension does. - is\n" +
			"the standard input or output; the latter, which no OUT is, too, wants --to. The version of ENTRACE's own\n" +
			"formats stays unless --version names another. --list prints all formats, and what\n" +
			"each cannot hold.",
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
	flags.addQuery(c)
	flags.addDescendants(c)
	flags.add(c)
	c.Flags().StringVar(&flags.to, "to", "", "the format of OUT")
	c.Flags().StringVar(&flags.disk, "version", "", "the disk version of OUT: 1 or 2")
	c.Flags().BoolVar(&flags.force, "force", false, "replace an OUT that is there")
	c.Flags().BoolVar(&flags.list, "list", false, "print the formats there are")
	for flag, values := range map[string][]string{"from": formatNames(true), "to": formatNames(false), "version": {"1", "2"}} {
		err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		if err != nil {
			panic(err) // the flag is not there
		}
	}
	fileArgs(c, 2)
	c.Args = func(cmd *cobra.Command, args []string) error {
		if flags.list {
			return cobra.NoArgs(cmd, args)
		}
		if len(args) == 1 && flags.to != "" {
			return nil
		}
		return exactArgs(2)(cmd, args)
	}
	c.ValidArgsFunction = nil // files of any name
	return c
}

func (a *app) convert(ctx context.Context, in, out string, flags *convertFlags) error {
	to, err := targetOf(out, flags.to)
	if err != nil {
		return err
	}
	if to.o.Replace = flags.force; flags.disk != "" {
		if to.foreign != nil {
			return usagef("--version is for ENTRACE's own formats, %s is not one", to.foreign.Name)
		}
		if to.o.Version, err = format.ParseVersion(flags.disk); err != nil {
			return usagef("--version: %w", err)
		}
	}
	if out != "-" {
		bar := a.progress()
		to.o.Progress = bar.update
		defer bar.done()
	}
	if in == "-" && out == "-" && to.foreign == nil && slices.Contains(nativeNames, flags.from) {
		return convert.Stream(ctx, a.out, a.in, to.o) // as it comes
	}
	if to.foreign != nil {
		return a.encode(ctx, []string{in}, out, &flags.lookFlags, to)
	}
	if in != "-" && convert.IsCompressed(in) || flags.selects() || len(flags.clock) > 0 {
		return a.mergeTo(ctx, []string{in}, out, &flags.lookFlags, to)
	}
	path, done, err := a.seekable(in)
	if err != nil {
		return err
	}
	defer done()
	from, err := source(path, flags.from)
	if err != nil {
		return err
	}
	if from == nil && in != "-" {
		c, err := a.content(path) // for what it says
		if err != nil {
			return err
		}
		_ = c.Close() // nothing was written to it
	}
	if from == nil {
		err = a.convertNative(ctx, path, out, to.o)
	} else {
		err = a.convertFrom(ctx, path, out, from, to.o)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", thereAlready(out))
	}
	return torn(in, err)
}

func (a *app) convertNative(ctx context.Context, in, out string, o convert.Options) error {
	if out != "-" {
		return convert.File(ctx, in, out, o)
	}
	src, err := deadtrace.OpenSource(format.Find(in), false)
	if err != nil {
		return err
	}
	defer src.Close()
	return convert.Stream(ctx, a.out, src.Reader(), o)
}

func (a *app) convertFrom(ctx context.Context, in, out string, from *convert.Format, o convert.Options) error {
	if out != "-" {
		return convert.FileFrom(ctx, in, out, from.Decode, o)
	}
	src, err := openRegular(in)
	if err != nil {
		return err
	}
	defer src.Close()
	damage, err := convert.StreamFrom(ctx, a.out, src, from.Decode, o)
	if err != nil {
		return err
	}
	return damage
}

// encode writes the files to out in a format of others.
func (a *app) encode(ctx context.Context, names []string, out string, o *lookFlags, to target) error {
	t, err := a.openPart(ctx, names, o)
	if err != nil {
		return err
	}
	defer t.Close()
	if out == "-" {
		err = t.Encode(ctx, a.out, to.foreign.Encode)
	} else {
		err = t.EncodeFile(ctx, out, to.foreign.Encode, to.o)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", thereAlready(out))
	}
	return errors.Join(err, t.Damage())
}

// open opens files and folders as one view, and says on stderr what is not in them yet.
func (a *app) open(ctx context.Context, names []string, o *lookFlags) (*convert.Trace, error) {
	if err := checkFrom(o.from); err != nil {
		return nil, err
	}
	clocks, err := o.clocks()
	if err != nil {
		return nil, err
	}
	room := int64(convert.DefaultMaxTemp)
	if o.maxTemp != "" {
		if room, err = quantity.ParseBytes(o.maxTemp); err != nil || room <= 0 {
			return nil, usagef("--max-temp is %q, it must be a size such as 8GiB", o.maxTemp)
		}
	}
	bar := a.progress()
	defer bar.done()
	t, err := convert.Open(ctx, names, &convert.OpenOptions{
		From: o.from, Clock: clocks, MaxTemp: room, Stdin: a.in, Progress: bar.update,
		Opened: func(f *format.File) {
			n, missing := f.Journal()
			a.tellJournal(f.Name(), count(n, "entry is", "entries are"), n > 0, missing)
		},
	})
	if err != nil && len(names) == 1 && names[0] != "-" {
		err = known(names[0], err)
	}
	if err == nil {
		if n := t.View().Copies(); n > 0 {
			fmt.Fprintf(a.err, "entrace: %s in several files, shown once\n", count(n, "row is", "rows are"))
		}
		for _, text := range t.LeftOut() {
			fmt.Fprintln(a.err, "entrace:", safe(text))
		}
	}
	return t, err
}

// A progress shows how far a long work is, on a terminal alone.
type progress struct {
	bar   *progressbar.ProgressBar
	begun time.Time
	app   *app
}

func (a *app) progress() *progress { return &progress{begun: time.Now(), app: a} }

// showAfter is how long work must take to be worth a bar.
const showAfter = time.Second

func (p *progress) update(done, total int64) {
	if p.bar == nil {
		if time.Since(p.begun) < showAfter || !isTerminal(p.app.err) {
			return
		}
		if total == 0 {
			total = -1
		}
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(true),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
