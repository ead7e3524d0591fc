package main

import (
	"bufio"
	"cmp"
	"context"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// A rowTail prints rows in the order of time. A span is printed when it ends.
type rowTail struct {
	*selected

	c     *console
	o     *tailOptions
	left  int // the number of existing rows that are printed; -1 for all
	out   *bufio.Writer
	shown view.Set[view.Row]
	lines lines
}

func openTail(ctx context.Context, c *console, name string, o *tailOptions) (*rowTail, error) {
	l, err := openRows(ctx, c, []string{name}, &o.rowFlags)
	if err != nil {
		return nil, err
	}
	t := &rowTail{selected: l, c: c, o: o, left: o.lines, out: bufio.NewWriter(c.out), shown: l.v.NewSet()}
	t.lines = lines{console: c.to(t.out), o: *o}
	t.lines.first = l.first()
	return t, nil
}

// A happened is a row that can be printed because it is complete. For a span, at is the time of its end.
type happened struct {
	row  view.Row
	at   int64
	span bool
}

// compare orders rows by the time of their end. If a coarse clock gives rows the same time, a span comes after the
// rows below it.
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

// show prints the complete rows that were not printed yet.
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
	p := newRowPrinter(t.c, t.selected, t.out, &t.o.rowFlags)
	if t.left >= 0 {
		from := len(list)
		for ; from > 0 && t.left > 0; from-- {
			if e, err := p.Read.Entry(list[from-1].row); err != nil {
				return err
			} else if t.o.json || t.lines.shown(e) { // the row has a line
				t.left--
			}
		}
		list, t.left, t.o.lines = list[from:], -1, -1 // from now on, all rows are new, also the rows of later files
	}
	for i, h := range list {
		if i%linesAtOnce == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if t.o.json {
			if err := p.print(h.row); err != nil {
				return err
			}
		} else if e, err := p.Read.Entry(h.row); err != nil {
			return err
		} else if err := t.lines.show(0, e); err != nil {
			return err
		}
	}
	return t.out.Flush()
}

// grow prints the rows that are new in the file.
func (t *rowTail) grow(ctx context.Context) error {
	v, err := t.v.Extend(ctx)
	if err != nil {
		return err
	}
	t.v = v
	t.shown = append(t.shown, v.NewSet()[len(t.shown):]...)
	if err := t.run(ctx, &t.o.rowFlags); err != nil {
		return err
	}
	return t.show(ctx)
}
