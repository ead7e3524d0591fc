package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/query/analyze"
)

type diffOptions struct {
	rowFlags

	before, after           []string
	maxP95, maxCount        string
	failOn                  []string
	anyChange, allowPartial bool
	limit                   int
}

func diffCommand() *command {
	o := &diffOptions{rowFlags: rowFlags{time: timeLocal}, limit: 30}
	return &command{
		use:   "diff BEFORE AFTER | diff --before FILE,... --after FILE,...",
		short: "Compare runs of a program, and fail on what got worse",
		long: `diff compares runs of a program, and fails if something got worse.

  entrace diff old.et new.et
  entrace diff old.et new.et --fail-on more-errors
  entrace diff --before a1.et,a2.et,a3.et,a4.et,a5.et --after b1.et,b2.et,b3.et,b4.et,b5.et

Each FILE is a run. diff compares spans by their path: service, name and kind, and those of the spans above.
For each path it prints the number of spans, how many failed, quantiles of durations, and the sum of self
times; paths that exceed a limit come first. The last column says what got worse, or why a path that is slower,
and not by chance, is no failure. Below are errors and warnings that occur in more calls than before, and not
by chance; --fail-on more-errors makes these a limit. diff exits with 1 if a limit is exceeded, and with 2 for
any other error.

With one run on each side, "chance" does not include the noise of the machine: the test (of Mann and Whitney)
takes the spans of a run as independent. One run cannot tell a slower program from a busy machine. So by
default durations have no limit; spans for each request, errors and new spans have. --max-p95 limits durations
as well.

With several runs on each side, five if possible and recorded in turn, the test is between runs (all ways to
exchange runs, largest change of all paths), and --max-p95 is +10% by default.

"Chance" holds for all paths together. A change that can be chance exceeds no limit unless --any-change is
given. "Too few" means fewer than ` + strconv.Itoa(analyze.MinSamples) + ` spans of a run, or a path that some run does not have. diff does not
compare a damaged or running file without --allow-partial, and exits with 2.`,
		args: func(c *cobra.Command, args []string) error {
			switch several := len(o.before)+len(o.after) > 0; {
			case several && len(args) > 0:
				return usagef("--before and --after cannot be combined with other FILEs")
			case several && (len(o.before) == 0 || len(o.after) == 0):
				return usagef("--before and --after must be used together")
			case !several && len(args) != 2:
				return usagef("%s expects BEFORE AFTER, or --before FILE,... --after FILE,...; found %s", c.CommandPath(), plural(len(args), "argument"))
			}
			return nil
		},
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			flags.StringSliceVar(&o.before, "before", nil, "the `FILES` of the runs before")
			flags.StringSliceVar(&o.after, "after", nil, "the `FILES` of the runs after")
			flags.BoolVar(&o.json, "json", false, "print JSON, an object for each path")
			flags.StringVar(&o.maxP95, "max-p95", "", "how much the 95th percentile may `GROW`, as +10% or +5ms, or none; +10% for three runs or more, else none")
			flags.StringVar(&o.maxCount, "max-count", "+10%", "how many more spans of a path there may be for each root span, as +1 or +10%, or none")
			flags.StringSliceVar(&o.failOn, "fail-on", []string{failErrors, failSpans}, "new-errors, new-spans, more-errors, several with commas, or none")
			flags.BoolVar(&o.anyChange, "any-change", false, "apply the limits also to changes that can be chance")
			flags.BoolVar(&o.allowPartial, "allow-partial", false, "read damaged or unfinished files as far as possible")
			flags.IntVar(&o.limit, "limit", o.limit, "how many paths to print, 0 for all")
		},
		run: func(ctx context.Context, c *console, args []string) error {
			if len(args) == 2 {
				o.before, o.after = args[:1], args[1:]
			}
			return asCheck(o.diff(ctx, c))
		},
		complete: completeTraces,
	}
}

// The values of --fail-on. noLimit switches a limit off.
const (
	failErrors = "new-errors"
	failSpans  = "new-spans"
	failMore   = "more-errors"
	noLimit    = "none"
)

// A limit is the maximum growth of a number.
type limit struct {
	share float64 // growth in proportion to the number before
	by    float64 // absolute growth
}

