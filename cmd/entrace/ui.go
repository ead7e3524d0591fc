package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/gdamore/tcell/v2"

	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

func uiCommand() *command {
	o := new(viewOptions)
	return &command{
		use:   "ui [FILE|DIR]...",
		short: "Show a trace in the terminal",
		long: `ui shows in the terminal what view shows in the browser, for machines that you reach by ssh.

  entrace ui                                   a recording of this folder; ui lists them if there are several
  entrace ui app.et                            if a program still writes it, ui follows
  entrace ui after.et --against=before.et      compare two recordings

ui has the keys of the web viewer; ? lists them, and q ends ui. It uses the colors of the terminal, unless NO_COLOR
is set.`,
		flags:    o.add,
		complete: completeTraces,
		run: func(ctx context.Context, c *console, args []string) error {
			args, err := o.names(c, args)
			if err != nil {
				return err
			}
			return o.inTerminal(ctx, c, args, nil)
		},
	}
}

// inTerminal shows traces on the screen that open opens. A nil open stands for the terminal of the command.
func (o *viewOptions) inTerminal(ctx context.Context, c *console, names []string, open func() (tcell.Screen, error)) error {
	if err := o.check(names); err != nil {
		return err
	}
	if open == nil {
		if !isTerminal(c.out) || os.Getenv("TERM") == "dumb" {
			return usagef("ui needs a terminal that can move its cursor; 'entrace tree' and 'entrace top' print a trace as text")
		}
		open = tcell.NewScreen
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	u := &ui{c: c, o: o, ctx: ctx, posted: make(chan func())}
	if len(names) == 0 {
		for _, x := range o.runs {
			x.read(ctx, true)
			u.shown.add(line{text: x.File + "  " + x.summary(), goes: x.File})
		}
		if err := u.show(open); err != nil || u.chosen == "" {
			return err
		}
		names, u.shown = []string{u.chosen}, panel{}
		if err := o.check(names); err != nil {
			return err
		}
	}
	var options viewer.Options
	t, closeAll, err := o.open(ctx, c, names, &options, func() { c.say("%s", options.Waiting) })
	defer closeAll()
	if t == nil {
		return err
	}
	u.v = t.now().View()
	u.names, u.trace, u.notices, u.against, u.h = names, t, options.Notices, options.Against, viewer.New(u.v, &options)
	said := c.err
	c.err = io.Discard // the first line of the screen has the notices
	err = u.show(open)
	end() // before the files are closed
	u.loads.Wait()
	c.err = said
	if u.prints {
		for _, l := range u.shown.lines {
			if !c.color {
				l.text = plain(l.text)
			}
			fmt.Fprintln(c.out, l.text)
		}
	}
	return err
}

// A place says what the user has chosen to see: the view, the query, the time, the open rows, and so on. If two places are
// equal, the screen shows the same.
type place struct {
	view     int
	form     [len(viewNames)]int // the form of each view, as an index in formsOf[view]
	query    string
	only     bool  // the tree has only the hits, and the rows above them
	from, to int64 // the chosen time, in nanoseconds since 1970; equal if none is chosen
	root     view.Row
	depth    int        // how many levels are open
	toggled  []view.Row // sorted; rows that are closed in an open level, or open in a closed one
	filled   bool       // rows were opened until the screen was full
	least    int64      // the tree leaves out spans that took fewer nanoseconds
	lengths  bool       // bars begin at the left
	sorted   int        // the column by which tables are sorted, from 1 on; 0: none
	row      view.Row   // the row whose details are shown
	goal     view.Row   // the row to which the cursor of the tree moves next; then 0
	newest   bool       // the screen shows the last rows while the trace grows

	at, top int // the numbers of the line with the cursor, and of the first line on the screen
}

// values returns the parameters of a question about p.
func (p *place) values(pairs ...any) url.Values {
	v := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(fmt.Sprint(pairs[i]), fmt.Sprint(pairs[i+1])) //nolint:gosec // callers give pairs
	}
	if p.from < p.to {
		v.Set("window", fmt.Sprintf("%d,%d", p.from, p.to))
	}
	if p.query != "" {
		v.Set("q", p.query)
	}
	return v
}

// A line of a view. Its texts are safe for a terminal.
type line struct {
	text  string
	chart string   // the bar, in the columns of the chart
	row   view.Row // 0: none
	goes  string   // a query for the rows that the line stands for, or the name of a run
	flags int      // in the tree
}

// A panel holds lines of a view.
type panel struct {
	head  string
	scale string // the line above the chart
	first int    // the number of lines[0] among all lines
	total int
	lines []line

	chartAt, chartWidth int   // the columns of the chart; no chart if the width is 0
	from, to            int64 // the times that the chart shows
	lengths             bool  // the bars begin at the left
	columns             int   // of a table

	apply func(p *place) // what the answer changes in the place; may be nil
}

