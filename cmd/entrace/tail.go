package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/read/interest"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
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
prints entries as they are stored, as cat does.`,
		args: takes(0, 1),
		flags: func(flags *pflag.FlagSet) {
			flags.BoolVarP(&o.follow, "follow", "f", false, "wait for more")
			flags.IntVarP(&o.lines, "lines", "n", o.lines, "how many lines to begin with, -1 for all")
			flags.BoolVar(&o.raw, "raw", false, "print entries as they are stored, with --json as cat --json does")
			o.add(flags)
			o.addPrint(flags)
		},
		run:      o.run,
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
	own, err := inPlace(name, o.from)
	switch {
	case err != nil:
		return err
	case o.follow && !own:
		return usagef("tail -f follows only ENTRACE's own formats (et, iet)")
	}
	l := &lines{console: c, o: o, name: name}
	defer func() { l.close() }()
	if !o.follow {
		err = l.open(ctx, own)
		if err == nil {
			err = l.begin(ctx)
		}
		if err == nil && own && !o.json && !o.asRows() && (l.last == nil || !l.last.ended()) {
			if word, died := died(ctx, l.path()); word == deadtrace.Killed {
				c.say("%s", died)
			}
		}
		return torn(name, errors.Join(err, l.damage()))
	}
	// Open the file first: printing can take a while, and the file may be renamed in that time.
	grows, err := openGrowing(ctx, name)
	if err != nil {
		return known(name, err)
	}
	defer grows.close()
	was, _ := osfile.LockHolder(format.Find(name))
	err = l.open(ctx, own)
	if errors.Is(err, format.ErrTruncated) || err == nil && !grows.is(l.path()) { // the file has no first entry yet, or another file has the name now
		l.close()
		return follow(ctx, c, grows, l)
	}
	if err == nil {
		err = l.begin(ctx)
	}
	if err != nil || l.last != nil && l.last.isET || l.last == nil && l.f.Format() == format.ET { // an ET does not grow
		return errors.Join(err, torn(name, l.damage()))
	}
	// The lock is held, but entries came from a dead program's journal: the program is about to die.
	for was == osfile.LockHeld && l.hasJournal() && wait(ctx) {
		was, _ = osfile.LockHolder(l.path())
	}
	if was == osfile.LockFree || l.hasJournal() { // a dead program writes no more entries
		if _, died := died(ctx, l.path()); died != nil || l.hasJournal() {
			return died
		}
	}
	if err := l.skipIn(grows); err != nil {
		return err
	}
	l.follows = true
	return follow(ctx, c, grows, l)
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
// program has begun and renamed in the meantime come before the one that has the name now.
func follow(ctx context.Context, c *console, g *growing, l *lines) error {
	first, stream, later := g, g.path, g.later
	var renamed []string // files that come next
	for {
		rotated, err := g.show(ctx, l)
		if err != nil || ctx.Err() != nil || !rotated && !l.o.folder {
			return err
		}
		l.close()
		renamed = append(renamed, later.New()...)
		if i := slices.IndexFunc(renamed, g.isIn); i >= 0 {
			renamed = renamed[i+1:]
		} else if len(renamed) > 0 && rotated && !g.end.IsZero() {
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
		if g != first { // the caller closes the first one
			g.close()
		}
		g, renamed, err = openNext(ctx, c, stream, later, renamed)
		if err != nil || g == nil {
			return err
		}
		defer g.close()
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

// show shows new entries until the file ends. It returns true if another file follows.
func (g *growing) show(ctx context.Context, l *lines) (rotated bool, err error) {
	for {
		id, e, err := g.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return g.rotated, nil
		case errors.Is(err, format.ErrTruncated):
			if _, died := died(ctx, g.path); died != nil {
				return false, died
			}
			return false, err
		case err != nil:
			return false, err
		}
		g.read(e)
		if l.o.asRows() {
			err = l.grow(ctx, g, id)
		} else {
			err = l.show(int64(id), e)
		}
		if errors.Is(err, errMoved) {
			return true, nil
		}
		if err != nil && ctx.Err() == nil {
			return false, err
		}
	}
}

// lines prints the last lines of the entries that a file has, and then new entries as they arrive.
type lines struct {
	*console

	o       tailOptions
	name    string
	last    *lastPart            // the end of a large file; nil if rows has the whole file
	rows    *rowTail             // the whole file, if it had to be read
	f       *format.File         // the file; used to look up the beginning of a span
	follows bool                 // the last lines are printed, and new entries follow
	spans   map[string]spanStart // by span id: open spans whose beginning tail has read
	first   time.Time
	line    []byte
}

// open reads the last entries of a large file in one of ENTRACE's own formats. It reads any other file completely.
func (l *lines) open(ctx context.Context, own bool) (err error) {
	if own {
		l.name = format.Find(l.name)
	}
	if own && l.o.lines >= 0 && l.o.time != timeOffset && !l.o.raw && !l.o.asRows() { // --raw prints ids, and readLast does not know them
		l.last, err = readLast(l.name)
		if err == nil && l.last != nil {
			return nil
		}
	}
	return l.openAll(ctx)
}

// openAll reads the whole file.
func (l *lines) openAll(ctx context.Context) (err error) {
	l.last = nil
	l.o.follows = l.o.follow
	l.rows, err = openTail(ctx, l.console, l.name, &l.o)
	if err == nil {
		l.f, l.first = l.rows.v.Files()[0], l.rows.lines.first
	}
	return err
}

// path returns the name of the open file.
func (l *lines) path() string {
	if l.last != nil {
		return l.name
	}
	return l.f.Name()
}

// hasJournal reports whether entries came from the journal of a dead program.
func (l *lines) hasJournal() bool {
	if l.f == nil {
		return false
	}
	n, _ := l.f.Journal()
	return n > 0
}

// skipIn makes g, the follower of the file, continue after the entries that l has already read.
func (l *lines) skipIn(g *growing) (err error) {
	size, id, last := int64(0), int64(0), new(format.TraceEntry)
	if l.last != nil {
		// The id of the last entry is not known. The offset takes its place: every entry has more than
		// one byte, so the offset is greater than the id, and no valid parent is rejected.
		size, id, last = l.last.end, min(l.last.end, math.MaxUint32/2), l.last.entries[len(l.last.entries)-1]
	} else {
		size, id = l.f.WholeSize(), int64(l.f.Len())
		if id > 0 {
			last, err = l.f.Entry(uint32(id - 1))
		}
	}
	if err == nil {
		g.SkipTo(size, uint32(id), last)
		g.read(last)
	}
	return err
}

func (l *lines) damage() error {
	if l.rows == nil {
		return nil
	}
	return l.rows.Damage()
}

// close closes the file. Then l can be used for the next file.
func (l *lines) close() {
	switch {
	case l.rows != nil:
		_ = l.rows.Close() // nothing was written to it
	case l.f != nil:
		_ = l.f.Close()
	}
	l.rows, l.f, l.last, l.spans = nil, nil, nil, nil
	l.follows = true
}

// errMoved is the error if the name of the followed file belongs to another file now.
var errMoved = errors.New("the file was renamed")

// grow prints the new rows after entry id of a growing file.
func (l *lines) grow(ctx context.Context, g *growing, id uint32) error {
	if l.rows == nil {
		l.name = g.path
		if err := l.openAll(ctx); errors.Is(err, fs.ErrNotExist) {
			return errMoved
		} else if err != nil {
			return err
		}
		if !g.is(l.path()) {
			return errMoved
		}
		return l.rows.show(ctx)
	}
	if int(id) < l.f.Len() {
		return nil
	}
	return l.rows.grow(ctx)
}

// A spanStart holds the beginning of a span until its end arrives and the span is printed.
type spanStart struct {
	name       string
	start      time.Time
	attributes []format.Attribute
}

// maxStarts limits the size of lines.spans, because some spans never end. If the beginning of a span was not kept,
// the line at its end may have no name.
const maxStarts = 100_000

// begin prints the last lines of the entries that the file has.
func (l *lines) begin(ctx context.Context) error {
	if l.last != nil {
		from, enough := l.from()
		if enough {
			for _, e := range l.last.entries[from:] {
				if err := l.show(-1, e); err != nil {
					return err
				}
			}
			return nil
		}
		if err := l.openAll(ctx); err != nil {
			return err
		}
	}
	if !l.o.raw {
		return l.rows.show(ctx)
	}
	from := 0
	if l.o.lines >= 0 {
		from = max(0, l.f.Len()-l.o.lines)
	}
	return l.f.Walk(uint32(from), func(id uint32, e *format.TraceEntry) error { return l.show(int64(id), e) })
}

// from returns the index in l.last of the first entry to print. It also keeps the beginnings of the spans that end
// in these entries. enough is false if l.last has too few lines, or lacks one of these beginnings.
func (l *lines) from() (from int, enough bool) {
	starts := make(map[string]bool)
	from = len(l.last.entries)
	left := l.o.lines
	for i := from - 1; i >= 0 && (left > 0 || len(starts) > 0); i-- {
		e := l.last.entries[i]
		id, _ := e.Attribute(format.AttrSpanID)
		switch {
		case left > 0 && l.shown(e):
			left--
			from = i
			if e.Metadata.Name == format.NameSpanEnd {
				starts[id.Text()] = true
			}
		case starts[id.Text()] && !e.Message.Valid:
			delete(starts, id.Text())
			l.keep(id.Text(), e)
		}
	}
	return from, left == 0 && len(starts) == 0
}

// shown reports whether tail prints a line for an entry.
func (l *lines) shown(e *format.TraceEntry) bool {
	if e.Message.Valid && e.Metadata.Name != format.NameResource && e.Metadata.Name != format.NameSpanEnd {
		return true
	}
	event, _ := e.Attribute(mapping.AttrEvent)
	_, took := e.Attribute(format.AttrDuration)
	return event.Bool() || took
}

func (l *lines) show(id int64, e *format.TraceEntry) error {
	if l.o.raw {
		l.line = appendLine(l.console, l.line[:0], id, e, l.o.json)
		_, err := l.out.Write(l.line)
		return err
	}
	if !l.shown(e) {
		if span, ok := e.Attribute(format.AttrSpanID); ok && l.follows {
			l.keep(span.Text(), e)
		}
		return nil
	}
	t, timed := entryTime(e)
	var b strings.Builder
	parts := []string{}
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	attributes := interest.Readable(e)
	switch d, span := e.Attribute(format.AttrDuration); {
	case span && !e.Message.Valid || span && e.Metadata.Name == format.NameSpanEnd:
		s := spanStart{name: e.Metadata.Name, start: t}
		if e.Metadata.Name == format.NameSpanEnd {
			s = l.start(e)
			if e.Message.Valid { // the span was renamed
				s.name = e.Message.Value
			}
			attributes = merged(s.attributes, attributes)
		}
		n, _ := d.U64()
		took := clampDuration(n)
		t, timed = s.start.Add(took), !s.start.IsZero()
		if !timed && took > 365*24*time.Hour {
			took = 0 // the span has no start: this is the time of its end since 1970, not a duration
		}
		if e.Metadata.Level == format.LevelError {
			add(l.level(e.Metadata.Level))
		}
		add(l.paint(show.Bold, show.Safe(s.name)))
		add(l.paint(show.Blue, duration(took)))
		status, _ := e.Attribute(mapping.AttrStatusDescription)
		add(show.Safe(status.Text()))
	case e.Message.Valid:
		if own, ok := e.Attribute(mapping.AttrLogLevel); ok {
			add(show.Safe(own.Text()))
		} else {
			add(l.level(e.Metadata.Level))
		}
		add(show.Safe(e.Message.Value))
	default:
		if e.Metadata.Level == format.LevelError {
			add(l.level(e.Metadata.Level))
		}
		add("• " + show.Safe(e.Metadata.Name))
	}
	if timed && l.first.IsZero() {
		l.first = t
	}
	if timed {
		b.WriteString(l.paint(show.Dim, l.o.time.format(t, l.first)))
	}
	interest.Sort(attributes)
	var stacks []string // attributes with several lines of text
	for i := range attributes {
		at := &attributes[i]
		if text := strings.TrimRight(at.Value.Text(), "\n"); at.Value.Kind() == format.KindString && strings.Contains(text, "\n") {
			stacks = append(stacks, at.Name+":\n    "+strings.ReplaceAll(text, "\n", "\n    "))
			continue
		}
		add(l.paint(show.Dim, show.Safe(at.Name)+"=") + show.Value(at.Value))
	}
	b.WriteString(strings.Join(parts, " "))
	for _, text := range stacks {
		for line := range strings.Lines(text) {
			b.WriteString("\n    " + l.paint(show.Dim, show.Safe(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))))
		}
	}
	_, err := fmt.Fprintln(l.out, b.String())
	return err
}

// keep stores the beginning of a span until the end of the span is printed.
func (l *lines) keep(id string, e *format.TraceEntry) {
	if l.spans == nil {
		l.spans = make(map[string]spanStart)
	}
	if len(l.spans) < maxStarts {
		l.spans[strings.Clone(id)] = startOf(e)
	}
}

func startOf(e *format.TraceEntry) spanStart {
	e = e.Clone()
	t, _ := entryTime(e)
	return spanStart{e.Metadata.Name, t, interest.Readable(e)}
}

// start returns the beginning of the span that the entry end ends.
func (l *lines) start(end *format.TraceEntry) spanStart {
	id, _ := end.Attribute(format.AttrSpanID)
	if s, ok := l.spans[id.Text()]; ok {
		delete(l.spans, id.Text())
		return s
	}
	if l.f == nil && l.last != nil { // the span began before the entries in l.last
		if f, err := recorder.Open(l.name, &format.OpenOptions{Lenient: true}); err == nil {
			l.f = f
		}
	}
	if l.f != nil {
		if e, err := l.f.Entry(end.Parent); err == nil {
			if of, _ := e.Attribute(format.AttrSpanID); of.Text() == id.Text() {
				return startOf(e)
			}
		}
	}
	return spanStart{name: "a span"}
}

// merged returns the attributes of a span: the attributes of its beginning, with the values and additions of its
// end.
func merged(begin, end []format.Attribute) []format.Attribute {
	all := slices.Clone(begin)
	for _, a := range end {
		if i := slices.IndexFunc(all, func(b format.Attribute) bool { return a.Name == b.Name }); i >= 0 {
			all[i].Value = a.Value
		} else {
			all = append(all, a)
		}
	}
	return all
}

func entryTime(e *format.TraceEntry) (time.Time, bool) {
	v, ok := e.Attribute(format.AttrTime)
	if !ok {
		return time.Time{}, false
	}
	n, ok := v.I64()
	return time.Unix(0, n), ok && n != 0
}
