package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

type explainOptions struct {
	rowFlags

	against []string
	failOn  string
}

func explainCommand() *command {
	o := &explainOptions{rowFlags: rowFlags{time: timeLocal, selection: selection{alone: true}, inputFlags: inputFlags{compares: true, corrects: true}}}
	return &command{
		use:   "explain FILE|DIR...",
		short: "Find the cause: calls that are slower, fail more often, or no longer happen",
		long: `explain names the service and operation to blame for slow or failed requests.

  entrace explain app.et                           requests from the largest change on, compared with earlier ones
  entrace explain bad.et --against good.et         requests of bad.et, compared with a healthy recording
  entrace explain app.et --since 12:00             requests from 12:00 on, compared with earlier ones
  entrace explain app.et -q '{ duration > 1s }'    requests with such a span, compared with others of the same names

explain ranks causes by four kinds of changes: the time that services spend on their own work, the calls
between services, new or more frequent errors, and steps that services no longer do. For each cause it prints
the evidence, how often the same occurred before, and a command that shows the rows. A change that can be
chance is not a cause. docs/explain.md describes how explain decides, and how often it is right.`,
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			redactFlag(flags, &o.redact, redactRead)
			o.addTime(flags)
			flags.Lookup("since").Usage = "explain what began at this `TIME`: 15:04:05, +30s after the first row, -10m before the last, or RFC 3339"
			flags.StringSliceVar(&o.against, "against", nil, "compare with this `FILE` or folder of healthy runs")
			flags.StringVar(&o.failOn, "fail-on", "", "exit with 1 if there is a `cause`")
			flags.BoolVar(&o.json, "json", false, "print one JSON object")
		},
		newest: true,
		fits:   true,
		run:    o.run,
	}
}

