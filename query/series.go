package query

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/entrace-go/entrace/view"
)

// maxSteps is the maximum number of lines of a series.
const maxSteps = 100_000

// Groups returns a table of rows, grouped by the expressions in by, which has the syntax of the arguments of
// by(…). Its columns are these expressions, the number of rows, the number of errors, and the quantiles of the
// durations of spans.
func Groups(ctx context.Context, v *view.View, rows view.Set[view.Row], by string, quantiles ...float64) (*Table, error) {
	return tableOf(ctx, v, rows, false, "{} | count() by("+by+")", quantiles...)
}

// Series returns a table of the spans of a set by start time. The parameter every is the length of a step of time.
// The table has one line for each step, from the first span to the last span. A line has the number of spans, the
// number of failed spans, and quantiles of the durations. If the set has no spans, Series counts its other rows.
func Series(ctx context.Context, v *view.View, rows view.Set[view.Row], every time.Duration) (*Table, error) {
	if every <= 0 {
		return nil, &Error{Text: fmt.Sprintf("a step must be longer than 0, not %s", every), Hint: "write 1s"}
	}
	t := &Table{Columns: []string{"time", "count", "errors", "p50", "p95"}, groups: 1}
	width := int64(every)
	spans, first, last := timed(v, rows, false)
	if first > last {
		spans, first, last = timed(v, rows, true)
		if first > last {
			return t, nil
		}
	}
	floor := func(at int64) int64 { return at - (at%width+width)%width }
	first, last = floor(first), floor(last)
	if uint64(last-first)/uint64(width) >= maxSteps {
		return nil, &Error{Text: fmt.Sprintf("the trace has more than %[2]d steps of %[1]s", every, maxSteps), Hint: "choose longer steps"}
	}
	g, err := Groups(ctx, v, spans, fmt.Sprintf("bucket(start, %dns)", width), 0.5, 0.95)
	if err != nil {
		return nil, err
	}
	for _, line := range g.Lines {
		for ; first < line[0].n; first += width {
			t.Lines = append(t.Lines, []Value{{kind: kindTime, n: first}, intValue(0), intValue(0), {}, {}})
		}
		t.Lines = append(t.Lines, line)
		first += width
	}
	return t, nil
}

// timed returns the spans that have a time, and the first and the last time. If all is set, it returns all rows
// that have a time.
func timed(v *view.View, rows view.Set[view.Row], all bool) (some view.Set[view.Row], first, last int64) {
	some, first, last = v.NewSet(), 1, 0
	for r := range rows.All() {
		at, ok := v.Start(r)
		if !ok || !all && v.Role(r) != view.RoleSpan {
			continue
		}
		some.Add(r)
		if first > last {
			first, last = at, at
		}
		first, last = min(first, at), max(last, at)
	}
	return some, first, last
}

// Spread counts the rows of each line of t by start time, in periods of equal length. The parameter every is the
// length of a period in nanoseconds, and the first period begins at from. The table t must have been computed from
// the set rows. The result maps the Where of each line to its counts, one for each period. It is empty if t has no
// groups.
func (t *Table) Spread(ctx context.Context, v *view.View, rows view.Set[view.Row], from, every int64, periods int) (map[string][]uint32, error) {
	out := make(map[string][]uint32)
	if t.groups == 0 {
		return out, nil
	}
	every = max(1, every)
	var period []string // omits conditions that are true for all rows, because they take time
	first, last, _ := v.Period()
	if first < from {
		period = append(period, fmt.Sprintf("start >= %d", from))
	}
	if to := from + every*int64(periods); from < to && to <= last { // the sums did not overflow
		period = append(period, fmt.Sprintf("start < %d", to))
	}
	text := fmt.Sprintf("{ %s } | count() by(%s, bucket(start - %d, %dns))", strings.Join(period, " && "), strings.Join(t.Columns[:t.groups], ", "), from, every)
	counts, err := tableOf(ctx, v, rows, t.spans, text)
	if err != nil {
		return nil, err
	}
	for _, line := range counts.Lines {
		at, timed := line[t.groups].number()
		n, _ := line[t.groups+1].number()
		i := int(at / float64(every))
		if !timed || i < 0 || i > periods {
			continue
		}
		key := t.Where(line)
		if out[key] == nil {
			out[key] = make([]uint32, periods)
		}
		out[key][min(i, periods-1)] += uint32(n)
	}
	return out, nil
}
