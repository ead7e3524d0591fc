package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// A key is one or several keys on the keyboard, with the action that they start. The names of the keys are separated by
// spaces.
type key struct {
	names, text string
	do          func(u *ui)
}

// uiKeys returns the keys, in the order of the view that lists them. Keys that the page in the browser also has do the
// same there.
func uiKeys() []key {
	list := []key{
		{"Down j", "next line", func(u *ui) { u.step(1) }},
		{"Up k", "previous line", func(u *ui) { u.step(-1) }},
		{"Right l", "open a row", func(u *ui) { u.unfold(true) }},
		{"Left h", "close a row, or go to the one above", func(u *ui) { u.unfold(false) }},
		{"PgDn", "next screen", func(u *ui) { u.page(1) }},
		{"PgUp", "previous screen", func(u *ui) { u.page(-1) }},
		{"Home g", "first line", func(u *ui) { u.step(-u.shown.total) }},
		{"End G", "last line; it stays visible while the trace grows", func(u *ui) { u.newest = u.view == viewTree; u.step(u.shown.total) }},
		{"Enter", "details of a row, or the rows that a line describes", (*ui).enter},
		{"q Ctrl+C", "end", func(u *ui) { u.ended = true }},
		{"Esc", "back to where you were", (*ui).back},
		{"Tab", "another form of the view", (*ui).nextForm},
		{"E", "open one more level", func(u *ui) { u.visit(func(p *place) { p.depth, p.toggled, p.filled = p.depth+1, nil, true }) }},
		{"x", "open to the hits", (*ui).openToHits},
		{"r", "only this row and the rows below it", func(u *ui) {
			row := u.current().row
			u.visit(func(p *place) { p.root, p.filled, p.at, p.top = row, false, 0, 0 })
		}},
		{"/", "find words, or the rows of a query; Tab completes", func(u *ui) { u.input = &input{text: []rune(u.query), at: len([]rune(u.query))} }},
		{"n", "next hit", func(u *ui) { u.find("next", "") }},
		{"N", "previous hit", func(u *ui) { u.find("prev", "") }},
		{"e", "next error", func(u *ui) { u.find("next", "error") }},
		{"u", "next unfinished span", func(u *ui) { u.find("next", "open") }},
		{"m", "only the hits, or all rows", func(u *ui) { u.visit(func(p *place) { p.only, p.at, p.top = !p.only, 0, 0 }) }},
		{"-", "exclude the value of a facet", func(u *ui) { u.narrow("!(", ")") }},
		{"w", "zoom in to half of the time", func(u *ui) { u.zoom(.25, .75) }},
		{"s", "zoom out to twice the time; in a table: sort by another column", (*ui).wider},
		{"a", "earlier", func(u *ui) { u.zoom(-.2, .8) }},
		{"d", "later", func(u *ui) { u.zoom(.2, 1.2) }},
		{"f", "zoom to the time of this row", func(u *ui) {
			from, to, _ := timesOf(u.v, u.current().row)
			u.choose(from, to)
		}},
		{"0", "the whole time", func(u *ui) { u.choose(0, 0) }},
		{"t", "hide short spans, or show them", (*ui).short},
		{"b", "bars by length, or by time", func(u *ui) { u.lengths = !u.lengths }},
		{"c", "critical path of the request", (*ui).showDetails},
		{"]", "details next to the rows", func(u *ui) { u.alone = !u.alone }},
		{"y", "copy a command that shows this in the browser", (*ui).copyCommand},
		{"o", "open the source of this row in $EDITOR", (*ui).edit},
		{"p", "print these lines, and end", func(u *ui) { u.prints, u.ended = true, true }},
		{"Space", "pause, or follow the program again", func(u *ui) { u.paused = !u.paused; u.renewed++ }},
		{"?", "keys", func(u *ui) { u.look(viewKeys) }},
		{"Ctrl+Z", "suspend", func(u *ui) { u.apart(stopSelf) }},
	}
	for i, name := range viewNames[:viewDetails] {
		list = append(list, key{fmt.Sprint(i + 1), name, func(u *ui) { u.look(i) }})
	}
	return list
}

