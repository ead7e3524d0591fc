package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
)

// A diffReport is a comparison and the findings in it.
type diffReport struct {
	*console

	d              *analyze.Diff
	limits         *diffLimits
	found          []finding // of each path
	worse          [numWorse]int
	failed, chance int // failed: paths that surely exceed a limit; chance: paths that may exceed one only by chance
	more           int // errors that exceed the limit of --fail-on more-errors
}

// summary says how many paths are worse, for each kind of limit in use.
func (r *diffReport) summary() string {
	var parts []string
	names := [numWorse]string{"slower", "with more spans", "with new errors", "new"}
	for i, text := range r.limits.texts() {
		if text != "" {
			parts = append(parts, strconv.Itoa(r.worse[i])+" "+names[i])
		}
	}
	if len(parts) == 0 {
		return "no limit is set"
	}
	return strings.Join(parts, ", ") + " of " + plural(len(r.d.Paths), "path")
}

// method explains the column "chance".
func (r *diffReport) method() string {
	switch {
	case r.d.LeastP == 0:
		return "one run on each side: \"chance\" does not include machine noise; give several runs with --before and --after"
	case r.d.LeastP > r.d.Level:
		return fmt.Sprintf("%d and %d runs are too few to tell a change from chance: use three on each side", r.d.Runs[0], r.d.Runs[1])
	}
	return fmt.Sprintf("\"chance\" compares %d runs with %d runs, over all paths together", r.d.Runs[0], r.d.Runs[1])
}

// verdict says which limits are exceeded, or that none is exceeded.
func (r *diffReport) verdict() (lines []string) {
	texts := r.limits.texts()
	for i, n := range r.worse {
		if n > 0 {
			lines = append(lines, r.paint(show.Red, fmt.Sprintf("FAIL: %s %s", count(n, "path exceeds", "paths exceed"), texts[i])))
		}
	}
	if r.more > 0 {
		lines = append(lines, r.paint(show.Red, "FAIL: "+count(r.more, "error exceeds", "errors exceed")+" --fail-on "+failMore))
	}
	if r.failed+r.more == 0 && r.limits.String() != "" {
		lines = append(lines, "ok: no path exceeds "+r.limits.String())
	}
	if r.chance > 0 {
		lines = append(lines, count(r.chance, "path exceeds", "paths exceed")+" a limit, but this can be chance; --any-change makes it a failure")
	}
	return lines
}

// paths returns the paths for people. Paths that exceed a limit are first. The note describes the other findings.
func (r *diffReport) paths(most int) section {
	var order []int
	for _, exceeds := range []bool{true, false} {
		for i := range r.found {
			if r.found[i].any() == exceeds {
				order = append(order, i)
			}
		}
	}
	left := 0
	if most > 0 && len(order) > most {
		left = len(order) - most
		order = order[:most]
	}
	hasWhy := false
	lines := [][]string{{"", "count", "errors", "p50", "p95", "p95 change", "self", "chance", "path", "why"}}
	for _, i := range order {
		p := &r.d.Paths[i]
		pair := func(x, y string) string {
			if x == y {
				return x
			}
			return x + " → " + y
		}
		took := func(s *analyze.PathStats, n int64) string {
			if s.P95 == 0 && s.Self == 0 {
				return "-"
			}
			return duration(n)
		}
		fail := ""
		if r.found[i].any() {
			fail = r.paint(show.Red, "FAIL")
		}
		why := r.paint(show.Red, r.found[i].String())
		if !r.found[i].any() {
			why = r.limits.whyNot(p)
		}
		hasWhy = hasWhy || why != ""
		change, chance := diffChange(p, r.d)
		lines = append(lines, []string{
			fail, pair(strconv.Itoa(p.Before.Count), strconv.Itoa(p.After.Count)), pair(strconv.Itoa(p.Before.Errors), strconv.Itoa(p.After.Errors)),
			pair(took(&p.Before, p.Before.P50), took(&p.After, p.After.P50)), pair(took(&p.Before, p.Before.P95), took(&p.After, p.After.P95)),
			change, pair(took(&p.Before, p.Before.Self), took(&p.After, p.After.Self)), r.paint(show.Dim, chance), diffPath(p) + r.paint(show.Dim, diffStates(p)), why,
		})
	}
	sides := "lrrrrrrlll"
	from, to := 0, len(sides)
	if r.failed == 0 {
		from++ // the first column is empty
	}
	if !hasWhy {
		to--
	}
	for i := range lines {
		lines[i] = lines[i][from:to]
	}
	var notes []string
	if left > 0 {
		notes = append(notes, r.paint(show.Dim, fmt.Sprintf("… %s with less change; --limit 0 shows all", plural(left, "path"))))
	}
	if n := r.d.Other[0] + r.d.Other[1]; n > 0 {
		notes = append(notes, r.paint(show.Dim, count(n, "span is", "spans are")+" not compared: there are too many paths"))
	}
	for _, e := range r.d.Errors {
		notes = append(notes, "more errors: "+show.Safe(show.Short(e.Text, show.MaxValue)))
	}
	return section{sides: sides[from:to], lines: slices.Values(lines), note: strings.Join(append(notes, r.verdict()...), "\n")}
}

