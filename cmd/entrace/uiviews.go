package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// The views, in the order of their number keys. The last two views have no number key.
const (
	viewOverview = iota
	viewTree
	viewFlame
	viewTable
	viewLogs
	viewFacets
	viewDetails // of one row, with the critical path of its request
	viewKeys
)

var viewNames = [...]string{"Overview", "Tree", "Flame", "Table", "Logs", "Facets", "Details", "Keys"}

// formsOf has the forms in which a view can be shown.
var formsOf = [len(viewNames)][]string{
	viewFlame: {"by self time", "by number of spans", "bottom-up"},
	viewTable: {"by name", "rows", "calls", "compared"},
	viewLogs:  {"all levels", "info", "warn", "error"},
}

// panelOf computes the panel of a place for a part of the screen. It passes the panel to then,
// perhaps several times, with more lines each time. The panel's rows belong to the view that it
// passes with the panel.
func (u *ui) panelOf(ctx context.Context, p *place, in box, then func(*panel, *view.View)) error {
	switch p.view {
	case viewOverview:
		return u.overview(ctx, p, in.width, then)
	case viewTree:
		return u.tree(ctx, p, in, then)
	case viewFlame:
		return u.flame(ctx, p, in.width, then)
	case viewTable:
		return u.table(ctx, p, []string{"", "rows", "calls", "compare"}[p.form[viewTable]], in.height, then)
	case viewLogs:
		return u.table(ctx, p, "logs", in.height, then)
	case viewFacets:
		return u.facets(ctx, p, then)
	case viewDetails:
		return u.details(ctx, p.row, in.width, true, then)
	}
	c := new(panel)
	for _, k := range uiKeys() {
		c.add(line{text: fmt.Sprintf("  \x1b[1m%-20s\x1b[0m %s", k.names, k.text)})
	}
	then(c, nil)
	return nil
}

// add adds a line.
func (c *panel) add(l line) {
	c.lines = append(c.lines, l)
	c.total = len(c.lines)
}

// print adds the output of a command about a view to a panel, with the links in it.
func (u *ui) print(to *panel, v *view.View, width int, answer func(c *console, l *selected) error) error {
	var out bytes.Buffer
	var links []string
	c := u.c.to(&out)
	c.links, c.width, c.color = &links, width, true
	l := &selected{Trace: u.trace.of(v), v: v, w: bufio.NewWriter(&out)}
	if err := answer(c, l); err != nil {
		return err
	}
	_ = l.w.Flush() // to memory
	for text := range strings.Lines(out.String()) {
		x := line{text: strings.TrimRight(text, "\n")}
		if _, at, is := strings.Cut(text, "\x1b[?"); is {
			n := 0
			_, _ = fmt.Sscanf(at, "%d", &n) // link has printed it
			row, err := strconv.ParseUint(links[n], 10, 32)
			x.row = view.Row(row)
			if err != nil {
				x.goes = links[n]
			}
		}
		to.add(x)
	}
	return nil
}

// overview shows the figures and the map of the requests, and then the output of explain and top.
func (u *ui) overview(ctx context.Context, p *place, width int, then func(*panel, *view.View)) error {
	figures, v, err := u.figures(ctx, p, width)
	if err != nil {
		return err
	}
	first := new(panel)
	for _, text := range append([]string{"\x1b[2mlooking for causes…\x1b[0m", ""}, figures...) {
		first.add(line{text: text})
	}
	then(first, v)
	o := &explainOptions{rowFlags: rowFlags{time: timeLocal, selection: selection{query: p.query}}}
	between := new(query.Options)
	if p.from < p.to {
		between.From, between.To = time.Unix(0, p.from), time.Unix(0, p.to)
	}
	q, err := query.Parse(p.query)
	if err != nil {
		return err
	}
	found, err := q.Run(ctx, v, between)
	if err != nil {
		return err
	}
	var before []query.Run
	if u.against != nil {
		all, err := q.Run(ctx, u.against, nil)
		if err != nil {
			return err
		}
		before = append(before, query.Run{View: u.against, Rows: all.Rows})
	}
	c := new(panel)
	err = u.print(c, v, width, func(c *console, l *selected) error {
		l.query, l.between, l.result = q, between, found
		e, x, err := o.explained(ctx, c, l, before, analyze.NoTime, u.names)
		if err != nil {
			return err
		}
		e.explanation(x, o)
		sections := append(e.sections, section{note: strings.Join(figures, "\n")})
		printSections(l.w, append(sections, e.lists()...)...)
		return e.unread
	})
	if err == nil {
		then(c, v)
	}
	return err
}

