package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/entrace-go/entrace/format"
)

type tailOptions struct {
	follow, json, raw bool
	lines             int
	time              timeStyle
}

func (a *app) tailCommand() *cobra.Command {
	o := tailOptions{lines: 10, time: timeLocal}
	c := &cobra.Command{
		Use:   "tail [FILE|DIR]",
		Short: "Print what a trace has last, and with -f what comes",
		Long: "tail prints a line for each of the last log records, events and spans that have\n" +
			"ended in FILE, or in the newest trace in DIR, by default the current folder. With\n" +
			"-f it goes on with those that a running program adds, each once, until the program\n" +
			"ends or tail is interrupted; it waits for a FILE that is not there yet, and of a\n" +
			"DIR it goes on with the next program's.\n\n" +
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
			return a.tail(cmd.Context(), name, o)
		},
		ValidArgsFunction: completeTraces,
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "wait for more")
	c.Flags().IntVarP(&o.lines, "lines", "n", o.lines, "how many lines to begin with, -1 for all")
	c.Flags().BoolVar(&o.json, "json", false, "print entries as they are stored, one JSON object each")
	c.Flags().BoolVar(&o.raw, "raw", false, "print entries as they are stored")
	c.Flags().StringVar((*string)(&o.time), "time", string(timeLocal), "print times: `offset` from the first, utc, local or none")
	return c
}