// handle handles an event of the terminal.
func (u *ui) handle(e tcell.Event) {
	switch e := e.(type) {
	case *tcell.EventResize:
		u.Sync()
	case *tcell.EventError:
		u.ended = true // the terminal has gone
	case *tcell.EventMouse:
		u.point(e)
	case *tcell.EventKey:
		u.message = ""
		name := e.Name()
		if e.Key() == tcell.KeyRune {
			name = strings.ReplaceAll(string(e.Rune()), " ", "Space")
		}
		if u.input != nil {
			u.edited(e)
			return
		}
		keys := uiKeys()
		if u.h == nil {
			keys = keys[:10] // to q: while the user chooses a run, there are no rows to ask for
		}
		for _, k := range keys {
			if slices.Contains(strings.Fields(k.names), name) {
				k.do(u)
			}
		}
	}
}

// point handles an event of the mouse.
func (u *ui) point(e *tcell.EventMouse) {
	x, y := e.Position()
	c := &u.shown
	list, _ := u.boxes()
	switch was := u.down; {
	case e.Buttons()&tcell.WheelDown != 0:
		u.page(.1)
	case e.Buttons()&tcell.WheelUp != 0:
		u.page(-.1)
	case e.Buttons()&tcell.Button1 != 0 && !was:
		u.pressed, u.down = [2]int{x, y}, true
	case e.Buttons() == 0 && was:
		u.down = false
		from, at := u.pressed[0], u.top+u.pressed[1]-3
		switch {
		case u.pressed[1] == 0:
			for i, end := range viewNames[:viewDetails] {
				x -= len(end) + 3
				if x < 0 {
					u.look(i)
					break
				}
			}
		case y < list.y || y >= list.y+list.height || x >= list.width:
		case c.chartWidth > 0 && !c.lengths && min(from, x) >= c.chartAt && x != from:
			at := func(x int) float64 { return float64(x-c.chartAt) / float64(c.chartWidth) }
			u.zoom(at(min(from, x)), at(max(from, x)+1))
		case at != u.at:
			u.step(at - u.at)
		case u.view == viewTree:
			u.toggle(u.current().row)
		default:
			u.enter()
		}
	}
}

// step moves the cursor by n lines.
func (u *ui) step(n int) {
	if n < 0 {
		u.newest = false
	}
	u.move(n)
}

// page moves the cursor by n screens.
func (u *ui) page(n float64) {
	list, _ := u.boxes()
	lines := int(n * float64(list.height))
	u.top += lines
	u.step(lines)
}

// visit changes the place. Esc returns to the place before.
func (u *ui) visit(change func(p *place)) {
	u.before = append(u.before[max(0, len(u.before)-100):], u.place)
	change(&u.place)
}

func (u *ui) back() {
	if n := len(u.before); n > 0 {
		u.place, u.before = u.before[n-1], u.before[:n-1]
	}
}

// look shows a view. The tree shows the row that was shown before.
func (u *ui) look(n int) {
	row := u.current().row
	switch {
	case n == u.view:
	case n == viewTree && row != 0:
		u.reveal(row)
	default:
		u.visit(func(p *place) { p.view, p.at, p.top, p.sorted = n, 0, 0, 0 })
	}
}

// ask asks the handler a question for a key. When the answer is decoded, the goroutine of u calls then.
func (u *ui) ask(name string, values url.Values, answer any, then func()) {
	u.jump.key = ""
	u.run(&u.jump, name, func(ctx context.Context, do func(func())) error {
		v, err := u.h.Ask(ctx, name, values, answer)
		if err != nil {
			return err
		}
		do(func() {
			u.v = v
			then()
		})
		return nil
	})
}

// reveal shows a row in the tree: it opens the rows above the row, and moves the cursor to it.
func (u *ui) reveal(r view.Row) {
	path := u.above(r)
	u.visit(func(p *place) {
		if i := slices.Index(path, p.root); i >= 0 {
			path = path[i:]
		} else {
			p.root = 0
		}
		for i, x := range path {
			if _, toggled := slices.BinarySearch(p.toggled, x); (i < p.depth) == toggled {
				p.toggle(x)
			}
		}
		p.view, p.goal, p.filled, p.newest = viewTree, r, true, false
	})
}

// toggle closes a row that is open, or opens one that is closed.
func (p *place) toggle(r view.Row) {
	i, is := slices.BinarySearch(p.toggled, r)
	p.toggled = slices.Clone(p.toggled) // places before have the old list
	if is {
		p.toggled = slices.Delete(p.toggled, i, i+1)
	} else {
		p.toggled = slices.Insert(p.toggled, i, r)
	}
	p.filled = true
}

