package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/read/spanstates"
	"github.com/entrace-go/entrace/view"
)

func treeCommand() *command {
	o := &treeOptions{rowFlags: rowFlags{time: timeNone, inputFlags: inputFlags{compares: true}}}
	return &command{
		use:   "tree FILE|DIR...",
		short: "Print spans and log records as a tree, with durations",
		long: `tree prints spans and log records as a tree, with durations.

  entrace tree app.et
  entrace tree shop.et stock.et                            a span hangs below its caller in the other file
  entrace tree app.et -q '{ span:failed }' --descendants   the selected rows, and the rows above and below

Events and log records are below their span, in chronological order. Attributes in which siblings differ come
first. On a terminal, tree prints the attributes that fit into a line, and a few lines of each stack. With --full
or into a pipe, it prints everything. - is the standard input. If a file is damaged, tree prints its intact rows,
and exits with 1.`,
		flags: func(flags *pflag.FlagSet) {
			o.addDescendants(flags)
			o.add(flags)
			redactFlag(flags, &o.redact, redactRead)
			o.addPrint(flags)
			flags.IntVar(&o.depth, "depth", 0, "how many levels to print, 0 for all")
			flags.BoolVar(&o.bare, "no-attributes", false, "print no attributes")
			flags.BoolVar(&o.states, "states", false, "print what the goroutines of spans did, if the file has an execution trace")
			flags.BoolVar(&o.full, "full", false, "print everything, even on a terminal")
		},
		newest: true,
		fits:   true,
		run:    o.run,
	}
}

type treeOptions struct {
	rowFlags

	depth int  // 0 for all levels
	bare  bool // print no attributes
	full  bool // shorten nothing

	states bool // say what goroutines did
}

func (o *treeOptions) run(ctx context.Context, c *console, names []string) error {
	if o.depth < 0 {
		return usagef("--depth is %d: must not be below 0", o.depth)
	}
	l, err := openRows(ctx, c, names, &o.rowFlags)
	if err != nil {
		return torn(names[0], err)
	}
	defer l.Close()
	v := l.v
	p := newPrinter(c, l, o.time)
	p.title, p.Bare = title(l.Trace), o.bare
	if o.selects() {
		p.only = l.part(o.descendants)
	}
	if o.states {
		within := l.result.Rows
		if p.only != nil {
			within = p.only
		}
		states, err := spanstates.Of(ctx, v)
		if err != nil {
			return err
		}
		if text := states.Unknown(); text != "" {
			c.say("%s", text)
		}
		strips, err := analyze.NewStrips(ctx, v, within.All(), math.MaxInt64)
		if err != nil {
			return err
		}
		p.Strip = func(r view.Row) []string { return strip(v, strips, r) }
	}
	if o.json {
		return l.finish(newRowPrinter(c, l, &o.rowFlags).tree(ctx, p.only, o.depth))
	}
	if o.full {
		p.Width, p.Measured = 0, false
	}
	p.states = statesOf(l.Trace)
	if v.Len() > 0 {
		_, err = fmt.Fprintln(l.w, p.wrapped(p.summary()))
		for i, line := range stateLines(l.Trace, p.states) {
			if i == maxStates && !o.full {
				fmt.Fprintln(l.w, p.paint(show.Dim, "  … 'entrace info' has the states of all files"))
				break
			}
			fmt.Fprintln(l.w, p.wrapped("  "+show.Safe(line)))
		}
		err = errors.Join(err, l.w.Flush()) // print the first lines now: the next one takes a while
	}
	if err == nil {
		err = p.all(ctx, o.depth)
	}
	return l.finish(err)
}

// maxStates is the maximum number of file states that are printed below the first line.
const maxStates = 20

// title returns the title of a trace: the name of its first file, and the number of other files.
func title(t *convert.Trace) string {
	if n := len(t.View().Files()); n > 1 {
		return fmt.Sprintf("%s and %s", t.Name(0), plural(n-1, "other file"))
	}
	return fileName(t, 0)
}

// stripWidth is the number of letters in a strip. stripLeast is the duration of the shortest span that has a
// strip.
const (
	stripWidth = 20
	stripLeast = time.Millisecond // shorter spans have no strip
)

var stateLetters = map[string]byte{
	"running": '#', "runnable": 'r', "syscall": '$', "gc work": 'G', "gc wait": 'g', "mutex": 'M', "sync": 'W', "chan": 'C', "select": 'S',
	"net": 'N', "sleep": 'z', "other": '-',
}

// strip returns the states of a span's goroutine in words: first one letter for each part of the time, then the
// two longest states.
func strip(v *view.View, strips *analyze.Strips, r view.Row) (words []string) {
	if d, ended := v.Duration(r); ended && d < stripLeast {
		return nil
	}
	states := strips.Of(r, stripWidth)
	if states == nil {
		return nil
	}
	letters := make([]byte, len(states))
	for i, s := range states {
		letters[i] = stateLetters[s]
		if s == "" {
			letters[i] = '?'
		}
	}
	words = append(words, "|"+string(letters)+"|")
	for _, t := range strips.Longest(r, 2) {
		words = append(words, t.State+" "+duration(t.Time))
	}
	return words
}
