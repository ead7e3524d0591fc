package viewer

import (
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

const (
	maxStrips    = 200             // in an answer
	maxStrip     = 400             // parts of one
	stripsBudget = 5 * time.Second // of execution traces that are read for them
)

// stateStrips answers with what the goroutines of spans did. The parameter rows has rows and the number of parts of
// their strips, as 7:40,9:120.
func (h *Handler) stateStrips(ctx context.Context, s *state, q url.Values) (answer, error) {
	var rows []view.Row
	parts := make(map[view.Row]int)
	for pair := range strings.SplitSeq(q.Get("rows"), ",") {
		row, n, _ := strings.Cut(pair, ":")
		r, err := s.rowOf(url.Values{"row": {row}}, "row")
		if err != nil {
			return answer{}, err
		}
		width, err := strconv.Atoi(n)
		if err != nil || width < 1 || width > maxStrip || len(rows) == maxStrips {
			return answer{}, badRequest("a row and 1 to " + strconv.Itoa(maxStrip) + " parts are needed, of " + strconv.Itoa(maxStrips) + " rows at most")
		}
		rows = append(rows, r)
		parts[r] = width
	}
	strips, err := query.NewStrips(ctx, s.v, slices.Values(rows), stripsBudget)
	if err != nil {
		return answer{}, err
	}
	out := make(map[string][]string)
	for _, r := range rows {
		if strip := strips.Of(r, parts[r]); strip != nil {
			out[strconv.Itoa(int(r))] = strip
		}
	}
	return answer{json: out}, nil
}

// A waited says what a span waited for, as an execution trace tells.
type waited struct {
	Known bool        `json:"known"` // the trace has the span
	Whole bool        `json:"whole"` // it explains so much of it that its path is measured
	Share float64     `json:"share"` // how much of it
	Join  string      `json:"join"`
	Open  bool        `json:"open"`
	Own   []stateTime `json:"own"`  // what its goroutine did
	Path  []stateTime `json:"path"` // what it and those did that it waited for
	Waits []waitStep  `json:"waits"`
	Steps []waitStep  `json:"steps"`
	Rest  int         `json:"rest"` // steps that are left out
}

type stateTime struct {
	State string `json:"state"`
	Took  string `json:"took"`
}

// A waitStep is a step of a measured path.
type waitStep struct {
	State     string  `json:"state"`
	From      string  `json:"from"`
	Took      string  `json:"took"`
	Depth     int     `json:"depth"`
	Times     int     `json:"times"` // how many steps like it there are, one behind the other
	Followed  bool    `json:"followed"`
	Goroutine string  `json:"goroutine"`
	Span      *place  `json:"span"`
	Of        string  `json:"of"` // which request the span is part of, if that is another one
	Frame     string  `json:"frame"`
	Via       string  `json:"via"`
	Stack     string  `json:"stack"`
	By        *wakeBy `json:"by"`
}

type wakeBy struct {
	Goroutine string `json:"goroutine"`
	Span      *place `json:"span"`
	Of        string `json:"of"`
	Frame     string `json:"frame"`
}

const (
	maxWaits     = 3
	maxWaitSteps = 40
)

// waitedFor answers with what a span waited for.
func (h *Handler) waitedFor(ctx context.Context, s *state, q url.Values) (answer, error) {
	r, err := s.rowOf(q, "row")
	if err != nil {
		return answer{}, err
	}
	out := waited{Own: []stateTime{}, Path: []stateTime{}, Waits: []waitStep{}, Steps: []waitStep{}}
	m, err := query.Measured(ctx, s.v, r)
	if err != nil || m == nil {
		return answer{json: out}, err
	}
	out.Known, out.Whole, out.Share, out.Join, out.Open = true, m.Known >= query.MeasuredShare, m.Known, m.Join.String(), m.Open
	out.Own, out.Path = stateTimes(m.Own), stateTimes(m.Sums)
	ranker := interest.NewRanker(s.v)
	of := func(x view.Row) string {
		if x == 0 {
			return ""
		}
		return preview(ranker.Request(x, r))
	}
	for _, x := range m.Longest(maxWaits) {
		step := s.waitStep(x)
		if step.By != nil {
			step.By.Of = of(x.By.Span)
		}
		out.Waits = append(out.Waits, step)
	}
	lines, shorter, _ := m.Lines(s.v, .01)
	for i := range lines[:min(len(lines), maxWaitSteps)] {
		x := s.waitStep(lines[i].MeasuredStep)
		if lines[i].Times == 1 {
			x.Of = of(lines[i].Span)
		}
		x.Took, x.Times = strconv.FormatInt(lines[i].Took, 10), lines[i].Times
		out.Steps = append(out.Steps, x)
	}
	out.Rest = shorter + max(0, len(lines)-maxWaitSteps)
	return answer{json: out}, nil
}

// maxPlaces is how many places at which spans waited are told.
const maxPlaces = 8

// waits answers with the places at which spans waited longest.
func (h *Handler) waits(ctx context.Context, s *state, q url.Values) (answer, error) {
	rows, _, err := s.rowsIn(ctx, q)
	if err != nil {
		return answer{}, err
	}
	list, err := query.Waits(ctx, s.v, rows, maxPlaces)
	if err != nil {
		return answer{}, err
	}
	type total struct {
		Row  view.Row `json:"row"` // the span that waited longest at once
		Took string   `json:"took"`
		Text string   `json:"text"`
	}
	out := []total{}
	for i := range list {
		out = append(out, total{list[i].Longest, strconv.FormatInt(list[i].Time, 10), preview(list[i].Text())})
	}
	return answer{json: out}, nil
}

func stateTimes(list []query.StateTime) []stateTime {
	out := []stateTime{}
	for _, x := range list {
		out = append(out, stateTime{x.State, strconv.FormatInt(x.Time, 10)})
	}
	return out
}

func (s *state) waitStep(x *query.MeasuredStep) waitStep {
	out := waitStep{
		State: x.State, From: strconv.FormatInt(x.From, 10), Took: strconv.FormatInt(x.To-x.From, 10), Depth: x.Depth, Followed: x.Followed,
		Goroutine: strconv.FormatInt(x.Goroutine, 10), Span: s.placeOf(x.Span), Frame: frameText(x.Frame), Via: preview(x.Via),
	}
	var stack strings.Builder
	for i := range x.Stack {
		f := &x.Stack[i]
		stack.WriteString(preview(f.Func) + "\n\t" + preview(f.File) + ":" + strconv.Itoa(f.Line) + "\n")
	}
	out.Stack = stack.String()
	if x.By.Goroutine >= 0 {
		out.By = &wakeBy{Goroutine: strconv.FormatInt(x.By.Goroutine, 10), Span: s.placeOf(x.By.Span), Frame: frameText(x.By.Frame)}
	}
	return out
}

// placeOf names a row; nil if r is 0.
func (s *state) placeOf(r view.Row) *place {
	if r == 0 {
		return nil
	}
	return &place{r, preview(s.v.Name(r))}
}

func frameText(f *query.Frame) string {
	if f == nil {
		return ""
	}
	return preview(f.String())
}
