package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/query"
)

type statsOptions struct {
	rowFlags

	sort           string
	csv, histogram bool
	every          time.Duration
	changed        func(flag string) bool // reports whether the command line has a flag
}

func statsCommand() *command {
	o := &statsOptions{rowFlags: rowFlags{time: timeLocal, selection: selection{tables: true}}}
	return &command{
		use:   "stats FILE|DIR...",
		short: "Count spans, and say how long they take",
		long: `stats counts spans and says how long they took, or prints the table that a query computes.

  entrace stats app.et                                            by service and name
  entrace stats app.et --sort p95                                 by a column of the table
  entrace stats app.et -q 'level = error | count() by(.user) | topk(5, count)'
  entrace stats app.et --every 1s -q 'kind = server'              when did it begin?
  entrace stats app.et --csv -q '{ duration > 1s } | select(start, name, duration, .user)'

The table has, for each service and name, how many spans there are, how many failed, how many began a second,
and quantiles of durations. self is the sum of the time in which no span directly below was open. docs/query.md
has the language.`,
		flags: func(flags *pflag.FlagSet) {
			o.changed = flags.Changed
			o.add(flags)
			o.addPrint(flags)
			flags.StringVar(&o.sort, "sort", "", "sort by this `COLUMN` of the table, such as count, p95 or self; the largest numbers first")
			flags.BoolVar(&o.csv, "csv", false, "print the table as CSV, times in nanoseconds")
			flags.DurationVar(&o.every, "every", 0, "print how many spans began in each `STEP`, such as 1s, and how long they took")
			flags.BoolVar(&o.histogram, "histogram", false, "print how long the spans took as bars")
		},
		newest:   true,
		complete: completeTraces,
		run:      o.run,
	}
}

func (o *statsOptions) run(ctx context.Context, c *console, names []string) error {
	switch {
	case o.changed("every") && o.every <= 0:
		return usagef("--every is %s: must be a duration above 0, such as 1s", o.every)
	case o.csv && o.json:
		return usagef("--csv and --json cannot be used together")
	case o.every > 0 && o.histogram:
		return usagef("--every and --histogram cannot be used together")
	}
	if o.histogram {
		o.query = strings.TrimSpace(o.query) + " | histogram(duration)"
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return err
	}
	defer l.Close()
	t := l.result.Table
	if t == nil {
		t, err = l.result.SelectedTable(ctx)
		if err != nil {
			return err
		}
	}
	switch {
	case t != nil && o.every > 0:
		return usagef("--every cannot be used with a query that computes a table")
	case o.every > 0:
		t, err = query.Series(ctx, l.v, l.result.Rows, o.every)
		if err != nil {
			return asUsage(err)
		}
	case t == nil:
		t, err = query.Summary(ctx, l.v, l.result.Rows, l.between)
		if err != nil {
			return err
		}
		if o.sort == "" {
			o.sort = "total"
		}
	}
	if o.sort != "" {
		if err := t.Sort(o.sort); err != nil {
			return &usageError{err}
		}
	}
	w := bufio.NewWriter(c.out)
	switch {
	case o.json:
		err = tableJSON(w, t)
	case o.csv:
		err = tableCSV(w, t, isTerminal(c.out))
	case o.histogram:
		err = bars(c, w, t, o.time)
	default:
		err = printTable(w, t, o.time)
	}
	return errors.Join(err, w.Flush(), l.Damage())
}

