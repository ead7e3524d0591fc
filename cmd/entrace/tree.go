package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/text/quantity"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

func (a *app) treeCommand() *cobra.Command {
	o := treeOptions{lookFlags: lookFlags{time: timeNone, compares: true}}
	c := &cobra.Command{
		Use:   "tree FILE|DIR...",
		Short: "Print spans and log records as a tree, with durations",
		Long: `tree prints spans and log records as a tree, with durations.

  entrace tree app.et
  entrace tree shop.et stock.et                            a span hangs below its caller in the other file
  entrace tree app.et -q '{ span:failed }' --descendants   what a query selects, and what is above and below

Events and log records are below their span, in the order of time. The attributes in which siblings differ come
first. On a terminal a line has as many attributes as fit, and a stack has a few lines; --full, or a pipe, has
all. - is the standard input. Of a damaged file tree prints what is whole, and exits with 1.`,
		RunE: onFiles(a.tree, &o),
	}
	o.addDescendants(c)
	o.add(c)
	o.addPrint(c)
	flags := c.Flags()
	flags.IntVar(&o.depth, "depth", 0, "how many levels to print, 0 for all")
	flags.BoolVar(&o.bare, "no-attributes", false, "print no attributes")
	flags.BoolVar(&o.states, "states", false, "say what the goroutines of spans did, as an execution trace in the file tells")
	flags.BoolVar(&o.full, "full", false, "cut nothing on a terminal either")
	return c
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
	lookFlags

	depth int  // 0 for all levels
	bare  bool // print no attributes
	full  bool // shorten nothing

	states bool // say what goroutines did
}

func (a *app) tree(ctx context.Context, names []string, o *treeOptions) error {
	if o.depth < 0 {
		return usagef("--depth is %d, it must not be below 0", o.depth)
	}
	l, err := a.lookRows(ctx, names, &o.lookFlags)
	if err != nil {
		return torn(names[0], err)
	}
	defer l.Close()
	v := l.v
	w := bufio.NewWriterSize(a.out, 64<<10)
	p := a.printer(v, o.time)
	p.title, p.bare = title(l.Trace), o.bare
	if o.selects() {
		p.only = l.part(&o.lookFlags)
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
			a.say("%s", text)
		}
		if p.strips, err = analyze.NewStrips(ctx, v, within.All(), math.MaxInt64); err != nil {
			return err
		}
	}
	if o.json {
		err = a.rowPrinter(l, w, &o.lookFlags).tree(ctx, p.only, o.depth)
		return errors.Join(err, w.Flush(), l.Damage())
	}
	if o.full {
		p.width, p.measured = 0, false
	}
	p.states = statesOf(l.Trace)
	var lines io.Writer = w
	if isASCII() {
		lines = asciiWriter{w}
	}
	if v.Len() > 0 {
		_, err = fmt.Fprintln(lines, p.wrapped(p.summary()))
		for i, line := range stateLines(l.Trace, p.states) {
			if i == maxStates && !o.full {
				fmt.Fprintln(lines, p.paint(colorDim, "  … 'entrace info' has the states of all files"))
				break
			}
			fmt.Fprintln(lines, p.wrapped("  "+safe(line)))
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

// linesAtOnce is the number of rows of a batch.
const linesAtOnce = 512

// A treeBatch is a sequence of rows that one goroutine prints.
type treeBatch struct {
	rows  []treeLine
	lines [maxIndent + 1]bool // printer.lines before the first row
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
		own.b, own.value = nil, nil
		own.read, own.ranker = p.v.NewReader(), interest.NewRanker(p.v)
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
			if depth++; most > 0 && depth > most || p.only != nil && !p.only.Has(r) {
				return view.SkipChildren
			}
			if p.only != nil && depth > 1 {
				last = p.isLast(r)
			}
			last = last && (depth > 1 || i == len(top)-1)
			if now.rows = append(now.rows, treeLine{r, depth, last}); depth <= maxIndent {
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
	p.lines, p.b, b.err = b.lines, b.out[:0], nil
	for _, l := range b.rows {
		if b.err = p.entry(l.row, l.depth, l.last); b.err != nil {
			break
		}
	}
	b.out = p.b
}

// maxStates is the maximum number of file states that are printed below the first line.
const maxStates = 20

// title returns the title of a trace: the name of its file, with the number of other files.
func title(t *convert.Trace) string {
	if n := len(t.View().Files()); n > 1 {
		return fmt.Sprintf("%s and %s", t.Name(0), plural(n-1, "other file"))
	}
	return fileName(t, 0)
}

// A printer draws entries into its line, one after the other.
type printer struct {
	*app
	line

	title  string
	states []convert.State // the states of the files; nil if they are not printed
	v      *view.View
	bare   bool
	flat   bool                // every row is one line
	only   view.Set[view.Row]  // the rows to print, nil for all
	width  int                 // columns of the terminal, or 0 if the output is not a terminal
	lines  [maxIndent + 1]bool // whether a level has more rows below
	time   timeStyle
	first  time.Time // the earliest time of all entries

	read   *view.Reader
	ranker *interest.Ranker
	value  []byte          // of an attribute
	strips *analyze.Strips // nil if states are not printed
}

func (a *app) printer(v *view.View, style timeStyle) printer {
	width := a.width
	if width == 0 {
		width = terminalWidth(a.out)
	}
	return printer{app: a, line: line{colors: a.color, measured: width > 0}, v: v, width: width, time: style, read: v.NewReader(), ranker: interest.NewRanker(v)}
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
	e, err := p.read.WithoutIDs(r)
	if err != nil {
		return err
	}
	p.begin(0)
	p.start(colorDim)
	time := p.timeOf(r)
	p.b = append(p.b, time...)
	for i := 1; i < min(depth, maxIndent); i++ {
		p.b = append(p.b, p.bar(i)...)
	}
	if depth <= maxIndent {
		p.lines[depth] = !last
	}
	switch {
	case depth > maxIndent:
		p.b = fmt.Appendf(p.b, "⋯%d ", depth)
	case last:
		p.b = append(p.b, "└─ "...)
	default:
		p.b = append(p.b, "├─ "...)
	}
	p.stop()
	more := p.row(r, e)
	p.b = append(p.b, '\n')
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
	if p.width < minWrap || utf8.RuneCountInString(text) <= p.width {
		return line
	}
	var b strings.Builder
	for utf8.RuneCountInString(text) > p.width {
		fits := len(string([]rune(text)[:p.width]))
		if space := strings.LastIndexByte(text[:fits+1], ' '); strings.TrimLeft(text[:max(0, space)], " ") != "" {
			fits = space
		}
		b.WriteString(text[:fits] + "\n")
		text = indent + strings.TrimLeft(text[fits:], " ")
	}
	return b.String() + text
}

// bar returns the characters that a line has for the given level above it.
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
		if p.width > 0 && n == fewLines {
			p.text(colorDim, fmt.Sprintf("%s… %d more lines, which --full shows", before, strings.Count(text, "\n")+1-n))
			p.b = append(p.b, '\n')
			return
		}
		line = before + safe(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))
		if p.width > 0 {
			line = short(line, p.width-1)
		}
		p.text(colorDim, line)
		p.b = append(p.b, '\n')
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
		what += ", " + p.paint(colorRed, plural(errs, "error"))
	}
	if last > first {
		what += ", " + duration(time.Unix(0, last).Sub(p.first))
	}
	return fmt.Sprintf("%s %s: %s", p.paint(colorBold, safe(p.title)), safe(stateOfTitle(p.states)), what)
}

