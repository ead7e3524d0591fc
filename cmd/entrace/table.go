package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/text/jsontext"
	"github.com/entrace-go/entrace/query"
)

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

// tableSection returns a table in columns. Columns of numbers are aligned to the right. Only the texts of one line are
// in memory.
func tableSection(t *query.Table, style timeStyle) section {
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
	return section{sides: string(sides), lines: func(yield func(line []string) bool) {
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
	}}
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
