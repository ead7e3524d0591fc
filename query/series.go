package query

import (
	"context"
	"fmt"
	"math/bits"
	"time"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/view"
)

// maxSteps is the maximum number of lines of a series.
const maxSteps = 100_000

// A step holds the counts and durations of one line of a series.
type step struct {
	n, errors int64
	durations durations
}

// Series returns a table of the spans of a set by their start time. It has a line for each step of
// length every, from the first span to the last. A line has the number of spans, the number that
// failed, and quantiles of their durations. If there is no span in the set, Series counts its other
// rows.
func Series(ctx context.Context, v *view.View, rows view.Set[view.Row], every time.Duration) (*Table, error) {
	if every <= 0 {
		return nil, &Error{Text: fmt.Sprintf("a step must be longer than 0, not %s", every), Hint: "write 1s"}
	}
	y := &series{ctx: ctx, v: v, rows: rows, width: int64(every)}
	t := &Table{Columns: []string{"time", "count", "errors", "p50", "p95"}, groups: 1}
	first, last, n := int64(0), int64(0), 0
	bounds := func(at int64, _ view.Flags, _ int64) {
		if n++; n == 1 {
			first, last = at, at
		}
		first, last = min(first, at), max(last, at)
	}
	if err := y.each(bounds); err != nil {
		return nil, err
	}
	if n == 0 {
		y.any = true
		if err := y.each(bounds); err != nil || n == 0 {
			return t, err
		}
	}
	number := uint64(last-first) / uint64(y.width)
	if number >= maxSteps {
		return nil, &Error{Text: fmt.Sprintf("the trace has more than %[2]d steps of %[1]s", every, maxSteps), Hint: "choose longer steps"}
	}
	steps := make([]step, number+1)
	at := func(start int64) *step { return &steps[uint64(start-first)/uint64(y.width)] }
	if err := y.each(func(start int64, f view.Flags, took int64) {
		s := at(start)
		s.n++
		if IsError(f) {
			s.errors++
		}
		if took != columns.NoDuration {
			s.durations.add(took)
		}
	}); err != nil {
		return nil, err
	}
	qs := []float64{0.5, 0.95}
	again := false
	for i := range steps {
		again = steps[i].durations.want(qs) || again
	}
	if again {
		var list []wanted
		if err := y.each(func(start int64, _ view.Flags, took int64) {
			if took != columns.NoDuration {
				list = at(start).durations.spread.addWanted(list[:0], took)
				keepWanted(list)
			}
		}); err != nil {
			return nil, err
		}
	}
	for i := range steps {
		s := &steps[i]
		line := []Value{{kind: kindTime, n: first + int64(i)*y.width}, intValue(s.n), intValue(s.errors)}
		for _, q := range qs {
			took := Value{}
			if s.durations.len() > 0 {
				took = durationValue(s.durations.quantile(q))
			}
			line = append(line, took)
		}
		t.Lines = append(t.Lines, line)
	}
	return t, nil
}

// A series iterates over rows together with the start of their step.
type series struct {
	ctx   context.Context //nolint:containedctx // of the one call that it lives for
	v     *view.View
	rows  view.Set[view.Row]
	width int64
	any   bool // include rows of all roles, and not only spans
}

func (y *series) each(fn func(step int64, f view.Flags, took int64)) error {
	for k := range y.v.Columns().Blocks() {
		if y.ctx.Err() != nil {
			return y.ctx.Err()
		}
		b := y.v.Columns().Block(k)
		for w, word := range y.rows[k*words64 : (k+1)*words64] {
			for ; word != 0; word &= word - 1 {
				i := w*64 + bits.TrailingZeros64(word)
				f := view.Flags(b.Flags[i])
				if b.Start[i] != columns.NoTime && (y.any || f.Role() == view.RoleSpan) {
					at := calculate("bucket", Value{kind: kindTime, n: b.Start[i]}, durationValue(y.width))
					if at.kind == kindTime {
						fn(at.n, f, b.Duration[i])
					}
				}
			}
		}
	}
	return nil
}