func (a *app) tail(ctx context.Context, name string, o tailOptions) error {
	if o.follow && name == "-" {
		return usagef("tail -f needs a file")
	}
	if fi, err := os.Stat(name); name == "-" || err != nil || !fi.IsDir() {
		return a.tailFile(ctx, name, o)
	}
	seen := ""
	for {
		newest, err := newestTrace(name)
		if err != nil {
			return err
		}
		switch {
		case newest != "" && newest != seen:
			seen = newest
			if !o.follow || strings.HasSuffix(newest, ".iet") { // what has ended is not followed
				fmt.Fprintf(a.err, "entrace: %s\n", safe(newest))
				if err := a.tailFile(ctx, newest, o); err != nil || !o.follow {
					return err
				}
				o.lines = -1 // of what begins later
				seen = format.Find(newest)
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

// newestTrace returns the trace in a folder that was changed last, "" if there is none.
func newestTrace(dir string) (newest string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var latest time.Time
	for _, e := range list {
		ext := filepath.Ext(e.Name())
		if ext != ".et" && ext != ".iet" || !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if t := fi.ModTime(); newest == "" || t.After(latest) {
			newest, latest = filepath.Join(dir, e.Name()), t
		}
	}
	return newest, nil
}

func (a *app) tailFile(ctx context.Context, name string, o tailOptions) error {
	seekable, done, err := a.seekable(name)
	if err != nil {
		return err
	}
	defer done()
	for told := false; o.follow; told = true {
		if _, err := os.Stat(format.Find(seekable)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		if !told {
			fmt.Fprintf(a.err, "entrace: waiting for %s\n", safe(name))
		}
		if !wait(ctx) {
			return nil
		}
	}
	var grows *growing
	if o.follow {
		// It is open before anything is printed, which can take a while.
		if grows, err = openGrowing(format.Find(seekable)); err != nil {
			return known(name, err)
		}
		defer grows.close()
	}
	f, err := format.Open(seekable, &format.OpenOptions{Prefix: true})
	if o.follow && errors.Is(err, format.ErrTruncated) { // it is only just made
		return a.follow(ctx, grows, 0, &lines{app: a, o: o})
	}
	if err != nil {
		return known(name, torn(name, err))
	}
	defer f.Close()
	if o.follow && !grows.is(f.Name()) { // it is another one already
		return a.follow(ctx, grows, 0, &lines{app: a, o: o})
	}
	n, missing := f.Journal()
	if o.follow && errors.Is(missing, format.ErrLocked) {
		missing = nil // it will come
	}
	a.tellJournal(f.Name(), count(n, "entry is", "entries are"), n > 0, missing)
	l := &lines{app: a, o: o, f: f}
	from, err := l.begin()
	if err == nil {
		err = f.Walk(from, l.show)
	}
	if !o.follow || f.Format() == format.ET || err != nil {
		return errors.Join(err, torn(name, f.Damage()))
	}
	return a.follow(ctx, grows, int64(f.Len()), l)
}

// A growing file is followed under whatever name it gets.
type growing struct {
	*format.Follower

	path string
	was  os.FileInfo
}

func openGrowing(path string) (*growing, error) {
	for {
		was, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		fl, err := format.Follow(path, nil)
		if err != nil {
			return nil, err
		}
		g := &growing{fl, path, was}
		if g.is(path) {
			return g, nil
		}
		g.close() // another one got the name in between
	}
}

// is reports whether the file has the name path now.
func (g *growing) is(path string) bool {
	now, err := os.Stat(path)
	return err == nil && os.SameFile(g.was, now)
}

func (g *growing) close() { _ = g.Close() } // nothing was written to it

// follow shows the entries of a growing file from one on, and then those of the files that
// follow it.
func (a *app) follow(ctx context.Context, g *growing, from int64, l *lines) error {
	defer func() { g.close() }()
	for {
		rotated, err := g.show(ctx, from, l)
		if err != nil || !rotated {
			return err
		}
		// The next file is about to get the name.
		for g.is(g.path) {
			if !wait(ctx) {
				return nil
			}
		}
		var next *growing
		for {
			// When the program has ended meanwhile there is the ET.
			if next, err = openGrowing(format.Find(g.path)); !errors.Is(err, fs.ErrNotExist) {
				break
			}
			if !wait(ctx) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		g.close()
		g, from = next, 0
		l.f, l.spans = nil, nil
	}
}

// show shows the entries from one on. It returns true when another file follows.
func (g *growing) show(ctx context.Context, from int64, l *lines) (rotated bool, err error) {
	for {
		id, e, err := g.Next(ctx)
		switch {
		case errors.Is(err, io.EOF), ctx.Err() != nil:
			return rotated, nil
		case err != nil:
			return false, err
		}
		rotated = format.EndsRotated(e)
		if int64(id) < from {
			continue
		}
		if err := l.show(id, e); err != nil {
			return false, err
		}
	}
}

// lines prints entries, in the order in which they were recorded.
type lines struct {
	*app

	o     tailOptions
	f     *format.File         // what was there in the beginning; nil: nothing
	spans map[uint32]spanStart // that began later and have not ended
	first time.Time
	line  []byte
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

// begin returns the entry from which on there are as many lines as are wanted.
func (l *lines) begin() (uint32, error) {
	n := l.f.Len()
	if l.o.lines < 0 || n == 0 {
		return 0, nil
	}
	if l.o.raw || l.o.json {
		return uint32(max(0, n-l.o.lines)), nil
	}
	if e, err := l.f.Entry(uint32(min(1, n-1))); err == nil {
		l.first, _ = entryTime(e)
	}
	id, left := n, l.o.lines
	for id > 0 && left > 0 {
		id--
		e, err := l.f.Entry(uint32(id))
		if err != nil {
			return 0, err
		}
		if l.shown(e) {
			left--
		}
	}
	return uint32(id), nil
}

// shown reports whether there is a line for an entry.
func (l *lines) shown(e *format.TraceEntry) bool {
	if e.Message.Valid && e.Metadata.Name != format.NameResource && e.Metadata.Name != format.NameSpanEnd {
		return true
	}
	event, _ := e.Attribute(format.AttrEvent)
	_, took := e.Attribute(format.AttrDuration)
	return event.Bool() || took
}

func (l *lines) show(id uint32, e *format.TraceEntry) error {
	if l.o.raw || l.o.json {
		l.line = l.appendLine(l.line[:0], int64(id), e, l.o.json)
		_, err := l.out.Write(l.line)
		return err
	}
	if _, span := e.Attribute(format.AttrSpanID); span && !l.shown(e) && (l.f == nil || int64(id) >= int64(l.f.Len())) {
		l.keep(id, e)
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
	attributes := people(e)
	switch d, span := e.Attribute(format.AttrDuration); {
	case span && !e.Message.Valid || span && e.Metadata.Name == format.NameSpanEnd:
		s := spanStart{name: e.Metadata.Name, start: t}
		if e.Metadata.Name == format.NameSpanEnd {
			s = l.start(e.Parent)
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
		status, _ := e.Attribute(format.AttrStatusDescription)
		add(safe(status.Text()))
	case e.Message.Valid:
		add(l.logLevel(e))
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
	byInterest(attributes, nil)
	for i := range attributes {
		at := &attributes[i]
		add(l.paint(colorDim, safe(at.Name)+"=") + valueText(at.Value))
	}
	b.WriteString(strings.Join(parts, " "))
	_, err := fmt.Fprintln(l.out, b.String())
	return err
}

// keep keeps the beginning of a span for its end.
func (l *lines) keep(id uint32, e *format.TraceEntry) {
	if l.spans == nil {
		l.spans = make(map[uint32]spanStart)
	}
	if len(l.spans) < maxStarts {
		l.spans[id] = startOf(e)
	}
}

func startOf(e *format.TraceEntry) spanStart {
	s := spanStart{name: strings.Clone(e.Metadata.Name)}
	s.start, _ = entryTime(e)
	for _, a := range people(e) {
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

// start returns the beginning of the span whose entry is id, which ends.
func (l *lines) start(id uint32) spanStart {
	if s, ok := l.spans[id]; ok {
		delete(l.spans, id)
		return s
	}
	if l.f != nil && int64(id) < int64(l.f.Len()) {
		if e, err := l.f.Entry(id); err == nil {
			return startOf(e)
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