func (o *explainOptions) run(ctx context.Context, c *console, names []string) error {
	if o.failOn != "" && o.failOn != "cause" {
		return usagef("--fail-on is %q: must be cause", o.failOn)
	}
	baseline := o.rowFlags
	baseline.since, baseline.until = "", ""
	before, done, err := runs(ctx, c, o.against, &baseline, true)
	defer done()
	if err != nil {
		return err
	}
	since, at := "", analyze.NoTime
	if len(before) == 0 { // here --since divides the requests into before and after, and selects no rows
		since, o.since = o.since, ""
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	if since != "" {
		t, err := query.ParseTime(since, l.v, o.time.zone())
		if err != nil {
			return usagef("--since: %w", err)
		}
		at = analyze.Time(t.UnixNano())
	}
	p, x, err := o.explained(ctx, c, l, before, at, names)
	if err != nil {
		return err
	}
	if o.json {
		err = p.answer(&struct {
			*analyze.Explanation

			State      string                 `json:"state"`
			Errors     int                    `json:"errors"`
			Patterns   []analyze.ErrorPattern `json:"error_patterns"`
			Open       int                    `json:"open_spans"`
			NeverEnded []view.Row             `json:"never_ended"`
			Locks      string                 `json:"locks"`
			Growth     []analyze.Growth       `json:"growth"`
			Goroutines []*analyze.Goroutines  `json:"goroutines"`
		}{x, stateText(statesOf(l.Trace)), p.Errors, p.Patterns, p.Open, p.NeverEnded, p.Locks, p.Growth, p.Goroutines}, "  ")
	} else {
		p.explanation(x, o)
		printSections(l.w, p.sections...)
		err = p.unread
	}
	err = l.finish(err)
	if err == nil && x.Found && o.failOn != "" {
		return errNone
	}
	return err
}

// explained explains the selected rows of l. It compares them with the runs in before, or if there are none, with the
// rows before the time at. It also returns a printer for the explanation.
func (o *explainOptions) explained(ctx context.Context, c *console, l *selected, before []query.Run, at analyze.Time, names []string) (*explanationPrinter, *analyze.Explanation, error) {
	top, err := analyze.Top(ctx, l.v, l.result.Rows, 5, l.between)
	if err != nil {
		return nil, nil, err
	}
	p := &explanationPrinter{overviewPrinter: overviewPrinter{newRowPrinter(c, l, &o.rowFlags), top}}
	x, err := analyze.Explain(ctx, &analyze.Question{
		Before: before, Now: []query.Run{{View: l.v, Rows: l.result.Rows}}, Since: at, Alike: o.query != "" || len(o.named) > 0, Deaths: deathsOf(l.Trace), Clocks: o.corrected, Top: top,
		Clock: func(t analyze.Time) string { return p.timeOfDay(t, "15:04:05.000") },
	})
	if err != nil {
		return nil, nil, err
	}
	files := slices.Clone(names)
	for i, name := range files {
		files[i] = shellWord(name)
	}
	for i := range x.Causes {
		x.Causes[i].Command = "entrace grep " + shellQuoted(x.Causes[i].Query) + " " + strings.Join(files, " ")
	}
	return p, x, nil
}

// deathsOf returns the processes of a trace that were killed.
func deathsOf(t *convert.Trace) (list []analyze.Death) {
	for file, s := range statesOf(t) {
		if s.Word == deadtrace.Killed {
			list = append(list, analyze.Death{File: file, Reason: s.Reason})
		}
	}
	return list
}

// mostFindings is how many findings are printed.
const mostFindings = 5

// An explanationPrinter makes the sections of an explanation.
type explanationPrinter struct {
	overviewPrinter

	sections []section
}

// begin begins a section.
func (p *explanationPrinter) begin() { p.sections = append(p.sections, section{}) }

// line adds a line to the last section.
func (p *explanationPrinter) line(color, format string, args ...any) {
	p.add(p.paint(color, p.wrapped(show.Safe(fmt.Sprintf(format, args...)))))
}

// add adds a text to the last section.
func (p *explanationPrinter) add(text string) {
	last := &p.sections[len(p.sections)-1]
	if last.note != "" {
		last.note += "\n"
	}
	last.note += text
}

func (p *explanationPrinter) explanation(x *analyze.Explanation, o *explainOptions) {
	p.sections = []section{p.title()}
	p.begin()
	p.line(show.Bold, "%s", x.Verdict)
	n := x.Looked.Requests
	switch {
	case x.Since != nil:
		p.line("", "%d requests from %s on, %s after the start, compared with the %d before", n[1],
			p.timeOfDay(x.Since.At, "15:04:05.000"), duration(x.Since.After), n[0])
		if x.Since.Grows {
			p.line("", "the difference grows from the first request on, so it may have begun before the recording")
		}
	case n[0] > 0 && len(x.Where) == 0:
		p.line("", "%s compared with %s", plural(n[1], "request"), plural(n[0], "other"))
	default:
		p.line("", "%s", plural(n[0]+n[1], "request"))
	}
	if x.Baseline.Text != "" {
		p.line("", "%s", x.Baseline.Text)
	}
	p.origin(x)
	p.failures(x)
	p.where(x)
	p.causes(x)
	for _, s := range x.Shares {
		p.begin()
		p.line("", "selected: %s", s.Text)
	}
	p.sections = append(p.sections, p.runtime(), p.never())
	p.begin()
	failed := fmt.Sprintf("failed requests: %d of %d", x.Failed[1], n[1])
	if n[0] > 0 {
		failed += fmt.Sprintf(", %d of the %d others", x.Failed[0], n[0])
	}
	p.line("", "%s; errors of spans and log records: %d", failed, p.Errors)
	p.line(show.Dim, "statistical tests: %d of durations, %d of errors, %d of habits", x.Looked.Series, x.Looked.Errors, x.Looked.Habits)
	if x.Chance[1] > 0 {
		p.line(show.Dim, "requests divided at random differ as much in %d of %d tries", x.Chance[0], x.Chance[1])
	}
	if !x.Complete {
		p.line(show.Dim, "explain did not look at all requests: there are too many, or they have no time")
	}
	if x.Apart > 0 {
		p.line(show.Dim, "not looked at: log records outside of requests, %d", x.Apart)
	}
	if !x.Found && len(o.against) == 0 {
		p.line(show.Dim, "give a healthy recording with --against, the start of the problem with --since, or the requests with -q")
	}
	if !x.Found {
		p.sections = append(p.sections, p.patterns())
	}
}

// origin adds the trigger and the deaths that are not in the verdict.
func (p *explanationPrinter) origin(x *analyze.Explanation) {
	for _, d := range x.Deaths {
		if d.Text != x.Verdict {
			p.line(show.Bold, "%s", d.Text)
		}
	}
}

// failures adds the failed requests by their innermost failures.
func (p *explanationPrinter) failures(x *analyze.Explanation) {
	for i, f := range x.Failures {
		if i == 0 {
			p.begin()
		}
		p.line("", "%s", f.Text)
	}
}

// where adds the findings that say where the time is spent, each after its share.
func (p *explanationPrinter) where(x *analyze.Explanation) {
	for i, f := range x.Where[:min(len(x.Where), mostFindings)] {
		if i == 0 {
			p.begin()
		}
		p.line("", "%3.0f %% of %s: %s", 100*f.Share, f.Of, f.Text)
	}
}

// causes adds the causes: the changes that were found.
func (p *explanationPrinter) causes(x *analyze.Explanation) {
	if !x.Found && len(x.Where) > 0 {
		if len(x.Causes) > 0 {
			c := &x.Causes[0]
			p.line(show.Dim, "%s too small, too short or too rare to matter, the largest in %s: %s", plural(len(x.Causes)+x.More, "difference"), strings.TrimSpace(c.Service+" "+c.Operation), c.Evidence[0].Text)
		}
	} else {
		for i := range x.Causes {
			p.cause(x, i)
		}
	}
	for _, h := range x.Habits {
		p.line(show.Dim, "changed, but no request is slower or fails because of it: %s", h.Text)
	}
}

// cause adds a cause with its evidence.
func (p *explanationPrinter) cause(x *analyze.Explanation, i int) {
	c := &x.Causes[i]
	if i == 0 || c.Sure || x.Causes[i-1].Sure {
		p.begin()
	}
	head := strings.TrimSpace(c.Service + "  " + c.Operation)
	if c.Of != "" && c.Of != c.Operation {
		head += " of " + c.Of
	}
	if !c.Sure && i > 0 {
		p.line(show.Dim, "%d. %s, which can be chance: %s", i+1, head, c.Evidence[0].Text)
		return
	}
	p.line(show.Bold, "%d. %s", i+1, head)
	if c.From != analyze.NoTime {
		to := "the end"
		if c.To != analyze.NoTime {
			to = p.timeOfDay(c.To, "15:04:05.000")
		}
		p.line("", "   from %s to %s", p.timeOfDay(c.From, "15:04:05.000"), to)
	}
	for _, e := range c.Evidence {
		p.line("", "   %s", e.Text)
		if e.Place != "" {
			p.line(show.Dim, "     at %s", e.Place)
		}
	}
	if c.Covers.Text != "" {
		p.line("", "   %s", c.Covers.Text)
	}
	p.add("   " + p.link(c.Query) + show.Safe(c.Command))
}
