package main

import (
	"bufio"
	"bytes"
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
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

func (a *app) treeCommand() *cobra.Command {
	o := treeOptions{lookFlags: lookFlags{time: timeNone}}
	c := &cobra.Command{
		Use:   "tree FILE|DIR...",
		Short: "Print spans and log records as a tree, with durations",
		Long: "tree prints FILE, or the standard input for -, of any format: spans with their\n" +
			"durations, events and log records below the span they belong to, in the order of\n" +
			"time. Several files, or those of a folder, are one tree: a span hangs below its\n" +
			"caller in another file. What tells siblings apart comes first. On a terminal a line shows as\n" +
			"many attributes as there is room for, and of a stack a few lines; --full, or a pipe,\n" +
			"has it all. Of a damaged file it prints what is whole and exits with 1.",
		Args: someArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.depth < 0 {
				return usagef("--depth is %d, it must not be below 0", o.depth)
			}
			return a.tree(cmd.Context(), args, &o)
		},
		ValidArgsFunction: completeTraces,
	}
	o.addQuery(c)
	o.addDescendants(c)
	o.add(c)
	o.addPrint(c)
	c.Flags().IntVar(&o.depth, "depth", 0, "how many levels to print, 0 for all")
	c.Flags().BoolVar(&o.bare, "no-attributes", false, "print no attributes")
	c.Flags().BoolVar(&o.full, "full", false, "cut nothing on a terminal either")
	return c
}

// each calls fn for names, and joins the errors. Of several, each error says of which it is.
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

// maxIndent is how many levels are drawn. What is deeper says how deep it is.
const maxIndent = 40

type treeOptions struct {
	lookFlags

	depth int  // 0: all levels
	bare  bool // without attributes
	full  bool // nothing is cut
}

func (a *app) tree(ctx context.Context, names []string, o *treeOptions) error {
	l, err := a.lookRows(ctx, names, &o.lookFlags)
	if err != nil {
		return torn(names[0], err)
	}
	defer l.Close()
	v := l.v
	w := bufio.NewWriterSize(a.out, 64<<10)
	p := printer{app: a, title: title(l.Trace), v: v, bare: o.bare, width: terminalWidth(a.out), time: o.time}
	if o.selects() {
		p.only = l.part(&o.lookFlags)
	}
	if o.json {
		err = a.rowPrinter(l, w, &o.lookFlags).tree(ctx, p.only, o.depth)
		return errors.Join(err, w.Flush(), l.Damage())
	}
	if a.width > 0 {
		p.width = a.width
	}
	if o.full {
		p.width = 0
	}
	p.states, p.last = statesOf(l.Trace), lastTimes(v)
	var lines io.Writer = w
	if isASCII() {
		lines = asciiWriter{w}
	}
	if v.Len() > 0 {
		_, err = fmt.Fprintln(lines, p.cut(p.summary()))
		for i, line := range stateLines(l.Trace, p.states) {
			if i == maxStates && !o.full {
				fmt.Fprintln(lines, p.paint(colorDim, "  … 'entrace info' has the states of all files"))
				break
			}
			fmt.Fprintln(lines, p.cut("  "+safe(line)))
		}
		err = errors.Join(err, w.Flush()) // there is more to do before the next line
	}
	if err == nil {
		err = p.all(ctx, lines, o.depth)
	}
	return errors.Join(err, w.Flush(), l.Damage())
}

// A treeLine is a row to print, and where it is in the tree.
type treeLine struct {
	row   view.Row
	depth int
	last  bool
}

// linesAtOnce is how many rows make a batch.
const linesAtOnce = 512

// A treeBatch is rows that are printed one after the other.
type treeBatch struct {
	rows  []treeLine
	lines [maxIndent + 1]bool // as they are before the first
	out   bytes.Buffer
	err   error
	done  chan struct{}
}

