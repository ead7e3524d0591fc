package viewer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A table holds the columns and the unsorted lines of a table about the rows in a window.
type table struct {
	Columns []column
	lines   []tableLine
	hints   []query.Hint
}

// A column of a table.
type column struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // text, number, duration or time
}

// A tableLine is a line of a table.
type tableLine struct {
	values []query.Value
	where  string   // a query that selects the rows of the line; may be empty
	row    view.Row // only in a table of rows
	spark  []uint32 // the number of the line's rows that begin in each part of the time
}

const (
	maxLines   = 500 // in one answer
	sparkBins  = 24
	maxSparked = 300 // only tables with at most this number of lines have small charts
)

// table answers with a part of a table. The parameters are:
//   - form selects the table. form=rows lists the rows that the query selects, form=logs the log records among them,
//     form=calls the calls between services, and form=compare the differences from the spans of the other side.
//     Without form, the table is the table that the query computes, or a summary of the selected spans by service
//     and name.
//   - level is the lowest level of the records of form=logs.
//   - sort is the number of a column, from 1 on: the largest values come first. If sort is negative, the smallest
//     values come first. If there is no such column, the lines are not sorted.
//   - csv requests all lines as CSV (RFC 4180).
func (q *request) table(ctx context.Context) (any, error) {
	w, first, n := q.window(), q.number("first", 0, 1<<30), q.number("n", 100, maxLines+1)
	by, err := strconv.Atoi(cmp.Or(q.Get("sort"), "0"))
	if err != nil {
		q.fail("parameter \"sort\" must be the number of a column")
	}
	if q.err != nil {
		return nil, q.err
	}
	text, form := q.Get("q"), q.Get("form")
	if form == "rows" || form == "logs" {
		return q.rowTable(ctx, form, by, first, n)
	}
	t, err := remember(&q.results, "table", fmt.Sprintf("%s %v %q %s", form, w, text, q.Get("than")), func() (*table, error) {
		switch form {
		case "":
			return q.queryTable(ctx, text, w)
		case "calls":
			return q.callTable(ctx)
		case "compare":
			return q.compareTable(ctx)
		}
		return nil, badRequest("parameter \"form\" must be rows, logs, calls or compare")
	})
	if err != nil {
		return nil, err
	}
	lines := t.lines
	if at := max(by, -by) - 1; at >= 0 && at < len(t.Columns) { // the query may have had more columns before
		lines = slices.Clone(lines)
		slices.SortStableFunc(lines, func(a, b tableLine) int { return order(a.values[at], b.values[at], by > 0) })
	}
	total := len(lines)
	if q.Has("csv") {
		return csvOf(t.Columns, lines), nil
	}
	lines = lines[min(first, total):min(first+n, total)]
	return partOf(t, lines, total), nil
}

// A tablePart is a part of a table in an answer.
type tablePart struct {
	Columns []column     `json:"columns"`
	Lines   []partLine   `json:"lines"`
	Total   int          `json:"total"`
	Hints   []query.Hint `json:"hints"`
}

type partLine struct {
	Values []any     `json:"values"` // whole numbers are encoded as strings
	Where  string    `json:"where,omitempty"`
	Row    rowNumber `json:"row,omitempty"`
	Spark  []uint32  `json:"spark,omitempty"`
}

func partOf(t *table, lines []tableLine, total int) *tablePart {
	out := &tablePart{t.Columns, []partLine{}, total, append([]query.Hint{}, t.hints...)}
	for _, l := range lines {
		values := make([]any, len(l.values))
		for i, v := range l.values {
			values[i] = t.Columns[i].cell(v)
			if s, ok := values[i].(string); ok {
				values[i] = preview(s)
			}
		}
		out.Lines = append(out.Lines, partLine{values, l.where, rowNumber(l.row), l.spark})
	}
	return out
}

// order compares two values of a column. A missing value sorts last in both directions.
func order(a, b query.Value, largestFirst bool) int {
	n := query.Compare(a, b)
	if largestFirst && a.Any() != nil && b.Any() != nil {
		return -n
	}
	return n
}

