package gotrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"

	"golang.org/x/exp/trace"

	"github.com/entrace-go/entrace/internal/core/execbatch"
)

// A Span is a span in an execution trace. All times in an execution trace are nanoseconds since an unknown moment;
// see [Trace.Wall].
type Span struct {
	ID         uint64 // 0 for a span without a mark, which has the name of its task
	Parent     int32  // only for a span with a name: the span of the parent task, or NoSpan if there is none
	name       int32  // an index of Trace.names
	slot       int32  // the index among the open spans of its goroutine
	times      uint32 // the offset in Trace.packed; 0 if the span has no times
	Begin, End int64  // Begin is 0 if the span began before the trace, and End is 0 if it ended after it
	Handed     int64  // when the span was handed to the goroutine on which it ended; 0 if it was not handed over; or Unknown
	Goroutine  int64  // the goroutine on which the span began, or, if it began before the trace, the goroutine on which it ended
	ender      int64  // the goroutine on which it ended
}

// A Wait is a wait of a goroutine that worked for a span. It is at least LongWait long.
type Wait struct {
	Span     int32 // an index of Trace.Spans
	By       int32 // the span for which the goroutine that ended the wait worked, or Nobody or NoSpan
	Class    int32 // an index of Trace.Classes
	From, To int64
}

// Unknown is the time of a handover that is not known.
const Unknown int64 = -1

// LongWait is the minimum duration of a wait that is kept, in nanoseconds.
const LongWait = 1_000_000

// Special values in place of the index of a span.
const (
	NoSpan int32 = -1 - iota
	Nobody       // no goroutine: a timer or the network
)

// A Trace is the result of [Read]. It must not be changed.
type Trace struct {
	Spans   []Span
	Classes []Class
	Waits   []Wait // at most maxWaits
	Procs   int    // GOMAXPROCS at the end; 0 if unknown
	// First and Last are the times of the first and the last event.
	First, Last int64
	// Damage says why the trace was not read to its end. It is a *DamageError or an error of the source.
	Damage error

	source  io.ReaderAt
	names   []string // of tasks
	size    int64
	clocks  []clock
	begins  []begin // the begins of generations
	helpers []helper
	packed  []byte // the encoded times of spans
	// coroutines has the ids of goroutines that are known to be coroutines. A window may not contain the events
	// that identify them.
	coroutines map[int64]bool
	work       func() map[int64][]change // returns the result of findWork, which is computed once
}

// From returns a copy of the trace that reads its bytes from another source and has its own clock.
func (t *Trace) From(source io.ReaderAt) *Trace {
	c := *t
	c.source, c.clocks, c.work = source, slices.Clip(t.clocks), sync.OnceValue(c.findWork)
	return &c
}

// NameOf returns the name of a span that has no id.
func (t *Trace) NameOf(s *Span) string { return t.names[s.name] }

// A clock is a pair of a time of the trace and the wall time at the same moment.
type clock struct{ trace, wall int64 }

// A begin says where a generation of the trace begins.
type begin struct{ offset, time int64 }

// A helper is a goroutine that works for a span, because it was created by a goroutine that worked for the span.
type helper struct {
	goroutine int64
	span      int32
	from      int64
}

// A DamageError says that an execution trace is damaged, or exceeds the limits.
type DamageError struct {
	At  int64 // the offset of the generation that could not be read
	Err error
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("execution trace: generation at byte %d: %v", e.At, e.Err)
}
func (e *DamageError) Unwrap() error { return e.Err }

// A VersionError says that the header of an execution trace is not supported.
type VersionError struct{ Header string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("execution trace: unknown header %q: entrace reads traces of Go 1.23 to 1.27; for others, use 'go tool trace' of the Go version that wrote the trace", e.Header)
}

// Limits of reading an execution trace.
const (
	maxGoroutines = 200_000 // the number of goroutines that live at the same time
	maxSpans      = 2 << 20
	maxWaits      = 500_000
	maxHelpers    = 1 << 20
	maxPieces     = 2 << 20
	maxClocks     = 10_000
)

var errTooMuch = errors.New("too many goroutines, spans or waits")

// versions are the headers of supported traces.
var versions = []string{"go 1.23 trace\x00\x00\x00", "go 1.25 trace\x00\x00\x00", "go 1.26 trace\x00\x00\x00"}

func checkVersion(head []byte) error {
	if !slices.Contains(versions, string(head)) {
		return &VersionError{strings.TrimRight(string(head), "\x00")}
	}
	return nil
}

