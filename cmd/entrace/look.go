package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

// lookFlags select the rows of a trace that a command uses, and determine how files are opened.
type lookFlags struct {
	query, since, until, from, maxTemp string
	redact                             string // the value of --redact
	clock                              []string
	descendants                        bool
	follows                            bool // the files are followed: entries that are missing now come later
	time                               timeStyle
	json                               bool

	compares  bool                    // times of several services are compared: clocks that seem to be wrong are reported
	corrects  bool                    // without --clock, clocks that seem to be wrong are corrected
	once      bool                    // the trace is encoded only once, and not used otherwise
	progress  func(done, total int64) // if nil, open shows a bar of its own
	corrected []analyze.Clock         // set by open: the clocks that it found and corrected
	whole     func(v *view.View)      // if not nil, called with the view of all rows before a part is selected
}

// add adds the flags that determine how files are opened and which rows are used.
func (o *lookFlags) add(c *cobra.Command) {
	o.addQuery(c)
	o.addTimes(c)
}

// addTimes adds the flags of add other than -q.
func (o *lookFlags) addTimes(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&o.since, "since", "", "from a `TIME` on: 15:04:05, +30s after the first row, -10m before the last, or RFC 3339")
	flags.StringVar(&o.until, "until", "", "up to a `TIME`")
	o.addFrom(c)
	flags.StringArrayVar(&o.clock, "clock", nil, "correct clocks: `NAME=+120ms` adds 120ms to all times of a file or service; auto finds the offsets")
}

// addFrom adds the flags for opening files of other formats.
func (o *lookFlags) addFrom(c *cobra.Command) {
	c.Flags().StringVar(&o.from, "from", "", "the format of the files, from 'entrace convert --list'; by default found by their first bytes")
	c.Flags().StringVar(&o.maxTemp, "max-temp", "", "how large temporary files may become, 8GiB by default; other formats and compressed files need them")
}

// addQuery adds -q.
func (o *lookFlags) addQuery(c *cobra.Command) {
	c.Flags().StringVarP(&o.query, "query", "q", "", "look only at the rows that this `QUERY` selects")
}

// addDescendants adds --descendants.
func (o *lookFlags) addDescendants(c *cobra.Command) {
	c.Flags().BoolVar(&o.descendants, "descendants", false, "with -q, --since or --until: also the rows below the selected ones, not only the rows above")
}

// addPrint adds the flags for printing rows.
func (o *lookFlags) addPrint(c *cobra.Command) {
	o.addTime(c)
	c.Flags().BoolVar(&o.json, "json", false, "print JSON, one object on each line")
}

// addTime adds --time.
func (o *lookFlags) addTime(c *cobra.Command) {
	c.Flags().StringVar((*string)(&o.time), "time", string(o.time), "how to print times, a `MODE`: offset from the first, utc, local or none")
}

// selects reports whether the flags select only a part of the trace.
func (o *lookFlags) selects() bool { return o.query != "" || o.since != "" || o.until != "" }

// clocks parses --clock.
func (o *lookFlags) clocks() (all map[string]time.Duration, auto bool, err error) {
	all = make(map[string]time.Duration)
	for _, s := range o.clock {
		if s == "auto" {
			auto = true
			continue
		}
		name, late, ok := strings.Cut(s, "=")
		d, err := time.ParseDuration(late)
		if !ok || err != nil {
			return nil, false, usagef("--clock is %q: must be auto or have the form SERVICE=OFFSET, such as shop=+120ms", s)
		}
		all[name] = d
	}
	return all, auto, nil
}

// A look is an open trace and the result of a query on it.
type look struct {
	*convert.Trace

	v       *view.View
	between *query.Options
	result  *query.Result
}

// look opens files and runs the query of o, if it has one.
func (a *app) look(ctx context.Context, names []string, o *lookFlags) (*look, error) {
	if err := o.time.check(); err != nil {
		return nil, err
	}
	q, wrong := query.Parse(o.query)
	unfinished, _ := errors.AsType[*query.Error](wrong)
	if wrong != nil && unfinished.Unfinished == "" {
		return nil, &usageError{wrong}
	}
	t, err := a.open(ctx, names, o)
	if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "{") }) {
		err = usagef("%w; a query must be before the files in 'entrace grep', and after -q in other commands", err)
	}
	if err != nil {
		return nil, err
	}
	if wrong != nil {
		return nil, errors.Join(&usageError{unfinished.WithValue(ctx, t.View())}, t.Close())
	}
	l := &look{Trace: t, v: t.View()}
	l.between, err = o.between(l.v)
	if err == nil {
		l.result, err = q.Run(ctx, l.v, l.between)
	}
	if err != nil {
		return nil, errors.Join(asUsage(err), t.Close())
	}
	a.tellNone(l, o)
	for _, h := range l.result.Hints {
		a.say("%s", h.Text)
		a.tellTry(h.Query)
	}
	return l, nil
}