// csvOf returns a table as CSV. Durations and times are in nanoseconds. All texts are quoted, because spreadsheets
// disagree about the characters that end a field.
func csvOf(columns []column, lines []tableLine) []byte {
	var b []byte
	text := func(s string) { b = append(append(append(b, '"'), strings.ReplaceAll(harmless(s), `"`, `""`)...), '"') }
	for i, c := range columns {
		if i > 0 {
			b = append(b, ',')
		}
		name := c.Name
		if c.Kind == "duration" || c.Kind == "time" {
			name += " (ns)"
		}
		text(name)
	}
	b = append(b, "\r\n"...)
	for _, l := range lines {
		for i, v := range l.values {
			if i > 0 {
				b = append(b, ',')
			}
			switch x := columns[i].cell(v).(type) {
			case float64:
				b = strconv.AppendFloat(b, x, 'g', -1, 64)
			case string:
				if columns[i].Kind == "text" {
					text(x)
				} else {
					b = append(b, x...)
				}
			}
		}
		b = append(b, "\r\n"...)
	}
	return b
}

// harmless changes a text that a spreadsheet would execute as a formula.
func harmless(s string) string {
	if s != "" && strings.IndexByte("=+-@\t\r", s[0]) >= 0 {
		return "'" + s
	}
	return s
}

// queryTable returns the table that a query computes, or a summary of the spans that it selects.
func (s *state) queryTable(ctx context.Context, text string, w window) (*table, error) {
	q, err := query.Parse(text)
	if err != nil {
		return nil, err
	}
	r, err := q.Run(ctx, s.v, w.options())
	if err != nil {
		return nil, err
	}
	from := r.Table
	summary := from == nil
	if summary {
		from, err = query.Summary(ctx, s.v, r.Rows, w.options())
		if err == nil {
			err = from.Sort("total")
		}
		if err != nil {
			return nil, err
		}
	}
	t := tableOf(from)
	t.hints = r.Hints
	for i := range t.lines {
		t.lines[i].where = from.Where(from.Lines[i])
		if summary {
			t.lines[i].where = "{ entry:role = span && " + t.lines[i].where + " }"
		}
	}
	return t, s.addSparks(ctx, t, r.Rows, from, w)
}

// tableOf returns the columns and values of a table.
func tableOf(from *query.Table) *table {
	t := new(table)
	for _, c := range from.Columns {
		t.Columns = append(t.Columns, column{c, "text"})
	}
	kinds := make([][]string, len(t.Columns))
	for _, l := range from.Lines {
		for i, v := range l {
			if x, kind := cell(v); x != nil {
				kinds[i] = append(kinds[i], kind)
			}
		}
		t.lines = append(t.lines, tableLine{values: slices.Clone(l)})
	}
	for i, all := range kinds { // a column with values of several kinds becomes a column of texts
		all = slices.Compact(all)
		if len(all) == 1 {
			t.Columns[i].Kind = all[0]
		}
	}
	return t
}

// cell returns a value in the form for answers, and its kind. A whole number becomes a string, because a JavaScript
// number cannot hold all whole numbers.
func cell(v query.Value) (x any, kind string) {
	switch x := v.Any().(type) {
	case nil:
		return nil, "text"
	case int64, uint64:
		return v.String(), "number"
	case float64:
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			return x, "number"
		}
	case time.Duration:
		return strconv.FormatInt(int64(x), 10), "duration"
	case time.Time:
		return strconv.FormatInt(x.UnixNano(), 10), "time"
	}
	return v.String(), "text"
}

// cell returns a value in the form for answers. In a column of texts, the value becomes a text.
func (c *column) cell(v query.Value) any {
	x, _ := cell(v)
	if x != nil && c.Kind == "text" {
		return v.String()
	}
	return x
}

func textValue(s string) query.Value { return query.ValueOf(format.StringValue(s)) }

func intValue[N int | int64](n N) query.Value { return query.ValueOf(format.I64Value(int64(n))) }

// addSparks adds to each line the distribution of its rows over time.
func (s *state) addSparks(ctx context.Context, t *table, rows view.Set[view.Row], from *query.Table, w window) error {
	if len(t.lines) > maxSparked {
		return nil
	}
	x := s.extent(0, w)
	counts, err := from.Spread(ctx, s.v, rows, x.from, (x.to-x.from)/sparkBins+1, sparkBins)
	if _, tooMany := errors.AsType[*query.Error](err); tooMany {
		return nil // the table has no charts if this query fails
	}
	if err != nil {
		return err
	}
	for i := range t.lines {
		t.lines[i].spark = counts[from.Where(from.Lines[i])]
	}
	return nil
}