// lineOf returns the line of an entry. indent is the number of columns before the line.
func (p *printer) lineOf(r view.Row, e *format.TraceEntry, indent int) string {
	p.b = p.b[:0]
	p.begin(indent)
	p.row(r, e)
	return string(p.b)
}

// row prints an entry, and returns the texts that belong in lines below the entry. If p.flat is set, every row is
// one line, and more is empty.
func (p *printer) row(r view.Row, e *format.TraceEntry) (more []string) {
	if first, rest, several := strings.Cut(e.Message.Value, "\n"); several && !p.flat {
		e.Message.Value = first
		more = append(more, rest)
	}
	role := p.v.Role(r)
	p.head(r, role, e)
	if p.bare || role == view.RoleResource {
		return nil
	}
	list := p.attributes(r, e)
	for i := range e.Attributes {
		if a := &e.Attributes[i]; isStack(a.Name) {
			p.word(colorBold, safe(callstack.Place(a.Value.Text(), e.Message.Value)))
		}
	}
	end := e.Metadata.Name == mapping.NameEnd && role == view.RoleRecorder
	for i := range list {
		a := &list[i]
		if end && isZero(a.Value) {
			continue
		}
		if text := a.Value.Text(); !p.flat && a.Value.Kind() == format.KindString && strings.Contains(strings.TrimRight(text, "\n"), "\n") {
			if isStack(a.Name) && p.width > 0 {
				text = foldStack(text)
			}
			more = append(more, a.Name+":\n    "+strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    "))
			continue
		}
		name := safe(a.Name)
		if p.value = appendValue(p.value[:0], a.Value); p.width > 0 {
			runes := utf8.RuneCount(p.value)
			room := p.width - p.columns - 2 - utf8.RuneCountInString(name)
			if room < min(minValue, runes) {
				p.word(colorDim, "…")
				break
			}
			if most := min(room, maxValue); runes > most {
				p.value = append(p.value[:0], short(string(p.value), most-1)...)
			}
		}
		p.next()
		p.text(colorDim, name, "=")
		p.start("")
		p.b = append(p.b, p.value...)
		p.stop()
	}
	return more
}

// head prints the part of an entry's line before the attributes.
func (p *printer) head(r view.Row, role view.Role, e *format.TraceEntry) {
	name := safe(e.Metadata.Name)
	switch role {
	case view.RoleSpan:
		if p.v.Flags(r).IsError() {
			p.level(format.LevelError)
		}
		p.word(colorBold, name)
		p.service(r)
		p.took(r)
		p.strip(r)
		p.attr(e, mapping.AttrKind)
		p.attr(e, mapping.AttrStatusDescription)
		if before, _ := e.Attribute(mapping.AttrContinued); before.Bool() {
			p.word(colorDim, "began in the file before")
		}
	case view.RoleLog:
		if own, ok := e.Attribute(mapping.AttrLogLevel); ok {
			p.word("", safe(own.Text()))
		} else {
			p.level(e.Metadata.Level)
		}
		p.word("", safe(e.Message.Value))
	case view.RoleResource:
		p.word(colorBold, safe(e.Message.Value))
		p.word(colorDim, "resource")
	case view.RoleEvent:
		if e.Metadata.Level == format.LevelError {
			p.level(e.Metadata.Level)
		}
		p.next()
		p.text("", "• ", name)
	case view.RoleLink:
		p.word("", "→ link")
		p.attr(e, mapping.AttrLinkTraceID)
		p.attr(e, mapping.AttrLinkSpanID)
	default:
		p.level(e.Metadata.Level)
		p.word("", name)
		p.word("", safe(e.Message.Value))
	}
}

func (p *printer) level(l format.Level) { p.word(levelColor(l), l.String()) }

// On a terminal a value has at most maxValue runes. A value that does not fit in the line is cut. If fewer than
// minValue runes of the value would remain, the line ends with … instead.
const (
	maxValue = 80
	minValue = 8
)

// isZero reports whether v is the number 0.
func isZero(v format.Value) bool {
	n, ok := v.U64()
	return ok && n == 0
}

// The number of letters in a strip, and the least duration of a span with a strip.
const (
	stripWidth = 20
	stripLeast = time.Millisecond // shorter spans have no strip
)

var stateLetters = map[string]byte{
	"running": '#', "runnable": 'r', "syscall": '$', "gc work": 'G', "gc wait": 'g', "mutex": 'M', "sync": 'W', "chan": 'C', "select": 'S',
	"net": 'N', "sleep": 'z', "other": '-',
}

// strip prints the states of a span's goroutine.
func (p *printer) strip(r view.Row) {
	if p.strips == nil {
		return
	}
	if d, ended := p.v.Duration(r); ended && d < stripLeast {
		return
	}
	states := p.strips.Of(r, stripWidth)
	if states == nil {
		return
	}
	letters := make([]byte, len(states))
	for i, s := range states {
		if letters[i] = stateLetters[s]; s == "" {
			letters[i] = '?'
		}
	}
	p.word(colorDim, "|"+string(letters)+"|")
	for _, t := range p.strips.Longest(r, 2) {
		p.word(colorDim, t.State+" "+duration(t.Time))
	}
}

// took prints the duration of a span.
func (p *printer) took(r view.Row) {
	if d, ok := p.v.Duration(r); ok {
		p.next()
		p.start(colorBlue)
		p.b = quantity.AppendShort(p.b, d)
		p.stop()
		return
	}
	file, _ := p.v.ID(r)
	if file < len(p.states) && p.states[file].Rotated {
		p.word(colorDim, "goes on in the next file")
		return
	}
	text := "not ended"
	if d, _ := p.v.OpenFor(r); d > 0 {
		text += ", ≥ " + duration(d)
	}
	p.word(colorYellow, text)
}

// service prints the service of a span in brackets, if the span above it has another service.
func (p *printer) service(r view.Row) {
	up := p.v.Parent(r)
	if p.flat || p.v.Role(up) != view.RoleSpan {
		return
	}
	if service := p.v.Service(r); service != "" && service != p.v.Service(up) {
		p.next()
		p.text(colorGreen, "[", safe(service), "]")
	}
}

// attr prints an attribute that describes the entry.
func (p *printer) attr(e *format.TraceEntry, name string) {
	if v, ok := e.Attribute(name); ok {
		p.word(colorDim, safe(v.Text()))
	}
}

// terminalWidth returns the width of the terminal w in columns, or 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

// plain returns s without the colors of paint.
func plain(s string) string {
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		if !found {
			return s
		}
		_, after, _ = strings.Cut(after, "m")
		s = before + after
	}
}
