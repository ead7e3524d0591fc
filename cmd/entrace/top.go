package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/callstack"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/view"
)

type topOptions struct {
	rowFlags

	limit int
}

func topCommand() *command {
	o := &topOptions{rowFlags: rowFlags{time: timeLocal, inputFlags: inputFlags{compares: true}}, limit: 10}
	return &command{
		use:   "top FILE|DIR...",
		short: "Take a first look: slow requests, errors, spans that never ended",
		long: `top takes a first look at a trace: slow requests, errors, and spans that never ended.

  entrace top app.et
  entrace top shop.et stock.et                     of several services
  entrace top app.et --since 12:00 --until 12:05   of these five minutes

It prints the state of the file and why a flight recorder made it; the most frequent errors; spans that never
ended, with the places where they wait; if a flight recorder sampled the runtime, the numbers that grow and the
stacks of many goroutines; services; the slowest requests, with their slowest part; repeated calls, such as a
query in a loop; the names with the most self time; and the longest gaps. Errors that differ only in numbers,
UUIDs and quoted strings count as the same error.`,
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			o.addTime(flags)
			flags.BoolVar(&o.json, "json", false, "print one JSON object")
			flags.IntVar(&o.limit, "limit", o.limit, "how many rows to print in each section")
		},
		newest: true,
		fits:   true,
		run:    o.run,
	}
}

