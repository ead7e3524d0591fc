package gotrace

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/entrace-go/entrace/internal/core/execbatch"
)

// A goroutine is the state of a living goroutine during a spanPass.
type goroutine struct {
	id      int64
	state   State // the state to which time is added
	raw     State // like state, but not changed by assists of the garbage collector
	assists bool
	since   int64
	sums    [NumStates]int64 // nanoseconds in each state until since
	last    [NumStates]int64 // the sums when a span last began or ended
	open    []openedSpan     // the open spans that began on it; an ended span becomes NoSpan until the spans after it have ended
	dead    int              // the number of ended spans in open
	helps   int32            // the span for which its creator worked, or NoSpan
	ended   int32            // the span that ended last on the goroutine, or NoSpan
	pending int32            // the span of a mark whose task has not begun yet, or NoSpan

	waitFrom int64
	class    int32 // the class of the wait
	sends    bool  // the goroutine waits for a receiver
	by       int32 // the span that ended the last wait

	meetings meetings
	coroutine

	isOld  bool    // the goroutine existed when the trace began
	prefix *prefix // only for an old goroutine; nil if there is no such work
	track  *track  // only in a window
}

// A prefix has the work of an old goroutine during which no open span was known. If the trace then has the end of
// a span that began before the trace, the work belongs to this span.
type prefix struct {
	own   [NumStates]int64 // nanoseconds
	waits []Wait
}

const maxBefore = 16 // the maximum number of waits in a prefix

// An openedSpan is a span that is open on the goroutine on which it began.
type openedSpan struct {
	span int32
	base [NumStates]int64 // the goroutine's sums when the span began
	own  Times            // the times during which the span was the latest open span
}

// A spanPass is the state of one pass over a trace, or over a part of it.
type spanPass struct {
	t          *Trace
	goroutines map[int64]*goroutine
	free       []*goroutine // goroutines that have ended, to be reused
	classes    classes
	byTask     map[uint64]int32 // open tasks
	byID       map[uint64]int32 // open spans
	names      map[string]int32 // names of tasks: indices of Trace.names
	marked     bool             // whether the trace has a mark
	unblocked  [2]int64         // the last goroutine that was unblocked, and the goroutine that did this
	hops       []hop            // spans that ended on another goroutine than they began on
	handovers  map[handover][]int32

	first, last int64
	generation  int
	quiet       bool    // the spans are already known, and are not collected again
	window      *Window // gets the pieces, if only a part of the trace is read
}

func newPass(t *Trace) *spanPass {
	return &spanPass{
		t: t, goroutines: make(map[int64]*goroutine), byTask: make(map[uint64]int32), names: make(map[string]int32), byID: make(map[uint64]int32),
		classes: newClasses(), generation: -1,
	}
}

// markedEnd is the minimum duration in nanoseconds of a span at whose end the span processor may write a mark.
const markedEnd = 900_000_000

// errDone ends a pass early, because no more events are needed.
var errDone = errors.New("done")

