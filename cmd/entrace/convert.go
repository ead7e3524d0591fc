package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/read/show"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/redact"
)

// convertFlags are the flags of convert.
type convertFlags struct {
	lookFlags

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
	flags := convertFlags{lookFlags: lookFlags{time: timeLocal}}
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
	t, err := a.openPart(ctx, names, &flags.lookFlags)
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

// addLate finds the files and services whose clocks seem to be wrong, adds their corrections to clocks, and returns
// them.
func addLate(clocks map[string]time.Duration, t *convert.Trace) (late []analyze.Clock) {
	var files []string
	for i := range t.View().Files() {
		files = append(files, t.Name(i))
	}
	late = analyze.Clocks(t.View(), files)
	for _, c := range late {
		clocks[c.Name] += c.Late
	}
	return late
}

// open opens files and folders as one view. It reports on stderr which entries come from a crash buffer and which
// are missing.
func (a *app) open(ctx context.Context, names []string, o *lookFlags) (*convert.Trace, error) {
	if err := checkFrom(o.from); err != nil {
		return nil, err
	}
	clocks, auto, err := o.clocks()
	if err != nil {
		return nil, err
	}
	var room int64 // 0: the default
	if o.maxTemp != "" {
		room, err = quantity.ParseBytes(o.maxTemp)
		if err != nil || room <= 0 {
			return nil, usagef("--max-temp is %q: must be a size such as 8GiB", o.maxTemp)
		}
	}
	progress := o.progress
	if progress == nil && !o.once {
		bar := a.progress()
		defer bar.done()
		progress = bar.update
	}
	policy, err := policyOf(o.redact)
	if err != nil {
		return nil, err
	}
	r := redact.New(policy, nil) // nil without the flag
	stdin := slices.Contains(names, "-")
	if o.corrects && len(o.clock) == 0 && !stdin {
		auto = true
	}
	if auto && stdin {
		return nil, usagef("--clock auto reads the files twice, but standard input can be read only once")
	}
	options := &convert.OpenOptions{
		From: convert.Format(o.from), Redact: r, Clock: clocks, MaxTemp: room, Stdin: a.in, Progress: progress, Once: o.once && !auto,
		Repeated: func(name string, spans int) {
			a.say("%s: %s in the file twice, shown once", name, count(spans, "span is", "spans are"))
		},
		Journal: func(name string, n int, missing error) {
			if o.follows && errors.Is(missing, format.ErrLocked) {
				missing = nil
			}
			a.tellJournal(name, n, missing)
		},
	}
	t, err := convert.Open(ctx, names, options)
	if t != nil && t.View() != nil && (auto || o.compares) {
		late := addLate(clocks, t)
		var texts []string
		for _, c := range late {
			texts = append(texts, c.Name+" "+c.Text())
		}
		switch text := show.Safe(strings.Join(texts, ", ")); {
		case len(late) > 0 && auto:
			a.say("clocks are corrected: %s", text)
			o.corrected = late
			err = t.Close()
			if err == nil {
				t, err = convert.Open(ctx, names, options)
			}
		case len(late) > 0:
			a.say("clocks seem to be wrong: %s; --clock auto corrects them", text)
		}
	}
	if t == nil {
		if len(names) == 1 && names[0] != "-" {
			err = known(names[0], err)
		}
		return nil, err
	}
	if v := t.View(); v != nil && v.Copies() > 0 {
		a.say("%s in several files, shown once", count(v.Copies(), "row is", "rows are"))
	}
	for _, name := range names {
		rings, _ := filepath.Glob(filepath.Join(name, "*.ring")) // none if name is a file
		for _, ring := range rings {
			if died, err := knownRing(ring); died {
				a.say("%s", err)
			}
		}
	}
	for _, text := range t.LeftOut() {
		a.say("%s", text)
	}
	a.tellReplaced(r)
	return t, nil // t.Damage returns the damage; all intact entries were read
}

// A progress shows a progress bar for long work. It does so only on a terminal.
type progress struct {
	bar   *progressbar.ProgressBar
	begun time.Time
	app   *app
	rows  bool // the bar counts rows, not bytes
}

func (a *app) progress() *progress { return &progress{begun: time.Now(), app: a} }

// showAfter is the time after which the bar is shown.
const showAfter = time.Second

func (p *progress) update(done, total int64) {
	if p.bar == nil {
		if time.Since(p.begun) < showAfter || !isTerminal(p.app.err) {
			return
		}
		if total == 0 {
			total = -1
		}
		p.bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionShowBytes(!p.rows),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(), progressbar.OptionFullWidth())
	}
	_ = p.bar.Set64(done) // a bar that cannot be drawn is no reason to stop
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
		p.bar = nil
	}
}
