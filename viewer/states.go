package viewer

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/view"
)

const (
	maxStrips    = 200             // in an answer
	maxStrip     = 400             // the maximum number of parts of a strip
	stripsBudget = 5 * time.Second // an answer reads at most this much time of execution traces
)

// stateStrips answers with a strip for each requested span: the state of its goroutine in each of n equal parts of
// the span. The parameter "rows" lists rows, each with its n, as in 7:40,9:120.
func (q *request) stateStrips(ctx context.Context) (any, error) {
	var rows []view.Row
	parts := make(map[view.Row]int)
	for pair := range strings.SplitSeq(q.Get("rows"), ",") {
		row, n, _ := strings.Cut(pair, ":")
		q.Set("row", row)
		r := q.row("row")
		width, err := strconv.Atoi(n)
		if err != nil || width < 1 || width > maxStrip || len(rows) == maxStrips {
			q.fail("parameter \"rows\" must list ROW:PARTS, with 1 to " + strconv.Itoa(maxStrip) + " parts, for at most " + strconv.Itoa(maxStrips) + " rows")
		}
		if q.err != nil {
			return nil, q.err
		}
		rows = append(rows, r)
		parts[r] = width
	}
	strips, err := analyze.NewStrips(ctx, q.v, slices.Values(rows), stripsBudget)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]string)
	for _, r := range rows {
		if strip := strips.Of(r, parts[r]); strip != nil {
			out[strconv.Itoa(int(r))] = strip
		}
	}
	return out, nil
}

// A waited says what a span waited for, according to an execution trace. Its steps come from
// [analyze.MeasuredPath.Lines].
type waited struct {
	*analyze.MeasuredPath

	Whole bool                   `json:"whole"` // the execution trace explains enough of the span to show its path as measured
	Own   []analyze.StateTime    `json:"own"`   // the time that the span's goroutine spent in each state
	Sums  []analyze.StateTime    `json:"sums"`  // the time in each state, including the goroutines for which the span's goroutine waited
	Waits []analyze.MeasuredStep `json:"waits"` // the longest waits
	Rest  int                    `json:"rest"`  // the number of omitted steps
}

const (
	maxWaits     = 3
	maxWaitSteps = 40
)

// waitedFor answers what a span waited for.
func (q *request) waitedFor(ctx context.Context) (any, error) {
	r := q.row("row")
	if q.err != nil {
		return nil, q.err
	}
	m, err := analyze.Measured(ctx, q.v, r)
	if err != nil || m == nil {
		return nil, err
	}
	out := waited{m, m.Known >= analyze.MeasuredShare, m.Own, m.Sums, m.Longest(q.v, maxWaits), 0}
	m.Steps, out.Rest, _ = m.Lines(q.v, .01)
	out.Rest += max(0, len(m.Steps)-maxWaitSteps)
	m.Steps = m.Steps[:min(len(m.Steps), maxWaitSteps)]
	return q.encoded(ctx, out, nil)
}

// A waitPlace is a place in the code at which spans waited, with a description for people.
type waitPlace struct {
	analyze.WaitTotal

	Text string `json:"text"`
}

// maxPlaces is the largest number of places in an answer.
const maxPlaces = 8

// waits answers with the places in the code at which spans waited longest.
func (q *request) waits(ctx context.Context) (any, error) {
	f, err := q.selected(ctx, "{}")
	if err != nil {
		return nil, err
	}
	out, err := q.waitPlaces(ctx, f.rows)
	if err != nil {
		return nil, err
	}
	return q.encoded(ctx, out, nil)
}

func (s *state) waitPlaces(ctx context.Context, rows view.Set[view.Row]) (out []waitPlace, err error) {
	list, err := analyze.Waits(ctx, s.v, rows, maxPlaces)
	for i := range list {
		out = append(out, waitPlace{list[i], list[i].Text()})
	}
	return out, err
}