// parseLimit reads "+10%", or "+" and a text that the parameter number can parse. For an empty text or noLimit it
// returns nil, which means no limit.
func parseLimit(flag, s, like string, number func(s string) (float64, error)) (*limit, error) {
	if s == "" || s == noLimit {
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
	return nil, usagef("--%s is %q: must be a limit such as %s, or none", flag, s, like)
}

// exceeded reports whether a number has grown by more than the limit.
func (l *limit) exceeded(before, after float64) bool {
	return l != nil && after > before*(1+l.share)+l.by
}

// The ways in which a path can be worse.
const (
	slower = iota
	moreSpans
	newErrors
	newSpans
	numWorse
)

// A finding holds the ways in which a path got worse.
type finding [numWorse]bool

func (f *finding) any() bool { return *f != finding{} }

// String names the ways in which the path got worse.
func (f *finding) String() string {
	var words []string
	for i, word := range [numWorse]string{"slower", "more spans", "new errors", "new spans"} {
		if f[i] {
			words = append(words, word)
		}
	}
	return strings.Join(words, ", ")
}

// diffLimits are the limits that a command line sets.
type diffLimits struct {
	p95, count          *limit
	p95Text, countText  string // the limits as written on the command line
	newErrors, newSpans bool
	any                 bool
}

// usualP95 is the default of --max-p95 if each side has at least three runs.
const usualP95 = "+10%"

// limits returns the limits of the flags. The defaults depend on how many runs are compared.
func (o *diffOptions) limits() (l diffLimits, err error) {
	l.any, l.p95Text, l.countText = o.anyChange, o.maxP95, o.maxCount
	if l.p95Text == "" && min(len(o.before), len(o.after)) >= 3 {
		l.p95Text = usualP95
	}
	l.p95, err = parseLimit("max-p95", l.p95Text, "+10% or +5ms", func(s string) (float64, error) {
		d, err := time.ParseDuration(s)
		return float64(d), err
	})
	if err != nil {
		return l, err
	}
	l.count, err = parseLimit("max-count", o.maxCount, "+1 or +10%", func(s string) (float64, error) {
		return strconv.ParseFloat(s, 64)
	})
	if err != nil {
		return l, err
	}
	for _, f := range o.failOn {
		switch f {
		case failErrors:
			l.newErrors = true
		case failSpans:
			l.newSpans = true
		case failMore, noLimit:
		default:
			return l, usagef("--fail-on is %q: must be new-errors, new-spans, more-errors or none", f)
		}
	}
	return l, nil
}

// String returns the limits as they are written on the command line.
func (l *diffLimits) String() string {
	all := l.texts()
	if l.newErrors && l.newSpans {
		all[newErrors], all[newSpans] = all[newErrors]+","+failSpans, ""
	}
	return strings.Join(slices.DeleteFunc(all[:], func(text string) bool { return text == "" }), " ")
}

// texts returns the flag of each limit, or "" for a kind without a limit.
func (l *diffLimits) texts() (all [numWorse]string) {
	if l.p95 != nil {
		all[slower] = "--max-p95 " + l.p95Text
	}
	if l.count != nil {
		all[moreSpans] = "--max-count " + l.countText
	}
	if l.newErrors {
		all[newErrors] = "--fail-on " + failErrors
	}
	if l.newSpans {
		all[newSpans] = "--fail-on " + failSpans
	}
	return all
}

// find returns the limits that a path exceeds. seen has all of them. found has only those that the path surely
// does not exceed by chance. With --any-change, found is equal to seen.
func (l *diffLimits) find(p *analyze.PathDiff) (found, seen finding) {
	is, surely := p.IsNew()
	seen[newSpans], found[newSpans] = l.newSpans && is, surely
	has, surely := p.HasNewErrors()
	seen[newErrors], found[newErrors] = l.newErrors && has, surely
	if !is {
		_, surely = p.Change()
		seen[slower], found[slower] = l.p95.exceeded(float64(p.Before.P95), float64(p.After.P95)), surely
		share, surely := p.MoreSpans()
		seen[moreSpans], found[moreSpans] = share > 0 && l.count.exceeded(p.Before.Rate(), p.After.Rate()), surely
	}
	for i := range found {
		found[i] = seen[i] && (found[i] || l.any)
	}
	return found, seen
}

// whyNot says why a path that is slower, and surely not by chance, exceeds no limit. It returns "" for other paths.
func (l *diffLimits) whyNot(p *analyze.PathDiff) string {
	switch share, surely := p.Change(); {
	case share <= 0 || !surely:
		return ""
	case l.p95 == nil:
		return "slower, but durations have no limit: --max-p95"
	}
	return "slower, but within " + l.texts()[slower]
}

// runs opens files. Each file is one run.
func runs(ctx context.Context, c *console, names []string, o *rowFlags, allowPartial bool) (runs []query.Run, closeAll func(), err error) {
	var opened []*selected
	closeAll = func() {
		for _, l := range opened {
			_ = l.Close() // nothing was written to it
		}
	}
	for _, name := range names {
		l, err := openRows(ctx, c, []string{name}, o)
		if err != nil {
			return nil, closeAll, err
		}
		opened = append(opened, l)
		if !allowPartial {
			if err := l.whole(); err != nil {
				return nil, closeAll, fmt.Errorf("%s: %w", name, err)
			}
		}
		runs = append(runs, query.Run{View: l.v, Rows: l.result.Rows})
	}
	return runs, closeAll, nil
}

func (o *diffOptions) diff(ctx context.Context, c *console) error {
	limits, err := o.limits()
	if err != nil {
		return err
	}
	before, done, err := runs(ctx, c, o.before, &o.rowFlags, o.allowPartial)
	defer done()
	if err != nil {
		return err
	}
	after, doneAfter, err := runs(ctx, c, o.after, &o.rowFlags, o.allowPartial)
	defer doneAfter()
	if err != nil {
		return err
	}
	d, err := analyze.Compare(ctx, before, after)
	if err != nil {
		return err
	}
	r := diffReport{console: c, d: d, limits: &limits, found: make([]finding, len(d.Paths))}
	for i := range d.Paths {
		found, seen := limits.find(&d.Paths[i])
		r.found[i] = found
		if seen != found {
			r.chance++
		}
		if found.any() {
			r.failed++
		}
		for w, is := range found {
			if is {
				r.worse[w]++
			}
		}
	}
	d.Errors = slices.DeleteFunc(d.Errors, func(e analyze.Evidence) bool { return !e.Sure && !limits.any })
	if slices.Contains(o.failOn, failMore) {
		r.more = len(d.Errors)
	}
	w := bufio.NewWriter(c.out)
	if o.json {
		err = r.json(w)
	} else {
		paths := r.paths(o.limit)
		paths.head = c.paint(show.Bold, show.Safe(runNames(o.before)+" → "+runNames(o.after))+": "+r.summary()) + "\n" + c.paint(show.Dim, r.method())
		printSections(w, paths)
	}
	err = errors.Join(err, w.Flush())
	if err == nil && r.failed+r.more > 0 {
		if o.json {
			_, _ = fmt.Fprintln(c.err, strings.Join(r.verdict(), "\n")) // stderr may be closed
		}
		return errNone
	}
	return err
}

// runNames names the files of one side.
func runNames(names []string) string {
	if len(names) > 3 {
		return fmt.Sprintf("%s, … %s (%d runs)", names[0], names[len(names)-1], len(names))
	}
	return strings.Join(names, ", ")
}

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

// method says what the column "chance" means.
func (r *diffReport) method() string {
	switch {
	case r.d.LeastP == 0:
		return "one run on each side: machine noise is not in \"chance\"; --before and --after take several runs"
	case r.d.LeastP > r.d.Level:
		return fmt.Sprintf("%d and %d runs are too few to tell a change from chance: three on each side can", r.d.Runs[0], r.d.Runs[1])
	}
	return fmt.Sprintf("\"chance\" is that between %d and %d runs, over all paths together", r.d.Runs[0], r.d.Runs[1])
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

// paths returns the paths for people. Paths that exceed a limit are first. The note has what else was found.
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
		notes = append(notes, r.paint(show.Dim, fmt.Sprintf("… %s with less change, which --limit 0 shows", plural(left, "path"))))
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