// asUsage wraps an error of the query as a usageError. It returns other errors unchanged.
func asUsage(err error) error {
	if _, wrong := errors.AsType[*query.Error](err); wrong {
		return &usageError{err}
	}
	return err
}

// tellTry suggests the query text on a line of its own, quoted for a shell.
func (a *app) tellTry(text string) {
	if text != "" {
		a.say("try %s", shellQuoted(text))
	}
}

// shellQuoted returns a text as one argument of a shell.
func shellQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// lookRows is like look, but refuses a query that makes a table. It is for commands that print rows.
func (a *app) lookRows(ctx context.Context, names []string, o *lookFlags) (*look, error) {
	if q, err := query.Parse(o.query); err == nil && q.MakesTable() {
		return nil, errTable
	}
	return a.look(ctx, names, o)
}

// between parses --since and --until.
func (o *lookFlags) between(v *view.View) (*query.Options, error) {
	between := new(query.Options)
	for _, x := range []struct {
		flag, text string
		at         *time.Time
	}{{"since", o.since, &between.From}, {"until", o.until, &between.To}} {
		if x.text == "" {
			continue
		}
		t, err := query.ParseTime(x.text, v, o.time.zone())
		if err != nil {
			return nil, usagef("--%s: %w", x.flag, err)
		}
		*x.at = t
	}
	if !between.To.IsZero() && between.To.Before(between.From) {
		return nil, usagef("--until must not be before --since")
	}
	return between, nil
}

// first returns the earliest time of all entries, or the zero time if no entry has a time.
func (l *look) first() (t time.Time) {
	if first, _, ok := l.v.Period(); ok {
		t = time.Unix(0, first).UTC()
	}
	return t
}

// tellNone prints the times of the trace on stderr if --since and --until select nothing.
func (a *app) tellNone(l *look, o *lookFlags) {
	if o.since == "" && o.until == "" || l.result.Rows.Len() > 0 {
		return
	}
	if first, last, ok := l.v.Period(); ok {
		const layout = "2006-01-02 15:04:05.000"
		a.say("nothing was selected; the trace is from %s to %s", o.time.at(first, layout), o.time.at(last, layout))
	}
}

// errTable is the error if a command that prints rows gets a query that makes a table.
var errTable = usagef("the query computes a table, but this command needs rows: print the table with 'entrace stats'")

// part returns the selected rows with their ancestors, and with --descendants also their descendants.
func (l *look) part(o *lookFlags) view.Set[view.Row] {
	part := withAncestors(l.v, l.result.Rows)
	if o.descendants {
		t := l.v.Tree()
		for r := range l.result.Rows.All() {
			for rank := t.Rank(r) + 1; rank < t.End(r); rank++ {
				part.Add(t.Row(rank))
			}
		}
	}
	return part
}

// withAncestors returns rows and all their ancestors.
func withAncestors(v *view.View, rows view.Set[view.Row]) view.Set[view.Row] {
	all := v.NewSet()
	for r := range rows.All() {
		for ; r != 0 && !all.Has(r); r = v.Parent(r) {
			all.Add(r)
		}
	}
	return all
}

// openPart opens the part of files that the flags select.
func (a *app) openPart(ctx context.Context, names []string, o *lookFlags) (*convert.Trace, error) {
	whole := o.whole
	if whole == nil {
		whole = func(*view.View) {}
	}
	if !o.selects() {
		t, err := a.open(ctx, names, o)
		if err == nil {
			whole(t.View())
		}
		return t, err
	}
	l, err := a.lookRows(ctx, names, o)
	if err != nil {
		return nil, err
	}
	whole(l.v)
	part := l.part(o)
	if l.result.Rows.Len() == 0 {
		a.say("the query selects nothing, so the output will have no rows")
	}
	t, err := l.Select(ctx, l.v, part.Has)
	return t, errors.Join(err, l.Close())
}

// rows returns the selected rows in the order of the query, or in the order of time if the query does not sort.
func (l *look) rows() []view.Row {
	if l.result.Order != nil {
		return l.result.Order
	}
	return query.InTime(l.v, l.result.Rows)
}