// cell returns the text of a value in a table. Times are printed in the zone of style.
func cell(v query.Value, style timeStyle) string {
	switch x := v.Any().(type) {
	case nil:
		return ""
	case time.Duration:
		return duration(x)
	case time.Time:
		return x.In(style.zone()).Format(time.RFC3339Nano)
	case float64:
		if a := math.Abs(x); a >= 1000 && a < 1e15 {
			return strconv.FormatFloat(x, 'f', 0, 64)
		}
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	return show.Safe(v.String())
}

// printTable prints a table in columns. Columns of numbers are aligned to the right. It keeps only the texts of one
// line in memory.
func printTable(w io.Writer, t *query.Table, style timeStyle) error {
	sides := []byte(strings.Repeat("l", len(t.Columns)))
	for _, line := range t.Lines {
		for i, v := range line {
			switch v.Any().(type) {
			case time.Duration, float64, int64, uint64:
				sides[i] = 'r'
			}
		}
	}
	texts := make([]string, len(t.Columns))
	return printColumns(w, func(yield func(line []string) bool) {
		for i, c := range t.Columns {
			texts[i] = show.Safe(c)
		}
		if !yield(texts) {
			return
		}
		for _, line := range t.Lines {
			for i, v := range line {
				texts[i] = cell(v, style)
				if text, ok := v.Any().(string); ok && sides[i] == 'r' { // a string in a column of numbers: quote it if it looks like a number
					if _, err := strconv.ParseFloat(text, 64); err == nil {
						texts[i] = strconv.Quote(texts[i])
					}
				}
			}
			if !yield(texts) {
				return
			}
		}
	}, string(sides))
}

// printColumns prints lines of texts in columns. sides has an r or an l for each column, for right or left
// alignment. The texts must be safe for a terminal. printColumns iterates over the lines twice.
func printColumns(w io.Writer, lines iter.Seq[[]string], sides string) error {
	width := make([]int, len(sides))
	for line := range lines {
		for i, s := range line {
			width[i] = max(width[i], utf8.RuneCountInString(plain(s)))
		}
	}
	var b bytes.Buffer
	for line := range lines {
		b.Reset()
		for i, s := range line {
			pad := width[i] - utf8.RuneCountInString(plain(s))
			if sides[i] == 'r' {
				writeSpaces(&b, pad)
				pad = 0
			}
			b.WriteString(s)
			if i < len(line)-1 {
				writeSpaces(&b, pad+2)
			}
		}
		b.WriteByte('\n')
		if _, err := w.Write(b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// columns prints lines of texts as printColumns does.
func (p *rowPrinter) columns(lines [][]string, sides string) error {
	return printColumns(p.w, slices.Values(lines), sides)
}

func writeSpaces(b *bytes.Buffer, n int) {
	for range n {
		b.WriteByte(' ')
	}
}

// maxBar is the maximum length of a bar.
const maxBar = 50

// bars prints a histogram as bars.
func bars(c *console, w io.Writer, t *query.Table, style timeStyle) error {
	most := int64(1)
	at := len(t.Columns) - 1
	count := func(line []query.Value) int64 { n, _ := line[at].Any().(int64); return n }
	for _, line := range t.Lines {
		most = max(most, count(line))
	}
	for _, line := range t.Lines {
		var keys []string
		for _, v := range line[:at-2] {
			keys = append(keys, cell(v, style))
		}
		from, to := cell(line[at-2], style), cell(line[at-1], style)
		n := count(line)
		bar := ""
		if n > 0 {
			bar = c.paint(show.Blue, strings.Repeat("█", int(max(1, n*maxBar/most)))) + " "
		}
		if _, err := fmt.Fprintf(w, "%sfrom %8s to %8s  %s%d\n", strings.Join(append(keys, ""), " "), from, to, bar, n); err != nil {
			return err
		}
	}
	return nil
}

// tableJSON prints a table as one JSON object per line.
func tableJSON(w io.Writer, t *query.Table) error {
	var b []byte
	for _, line := range t.Lines {
		b = append(appendLineJSON(b[:0], t.Columns, line), '\n')
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

func appendLineJSON(b []byte, columns []string, line []query.Value) []byte {
	b = append(b, '{')
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(jsontext.AppendSafeString(b, c), ':')
		switch x := line[i].Any().(type) {
		case nil:
			b = append(b, "null"...)
		case bool:
			b = strconv.AppendBool(b, x)
		case int64:
			b = strconv.AppendInt(b, x, 10)
		case time.Duration:
			b = strconv.AppendInt(b, int64(x), 10)
		case time.Time:
			b = strconv.AppendInt(b, x.UnixNano(), 10)
		case uint64:
			b = strconv.AppendUint(b, x, 10)
		case float64:
			b = jsontext.AppendNumber(b, x)
		default:
			b = jsontext.AppendSafeString(b, line[i].String())
		}
	}
	return append(b, '}')
}

// tableCSV prints a table as CSV. With onTerminal it escapes characters that would act on a terminal.
func tableCSV(w io.Writer, t *query.Table, onTerminal bool) error {
	out := csv.NewWriter(w)
	err := out.Write(t.Columns)
	for _, line := range t.Lines {
		texts := make([]string, len(line))
		for i, v := range line {
			switch x := v.Any().(type) {
			case nil:
			case time.Duration:
				texts[i] = strconv.FormatInt(int64(x), 10)
			case time.Time:
				texts[i] = strconv.FormatInt(x.UnixNano(), 10)
			default:
				texts[i] = fmt.Sprint(x)
			}
			if onTerminal {
				texts[i] = show.Safe(texts[i])
			}
		}
		err = errors.Join(err, out.Write(texts))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}
