// Package spanstates says what the goroutines of spans did, as execution traces in the files of a view record it.
package spanstates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/gotrace"
	"github.com/entrace-go/entrace/view"
)

// A Join says how a span was found in an execution trace.
type Join uint8

// The joins. A marked span has written its id into the execution trace. A matched span has the same name as a task that
// began at about the same time. If there are several such tasks, a task below the task of the span's parent is
// preferred. Nothing else shows that the task and the span are the same.
const (
	NotJoined Join = iota
	Marked
	Matched
)

// MarshalText implements [encoding.TextMarshaler].
func (j Join) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

func (j Join) String() string { return [...]string{"none", "marked", "matched"}[j] }

// States hold the states of spans' goroutines, as far as execution traces in the files of a view record them. They
// are safe for concurrent use.
type States struct {
	v      *view.View
	traces []ExecTrace
	joined map[view.Row]joinedSpan
	rows   [][]view.Row // by trace and span: the row of the span, or 0
}

// An ExecTrace is an execution trace in a file of a view.
type ExecTrace struct {
	view.ExecTraceData
	*gotrace.Trace
	Err error // why Trace is nil
}

// A SpanStates holds the data of an execution trace about a span.
type SpanStates struct {
	Trace int // the index of the trace in States.Traces
	*gotrace.Span
	Join  Join
	Times gotrace.Times
}

type joinedSpan struct {
	trace uint16
	join  Join
	span  int32
}

// Of reads the execution traces in the files of a view, once for the view. If ctx ends earlier, the reading continues,
// so that a later call gets the result. The error of an unreadable trace is in [ExecTrace.Err], the error of a damaged
// trace in [gotrace.Trace.Damage]. The returned error is the error of ctx. If the files have no execution traces,
// States are empty.
func Of(ctx context.Context, v *view.View) (*States, error) {
	kept, _ := columns.Of(v).OfView().LoadOrStore(statesKey{}, sync.OnceValues(func() (*States, error) {
		return statesOf(context.WithoutCancel(ctx), v)
	}))
	var s *States
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		s, err = kept.(func() (*States, error))()
	}()
	select {
	case <-done:
		return s, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A statesKey is the key with which a view keeps its States.
type statesKey struct{}

func statesOf(ctx context.Context, v *view.View) (s *States, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read execution traces: panic: %v", p)
		}
	}()
	s = &States{v: v, joined: make(map[view.Row]joinedSpan)}
	all, err := v.ExecTraces(ctx)
	for _, x := range all {
		if err == nil {
			err = s.read(ctx, x)
		}
	}
	return s, err
}

// An execTraceKey is the key with which the views of files keep an execution trace that was read. Unlike a row, it
// does not change when a view is extended.
type execTraceKey struct {
	file int
	id   uint32
}

type execTrace struct {
	mu sync.Mutex     // held while the trace is read, so that two views do not read it
	t  *gotrace.Trace // nil: not read yet
}

// traceOf returns an execution trace. The caller may set its clock.
func traceOf(ctx context.Context, v *view.View, x view.ExecTraceData) (*gotrace.Trace, error) {
	key := execTraceKey{file: x.File}
	if x.Row != 0 {
		_, key.id = v.ID(x.Row)
	}
	kept, _ := columns.Of(v).OfFiles().LoadOrStore(key, new(execTrace))
	k := kept.(*execTrace)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.t == nil {
		t, err := gotrace.Read(ctx, x.Data, x.Size)
		if err != nil {
			return nil, err
		}
		k.t = t.From(nil) // do not keep the source, because it belongs to this view
	}
	t := k.t.From(x.Data)
	if x.Row == 0 {
		t.ClockOfParts()
	}
	return t, nil
}

// read reads an execution trace and joins its spans with rows.
func (s *States) read(ctx context.Context, x view.ExecTraceData) error {
	t, err := traceOf(ctx, s.v, x)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.traces = append(s.traces, ExecTrace{x, t, err})
	s.rows = append(s.rows, nil)
	if err != nil {
		return nil //nolint:nilerr // ExecTrace.Err has the error
	}
	s.rows[len(s.rows)-1] = make([]view.Row, len(t.Spans))
	if err := s.joinMarked(ctx, t); err != nil {
		return err
	}
	return s.joinTasks(ctx, t)
}

