package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/query"
)

func fieldsCommand() *command {
	o := &statsOptions{rowFlags: rowFlags{time: timeLocal, selection: selection{tables: true}}, changed: func(string) bool { return false }}
	return &command{
		use:   "fields FILE|DIR... [KEY]",
		short: "List the fields that a query can name, or the values of one",
		long: `fields lists the fields that rows of a trace have, as a query needs them, or the values of one field.

  entrace fields app.et            names, kinds, rows and the most frequent values
  entrace fields app.et .user      each value of .user, with the number of rows

The last argument is a KEY if no file has that name. docs/query.md has the fields that every trace can have.`,
		flags: func(flags *pflag.FlagSet) {
			o.addTimes(flags)
			o.addPrint(flags)
		},
		newest:   true,
		complete: completeTraces,
		run: func(ctx context.Context, c *console, args []string) error {
			last := args[len(args)-1]
			if _, err := os.Stat(format.Find(last)); err != nil && len(args) > 1 {
				o.query = valuesQuery(last)
				return o.run(ctx, c, args[:len(args)-1])
			}
			return printFields(ctx, c, args, &o.rowFlags)
		},
	}
}

// mostValues is how many values of a field are printed.
const mostValues = 3

// valuesQuery returns a query that counts the values of a field.
func valuesQuery(key string) string { return "{} | values(" + key + ") | sort(count desc)" }

// commonFields are the fields other than attributes that printFields prints: they have few values.
var commonFields = []string{"kind", "level", "name", "service", "status", "target"}

func printFields(ctx context.Context, c *console, names []string, o *rowFlags) error {
	l, err := openRows(ctx, c, names, o)
	if err != nil {
		return err
	}
	defer l.Close()
	_, list, err := query.Complete(ctx, l.v, "{ ")
	if err != nil {
		return err
	}
	t := &query.Table{Columns: []string{"field", "kind", "rows", "values", "most frequent"}}
	for _, f := range list {
		if f.Kind != "attribute" && !slices.Contains(commonFields, f.Text) {
			continue
		}
		q, err := query.Parse(valuesQuery(f.Text))
		if err != nil {
			return err
		}
		found, err := q.Run(ctx, l.v, l.between)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Text, err)
		}
		kind, rows := "", int64(0)
		var most []string
		for i, line := range found.Table.Lines {
			n, _ := line[1].Any().(int64)
			rows += n
			if i < mostValues {
				most = append(most, fmt.Sprint(show.Short(line[0].Literal(), 40), " ", n))
			}
			if of := fmt.Sprintf("%T", line[0].Any()); !strings.Contains(kind, of) {
				kind = strings.TrimSpace(kind + " " + of)
			}
		}
		if rows > 0 {
			text := func(s string) query.Value { return query.ValueOf(format.StringValue(s)) }
			number := func(n int64) query.Value { return query.ValueOf(format.I64Value(n)) }
			t.Lines = append(t.Lines, []query.Value{text(f.Text), text(kind), number(rows), number(int64(len(found.Table.Lines))), text(strings.Join(most, ", "))})
		}
	}
	w := bufio.NewWriter(c.out)
	if o.json {
		err = tableJSON(w, t)
	} else {
		printSections(w, tableSection(t, o.time))
	}
	return errors.Join(err, w.Flush(), l.Damage())
}