func (o *topOptions) run(ctx context.Context, c *console, names []string) error {
	if o.limit < 1 {
		return usagef("--limit is %d: must be above 0", o.limit)
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	found, err := analyze.Top(ctx, l.v, l.result.Rows, o.limit, l.between)
	if err != nil {
		return err
	}
	found.Waits, err = analyze.Waits(ctx, l.v, l.result.Rows, o.limit)
	if err != nil {
		return err
	}
	if err := tellStates(ctx, c, l.v); err != nil {
		return err
	}
	p := overviewPrinter{newRowPrinter(c, l, &o.rowFlags), found}
	if o.json {
		err = p.answer(found, "  ")
	} else {
		printSections(l.w, p.sections()...)
		err = p.unread
	}
	return l.finish(err)
}

// failures returns the number of failed requests, and the number of failed spans and error log records.
func failures(o *analyze.Overview) string {
	says := plural(o.Errors, "error")
	if o.Failed > 0 {
		says = plural(o.Failed, "failed request") + ", " + says
	}
	return says
}

// An overviewPrinter makes the sections of an overview.
type overviewPrinter struct {
	*rowPrinter
	*analyze.Overview
}

// title returns the name, the state and the contents of a trace.
func (p *overviewPrinter) title() section {
	text := fmt.Sprintf("%s %s: %s, %s, %s", p.paint(show.Bold, show.Safe(title(p.l.Trace))), show.Safe(stateOfTitle(statesOf(p.l.Trace))),
		plural(p.Spans, "span"), plural(p.Logs, "log record"), plural(p.Events, "event"))
	if p.Errors > 0 {
		text += ", " + p.paint(show.Red, failures(p.Overview))
	}
	if p.First != analyze.NoTime {
		text += fmt.Sprintf(", %s from %s", duration(clampDuration(uint64(p.Last)-uint64(p.First))), p.time.at(int64(p.First), time.RFC3339))
	}
	return section{head: text}
}

// part returns a section with a head, or an empty section if there are no lines.
func (p *overviewPrinter) part(head, sides string, lines [][]string) section {
	if len(lines) == 0 {
		return section{}
	}
	return section{head: p.paint(show.Bold, head), sides: sides, lines: slices.Values(lines)}
}

// row adds row r to lines, with a text below it unless the text is empty.
func (p *overviewPrinter) row(lines [][]string, r view.Row, text string) [][]string {
	lines = append(lines, []string{p.text(r)})
	if text != "" {
		lines = append(lines, []string{"    " + text})
	}
	return lines
}

// timeOfDay returns the time of day of t, and its date if the trace began on another day.
func (p *overviewPrinter) timeOfDay(t analyze.Time, layout string) string {
	return p.time.timeOfDay(time.Unix(0, int64(t)), time.Unix(0, int64(p.First)), layout)
}

// never returns the spans that never ended, with the places where they wait.
func (p *overviewPrinter) never() section {
	never, states := "Never ended", statesOf(p.l.Trace)
	if !slices.ContainsFunc(states, func(s convert.State) bool { return !s.Snapshot && !s.Rotated && s.Word != deadtrace.Running }) {
		never = "Still open"
		if p.time != timeNone && p.Last != analyze.NoTime {
			never += " at " + p.timeOfDay(p.Last, "15:04:05")
			age := time.Since(time.Unix(0, int64(p.Last))).Round(time.Second)
			if age > 0 && slices.ContainsFunc(states, func(s convert.State) bool { return s.Word == deadtrace.Running }) {
				never += fmt.Sprintf(", the time of the last record; the program has run for %s since", age)
			}
		}
	}
	if p.Open > len(p.NeverEnded) {
		never += fmt.Sprintf(", the %d oldest of %d", len(p.NeverEnded), p.Open)
	}
	var lines [][]string
	for _, r := range p.NeverEnded {
		lines = p.row(lines, r, p.openPlace(r))
	}
	part := p.part(never, "l", lines)
	if p.Locks != "" {
		part.note = p.wrapped(show.Safe(p.Locks))
	}
	return part
}

// runtime returns the growing values of the runtime, and the stacks of many goroutines.
func (p *overviewPrinter) runtime() section {
	var lines [][]string
	for _, g := range p.Growth {
		lines = append(lines, []string{fmt.Sprintf("%s: %v → %v in %s", g.Of, g.First, g.Last, duration(g.Time))})
	}
	for _, g := range p.Goroutines {
		if g.Count >= manyGoroutines {
			lines = append(lines, []string{fmt.Sprintf("%d goroutines in %s, for %s, %d of which ended", g.Count, show.Safe(cmp.Or(callstack.Place(string(g.Stack), ""), g.In)), plural(g.Spans, "span"), g.Ended)})
		}
	}
	return p.part("The Go runtime", "l", lines)
}

// manyGoroutines is the least number of goroutines with the same stack that are reported.
const manyGoroutines = 10

// sections returns all parts.
func (p *overviewPrinter) sections() []section {
	return append([]section{p.title(), p.patterns(), p.never(), p.runtime()}, p.lists()...)
}

// lists returns the parts that an explanation does not have.
func (p *overviewPrinter) lists() []section {
	var self section
	if len(p.Self.Lines) > 0 {
		self = tableSection(p.Self, p.time)
		self.head = p.paint(show.Bold, "Self time, without the spans below")
	}
	return []section{p.services(), p.slowest(), p.waits(), p.repeats(), self, p.gaps()}
}

// openPlace returns the place where the goroutine of an open span was last seen: the place in the program of the last
// stack among the children of row r. It returns "" if no child has a stack.
func (p *overviewPrinter) openPlace(r view.Row) (place string) {
	for kid := range p.v.Tree().Children(r) {
		if role := p.v.Role(kid); role != view.RoleOther && role != view.RoleLog {
			continue
		}
		e, err := p.v.Entry(kid)
		if err != nil {
			continue
		}
		for _, a := range e.Attributes {
			if show.IsStack(a.Name) {
				place = cmp.Or(callstack.Place(a.Value.Text(), ""), place)
			}
		}
	}
	if place != "" {
		place = "in " + show.Safe(place)
	}
	return place
}

// slowest returns the slowest request of each name.
func (p *overviewPrinter) slowest() section {
	var lines [][]string
	for _, x := range p.Slowest {
		says := p.slowestPart(x.Row)
		if x.Count > 1 {
			says = strings.TrimPrefix(fmt.Sprintf("%s, the slowest of %d", says, x.Count), ", ")
		}
		lines = p.row(lines, x.Row, says)
	}
	return p.part("Slowest requests", "l", lines)
}

// slowestPart names the span below row r with the longest self time.
func (p *overviewPrinter) slowestPart(r view.Row) string {
	v := p.v
	part, ok := analyze.SlowestPart(v, r)
	if !ok {
		return ""
	}
	self, _ := v.SelfTime(part)
	of := " of it"
	if whole, _ := v.Duration(r); self > whole { // the part ran on after the end of r
		of = ""
	}
	return fmt.Sprintf("%s%s in %s", duration(self), of, what(v, part))
}

// services returns the services, if there are several.
func (p *overviewPrinter) services() section {
	if len(p.Services) < 2 {
		return section{}
	}
	lines := [][]string{{"service", "spans", "logs", "errors"}}
	for _, x := range p.Services {
		lines = append(lines, []string{show.Safe(x.Service), strconv.Itoa(x.Spans), strconv.Itoa(x.Logs), strconv.Itoa(x.Errors)})
	}
	return p.part("Services", "lrrr", lines)
}

// patterns returns the most frequent errors.
func (p *overviewPrinter) patterns() section {
	var lines [][]string
	for _, x := range p.Patterns {
		lines = append(lines, []string{strconv.Itoa(x.Count), x.Role.String(), show.Safe(x.Pattern)})
	}
	if p.OtherErrors > 0 {
		lines = append(lines, []string{strconv.Itoa(p.OtherErrors), "", p.paint(show.Dim, "others")})
	}
	return p.part("Most frequent errors", "rll", lines)
}

// waits returns where spans waited longest.
func (p *overviewPrinter) waits() section {
	var lines [][]string
	for i := range p.Waits {
		x := &p.Waits[i]
		lines = append(lines, []string{p.paint(show.Blue, duration(x.Time)), show.Safe(x.Text())})
	}
	return p.part("Waits in the execution trace", "rl", lines)
}

// repeats returns the calls that requests repeat.
func (p *overviewPrinter) repeats() section {
	var lines [][]string
	for i := range p.Repeats {
		x := &p.Repeats[i]
		times := fmt.Sprintf("%d times", x.MostCalls)
		if x.Spans > 1 {
			times = fmt.Sprintf("up to %s in %d spans", times, x.Spans)
		}
		lines = append(lines, []string{p.paint(show.Blue, duration(x.Time)), show.Safe(show.Short(x.Call(), show.MaxValue)), times + " below " + show.Safe(x.Of)})
	}
	return p.part("Repeated calls", "lll", lines)
}

// gaps returns the longest gaps.
func (p *overviewPrinter) gaps() section {
	var lines [][]string
	for _, g := range p.Gaps {
		from, after := "", "until the end"
		if g.After != 0 {
			after = "before " + what(p.v, g.After)
		}
		if p.time != timeNone {
			from = p.paint(show.Dim, p.time.format(time.Unix(0, int64(g.From)), time.Unix(0, int64(p.First))))
		}
		lines = append(lines, []string{from + p.paint(show.Blue, duration(g.Duration)), "after " + what(p.v, g.Before), after})
	}
	return p.part("Longest gaps, in which nothing began, ended or was logged", "lll", lines)
}

// what returns a few words that describe row r.
func what(v *view.View, r view.Row) string {
	s, ok := v.Message(r)
	if !ok || v.Role(r) != view.RoleLog {
		s = v.Name(r)
	}
	return show.Safe(show.Short(s, show.MaxValue))
}
