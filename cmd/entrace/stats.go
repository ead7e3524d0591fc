package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/query"
)

type statsOptions struct {
	rowFlags

	sort           string
	models         bool
	csv, histogram bool
	every          time.Duration
	changed        func(flag string) bool // reports whether the command line has a flag
}

func statsCommand() *command {
	o := &statsOptions{rowFlags: rowFlags{time: timeLocal, selection: selection{tables: true}}}
	return &command{
		use:   "stats FILE|DIR...",
		short: "Count spans, and print quantiles of their durations",
		long: `stats counts spans and prints quantiles of their durations, or prints the table that a query computes.

  entrace stats app.et                                            by service and name
  entrace stats app.et --sort p95                                 by a column of the table
  entrace stats app.et -q 'level = error | count() by(.user) | topk(5, count)'
  entrace stats app.et --models                                   tokens of generative models
  entrace stats app.et --every 1s -q 'kind = server'              to see when a problem began
  entrace stats app.et --csv -q '{ duration > 1s } | select(start, name, duration, .user)'

For each service and name, the table has the number of spans, of failed spans and of spans per second, and
quantiles of durations. self is the total time in which no span directly below was open. docs/query.md
describes the query language.`,
		flags: func(flags *pflag.FlagSet) {
			o.changed = flags.Changed
			o.add(flags)
			redactFlag(flags, &o.redact, redactRead)
			o.addPrint(flags)
			flags.StringVar(&o.sort, "sort", "", "sort by this `COLUMN` of the table, such as count, p95 or self; the largest numbers first")
			flags.BoolVar(&o.models, "models", false, "print calls, errors and tokens of generative models, by model and operation")
			flags.BoolVar(&o.csv, "csv", false, "print the table as CSV, times in nanoseconds")
			flags.DurationVar(&o.every, "every", 0, "for each `STEP`, such as 1s, print how many spans began in it, and how long they took")
			flags.BoolVar(&o.histogram, "histogram", false, "print a histogram of the durations")
		},
		newest: true,
		fits:   true,
		run:    o.run,
	}
}

func (o *statsOptions) run(ctx context.Context, c *console, names []string) error {
	switch {
	case o.changed("every") && o.every <= 0:
		return usagef("--every is %s: must be a duration above 0, such as 1s", o.every)
	case o.csv && o.json:
		return usagef("--csv and --json cannot be used together")
	case o.every > 0 && o.histogram, o.models && (o.every > 0 || o.histogram):
		return usagef("--every, --histogram and --models cannot be used together")
	}
	if o.histogram {
		o.query = strings.TrimSpace(o.query) + " | histogram(duration)"
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	t := l.result.Table
	if t == nil {
		t, err = l.result.SelectedTable(ctx)
		if err != nil {
			return err
		}
	}
	switch {
	case t != nil && (o.every > 0 || o.models):
		return usagef("--every and --models cannot be used with a query that computes a table")
	case o.models:
		t, err = query.Models(ctx, l.v, l.result.Rows)
		if err != nil {
			return err
		}
	case o.every > 0:
		t, err = query.Series(ctx, l.v, l.result.Rows, o.every)
		if err != nil {
			return asUsage(err)
		}
	case t == nil:
		t, err = query.Summary(ctx, l.v, l.result.Rows, l.between)
		if err != nil {
			return err
		}
		if o.sort == "" {
			o.sort = "total"
		}
	}
	if o.sort != "" {
		if err := t.Sort(o.sort); err != nil {
			return &usageError{err}
		}
	}
	switch {
	case o.json:
		err = tableJSON(l.w, t)
	case o.csv:
		err = tableCSV(l.w, t, isTerminal(c.out) || c.fitted != nil)
	case o.histogram:
		err = bars(c, l.w, t, o.time)
	default:
		printSections(l.w, tableSection(t, o.time))
	}
	return l.finish(err)
}
