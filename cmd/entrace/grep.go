package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

type grepOptions struct {
	rowFlags

	count, byFile, tree, logs bool
	before, after, limit      int
}

func grepCommand() *command {
	o := &grepOptions{rowFlags: rowFlags{time: timeLocal}}
	return &command{
		use:   "grep QUERY FILE|DIR...",
		short: "Print the spans and log records that a query selects",
		long: `grep prints the spans, events and log records that a query selects, one per line.

  entrace grep 'payment failed' app.et                     words in messages, names and attributes
  entrace grep 'level >= warn user = ada' app.et           comparisons
  entrace grep '{ name = "GET /cart" } >> { span:failed }' app.et      failed rows below GET /cart

A line has the time, level, service, name or message, duration and attributes of a match. Matches are in
chronological order. '' selects everything. A word also matches parts of words: user-1 finds user-17.
docs/query.md describes the query language. grep exits with 0 if there is a match, 1 if there is none, and 2
after any error.`,
		fits: true,
		flags: func(flags *pflag.FlagSet) {
			o.addTimes(flags)
			redactFlag(flags, &o.redact, redactRead)
			o.addPrint(flags)
			flags.BoolVarP(&o.count, "count", "c", false, "print only the number of matches")
			flags.BoolVar(&o.byFile, "by-file", false, "with --count, print a line FILE:N for each file")
			flags.BoolVar(&o.tree, "tree", false, "print the matches as a tree, with the rows above them")
			flags.BoolVar(&o.logs, "logs", false, "also print all log records below the matches")
			flags.IntVarP(&o.before, "before", "B", 0, "print this many rows before each match")
			flags.IntVarP(&o.after, "after", "A", 0, "print this many rows after each match")
			flags.IntVar(&o.limit, "limit", 0, "print at most this many matches, 0 for all")
		},
		newest: true,
		before: 1,
		run: func(ctx context.Context, c *console, args []string) error {
			o.query = args[0]
			return asCheck(o.grep(ctx, c, args[1:]))
		},
	}
}

func (o *grepOptions) grep(ctx context.Context, c *console, names []string) error {
	if o.tree && o.json {
		return usagef("--tree and --json cannot be used together: in JSON, each row names its parent")
	}
	if err := errors.Join(notNegative("limit", o.limit), notNegative("after", o.after), notNegative("before", o.before)); err != nil {
		return err
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	n := l.result.Rows.Len()
	switch {
	case o.count && o.byFile:
		counts := make([]int, len(l.v.Files()))
		for r := range l.result.Rows.All() {
			file, _ := l.v.ID(r)
			counts[file]++
		}
		for i, n := range counts {
			fmt.Fprintf(l.w, "%s:%d\n", show.Safe(l.Name(i)), n)
		}
	case o.count:
		fmt.Fprintln(l.w, n)
	default:
		rows := l.rows()
		if o.limit > 0 && len(rows) > o.limit {
			rows = rows[:o.limit]
		}
		if o.logs {
			rows = withLogs(l.v, rows)
		}
		if o.before > 0 || o.after > 0 {
			rows = around(l.v, rows, o.before, o.after)
		}
		if o.tree {
			p := newPrinter(c, l, o.time)
			p.only, p.first = withAncestors(l.v, analyze.SetOf(l.v, rows)), l.first()
			err = p.all(ctx, 0)
		} else {
			err = newRowPrinter(c, l, &o.rowFlags).all(ctx, rows, inList)
		}
	}
	err = l.finish(err)
	if err == nil && n == 0 {
		return errNone
	}
	return err
}

// notNegative returns an error if n, the value of a flag, is below 0.
func notNegative(flag string, n int) error {
	if n < 0 {
		return usagef("--%s is %d: must not be below 0", flag, n)
	}
	return nil
}

// withLogs returns rows, and all log records below them in the tree, in chronological order.
func withLogs(v *view.View, rows []view.Row) []view.Row {
	all := analyze.SetOf(v, rows)
	for _, r := range rows {
		for kid := range analyze.Subtree(v, r) {
			if v.Role(kid) == view.RoleLog {
				all.Add(kid)
			}
		}
	}
	return query.InTime(v, all)
}

// around returns rows and their neighbors in time. For each row, the number before says how many earlier rows it
// adds, and the number after how many later ones.
func around(v *view.View, rows []view.Row, before, after int) []view.Row {
	all := v.NewSet()
	for r := range v.Rows() {
		switch v.Role(r) {
		case view.RoleSpan, view.RoleLog, view.RoleEvent, view.RoleOther:
			all.Add(r)
		}
	}
	order := query.InTime(v, all)
	chosen := analyze.SetOf(v, rows)
	keep := v.NewSet()
	for i, r := range order {
		if chosen.Has(r) {
			for k := max(0, i-before); k <= min(len(order)-1, i+after); k++ {
				keep.Add(order[k])
			}
		}
	}
	return query.InTime(v, keep)
}
