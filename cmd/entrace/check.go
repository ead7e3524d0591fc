package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

type checkOptions struct {
	rowFlags

	expect       string
	allowPartial bool
	limit        int
}

func checkCommand() *command {
	o := &checkOptions{rowFlags: rowFlags{time: timeLocal, selection: selection{tables: true, expectsNone: true}}, expect: "none", limit: 20}
	return &command{
		use:   "check -q QUERY --expect none|some|N|'>=N' FILE|DIR...",
		short: "Fail if a query selects more or fewer rows than expected",
		long: `check fails if a query selects more or fewer rows than expected, for tests and CI.

  entrace check -q 'level = error' --expect none app.et
  entrace check -q '{ name = "GET /cart" && duration > 100ms }' --expect '<=3' app.et
  entrace check -q '{ name = migrate }' --expect 1 app.et

check exits with 0 if the number of rows is as expected. If not, it prints the rows and exits with 1. It
exits with 2 after any other error, such as a damaged or unfinished file without --allow-partial.`,
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			o.addPrint(flags)
			flags.StringVar(&o.expect, "expect", o.expect, "how many rows the query must select: none, some, `N`, or >=N and the like")
			flags.BoolVar(&o.allowPartial, "allow-partial", false, "read a damaged or unfinished file as far as possible")
			flags.IntVar(&o.limit, "limit", o.limit, "print at most this many rows, 0 for all")
		},
		newest: true,
		fits:   true,
		run:    func(ctx context.Context, c *console, args []string) error { return asCheck(o.check(ctx, c, args)) },
	}
}

// expected returns a function that reports whether a number of rows fulfills --expect.
func expected(s string) (func(n int) bool, error) {
	switch s {
	case "none":
		s = "=0"
	case "some":
		s = ">0"
	}
	for _, op := range []string{">=", "<=", "!=", "=", ">", "<", ""} {
		rest, ok := strings.CutPrefix(s, op)
		if !ok {
			continue
		}
		want, err := strconv.Atoi(strings.TrimSpace(rest))
		if err != nil || want < 0 {
			break
		}
		return func(n int) bool {
			switch op {
			case ">=":
				return n >= want
			case "<=":
				return n <= want
			case "!=":
				return n != want
			case ">":
				return n > want
			case "<":
				return n < want
			}
			return n == want
		}, nil
	}
	return nil, usagef("--expect is %q: must be none, some, a number, or a number after >=, <=, <, > or !=", s)
}

func (o *checkOptions) check(ctx context.Context, c *console, names []string) error {
	if o.query == "" {
		return usagef("-q is missing: give the query to check")
	}
	if err := notNegative("limit", o.limit); err != nil {
		return err
	}
	want, err := expected(o.expect)
	if err != nil {
		return err
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	if !o.allowPartial {
		if err := l.whole(); err != nil {
			return err
		}
	}
	rows := l.rows()
	if l.result.Table != nil {
		return usagef("the query computes a table, but check counts rows: leave out '| count()' and the like")
	}
	if want(len(rows)) {
		return nil
	}
	c.say("%s, expected %s", plural(len(rows), "row"), o.expect)
	if len(rows) == 0 {
		err = l.sayAlone(ctx, c)
		if err != nil {
			return err
		}
	}
	if o.limit > 0 && len(rows) > o.limit {
		rows = rows[:o.limit]
	}
	if err := errors.Join(newRowPrinter(c, l, &o.rowFlags).all(ctx, rows, inList), l.w.Flush()); err != nil {
		return err
	}
	return errNone
}