// joinMarked joins the spans that have written their ids into the trace.
func (s *States) joinMarked(ctx context.Context, t *gotrace.Trace) error {
	const bits = 24
	var may [1 << bits / 64]uint64 // by the low bits of an id
	type mark struct {
		id   uint64
		span int32
	}
	marks := make([]mark, 0, len(t.Spans))
	for i := range t.Spans {
		if id := t.Spans[i].ID; id != 0 {
			marks = append(marks, mark{id, int32(i)})
			may[id%(1<<bits)/64] |= 1 << (id % 64)
		}
	}
	if len(marks) == 0 {
		return nil
	}
	slices.SortFunc(marks, func(a, b mark) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.span, b.span)) })
	// If several spans have the same id, use the span about which the trace records most.
	same := make(map[int32]int) // for each unused span: the index in marks of the span that is used instead
	n := 0
	for _, x := range marks[1:] {
		if x.id != marks[n].id {
			n++
			marks[n] = x
			continue
		}
		less := x.span
		if known := t.Times(&t.Spans[marks[n].span]); known.Sum() < t.Times(&t.Spans[x.span]).Sum() {
			less, marks[n].span = marks[n].span, x.span
		}
		same[less] = n
	}
	marks = marks[:n+1]
	c := columns.Of(s.v)
	type pair struct {
		row  view.Row
		span int32
	}
	var mu sync.Mutex
	var all []pair
	err := c.Each(ctx, func() func(k int) {
		return func(k int) {
			b := c.Block(k)
			var found []pair
			for i, f := range b.Flags {
				low := b.Text[i]
				if view.Flags(f).Role() != view.RoleSpan || may[low%(1<<bits)/64]>>(low%64)&1 == 0 {
					continue
				}
				r := view.Row(b.First) + view.Row(i)
				at, ok := slices.BinarySearchFunc(marks, c.SpanID(uint32(r)), func(x mark, id uint64) int { return cmp.Compare(x.id, id) })
				if ok {
					found = append(found, pair{r, marks[at].span})
				}
			}
			mu.Lock()
			all = append(all, found...)
			mu.Unlock()
		}
	})
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.row, b.row) })
	for _, p := range all {
		s.join(t, p.row, p.span, Marked)
	}
	rows := s.rows[len(s.rows)-1]
	for span, at := range same { // the names in paths also need the row of an unused span
		rows[span] = rows[marks[at].span]
	}
	s.setClock(t)
	return nil
}

// join records that row r is the given span of the last trace. If another trace also has the span, the trace that
// records more about it counts.
func (s *States) join(t *gotrace.Trace, r view.Row, span int32, how Join) {
	j := joinedSpan{uint16(len(s.traces) - 1), how, span}
	s.rows[j.trace][span] = r // also set if the other trace counts, for the names in this trace's paths
	if old, joined := s.joined[r]; joined {
		known := s.traces[old.trace]
		if known.Times(&known.Spans[old.span]).Sum() >= t.Times(&t.Spans[span]).Sum() {
			return
		}
	}
	s.joined[r] = j
}

// setClock sets the clock of a trace that has no clocks, so that no mark is earlier than the start of its span.
func (s *States) setClock(t *gotrace.Trace) {
	at, wall, known := int64(0), int64(0), false
	for span, r := range s.rows[len(s.rows)-1] {
		start, timed := s.v.Start(r)
		if began := t.Spans[span].Begin; r != 0 && timed && began != 0 && (!known || began-start < at-wall) {
			at, wall, known = began, start, true
		}
	}
	if known {
		t.SetClock(at, wall)
	}
}

const (
	matchBefore = 2_000     // nanoseconds by which a task may begin before its span
	matchAfter  = 2_000_000 // nanoseconds by which a task may begin after its span: the first span of a program takes long to begin
	maxMatches  = 256       // the maximum number of tasks that are compared with a span
)

