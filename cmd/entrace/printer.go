package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/fit"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/view"
)

// maxIndent is the maximum number of drawn levels. A deeper row prints its depth as a number.
const maxIndent = 40

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

	l     *selected
	folds map[view.Row][]byte // the text that is printed in place of these rows
	cut   *fit.Left           // counts shortened texts; once the rows of the answer are chosen, it counts only texts of these rows

	stored map[view.Row]int // how many entries a row has, if p prints entries
}

func newPrinter(c *console, l *selected, style timeStyle) printer {
	width := c.width
	if width == 0 {
		width = terminalWidth(c.out)
	}
	return printer{console: c, Rows: show.NewRows(l.v, width, c.color), v: l.v, l: l, time: style, cut: new(fit.Left)}
}

// summary returns the line for the root.
func (p *printer) summary() string {
	var in info
	in.count(p.v, p.only)
	what := plural(in.Spans, "span") + ", " + plural(in.Logs, "log record")
	if in.errors > 0 {
		what += ", " + p.paint(show.Red, plural(in.errors, "error"))
	}
	if in.FirstTime != nil {
		p.first = *in.FirstTime
		if lasts := in.LastTime.Sub(p.first); lasts > 0 {
			what += ", " + duration(lasts)
		}
	}
	return fmt.Sprintf("%s %s: %s", p.paint(show.Bold, show.Safe(p.title)), show.Safe(stateOfTitle(p.states)), what)
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
	for room := p.Width; ; room = p.Width - len(indent) {
		short := show.Short(text, room)
		if short == text {
			return b.String() + text
		}
		fits := len(strings.TrimSuffix(short, "…"))
		if space := strings.LastIndexByte(text[:fits+1], ' '); strings.TrimLeft(text[:max(0, space)], " ") != "" {
			fits = space
		}
		b.WriteString(text[:fits] + "\n" + indent)
		text = strings.TrimLeft(text[fits:], " ")
	}
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
func (p *printer) all(ctx context.Context, most int) error {
	if p.fitted != nil {
		p.fitTree(most)
	}
	jobs := make(chan *treeBatch)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer close(jobs)
	workers := min(runtime.GOMAXPROCS(0), 8)
	if p.fitted != nil {
		workers = 1 // there are few rows, and p.cut is not safe for concurrent use
	}
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
			if _, err := p.l.w.Write(b.out); err != nil || b.err != nil {
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

// top returns the children of the root that are shown: first the application's entries, then the
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

// rowsFrom returns rows and all rows below them, in the order of the tree, if they are printed. The parameter most is as
// in all.
func (p *printer) rowsFrom(tops []view.Row, most int) (rows []view.Row) {
	for _, top := range tops {
		_ = p.v.Walk(top, func(r view.Row, depth int, _ bool) error { // the function returns no other error
			if most > 0 && depth >= most || p.only != nil && !p.only.Has(r) {
				return view.SkipChildren
			}
			rows = append(rows, r)
			return nil
		})
	}
	return rows
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
	if fold, is := p.folds[r]; is {
		p.B = append(p.B, fold...)
		return nil
	}
	p.shorten(e)
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

// timeOf returns the text in the time column for row r.
func (p *printer) timeOf(r view.Row) string {
	if p.time == timeNone {
		return ""
	}
	if t, ok := p.v.Time(r); ok {
		return p.time.format(t, p.first)
	}
	return strings.Repeat(" ", len([]rune(p.time.format(p.first, p.first))))
}

// tellsNothing reports whether row r needs no line because the state of its file says the same. This is true for
// the end of a recording that has lost nothing, and for the mark that the file was recovered.
func tellsNothing(v *view.View, r view.Row) bool {
	if v.Role(r) != view.RoleRecorder || v.Name(r) != mapping.NameEnd {
		return v.Role(r) == view.RoleRecorder && v.Name(r) == mapping.NameRecovered
	}
	e, err := v.Entry(r)
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(e.Attributes, func(a format.Attribute) bool { return a.Name == mapping.AttrDropped && !show.IsZero(a.Value) })
}