// mapLines is how many lines the map of the requests has. Each has two rows of the map.
const mapLines = 6

// figures returns the key figures of the requests, and their map.
func (u *ui) figures(ctx context.Context, p *place, width int) (lines []string, v *view.View, err error) {
	columns := max(2, width-10) // labels are beside it
	var h struct {
		analyze.Heat

		Longest any `json:"longest"`
	}
	v, err = u.h.Ask(ctx, "heat", p.values("n", columns, "m", 2*mapLines), &h)
	if err != nil || h.Requests == 0 {
		return nil, v, err
	}
	rows := len(h.Edges) - 1
	cells := make([][2]int, h.Columns*(rows+1)) // the requests, and the failed ones
	begun := make([]int, h.Columns)
	most := 1
	for i, at := 0, 0; i < len(h.Cells); i += 3 {
		at += h.Cells[i]
		cells[at] = [2]int(h.Cells[i+1:])
		begun[at/(rows+1)] += h.Cells[i+1]
		most = max(most, h.Cells[i+1])
	}
	lines = []string{
		fmt.Sprintf("\x1b[1m%s\x1b[0m, %d failed, %d never ended; half within %s, 95 %% within %s, 99 %% within %s",
			plural(h.Requests, "request"), h.Failed, h.Open, duration(h.P50), duration(h.P95), duration(h.P99)),
		fmt.Sprintf("%9s %s", "begun", spark(begun)),
	}
	color := func(cell [2]int) int {
		switch {
		case 2*cell[1] > cell[0]:
			return 160
		case cell[1] > 0:
			return 175
		}
		return []int{67, 33, 27}[int(3*math.Log2(float64(cell[0]))/(math.Log2(float64(most))+1))]
	}
	for y := (rows - 1) / 2; y >= 0; y-- {
		var b strings.Builder
		fmt.Fprintf(&b, "%9s ", duration(h.Edges[2*y]))
		for x := range h.Columns {
			low, high := cells[x*(rows+1)+2*y], [2]int{}
			if 2*y+1 < rows {
				high = cells[x*(rows+1)+2*y+1]
			}
			switch {
			case low[0] > 0 && high[0] > 0:
				fmt.Fprintf(&b, "\x1b[38;5;%d;48;5;%dm▀\x1b[0m", color(high), color(low))
			case low[0] > 0:
				fmt.Fprintf(&b, "\x1b[38;5;%dm▄\x1b[0m", color(low))
			case high[0] > 0:
				fmt.Fprintf(&b, "\x1b[38;5;%dm▀\x1b[0m", color(high))
			default:
				b.WriteByte(' ')
			}
		}
		lines = append(lines, b.String())
	}
	return lines, v, nil
}

// toggledText returns the parameter x of a question for rows: each toggled row as the distance from the one before.
func toggledText(rows []view.Row) string {
	var parts []string
	last := view.Row(0)
	for _, r := range rows {
		parts = append(parts, strconv.FormatUint(uint64(r-last), 36))
		last = r
	}
	return strings.Join(parts, ".")
}

// The flags of a row that the tree shows; package viewer has their meanings.
const (
	rowOpened = 1 << (16 + iota)
	rowHit
	rowParent
)

