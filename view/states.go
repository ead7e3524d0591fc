package view

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/read/gotrace"
)

// A Join says how a span was found in an execution trace.
type Join uint8

// The joins. A marked span has written its id into the execution trace. A matched span has the same name as a task
// that began at about the same time. If there are several such tasks, a task below the task of the span's parent is
// preferred. Only these facts show that the task and the span are the same.
const (
	NotJoined Join = iota
	Marked
	Matched
)

// MarshalText implements [encoding.TextMarshaler].
func (j Join) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

func (j Join) String() string { return [...]string{"none", "marked", "matched"}[j] }

// States hold the states of spans' goroutines, as far as execution traces in the files of a view record them. They
// are meant for packages of this module, and safe for concurrent use.
type States struct {
	v      *View
	traces []ExecTrace
	joined []joinedSpan
	blocks []*[blockRows]uint32 // by block of rows: 1 plus an index in joined, or 0
	rows   [][]Row              // by trace and span: the row of the span, or 0
}

// An ExecTrace is an execution trace in a file of a view.
type ExecTrace struct {
	ExecTraceData
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

type statesOnce struct {
	once sync.Once
	done chan struct{} // closed when s and err are set
	s    *States
	err  error
}

// execTraceName is the name of the entries with execution traces that package control/provider writes.
const execTraceName = "exec.trace"

const maxExecTraces = 1 << 10

// States reads the execution traces in the files, once for a view. If ctx ends earlier, the reading continues, so
// that a later call gets the result. The error of an unreadable trace is in [ExecTrace.Err], the error of a damaged
// trace in [gotrace.Trace.Damage]. The returned error is the error of ctx. If the files have no execution traces,
// States are empty.
func (v *View) States(ctx context.Context) (*States, error) {
	k := &v.statesKept
	k.once.Do(func() {
		k.done = make(chan struct{})
		go func() {
			defer close(k.done)
			defer func() {
				if p := recover(); p != nil {
					k.err = fmt.Errorf("read execution traces: panic: %v", p)
				}
			}()
			k.s, k.err = v.readStates(context.WithoutCancel(ctx))
		}()
	})
	select {
	case <-k.done:
		return k.s, k.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (v *View) readStates(ctx context.Context) (*States, error) {
	s := &States{v: v, blocks: make([]*[blockRows]uint32, len(v.blocks))}
	all, err := v.ExecTraces(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range all {
		if err := s.read(ctx, x); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// An ExecTraceData is the encoded data of an execution trace.
type ExecTraceData struct {
	File int // the number of the file in the view
	Row  Row // the row of the entry with the execution trace; 0 if the file itself was made from the execution trace
	Data io.ReaderAt
	Size int64
}

// ExecTraces returns the execution traces in the files of the view. Their data can be read until the files are
// closed.
func (v *View) ExecTraces(ctx context.Context) (all []ExecTraceData, err error) {
	for i := range v.builder.files {
		if data, size := v.madeFrom(i); data != nil {
			all = append(all, ExecTraceData{i, 0, data, size})
		}
	}
	rows, err := v.execTraces(ctx)
	for _, r := range rows {
		src := &attributeSource{a: v.attribute("data"), r: r}
		src.a.raw(r, func(b []byte) {
			if len(b) > 2 && b[0] == wire.KindBytes {
				n, at := wire.Uint32(b, 1)
				src.skip, src.size = at, int64(n)
			}
		})
		if src.size > 0 { // otherwise the recorder left the data out, because it was too large
			all = append(all, ExecTraceData{v.fileNumber(r), r, src, src.size})
		}
	}
	return all, err
}

// madeFrom returns the execution trace from which a file was made. It returns nil if the file is an ordinary
// trace.
func (v *View) madeFrom(file int) (data io.ReaderAt, size int64) {
	if v.builder.options.ExecTrace == nil {
		return nil, 0
	}
	return v.builder.options.ExecTrace(v.builder.files[file].file)
}

// HasStates reports whether the view may have execution traces, without searching all rows.
func (v *View) HasStates() bool {
	for i := range v.builder.files {
		if data, _ := v.madeFrom(i); data != nil {
			return true
		}
	}
	return v.mayHaveExecTraces()
}

func (v *View) mayHaveExecTraces() bool {
	return len(v.metas) >= unknown || slices.ContainsFunc(v.metas, func(m format.Metadata) bool { return m.Name == execTraceName })
}

// execTraces returns the rows whose entries contain execution traces.
func (v *View) execTraces(ctx context.Context) ([]Row, error) {
	if !v.mayHaveExecTraces() {
		return nil, nil
	}
	named := make([]bool, len(v.metas))
	for i := range v.metas {
		named[i] = v.metas[i].Name == execTraceName
	}
	var mu sync.Mutex
	var rows []Row
	c := columnsOf{v}
	err := c.Each(ctx, func() func(k int) {
		return func(k int) {
			b := c.Block(k)
			for i, m := range b.Meta {
				r := Row(b.First) + Row(i)
				if m != columns.Unknown && named[m] || m == columns.Unknown && v.Name(r) == execTraceName {
					mu.Lock()
					rows = append(rows, r)
					mu.Unlock()
				}
			}
		}
	})
	slices.Sort(rows)
	return rows[:min(len(rows), maxExecTraces)], err
}

// execTraces caches execution traces that were read, so that extended views reuse them. It is safe for concurrent
// use.
type execTraces struct {
	mu  sync.Mutex // held while a trace is read, so that two views do not read the same trace
	all map[execTraceKey]*gotrace.Trace
}

// An execTraceKey identifies an execution trace. Unlike a row, it does not change when a view is extended.
type execTraceKey struct {
	file int
	id   uint32
}

// read returns an execution trace. The caller may set the clock of the returned trace.
func (k *execTraces) read(ctx context.Context, v *View, x ExecTraceData) (*gotrace.Trace, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := execTraceKey{file: x.File}
	if x.Row != 0 {
		_, key.id = v.ID(x.Row)
	}
	t := k.all[key]
	if t == nil {
		var err error
		t, err = gotrace.Read(ctx, x.Data, x.Size)
		if err != nil {
			return nil, err
		}
		if k.all == nil {
			k.all = make(map[execTraceKey]*gotrace.Trace)
		}
		t = t.From(nil) // do not keep the source, because it belongs to this view
		k.all[key] = t
	}
	t = t.From(x.Data)
	if x.Row == 0 {
		t.ClockOfParts()
	}
	return t, nil
}

// read reads an execution trace and joins its spans with rows.
func (s *States) read(ctx context.Context, x ExecTraceData) error {
	t, err := s.v.builder.execTraces.read(ctx, s.v, x)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.traces = append(s.traces, ExecTrace{x, t, err})
	s.rows = append(s.rows, nil)
	if err != nil {
		return nil //nolint:nilerr // ExecTrace.Err has the error
	}
	s.rows[len(s.rows)-1] = make([]Row, len(t.Spans))
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
	c := columnsOf{s.v}
	type pair struct {
		row  Row
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
				if Flags(f).Role() != RoleSpan || may[low%(1<<bits)/64]>>(low%64)&1 == 0 {
					continue
				}
				r := Row(b.First) + Row(i)
				id, err := s.v.attributeID(r, format.AttrSpanID)
				if err != nil {
					continue
				}
				at, ok := slices.BinarySearchFunc(marks, binary.BigEndian.Uint64(id[:]), func(x mark, id uint64) int { return cmp.Compare(x.id, id) })
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
func (s *States) join(t *gotrace.Trace, r Row, span int32, how Join) {
	b := &s.blocks[r/blockRows]
	if *b == nil {
		*b = new([blockRows]uint32)
	}
	at := &(*b)[r%blockRows]
	j := joinedSpan{uint16(len(s.traces) - 1), how, span}
	s.rows[j.trace][span] = r // also set if the other trace counts, for the names in this trace's paths
	if *at == 0 {
		s.joined = append(s.joined, j)
		*at = uint32(len(s.joined))
		return
	}
	old := &s.joined[*at-1]
	if known := s.traces[old.trace]; known.Times(&known.Spans[old.span]).Sum() < t.Times(&t.Spans[span]).Sum() {
		*old = j
	}
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
		if r%blockRows == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		start, timed := s.v.Start(r)
		if !timed || start < first-matchBefore || start > last || s.v.Role(r) != RoleSpan || s.joinedAt(r) != nil || s.v.fileNumber(r) != s.traces[trace].File {
			continue
		}
		list := byName[s.v.Name(r)]
		at, _ := t.Time(start) // the trace has clocks here
		up := gotrace.NoSpan
		if j := s.joinedAt(s.v.Parent(r)); j != nil && int(j.trace) == trace {
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

func (s *States) joinedAt(r Row) *joinedSpan {
	if int(r/blockRows) >= len(s.blocks) || s.blocks[r/blockRows] == nil {
		return nil
	}
	if at := s.blocks[r/blockRows][r%blockRows]; at != 0 {
		return &s.joined[at-1]
	}
	return nil
}

// Of returns the states of the span at row r. known is false if no trace contains the span, or if the trace does not
// record which goroutine worked for the span at which time. The span must not be changed.
func (s *States) Of(r Row) (x SpanStates, known bool) {
	j := s.joinedAt(r)
	if j == nil {
		return SpanStates{}, false
	}
	t := s.traces[j.trace]
	x = SpanStates{int(j.trace), &t.Spans[j.span], j.join, t.Times(&t.Spans[j.span])}
	return x, x.Handed != gotrace.Unknown
}

// Is reports whether [States.Of] returns the given span of the given trace for row r. If two traces overlap, both can
// have the span.
func (s *States) Is(r Row, trace int, span int32) bool {
	j := s.joinedAt(r)
	return j != nil && int(j.trace) == trace && j.span == span
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

// Joined returns the number of spans that were found in execution traces.
func (s *States) Joined() int { return len(s.joined) }

// Traces returns the execution traces, in the order of their rows.
func (s *States) Traces() []ExecTrace { return s.traces }

// Row returns the row of a span of a trace. It returns false if the view does not have the span.
func (s *States) Row(trace int, span int32) (Row, bool) {
	if span < 0 || int(span) >= len(s.rows[trace]) {
		return 0, false
	}
	return s.rows[trace][span], s.rows[trace][span] != 0
}

// An attributeSource reads an attribute of kind Bytes in pieces, so that the value need not be in memory as a
// whole.
type attributeSource struct {
	a    *attributeReader
	r    Row
	skip int // the offset of the bytes in the value
	size int64
}

func (s *attributeSource) ReadAt(p []byte, off int64) (n int, err error) {
	if off >= s.size {
		return 0, io.EOF
	}
	found := false
	s.a.raw(s.r, func(b []byte) {
		if int64(len(b)-s.skip) == s.size {
			n, found = copy(p, b[int64(s.skip)+off:]), true
		}
	})
	switch {
	case !found:
		return 0, errors.New("the entry cannot be read any more")
	case n < len(p):
		return n, io.EOF
	}
	return n, nil
}
