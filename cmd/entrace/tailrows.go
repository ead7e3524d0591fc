package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"math"
	"os"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/readmark"
	"github.com/entrace-go/entrace/internal/read/tail"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// A tailer prints the last rows of a trace, and then the rows that become complete in it. A span is printed when it has
// ended.
//
// It has a view of the whole trace if it needs one. Otherwise it makes small traces, of the last entries of the file
// and of the entries that follow, and prints the rows of these traces.
type tailer struct {
	*console

	o     tailOptions
	name  string    // of the file
	first time.Time // the time of the first row of the first file; before it is known, zero

	// The part of the file that the method open has read.
	size    int64
	entries uint32             // if the number is not known, a larger one
	newest  *format.TraceEntry // the last entry; empty if there is none
	isET    bool               // nothing is added to the file
	died    bool               // entries came from the journal of a dead program

	part   *tail.Part         // the end of the file; nil if all has the whole file
	all    *selected          // nil if the file was not read as a whole
	shown  view.Set[view.Row] // the rows of all that were printed
	window *tail.Window       // of the entries that follow
	file   *format.File       // opened to find the beginnings of spans

	// These fields are used for a file that grows.
	follower *format.Follower // nil for an ET, to which nothing is added
	named    *os.File         // had the name before the file was read; while it is open, no other file has its identity
	was      os.FileInfo      // of named
	lock     osfile.LockState // before the file was read
	rotated  bool             // the last entry says that another file follows
	end      readmark.Mark    // the last entry, if it marks a clean end
}

func newTailer(c *console, name string, o tailOptions) *tailer {
	return &tailer{console: c, o: o, name: name}
}

// open reads the last entries of a large file in one of ENTRACE's own formats. It reads any other file completely.
func (t *tailer) open(ctx context.Context, own bool) (err error) {
	if own {
		t.name = format.Find(t.name)
	}
	if own && t.o.lines >= 0 && t.o.time != timeOffset && t.fitted == nil && !t.o.asRows() {
		t.part = tail.Open(t.name, t.o.lines)
	}
	if t.part != nil {
		// The number of entries is not known, so the offset of the end is their upper bound: an entry has more than
		// one byte. So every id of a parent is below the bound, and no valid parent is rejected.
		t.size, t.entries = t.part.End, uint32(min(t.part.End, math.MaxUint32/2))
		t.isET, t.died = t.part.IsET, false
		t.newest, err = t.part.Entry(t.part.Len() - 1)
		return err
	}
	return t.openAll(ctx)
}

// openAll reads the whole file.
func (t *tailer) openAll(ctx context.Context) (err error) {
	t.o.follows = t.o.follow
	t.all, err = openRows(ctx, t.console, []string{t.name}, &t.o.rowFlags)
	if err != nil {
		return err
	}
	f := t.all.v.Files()[0]
	t.name, t.shown = f.Name(), t.all.v.NewSet()
	if t.first.IsZero() {
		t.first = t.all.first()
	}
	t.size, t.entries, t.newest, t.isET = f.WholeSize(), uint32(f.Len()), new(format.TraceEntry), f.Format() == format.ET
	n, _ := f.Journal()
	t.died = n > 0
	if t.entries > 0 {
		t.newest, err = f.Entry(t.entries - 1)
	}
	return err
}

// begin prints the last lines of the entries that the file has.
func (t *tailer) begin(ctx context.Context) error {
	if t.part != nil {
		t.window = t.part.Window(t.beginning)
		return t.printWindow(ctx)
	}
	return t.showAll(ctx)
}

// add adds the entry e that the follower has returned. printNew prints its row.
func (t *tailer) add(e *format.TraceEntry) {
	if t.o.asRows() {
		return
	}
	if t.window == nil {
		t.window = tail.NewWindow(t.follower.Version(), t.beginning)
	}
	t.window.Add(t.follower.Raw(), e)
}

// printNew prints the rows that the added entries make complete.
func (t *tailer) printNew(ctx context.Context) error {
	if t.o.asRows() {
		return t.grow(ctx)
	}
	return t.printWindow(ctx)
}