// callTable returns a table of the calls between services.
func (q *request) callTable(ctx context.Context) (*table, error) {
	f, err := q.selected(ctx, q.Get("q"))
	if err != nil {
		return nil, err
	}
	v := q.v
	calls := v.NewSet()
	for r := range f.rows.All() {
		if up := v.Parent(r); v.Role(r) == view.RoleSpan && v.Role(up) == view.RoleSpan && v.Service(up) != v.Service(r) {
			calls.Add(r)
		}
	}
	from, err := query.Groups(ctx, v, calls, "parent:service, service", .5, .95, .99)
	if err != nil {
		return nil, err
	}
	from.Columns = []string{"caller", "callee", "count", "errors", "p50", "p95", "p99"}
	err = from.Sort("count")
	t := tableOf(from)
	for i := range t.lines {
		l := &t.lines[i]
		caller, _ := l.values[0].Any().(string)
		callee, _ := l.values[1].Any().(string)
		l.values[0], l.values[1] = textValue(caller), textValue(callee)
		l.where = "{ entry:role = span && " + query.Where("service", caller) + " } > { entry:role = span && " + query.Where("service", callee) + " }"
	}
	return t, err
}

// compareTable returns a table of the differences between the spans that a query selects and the spans of the
// other side. Each line is a path as analyze.Compare defines it.
func (q *request) compareTable(ctx context.Context) (*table, error) {
	f, err := q.selected(ctx, q.Get("q"))
	if err != nil {
		return nil, err
	}
	than, err := q.side(ctx)
	if err != nil {
		return nil, err
	}
	if than == nil {
		return nil, badRequest("the page has no second trace to compare with")
	}
	d, err := analyze.Compare(ctx, []query.Run{than.run()}, []query.Run{q.run(f.rows)})
	if err != nil {
		return nil, err
	}
	t := &table{Columns: []column{
		{"service", "text"},
		{"path", "text"},
		{"significant", "text"},
		{"p95 %", "number"},
		{"p95", "duration"},
		{"other p95", "duration"},
		{"p50", "duration"},
		{"other p50", "duration"},
		{"count", "number"},
		{"other count", "number"},
		{"errors", "number"},
		{"other errors", "number"},
		{"self", "duration"},
		{"other self", "duration"},
	}}
	for _, p := range d.Paths {
		last := p.Path[len(p.Path)-1]
		var names, marks []string
		for _, step := range p.Path {
			names = append(names, step.Name)
		}
		change, significant := p.Change()
		var percent query.Value
		if !math.IsInf(change, 0) && p.Before.Count > 0 && p.After.Count > 0 {
			percent = query.ValueOf(format.FloatValue(math.Round(1000*change) / 10))
		}
		if significant && change != 0 {
			marks = append(marks, map[bool]string{true: "slower", false: "faster"}[change > 0])
		}
		if is, sure := p.IsNew(); is && sure {
			marks = append(marks, "new")
		}
		if p.ErrorsP <= d.Level {
			marks = append(marks, "errors")
		}
		took := func(n int64, of analyze.PathStats) query.Value {
			if of.Count == 0 {
				return query.Value{}
			}
			return intValue(n)
		}
		t.lines = append(t.lines, tableLine{
			values: []query.Value{
				textValue(last.Service), textValue(strings.Join(names, " › ")), textValue(strings.Join(marks, ", ")), percent, took(p.After.P95, p.After), took(p.Before.P95, p.Before), took(p.After.P50, p.After), took(p.Before.P50, p.Before),
				intValue(p.After.Count), intValue(p.Before.Count), intValue(p.After.Errors), intValue(p.Before.Errors), took(p.After.Self, p.After), took(p.Before.Self, p.Before),
			},
			where: "{ entry:role = span && " + query.Where("service", last.Service) + " && " + query.Where("name", last.Name) + " }",
		})
	}
	return t, nil
}

// rowColumns are the columns of a table of rows.
var rowColumns = []column{{"time", "time"}, {"service", "text"}, {"name", "text"}, {"duration", "duration"}, {"self", "duration"}, {"status", "text"}, {"attributes", "text"}}

// logColumns are the columns of a table of log records. The span is the one to which the record belongs.
var logColumns = []column{{"time", "time"}, {"level", "text"}, {"service", "text"}, {"text", "text"}, {"span", "text"}, {"attributes", "text"}}

