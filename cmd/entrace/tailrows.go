package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// tailRows follows what a query selects, or rows in JSON.
func (a *app) tailRows(ctx context.Context, name string, o tailOptions) error {
	grows, err := openGrowing(ctx, name)
	if err != nil {
		return known(name, err)
	}
	defer grows.close()
	o.follows = true
	return a.followFiles(ctx, grows, func(g *growing) (bool, error) {
		t, err := a.openTail(ctx, g.path, &o)
		if err != nil {
			return false, err
		}
		defer t.Close()
		o.lines = -1 // of those that follow
		return t.follow(ctx)
	})
}

// A rowTail prints rows in the order in which they happened: a span when it ends.
type rowTail struct {
	*look

	app   *app
	o     *tailOptions
	left  int // lines to begin with; -1: all
	out   *bufio.Writer
	shown view.Set[view.Row]
	lines lines
}

func (a *app) openTail(ctx context.Context, name string, o *tailOptions) (*rowTail, error) {
	l, err := a.lookRows(ctx, []string{name}, &o.lookFlags)
	if err != nil {
		return nil, err
	}
	t := &rowTail{look: l, app: a, o: o, left: o.lines, out: bufio.NewWriter(a.out), shown: l.v.NewSet()}
	t.lines = lines{app: &app{out: t.out, err: a.err, color: a.color}, o: *o}
	if first, _, ok := query.Span(l.v); ok {
		t.lines.first = time.Unix(0, first)
	}
	return t, nil
}

// A happened row is one that is over.
type happened struct {
	row  view.Row
	at   int64
	span bool
}

// compare orders rows by when they were over. Of what a coarse clock does not tell apart, a span ends
// after all that is below it.
func (a happened) compare(b happened) int {
	switch {
	case a.at != b.at:
		return cmp.Compare(a.at, b.at)
	case a.span && b.span:
		return cmp.Compare(b.row, a.row)
	case a.span:
		return 1
	case b.span:
		return -1
	}
	return cmp.Compare(a.row, b.row)
}

// show prints the rows that have happened and were not printed.
func (t *rowTail) show(ctx context.Context) error {
	var list []happened
	for r := range t.result.Rows.All() {
		if t.shown.Has(r) {
			continue
		}
		took, ended := t.v.Duration(r)
		span := t.v.Role(r) == view.RoleSpan
		if span && !ended {
			continue
		}
		t.shown.Add(r)
		at, _ := t.v.Start(r)
		list = append(list, happened{r, at + int64(took), span})
	}
	slices.SortFunc(list, happened.compare)
	p := t.app.rowPrinter(t.look, t.out, &t.o.lookFlags)
	if t.left >= 0 {
		from := len(list)
		for ; from > 0 && t.left > 0; from-- {
			if e, err := p.read.Entry(list[from-1].row); err != nil {
				return err
			} else if t.o.json || t.lines.shown(e) { // has a line
				t.left--
			}
		}
		list, t.left = list[from:], -1
	}
	for i, h := range list {
		if i%linesAtOnce == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		err := error(nil)
		if t.o.json {
			err = p.print(h.row)
		} else {
			var e *format.TraceEntry
			if e, err = p.read.Entry(h.row); err == nil {
				err = t.lines.show(0, e)
			}
		}
		if err != nil {
			return err
		}
	}
	return t.out.Flush()
}

// follow prints what comes. It returns true when another file follows.
func (t *rowTail) follow(ctx context.Context) (rotated bool, err error) {
	file := t.v.Files()[0]
	q, err := query.Parse(t.o.query)
	if err != nil {
		return false, err
	}
	alive, ended := false, false
	for {
		// The state comes before the entries: what the file had when it ended is shown.
		state := t.State(t.v, 0)
		v, err := t.v.Extend(ctx)
		if ctx.Err() != nil {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		grown := v != t.v
		if grown {
			if t.v = v; len(t.shown) < len(v.NewSet()) {
				t.shown = append(t.shown, v.NewSet()[len(t.shown):]...)
			}
			between, err := t.o.between(v)
			if err != nil {
				return false, err
			}
			if t.result, err = q.Run(ctx, v, between); err != nil {
				return false, err
			}
		}
		if err := t.show(ctx); err != nil {
			return false, err
		}
		running := state.Word == deadtrace.Running
		if state.Word == deadtrace.Ended || file.Format() == format.ET {
			// A file that is rotated out has lost its name a moment before its end says so.
			if state.Rotated || !alive || ended {
				return state.Rotated, t.Damage()
			}
			if ended = true; !wait(ctx) {
				return false, nil
			}
			continue
		}
		dead := !running && (alive || state.Word == deadtrace.Killed || state.Word == deadtrace.Damaged && state.Recorded)
		if alive = alive || running; grown {
			continue
		}
		if dead {
			word, died := t.app.died(ctx, file.Name())
			if died != nil {
				return false, died
			}
			if alive && word == "" {
				return false, fmt.Errorf("%s: its writer is gone: %w", file.Name(), format.ErrTruncated)
			}
		}
		if !wait(ctx) {
			return false, nil
		}
	}
}
