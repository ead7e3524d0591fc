package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// lookFlags say which rows of a trace a command looks at.
type lookFlags struct {
	query, since, until, from string
	clock                     []string
	time                      timeStyle
	json                      bool
}

// add adds the flags to a command.
func (o *lookFlags) add(c *cobra.Command, withQuery bool) {
	if withQuery {
		c.Flags().StringVarP(&o.query, "query", "q", "", "look at what this `QUERY` selects")
	}
	c.Flags().StringVar(&o.since, "since", "", "from a `TIME` on: 15:04:05, +30s after the first row, -10m before the last, or RFC 3339")
	c.Flags().StringVar(&o.until, "until", "", "up to a `TIME`")
	c.Flags().StringVar(&o.from, "from", "", "the format of the files")
	c.Flags().StringArrayVar(&o.clock, "clock", nil, "what a clock was late, as `NAME=+120ms` of a file or service")
	c.Flags().StringVar((*string)(&o.time), "time", string(o.time), "print times: `offset` from the first, utc, local or none")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON, an object a line")
}

// clocks returns what --clock says.
func (o *lookFlags) clocks() (map[string]time.Duration, error) {
	all := make(map[string]time.Duration)
	for _, s := range o.clock {
		name, late, ok := strings.Cut(s, "=")
		d, err := time.ParseDuration(late)
		if !ok || err != nil {
			return nil, usagef("--clock is %q, it must be as in shop=+120ms", s)
		}
		all[name] = d
	}
	return all, nil
}

// A look is a trace, and what a query selects of it.
type look struct {
	*convert.Trace

	v      *view.View
	result *query.Result
}

// look opens files and runs the query, if there is one.
func (a *app) look(ctx context.Context, names []string, o *lookFlags) (*look, error) {
	if err := o.time.check(); err != nil {
		return nil, err
	}
	q, err := query.Parse(o.query)
	if err != nil {
		return nil, &usageError{err}
	}
	clocks, err := o.clocks()
	if err != nil {
		return nil, err
	}
	t, err := a.openWith(ctx, names, convert.OpenOptions{From: o.from, Clock: clocks})
	if err != nil {
		return nil, err
	}
	l := &look{Trace: t, v: t.View()}
	if l.result, err = q.RunBetween(ctx, l.v, func(v *view.View) (from, to int64, err error) { return o.between(v) }); err != nil {
		if _, wrong := errors.AsType[*query.Error](err); wrong {
			err = &usageError{err}
		}
		return nil, errors.Join(err, t.Close())
	}
	for _, h := range l.result.Hints {
		fmt.Fprintln(a.err, "entrace:", safe(h))
	}
	return l, nil
}

// between returns what --since and --until say, in nanoseconds since 1970.
func (o *lookFlags) between(v *view.View) (from, to int64, err error) {
	zone := time.Local
	if o.time == timeUTC {
		zone = time.UTC
	}
	from, to = math.MinInt64, math.MaxInt64
	for _, x := range []struct {
		flag, text string
		at         *int64
	}{{"since", o.since, &from}, {"until", o.until, &to}} {
		if x.text == "" {
			continue
		}
		t, err := query.ParseTime(x.text, v, zone)
		if err != nil {
			return 0, 0, usagef("--%s: %w", x.flag, err)
		}
		*x.at = t.UnixNano()
	}
	return from, to, nil
}

// rows returns the selected rows, in the order of the query or of time.
func (l *look) rows() []view.Row {
	if l.result.Order != nil {
		return l.result.Order
	}
	return query.InTime(l.v, l.result.Rows)
}
