package viewer

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/query/analyze"
	"github.com/entrace-go/entrace/view"
)

const (
	maxStrips    = 200             // in an answer
	maxStrip     = 400             // parts of one
	stripsBudget = 5 * time.Second // of execution traces that are read for them
)

// stateStrips answers with what the goroutines of spans did. The parameter rows has rows and the number of parts of
// their strips, as 7:40,9:120.
func (h *Handler) stateStrips(ctx context.Context, s *state, q url.Values) (any, error) {
	var rows []view.Row
	parts := make(map[view.Row]int)
	for pair := range strings.SplitSeq(q.Get("rows"), ",") {
		row, n, _ := strings.Cut(pair, ":")
		r, err := s.rowOf(url.Values{"row": {row}}, "row")
		if err != nil {
			return nil, err
		}
		width, err := strconv.Atoi(n)
		if err != nil || width < 1 || width > maxStrip || len(rows) == maxStrips {
			return nil, badRequest("a row and 1 to " + strconv.Itoa(maxStrip) + " parts are needed, of " + strconv.Itoa(maxStrips) + " rows at most")
		}
		rows = append(rows, r)
		parts[r] = width
	}
	strips, err := analyze.NewStrips(ctx, s.v, slices.Values(rows), stripsBudget)
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

// A waited says what a span waited for, as an execution trace tells. Its steps are those of [analyze.MeasuredPath.Lines].
type waited struct {
	*analyze.MeasuredPath

	Whole bool                   `json:"whole"` // it explains so much of the span that its path is measured
	Own   []analyze.StateTime    `json:"own"`   // what its goroutine did
	Sums  []analyze.StateTime    `json:"sums"`  // what it and those did that it waited for
	Waits []analyze.MeasuredStep `json:"waits"` // the longest
	Rest  int                    `json:"rest"`  // steps that are left out
}

const (
	maxWaits     = 3
	maxWaitSteps = 40
)

// waitedFor answers with what a span waited for.
func (h *Handler) waitedFor(ctx context.Context, s *state, q url.Values) (any, error) {
	r, err := s.rowOf(q, "row")
	if err != nil {
		return nil, err
	}
	m, err := analyze.Measured(ctx, s.v, r)
	if err != nil || m == nil {
		return nil, err
	}
	out := waited{m, m.Known >= analyze.MeasuredShare, m.Own(), m.Sums(), m.Longest(s.v, maxWaits), 0}
	m.Steps, out.Rest, _ = m.Lines(s.v, .01)
	out.Rest += max(0, len(m.Steps)-maxWaitSteps)
	m.Steps = m.Steps[:min(len(m.Steps), maxWaitSteps)]
	return s.encoded(ctx, out, nil)
}

// A waitPlace is a place at which spans waited, and what people are told of it.
type waitPlace struct {
	analyze.WaitTotal

	Text string `json:"text"`
}

// maxPlaces is how many places at which spans waited are told.
const maxPlaces = 8

// waits answers with the places at which spans waited longest.
func (h *Handler) waits(ctx context.Context, s *state, q url.Values) (any, error) {
	rows, _, err := s.rowsIn(ctx, q)
	if err != nil {
		return nil, err
	}
	out, err := s.waitPlaces(ctx, rows)
	if err != nil {
		return nil, err
	}
	return s.encoded(ctx, out, nil)
}

func (s *state) waitPlaces(ctx context.Context, rows view.Set[view.Row]) (out []waitPlace, err error) {
	list, err := analyze.Waits(ctx, s.v, rows, maxPlaces)
	for i := range list {
		out = append(out, waitPlace{list[i], list[i].Text()})
	}
	return out, err
}
