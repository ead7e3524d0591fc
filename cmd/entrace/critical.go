package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/view"
)

type criticalOptions struct {
	rowFlags

	all      bool
	inferred bool
	min      string // steps with a smaller share of the whole time are folded into one line
}

func criticalCommand() *command {
	o := &criticalOptions{rowFlags: rowFlags{time: timeNone, selection: selection{alone: true}, inputFlags: inputFlags{compares: true}}}
	return &command{
		use:   "critical FILE|DIR...",
		short: "Show what a span waited for, from its start to its end",
		long: `critical prints the critical path of a span: what it waited for, step by step, from its start to its end.

  entrace critical app.et                              the slowest span
  entrace critical app.et -q 'name = "GET /cart"'      the slowest GET /cart
  entrace critical shop.et stock.et --min 5%           of two services, without short steps

critical infers the path from times, because a trace does not say which span waited for which. Spans that
outlive the span above them are asynchronous; critical lists them separately. If a link or log record names
another span, critical prints it below its step.

If a Go execution trace in the file covers 95 % of the span or more, critical measures the path: what the
goroutine did, where it waited, which goroutine ended the wait, and what that goroutine did meanwhile.`,
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			o.addPrint(flags)
			flags.StringVar(&o.min, "min", "1%", "fold steps that take less than this `SHARE` of the whole")
			flags.BoolVar(&o.inferred, "inferred", false, "infer the path from times, even if it could be measured")
			flags.BoolVar(&o.all, "all", false, "print the path of each selected span, the slowest first")
		},
		newest: true,
		fits:   true,
		run:    o.run,
	}
}

func (o *criticalOptions) run(ctx context.Context, c *console, names []string) error {
	text, percent := strings.CutSuffix(o.min, "%")
	least, err := strconv.ParseFloat(text, 64)
	if err != nil || !percent || least < 0 || least > 100 {
		return usagef("--min is %q: must be a percentage from 0%% to 100%%", o.min)
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	var spans []view.Row
	for r := range l.result.Rows.All() {
		if _, timed := l.v.Start(r); timed && l.v.Role(r) == view.RoleSpan {
			spans = append(spans, r)
		}
	}
	if len(spans) == 0 {
		return errors.Join(fmt.Errorf("%s: no span with a start time is selected", show.Safe(title(l.Trace))), l.Damage())
	}
	slower := func(x, y view.Row) int {
		a, _ := l.v.Duration(x)
		b, _ := l.v.Duration(y)
		return cmp.Compare(b, a)
	}
	if o.all {
		slices.SortStableFunc(spans, slower)
	} else {
		spans = []view.Row{slices.MinFunc(spans, slower)}
	}
	if !o.inferred {
		if err := tellStates(ctx, c, l.v); err != nil {
			return err
		}
	}
	p := newRowPrinter(c, l, &o.rowFlags)
	for i, r := range spans {
		err = ctx.Err()
		if err != nil {
			break
		}
		if i > 0 && !o.json {
			fmt.Fprintln(l.w)
		}
		err = p.path(ctx, r, o, least/100)
		if err != nil {
			break
		}
	}
	return l.finish(err)
}

// path prints the critical path of span r: the measured path if the execution trace covers enough of the span,
// otherwise the inferred path.
func (p *rowPrinter) path(ctx context.Context, r view.Row, o *criticalOptions, least float64) error {
	if !o.inferred {
		m, err := analyze.Measured(ctx, p.v, r)
		if err != nil {
			return err
		}
		switch {
		case m == nil || m.Known < analyze.MeasuredShare:
		case o.json:
			return p.answer(m, "")
		default:
			printSections(p.l.w, p.measured(m, least))
			return p.unread
		}
	}
	path, ok := analyze.Critical(p.v, r)
	if !ok {
		return nil
	}
	if o.json {
		return p.answer(path, "")
	}
	printSections(p.l.w, p.critical(path, least))
	return p.unread
}

const (
	criticalColumns = 30 // the approximate width of the column with the times
	maxAsync        = 20 // the maximum number of asynchronous spans that are printed
)

// critical returns a critical path for people. It folds steps that take less than the share least of the whole
// time.
func (p *rowPrinter) critical(c *analyze.CriticalPath, least float64) section {
	var lines [][]string
	folded, short := 0, int64(0)
	fold := func() {
		lines = p.fold(lines, folded, "step", short)
		folded, short = 0, 0
	}
	seen := make(map[view.Row]bool) // rows whose attributes were printed
	for _, s := range c.Steps {
		if float64(s.Duration) < least*float64(c.Duration) && len(s.Beside) == 0 {
			folded++
			short += s.Duration
			continue
		}
		fold()
		indent := strings.Repeat("  ", min(s.Depth, maxIndent))
		again := p.printer
		again.Bare = again.Bare || seen[s.Span]
		seen[s.Span] = true
		line := again.LineOf(s.Span, p.entryOf(s.Span), utf8.RuneCountInString(indent)+criticalColumns)
		text := indent + line
		if service := p.v.Service(s.Span); len(p.v.Services()) > 1 && service != "" {
			text += " " + p.paint(show.Green, show.Safe(service))
		}
		lines = append(lines, p.step(s.From-c.From, s.Duration, c.Duration, text))
		for _, r := range s.Beside {
			lines = append(lines, []string{"", "", "", indent + "  " + p.LineOf(r, p.entryOf(r), 0)})
		}
	}
	fold()
	head := p.pathHead("inferred from times", c.Span, c.Open, "the last recorded row")
	return section{head: head, sides: stepColumns, lines: slices.Values(lines), note: p.async(c.Async)}
}

// async returns the lines about spans that outlive the span above them.
func (p *rowPrinter) async(spans []view.Row) string {
	if len(spans) == 0 {
		return ""
	}
	lines := []string{p.paint(show.Bold, "asynchronous: these spans outlive the one above them, so the path does not wait for them")}
	for _, r := range spans[:min(len(spans), maxAsync)] {
		lines = append(lines, p.text(r))
	}
	if more := len(spans) - maxAsync; more > 0 {
		lines = append(lines, p.paint(show.Dim, "… "+count(more, "more", "more")))
	}
	return strings.Join(lines, "\n")
}
