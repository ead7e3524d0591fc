package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/query"
)

type diffOptions struct {
	lookFlags

	maxP95, maxCount        string
	failOn                  []string
	anyChange, allowPartial bool
	limit                   int
}

func (a *app) diffCommand() *cobra.Command {
	o := diffOptions{lookFlags: lookFlags{time: timeLocal}, limit: 30}
	c := &cobra.Command{
		Use:   "diff BEFORE AFTER",
		Short: "Compare two traces, and fail on what got worse",
		Long: "diff compares the spans of two traces by their path: service, name and kind, and those of\n" +
			"the spans above. It prints how many there are, how many failed, quantiles of their\n" +
			"durations and the sum of their self times, the largest change of the latter first. Behind a\n" +
			"change of durations stands what the test of Mann and Whitney says: how probable such a\n" +
			"difference is by chance, or \"too few\" if there are less than " + strconv.Itoa(query.MinSamples) + " spans on either side.\n\n" +
			"With --max-p95, --max-count and --fail-on it exits with 1 if a limit is passed, and with 2\n" +
			"for anything else that goes wrong. What can be chance passes no limit, be it durations, a\n" +
			"few new errors or a few new spans, unless --any-change is given. A file that is damaged or not finished ends it with 2, unless --allow-partial is\n" +
			"given.\n\n" +
			"  entrace diff old.et new.et --max-p95 +10% --fail-on new-errors,new-spans --any-change",
		Args:              exactArgs(2),
		RunE:              func(cmd *cobra.Command, args []string) error { return asCheck(a.diff(cmd.Context(), args, &o)) },
		ValidArgsFunction: completeTraces,
	}
	o.addQuery(c)
	o.add(c)
	c.Flags().BoolVar(&o.json, "json", false, "print JSON, an object for each path")
	c.Flags().StringVar(&o.maxP95, "max-p95", "", "how much the 95th percentile may grow, as +10% or +5ms")
	c.Flags().StringVar(&o.maxCount, "max-count", "", "how many more spans of a path there may be, as +5 or +10%")
	c.Flags().StringSliceVar(&o.failOn, "fail-on", nil, "new-errors, new-spans, or both with a comma")
	c.Flags().BoolVar(&o.anyChange, "any-change", false, "a change that can be chance passes a limit, too")
	c.Flags().BoolVar(&o.allowPartial, "allow-partial", false, "take what is whole of a damaged or unfinished file")
	c.Flags().IntVar(&o.limit, "limit", o.limit, "how many paths to print, 0 for all")
	return c
}

// A limit is by how much a number may grow.
type limit struct {
	share float64 // of what it was
	by    float64
}

// parseLimit reads +10%, or + and what number reads. An empty text is no limit.
func parseLimit(flag, s, like string, number func(s string) (float64, error)) (*limit, error) {
	if s == "" {
		return nil, nil //nolint:nilnil // none is an answer
	}
	text := strings.TrimPrefix(s, "+")
	if share, ok := strings.CutSuffix(text, "%"); ok {
		if n, err := strconv.ParseFloat(share, 64); err == nil && n >= 0 {
			return &limit{share: n / 100}, nil
		}
	} else if n, err := number(text); err == nil && n >= 0 {
		return &limit{by: n}, nil
	}
	return nil, usagef("--%s is %q, it must be as in %s", flag, s, like)
}

// passed reports whether a number has grown by more than the limit.
func (l *limit) passed(before, after float64) bool {
	return l != nil && after > before*(1+l.share)+l.by
}

// diffLimits are the limits of a command line.
type diffLimits struct {
	p95, count          *limit
	newErrors, newSpans bool
	any                 bool
}

