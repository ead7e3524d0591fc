package main

import (
	"bufio"
	"context"
	"strconv"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// A rowPrinter prints one line for each row, in the form that tree prints.
type rowPrinter struct {
	printer

	l    *selected
	json bool
	w    *bufio.Writer

	names  text.Names // of the attributes of a row
	unread error      // why a row of a section could not be read
}

func newRowPrinter(c *console, l *selected, w *bufio.Writer, o *rowFlags) *rowPrinter {
	p := &rowPrinter{printer: newPrinter(c, l.v, o.time), l: l, json: o.json, w: w}
	p.Flat = true
	p.first = l.first()
	return p
}

func (p *rowPrinter) print(r view.Row) error {
	e, err := p.Read.Entry(r)
	if err != nil {
		return err
	}
	return p.printEntry(r, e)
}

// printEntry prints row r, whose entry is e.
func (p *rowPrinter) printEntry(r view.Row, e *format.TraceEntry) error {
	if p.json {
		p.B = p.appendJSON(p.B[:0], r, e)
	} else {
		more := p.setLine(r, e)
		p.B = append(p.B, '\n')
		for _, text := range more {
			p.below("    ", text)
		}
	}
	_, err := p.w.Write(p.B)
	return err
}

// setLine sets p.B to the line of row r. With p.Done, more has the texts of several lines.
func (p *rowPrinter) setLine(r view.Row, e *format.TraceEntry) (more []string) {
	p.B = p.B[:0]
	p.Begin(0)
	if p.Done {
		if t, ok := p.ended(r, e); ok {
			p.Text(show.Dim, p.time.format(t, p.first))
		}
		return p.Row(r, e)
	}
	p.Text(show.Dim, p.timeOf(r))
	if len(p.v.Services()) > 1 {
		p.Word(show.Green, show.Safe(p.v.Service(r)))
	}
	return p.Row(r, e)
}

// ended returns the time at which row r, whose entry is e, became complete. It returns false if that is not known.
func (p *rowPrinter) ended(r view.Row, e *format.TraceEntry) (time.Time, bool) {
	t, ok := p.v.Time(r)
	if !ok && p.v.Role(r) == view.RoleSpan { // the start is not known: the stored duration is the time since 1970
		v, _ := e.Attribute(format.AttrDuration)
		n, _ := v.U64()
		return time.Unix(0, int64(clampDuration(n))), n > 0
	}
	took, _ := p.v.Duration(r)
	return t.Add(took), ok
}

// entryOf returns the entry of a row in a section. If it cannot be read, p.unread is the error.
func (p *rowPrinter) entryOf(r view.Row) *format.TraceEntry {
	e, err := p.Read.Entry(r)
	if err != nil {
		p.unread = err
		return new(format.TraceEntry)
	}
	return e
}

// text returns the line of row r.
func (p *rowPrinter) text(r view.Row) string {
	p.setLine(r, p.entryOf(r))
	return string(p.B)
}

// name returns the name of row r in the form FILE#ID.
func (s *selected) name(r view.Row) string {
	file, id := s.v.ID(r)
	return s.Name(file) + "#" + strconv.FormatUint(uint64(id), 10)
}

// tree prints the rows below the root in the order of the tree. The parameter most is the maximum depth, or 0 for
// all depths.
func (p *rowPrinter) tree(ctx context.Context, only view.Set[view.Row], most int) error {
	n := 0
	return p.v.Walk(0, func(r view.Row, depth int, _ bool) error {
		switch {
		case r == 0:
			return nil
		case most > 0 && depth > most || only != nil && !only.Has(r):
			return view.SkipChildren
		}
		n++
		if n%linesAtOnce == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return p.print(r)
	})
}

// all prints rows.
func (p *rowPrinter) all(rows []view.Row) error {
	for _, r := range rows {
		if err := p.print(r); err != nil {
			return err
		}
	}
	return nil
}