// Read reads an execution trace of size bytes. The Trace keeps source, whose bytes must not change. The error is a
// *VersionError, an error of ctx, or an error of reading the header. After any other error, the Trace has the data
// before the error, and [Trace.Damage] is set.
func Read(ctx context.Context, source io.ReaderAt, size int64) (*Trace, error) {
	head := make([]byte, execbatch.HeaderSize)
	if n, err := source.ReadAt(head, 0); n < len(head) {
		return nil, fmt.Errorf("execution trace: read header: %w", err)
	}
	if err := checkVersion(head); err != nil {
		return nil, err
	}
	t := &Trace{source: source, size: size, coroutines: make(map[int64]bool)}
	t.work = sync.OnceValue(t.findWork)
	const most = 60 // the minimum size in bytes of a span's events; memory beyond the real number of spans is never touched
	t.Spans = make([]Span, 0, min(size/most, maxSpans))
	t.findGenerations()
	p := newPass(t)
	t.Damage = p.run(ctx, io.NewSectionReader(source, 0, size), 0)
	p.finish()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.Classes = p.classes.list
	if len(p.hops) > 0 {
		if err := t.follow(ctx, p.hops); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// findGenerations finds the offset and the time of the begin of each generation.
func (t *Trace) findGenerations() {
	var head [execbatch.MaxHead]byte
	known := false
	for at, last := int64(execbatch.HeaderSize), uint64(0); at < t.size; {
		n, _ := t.source.ReadAt(head[:min(int64(len(head)), t.size-at)], at)
		size, number, ends, err := execbatch.Next(head[:n])
		if err != nil {
			return
		}
		if !ends && (!known || number != last) {
			known, last = true, number
			t.begins = append(t.begins, begin{offset: at})
		}
		at += int64(size)
	}
}

// Wall converts a time of the trace to nanoseconds since 1970. It returns false if the trace has no clock.
func (t *Trace) Wall(at int64) (wall int64, known bool) {
	if len(t.clocks) == 0 {
		return 0, false
	}
	c := t.clocks[max(0, sort.Search(len(t.clocks), func(i int) bool { return t.clocks[i].trace > at })-1)]
	return at - c.trace + c.wall, true
}

// Time converts nanoseconds since 1970 to a time of the trace. It returns false if the trace has no clock.
func (t *Trace) Time(wall int64) (at int64, known bool) {
	if len(t.clocks) == 0 {
		return 0, false
	}
	c := t.clocks[max(0, sort.Search(len(t.clocks), func(i int) bool { return t.clocks[i].wall > wall })-1)]
	return wall - c.wall + c.trace, true
}

// SetClock adds a clock to a trace without clocks. Traces of Go 1.24 have no clocks.
func (t *Trace) SetClock(at, wall int64) {
	if len(t.clocks) == 0 {
		t.clocks = []clock{{at, wall}}
	}
}

// ClockOfParts drops all clocks except the first, so that times are equal to the times of [Parts].
func (t *Trace) ClockOfParts() {
	t.clocks = t.clocks[:min(1, len(t.clocks))]
	if len(t.clocks) == 0 {
		t.clocks = []clock{{}}
	}
}

// A Leg is a period in which one goroutine worked for a span.
type Leg struct{ Goroutine, From, To int64 }

// Legs returns the legs of a span within the trace, in chronological order. It returns nil if the legs are not known.
func (t *Trace) Legs(s *Span) []Leg {
	from, to := s.Begin, s.End
	if from == 0 {
		from = t.First
	}
	if to == 0 {
		to = t.Last
	}
	switch s.Handed {
	case Unknown:
		return nil
	case 0:
		return []Leg{{s.ender, from, to}}
	}
	return []Leg{{s.Goroutine, from, s.Handed}, {s.ender, s.Handed, to}}
}

// SpanAt returns the span for which a goroutine worked at a given time, or NoSpan. It is safe for concurrent use.
func (t *Trace) SpanAt(goroutine, at int64) int32 {
	list := t.work()[goroutine]
	i := sort.Search(len(list), func(i int) bool { return list[i].at > at })
	if i == 0 {
		return NoSpan
	}
	return list[i-1].span
}

// A change says that from a time on, a goroutine works for another span, or for no span.
type change struct {
	at   int64
	span int32
}

// findWork finds the spans for which each goroutine worked, as changes in chronological order. A goroutine works for
// the open span that began last.
func (t *Trace) findWork() map[int64][]change {
	type part struct {
		span     int32
		from, to int64
	}
	parts := make(map[int64][]part)
	for _, h := range t.helpers { // a helper works for the span before its own spans begin
		parts[h.goroutine] = append(parts[h.goroutine], part{h.span, h.from, t.Spans[h.span].End})
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		if at := s.Handed; at > 0 {
			parts[s.Goroutine] = append(parts[s.Goroutine], part{int32(i), s.Begin, at})
			parts[s.ender] = append(parts[s.ender], part{int32(i), at, s.End})
			continue
		}
		parts[s.Goroutine] = append(parts[s.Goroutine], part{int32(i), s.Begin, s.End})
	}
	work := make(map[int64][]change, len(parts))
	for g, list := range parts {
		slices.SortStableFunc(list, func(a, b part) int { return cmp.Compare(a.from, b.from) })
		ends := make([]part, 0, len(list))
		for _, p := range list {
			if p.to != 0 {
				ends = append(ends, p)
			}
		}
		slices.SortStableFunc(ends, func(a, b part) int { return cmp.Compare(a.to, b.to) })
		var out []change
		var open []part
		note := func(at int64) {
			for n := len(open); n > 0 && open[n-1].to != 0 && open[n-1].to <= at; n-- {
				open = open[:n-1]
			}
			c := change{at, NoSpan}
			if n := len(open); n > 0 {
				c.span = open[n-1].span
			}
			if n := len(out); n > 0 && out[n-1].at == at {
				out[n-1] = c
			} else {
				out = append(out, c)
			}
		}
		for _, p := range list {
			for ; len(ends) > 0 && ends[0].to <= p.from; ends = ends[1:] {
				note(ends[0].to)
			}
			open = append(open, p)
			note(p.from)
		}
		for _, e := range ends {
			note(e.to)
		}
		work[g] = out
	}
	return work
}

// events calls fn for each event. It returns the first error, or nil at the end of the trace.
func events(ctx context.Context, r io.Reader, fn func(e *trace.Event) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the reader panicked: %v", p)
		}
	}()
	read, err := trace.NewReader(r)
	if err != nil {
		return err
	}
	var e trace.Event
	for n := 1; ; n++ {
		e, err = read.ReadEvent()
		if err == io.EOF { //nolint:errorlint // a wrapped io.EOF comes from a truncated header
			return nil
		}
		if err == nil {
			err = fn(&e)
		}
		if n%4096 == 0 && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}