// unfold opens the row with the cursor, or closes it.
func (u *ui) unfold(open bool) {
	l := u.current()
	switch {
	case u.view != viewTree || open && l.flags&rowParent == 0:
	case open != (l.flags&rowOpened != 0):
		u.toggle(l.row)
	case open:
		u.step(1)
	default:
		if path := u.above(l.row); len(path) > 0 {
			u.goal = path[len(path)-1]
		}
	}
}

// enter opens the row, or the rows, to which the line with the cursor refers.
func (u *ui) enter() {
	l := u.current()
	switch {
	case u.h == nil:
		u.chosen, u.ended = l.goes, true
	case u.view == viewTree:
		u.showDetails()
	case u.view == viewFacets:
		u.narrow("", "")
	case l.row != 0:
		u.reveal(l.row)
	case l.goes != "":
		u.visit(func(p *place) { p.view, p.query, p.at, p.top = viewTree, l.goes, -1, 0 })
		u.find("next", "")
	}
}

func (u *ui) showDetails() {
	if row := u.current().row; row != 0 {
		u.visit(func(p *place) { p.view, p.row, p.at, p.top = viewDetails, row, 0, 0 })
	}
}

// narrow adds the filter of the facet with the cursor to the query. It puts the text before in front of the filter, and
// the text after at its end.
func (u *ui) narrow(before, after string) {
	if filter := u.current().goes; filter != "" && u.view == viewFacets {
		u.visit(func(p *place) {
			p.query = strings.TrimPrefix(p.query+" | { "+before+filter+after+" }", " | ")
			p.at, p.top = 0, 0
		})
	}
}

func (u *ui) nextForm() {
	if n := len(formsOf[u.view]); n > 0 {
		if u.view == viewTable && u.against == nil {
			n--
		}
		u.visit(func(p *place) { p.form[p.view], p.at, p.top, p.sorted = (p.form[p.view]+1)%n, 0, 0, 0 })
	}
}

// find moves the cursor of the tree to the next or the previous hit. If the parameter what is "error" or "open", it
// moves the cursor to an error or to an open span instead.
func (u *ui) find(dir, what string) {
	var a struct {
		Count, Index int
		Row          view.Row
	}
	if what == "" && u.query == "" {
		u.message = "there is no query: / begins one"
		return
	}
	u.ask("find", u.values("at", cmp.Or(u.goal, u.current().row), "dir", dir, "what", what), &a, func() {
		if a.Row == 0 {
			u.message = "nothing was found"
			return
		}
		u.reveal(a.Row)
		u.message = fmt.Sprintf("%d of %d", a.Index, a.Count)
	})
}

func (u *ui) openToHits() {
	var a struct {
		Rows []view.Row
		More bool
	}
	u.ask("way", u.values("root", u.root), &a, func() {
		u.visit(func(p *place) { p.depth, p.toggled, p.filled = 0, a.Rows, true })
		if a.More {
			u.message = "some hits are still hidden: there are too many"
		}
	})
}

// zoom chooses a part of the visible time: 0 is the beginning of the visible time, and 1 its end.
func (u *ui) zoom(from, to float64) {
	if c := &u.shown; u.view == viewTree && c.from < c.to {
		at := func(share float64) int64 { return c.from + int64(share*float64(c.to-c.from)) }
		u.choose(at(from), at(to))
	}
}

// wider shows twice the time, or sorts by the next column.
func (u *ui) wider() {
	if u.view == viewTable || u.view == viewLogs {
		u.sorted = (u.sorted + 1) % (u.shown.columns + 1)
		return
	}
	u.zoom(-.5, 1.5)
}

func (u *ui) choose(from, to int64) {
	u.visit(func(p *place) { p.from, p.to = from, max(from, to) })
}

func (u *ui) short() {
	least := (u.shown.to - u.shown.from) / 100
	u.visit(func(p *place) {
		if p.least > 0 {
			least = 0
		}
		p.least = least
	})
}

