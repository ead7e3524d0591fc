package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/read/show"
	texts "github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

func treeCommand() *command {
	o := &treeOptions{rowFlags: rowFlags{time: timeNone, inputFlags: inputFlags{compares: true}}}
	return &command{
		use:   "tree FILE|DIR...",
		short: "Print spans and log records as a tree, with durations",
		long: `tree prints spans and log records as a tree, with durations.

  entrace tree app.et
  entrace tree shop.et stock.et                            a span hangs below its caller in the other file
  entrace tree app.et -q '{ span:failed }' --descendants   what a query selects, and what is above and below

Events and log records are below their span, in the order of time. The attributes in which siblings differ come
first. On a terminal a line has as many attributes as fit, and a stack has a few lines; --full, or a pipe, has
all. - is the standard input. Of a damaged file, tree prints the rows that are whole, and exits with 1.`,
		flags: func(flags *pflag.FlagSet) {
			o.addDescendants(flags)
			o.add(flags)
			o.addPrint(flags)
			flags.IntVar(&o.depth, "depth", 0, "how many levels to print, 0 for all")
			flags.BoolVar(&o.bare, "no-attributes", false, "print no attributes")
			flags.BoolVar(&o.states, "states", false, "print what the goroutines of spans did, if the file has an execution trace")
			flags.BoolVar(&o.full, "full", false, "cut nothing, even on a terminal")
		},
		newest:   true,
		complete: completeTraces,
		run:      o.run,
	}
}