// tree shows rows with their bars. The first is p.top, unless the place has a goal.
func (u *ui) tree(ctx context.Context, p *place, in box, then func(*panel, *view.View)) error {
	values := p.values("first", p.top, "n", min(3*in.height, 500), "depth", p.depth, "x", toggledText(p.toggled), "root", p.root, "least", p.least)
	set := func(name string, x any) { values[name] = []string{fmt.Sprint(x)} }
	switch {
	case p.goal != 0:
		set("at", p.goal)
	case p.newest:
		set("last", 1)
	case !p.filled && p.depth == 0 && len(p.toggled) == 0:
		set("fill", in.height)
	}
	if p.only && p.query != "" {
		set("only", p.query)
	}
	var a struct {
		Total, First int
		From         int64 `json:"from_nano"`
		To           int64 `json:"to_nano"`
		Toggled      []view.Row
		Rows         []struct {
			Row                         view.Row
			Below, Errors, Depth, Flags int
		}
	}
	v, err := u.h.Ask(ctx, "rows", values, &a)
	if err != nil {
		return err
	}
	c := &panel{first: a.First, total: a.Total, from: a.From, to: a.To}
	c.divide(in.width)
	c.head, c.scale = "name", fmt.Sprintf("%s + %s", timeLocal.at(a.From, "15:04:05.000"), duration(a.To-a.From))
	longest := int64(1)
	for _, x := range a.Rows {
		from, to, _ := timesOf(v, x.Row)
		longest = max(longest, to-from)
	}
	// Short bars could not be seen on one axis.
	lengths := p.lengths != (longest < (a.To-a.From)/int64(2*c.chartWidth))
	first, last := a.From, a.To
	if lengths {
		first, last, c.scale, c.lengths = 0, longest, "0 to "+duration(longest), true
	}
	services, rows := v.Services(), show.NewRows(v, c.chartAt-1, true)
	rows.Flat = true
	for _, x := range a.Rows {
		e, err := rows.Read.Entry(x.Row)
		if err != nil {
			return err
		}
		text := " "
		if x.Flags&rowHit != 0 {
			text = "\x1b[33m●\x1b[0m"
		}
		text += strings.Repeat("  ", min(x.Depth, maxIndent/2))
		switch {
		case x.Flags&rowParent == 0:
			text += "  "
		case x.Flags&rowOpened != 0:
			text += "▾ "
		default:
			text += "▸ "
		}
		text += rows.LineOf(x.Row, e, len([]rune(plain(text))))
		if x.Flags&(rowParent|rowOpened) == rowParent {
			text += fmt.Sprintf(" \x1b[2m+%d\x1b[0m", x.Below)
			if x.Errors > 0 {
				text += fmt.Sprintf(" \x1b[31m✗%d\x1b[0m", x.Errors)
			}
		}
		l := line{text: text, row: x.Row, flags: x.Flags}
		f := v.Flags(x.Row)
		color := colorOf(max(0, slices.Index(services, v.Service(x.Row))))
		if f.IsError() {
			color = show.Red
		}
		if from, to, ok := timesOf(v, x.Row); ok {
			begin := from
			if lengths {
				begin = 0
			}
			l.chart = bar(c.chartWidth, first, last, begin, begin+to-from, color, f.Open())
		}
		c.lines = append(c.lines, l)
	}
	goal, newest, toggled := p.goal, p.newest, a.Toggled
	c.apply = func(p *place) {
		if len(toggled) > 0 {
			p.toggled = toggled
			slices.Sort(p.toggled)
		}
		p.filled = true
		if newest {
			p.at, p.top = c.total-1, c.first
		}
		if goal == 0 || p.goal != goal {
			return
		}
		p.goal = 0
		if i := slices.IndexFunc(c.lines, func(l line) bool { return l.row == goal }); i >= 0 {
			p.at = c.first + i
			p.top = max(0, p.at-in.height/3)
		}
	}
	then(c, v)
	return nil
}

// divide divides the width of a panel into texts and a chart.
func (c *panel) divide(width int) {
	c.chartWidth = max(12, width*2/5)
	c.chartAt = width - c.chartWidth
}

// timesOf returns the times at which a row begins and ends, as far as they are known.
func timesOf(v *view.View, r view.Row) (from, to int64, ok bool) {
	from, ok = v.Start(r)
	took, _ := v.Lasted(r)
	return from, from + int64(took), ok
}

func colorOf(n int) string { return []string{"34", "36", "35", "32"}[n%4] }

// above returns the rows of the tree above a row, the outermost first.
func (u *ui) above(r view.Row) (path []view.Row) {
	for r = u.v.Parent(r); r != 0; r = u.v.Parent(r) {
		if u.v.Role(r) != view.RoleResource {
			path = append(path, r)
		}
	}
	slices.Reverse(path)
	return path
}

// flame shows the spans merged by the names above them. Each block is a line with a bar, whose width is the share of
// the block. Blocks that are narrower than half a column are left out.
func (u *ui) flame(ctx context.Context, p *place, width int, then func(*panel, *view.View)) error {
	var a struct {
		Nodes []struct {
			Name, Service     string
			Up, Count, Errors int
			Row               view.Row
			Self              int64 `json:"self_nano"`
			Weight            float64
		}
	}
	by := []string{"", "count", "up"}[p.form[viewFlame]]
	v, err := u.h.Ask(ctx, "flame", p.values("by", by, "root", p.root), &a)
	if err != nil {
		return err
	}
	c := &panel{head: "share  name  self time"}
	c.divide(width)
	below := make(map[int][]int)
	for i, n := range a.Nodes {
		below[n.Up] = append(below[n.Up], i)
	}
	const whole = 1 << 30
	services := v.Services()
	var add func(up, depth int, left float64)
	add = func(up, depth int, left float64) {
		for _, i := range below[up] {
			n := &a.Nodes[i]
			if n.Weight*float64(c.chartWidth) < .5 {
				continue
			}
			text := fmt.Sprintf("%3.0f %% %s\x1b[1m%s\x1b[0m %s, %s", 100*n.Weight, strings.Repeat("  ", min(depth, maxIndent/2)), show.Safe(n.Name), duration(n.Self), plural(n.Count, "span"))
			if n.Errors > 0 {
				text += ", \x1b[31m" + plural(n.Errors, "error") + "\x1b[0m"
			}
			chart := bar(c.chartWidth, 0, whole, int64(left*whole), int64((left+n.Weight)*whole), colorOf(max(0, slices.Index(services, n.Service))), false)
			c.add(line{text: text, chart: chart, row: n.Row})
			add(i, depth+1, left)
			if by != "up" { // upside down, the blocks of a level are no parts of a whole
				left += n.Weight
			}
		}
	}
	add(-1, 0, 0)
	then(c, v)
	return nil
}