// A ui shows a trace in a terminal. One goroutine handles events and draws. Other goroutines compute contents, and post
// funcs that store them in the ui.
type ui struct {
	screen

	c       *console
	o       *viewOptions
	ctx     context.Context //nolint:containedctx // of the command
	names   []string
	trace   *shownTrace
	notices func() []string
	against *view.View
	h       *viewer.Handler
	v       *view.View // has all rows that are shown
	posted  chan func()
	loads   sync.WaitGroup

	place
	before []place // where the user was before, for Esc
	shown  panel
	beside panel // details of the row with the cursor
	main   loader
	side   loader
	jump   loader // computes the answer to a key
	input  *input // the query that is being typed

	message       string
	state         string // of the files
	renewed       int    // how often the trace has grown
	paused, alone bool   // alone: without details
	looking       bool   // for new entries
	pressed       [2]int // where the mouse button went down
	down          bool
	ended         bool
	chosen        string // of runs
	prints        bool   // print the lines of the view at the end
	width, height int    // of the screen
}

// show opens the screen and shows the trace, or the runs, until the user ends it.
func (u *ui) show(open func() (tcell.Screen, error)) error {
	s, err := open()
	if err == nil {
		err = s.Init()
	}
	if err != nil {
		return fmt.Errorf("the terminal %q cannot be used: %w; 'entrace tree' and 'entrace top' print a trace as text", os.Getenv("TERM"), err)
	}
	u.screen, u.ended = screen{s}, false
	defer s.Fini() // also after a panic
	s.EnableMouse(tcell.MouseButtonEvents | tcell.MouseDragEvents)
	events, closed := make(chan tcell.Event, 100), make(chan struct{})
	defer close(closed)
	go s.ChannelEvents(events, closed)
	looks := time.NewTicker(250 * time.Millisecond)
	defer looks.Stop()
	u.renew()
	for !u.ended {
		u.width, u.height = s.Size()
		u.load()
		if u.main.stop != nil { // do not draw twice if the answer comes soon
			select {
			case do := <-u.posted:
				do()
			case <-time.After(30 * time.Millisecond):
			}
		}
		if len(events) == 0 { // keys that are held down can come faster than screens
			u.draw()
		}
		select {
		case <-u.ctx.Done():
			return u.ctx.Err()
		case do := <-u.posted:
			do()
		case <-looks.C:
			u.renew()
		case e, ok := <-events:
			if !ok {
				return errors.New("the terminal has gone")
			}
			u.handle(e)
		}
	}
	return nil
}

// A loader computes something that the screen shows, and computes it anew when its key changes.
type loader struct {
	key  string
	stop context.CancelFunc // nil if nothing is being computed
}

// run calls do on another goroutine, to compute the contents for a key, unless they were computed or are being
// computed. To store its results, do calls then with a func that changes u. The goroutine of u calls this func, unless
// the key has changed in the meantime.
func (u *ui) run(l *loader, key string, do func(ctx context.Context, then func(func())) error) {
	if key == l.key {
		return
	}
	if l.stop != nil {
		l.stop()
	}
	ctx, stop := context.WithCancel(u.ctx)
	l.key, l.stop = key, stop
	u.loads.Go(func() {
		defer func() {
			if p := recover(); p != nil { // the terminal must be restored before the program ends
				text := fmt.Sprintf("%v\n%s", p, debug.Stack())
				u.post(func() { panic(text) })
			}
		}()
		then := func(change func()) {
			u.post(func() {
				if ctx.Err() == nil {
					change()
				}
			})
		}
		err := do(ctx, then)
		then(func() {
			l.stop = nil
			stop()
			u.fail(err)
		})
	})
}

// post makes the goroutine of u call a func.
func (u *ui) post(do func()) {
	select {
	case u.posted <- do:
	case <-u.ctx.Done():
	}
}

// renew looks for new entries in the files, and updates the states of the files.
func (u *ui) renew() {
	if u.h == nil || u.looking {
		return
	}
	u.looking = true
	u.loads.Go(func() {
		changed, err := u.h.Renew(u.ctx)
		t := u.trace.now()
		state := show.Safe(title(t)+" "+stateOfTitle(statesOf(t))) + "  \x1b[31m" + show.Safe(strings.Join(u.notices(), "; ")) + "\x1b[0m"
		u.post(func() {
			u.looking, u.state = false, state
			if changed && !u.paused {
				u.renewed++
			}
			u.fail(err)
		})
	})
}

// fail shows an error, unless it is nil.
func (u *ui) fail(err error) {
	if err != nil {
		u.message = show.Safe(err.Error())
	}
}