// all prints everything below the root, on all cores, to a depth if that is not 0.
func (p *printer) all(ctx context.Context, w io.Writer, most int) error {
	jobs := make(chan *treeBatch)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer close(jobs)
	workers := min(runtime.GOMAXPROCS(0), 8)
	for range workers {
		own := *p
		own.read, own.ranker = p.v.NewReader(), p.v.NewRanker()
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
			if _, err := w.Write(b.out.Bytes()); err != nil || b.err != nil {
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
	b.out.Reset()
	p.lines, p.w, b.err = b.lines, &b.out, nil
	for _, l := range b.rows {
		if b.err = p.entry(l.row, l.depth, l.last); b.err != nil {
			return
		}
	}
}

// maxStates is how many states of files are printed below the first line.
const maxStates = 20

// title is what a trace is called: its file, or how many there are.
func title(t *convert.Trace) string {
	if n := len(t.View().Files()); n > 1 {
		return fmt.Sprintf("%s and %s", t.Name(0), count(n-1, "other file", "other files"))
	}
	return fileName(t, 0)
}

// A printer draws one entry after the other.
type printer struct {
	*app

	title  string
	states []convert.State // of the files; nil: not asked for
	last   []int64         // the latest time in each file, in nanoseconds since 1970; nil likewise
	v      *view.View
	w      io.Writer
	bare   bool
	flat   bool                // every row is one line
	only   query.Set           // what is printed, nil for everything
	width  int                 // of the terminal in columns, 0 for none
	lines  [maxIndent + 1]bool // whether a level goes on below
	time   timeStyle
	first  time.Time // of all entries

	read   *view.Reader
	ranker *view.Ranker
}

// top returns the children of the root that are shown: those of the application, then what
// the recorder says of itself, without clean ends, which the first line tells.
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
	e, err := p.read.Entry(r)
	if err != nil {
		return err
	}
	var b strings.Builder
	for i := 1; i < min(depth, maxIndent); i++ {
		b.WriteString(p.bar(i))
	}
	before := b.String()
	if depth <= maxIndent {
		p.lines[depth] = !last
	}
	switch {
	case depth > maxIndent:
		fmt.Fprintf(&b, "⋯%d ", depth)
	case last:
		b.WriteString("└─ ")
	default:
		b.WriteString("├─ ")
	}
	column := p.timeOf(r)
	line, more := p.line(r, e, utf8.RuneCountInString(column+b.String()))
	if _, err := fmt.Fprintln(p.w, p.paint(colorDim, column+b.String())+line); err != nil {
		return err
	}
	if len(more) == 0 {
		return nil
	}
	if before += p.bar(min(depth, maxIndent)); p.v.HasChildren(r) {
		before += "│ "
	} else {
		before += "  "
	}
	before = strings.Repeat(" ", utf8.RuneCountInString(column)) + before
	for _, text := range more {
		if err := p.text(before, text); err != nil {
			return err
		}
	}
	return nil
}

// cut returns a line without the colors of what does not fit on the terminal.
func (p *printer) cut(line string) string {
	if text := plain(line); p.width > 0 && utf8.RuneCountInString(text) > p.width {
		return short(text, p.width-1)
	}
	return line
}

// lastTimes returns the latest time in each file, 0 where there is none.
func lastTimes(v *view.View) []int64 {
	last := make([]int64, len(v.Files()))
	for r := range v.Rows() {
		if v.Role(r) == view.RoleRecorder && v.Name(r) == format.NameEnd {
			continue // the program may have done nothing for long before it
		}
		if start, timed := v.Start(r); timed && r != 0 {
			took, _ := v.Duration(r)
			file, _ := v.ID(r)
			last[file] = max(last[file], start+int64(took))
		}
	}
	return last
}

// bar is what a level looks like in a line below it.
func (p *printer) bar(level int) string {
	if p.lines[level] {
		return "│  "
	}
	return "   "
}

// fewLines is how many lines of a text a terminal shows.
const fewLines = 6

// text prints a text of several lines.
func (p *printer) text(before, text string) error {
	n := 0
	for line := range strings.Lines(text) {
		if p.width > 0 && n == fewLines {
			_, err := fmt.Fprintln(p.w, p.paint(colorDim, fmt.Sprintf("%s… %d more lines, which --full shows", before, strings.Count(text, "\n")+1-n)))
			return err
		}
		line = before + safe(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))
		if p.width > 0 {
			line = short(line, p.width-1)
		}
		if _, err := fmt.Fprintln(p.w, p.paint(colorDim, line)); err != nil {
			return err
		}
		n++
	}
	return nil
}

// summary is the line for the root.
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
				continue // of no span, and maybe of another time
			}
		default:
			continue
		}
		if query.IsError(f) {
			errs++
		}
		if timed {
			first, last = min(first, start), max(last, start)
		}
	}
	if first <= last {
		p.first = time.Unix(0, first).UTC()
	}
	what := count(spans, "span", "spans") + ", " + count(logs, "log record", "log records")
	if errs > 0 {
		what += ", " + p.paint(colorRed, count(errs, "error", "errors"))
	}
	if last > first {
		what += ", " + duration(time.Unix(0, last).Sub(p.first))
	}
	return fmt.Sprintf("%s %s: %s", p.paint(colorBold, safe(p.title)), safe(stateText(p.states)), what)
}

