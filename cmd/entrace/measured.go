package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/view"
)

// tellStates reports on stderr which execution traces could not be read, or only in part.
func tellStates(ctx context.Context, c *console, v *view.View) error {
	states, err := spanstates.Of(ctx, v)
	if err != nil {
		return err
	}
	for _, problem := range states.Problems() {
		c.say("%s", problem)
	}
	return nil
}

// measured returns a measured path for people. It folds steps with less than the share least of the whole time.
func (p *rowPrinter) measured(m *analyze.MeasuredPath, least float64) section {
	how := "measured"
	if m.Join == spanstates.Matched {
		how += ", found by name and time"
	}
	var lines [][]string
	steps, shorter, short := m.Lines(p.v, least)
	for i := range steps {
		s := &steps[i]
		whole := m.Duration
		if s.Followed {
			whole = 0
		}
		lines = append(lines, p.step(s.From-m.From, s.Duration, whole, strings.Repeat("  ", min(s.Depth, maxFollowIndent))+p.stepText(m, s)))
	}
	lines = p.fold(lines, shorter, "shorter step", short)
	return section{head: p.pathHead(how, m.Span, m.Open, "the end of the execution trace"), sides: stepColumns, lines: slices.Values(lines)}
}

// maxFollowIndent is the maximum number of levels at which waits are indented. A queue of goroutines has one level
// per waiting goroutine.
const maxFollowIndent = 3

// stepText describes a step: the goroutine's state, the place in the code, the span, who ended the wait, and how
// often the step occurs.
func (p *rowPrinter) stepText(m *analyze.MeasuredPath, s *analyze.MeasuredStep) string {
	text := p.paint(show.Bold, s.State)
	if s.Span != m.Span {
		text += " in " + p.spanText(s.Span, s.Goroutine) + requestText(s.Request)
	}
	text += show.Safe(analyze.Place(s.Via, s.Frame))
	if by := s.EndedBy; by != nil {
		if by.Span != 0 && by.Span == s.Span {
			text += fmt.Sprintf(", ended by its goroutine %d", by.Goroutine)
		} else {
			text += ", ended by " + p.spanText(by.Span, by.Goroutine)
			if !s.Followed { // otherwise the next steps say this
				text += requestText(by.Request)
			}
		}
		if by.Frame != nil {
			text += " at " + show.Safe(by.Frame.String())
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

// spanText names a span, or a goroutine if no span is known.
func (p *rowPrinter) spanText(r view.Row, goroutine int64) string {
	if r == 0 {
		return fmt.Sprintf("goroutine %d", goroutine)
	}
	return show.Safe(p.v.Name(r))
}

// requestText names the request of a span.
func requestText(request string) string {
	if request != "" {
		request = " " + show.Safe(request)
	}
	return request
}

// pathHead returns the lines above a critical path.
func (p *rowPrinter) pathHead(how string, span view.Row, open bool, end string) string {
	line := p.LineOf(span, p.entryOf(span), 0)
	if start, timed := p.v.Time(span); timed {
		line = p.paint(show.Dim, start.In(p.time.zone()).Format("15:04:05.000000 ")) + line
	}
	if open {
		line += "\n" + p.paint(show.Yellow, "it has not ended: the path leads to "+end)
	}
	return "critical path, " + how + ": " + line
}

// step returns the columns of a step. The share is empty if the whole time is 0.
func (p *rowPrinter) step(after, took, whole int64, text string) []string {
	share := ""
	if whole > 0 {
		share = fmt.Sprintf("%.0f%%", 100*float64(took)/float64(whole))
	}
	return []string{p.paint(show.Dim, "+"+duration(after)), p.paint(show.Blue, duration(took)), share, text}
}

// stepColumns are the alignments of the columns of steps.
const stepColumns = "rrrl"

// fold adds a line that stands for n omitted steps.
func (p *rowPrinter) fold(lines [][]string, n int, what string, took int64) [][]string {
	if n == 0 {
		return lines
	}
	return append(lines, []string{"", "", "", p.paint(show.Dim, fmt.Sprintf("… %s, %s", plural(n, what), duration(took)))})
}