// load computes the contents of the screen.
func (u *ui) load() {
	if u.h == nil {
		return // the user chooses a run
	}
	list, beside := u.boxes()
	p := u.place
	p.at, p.top = 0, 0
	switch u.view { // the others have all their lines
	case viewTree, viewTable, viewLogs:
		p.top = max(0, u.top/list.height-1) * list.height
	}
	u.run(&u.main, fmt.Sprint(p, list, u.renewed), func(ctx context.Context, then func(func())) error {
		return u.panelOf(ctx, &p, list, func(c *panel, v *view.View) {
			then(func() {
				u.shown, u.v = *c, cmp.Or(v, u.v)
				if c.apply != nil {
					c.apply(&u.place)
				}
				u.move(0)
			})
		})
	})
	row := u.current().row
	if beside.width == 0 || row == 0 {
		u.beside, u.side.key = panel{}, ""
		return
	}
	u.run(&u.side, fmt.Sprint(row, beside.width, u.renewed), func(ctx context.Context, then func(func())) error {
		return u.details(ctx, row, beside.width, false, func(c *panel, _ *view.View) { then(func() { u.beside = *c }) })
	})
}

// A box is a rectangle on the screen.
type box struct{ x, y, width, height int }

// boxes returns the boxes for the lines of the view, and for the details of the row with the cursor. The box for the
// details is empty in some views, and on small screens.
func (u *ui) boxes() (list, beside box) {
	list = box{0, 3, u.width, max(1, u.height-4)}
	switch {
	case u.alone || u.view != viewTree && u.view != viewLogs:
	case list.width >= 120:
		beside = list
		beside.width = list.width * 2 / 5
		beside.x = list.width - beside.width
		list.width = beside.x - 1
	case list.height >= 14:
		beside = list
		beside.height = list.height / 3
		beside.y += list.height - beside.height
		list.height -= beside.height + 1
	}
	return list, beside
}

// current returns the line with the cursor.
func (u *ui) current() line {
	if i := u.at - u.shown.first; i >= 0 && i < len(u.shown.lines) {
		return u.shown.lines[i]
	}
	return line{}
}

// move moves the cursor by n lines, and keeps it on the screen.
func (u *ui) move(n int) {
	list, _ := u.boxes()
	u.at = max(0, min(u.at+n, u.shown.total-1))
	u.top = max(min(u.top, u.at, u.shown.total-list.height), u.at-list.height+1, 0)
}

// draw draws the screen. Only changed cells are sent to the terminal.
func (u *ui) draw() {
	plain := tcell.StyleDefault
	u.put(0, 0, u.width, u.title(), plain)
	u.put(0, 1, u.width, u.queryLine(), plain)
	c := &u.shown
	list, beside := u.boxes()
	both := func(y int, text, chart string, style tcell.Style) {
		at := list.width
		if c.chartWidth > 0 {
			at = c.chartAt
		}
		u.put(0, y, at, text, style)
		u.put(at, y, list.width-at, chart, style)
	}
	both(2, c.head, c.scale, plain.Underline(true))
	for y := range list.height {
		var l line
		style := plain
		if i := u.top + y - c.first; i >= 0 && i < len(c.lines) {
			l = c.lines[i]
			if u.top+y == u.at {
				style = style.Reverse(true)
			}
		}
		both(list.y+y, l.text, l.chart, style)
	}
	edge := plain.Dim(true)
	if beside.y > list.y {
		u.put(0, beside.y-1, beside.width, strings.Repeat("─", beside.width), edge)
	}
	for y := range beside.height {
		text := ""
		if y < len(u.beside.lines) {
			text = u.beside.lines[y].text
		}
		u.put(beside.x-1, beside.y+y, 1, "│", edge) // nowhere if the details are below
		u.put(beside.x, beside.y+y, beside.width, text, plain)
	}
	u.put(0, u.height-1, u.width, u.status(), plain)
	if u.input == nil {
		u.HideCursor()
	} else {
		u.ShowCursor(u.input.column()+2, 1)
	}
	u.Show()
}

// title returns the first line: the views, and the state of the files.
func (u *ui) title() string {
	var b strings.Builder
	for i, name := range viewNames[:viewDetails] {
		color := show.Dim
		if i == u.view {
			color = "7"
		}
		fmt.Fprintf(&b, "\x1b[%sm%d %s\x1b[0m ", color, i+1, name)
	}
	return b.String() + " " + u.state
}

// queryLine returns the second line.
func (u *ui) queryLine() string {
	text := ""
	switch {
	case u.input != nil:
		return "/ " + show.Safe(string(u.input.text))
	case u.query == "":
		text = "\x1b[2m/ finds, ? lists the keys, q ends\x1b[0m"
	default:
		text = "/ " + show.Safe(u.query)
	}
	if u.only {
		text += "  \x1b[1monly hits\x1b[0m"
	}
	if u.from < u.to {
		text += fmt.Sprintf("  \x1b[1m%s + %s\x1b[0m", timeLocal.at(u.from, clock), duration(u.to-u.from))
	}
	return text
}

// status returns the last line: a message, or the position of the cursor.
func (u *ui) status() string {
	text := fmt.Sprintf("%d of %d", min(u.at+1, u.shown.total), u.shown.total)
	switch forms := formsOf[u.view]; {
	case u.message != "":
		text = u.message
	case u.main.stop != nil:
		text = "\x1b[2mcomputing…\x1b[0m"
	case len(forms) > 0:
		text += "   \x1b[2mTab:\x1b[0m " + forms[u.form[u.view]]
	}
	return text
}