// diffChange returns the change of p95, and the probability of such a change by chance.
func diffChange(p *analyze.PathDiff, d *analyze.Diff) (change, chance string) {
	switch {
	case p.Before.Count == 0:
		return "new", ""
	case p.After.Count == 0:
		return "gone", ""
	}
	share, _ := p.Change()
	change = fmt.Sprintf("%+.0f%%", 100*share)
	if math.IsInf(share, 1) {
		change = "from 0"
	}
	switch {
	case math.IsNaN(p.P) || d.LeastP > d.Level:
		return change, "too few"
	case p.P < 0.0001:
		return change, "p<0.0001"
	}
	return change, fmt.Sprintf("p=%.4f", p.P)
}

// diffStates returns the states in which the spans of a slower path spent more time, on average.
func diffStates(p *analyze.PathDiff) string {
	grown := p.After.P95 - p.Before.P95
	text := []string{}
	for _, s := range p.Grew() {
		if grown > 0 && s.Time*10 >= grown && len(text) < 2 {
			text = append(text, "+"+duration(s.Time)+" "+s.State)
		}
	}
	if len(text) == 0 {
		return ""
	}
	return ": " + strings.Join(text, ", ")
}

// diffPath returns a path as text. The service precedes the name of a step if the step above has another service.
func diffPath(p *analyze.PathDiff) string {
	var parts []string
	service := ""
	for _, s := range p.Path {
		name := show.Safe(show.Short(s.Name, show.MaxValue))
		if s.Service != service {
			name = show.Safe(s.Service) + ":" + name
			service = s.Service
		}
		parts = append(parts, name)
	}
	return strings.Join(parts, " > ")
}

// json prints the comparison as one JSON object for each path.
func (r *diffReport) json(w io.Writer) error {
	for i := range r.d.Paths {
		p := &r.d.Paths[i]
		line := struct {
			*analyze.PathDiff

			Change *float64            `json:"p95_change"` // null if one side has no p95
			P      *float64            `json:"p"`          // null if there are too few runs or spans
			Runs   [2]int              `json:"runs"`
			Grew   []analyze.StateTime `json:"states,omitempty"` // states in which goroutines spent more time; the mean per span
			Fail   string              `json:"fail,omitempty"`   // which limits are exceeded
		}{PathDiff: p, Runs: r.d.Runs, Grew: p.Grew(), Fail: r.found[i].String()}
		if p.Before.P95 > 0 && p.After.Count > 0 { // otherwise no change exists, or it is infinite
			share, _ := p.Change()
			line.Change = &share
		}
		if !math.IsNaN(p.P) {
			line.P = &p.P
		}
		b, err := new(analyze.Form).JSON(line, "")
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(w, safeJSON(b)); err != nil {
			return err
		}
	}
	return nil
}