// joinTasks joins spans with tasks of the same name.
func (s *States) joinTasks(ctx context.Context, t *gotrace.Trace) error {
	byName := make(map[string][]int32)
	for i := range t.Spans {
		if x := &t.Spans[i]; x.ID == 0 {
			byName[t.NameOf(x)] = append(byName[t.NameOf(x)], int32(i))
		}
	}
	first, known := t.Wall(t.First)
	if len(byName) == 0 || !known {
		return ctx.Err()
	}
	last, _ := t.Wall(t.Last)
	trace := len(s.traces) - 1
	taken := make(map[int32]bool)
	for r := range s.v.Rows() {
		if r%columns.BlockRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		start, timed := s.v.Start(r)
		if !timed || start < first-matchBefore || start > last || s.v.Role(r) != view.RoleSpan {
			continue
		}
		_, joined := s.joined[r]
		if file, _ := s.v.ID(r); joined || file != s.traces[trace].File {
			continue
		}
		list := byName[s.v.Name(r)]
		at, _ := t.Time(start) // the trace has clocks here
		up := gotrace.NoSpan
		if j, joined := s.joined[s.v.Parent(r)]; joined && int(j.trace) == trace {
			up = j.span
		}
		from, _ := slices.BinarySearchFunc(list, at-matchBefore, func(i int32, at int64) int { return cmp.Compare(t.Spans[i].Begin, at) })
		best, asked := gotrace.NoSpan, false
		for _, i := range list[from:min(len(list), from+maxMatches)] {
			x := &t.Spans[i]
			if x.Begin > at+matchAfter || asked {
				break
			}
			if taken[i] {
				continue
			}
			if fits := x.Parent == up; best == gotrace.NoSpan || fits && !asked {
				best, asked = i, fits
			}
		}
		if best != gotrace.NoSpan {
			taken[best] = true
			s.join(t, r, best, Matched)
		}
	}
	return nil
}

// Of returns the states of the span at row r. known is false if no trace contains the span, or if the trace does not
// record which goroutine worked for the span at which time. The span must not be changed.
func (s *States) Of(r view.Row) (x SpanStates, known bool) {
	j, joined := s.joined[r]
	if !joined {
		return SpanStates{}, false
	}
	t := s.traces[j.trace]
	x = SpanStates{int(j.trace), &t.Spans[j.span], j.join, t.Times(&t.Spans[j.span])}
	return x, x.Handed != gotrace.Unknown
}

// Is reports whether [States.Of] returns the given span of the given trace for row r. If two traces overlap, both can
// have the span.
func (s *States) Is(r view.Row, trace int, span int32) bool {
	j, joined := s.joined[r]
	return joined && int(j.trace) == trace && j.span == span
}

// Problems returns an error for each execution trace that could not be read, or not to its end.
func (s *States) Problems() (all []error) {
	for _, t := range s.traces {
		switch {
		case t.Err != nil:
			all = append(all, t.Err)
		case t.Damage != nil:
			all = append(all, t.Damage)
		}
	}
	return all
}

// Unknown returns the reason why the states of all spans are unknown, or why an execution trace was not read to its
// end. It returns "" if there is neither problem.
func (s *States) Unknown() string {
	if problems := s.Problems(); len(problems) > 0 {
		return errors.Join(problems...).Error()
	}
	switch {
	case len(s.joined) > 0:
		return ""
	case len(s.traces) > 0:
		return "the execution trace in the file has none of these spans"
	case slices.ContainsFunc(columns.Of(s.v).Keys(), func(k columns.Key) bool { return k.Name == "wait.reason" }):
		return "this is an execution trace without spans of OpenTelemetry: a wait is a row of its own, such as { name = mutex }"
	}
	return "the file has no execution trace, so it is not known what its spans did: record one with OTEL_EXPORTER_ENTRACE_CONTROL_EXEC_TRACE=1"
}

// Traces returns the execution traces, in the order of their rows.
func (s *States) Traces() []ExecTrace { return s.traces }

// Row returns the row of a span of a trace. It returns false if the view does not have the span.
func (s *States) Row(trace int, span int32) (view.Row, bool) {
	if span < 0 || int(span) >= len(s.rows[trace]) {
		return 0, false
	}
	return s.rows[trace][span], s.rows[trace][span] != 0
}
