package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A selection holds the flags that select rows of a trace.
type selection struct {
	query, since, until string
	descendants         bool // the rows below the selected ones belong to the part
	tables              bool // the command can print the table that a query makes
	alone               bool // FILE#ID selects this row; otherwise also the rows below it
	named               []rowName
	expectsNone         bool // the user may expect an empty selection
}

// A rowName names a row of a file.
type rowName struct {
	file string
	id   uint32
}

// rowNamed splits a name FILE#ID. It returns false if a file has the whole name.
func rowNamed(name string) (row rowName, is bool) {
	at := strings.LastIndexByte(name, '#')
	if at < 0 || osfile.Exists(format.Find(name)) {
		return row, false
	}
	id, err := strconv.ParseUint(name[at+1:], 10, 32)
	return rowName{name[:at], uint32(id)}, err == nil
}

// files returns the names of the files in names, without #ID, and stores the named rows in s.named.
func (s *selection) files(names []string) (files []string) {
	s.named = nil
	for _, name := range names {
		row, is := rowNamed(name)
		if is {
			s.named = append(s.named, row)
			name = row.file
		}
		if !is || !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	return files
}

// rowFlags are the flags of commands that read the rows of traces.
type rowFlags struct {
	inputFlags
	selection

	time timeStyle
	json bool
}

// add adds the flags that determine how files are opened and which rows are used.
func (o *rowFlags) add(flags *pflag.FlagSet) {
	o.addQuery(flags)
	o.addTimes(flags)
}

// addTimes adds the flags of add other than -q.
func (o *rowFlags) addTimes(flags *pflag.FlagSet) {
	flags.StringVar(&o.since, "since", "", "from a `TIME` on: 15:04:05, +30s after the first row, -10m before the last, or RFC 3339")
	flags.StringVar(&o.until, "until", "", "up to a `TIME`")
	o.addFrom(flags)
	o.addClock(flags)
}

// addQuery adds -q.
func (s *selection) addQuery(flags *pflag.FlagSet) {
	flags.StringVarP(&s.query, "query", "q", "", "look only at the rows that this `QUERY` selects")
}

// addDescendants adds --descendants.
func (s *selection) addDescendants(flags *pflag.FlagSet) {
	flags.BoolVar(&s.descendants, "descendants", false, "with -q, --since or --until: also include the rows below the selected rows, not only the rows above")
}

// addPrint adds the flags for printing rows.
func (o *rowFlags) addPrint(flags *pflag.FlagSet) {
	o.addTime(flags)
	flags.BoolVar(&o.json, "json", false, "print JSON, one object on each line")
}

// addTime adds --time.
func (o *rowFlags) addTime(flags *pflag.FlagSet) {
	flags.StringVar((*string)(&o.time), "time", string(o.time), "how to print times, a `MODE`: offset from the first, utc, local or none")
}

// selects reports whether the flags select only a part of the trace.
func (s *selection) selects() bool {
	return s.query != "" || s.since != "" || s.until != "" || len(s.named) > 0
}

// errTable is the error if a command that prints rows gets a query that makes a table.
var errTable = usagef("the query computes a table, but this command needs rows: print the table with 'entrace stats'")

// parse parses -q. It refuses a query that makes a table, unless the command can print tables.
func (s *selection) parse() (*query.Query, error) {
	q, err := query.Parse(s.query)
	if err != nil {
		return nil, &usageError{err}
	}
	if q.MakesTable() && !s.tables {
		return nil, errTable
	}
	return q, nil
}

// between parses --since and --until. Times of day are in zone.
func (s *selection) between(v *view.View, zone *time.Location) (*query.Options, error) {
	between := new(query.Options)
	for _, x := range []struct {
		flag, text string
		at         *time.Time
	}{{"since", s.since, &between.From}, {"until", s.until, &between.To}} {
		if x.text == "" {
			continue
		}
		t, err := query.ParseTime(x.text, v, zone)
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

// A selected is an open trace with the rows that a selection has chosen.
type selected struct {
	*convert.Trace

	v       *view.View
	query   *query.Query
	between *query.Options
	result  *query.Result
	w       *bufio.Writer // the output of the command
}

// finish writes the rest of the buffered output. It adds the errors of the output and of the trace to err.
func (s *selected) finish(err error) error { return errors.Join(err, s.w.Flush(), s.Damage()) }

// openRows opens files and selects rows.
func openRows(ctx context.Context, c *console, names []string, o *rowFlags) (*selected, error) {
	if err := o.time.check(); err != nil {
		return nil, err
	}
	q, wrong := o.parse()
	unfinished, ok := errors.AsType[*query.Error](wrong)
	if wrong != nil && (!ok || unfinished.Unfinished == "") {
		return nil, wrong
	}
	names = o.files(names)
	t, err := open(ctx, c, names, &o.inputFlags)
	if errors.Is(err, fs.ErrNotExist) && slices.ContainsFunc(names, func(s string) bool { return strings.HasPrefix(s, "{") }) {
		err = usagef("%w; a query must be before the files in 'entrace grep', and after -q in other commands", err)
	}
	if err != nil {
		return nil, err
	}
	if wrong != nil {
		return nil, errors.Join(&usageError{unfinished.WithValue(ctx, t.View())}, t.Close())
	}
	s := &selected{Trace: t, v: t.View(), query: q, w: bufio.NewWriterSize(c.out, 64<<10)}
	if err := s.run(ctx, o); err != nil {
		return nil, errors.Join(asUsage(err), t.Close())
	}
	if first, last, ok := s.v.Period(); ok && (o.since != "" || o.until != "") && s.result.Rows.Len() == 0 {
		const layout = "2006-01-02 15:04:05.000"
		c.say("nothing was selected; the trace is from %s to %s", o.time.at(first, layout), o.time.at(last, layout))
	}
	for _, h := range s.result.Hints {
		c.say("%s", h.Text)
		c.sayTry(h.Query)
	}
	if s.result.Rows.Len() == 0 && !o.expectsNone && !o.follows {
		err = s.sayAlone(ctx, c)
	}
	return s, err
}

// sayAlone says how many rows each condition of the query selects alone, if there are several.
func (s *selected) sayAlone(ctx context.Context, c *console) error {
	conditions, err := s.query.Alone(ctx, s.v, s.between)
	var parts []string
	for _, x := range conditions[:min(len(conditions), maxConditions)] {
		parts = append(parts, fmt.Sprintf("%d by %s", x.Rows, text.Cut(x.Text, maxCondition)))
	}
	if len(parts) > 0 {
		c.say("no row meets all conditions; alone they select: %s", strings.Join(parts, "; "))
	}
	return err
}

// How many conditions sayAlone prints, and how many bytes of each.
const (
	maxConditions = 10
	maxCondition  = 80
)

// run runs the query on the view.
func (s *selected) run(ctx context.Context, o *rowFlags) (err error) {
	s.between, err = o.between(s.v, o.time.zone())
	if err == nil {
		s.between.Within, err = s.namedRows(&o.selection)
	}
	if err == nil {
		s.result, err = s.query.Run(ctx, s.v, s.between)
	}
	if err == nil && s.between.Within != nil && o.query == "" { // also rows that a query does not read
		s.result.Rows = s.between.Within
	}
	return err
}

// namedRows returns the rows that the command line names, or nil if it names files.
func (s *selected) namedRows(o *selection) (rows view.Set[view.Row], err error) {
	for _, name := range o.named {
		if rows == nil {
			rows = s.v.NewSet()
		}
		file := 0
		for file < len(s.v.Files())-1 && filepath.Clean(s.Name(file)) != filepath.Clean(name.file) {
			file++
		}
		r, ok := s.v.Row(file, name.id)
		if !ok {
			return nil, usagef("%s has no row %d: its last one is %d", name.file, name.id, s.v.Entries(file)-1)
		}
		for row := range analyze.Subtree(s.v, r) {
			rows.Add(row)
			if o.alone {
				break
			}
		}
	}
	return rows, nil
}

// asUsage wraps an error of the query as a usageError. It returns other errors unchanged.
func asUsage(err error) error {
	if _, wrong := errors.AsType[*query.Error](err); wrong {
		return &usageError{err}
	}
	return err
}

// first returns the earliest time of all entries, or the zero time if no entry has a time.
func (s *selected) first() (t time.Time) {
	if first, _, ok := s.v.Period(); ok {
		t = time.Unix(0, first).UTC()
	}
	return t
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

// rows returns the selected rows in the order of the query, or in chronological order if the query does not sort.
func (s *selected) rows() []view.Row {
	if s.result.Order != nil {
		return s.result.Order
	}
	return query.InTime(s.v, s.result.Rows)
}

// part returns the selected rows with their ancestors, and with --descendants also their descendants.
func (s *selected) part(descendants bool) view.Set[view.Row] {
	part := withAncestors(s.v, s.result.Rows)
	if descendants {
		for r := range s.result.Rows.All() {
			for row := range analyze.Subtree(s.v, r) {
				part.Add(row)
			}
		}
	}
	return part
}

// openPart opens the part of files that the flags select. It calls the func whole with the view of all rows.
func openPart(ctx context.Context, c *console, names []string, o *rowFlags, whole func(v *view.View)) (*convert.Trace, error) {
	if !o.selects() {
		t, err := open(ctx, c, names, &o.inputFlags)
		if err == nil {
			whole(t.View())
		}
		return t, err
	}
	s, err := openRows(ctx, c, names, o)
	if err != nil {
		return nil, err
	}
	whole(s.v)
	if s.result.Rows.Len() == 0 {
		c.say("the query selects nothing, so the output will have no rows")
	}
	t, err := s.Select(ctx, s.v, s.part(o.descendants).Has)
	return t, errors.Join(err, s.Close())
}

// runs opens files. Each file is one run.
func runs(ctx context.Context, c *console, names []string, o *rowFlags, allowPartial bool) (runs []query.Run, closeAll func(), err error) {
	var opened []*selected
	closeAll = func() {
		for _, l := range opened {
			_ = l.Close() // nothing was written to it
		}
	}
	for _, name := range names {
		l, err := openRows(ctx, c, []string{name}, o)
		if err != nil {
			return nil, closeAll, err
		}
		opened = append(opened, l)
		if !allowPartial {
			if err := l.whole(); err != nil {
				return nil, closeAll, fmt.Errorf("%s: %w", name, err)
			}
		}
		runs = append(runs, query.Run{View: l.v, Rows: l.result.Rows})
	}
	return runs, closeAll, nil
}

// errPartial is part of the error for an incomplete file if --allow-partial is not set.
var errPartial = errors.New("use --allow-partial to read the file as it is")

// whole returns an error if the trace is damaged or may get more entries.
func (s *selected) whole() error {
	if err := s.Damage(); err != nil {
		return err
	}
	for i, state := range statesOf(s.Trace) {
		if state.Word != deadtrace.Ended && !state.Recovered {
			return fmt.Errorf("%s is %s; %w", fileName(s.Trace, i), state, errPartial)
		}
	}
	return nil
}
