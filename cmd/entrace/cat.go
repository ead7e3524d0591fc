package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/view"
)

func catCommand() *command {
	o, conversation := &rowFlags{time: timeLocal, selection: selection{alone: true}}, false
	return &command{
		use:   "cat FILE...",
		short: "Print the entries of a trace as they are stored, one per line",
		long: `cat prints the entries of a trace as they are stored, in the order of their ids.

  entrace cat app.et                            ID <PARENT TIME LEVEL NAME: MESSAGE [TARGET] ATTRIBUTE=VALUE…
  entrace cat --json app.et                     one object per line
  entrace cat -q 'level = error' app.et         the entries of the rows that a query selects
  entrace cat --conversation app.et             the messages between a program and its models

- is the standard input. With -q, --since or --until, cat prints the entries of the selected rows, and the
ends of selected spans. If a file is damaged, cat prints its intact entries, and exits with 1. In JSON, U64
and I64 are numbers of up to 64 bits; some programs, such as old versions of jq, round them.`,
		flags: func(flags *pflag.FlagSet) {
			o.add(flags)
			flags.BoolVar(&conversation, "conversation", false, "print the messages to and from generative models; for FILE#ID, also the messages below this row")
			redactFlag(flags, &o.redact, redactRead)
			flags.BoolVar(&o.json, "json", false, "print one JSON object for each entry")
		},
		newest: true,
		fits:   true,
		run: func(ctx context.Context, c *console, args []string) error {
			one := cat
			if conversation {
				o.alone, one = false, catConversation
			}
			return each(args, func(name string) error { return one(ctx, c, name, o) })
		},
	}
}

func cat(ctx context.Context, c *console, name string, o *rowFlags) error {
	own, err := inPlace(name, o.from)
	if err != nil {
		return err
	}
	_, row := rowNamed(name)
	if row || c.fitted != nil || o.selects() || len(o.clock) > 0 || o.from != "" || o.redact != "" || name != "-" && !own {
		return catSelected(ctx, c, name, o)
	}
	f, err := content(c, name)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := format.NewReader(f, nil)
	if err != nil {
		err = known(name, torn(name, err))
		if err != nil && name != "-" && !strings.Contains(err.Error(), name) {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return err
	}
	w := bufio.NewWriterSize(c.out, 64<<10)
	var line []byte
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return w.Flush()
		}
		if err != nil {
			err = torn(name, err)
			if err != nil && name != "-" {
				err = fmt.Errorf("%s: %w", name, err)
			}
			return errors.Join(w.Flush(), err)
		}
		line = appendLine(c, line[:0], r.ID(), e, o.json)
		if _, err := w.Write(line); err != nil {
			return err
		}
		if r.ID()%1024 == 0 && ctx.Err() != nil {
			return errors.Join(w.Flush(), ctx.Err())
		}
	}
}

// catSelected prints the entries that the flags select. The file can have any format.
func catSelected(ctx context.Context, c *console, name string, o *rowFlags) error {
	l, err := openRows(ctx, c, []string{name}, o)
	if err != nil {
		return err
	}
	defer l.Close()
	p := newPrinter(c, l, o.time)
	kept := view.Set[view.Row](nil)
	if c.fitted != nil {
		kept, err = p.fitEntries(ctx, o)
	}
	if err == nil {
		err = p.entries(ctx, o, func(r view.Row, line []byte) error {
			fold, folded := p.folds[r]
			switch {
			case fold != nil:
				p.folds[r] = nil // later entries of the row print nothing
				_, err := l.w.Write(fold)
				return err
			case folded, kept != nil && !kept.Has(r):
				return nil
			}
			_, err := l.w.Write(line)
			return err
		})
	}
	return l.finish(err)
}

// fitEntries returns the rows whose entries the budget keeps.
func (p *printer) fitEntries(ctx context.Context, o *rowFlags) (kept view.Set[view.Row], err error) {
	var rows []view.Row
	sizes := make(map[view.Row]int)
	p.stored = make(map[view.Row]int)
	err = p.entries(ctx, o, func(r view.Row, line []byte) error {
		if p.stored[r] == 0 {
			rows = append(rows, r)
		}
		p.stored[r]++
		sizes[r] += p.fitted.Size(line)
		return nil
	})
	return p.fitRows(rows, inList, func(r view.Row) int { return sizes[r] }), err
}

// catConversation prints the rows of conversations with models, with the attributes that belong to these.
func catConversation(ctx context.Context, c *console, name string, o *rowFlags) error {
	l, err := openRows(ctx, c, []string{name}, o)
	if err != nil {
		return err
	}
	defer l.Close()
	p := newRowPrinter(c, l, o)
	p.spoken = true
	var rows []view.Row
	for _, r := range l.rows() {
		if analyze.IsTurn(l.v, r, p.entryOf(r)) {
			rows = append(rows, r)
		}
	}
	return l.finish(errors.Join(p.unread, p.all(ctx, rows, inList)))
}

// entries calls fn with the line of each entry that the flags select, and the row of the entry.
func (p *printer) entries(ctx context.Context, o *rowFlags, fn func(r view.Row, line []byte) error) error {
	var line []byte
	for i, f := range p.v.Files() {
		entries := uint32(p.v.Entries(i))
		err := f.Walk(0, func(id uint32, e *format.TraceEntry) error {
			r, _ := p.v.Row(i, id)
			switch {
			case id >= entries:
				return io.EOF // the file has grown
			case id%1024 == 0 && ctx.Err() != nil:
				return ctx.Err()
			case o.selects() && !p.l.result.Rows.Has(r):
				return nil
			}
			if own, at := p.v.ID(r); own == i && at == id {
				p.v.Correct(r, e)
			}
			p.shorten(e)
			line = appendLine(p.console, line[:0], int64(id), e, o.json)
			return fn(r, line)
		})
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
	}
	return nil
}

// appendLine appends the line that cat and tail print for an entry.
func appendLine(c *console, b []byte, id int64, e *format.TraceEntry, asJSON bool) []byte {
	if asJSON {
		return append(entryjson.Append(b, id, e), '\n')
	}
	b = strconv.AppendInt(b, id, 10)
	b = strconv.AppendUint(append(b, " <"...), uint64(e.Parent), 10)
	b = append(b, ' ')
	if t, ok := e.Attribute(format.AttrTime); ok {
		b = append(appendTime(b, t), ' ')
	}
	b = append(append(b, c.level(e.Metadata.Level)...), ' ')
	b = append(b, c.paint(show.Bold, show.Safe(e.Metadata.Name))...)
	if e.Message.Valid {
		b = append(append(b, ": "...), show.Safe(e.Message.Value)...)
	}
	if e.Metadata.Target != "" {
		b = append(append(b, ' '), c.paint(show.Dim, "["+show.Safe(e.Metadata.Target)+"]")...)
	}
	for i := range e.Attributes {
		at := &e.Attributes[i]
		if at.Name == format.AttrTime {
			continue
		}
		b = append(append(b, ' '), c.paint(show.Dim, show.Safe(at.Name)+"=")...)
		b = show.AppendValue(b, at.Value)
	}
	return append(b, '\n')
}

func appendTime(b []byte, v format.Value) []byte {
	n, ok := v.I64()
	if !ok {
		return show.AppendValue(b, v)
	}
	return time.Unix(0, n).UTC().AppendFormat(b, "2006-01-02T15:04:05.000000000Z")
}