// run reads the events of r. The parameter generation is the number of the first generation in r.
func (p *spanPass) run(ctx context.Context, r io.Reader, generation int) error {
	p.generation = generation - 1
	err := events(ctx, r, p.event)
	switch {
	case err == nil || errors.Is(err, errDone):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	at := int64(execbatch.HeaderSize)
	if n := min(p.generation, len(p.t.begins)-1); n >= 0 {
		at = p.t.begins[n].offset
	}
	return &DamageError{at, err}
}

// finish ends the spans and waits that are open at the end of the trace.
func (p *spanPass) finish() {
	if !p.quiet {
		p.t.First, p.t.Last = p.first, p.last
	}
	for _, id := range slices.Sorted(maps.Keys(p.goroutines)) {
		g := p.goroutines[id]
		p.addTime(g, p.last)
		if p.quiet {
			continue
		}
		p.creditOpenSpan(g)
		p.storeTimes(g)
		p.waited(g, p.last)
	}
	p.classes.byKey = nil
}

// storeTimes stores the times of a goroutine in the spans that are open on it.
func (p *spanPass) storeTimes(g *goroutine) {
	for i := range g.open {
		if o := &g.open[i]; o.span != NoSpan {
			times := g.timesSince(&o.base)
			p.t.setTimes(&p.t.Spans[o.span], &times, &o.own)
		}
	}
}

// timesSince returns the times of the goroutine since its sums were equal to base.
func (g *goroutine) timesSince(base *[NumStates]int64) (t Times) {
	for s := range t {
		t[s] = uint32(max(0, min((g.sums[s]+500)/1000-(base[s]+500)/1000, 1<<32-1)))
	}
	return t
}

func (p *spanPass) goroutine(id int64) (*goroutine, error) {
	g := p.goroutines[id]
	if g == nil {
		if len(p.goroutines) >= maxGoroutines {
			return nil, errTooMuch
		}
		if n := len(p.free); n > 0 {
			g, p.free = p.free[n-1], p.free[:n-1]
		} else {
			g = new(goroutine)
		}
		*g = goroutine{id: id, state: none, raw: none, since: p.first, open: g.open[:0], helps: NoSpan, ended: NoSpan, pending: NoSpan, class: -1, by: Nobody, isOld: !p.quiet}
		if p.window != nil {
			g.track = p.window.track(id)
		}
		g.isCoroutine = p.t.coroutines[id]
		p.goroutines[id] = g
	}
	return g, nil
}

func (p *spanPass) event(e *trace.Event) error {
	k := e.Kind()
	if k == trace.EventSync {
		return p.sync(e)
	}
	at := int64(e.Time())
	if p.first == 0 {
		p.first = at
	}
	if p.generation >= 0 && p.generation < len(p.t.begins) && p.t.begins[p.generation].time == 0 {
		p.t.begins[p.generation].time = at
	}
	p.last = max(p.last, at)
	if p.window != nil && at > p.window.To {
		return errDone
	}
	if p.window != nil && p.window.pieces+len(p.window.tracks) >= maxPieces {
		return errTooMuch
	}
	switch k {
	case trace.EventStateTransition:
		st := e.StateTransition()
		if st.Resource.Kind == trace.ResourceGoroutine {
			return p.transition(e, &st, at)
		}
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		return p.assist(e, at, k != trace.EventRangeEnd)
	case trace.EventTaskBegin:
		return p.taskBegin(e, at)
	case trace.EventTaskEnd:
		id := uint64(e.Task().ID)
		if i, ok := p.byTask[id]; ok {
			delete(p.byTask, id)
			g, err := p.actor(e)
			if err != nil {
				return err
			}
			p.end(i, at, g)
		}
	case trace.EventLog:
		return p.log(e, at)
	case trace.EventMetric:
		if m := e.Metric(); m.Name == "/sched/gomaxprocs:threads" {
			p.t.Procs = int(m.Value.Uint64())
		}
	}
	return nil
}

// sync handles the begin of a generation.
func (p *spanPass) sync(e *trace.Event) error {
	p.generation++
	clear(p.classes.byKey)
	if c := e.Sync().ClockSnapshot; c != nil && !p.quiet && len(p.t.clocks) < maxClocks {
		p.t.clocks = append(p.t.clocks, clock{int64(c.Trace), c.Wall.UnixNano()})
	}
	return nil
}

// assist handles the begin or end of a period in which a goroutine works for the garbage collector.
func (p *spanPass) assist(e *trace.Event, at int64, begins bool) error {
	r := e.Range()
	if r.Name != "GC mark assist" || r.Scope.Kind != trace.ResourceGoroutine {
		return nil
	}
	g, err := p.goroutine(int64(r.Scope.Goroutine()))
	if err != nil {
		return err
	}
	g.assists = begins
	if g.raw == Running {
		p.to(g, at, g.counted())
	}
	return nil
}

// counted returns the state to which the goroutine's time is added.
func (g *goroutine) counted() State {
	g = g.innermost()
	switch {
	case g.assists && g.raw == Running:
		return GCWork
	case g.assists && g.raw != Runnable && g.raw < NumStates:
		return GCWait
	}
	return g.raw
}

func (p *spanPass) transition(e *trace.Event, st *trace.StateTransition, at int64) error {
	id := int64(st.Resource.Goroutine())
	from, to := st.Goroutine()
	g, err := p.goroutine(id)
	if err != nil {
		return err
	}
	if from == trace.GoNotExist {
		if to == trace.GoWaiting {
			p.noteCoroutine(g)
		}
		p.created(g, int64(e.Goroutine()), at, ofRuntime(outermost(st.Stack)))
	}
	if from == trace.GoUndetermined && g.state == none && to != trace.GoNotExist {
		if outermost(st.Stack) == coroutineStart {
			p.noteCoroutine(g)
		}
		g.state = p.stateOfStatus(g, st, to) // the goroutine has been in this state since the trace began
		g.raw = g.state
		return nil
	}
	switch to {
	case trace.GoRunning:
		g.raw = Running
	case trace.GoRunnable:
		if g.raw < NumStates && g.raw != Running && g.raw != Syscall && g.raw != Runnable {
			p.woken(g, e, at)
		}
		g.raw = Runnable
	case trace.GoSyscall:
		g.raw = Syscall
	case trace.GoWaiting:
		if from == trace.GoWaiting || from == trace.GoUndetermined {
			return nil // the begin of a generation repeats the state, but with less detail
		}
		g.class, g.waitFrom, g.by, g.sends = p.classes.of(st.Reason, st.Stack), at, Nobody, st.Reason == "chan send"
		g.raw = p.classes.list[g.class].State
		if next := p.goroutines[p.unblocked[0]]; st.Reason == "" && next != nil && p.unblocked[1] == id {
			p.switches(g, next)
			p.to(next, at, next.counted())
		}
	case trace.GoNotExist:
		if up := g.caller; up != nil {
			g.leaves()
			p.to(up, at, up.counted())
		}
		p.to(g, at, gone)
		p.ended(g)
		return nil
	default:
		return nil
	}
	p.to(g, at, g.counted())
	return nil
}

// stateOfStatus returns the state of a goroutine that existed when the trace began.
func (p *spanPass) stateOfStatus(g *goroutine, st *trace.StateTransition, to trace.GoState) State {
	switch to {
	case trace.GoRunning:
		return Running
	case trace.GoRunnable:
		return Runnable
	case trace.GoSyscall:
		return Syscall
	}
	g.class, g.waitFrom = p.classes.of(st.Reason, st.Stack), g.since
	return p.classes.list[g.class].State
}

// created records the creator of a goroutine, and the span for which the new goroutine works. Goroutines of the
// runtime work for no span.
func (p *spanPass) created(g *goroutine, by, at int64, ofRuntime bool) {
	g.since, g.state, g.raw, g.isOld = at, none, none, false
	if g.track != nil {
		g.track.Created, g.track.By = at, by
	}
	if up := p.goroutines[by]; up != nil && !ofRuntime && !g.isCoroutine {
		g.helps = p.worksFor(up)
		p.addMeeting(up.root(), g, at, false)
	}
	if g.helps != NoSpan && !p.quiet && len(p.t.helpers) < maxHelpers {
		p.t.helpers = append(p.t.helpers, helper{goroutine: g.id, span: g.helps, from: at})
	}
}

// worksFor returns the span for which a goroutine works: its latest open span, or the span that it helps, or
// NoSpan.
func (p *spanPass) worksFor(g *goroutine) int32 {
	g = g.root()
	if n := len(g.open); n > 0 {
		return g.open[n-1].span
	}
	if g.helps != NoSpan && p.t.Spans[g.helps].End == 0 {
		return g.helps
	}
	return NoSpan
}

// ended removes a goroutine that has ended.
func (p *spanPass) ended(g *goroutine) {
	if !p.quiet {
		p.creditOpenSpan(g)
		p.storeTimes(g)
	}
	g.leaves()
	delete(p.goroutines, g.id)
	p.free = append(p.free, g)
}

// woken handles the end of a wait of g. e is the event of the goroutine that ended it.
func (p *spanPass) woken(g *goroutine, e *trace.Event, at int64) {
	by := int64(e.Goroutine())
	g.by = Nobody
	class := int32(-1)
	if by >= 0 && by != g.id {
		g.by = NoSpan
		if up := p.goroutines[by]; up != nil {
			g.by = p.worksFor(up)
		}
		if g.track != nil && at-g.waitFrom >= LongWait {
			class = p.classes.of("", e.Stack())
		}
	}
	if g.track != nil {
		g.track.wake = wake{by, class}
	}
	p.waited(g, at)
	p.unblocked = [2]int64{g.id, by}
	up := p.goroutines[by]
	if up == nil {
		return
	}
	switch a, b := up.root(), g.root(); {
	case a == b:
	case g.sends:
		p.addMeeting(b, a, at, false)
	case g.raw == Select:
		p.addMeeting(b, a, at, true)
		p.addMeeting(a, b, at, false)
	// The last of these three cases is a wait that began before the trace and whose kind is not known.
	case g.raw == Sync, g.raw == Chan, g.raw == Other && g.class >= 0 && len(p.classes.list[g.class].Stack) == 0:
		p.addMeeting(a, b, at, false)
	}
}

// waited stores a wait that has ended.
func (p *spanPass) waited(g *goroutine, at int64) {
	// Do not store a wait for the garbage collector, because Own has its time.
	if p.quiet || g.class < 0 || g.raw >= NumStates || g.callee != nil || !g.counted().Blocked() {
		return
	}
	span, by := p.worksFor(g), g.by
	if len(g.open) == 0 && g.helps != NoSpan {
		if end := p.t.Spans[g.helps].End; end > g.waitFrom { // the span for which the goroutine worked ended during the wait
			span, by, at = g.helps, Nobody, end
		}
	}
	d := at - g.waitFrom
	if d <= 0 {
		return
	}
	if span == NoSpan {
		if b := g.unknown(); b != nil && d >= LongWait && len(b.waits) < maxBefore {
			b.waits = append(b.waits, Wait{NoSpan, by, g.class, at - d, at})
		}
		return
	}
	if s := &p.t.Spans[span]; s.Begin > g.waitFrom {
		d = at - s.Begin
	}
	if d >= LongWait && len(p.t.Waits) < maxWaits {
		p.t.Waits = append(p.t.Waits, Wait{span, by, g.class, at - d, at})
	}
}

// to ends the current state of a goroutine, and begins the state next.
func (p *spanPass) to(g *goroutine, at int64, next State) {
	if next != g.state {
		p.addTime(g, at)
		g.state = next
		if g.caller != nil {
			p.to(g.caller, at, next)
		}
	}
}

// addTime adds the time from the last call until at to the sums of a goroutine.
func (p *spanPass) addTime(g *goroutine, at int64) {
	if d := at - g.since; d > 0 && g.state < NumStates {
		g.sums[g.state] += d
		if g.track != nil {
			p.window.add(g, at)
		}
	}
	g.since = max(g.since, at)
}

// unknown returns the prefix of a goroutine, or nil if the goroutine did not exist when the trace began.
func (g *goroutine) unknown() *prefix {
	if g.isOld && g.prefix == nil {
		g.prefix = new(prefix)
	}
	return g.prefix
}

// creditOpenSpan adds the time of a goroutine since a span last began or ended to its latest open span. Without an open
// span, the time is added to the prefix.
func (p *spanPass) creditOpenSpan(g *goroutine) {
	if n := len(g.open); n > 0 {
		own := &g.open[n-1].own
		for s := range own {
			own[s] = uint32(min(int64(own[s])+(g.sums[s]+500)/1000-(g.last[s]+500)/1000, 1<<32-1))
		}
	} else if b := g.unknown(); b != nil {
		for s := range g.sums {
			b.own[s] += g.sums[s] - g.last[s]
		}
	}
	g.last = g.sums
}

func (p *spanPass) taskBegin(e *trace.Event, at int64) error {
	if p.quiet {
		return nil
	}
	g, err := p.actor(e)
	if err != nil {
		return err
	}
	task := e.Task()
	i := g.pending
	g.pending = NoSpan
	if i == NoSpan {
		if p.marked {
			return nil // the program itself began the task
		}
		i, err = p.begin(g, at, 0)
		if err != nil {
			return err
		}
		n, ok := p.names[task.Type]
		if !ok {
			n = int32(len(p.t.names))
			p.t.names = append(p.t.names, strings.Clone(task.Type))
			p.names[p.t.names[n]] = n
		}
		p.t.Spans[i].name = n
		if up, ok := p.byTask[uint64(task.Parent)]; ok {
			p.t.Spans[i].Parent = up
		}
	}
	p.byTask[uint64(task.ID)] = i
	return nil
}

// log handles the marks of spans.
func (p *spanPass) log(e *trace.Event, at int64) error {
	l := e.Log()
	if p.quiet || l.Category != "otel.span" && l.Category != "otel.end" {
		return nil
	}
	id := markedID(l.Message)
	if id == 0 {
		return nil
	}
	g, err := p.actor(e)
	if err != nil {
		return err
	}
	p.marked = true
	if l.Category == "otel.span" {
		g.pending, err = p.begin(g, at, id)
		return err
	}
	if i, ok := p.byID[id]; ok { // the task of the span may have ended earlier
		p.end(i, at, g)
		delete(p.byID, id)
		return nil
	}
	if g.ended != NoSpan && p.t.Spans[g.ended].ID == id {
		return nil // the task was short, although the span was long: the program has set the span's start
	}
	if len(p.t.Spans) >= maxSpans {
		return errTooMuch
	}
	p.addTime(g, at) // the span began before the trace: it gets all earlier work of the goroutine
	p.creditOpenSpan(g)
	s := Span{ID: id, Parent: NoSpan, End: at, Goroutine: g.id, ender: g.id}
	times, own := g.timesSince(new([NumStates]int64)), Times{}
	if b := g.unknown(); b != nil {
		for i := range own {
			own[i] = uint32(min((b.own[i]+500)/1000, 1<<32-1))
		}
		for _, w := range b.waits[:min(len(b.waits), maxWaits-len(p.t.Waits))] {
			w.Span = int32(len(p.t.Spans))
			p.t.Waits = append(p.t.Waits, w)
		}
		*b = prefix{}
	}
	p.t.setTimes(&s, &times, &own)
	p.t.Spans = append(p.t.Spans, s)
	return nil
}

// markedID returns the span id in a mark, or 0 if the mark has no valid id.
func markedID(mark string) uint64 {
	id, err := strconv.ParseUint(mark[:min(len(mark), 16)], 16, 64)
	if err != nil || len(mark) < 16 {
		return 0
	}
	return id
}

func (p *spanPass) begin(g *goroutine, at int64, id uint64) (int32, error) {
	if len(p.t.Spans) >= maxSpans {
		return NoSpan, errTooMuch
	}
	i := int32(len(p.t.Spans))
	p.addTime(g, at)
	p.creditOpenSpan(g)
	p.t.Spans = append(p.t.Spans, Span{ID: id, Parent: NoSpan, Begin: at, Goroutine: g.id, ender: g.id})
	p.t.Spans[i].slot = int32(len(g.open))
	g.open = append(g.open, openedSpan{span: i, base: g.sums})
	if id != 0 {
		p.byID[id] = i
	}
	return i, nil
}

func (p *spanPass) end(i int32, at int64, ender *goroutine) {
	s := &p.t.Spans[i]
	if s.End != 0 {
		return
	}
	s.End, s.ender, ender.ended = at, ender.id, i
	if at-s.Begin < markedEnd {
		delete(p.byID, s.ID)
	}
	g := p.goroutines[s.Goroutine]
	switch {
	case s.ender == s.Goroutine:
	case s.Handed != 0:
		g = ender
	default:
		p.hops = append(p.hops, hop{i, handover{ender.meetings.only(s.Goroutine, s.Begin), s.Goroutine, s.ender}})
		ender.meetings.hopped = at
	}
	if g == nil {
		return
	}
	if ender != g && p.worksFor(g) == i { // if the wait continues, the rest of the wait belongs to another span or to no span
		p.waited(g, at)
		g.waitFrom = at
	}
	p.addTime(g, at)
	p.creditOpenSpan(g)
	if k := int(s.slot); k < len(g.open) && g.open[k].span == i {
		times := g.timesSince(&g.open[k].base)
		p.t.setTimes(s, &times, &g.open[k].own)
		p.close(g, k)
	}
}

// close removes the span at index k from the open spans of a goroutine.
func (p *spanPass) close(g *goroutine, k int) {
	g.open[k].span = NoSpan
	g.dead++
	for n := len(g.open); n > 0 && g.open[n-1].span == NoSpan; n-- {
		g.open = g.open[:n-1]
		g.dead--
	}
	if g.dead > 64 && g.dead > len(g.open)/2 {
		g.open = slices.DeleteFunc(g.open, func(o openedSpan) bool { return o.span == NoSpan })
		for k := range g.open {
			p.t.Spans[g.open[k].span].slot = int32(k)
		}
		g.dead = 0
	}
}