// beginning returns the encoding of the entry that began the span that end ends.
func (t *tailer) beginning(end *format.TraceEntry) []byte {
	if t.all != nil {
		return tail.BeginningIn(t.all.v.Files()[0], end)
	}
	if t.file == nil {
		var err error
		t.file, err = recorder.Open(t.name, &format.OpenOptions{Lenient: true})
		if err != nil {
			return nil
		}
	}
	return tail.BeginningIn(t.file, end)
}

// printWindow prints the complete rows of t.window that were not printed yet.
func (t *tailer) printWindow(ctx context.Context) error {
	if t.window == nil {
		return nil
	}
	v, rows, err := t.window.View(ctx)
	if err != nil {
		return err
	}
	return t.print(ctx, &selected{v: v, w: bufio.NewWriter(t.out)}, rows)
}

// showAll prints the complete rows of the whole trace that were not printed yet, in the order in which they ended.
func (t *tailer) showAll(ctx context.Context) error {
	v := t.all.v
	var list []happened
	for r := range t.all.result.Rows.All() {
		took, ended := v.Duration(r)
		span := v.Role(r) == view.RoleSpan
		if t.shown.Has(r) || span && !ended {
			continue
		}
		t.shown.Add(r)
		at, _ := v.Start(r)
		list = append(list, happened{r, at + int64(took), span})
	}
	slices.SortFunc(list, happened.compare)
	rows := make([]view.Row, len(list))
	for i, h := range list {
		rows[i] = h.row
	}
	if left := t.o.lines; left >= 0 {
		from, read := len(rows), v.NewReader()
		for ; from > 0 && left > 0; from-- {
			e, err := read.Entry(rows[from-1])
			if err != nil {
				return err
			}
			if t.o.json || tail.IsLine(e) {
				left--
			}
		}
		rows = rows[from:]
	}
	t.o.lines = -1 // from now on, all rows are new, also the rows of later files
	return t.print(ctx, t.all, rows)
}

// grow prints the new rows of the whole trace.
func (t *tailer) grow(ctx context.Context) error {
	v, err := t.all.v.Extend(ctx)
	if err != nil || v == t.all.v {
		return err
	}
	t.all.v = v
	t.shown = append(t.shown, v.NewSet()[len(t.shown):]...)
	if err := t.all.run(ctx, &t.o.rowFlags); err != nil {
		return err
	}
	return t.showAll(ctx)
}

// print prints the log records, events and ended spans among the rows. With --json, it prints all rows.
func (t *tailer) print(ctx context.Context, l *selected, rows []view.Row) error {
	p := newRowPrinter(t.console, l, &t.o.rowFlags)
	p.Done, p.Width = true, 0
	if t.fitted != nil {
		if !t.o.json {
			rows = slices.DeleteFunc(rows, func(r view.Row) bool { return !tail.IsLine(p.entryOf(r)) })
		}
		p.first = t.first
		return errors.Join(p.all(ctx, rows, inList), l.w.Flush())
	}
	for i, r := range rows {
		if i%linesAtOnce == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		e, err := p.Read.Entry(r)
		if err != nil {
			return err
		}
		if !t.o.json && !tail.IsLine(e) {
			continue
		}
		if at, timed := p.ended(r, e); timed && t.first.IsZero() {
			t.first = at
		}
		p.first = t.first
		if err := p.printEntry(r, e); err != nil {
			return err
		}
	}
	return l.w.Flush()
}

func (t *tailer) damage() error {
	if t.all == nil {
		return nil
	}
	return t.all.Damage()
}

// close closes the file. Then t can open the next one.
func (t *tailer) close() {
	if t.all != nil {
		_ = t.all.Close() // nothing was written to it
	}
	if t.file != nil {
		_ = t.file.Close() // as above
	}
	if t.follower != nil {
		_ = t.follower.Close() // as above
	}
	if t.named != nil {
		_ = t.named.Close() // as above
	}
	t.part, t.all, t.window, t.file, t.follower, t.named = nil, nil, nil, nil, nil, nil
}

// A happened is a complete row, which can therefore be printed. For a span, at is the time of its end.
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