func (o *diffOptions) limits() (l diffLimits, err error) {
	l.any = o.anyChange
	if l.p95, err = parseLimit("max-p95", o.maxP95, "+10% or +5ms", func(s string) (float64, error) {
		d, err := time.ParseDuration(s)
		return float64(d), err
	}); err != nil {
		return l, err
	}
	if l.count, err = parseLimit("max-count", o.maxCount, "+5 or +10%", func(s string) (float64, error) {
		n, err := strconv.Atoi(s)
		return float64(n), err
	}); err != nil {
		return l, err
	}
	for _, f := range o.failOn {
		switch f {
		case "new-errors":
			l.newErrors = true
		case "new-spans":
			l.newSpans = true
		default:
			return l, usagef("--fail-on is %q, it can be new-errors and new-spans", f)
		}
	}
	return l, nil
}

// passed returns which limits a path passes.
func (l *diffLimits) passed(p *query.PathDiff) (why []string) {
	is, significant := p.IsNew()
	if l.newSpans && is && (significant || l.any) {
		why = append(why, "the spans are new")
	}
	if has, significant := p.HasNewErrors(); l.newErrors && has && (significant || l.any) {
		why = append(why, "the errors are new")
	}
	if is {
		return why
	}
	if _, significant := p.Change(); (significant || l.any) && l.p95.passed(float64(p.Before.P95), float64(p.After.P95)) {
		why = append(why, "p95 has grown")
	}
	if l.count.passed(float64(p.Before.Count), float64(p.After.Count)) {
		why = append(why, "there are more")
	}
	return why
}

// passedByChance returns how many paths have what is not to be new, but so little of it that it can
// be chance.
func (l *diffLimits) passedByChance(d *query.Diff) (n int) {
	for i := range d.Paths {
		isNew, sure := d.Paths[i].IsNew()
		fails, surely := d.Paths[i].HasNewErrors()
		if !l.any && (l.newSpans && isNew && !sure || l.newErrors && fails && !surely) {
			n++
		}
	}
	return n
}

func (a *app) diff(ctx context.Context, names []string, o *diffOptions) error {
	limits, err := o.limits()
	if err != nil {
		return err
	}
	var looks [2]*look
	for i, name := range names {
		l, err := a.lookRows(ctx, []string{name}, &o.lookFlags)
		if err != nil {
			return err
		}
		defer l.Close()
		if !o.allowPartial {
			if err := l.whole(); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		looks[i] = l
	}
	d, err := query.Compare(ctx, looks[0].v, looks[0].result.Rows, looks[1].v, looks[1].result.Rows)
	if err != nil {
		return err
	}
	why := make([]string, len(d.Paths))
	failed := 0
	for i := range d.Paths {
		if list := limits.passed(&d.Paths[i]); len(list) > 0 {
			why[i] = strings.Join(list, ", ")
			failed++
		}
	}
	w := bufio.NewWriter(a.out)
	if o.json {
		err = diffJSON(w, d, why)
	} else {
		err = a.diffText(w, d, why, o.limit)
	}
	if n := limits.passedByChance(d); n > 0 && err == nil {
		fmt.Fprintf(a.err, "entrace: %s new errors or new spans that can be chance; --any-change counts them\n", count(n, "path has", "paths have"))
	}
	if err = errors.Join(err, w.Flush()); err == nil && failed > 0 {
		fmt.Fprintf(a.err, "entrace: %s a limit\n", count(failed, "path passes", "paths pass"))
		return errNone
	}
	return err
}

// diffText prints a comparison for people: first what passes a limit.
func (a *app) diffText(w io.Writer, d *query.Diff, why []string, most int) error {
	order := make([]int, len(d.Paths))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(x, y int) int {
		switch {
		case (why[x] == "") == (why[y] == ""):
			return 0
		case why[x] != "":
			return -1
		}
		return 1
	})
	left := 0
	if most > 0 && len(order) > most {
		left = len(order) - most
		order = order[:most]
	}
	lines := [][]string{{"count", "errors", "p50", "p95", "of p95", "self", "chance", "path"}}
	for _, i := range order {
		p := &d.Paths[i]
		pair := func(x, y string) string {
			if x == y {
				return x
			}
			return x + " → " + y
		}
		took := func(s *query.PathStats, n int64) string {
			if s.P95 == 0 && s.Self == 0 {
				return "-"
			}
			return duration(time.Duration(n))
		}
		path := diffPath(p)
		if why[i] != "" {
			path += " " + a.paint(colorRed, why[i])
		}
		change, sure := diffChange(p)
		lines = append(lines, []string{
			pair(strconv.Itoa(p.Before.Count), strconv.Itoa(p.After.Count)), pair(strconv.Itoa(p.Before.Errors), strconv.Itoa(p.After.Errors)),
			pair(took(&p.Before, p.Before.P50), took(&p.After, p.After.P50)), pair(took(&p.Before, p.Before.P95), took(&p.After, p.After.P95)),
			change, pair(took(&p.Before, p.Before.Self), took(&p.After, p.After.Self)), a.paint(colorDim, sure), path,
		})
	}
	if err := printColumns(w, lines, []bool{true, true, true, true, true, true, false, false}); err != nil {
		return err
	}
	if left > 0 {
		fmt.Fprintln(w, a.paint(colorDim, fmt.Sprintf("… %s with less change, which --limit 0 shows", count(left, "path", "paths"))))
	}
	if n := d.Other[0] + d.Other[1]; n > 0 {
		fmt.Fprintln(w, a.paint(colorDim, count(n, "span is", "spans are")+" not compared: there are too many paths"))
	}
	return nil
}