// each calls fn for every name, and joins the errors. If there are several names, each error begins with its name.
func each(names []string, fn func(name string) error) error {
	var errs []error
	for _, name := range names {
		err := fn(name)
		if len(names) > 1 && err != nil && !errors.Is(err, errQuiet) && !strings.Contains(err.Error(), name) {
			err = fmt.Errorf("%s: %w", name, err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxIndent is the maximum number of drawn levels. A deeper row prints its depth as a number.
const maxIndent = 40

type treeOptions struct {
	rowFlags

	depth int  // 0 for all levels
	bare  bool // print no attributes
	full  bool // shorten nothing

	states bool // say what goroutines did
}

func (o *treeOptions) run(ctx context.Context, c *console, names []string) error {
	if o.depth < 0 {
		return usagef("--depth is %d: must not be below 0", o.depth)
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return torn(names[0], err)
	}
	defer l.Close()
	v := l.v
	w := bufio.NewWriterSize(c.out, 64<<10)
	p := newPrinter(c, v, o.time)
	p.title, p.Bare = title(l.Trace), o.bare
	if o.selects() {
		p.only = l.part(o.descendants)
	}
	if o.states {
		within := l.result.Rows
		if p.only != nil {
			within = p.only
		}
		states, err := v.States(ctx)
		if err != nil {
			return err
		}
		if text := query.NoStates(v, states); text != "" {
			c.say("%s", text)
		}
		strips, err := analyze.NewStrips(ctx, v, within.All(), math.MaxInt64)
		if err != nil {
			return err
		}
		p.Strip = func(r view.Row) []string { return strip(v, strips, r) }
	}
	if o.json {
		err = newRowPrinter(c, l, w, &o.rowFlags).tree(ctx, p.only, o.depth)
		return errors.Join(err, w.Flush(), l.Damage())
	}
	if o.full {
		p.Width, p.Measured = 0, false
	}
	p.states = statesOf(l.Trace)
	p.GoesOn = func(file int) bool { return file < len(p.states) && p.states[file].Rotated }
	var lines io.Writer = w
	if isASCII() {
		lines = asciiWriter{w}
	}
	if v.Len() > 0 {
		_, err = fmt.Fprintln(lines, p.wrapped(p.summary()))
		for i, line := range stateLines(l.Trace, p.states) {
			if i == maxStates && !o.full {
				fmt.Fprintln(lines, p.paint(show.Dim, "  … 'entrace info' has the states of all files"))
				break
			}
			fmt.Fprintln(lines, p.wrapped("  "+show.Safe(line)))
		}
		err = errors.Join(err, w.Flush()) // print the first lines now: the next one takes a while
	}
	if err == nil {
		err = p.all(ctx, lines, o.depth)
	}
	return errors.Join(err, w.Flush(), l.Damage())
}

// A treeLine is a row to print and its position in the tree.
type treeLine struct {
	row   view.Row
	depth int
	last  bool
}

// linesAtOnce is the maximum number of rows in a treeBatch.
const linesAtOnce = 512

// A treeBatch is a sequence of rows that one goroutine prints.
type treeBatch struct {
	rows  []treeLine
	lines [maxIndent + 1]bool // the value of printer.lines before the first row
	out   []byte
	err   error
	done  chan struct{}
}

// all prints all rows below the root, on several cores. The parameter most is the maximum depth, or 0 for all
// depths.
func (p *printer) all(ctx context.Context, w io.Writer, most int) error {
	jobs := make(chan *treeBatch)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer close(jobs)
	workers := min(runtime.GOMAXPROCS(0), 8)
	for range workers {
		own := *p
		own.Rows = p.Copy()
		wait.Go(func() {
			for b := range jobs {
				own.batch(b)
			}
		})
	}
	var ahead, free []*treeBatch
	finish := func(n int) error {
		for len(ahead) > n {
			b := ahead[0]
			ahead = ahead[1:]
			<-b.done
			if _, err := w.Write(b.out); err != nil || b.err != nil {
				return errors.Join(err, b.err)
			}
			free = append(free, b)
		}
		return nil
	}
	now := new(treeBatch)
	dispatch := func() error {
		now.done = make(chan struct{})
		jobs <- now
		ahead = append(ahead, now)
		if err := finish(2 * workers); err != nil {
			return err
		}
		now = new(treeBatch)
		if n := len(free); n > 0 {
			now, free = free[n-1], free[:n-1]
			now.rows = now.rows[:0]
		}
		now.lines = p.lines
		return nil
	}
	top := p.top()
	for i, kid := range top {
		err := p.v.Walk(kid, func(r view.Row, depth int, last bool) error {
			depth++
			if most > 0 && depth > most || p.only != nil && !p.only.Has(r) {
				return view.SkipChildren
			}
			if p.only != nil && depth > 1 {
				last = p.isLast(r)
			}
			last = last && (depth > 1 || i == len(top)-1)
			now.rows = append(now.rows, treeLine{r, depth, last})
			if depth <= maxIndent {
				p.lines[depth] = !last
			}
			if len(now.rows) < linesAtOnce {
				return nil
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return dispatch()
		})
		if err != nil {
			return errors.Join(err, finish(0))
		}
	}
	if err := dispatch(); err != nil {
		return err
	}
	return finish(0)
}

// isLast reports whether no later sibling of row r is printed.
func (p *printer) isLast(r view.Row) bool {
	t := p.v.Tree()
	for rank, end := t.End(r), t.End(p.v.Parent(r)); rank < end; rank = t.End(t.Row(rank)) {
		if p.only.Has(t.Row(rank)) {
			return false
		}
	}
	return true
}

// batch prints a batch into its buffer.
func (p *printer) batch(b *treeBatch) {
	defer close(b.done)
	p.lines, p.B, b.err = b.lines, b.out[:0], nil
	for _, l := range b.rows {
		b.err = p.entry(l.row, l.depth, l.last)
		if b.err != nil {
			break
		}
	}
	b.out = p.B
}

// maxStates is the maximum number of file states that are printed below the first line.
const maxStates = 20

// title returns the title of a trace: the name of its first file, and the number of other files.
func title(t *convert.Trace) string {
	if n := len(t.View().Files()); n > 1 {
		return fmt.Sprintf("%s and %s", t.Name(0), plural(n-1, "other file"))
	}
	return fileName(t, 0)
}

// A printer draws entries into its line, one after the other.
type printer struct {
	*console
	show.Rows

	title  string
	states []convert.State // the states of the files; nil if they are not printed
	v      *view.View
	only   view.Set[view.Row]  // the rows to print, nil for all
	lines  [maxIndent + 1]bool // for each level, whether more rows of this level follow below
	time   timeStyle
	first  time.Time // the earliest time of all entries
}

func newPrinter(c *console, v *view.View, style timeStyle) printer {
	width := c.width
	if width == 0 {
		width = terminalWidth(c.out)
	}
	return printer{console: c, Rows: show.NewRows(v, width, c.color), v: v, time: style}
}

// top returns the children of the root that are shown: first those of the application, then the
// recorder's own entries. It leaves out clean ends, because the first line reports them.
func (p *printer) top() []view.Row {
	var kids, own []view.Row
	for _, r := range p.v.Children(0) {
		switch {
		case tellsNothing(p.v, r), p.only != nil && !p.only.Has(r):
		case p.v.Role(r) == view.RoleRecorder:
			own = append(own, r)
		default:
			kids = append(kids, r)
		}
	}
	return append(kids, own...)
}

func (p *printer) entry(r view.Row, depth int, last bool) error {
	e, err := p.Read.WithoutIDs(r)
	if err != nil {
		return err
	}
	p.Begin(0)
	p.Start(show.Dim)
	time := p.timeOf(r)
	p.B = append(p.B, time...)
	for i := 1; i < min(depth, maxIndent); i++ {
		p.B = append(p.B, p.bar(i)...)
	}
	if depth <= maxIndent {
		p.lines[depth] = !last
	}
	switch {
	case depth > maxIndent:
		p.B = fmt.Appendf(p.B, "⋯%d ", depth)
	case last:
		p.B = append(p.B, "└─ "...)
	default:
		p.B = append(p.B, "├─ "...)
	}
	p.Stop()
	more := p.Row(r, e)
	p.B = append(p.B, '\n')
	if len(more) == 0 {
		return nil
	}
	before := slices.Repeat([]byte(" "), utf8.RuneCountInString(time))
	for i := 1; i <= min(depth, maxIndent); i++ {
		before = append(before, p.bar(i)...)
	}
	if t := p.v.Tree(); t.End(r) > t.Rank(r)+1 {
		before = append(before, "│ "...)
	} else {
		before = append(before, "  "...)
	}
	for _, text := range more {
		p.below(string(before), text)
	}
	return nil
}

// minWrap is the narrowest terminal, in columns, for which lines are wrapped.
const minWrap = 20

// wrapped breaks a line into lines that fit on the terminal. All lines but the first are indented. A line that is
// broken loses its colors.
func (p *printer) wrapped(line string) string {
	const indent = "    "
	text := plain(line)
	if p.Width < minWrap || utf8.RuneCountInString(text) <= p.Width {
		return line
	}
	var b strings.Builder
	for utf8.RuneCountInString(text) > p.Width {
		fits := len(texts.Head(text, len(string([]rune(text)[:p.Width]))))
		if space := strings.LastIndexByte(text[:fits+1], ' '); strings.TrimLeft(text[:max(0, space)], " ") != "" {
			fits = space
		}
		b.WriteString(text[:fits] + "\n")
		text = indent + strings.TrimLeft(text[fits:], " ")
	}
	return b.String() + text
}

// bar returns the characters that draw one level of the tree to the left of a row.
func (p *printer) bar(level int) string {
	if p.lines[level] {
		return "│  "
	}
	return "   "
}

// fewLines is the maximum number of lines of a long text that are printed to a terminal.
const fewLines = 6

// below prints a text of several lines, with before in front of each line.
func (p *printer) below(before, text string) {
	n := 0
	for line := range strings.Lines(text) {
		if p.Width > 0 && n == fewLines {
			p.Text(show.Dim, fmt.Sprintf("%s… %d more lines, which --full shows", before, strings.Count(text, "\n")+1-n))
			p.B = append(p.B, '\n')
			return
		}
		line = before + show.Safe(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))
		if p.Width > 0 {
			line = show.Short(line, p.Width-1)
		}
		p.Text(show.Dim, line)
		p.B = append(p.B, '\n')
		n++
	}
}

// summary returns the line for the root.
func (p *printer) summary() string {
	spans, logs, errs := 0, 0, 0
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for r := range p.v.Rows() {
		if p.only != nil && !p.only.Has(r) {
			continue
		}
		f := p.v.Flags(r)
		start, timed := p.v.Start(r)
		switch f.Role() {
		case view.RoleSpan:
			spans++
			if took, ended := p.v.Duration(r); ended && timed && start+int64(took) > start {
				last = max(last, start+int64(took))
			}
		case view.RoleLog:
			logs++
		case view.RoleEvent:
		case view.RoleOther:
			if p.v.Role(p.v.Parent(r)) == view.RoleRecorder {
				continue // the row belongs to no span, and may be from another time
			}
		default:
			continue
		}
		if f.IsError() {
			errs++
		}
		if timed {
			first, last = min(first, start), max(last, start)
		}
	}
	if first <= last {
		p.first = time.Unix(0, first).UTC()
	}
	what := plural(spans, "span") + ", " + plural(logs, "log record")
	if errs > 0 {
		what += ", " + p.paint(show.Red, plural(errs, "error"))
	}
	if last > first {
		what += ", " + duration(time.Unix(0, last).Sub(p.first))
	}
	return fmt.Sprintf("%s %s: %s", p.paint(show.Bold, show.Safe(p.title)), show.Safe(stateOfTitle(p.states)), what)
}

// stripWidth is the number of letters in a strip. stripLeast is the duration of the shortest span that has a
// strip.
const (
	stripWidth = 20
	stripLeast = time.Millisecond // shorter spans have no strip
)

var stateLetters = map[string]byte{
	"running": '#', "runnable": 'r', "syscall": '$', "gc work": 'G', "gc wait": 'g', "mutex": 'M', "sync": 'W', "chan": 'C', "select": 'S',
	"net": 'N', "sleep": 'z', "other": '-',
}

// strip returns the states of a span's goroutine in words: first one letter for each part of the time, then the
// two longest states.
func strip(v *view.View, strips *analyze.Strips, r view.Row) (words []string) {
	if d, ended := v.Duration(r); ended && d < stripLeast {
		return nil
	}
	states := strips.Of(r, stripWidth)
	if states == nil {
		return nil
	}
	letters := make([]byte, len(states))
	for i, s := range states {
		letters[i] = stateLetters[s]
		if s == "" {
			letters[i] = '?'
		}
	}
	words = append(words, "|"+string(letters)+"|")
	for _, t := range strips.Longest(r, 2) {
		words = append(words, t.State+" "+duration(t.Time))
	}
	return words
}
