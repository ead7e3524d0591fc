package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// tellStates says on the standard error which execution traces cannot be read, or not to their end.
func (a *app) tellStates(ctx context.Context, v *view.View) error {
	states, err := v.States(ctx)
	if err != nil {
		return err
	}
	for _, problem := range states.Problems() {
		fmt.Fprintln(a.err, "entrace:", safe(problem.Error()))
	}
	return nil
}

// frameText writes a function and its line.
func frameText(f *query.Frame) string {
	if f == nil {
		return ""
	}
	return safe(f.String())
}

// measured prints a measured path for people. Steps that take less than the share least of the whole are folded.
func (p *rowPrinter) measured(w *bufio.Writer, m *query.MeasuredPath, least float64) error {
	whole := time.Duration(m.To - m.From)
	e, err := p.read.Entry(m.Span)
	if err != nil {
		return err
	}
	line := p.lineOf(m.Span, e, 0)
	if start, timed := p.v.Time(m.Span); timed {
		line = p.paint(colorDim, start.In(p.time.zone()).Format("15:04:05.000000 ")) + line
	}
	how := "measured"
	if m.Join == view.Matched {
		how += ", found by name and time"
	}
	fmt.Fprintf(w, "critical path, %s: %s\n", how, line)
	if m.Open {
		fmt.Fprintln(w, p.paint(colorYellow, "it has not ended: the path leads to the end of the execution trace"))
	}
	lines := [][]string{}
	steps, shorter, short := m.Lines(p.v, least)
	for i := range steps {
		s := &steps[i]
		share := ""
		if !s.Followed && whole > 0 {
			share = fmt.Sprintf("%.0f%%", 100*float64(s.Took)/float64(whole))
		}
		lines = append(lines, []string{
			p.paint(colorDim, "+"+duration(time.Duration(s.From-m.From))), p.paint(colorBlue, duration(time.Duration(s.Took))), share,
			strings.Repeat("  ", min(s.Depth, maxFollowIndent)) + p.stepText(m, s),
		})
	}
	if shorter > 0 {
		lines = append(lines, []string{"", "", "", p.paint(colorDim, fmt.Sprintf("… %s, %s", count(shorter, "shorter step", "shorter steps"), duration(time.Duration(short))))})
	}
	return printColumns(w, slices.Values(lines), []bool{true, true, true, false})
}

// maxFollowIndent is how many levels of waits are indented: a queue has one for each that waits in it.
const maxFollowIndent = 3

// stepText says what a goroutine did, where, for which span, who ended it, and how many steps like it there are.
func (p *rowPrinter) stepText(m *query.MeasuredPath, s *query.MeasuredLine) string {
	text := p.paint(colorBold, s.State)
	if s.Span != m.Span {
		text += " in " + p.spanText(s.Span, s.Goroutine)
		if s.Times == 1 {
			text += p.requestText(s.Span, m.Span)
		}
	}
	text += safe(query.Place(s.Via, s.Frame))
	if s.By.Goroutine >= 0 {
		if s.By.Span != 0 && s.By.Span == s.Span {
			text += fmt.Sprintf(", ended by its goroutine %d", s.By.Goroutine)
		} else {
			text += ", ended by " + p.spanText(s.By.Span, s.By.Goroutine)
			if s.Times == 1 && !s.Followed { // else the next steps say it
				text += p.requestText(s.By.Span, m.Span)
			}
		}
		if f := frameText(s.By.Frame); f != "" {
			text += " at " + f
		}
	}
	if s.Times > 1 {
		text += fmt.Sprintf(", %d times", s.Times)
	}
	if s.Followed {
		text += ", meanwhile:"
	}
	return text
}

// spanText names a span, or a goroutine that works for none.
func (p *rowPrinter) spanText(r view.Row, goroutine int64) string {
	if r == 0 {
		return fmt.Sprintf("goroutine %d", goroutine)
	}
	return safe(p.v.Name(r))
}

// requestText says of which request a span is, if that is another than that of the span own.
func (p *rowPrinter) requestText(r, own view.Row) string {
	if r == 0 {
		return ""
	}
	if text := p.ranker.Request(r, own); text != "" {
		return " " + safe(text)
	}
	return ""
}

// A jsonFrame is a function and a line in it.
type jsonFrame struct {
	Function string `json:"function"`
	File     string `json:"file"`
	Line     int    `json:"line"`
}

func jsonFrames(stack []query.Frame) []jsonFrame {
	list := make([]jsonFrame, len(stack))
	for i, f := range stack {
		list[i] = jsonFrame{f.Func, f.File, f.Line}
	}
	return list
}

// measuredJSON prints a measured path as one JSON object.
func (p *rowPrinter) measuredJSON(w *bufio.Writer, m *query.MeasuredPath) error {
	raw := rawRows{p: p}
	type waker struct {
		Goroutine int64           `json:"goroutine"`
		Span      json.RawMessage `json:"span"`
		Frame     *jsonFrame      `json:"frame"`
	}
	type step struct {
		From      int64           `json:"from_unix_nano"`
		Duration  int64           `json:"duration_nano"`
		Depth     int             `json:"depth"`
		Followed  bool            `json:"followed"`
		State     string          `json:"state"`
		Goroutine int64           `json:"goroutine"`
		Span      json.RawMessage `json:"span"`
		Stack     []jsonFrame     `json:"stack"`
		EndedBy   *waker          `json:"ended_by"`
	}
	out := struct {
		Span     json.RawMessage `json:"span"`
		Inferred bool            `json:"inferred"`
		Join     string          `json:"join"`
		Open     bool            `json:"open"`
		Known    float64         `json:"known"`
		From     int64           `json:"from_unix_nano"`
		Duration int64           `json:"duration_nano"`
		Steps    []step          `json:"steps"`
	}{raw.row(m.Span), false, m.Join.String(), m.Open, m.Known, m.From, m.To - m.From, []step{}}
	for i := range m.Steps {
		s := &m.Steps[i]
		x := step{s.From, s.To - s.From, s.Depth, s.Followed, s.State, s.Goroutine, raw.row(s.Span), jsonFrames(s.Stack), nil}
		if s.By.Goroutine >= 0 {
			x.EndedBy = &waker{Goroutine: s.By.Goroutine, Span: raw.row(s.By.Span)}
			if f := s.By.Frame; f != nil {
				x.EndedBy.Frame = &jsonFrame{f.Func, f.File, f.Line}
			}
		}
		out.Steps = append(out.Steps, x)
	}
	b, err := json.Marshal(out)
	if err = errors.Join(raw.err, err); err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// topWaits prints where spans waited longest.
func (a *app) topWaits(w *bufio.Writer, waits []query.WaitTotal) error {
	lines := [][]string{}
	for i := range waits {
		x := &waits[i]
		lines = append(lines, []string{a.paint(colorBlue, duration(time.Duration(x.Time))), safe(x.Text())})
	}
	return printColumns(w, slices.Values(lines), []bool{true, false})
}