// diffChange returns how p95 has changed, and how sure that is.
func diffChange(p *query.PathDiff) (change, sure string) {
	switch {
	case p.Before.Count == 0:
		return "new", ""
	case p.After.Count == 0:
		return "gone", ""
	}
	share, _ := p.Change()
	if change = fmt.Sprintf("%+.0f%%", 100*share); math.IsInf(share, 1) {
		change = "from 0"
	}
	switch {
	case math.IsNaN(p.P):
		return change, "too few"
	case p.P < 0.0001:
		return change, "p<0.0001"
	}
	return change, fmt.Sprintf("p=%.4f", p.P)
}

// diffPath writes a path, with the service where it is another one than above.
func diffPath(p *query.PathDiff) string {
	var parts []string
	service := ""
	for _, s := range p.Path {
		name := safe(short(s.Name, maxValue))
		if s.Service != service {
			name = safe(s.Service) + ":" + name
			service = s.Service
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " > ")
}

// diffJSON prints a comparison, an object for each path.
func diffJSON(w io.Writer, d *query.Diff, why []string) error {
	type step struct {
		Service string `json:"service"`
		Name    string `json:"name"`
		Kind    string `json:"kind"`
	}
	type stats struct {
		Count  int   `json:"count"`
		Errors int   `json:"errors"`
		P50    int64 `json:"p50_nano"`
		P95    int64 `json:"p95_nano"`
		Self   int64 `json:"self_nano"`
	}
	of := func(s *query.PathStats) stats { return stats{s.Count, s.Errors, s.P50, s.P95, s.Self} }
	for i := range d.Paths {
		p := &d.Paths[i]
		line := struct {
			Path    []step   `json:"path"`
			Before  stats    `json:"before"`
			After   stats    `json:"after"`
			Change  *float64 `json:"p95_change"` // null if one side has none
			P       *float64 `json:"p"`          // null if there are too few
			ErrorsP float64  `json:"errors_p"`
			CountP  float64  `json:"count_p"`
			Passed  string   `json:"passed,omitempty"`
		}{Before: of(&p.Before), After: of(&p.After), ErrorsP: p.ErrorsP, CountP: p.CountP, Passed: why[i]}
		for _, s := range p.Path {
			line.Path = append(line.Path, step{s.Service, s.Name, s.Kind.String()})
		}
		if p.Before.P95 > 0 && p.After.Count > 0 { // else it is none, or infinite
			share, _ := p.Change()
			line.Change = &share
		}
		if !math.IsNaN(p.P) {
			line.P = &p.P
		}
		b, err := json.Marshal(line)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, safeJSON(b)); err != nil {
			return err
		}
	}
	return nil
}
