package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/readmark"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/view"
)

type tailOptions struct {
	rowFlags

	follow, raw bool
	lines       int
	folder      bool // after the end of a program, tail continues with the next one
}

func tailCommand() *command {
	o := &tailOptions{lines: 10, rowFlags: rowFlags{time: timeLocal}}
	return &command{
		use:   "tail [FILE|DIR]",
		short: "Print what a trace has last, and with -f what comes",
		long: `tail prints the last log records, events and spans, and with -f what a running program adds.

  entrace tail app.et
  entrace tail -f app.et                      until the program ends
  entrace tail -f -q 'level >= warn' traces   of a folder, also of the next program

It prints a line for each row of FILE, or of the newest trace in DIR (by default the current folder). A span is
printed when it has ended, with the time of its end. With -f, tail waits for a FILE that is not there yet. --raw
prints entries as they are stored, as cat does. A log FILE is followed when it is rotated as well.`,
		args: takes(0, 1),
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVarP(&o.follow, "follow", "f", false, "wait for more")
			flags.IntVarP(&o.lines, "lines", "n", o.lines, "how many lines to begin with, -1 for all")
			flags.BoolVar(&o.raw, "raw", false, "print entries as they are stored, with --json as cat --json does")
			o.add(flags)
			o.addPrint(flags)
		},
		run:      o.run,
		fits:     true,
		complete: completeTraces,
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
	if o.raw && o.selects() {
		return usagef("--raw prints all entries: it cannot be used with -q, --since or --until")
	}
	if _, row := rowNamed(name); row && (o.raw || o.follow) {
		return usagef("--raw and --follow read a whole file: they cannot be used with FILE#ID")
	}
	if o.follow && name == "-" {
		return usagef("tail -f cannot follow the standard input: name a file")
	}
	if fi, err := os.Stat(name); name == "-" || err != nil || !fi.IsDir() {
		return tailFile(ctx, c, name, *o)
	}
	o.folder = true
	seen, was := "", os.FileInfo(nil)
	for {
		newest, err := newestTrace(name)
		if err != nil {
			return err
		}
		now, _ := osfile.Stat(newest)
		switch {
		case newest != "" && (newest != seen || !os.SameFile(now, was)):
			seen, was = newest, now
			if !o.follow || strings.HasSuffix(newest, ".iet") { // a finished file is not followed
				c.say("using the newest trace, %s", newest)
				err := tailFile(ctx, c, newest, *o)
				if died, ok := errors.AsType[diedError](err); ok { // continue with the next program
					c.say("%s", died)
					err = nil
				}
				if err != nil || !o.follow {
					return err
				}
				o.lines = -1 // print all lines of files that begin later
				seen = format.Find(newest)
				if seen != newest {
					was, _ = osfile.Stat(seen)
				}
			}
		case newest == "" && !o.follow:
			return fmt.Errorf("%s: the folder has no trace%s", name, otherFolder(name))
		}
		if !wait(ctx) {
			return nil
		}
	}
}

