package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
)

func (a *app) convertCommand() *cobra.Command {
	var to, disk string
	var force bool
	c := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Convert a trace to another format or version",
		Long: "convert converts IN, in any format, to OUT, in the one that --to names or its\n" +
			"extension does: .et, .iet, .ietprefix. - is the standard input or output; the\n" +
			"latter wants --to. The version stays unless --version names another.",
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := convertOptions(args[1], to, disk, force)
			if err != nil {
				return err
			}
			return a.convert(cmd.Context(), args[0], args[1], o)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the format of OUT: et, iet or ietprefix")
	c.Flags().StringVar(&disk, "version", "", "the disk version of OUT: 1 or 2")
	c.Flags().BoolVar(&force, "force", false, "replace an OUT that is there")
	for flag, values := range map[string][]string{"to": {"et", "iet", "ietprefix"}, "version": {"1", "2"}} {
		err := c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		if err != nil {
			panic(err) // the flag is not there
		}
	}
	return fileArgs(c, 2)
}

func convertOptions(out, to, disk string, force bool) (convert.Options, error) {
	o := convert.Options{Replace: force}
	if to == "" {
		if out == "-" {
			return o, usagef("for the standard output, --to must name the format")
		}
		ext := filepath.Ext(out)
		if to = strings.TrimPrefix(ext, "."); to == "" {
			return o, usagef("%s has no extension: --to must name the format", out)
		}
	}
	var err error
	if o.Format, err = format.ParseStorageFormat(to); err != nil {
		return o, usagef("--to or the extension of OUT: %w", err)
	}
	if disk != "" {
		if o.Version, err = format.ParseVersion(disk); err != nil {
			return o, usagef("--version: %w", err)
		}
	}
	return o, nil
}

func (a *app) convert(ctx context.Context, in, out string, o convert.Options) error {
	if out != "-" {
		bar := a.progress()
		o.Progress = bar.update
		defer bar.done()
	}
	if out == "-" {
		src, err := a.open(in)
		if err != nil {
			return err
		}
		defer src.Close()
		return torn(in, convert.Stream(ctx, a.out, src, o))
	}
	path, done, err := a.seekable(in)
	if err != nil {
		return err
	}
	defer done()
	err = convert.File(ctx, path, out, o)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w; --force replaces it", thereAlready(out))
	}
	return torn(in, err)
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