// logs returns the log records that a query selects. If it selects none, logs returns the records below the rows that
// it selects.
func (q *request) logs(ctx context.Context, text string) (*found, error) {
	text = cmp.Or(text, "{}")
	logs := "{ kind = log && level >= " + cmp.Or(q.Get("level"), "trace") + " }"
	f, err := q.selected(ctx, text+" | "+logs)
	if err != nil || f.ranks().n > 0 {
		return f, err
	}
	return q.selected(ctx, "("+text+") >> "+logs)
}

// rowTable answers with the rows of form=rows or form=logs, sorted by a column. Without a column, the rows are sorted by
// time, the newest first. It decodes only the rows of the answer.
func (q *request) rowTable(ctx context.Context, form string, by, first, n int) (any, error) {
	selected, columns := q.selected, rowColumns
	if form == "logs" {
		selected, columns = q.logs, logColumns
	}
	f, err := selected(ctx, q.Get("q"))
	if err != nil {
		return nil, err
	}
	at := max(by, -by) - 1
	if at < 0 || at >= len(columns)-1 {
		at, by = 0, 1
	}
	const mostCSV = 100_000
	asCSV := q.Has("csv")
	if asCSV {
		first, n = 0, mostCSV
	}
	if first+n > mostCSV {
		return nil, badRequest("only the first " + strconv.Itoa(mostCSV) + " lines are sorted")
	}
	list, err := q.firstRows(ctx, f.ranks(), columns[at].Name, by > 0, first+n)
	if err != nil {
		return nil, err
	}
	t := &table{Columns: columns, hints: f.hints}
	read, ranker := q.v.NewReader(), interest.NewRanker(q.v)
	var lines []tableLine
	for _, r := range list[min(first, len(list)):] {
		e, err := read.Entry(r)
		if err != nil {
			return nil, err
		}
		l := tableLine{row: r}
		for _, c := range columns[:len(columns)-1] {
			l.values = append(l.values, q.valueAt(r, c.Name))
		}
		l.values = append(l.values, textValue(strings.Clone(attributesText(ranker.Attributes(r, e)))))
		lines = append(lines, l)
	}
	if asCSV {
		return csvOf(t.Columns, lines), nil
	}
	return partOf(t, lines, f.ranks().n), nil
}

// valueAt returns the value of a row in a column of rowColumns or logColumns.
func (s *state) valueAt(r view.Row, column string) query.Value {
	v := s.v
	switch column {
	case "time":
		if start, timed := v.Start(r); timed {
			return intValue(start)
		}
	case "service":
		if name := v.Service(r); name != "" {
			return textValue(name)
		}
	case "name", "text":
		return textValue(s.title(r))
	case "duration":
		if took, known := v.Lasted(r); known {
			return intValue(int64(took))
		}
	case "self":
		if self, ended := v.SelfTime(r); ended {
			return intValue(int64(self))
		}
	case "status":
		f := v.Flags(r)
		switch {
		case f.IsError():
			return textValue("error")
		case f.Open():
			return textValue("never ended")
		case f.Role() == view.RoleSpan:
			return textValue(f.Status())
		}
		return textValue(f.Severity().String())
	case "level":
		return textValue(v.Flags(r).Severity().String())
	case "span":
		if owner := v.Owner(r); owner != 0 {
			return textValue(v.Name(owner))
		}
	}
	return query.Value{}
}

// firstRows returns the first n rows of a set when it is sorted by a column.
func (s *state) firstRows(ctx context.Context, ranks *rankSet, column string, largestFirst bool, n int) ([]view.Row, error) {
	type keyed struct {
		row view.Row
		key query.Value
	}
	compare := func(a, b keyed) int {
		return cmp.Or(order(a.key, b.key, largestFirst), cmp.Compare(a.row, b.row))
	}
	var list []keyed
	sorted := false // the first n elements of list are the first rows so far, in order
	t, i := s.v.Tree(), 0
	for rank := range ranks.All() {
		i++
		if i%(1<<14) == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		x := keyed{t.Row(rank), s.valueAt(t.Row(rank), column)}
		if sorted && (n == 0 || compare(x, list[n-1]) > 0) {
			continue
		}
		list = append(list, x)
		if len(list) == 2*n+1000 {
			slices.SortFunc(list, compare)
			list, sorted = list[:n], true
		}
	}
	slices.SortFunc(list, compare)
	out := make([]view.Row, min(n, len(list)))
	for i := range out {
		out[i] = list[i].row
	}
	return out, nil
}
