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

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/deadtrace"
	"github.com/entrace-go/entrace/internal/interest"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

type tailOptions struct {
	lookFlags

	follow, raw bool
	lines       int
}

func (a *app) tailCommand() *cobra.Command {
	o := tailOptions{lines: 10, lookFlags: lookFlags{time: timeLocal}}
	c := &cobra.Command{
		Use:   "tail [FILE|DIR]",
		Short: "Print what a trace has last, and with -f what comes",
		Long: "tail prints a line for each of the last log records, events and spans that have\n" +
			"ended in FILE, or in the newest trace in DIR, by default the current folder. With\n" +
			"-f it goes on with those that a running program adds, each once, until the program\n" +
			"ends or tail is interrupted; it waits for a FILE that is not there yet, and of a\n" +
			"DIR it goes on with the next program's. With -q, --since or --until it prints what\n" +
			"that selects. The time of a span is that of its end.\n\n" +
			"--raw prints entries as they are stored, as cat does.",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return wrongArgs(c, args)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.time.check(); err != nil {
				return err
			}
			name := "."
			if len(args) > 0 {
				name = args[0]
			}
			if o.raw && o.selects() {
				return usagef("--raw prints all entries, it does not go with -q, --since or --until")
			}
			return a.tail(cmd.Context(), name, o)
		},
		ValidArgsFunction: completeTraces,
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "wait for more")
	c.Flags().IntVarP(&o.lines, "lines", "n", o.lines, "how many lines to begin with, -1 for all")
	c.Flags().BoolVar(&o.raw, "raw", false, "print entries as they are stored, with --json as cat --json does")
	o.addQuery(c)
	o.add(c)
	o.addPrint(c)
	return c
}

func (a *app) tail(ctx context.Context, name string, o tailOptions) error {
	if o.follow && name == "-" {
		return usagef("tail -f needs a file")
	}
	if fi, err := os.Stat(name); name == "-" || err != nil || !fi.IsDir() {
		return a.tailFile(ctx, name, o)
	}
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
			if !o.follow || strings.HasSuffix(newest, ".iet") { // what has ended is not followed
				fmt.Fprintf(a.err, "entrace: the newest is %s\n", safe(newest))
				err := a.tailFile(ctx, newest, o)
				if died, ok := errors.AsType[diedError](err); ok { // the next program may come
					fmt.Fprintln(a.err, "entrace:", safe(died.Error()))
					err = nil
				}
				if err != nil || !o.follow {
					return err
				}
				o.lines = -1 // of what begins later
				if seen = format.Find(newest); seen != newest {
					was, _ = osfile.Stat(seen)
				}
			}
		case newest == "" && !o.follow:
			return fmt.Errorf("%s: there is no trace", name)
		}
		if !wait(ctx) {
			return nil
		}
	}
}

// wait waits a little and reports whether to go on.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(50 * time.Millisecond):
		return true
	}
}

