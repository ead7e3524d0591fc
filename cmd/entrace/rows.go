package main

import (
	"context"
	"strconv"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text"
	"github.com/entrace-go/entrace/view"
)

// A rowPrinter prints one line for each row, in the form that tree prints.
type rowPrinter struct {
	printer

	json   bool
	spoken bool // only the attributes of conversations with models

	names  text.Names // of the attributes of a row
	unread error      // why a row of a section could not be read
}

func newRowPrinter(c *console, l *selected, o *rowFlags) *rowPrinter {
	p := &rowPrinter{printer: newPrinter(c, l, o.time), json: o.json}
	p.Flat = true
	p.first = l.first()
	return p
}

func (p *rowPrinter) print(r view.Row) error {
	if fold, is := p.folds[r]; is {
		_, err := p.l.w.Write(fold)
		return err
	}
	e, err := p.Read.Entry(r)
	if err != nil {
		return err
	}
	return p.printEntry(r, e)
}

// printEntry prints row r, whose entry is e.
func (p *rowPrinter) printEntry(r view.Row, e *format.TraceEntry) error {
	p.setLines(r, e)
	_, err := p.l.w.Write(p.B)
	return err
}

// setLines sets p.B to the lines of row r, or to its JSON.
func (p *rowPrinter) setLines(r view.Row, e *format.TraceEntry) {
	if p.spoken {
		e.Attributes = analyze.Spoken(e)
	}
	p.shorten(e)
	if p.json {
		p.B = p.appendJSON(p.B[:0], r, e)
		return
	}
	more := p.setLine(r, e)
	p.B = append(p.B, '\n')
	for _, text := range more {
		p.below("    ", text)
	}
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
	return p.link(strconv.Itoa(int(r))) + string(p.B)
}

// name returns the name of row r in the form FILE#ID.
func (s *selected) name(r view.Row) string {
	file, id := s.v.ID(r)
	return s.Name(file) + "#" + strconv.FormatUint(uint64(id), 10)
}

// tree prints the rows below the root in the order of the tree. The parameter most is the maximum depth, or 0 for
// all depths.
func (p *rowPrinter) tree(ctx context.Context, only view.Set[view.Row], most int) error {
	p.only = only
	return p.all(ctx, p.rowsFrom(p.v.Children(0), most), p.above)
}

// all prints rows. If there is a budget, it keeps the rows above a row that it keeps; up returns them.
func (p *rowPrinter) all(ctx context.Context, rows []view.Row, up func(r view.Row) (view.Row, bool)) error {
	kept := view.Set[view.Row](nil)
	if p.fitted != nil {
		kept = p.fitRows(rows, up, func(r view.Row) int {
			p.setLines(r, p.entryOf(r))
			return p.fitted.Size(p.B)
		})
	}
	for i, r := range rows {
		if kept != nil && !kept.Has(r) {
			continue
		}
		if i%linesAtOnce == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := p.print(r); err != nil {
			return err
		}
	}
	return nil
}
