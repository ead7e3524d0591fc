package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

type topOptions struct {
	lookFlags

	limit int
}

func (a *app) topCommand() *cobra.Command {
	o := topOptions{lookFlags: lookFlags{time: timeLocal, compares: true}, limit: 10}
	c := &cobra.Command{
		Use:   "top FILE|DIR...",
		Short: "Take a first look: what is slow, failed, or never ended",
		Long: `top says what is most conspicuous in a trace: the state of the file and why a flight
recorder made it, what errors say most often, spans that have not ended with the place
in the program where they wait, what grows and what many goroutines do, if a flight
recorder sampled the runtime, the services, the slowest requests with their slowest
part, what single spans do again and again, such as a query in a loop, the names that
took most time themselves, and the longest times in which nothing happened. Errors
are counted by what they have in common: numbers, UUIDs and quoted texts make no difference.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.limit < 1 {
				return usagef("--limit is %d, it must be above 0", o.limit)
			}
			return a.top(cmd.Context(), args, &o)
		},
	}
	o.addQuery(c)
	o.add(c)
	o.addTime(c)
	c.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	c.Flags().IntVar(&o.limit, "limit", o.limit, "how many of each to print")
	return c
}

func (a *app) top(ctx context.Context, names []string, o *topOptions) error {
	l, err := a.lookRows(ctx, names, &o.lookFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	found, err := analyze.Top(ctx, l.v, l.result.Rows, o.limit, l.between)
	if err != nil {
		return err
	}
	if found.Waits, err = analyze.Waits(ctx, l.v, l.result.Rows, o.limit); err != nil {
		return err
	}
	if err := a.tellStates(ctx, l.v); err != nil {
		return err
	}
	if o.json {
		err = a.answer(l, found, &o.lookFlags)
	} else {
		w := bufio.NewWriter(a.out)
		err = errors.Join(a.topText(w, l, found, o), w.Flush())
	}
	return errors.Join(err, l.Damage())
}

// failures says how many requests failed, and how many spans and log records say that something did.
func failures(o *analyze.Overview) string {
	says := count(o.Errors, "error", "errors")
	if o.Failed > 0 {
		says = count(o.Failed, "failed request", "failed requests") + ", " + says
	}
	return says
}

// topTitle prints what a trace is.
func (a *app) topTitle(w *bufio.Writer, l *look, o *analyze.Overview, options *topOptions) {
	fmt.Fprintf(w, "%s %s: %s, %s, %s", a.paint(colorBold, safe(title(l.Trace))), safe(stateOfTitle(statesOf(l.Trace))),
		count(o.Spans, "span", "spans"), count(o.Logs, "log record", "log records"), count(o.Events, "event", "events"))
	if o.Errors > 0 {
		fmt.Fprint(w, ", ", a.paint(colorRed, failures(o)))
	}
	if o.First != analyze.NoTime {
		fmt.Fprintf(w, ", %s from %s", duration(clampDuration(uint64(o.Last)-uint64(o.First))), a.topFrom(o, options))
	}
	fmt.Fprintln(w)
}

// topRows prints rows below a head, and a line below each.
func (a *app) topRows(w *bufio.Writer, l *look, options *topOptions, head string, list []view.Row, more func(r view.Row) string) error {
	if len(list) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s\n", a.paint(colorBold, head))
	p := a.rowPrinter(l, w, &options.lookFlags)
	for _, r := range list {
		if err := p.print(r); err != nil {
			return err
		}
		if s := more(r); s != "" {
			fmt.Fprintf(w, "    %s\n", s)
		}
	}
	return nil
}

// topNever prints the spans that never ended, with the places where they wait.
func (a *app) topNever(w *bufio.Writer, l *look, o *analyze.Overview, options *topOptions) error {
	never := "Never ended"
	if !slices.ContainsFunc(statesOf(l.Trace), func(s convert.State) bool { return !s.Snapshot && s.Word != deadtrace.Running }) {
		if never = "Still open"; options.time != timeNone {
			never += " at " + time.Unix(0, int64(o.Last)).In(options.time.zone()).Format("15:04:05")
		}
	}
	if o.Open > len(o.NeverEnded) {
		never += fmt.Sprintf(", the %d oldest of %d", len(o.NeverEnded), o.Open)
	}
	return a.topRows(w, l, options, never, o.NeverEnded, func(r view.Row) string { return openPlace(l.v, r) })
}

// topRuntime prints what grows, and what many goroutines do.
func (a *app) topRuntime(w *bufio.Writer, o *analyze.Overview) {
	var list []string
	for _, g := range o.Growth {
		list = append(list, fmt.Sprintf("%s: %v → %v in %s", g.Of, g.First, g.Last, duration(time.Duration(g.Time))))
	}
	for _, g := range o.Goroutines {
		if g.Count >= manyGoroutines {
			list = append(list, fmt.Sprintf("%d goroutines in %s, for %s, %d of which ended", g.Count, safe(cmp.Or(placeIn(string(g.Stack), ""), g.In)), count(g.Spans, "span", "spans"), g.Ended))
		}
	}
	if len(list) > 0 {
		a.head(w, "The Go runtime")
		fmt.Fprintln(w, strings.Join(list, "\n"))
	}
}

// manyGoroutines is how many goroutines with the same stack are told of.
const manyGoroutines = 10

func (a *app) head(w io.Writer, text string) { fmt.Fprintf(w, "\n%s\n", a.paint(colorBold, text)) }

func (a *app) topText(w *bufio.Writer, l *look, o *analyze.Overview, options *topOptions) error {
	a.topTitle(w, l, o, options)
	err := errors.Join(a.topPatterns(w, o), a.topNever(w, l, o, options))
	a.topRuntime(w, o)
	if len(o.Services) > 1 && err == nil {
		a.head(w, "Services")
		err = topServices(w, o.Services)
	}
	err = errors.Join(err, a.topRows(w, l, options, "Slowest requests", o.Slowest, func(r view.Row) string { return slowestPart(l.v, r) }))
	if len(o.Waits) > 0 && err == nil {
		a.head(w, "Waits, as an execution trace tells")
		err = a.topWaits(w, o.Waits)
	}
	if len(o.Repeats) > 0 && err == nil {
		a.head(w, "Repeated calls")
		err = a.topRepeats(w, o)
	}
	if len(o.Self.Lines) > 0 && err == nil {
		a.head(w, "Self time, without the spans below")
		err = a.table(w, o.Self, options.time)
	}
	if len(o.Gaps) > 0 && err == nil {
		a.head(w, "Longest gaps, in which nothing began, ended or was logged")
		err = a.topGaps(w, l, o, options)
	}
	return err
}

// topFrom returns the time at which a trace begins, in the zone that the flags ask for.
func (a *app) topFrom(o *analyze.Overview, options *topOptions) string {
	return time.Unix(0, int64(o.First)).In(options.time.zone()).Format(time.RFC3339)
}

// openPlace returns the place at which the goroutine of an open span was last seen, "" if unknown.
func openPlace(v *view.View, r view.Row) string {
	for up := r; v.Role(up) == view.RoleSpan; up = v.Parent(up) {
		if place := stackBelow(v, up); place != "" {
			return "in " + safe(place)
		}
	}
	return ""
}

// stackBelow returns the place in the program of the last stack among the children of row r, "" if no
// child has a stack.
func stackBelow(v *view.View, r view.Row) (place string) {
	for kid := range v.Tree().Children(r) {
		if role := v.Role(kid); role != view.RoleOther && role != view.RoleLog {
			continue
		}
		e, err := v.Entry(kid)
		if err != nil {
			continue
		}
		for _, a := range e.Attributes {
			if isStack(a.Name) {
				place = cmp.Or(placeIn(a.Value.Text(), ""), place)
			}
		}
	}
	return place
}

// slowestPart names the span below row r with the longest self time.
func slowestPart(v *view.View, r view.Row) string {
	part, ok := analyze.SlowestPart(v, r)
	if !ok {
		return ""
	}
	self, _ := v.SelfTime(part)
	return fmt.Sprintf("%s of it in %s", duration(self), what(v, part))
}

func topServices(w io.Writer, list []analyze.ServiceCount) error {
	lines := [][]string{{"service", "spans", "logs", "errors"}}
	for _, x := range list {
		lines = append(lines, []string{safe(x.Service), strconv.Itoa(x.Spans), strconv.Itoa(x.Logs), strconv.Itoa(x.Errors)})
	}
	return printColumns(w, slices.Values(lines), "lrrr")
}

func (a *app) topPatterns(w io.Writer, o *analyze.Overview) error {
	if len(o.Patterns) == 0 {
		return nil
	}
	a.head(w, "Most frequent errors")
	var lines [][]string
	for _, p := range o.Patterns {
		lines = append(lines, []string{strconv.Itoa(p.Count), p.Role.String(), safe(p.Pattern)})
	}
	if o.OtherErrors > 0 {
		lines = append(lines, []string{strconv.Itoa(o.OtherErrors), "", a.paint(colorDim, "others")})
	}
	return printColumns(w, slices.Values(lines), "rll")
}

func (a *app) topRepeats(w io.Writer, o *analyze.Overview) error {
	var lines [][]string
	for i := range o.Repeats {
		x := &o.Repeats[i]
		times := fmt.Sprintf("%d times", x.MostCalls)
		if x.Spans > 1 {
			times = fmt.Sprintf("up to %s in %d spans", times, x.Spans)
		}
		lines = append(lines, []string{a.paint(colorBlue, duration(time.Duration(x.Time))), safe(short(x.Call(), maxValue)), times + " below " + safe(x.Of)})
	}
	return printColumns(w, slices.Values(lines), "lll")
}

func (a *app) topGaps(w io.Writer, l *look, o *analyze.Overview, options *topOptions) error {
	var lines [][]string
	for _, g := range o.Gaps {
		from, after := "", "until the end"
		if g.After != 0 {
			after = "before " + what(l.v, g.After)
		}
		if options.time != timeNone {
			from = a.paint(colorDim, options.time.format(time.Unix(0, int64(g.From)), time.Unix(0, int64(o.First))))
		}
		lines = append(lines, []string{from + a.paint(colorBlue, duration(time.Duration(g.Duration))), "after " + what(l.v, g.Before), after})
	}
	return printColumns(w, slices.Values(lines), "lll")
}

// what names a row in a few words.
func what(v *view.View, r view.Row) string {
	s, ok := v.Message(r)
	if !ok || v.Role(r) != view.RoleLog {
		s = v.Name(r)
	}
	return safe(short(s, maxValue))
}