func (a *app) tailFile(ctx context.Context, name string, o tailOptions) error {
	for told := false; o.follow; told = true {
		if _, err := os.Stat(format.Find(name)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if !told {
			fmt.Fprintf(a.err, "entrace: waiting for %s\n", safe(name))
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
		return usagef("tail -f follows ENTRACE's own formats alone")
	case o.follow && o.asRows():
		return a.tailRows(ctx, name, o)
	}
	l := &lines{app: a, o: o, name: name}
	defer func() { l.close() }()
	if !o.follow {
		if err = l.open(ctx, own); err == nil {
			err = l.begin(ctx)
		}
		if err == nil && own && !o.json && !o.asRows() {
			if word, died := a.died(ctx, l.path()); word == deadtrace.Killed {
				fmt.Fprintln(a.err, "entrace:", safe(died.Error()))
			}
		}
		return torn(name, errors.Join(err, l.damage()))
	}
	// It is open before anything is printed, which can take a while.
	grows, err := openGrowing(ctx, name)
	if err != nil {
		return known(name, err)
	}
	defer grows.close()
	was, _ := osfile.LockHolder(format.Find(name))
	err = l.open(ctx, own)
	if errors.Is(err, format.ErrTruncated) || err == nil && !grows.is(l.path()) { // it is only just made, or another one already
		l.close()
		return a.follow(ctx, grows, l)
	}
	if err == nil {
		err = l.begin(ctx)
	}
	if err != nil || l.last == nil && l.f.Format() == format.ET { // which does not grow
		return errors.Join(err, torn(name, l.damage()))
	}
	for was == osfile.LockHeld && l.hasJournal() && wait(ctx) { // its program is about to die
		was, _ = osfile.LockHolder(l.path())
	}
	if was == osfile.LockFree || l.hasJournal() { // nothing comes if its program is dead
		if _, died := a.died(ctx, l.path()); died != nil || l.hasJournal() {
			return died
		}
	}
	if err := l.skipIn(grows); err != nil {
		return err
	}
	l.follows = true
	return a.follow(ctx, grows, l)
}

// asRows reports whether rows are printed that a view has to find, and not entries as they come.
func (o *tailOptions) asRows() bool { return o.selects() || len(o.clock) > 0 || o.json && !o.raw }

// A diedError says how the program died that wrote a file.
type diedError string

func (e diedError) Error() string { return string(e) }

// died returns a [diedError] with the state of a file, which spans were open, and what finishes the file.
// The word is the state of the file; the error is nil if no program died.
func (a *app) died(ctx context.Context, name string) (word string, died error) {
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
	if s.Word == deadtrace.Ended || s.Word == deadtrace.Damaged && !s.Recorded { // another writer has no lock
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

// maxOpen is how many names of open spans died returns.
const maxOpen = 10

// A growing file is followed under whatever name it gets.
type growing struct {
	*format.Follower

	path    string
	was     os.FileInfo
	rotated bool // the last entry says that another file follows
}

// openGrowing opens a file, or the one that is left of its trace. It waits for the first bytes of
// one that is being made.
func openGrowing(ctx context.Context, name string) (*growing, error) {
	for began := time.Now(); ; {
		path := format.Find(name)
		was, err := osfile.Stat(path)
		if err != nil {
			return nil, err
		}
		fl, err := format.Follow(path, nil)
		if errors.Is(err, format.ErrTruncated) {
			lock, _ := osfile.LockHolder(path)
			if alive := lock != osfile.LockFree || time.Since(began) < emptyFor; alive && wait(ctx) {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		g := &growing{Follower: fl, path: path, was: was}
		if g.is(path) {
			return g, nil
		}
		g.close() // another one got the name in between
	}
}

// emptyFor is how long a file without its first bytes and without a lock can be one that is
// being made.
const emptyFor = time.Second

// is reports whether the file has the name path now.
func (g *growing) is(path string) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(g.was, now)
}

func (g *growing) close() { _ = g.Close() } // nothing was written to it

// follow shows the entries of a growing file, and then those of the files that follow it.
func (a *app) follow(ctx context.Context, g *growing, l *lines) error {
	return a.followFiles(ctx, g, func(g *growing) (bool, error) {
		rotated, err := g.show(ctx, l)
		if rotated {
			l.close()
		}
		return rotated, err
	})
}

// followFiles calls show for a growing file, and then for those that follow it.
func (a *app) followFiles(ctx context.Context, g *growing, show func(g *growing) (rotated bool, err error)) error {
	first := g
	for {
		rotated, err := show(g)
		if err != nil || !rotated {
			return err
		}
		// The next file is about to get the name.
		for g.is(g.path) {
			if lock, _ := osfile.LockHolder(g.path); lock == osfile.LockFree && g.is(g.path) {
				return nil // its program died before that, or the file got its last name long ago
			}
			if !wait(ctx) {
				return nil
			}
		}
		var next *growing
		for {
			// When the program has ended meanwhile there is the ET.
			if next, err = openGrowing(ctx, g.path); !errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !wait(ctx) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		if g != first { // which is its opener's
			g.close()
		}
		g = next
		defer next.close()
	}
}

// show shows the entries that come. It returns true when another file follows.
func (g *growing) show(ctx context.Context, l *lines) (rotated bool, err error) {
	for {
		id, e, err := g.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return g.rotated, nil
		case errors.Is(err, format.ErrTruncated):
			if _, died := l.died(ctx, g.path); died != nil {
				return false, died
			}
			return false, err
		case err != nil:
			return false, err
		}
		g.rotated = e.IsRotated()
		if err := l.show(int64(id), e); err != nil {
			return false, err
		}
	}
}

// lines prints entries as they come, and before that the last lines of what is there.
type lines struct {
	*app

	o       tailOptions
	name    string
	last    []*format.TraceEntry // the last ones of a large file
	end     int64                // where they end in the file
	rows    *rowTail             // all of the file, if that was needed
	f       *format.File         // the file, where a span's beginning may be found
	follows bool                 // the lines of before are printed
	spans   map[string]spanStart // by span id: began later, not ended yet
	first   time.Time
	line    []byte
}

// open opens the last entries of a large file, which is one of ENTRACE's own formats, or all of any other.
func (l *lines) open(ctx context.Context, own bool) (err error) {
	if own {
		l.name = format.Find(l.name)
	}
	if own && l.o.lines >= 0 && l.o.time != timeOffset && !l.o.raw && !l.o.asRows() { // --raw prints ids, which readLast does not know
		if l.last, l.end, err = readLast(l.name); err == nil && l.last != nil {
			return nil
		}
	}
	return l.openAll(ctx)
}

// openAll opens the file.
func (l *lines) openAll(ctx context.Context) (err error) {
	l.last = nil
	l.o.follows = l.o.follow
	if l.rows, err = l.openTail(ctx, l.name, &l.o); err == nil {
		l.f, l.first = l.rows.v.Files()[0], l.rows.lines.first
	}
	return err
}

// path returns the name of the file that is open.
func (l *lines) path() string {
	if l.last != nil {
		return l.name
	}
	return l.f.Name()
}

// hasJournal reports whether some of the file was in the journal of a program that is dead.
func (l *lines) hasJournal() bool {
	if l.f == nil {
		return false
	}
	n, _ := l.f.Journal()
	return n > 0
}

// skipIn lets a follower of the file continue after what l has read.
func (l *lines) skipIn(g *growing) (err error) {
	size, id, last := int64(0), int64(0), new(format.TraceEntry)
	if l.last != nil {
		// The id is not known. The offset is above it, because every entry has more than one byte: with
		// the offset in its place no parent that is right is refused.
		size, id, last = l.end, min(l.end, math.MaxUint32/2), l.last[len(l.last)-1]
	} else if size, id = l.f.WholeSize(), int64(l.f.Len()); id > 0 {
		last, err = l.f.Entry(uint32(id - 1))
	}
	if err == nil {
		g.SkipTo(size, uint32(id), last)
		g.rotated = last.IsRotated()
	}
	return err
}

func (l *lines) damage() error {
	if l.rows == nil {
		return nil
	}
	return l.rows.Damage()
}

// close forgets the file, for the one that follows it.
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

// A spanStart keeps the beginning of a span until its end comes and both are printed.
type spanStart struct {
	name       string
	start      time.Time
	attributes []format.Attribute
}

// maxStarts bounds lines.spans, since some never end: the end of one that is not kept has no
// name.
const maxStarts = 100_000

// begin prints the last lines of what is there.
func (l *lines) begin(ctx context.Context) error {
	if l.last != nil {
		from, enough := l.from()
		if enough {
			for _, e := range l.last[from:] {
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

// from returns the first of the last entries that makes a line, and whether that makes as many lines as
// are to be printed, with the beginnings of the spans that end in them.
func (l *lines) from() (from int, enough bool) {
	starts := make(map[string]bool)
	from = len(l.last)
	left := l.o.lines
	for i := from - 1; i >= 0 && (left > 0 || len(starts) > 0); i-- {
		e := l.last[i]
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

// shown reports whether there is a line for an entry.
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
		l.line = l.appendLine(l.line[:0], id, e, l.o.json)
		_, err := l.out.Write(l.line)
		return err
	}
	if span, ok := e.Attribute(format.AttrSpanID); ok && l.follows && !l.shown(e) {
		l.keep(span.Text(), e)
	}
	if !l.shown(e) {
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
			if e.Message.Valid { // it was renamed
				s.name = e.Message.Value
			}
			attributes = merged(s.attributes, attributes)
		}
		n, _ := d.U64()
		took := clampDuration(n)
		t, timed = s.start.Add(took), !s.start.IsZero()
		if e.Metadata.Level == format.LevelError {
			add(l.level(e.Metadata.Level))
		}
		add(l.paint(colorBold, safe(s.name)))
		add(l.paint(colorBlue, duration(took)))
		status, _ := e.Attribute(mapping.AttrStatusDescription)
		add(safe(status.Text()))
	case e.Message.Valid:
		if own, ok := e.Attribute(mapping.AttrLogLevel); ok {
			add(safe(own.Text()))
		} else {
			add(l.level(e.Metadata.Level))
		}
		add(safe(e.Message.Value))
	default:
		if e.Metadata.Level == format.LevelError {
			add(l.level(e.Metadata.Level))
		}
		add("• " + safe(e.Metadata.Name))
	}
	if timed && l.first.IsZero() {
		l.first = t
	}
	if timed {
		b.WriteString(l.paint(colorDim, l.o.time.format(t, l.first)))
	}
	interest.Sort(attributes)
	var stacks []string // texts of several lines
	for i := range attributes {
		at := &attributes[i]
		if text := strings.TrimRight(at.Value.Text(), "\n"); at.Value.Kind() == format.KindString && strings.Contains(text, "\n") {
			stacks = append(stacks, at.Name+":\n    "+strings.ReplaceAll(text, "\n", "\n    "))
			continue
		}
		add(l.paint(colorDim, safe(at.Name)+"=") + valueText(at.Value))
	}
	b.WriteString(strings.Join(parts, " "))
	for _, text := range stacks {
		for line := range strings.Lines(text) {
			b.WriteString("\n    " + l.paint(colorDim, safe(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    "))))
		}
	}
	_, err := fmt.Fprintln(l.out, b.String())
	return err
}

// keep keeps the beginning of a span for its end.
func (l *lines) keep(id string, e *format.TraceEntry) {
	if l.spans == nil {
		l.spans = make(map[string]spanStart)
	}
	if len(l.spans) < maxStarts {
		l.spans[strings.Clone(id)] = startOf(e)
	}
}

func startOf(e *format.TraceEntry) spanStart {
	s := spanStart{name: strings.Clone(e.Metadata.Name)}
	s.start, _ = entryTime(e)
	for _, a := range interest.Readable(e) {
		v := a.Value
		if v.Kind() == format.KindString {
			v = format.StringValue(strings.Clone(v.Text()))
		} else if v.Kind() == format.KindBytes {
			v = format.BytesValue(slices.Clone(v.Bytes()))
		}
		s.attributes = append(s.attributes, format.Attribute{Name: strings.Clone(a.Name), Value: v})
	}
	return s
}

// start returns the beginning of the span that the entry end ends.
func (l *lines) start(end *format.TraceEntry) spanStart {
	id, _ := end.Attribute(format.AttrSpanID)
	if s, ok := l.spans[id.Text()]; ok {
		delete(l.spans, id.Text())
		return s
	}
	if l.f == nil && l.last != nil { // it is far back
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

// merged returns the attributes of a span at its beginning, with what is new or different at
// its end.
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
	return time.Unix(0, n), ok
}