// line is what is printed of an entry behind so many columns, and the texts below it unless
// every row is one line.
func (p *printer) line(r view.Row, e *format.TraceEntry, indent int) (line string, more []string) {
	if first, rest, several := strings.Cut(e.Message.Value, "\n"); several && !p.flat {
		e.Message.Value = first
		more = append(more, rest)
	}
	kept := slices.DeleteFunc(p.head(r, e), func(s string) bool { return s == "" })
	used := indent
	for _, s := range kept {
		used += 1 + utf8.RuneCountInString(plain(s))
	}
	if p.bare || p.v.Role(r) == view.RoleResource {
		return strings.Join(kept, " "), nil
	}
	for _, a := range e.Attributes {
		if place := ""; isStack(a.Name) {
			if place = placeIn(a.Value.Text(), e.Message.Value); place != "" {
				kept = append(kept, p.paint(colorBold, safe(place)))
				used += 1 + utf8.RuneCountInString(place)
			}
		}
	}
	end := e.Metadata.Name == format.NameEnd && p.v.Role(r) == view.RoleRecorder
	for _, a := range p.attributes(r, e) {
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
		name, value := safe(a.Name)+"=", valueText(a.Value)
		if p.width > 0 {
			room := p.width - used - 1 - utf8.RuneCountInString(name)
			if room < min(minValue, utf8.RuneCountInString(value)) {
				kept = append(kept, p.paint(colorDim, "…"))
				break
			}
			if most := min(room, maxValue); utf8.RuneCountInString(value) > most {
				value = short(value, most-1)
			}
		}
		used += 1 + utf8.RuneCountInString(name) + utf8.RuneCountInString(value)
		kept = append(kept, p.paint(colorDim, name)+value)
	}
	return strings.Join(kept, " "), more
}

// head is what is printed of an entry before its attributes; empty parts are not.
func (p *printer) head(r view.Row, e *format.TraceEntry) []string {
	var parts []string
	name := safe(e.Metadata.Name)
	switch p.v.Role(r) {
	case view.RoleSpan:
		if query.IsError(p.v.Flags(r)) {
			parts = append(parts, p.level(format.LevelError))
		}
		parts = append(parts, p.paint(colorBold, name), p.service(r), p.took(r, e))
		parts = append(parts, p.attr(e, format.AttrKind), p.attr(e, format.AttrStatusDescription))
		if before, _ := e.Attribute(format.AttrContinued); before.Bool() {
			parts = append(parts, p.paint(colorDim, "began in the file before"))
		}
	case view.RoleLog:
		parts = append(parts, p.logLevel(e), safe(e.Message.Value))
	case view.RoleResource:
		parts = append(parts, p.paint(colorBold, safe(e.Message.Value)), p.paint(colorDim, "resource"))
	case view.RoleEvent:
		if e.Metadata.Level == format.LevelError {
			parts = append(parts, p.level(e.Metadata.Level))
		}
		parts = append(parts, "• "+name)
	case view.RoleLink:
		parts = append(parts, "→ link", p.attr(e, format.AttrLinkTraceID), p.attr(e, format.AttrLinkSpanID))
	default:
		parts = append(parts, p.level(e.Metadata.Level), name)
		if e.Message.Valid {
			parts = append(parts, safe(e.Message.Value))
		}
	}
	return parts
}

// Of a value a terminal shows at most so many runes, and at least so many or nothing.
const (
	maxValue = 80
	minValue = 8
)

// isZero reports whether v is the number 0.
func isZero(v format.Value) bool {
	n, ok := v.U64()
	return ok && n == 0
}

// took is how long a span took.
func (p *printer) took(r view.Row, e *format.TraceEntry) string {
	v, ok := e.Attribute(format.AttrDuration)
	if !ok {
		if file, _ := p.v.ID(r); file < len(p.states) && p.states[file].Rotated {
			return p.paint(colorDim, "goes on in the next file")
		}
		text := "not ended"
		if start, timed := p.v.Start(r); timed {
			if file, _ := p.v.ID(r); file < len(p.last) && p.last[file] > start {
				text += ", ≥ " + duration(time.Duration(p.last[file]-start))
			}
		}
		return p.paint(colorYellow, text)
	}
	n, _ := v.U64()
	return p.paint(colorBlue, duration(clampDuration(n)))
}

// service is the service of a span in brackets, if the span above it is of another one.
func (p *printer) service(r view.Row) string {
	up := p.v.Parent(r)
	if p.flat || p.v.Role(up) != view.RoleSpan {
		return ""
	}
	if service := p.v.Service(r); service != "" && service != p.v.Service(up) {
		return p.paint(colorGreen, "["+safe(service)+"]")
	}
	return ""
}

func (p *printer) attr(e *format.TraceEntry, name string) string {
	if v, ok := e.Attribute(name); ok {
		return p.paint(colorDim, safe(v.Text()))
	}
	return ""
}

// logLevel is a log record's own word for its level.
func (a *app) logLevel(e *format.TraceEntry) string {
	if v, ok := e.Attribute(format.AttrLogLevel); ok {
		return safe(v.Text())
	}
	return a.level(e.Metadata.Level)
}

// terminalWidth returns the columns of the terminal that w is, or 0.
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
