package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/view"
)

type tailOptions struct {
	rowFlags

	follow bool
	lines  int
	folder bool // after the end of a program, tail continues with the next one
}

func tailCommand() *command {
	o := &tailOptions{lines: 10, rowFlags: rowFlags{time: timeLocal}}
	return &command{
		use:   "tail [FILE|DIR]",
		short: "Print the last rows of a trace, and with -f new rows",
		long: `tail prints the last log records, events and spans, and with -f also new ones of a running program.

  entrace tail app.et
  entrace tail -f app.et                      until the program ends
  entrace tail -f -q 'level >= warn' traces   of a folder, including later programs

It prints a line for each row of FILE, or of the newest trace in DIR (by default the current folder). It
prints a span when the span has ended, with the time of its end. With -f, tail waits for a FILE that does not
exist yet, and keeps following a log FILE after a rotation.`,
		args: takes(0, 1),
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVarP(&o.follow, "follow", "f", false, "wait for new rows and print them")
			flags.IntVarP(&o.lines, "lines", "n", o.lines, "print the last N lines first, -1 for all")
			o.add(flags)
			o.addPrint(flags)
		},
		run:  o.run,
		fits: true,
	}
}

func (o *tailOptions) run(ctx context.Context, c *console, args []string) error {
	if err := o.time.check(); err != nil {
		return err
	}
	name := "."
	if len(args) > 0 {
		name = args[0]
	}
	if _, row := rowNamed(name); row && o.follow {
		return usagef("--follow reads a whole file: it cannot be used with FILE#ID")
	}
	if o.follow && name == "-" {
		return usagef("tail -f cannot follow the standard input: name a file")
	}
	if fi, err := os.Stat(name); name == "-" || err != nil || !fi.IsDir() {
		return tailFile(ctx, c, name, *o)
	}
	o.folder = true
	seen := newTailer(c, name, *o) // stays open, so that no later file is the same file
	defer func() { seen.close() }()
	for {
		newest, err := newestTrace(name)
		if newest == "" && err == nil && !o.follow {
			err = fmt.Errorf("%s: the folder has no trace%s", name, otherFolder(name))
		}
		if err != nil {
			return err
		}
		now, _ := osfile.Stat(newest)
		if newest != "" && !os.SameFile(now, seen.was) {
			if !o.follow || strings.HasSuffix(newest, ".iet") { // a finished file is not followed
				c.say("using the newest trace, %s", newest)
				next := newTailer(c, newest, *o)
				err := next.tail(ctx)
				seen.close()
				seen = next
				if died, ok := errors.AsType[diedError](err); ok { // continue with the next program
					c.say("%s", died)
					err = nil
				}
				if err != nil || !o.follow {
					return err
				}
				o.lines = -1 // print all lines of files that begin later
			}
		}
		if !wait(ctx) {
			return nil
		}
	}
}

func tailFile(ctx context.Context, c *console, name string, o tailOptions) error {
	t := newTailer(c, name, o)
	defer t.close()
	return t.tail(ctx)
}

// tail prints the last rows of the file, and with --follow also the rows that are added later. It leaves the file open.
func (t *tailer) tail(ctx context.Context) error {
	name, o := t.name, &t.o
	for told := false; o.follow; told = true {
		if _, err := os.Stat(format.Find(name)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if !told {
			t.say("waiting for %s", name)
		}
		if !wait(ctx) {
			return nil
		}
	}
	if o.follow && isLog(name, o.from) {
		l, err := followLog(ctx, name)
		if err != nil {
			return err
		}
		defer l.close()
		defer t.close() // before l removes the trace
		name = l.trace
	}
	own, err := inPlace(name, o.from)
	switch {
	case err != nil:
		return err
	case o.follow && !own:
		return usagef("tail -f follows only ENTRACE's own formats (et, iet) and logs")
	case o.follow:
		t.name = name
		return t.follow(ctx)
	}
	err = t.open(ctx, own)
	if err == nil {
		err = t.begin(ctx)
	}
	if err == nil && own && !o.json && !o.asRows() && !t.newest.IsEnd() {
		if word, died := died(ctx, t.name); word == deadtrace.Killed {
			t.say("%s", died)
		}
	}
	return torn(name, errors.Join(err, t.damage()))
}

// asRows reports whether tail prints rows of a view. Otherwise it prints entries as they arrive.
func (o *tailOptions) asRows() bool { return o.selects() || len(o.clock) > 0 || o.json }

// A diedError reports that the program that wrote a file has died. Its text says how the program died.
type diedError string

func (e diedError) Error() string { return string(e) }

// died returns a [diedError] if the program that wrote a file has died. The error names the state of the file, the
// spans that were open, and the command that finishes the file. The result word is the state of the file, or "" if a
// program is still writing it.
func died(ctx context.Context, name string) (word string, died error) {
	name = format.Find(name)
	if lock, _ := osfile.LockHolder(name); lock != osfile.LockFree {
		return "", nil
	}
	t, _ := convert.Open(ctx, []string{name}, nil)
	if t == nil {
		return "", nil
	}
	defer t.Close()
	s := t.State(t.View(), 0)
	if s.Word == deadtrace.Ended || s.Word == deadtrace.Damaged && !s.Recorded { // a file of another writer has no lock
		return s.Word, nil
	}
	v := t.View()
	var open []string
	for r := range v.Rows() {
		if f := v.Flags(r); f.Role() == view.RoleSpan && f.Open() && !slices.Contains(open, v.Name(r)) {
			open = append(open, v.Name(r))
		}
	}
	text := name + ": " + s.String()
	if damage := t.Damage(); damage != nil {
		text += ": " + damage.Error()
	}
	if n := len(open); n > 0 {
		more := ""
		if n > maxOpen {
			open, more = open[:maxOpen], ", …"
		}
		text += "; these spans were open: " + strings.Join(open, ", ") + more
	}
	if !s.Recovered {
		text += "; 'entrace recover " + name + "' finishes the file"
	}
	return s.Word, diedError(text)
}

// maxOpen is the maximum number of open spans that a diedError names.
const maxOpen = 10
