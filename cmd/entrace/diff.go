package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
)

type diffOptions struct {
	rowFlags

	before, after           []string
	maxP95, maxCount        string
	failOn                  []string
	anyChange, allowPartial bool
	limit                   int
}

func diffCommand() *command {
	o := &diffOptions{rowFlags: rowFlags{time: timeLocal}, limit: 30}
	return &command{
		use:   "diff BEFORE AFTER | diff --before FILE,... --after FILE,...",
		short: "Compare runs of a program, and fail if something got worse",
		long: `diff compares runs of a program, and fails if something got worse.

  entrace diff old.et new.et
  entrace diff old.et new.et --fail-on more-errors
  entrace diff --before a1.et,a2.et,a3.et,a4.et,a5.et --after b1.et,b2.et,b3.et,b4.et,b5.et

Each FILE is a run. diff compares spans by their path: the service, name and kind of a span and of each span
above it. For each path it prints the number of spans and of failed spans, quantiles of durations, and the sum
of self times. Paths that exceed a limit come first. The last column says what got worse, or why diff does not
fail although a path is slower, and not by chance. Below the table, diff prints errors and warnings that occur
in more calls than before, and not by chance; --fail-on more-errors makes them a limit. diff exits with 1 if a
limit is exceeded, and with 2 after any other error.

With one run on each side, "chance" does not include the noise of the machine, because the test (of Mann and
Whitney) assumes that the spans of a run are independent. One run cannot show whether the program is slower or
the machine was busy. So by default diff limits errors, new spans and the spans of each request, but not
durations. --max-p95 limits durations as well.

With several runs on each side, the test compares runs (all ways to exchange runs, largest change of all
paths), and --max-p95 is +10% by default. If possible, record five runs of each side, in turn.

"Chance" applies to all paths together. If a change can be chance, it exceeds no limit unless you give
--any-change. "Too few" means that a path has fewer than ` + strconv.Itoa(analyze.MinSamples) + ` spans in a run, or is not in each run. If a file
is damaged or still grows, diff exits with 2 unless you give --allow-partial.`,
		args: func(c *cobra.Command, args []string) error {
			switch several := len(o.before)+len(o.after) > 0; {
			case several && len(args) > 0:
				return usagef("--before and --after cannot be combined with other FILEs")
			case several && (len(o.before) == 0 || len(o.after) == 0):
				return usagef("--before and --after must be used together")
			case !several && len(args) != 2:
				return usagef("%s expects BEFORE AFTER, or --before FILE,... --after FILE,...; found %s", c.CommandPath(), plural(len(args), "argument"))
			}
			return nil
		},
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			redactFlag(flags, &o.redact, redactRead)
			flags.StringSliceVar(&o.before, "before", nil, "the `FILES` of the runs before")
			flags.StringSliceVar(&o.after, "after", nil, "the `FILES` of the runs after")
			flags.BoolVar(&o.json, "json", false, "print JSON, an object for each path")
			flags.StringVar(&o.maxP95, "max-p95", "", "how much the 95th percentile may `GROW`, such as +10% or +5ms, or none; by default +10% for three runs or more, otherwise none")
			flags.StringVar(&o.maxCount, "max-count", "+10%", "how many more spans of a path each root span may have, such as +1 or +10%, or none")
			flags.StringSliceVar(&o.failOn, "fail-on", []string{failErrors, failSpans}, "which of new-errors, new-spans and more-errors are failures, separated by commas, or none")
			flags.BoolVar(&o.anyChange, "any-change", false, "also apply the limits to changes that can be chance")
			flags.BoolVar(&o.allowPartial, "allow-partial", false, "read damaged or unfinished files as far as possible")
			flags.IntVar(&o.limit, "limit", o.limit, "how many paths to print, 0 for all")
		},
		run: func(ctx context.Context, c *console, args []string) error {
			if len(args) == 2 {
				o.before, o.after = args[:1], args[1:]
			}
			return asCheck(o.diff(ctx, c))
		},
		fits: true,
	}
}

func (o *diffOptions) diff(ctx context.Context, c *console) error {
	limits, err := o.limits()
	if err != nil {
		return err
	}
	before, done, err := runs(ctx, c, o.before, &o.rowFlags, o.allowPartial)
	defer done()
	if err != nil {
		return err
	}
	after, doneAfter, err := runs(ctx, c, o.after, &o.rowFlags, o.allowPartial)
	defer doneAfter()
	if err != nil {
		return err
	}
	d, err := analyze.Compare(ctx, before, after)
	if err != nil {
		return err
	}
	r := diffReport{console: c, d: d, limits: &limits, found: make([]finding, len(d.Paths))}
	for i := range d.Paths {
		found, seen := limits.find(&d.Paths[i])
		r.found[i] = found
		if seen != found {
			r.chance++
		}
		if found.any() {
			r.failed++
		}
		for w, is := range found {
			if is {
				r.worse[w]++
			}
		}
	}
	d.Errors = slices.DeleteFunc(d.Errors, func(e analyze.Evidence) bool { return !e.Sure && !limits.any })
	if slices.Contains(o.failOn, failMore) {
		r.more = len(d.Errors)
	}
	w := bufio.NewWriter(c.out)
	if o.json {
		err = r.json(w)
	} else {
		paths := r.paths(o.limit)
		paths.head = c.paint(show.Bold, show.Safe(runNames(o.before)+" → "+runNames(o.after))+": "+r.summary()) + "\n" + c.paint(show.Dim, r.method())
		printSections(w, paths)
	}
	err = errors.Join(err, w.Flush())
	if err == nil && r.failed+r.more > 0 {
		if o.json {
			_, _ = fmt.Fprintln(c.err, strings.Join(r.verdict(), "\n")) // stderr may be closed
		}
		return errNone
	}
	return err
}

// runNames names the files of one side.
func runNames(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s, … %s (%d runs)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, ", ")
}

// limits returns the limits of the flags. The defaults depend on how many runs are compared.
func (o *diffOptions) limits() (l diffLimits, err error) {
	l.any, l.p95Text, l.countText = o.anyChange, o.maxP95, o.maxCount
	if l.p95Text == "" && min(len(o.before), len(o.after)) >= 3 {
		l.p95Text = usualP95
	}
	l.p95, err = parseLimit("max-p95", l.p95Text, "+10% or +5ms", func(s string) (float64, error) {
		d, err := time.ParseDuration(s)
		return float64(d), err
	})
	if err != nil {
		return l, err
	}
	l.count, err = parseLimit("max-count", o.maxCount, "+1 or +10%", func(s string) (float64, error) {
		return strconv.ParseFloat(s, 64)
	})
	if err != nil {
		return l, err
	}
	for _, f := range o.failOn {
		switch f {
		case failErrors:
			l.newErrors = true
		case failSpans:
			l.newSpans = true
		case failMore, noLimit:
		default:
			return l, usagef("--fail-on is %q: must be new-errors, new-spans, more-errors or none", f)
		}
	}
	return l, nil
}