// table shows a table of rows, names or calls.
func (u *ui) table(ctx context.Context, p *place, form string, height int, then func(*panel, *view.View)) error {
	var a struct {
		Columns []struct{ Name, Kind string }
		Lines   []struct {
			Values []any
			Where  string
			Row    view.Row
			Spark  []uint32
		}
		Total int
	}
	values := p.values("form", form, "first", p.top, "n", min(3*height, 500), "sort", p.sorted)
	if form == "logs" && p.form[viewLogs] > 0 {
		values["level"] = formsOf[viewLogs][p.form[viewLogs]:][:1]
	}
	v, err := u.h.Ask(ctx, "table", values, &a)
	if err != nil {
		return err
	}
	s := section{lines: func(yield func([]string) bool) {
		var texts []string
		for i, column := range a.Columns {
			name := show.Safe(column.Name)
			if i+1 == p.sorted {
				name += " ↓"
			}
			texts = append(texts, name)
		}
		if !yield(append(texts, "")) {
			return
		}
		for _, l := range a.Lines {
			texts := texts[:0]
			for i, x := range l.Values {
				texts = append(texts, cellText(a.Columns[i].Kind, x))
			}
			if !yield(append(texts, spark(l.Spark))) {
				return
			}
		}
	}}
	for _, column := range a.Columns {
		if column.Kind == "number" || column.Kind == "duration" {
			s.sides += "r"
		} else {
			s.sides += "l"
		}
	}
	s.sides += "l"
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	s.printLines(w)
	_ = w.Flush() // to memory
	texts := strings.Split(out.String(), "\n")
	c := &panel{head: texts[0], first: p.top, total: a.Total, columns: len(a.Columns)}
	for i, l := range a.Lines {
		c.lines = append(c.lines, line{text: texts[i+1], row: l.Row, goes: l.Where})
	}
	then(c, v)
	return nil
}

// cellText returns a value of a column of a kind.
func cellText(kind string, x any) string {
	if x, is := x.(float64); is {
		return strconv.FormatFloat(x, 'g', 4, 64)
	}
	text, _ := x.(string) // or nil
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err == nil && kind == "duration":
		return duration(n)
	case err == nil && kind == "time":
		return timeLocal.at(n, clock)
	}
	return show.Safe(text)
}

// facets shows how frequent the values of fields are among the hits, and among the other rows.
func (u *ui) facets(ctx context.Context, p *place, then func(*panel, *view.View)) error {
	var a query.Contrast
	v, err := u.h.Ask(ctx, "facets", p.values(), &a)
	if err != nil {
		return err
	}
	c := &panel{head: "of " + plural(int(a.In), "row")}
	if p.query != "" {
		c.head = fmt.Sprintf("shares of %s, and of %s", plural(int(a.In), "hit"), plural(int(a.Others), "other"))
	}
	for _, f := range a.Fields {
		c.add(line{text: "\x1b[1m" + show.Safe(f.Field) + "\x1b[0m"})
		for _, x := range f.Values {
			share := func(n, of int64, color string) string {
				text := fmt.Sprintf("%3.0f %% ", 100*float64(n)/float64(max(1, of)))
				if n == 0 {
					return text + strings.Repeat(" ", 10)
				}
				return text + bar(10, 0, of, 0, n, color, false)
			}
			text := "  " + share(x.In, a.In, show.Blue)
			if p.query != "" {
				text += " " + share(x.Others, a.Others, show.Dim)
			}
			c.add(line{text: text + "  " + show.Safe(x.Text), goes: x.Where})
		}
	}
	then(c, v)
	return nil
}