func tailFile(ctx context.Context, c *console, name string, o tailOptions) error {
	for told := false; o.follow; told = true {
		if _, err := os.Stat(format.Find(name)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if !told {
			c.say("waiting for %s", name)
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
		name = l.trace
	}
	own, err := inPlace(name, o.from)
	switch {
	case err != nil:
		return err
	case o.follow && !own:
		return usagef("tail -f follows only ENTRACE's own formats (et, iet) and logs")
	}
	t := newTailer(c, name, o)
	defer func() { t.close() }()
	if !o.follow || isET(name) {
		err = t.open(ctx, own)
		if err == nil {
			err = t.begin(ctx)
		}
		if err == nil && !o.follow && own && !o.json && !o.asRows() && !t.newest.IsEnd() {
			if word, died := died(ctx, t.name); word == deadtrace.Killed {
				c.say("%s", died)
			}
		}
		return torn(name, errors.Join(err, t.damage()))
	}
	// Open the file first: printing can take a while, and the file may be renamed in that time.
	grows, err := openGrowing(ctx, name)
	if err != nil {
		return known(name, err)
	}
	defer grows.close()
	was, _ := osfile.LockHolder(format.Find(name))
	err = t.open(ctx, own)
	if errors.Is(err, format.ErrTruncated) || err == nil && !grows.is(t.name) { // the file has no first entry yet, or another file has the name now
		t.close()
		return follow(ctx, c, grows, t)
	}
	if err == nil {
		err = t.begin(ctx)
	}
	if err != nil || t.isET {
		return errors.Join(err, torn(name, t.damage()))
	}
	// The lock is held, but entries came from a dead program's journal: the program is about to die.
	for was == osfile.LockHeld && t.died && wait(ctx) {
		was, _ = osfile.LockHolder(t.name)
	}
	if was == osfile.LockFree || t.died { // a dead program writes no more entries
		if _, died := died(ctx, t.name); died != nil || t.died {
			return died
		}
	}
	grows.SkipTo(t.size, t.entries, t.newest)
	grows.read(t.newest)
	return follow(ctx, c, grows, t)
}

// isET reports whether the file name is an ET, to which nothing is added.
func isET(name string) bool {
	f, err := osfile.OpenRead(format.Find(name))
	if err != nil {
		return false
	}
	defer f.Close()
	_, stored, err := format.ReadMagic(f)
	return err == nil && stored == format.ET
}

// asRows reports whether tail prints rows of a view. Otherwise it prints entries as they arrive.
func (o *tailOptions) asRows() bool { return o.selects() || len(o.clock) > 0 || o.json && !o.raw }

// A diedError reports that the program that wrote a file has died. Its text says how the program died.
type diedError string

func (e diedError) Error() string { return string(e) }

// died returns a [diedError] if the program that wrote a file has died. The error names the state of the file, the
// spans that were open, and the command that finishes the file. word is the state of the file, or "" if a program
// is still writing it.
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

// follow shows the new entries of a growing file, and then the entries of the files that follow. Files that the
// program has begun and renamed in the meantime come before the one that has the name now. It closes all of them.
func follow(ctx context.Context, c *console, g *growing, t *tailer) error {
	stream, later := g.path, g.later
	var renamed []string // files that come next
	defer func() { g.close() }()
	for {
		rotated, err := g.show(ctx, t)
		if err != nil || ctx.Err() != nil || !rotated && !t.o.folder {
			return err
		}
		t.close()
		read := false
		renamed, read = readmark.After(append(renamed, later.New()...), g.end)
		if !read && len(renamed) > 0 && rotated {
			c.say("files before %s may have been removed before they were read", renamed[0])
		}
		if !rotated && len(renamed) == 0 {
			return nil // the program has ended
		}
		// The next file is about to get the name of this file.
		for g.path == stream && len(renamed) == 0 && g.is(stream) {
			if lock, _ := osfile.LockHolder(stream); lock == osfile.LockFree && g.is(stream) {
				return nil // the program died before the rotation, or the file already has its final name
			}
			if !wait(ctx) {
				return nil
			}
		}
		var next *growing
		next, renamed, err = openNext(ctx, c, stream, later, renamed)
		if err != nil || next == nil {
			return err
		}
		g.close()
		g = next
	}
}

// openNext opens the first file of renamed, or, if there is none, the one that has the name stream now. It returns the
// list of the renamed files that are not read yet, with this file. It returns nil if ctx is done.
func openNext(ctx context.Context, c *console, stream string, later *deadtrace.Rotation, renamed []string) (*growing, []string, error) {
	for {
		if len(renamed) > 0 {
			next, err := openGrowing(ctx, renamed[0])
			if !errors.Is(err, fs.ErrNotExist) {
				return next, renamed, err
			}
			if !osfile.Exists(format.Find(renamed[0])) { // otherwise it has just been finished
				c.say("%s was removed before it was read", renamed[0])
				renamed = renamed[1:]
			}
			continue
		}
		next, err := openGrowing(ctx, stream) // if the program has ended in the meantime, this opens the ET
		renamed = later.New()
		switch {
		case err == nil && len(renamed) == 0:
			return next, nil, nil
		case err == nil: // these files had the name before next
			next.close()
		case !errors.Is(err, fs.ErrNotExist):
			return nil, nil, err
		case len(renamed) == 0 && !wait(ctx):
			return nil, nil, nil
		}
	}
}

// show prints new entries until the file ends. It returns true if another file follows.
func (g *growing) show(ctx context.Context, t *tailer) (rotated bool, err error) {
	now, cancel := context.WithCancel(ctx)
	cancel() // with now, Next returns only entries that are in the file already
	for within := ctx; ; {
		id, e, err := g.Next(within)
		if err == nil {
			g.read(e)
			within = now
			err = t.add(g, id, e)
			if err == nil && !t.window.Full() {
				continue
			}
		}
		if perr := t.printNew(ctx, g); errors.Is(perr, errMoved) {
			return true, nil
		} else if perr != nil && ctx.Err() == nil {
			return false, perr
		}
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return g.rotated, nil
		case errors.Is(err, format.ErrTruncated):
			if _, died := died(ctx, g.path); died != nil {
				return false, died
			}
			return false, err
		case err == nil, within == now && errors.Is(err, context.Canceled):
			within = ctx
		default:
			return false, err
		}
	}
}

// errMoved is the error if the name of the followed file belongs to another file now.
var errMoved = errors.New("the file was renamed")