// copyCommand copies a command that opens the same view in the browser.
func (u *ui) copyCommand() {
	state := u.values("v", strings.Fields("top tree flame table logs tree tree tree")[u.view])
	if row := u.current().row; row != 0 {
		state.Set("s", fmt.Sprint(row))
	}
	if w := state.Get("window"); w != "" {
		state.Set("t", w)
		state.Del("window")
	}
	if u.only {
		state.Set("m", "only")
	}
	command := shellLine(append([]string{"view", "--state", "?" + state.Encode()}, u.o.arguments(u.names)...))
	u.SetClipboard([]byte(command))
	u.message = "copied, if the terminal lets programs copy: " + show.Safe(command)
}

// edit opens the source location of the row with the cursor in an editor.
func (u *ui) edit() {
	e, err := u.v.Entry(cmp.Or(u.current().row, u.row))
	editor := strings.Fields(os.Getenv("EDITOR"))
	if err != nil || e.Metadata.File.Value == "" || len(editor) == 0 {
		u.message = "the row has no place in the source, or $EDITOR is not set"
		return
	}
	u.apart(func() error {
		cmd := exec.CommandContext(u.ctx, editor[0], append(editor[1:], fmt.Sprintf("+%d", e.Metadata.Line.Value), "--", e.Metadata.File.Value)...) //nolint:gosec // the user's own
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		return cmd.Run()
	})
}

// apart releases the terminal while do runs.
func (u *ui) apart(do func() error) {
	u.fail(errors.Join(u.Suspend(), do(), u.Resume()))
	u.Sync()
}

// An input is a query that is being typed.
type input struct {
	text []rune
	at   int // the cursor

	items []query.Completion // what Tab inserts, one after the other
	item  int
	from  int // where items begin in text
}

// column returns the column of the cursor.
func (x *input) column() int { return uniseg.StringWidth(show.Safe(string(x.text[:x.at]))) }

// replace replaces the text from an offset to the cursor.
func (x *input) replace(from int, by string) {
	x.text = slices.Concat(x.text[:from], []rune(by), x.text[x.at:])
	x.at = from + len([]rune(by))
}

// edited handles a key while a query is typed.
func (u *ui) edited(e *tcell.EventKey) {
	x := u.input
	if e.Key() != tcell.KeyTab {
		x.items = nil
	}
	switch e.Key() {
	case tcell.KeyEnter:
		u.enterQuery()
	case tcell.KeyEsc, tcell.KeyCtrlC:
		u.input = nil
	case tcell.KeyTab:
		u.complete()
	case tcell.KeyLeft:
		x.at = max(0, x.at-1)
	case tcell.KeyRight:
		x.at = min(len(x.text), x.at+1)
	case tcell.KeyHome:
		x.at = 0
	case tcell.KeyEnd:
		x.at = len(x.text)
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		x.replace(max(0, x.at-1), "")
	case tcell.KeyCtrlU:
		x.replace(0, "")
	case tcell.KeyRune:
		x.replace(x.at, string(e.Rune()))
	}
}

// enterQuery shows the hits of the query that was typed, or the error in it.
func (u *ui) enterQuery() {
	text := strings.TrimSpace(string(u.input.text))
	_, err := query.Parse(text)
	if wrong, is := errors.AsType[*query.Error](err); is {
		u.message = show.Safe(strings.TrimSpace(wrong.Text + " " + wrong.Hint))
		u.input.at = len([]rune(text[:min(wrong.Pos, len(text))]))
		return
	}
	u.input = nil
	u.visit(func(p *place) {
		if p.view == viewOverview || p.view >= viewDetails {
			p.view = viewTree
		}
		p.query, p.at, p.top = text, -1, 0 // find begins before the first line
	})
	if u.view == viewTree && text != "" {
		u.find("next", "")
	}
}

// complete inserts a completion of the query, or the next one.
func (u *ui) complete() {
	x := u.input
	if len(x.items) > 0 {
		x.item = (x.item + 1) % len(x.items)
		x.insert()
		return
	}
	text := string(x.text[:x.at])
	var a struct {
		From  int
		Items []query.Completion
	}
	u.ask("complete", url.Values{"q": {text}}, &a, func() {
		if u.input != x || string(x.text[:x.at]) != text || len(a.Items) == 0 {
			return
		}
		x.items, x.item, x.from = a.Items, 0, len([]rune(text[:a.From]))
		x.insert()
		var names []string
		for _, item := range a.Items {
			names = append(names, item.Text)
		}
		u.message = show.Safe(strings.Join(names, "  "))
	})
}

func (x *input) insert() { x.replace(x.from, x.items[x.item].Text) }
