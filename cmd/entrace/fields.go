package main

import (
	"context"
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
	o := &rowFlags{time: timeLocal, selection: selection{tables: true}}
	return &command{
		use:   "fields FILE|DIR... [KEY]",
		short: "List the fields that a query can name, or the values of one",
		long: `fields lists the fields of rows, as you write them in a query, or the values of one field.

  entrace fields app.et            names, kinds, rows and the most frequent values
  entrace fields app.et .user      each value of .user, with the number of rows

The last argument is a KEY if no file has that name. docs/query.md lists the fields that every trace can have.`,
		flags: func(flags *pflag.FlagSet) {
			o.addTimes(flags)
			redactFlag(flags, &o.redact, redactRead)
			o.addPrint(flags)
		},
		newest: true,
		fits:   true,
		run: func(ctx context.Context, c *console, args []string) error {
			n := len(args) - 1
			if _, err := os.Stat(format.Find(args[n])); err != nil && n > 0 {
				o.query = valuesQuery(args[n])
				args = args[:n]
			}
			l, err := openRows(ctx, c, args, o)
			if err != nil {
				return err
			}
			defer l.Close()
			t := l.result.Table
			if t == nil {
				t, err = fieldsOf(ctx, l)
				if err != nil {
					return err
				}
			}
			if o.json {
				err = tableJSON(l.w, t)
			} else {
				printSections(l.w, tableSection(t, o.time))
			}
			return l.finish(err)
		},
	}
}

// valuesQuery returns a query that counts the values of a field.
func valuesQuery(key string) string { return "{} | values(" + key + ") | sort(count desc)" }

// commonFields are the fields other than attributes that fieldsOf lists: they have few values.
var commonFields = []string{"kind", "level", "name", "service", "status", "target"}

// mostValues is how many values of a field are printed.
const mostValues = 3

// fieldsOf returns a table of the fields that rows of a trace have.
func fieldsOf(ctx context.Context, l *selected) (*query.Table, error) {
	t := &query.Table{Columns: []string{"field", "kind", "rows", "values", "most frequent"}}
	_, list, err := query.Complete(ctx, l.v, "{ ")
	for _, f := range list {
		if f.Kind != "attribute" && !slices.Contains(commonFields, f.Text) {
			continue
		}
		q, perr := query.Parse(valuesQuery(f.Text))
		if perr != nil {
			return nil, perr
		}
		found, err := q.Run(ctx, l.v, l.between)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Text, err)
		}
		values := found.Table.Lines
		if len(values) == 0 {
			continue
		}
		rows, most := int64(0), []string{}
		for i, line := range values {
			n, _ := line[1].Any().(int64)
			rows += n
			if i < mostValues {
				most = append(most, fmt.Sprint(show.Short(line[0].Literal(), 40), " ", n))
			}
		}
		line := []query.Value{}
		for _, cell := range []format.Value{
			format.StringValue(f.Text), format.StringValue(fmt.Sprintf("%T", values[0][0].Any())),
			format.I64Value(rows), format.I64Value(int64(len(values))), format.StringValue(strings.Join(most, ", ")),
		} {
			line = append(line, query.ValueOf(cell))
		}
		t.Lines = append(t.Lines, line)
	}
	return t, err
}
