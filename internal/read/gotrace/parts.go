package gotrace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/exp/trace"

	"github.com/entrace-go/entrace/internal/core/execbatch"
	"github.com/entrace-go/entrace/internal/text"
)

// A PartKind is the kind of a [Part].
type PartKind uint8

// The kinds of parts.
const (
	Task      PartKind = iota // made by runtime/trace.NewTask
	Region                    // made by runtime/trace.WithRegion or StartRegion
	Log                       // made by runtime/trace.Log, at time From
	Goroutine                 // the lifetime of a goroutine
	Waiting                   // a wait of a goroutine
	Range                     // an activity of the runtime, such as a garbage collection
	Short                     // stands for Count goroutines with the same function that lived for less than LongWait each
	Sample                    // a CPU profile found the goroutine, or other code, on a processor at time From
)

// A Part is something that happened during an execution trace.
type Part struct {
	Kind       PartKind
	ID, Parent uint64 // 0 if there is none; a Log, Short or Sample has no ID
	Root       uint64 // the ID of the topmost ancestor, or the part's own ID
	Name       string // for a Log: its category
	Message    string // only for a Log
	From, To   int64  // nanoseconds since 1970, or since an unknown moment if the trace has no clocks
	Ended      bool   // To is the end of the part; if false, To is the end of the trace
	Began      bool   // From is the beginning of the part; if false, From is the beginning of the trace
	Goroutine  int64  // -1 if there is none
	By         int64  // the goroutine that created the goroutine or ended the wait; -1 if there is none
	Reason     string // why the goroutine waits, in the words of the runtime
	Stack      []Frame
	Count      int
	Below      PartKind // for a Sample: the kind of its parent, or Sample if it has no parent
}

// The limits of [Parts]. A program exceeds them only if it begins tasks, regions or goroutines without ever ending
// them.
const (
	maxOpenParts = 1 << 20
	maxNames     = 10_000
)

// Parts reads an execution trace, and calls fn with its parts in the order in which they end. Parts without an end
// come last. A goroutine or a wait is a part only if it lasts at least LongWait. Waits of the runtime's own
// goroutines are omitted. Parts stops when fn returns false. The error is a *VersionError, an error of ctx or r, or a
// *DamageError. The field At of a *DamageError is the end of the data that could not be read; fn was called for all
// earlier data.
func Parts(ctx context.Context, r io.Reader, fn func(p *Part) bool) error {
	head := make([]byte, execbatch.HeaderSize)
	switch n, err := io.ReadFull(r, head); {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &DamageError{int64(n), io.ErrUnexpectedEOF}
	case err != nil:
		return err
	}
	if err := checkVersion(head); err != nil {
		return err
	}
	in := &countingReader{r: io.MultiReader(bytes.NewReader(head), r)}
	p := &rowReader{
		fn: fn, goroutines: make(map[int64]*goroutineRow), tasks: make(map[uint64]*Part), endedTasks: make(map[uint64][2]uint64), ranges: make(map[rangeKey]*Part), short: make(map[string]int),
		classes: newClasses(),
	}
	err := events(ctx, in, p.event)
	if errors.Is(err, errDone) {
		return nil
	}
	p.emitOpen()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case in.err != nil:
		return in.err
	}
	return &DamageError{in.n, err}
}

// A countingReader counts the bytes that were read from r.
type countingReader struct {
	r   io.Reader
	n   int64
	err error // of r, other than io.EOF
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// A goroutineRow is the state of a goroutine while its parts are collected.
type goroutineRow struct {
	Part

	given   bool   // Part has an ID, because fn already got a part below it
	mark    uint64 // the span id in the last mark, for the next task
	wait    int64  // when the current wait began; 0 if the goroutine does not wait
	reason  string
	class   int32
	regions []*Part
	tasks   []*Part // tasks that began on the goroutine; some of them may have ended
}

type rangeKey struct {
	name  string
	scope trace.ResourceID
}

type rowReader struct {
	fn          func(p *Part) bool
	goroutines  map[int64]*goroutineRow
	tasks       map[uint64]*Part
	endedTasks  map[uint64][2]uint64 // the ids and roots of tasks that have ended: parts that begin in the context of a task are below it
	ranges      map[rangeKey]*Part
	short       map[string]int
	classes     classes
	clock       clock
	open        int // the number of open regions
	ids         uint64
	first, last int64 // in the time of clock
	done        bool
}

// emit passes a part to fn, and returns errDone if fn wants no more parts.
func (p *rowReader) emit(x *Part) error {
	if p.done || !p.fn(x) {
		p.done = true
		return errDone
	}
	return nil
}

// end sets the end of a part, and passes the part to fn. The parameter ended is false if the part was open at
// the end of the trace.
func (p *rowReader) end(x *Part, at int64, ended bool) error {
	x.To, x.Ended = at, ended
	return p.emit(x)
}

// begun returns a part that began at the given time.
func begun(kind PartKind, name string, at, goroutine int64) *Part {
	return &Part{Kind: kind, Name: strings.Clone(name), From: at, Began: true, Goroutine: goroutine, By: -1}
}

func (p *rowReader) id() uint64 {
	p.ids++
	return 1<<63 | p.ids // never equal to the id of a mark, except by an improbable chance
}

func (p *rowReader) event(e *trace.Event) error {
	if e.Kind() == trace.EventSync {
		clear(p.classes.byKey)
		// Use one clock for all parts, because a part may have begun before a change of the wall clock.
		if c := e.Sync().ClockSnapshot; c != nil && p.clock == (clock{}) {
			p.clock = clock{int64(c.Trace), c.Wall.UnixNano()}
		}
		return nil
	}
	at := int64(e.Time()) - p.clock.trace + p.clock.wall
	if p.first == 0 {
		p.first = at
	}
	p.last = max(p.last, at)
	switch e.Kind() {
	case trace.EventStateTransition:
		if st := e.StateTransition(); st.Resource.Kind == trace.ResourceGoroutine {
			return p.transition(e, &st, at)
		}
	case trace.EventTaskBegin:
		return p.taskBegin(e, at)
	case trace.EventTaskEnd:
		id := uint64(e.Task().ID)
		if x := p.tasks[id]; x != nil {
			delete(p.tasks, id)
			if len(p.endedTasks) == maxOpenParts {
				clear(p.endedTasks)
			}
			p.endedTasks[id] = [2]uint64{x.ID, x.Root}
			return p.end(x, at, true)
		}
	case trace.EventRegionBegin, trace.EventRegionEnd:
		return p.region(e, at)
	case trace.EventLog:
		return p.log(e, at)
	case trace.EventStackSample:
		return p.sample(e, at)
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		return p.rangeOf(e, at)
	}
	return nil
}

// of returns the state of the goroutine with the given id.
func (p *rowReader) of(id int64) (*goroutineRow, error) {
	g := p.goroutines[id]
	if g == nil {
		if len(p.goroutines) >= maxGoroutines {
			return nil, errTooMuch
		}
		g = &goroutineRow{Part: Part{Kind: Goroutine, From: p.first, Goroutine: id, By: -1}, class: -1}
		p.goroutines[id] = g
	}
	return g, nil
}

func (p *rowReader) transition(e *trace.Event, st *trace.StateTransition, at int64) error {
	g, err := p.of(int64(st.Resource.Goroutine()))
	if err != nil {
		return err
	}
	from, to := st.Goroutine()
	if from == trace.GoNotExist {
		g.From, g.Began, g.By = at, true, int64(e.Goroutine())
	}
	if g.Name == "" {
		g.Name = strings.Clone(outermost(st.Stack))
	}
	switch to {
	case trace.GoWaiting:
		if g.wait == 0 {
			g.wait, g.reason, g.class = at, st.Reason, p.classes.of(st.Reason, st.Stack)
			if from == trace.GoUndetermined {
				g.wait = p.first
			}
		}
		return nil
	case trace.GoRunnable, trace.GoRunning, trace.GoSyscall, trace.GoNotExist:
		if err := p.waited(g, at, true, int64(e.Goroutine())); err != nil {
			return err
		}
	}
	if to == trace.GoNotExist {
		delete(p.goroutines, g.Goroutine)
		return p.emitGoroutine(g, at, true)
	}
	return nil
}

// waited passes the wait of g to fn if it was at least LongWait.
func (p *rowReader) waited(g *goroutineRow, at int64, ended bool, by int64) error {
	from := g.wait
	g.wait = 0
	if from == 0 || at-from < LongWait {
		return nil
	}
	if g.Name == "" || ofRuntime(g.Name) { // a goroutine without a name has waits without stacks
		return nil
	}
	c := &p.classes.list[g.class]
	if by == g.Goroutine {
		by = -1
	}
	parent := p.below(g)
	return p.emit(&Part{
		Kind: Waiting, ID: p.id(), Parent: parent, Root: parent, Name: c.State.String(), From: from, To: at, Began: from != p.first, Ended: ended, Goroutine: g.Goroutine, By: by,
		Reason: strings.Clone(g.reason), Stack: c.Stack,
	})
}

// ofRuntime reports whether a goroutine that started with the given function belongs to the runtime. The waits of
// such goroutines are waits for work.
func ofRuntime(function string) bool {
	pkg := text.PackageOf(function)
	return pkg == "runtime" && function != "runtime.main" && function != coroutineStart || pkg == "runtime/trace"
}

// below returns the ID of a goroutine for a part below it. It assigns an ID if the goroutine has none.
func (p *rowReader) below(g *goroutineRow) uint64 {
	if !g.given {
		g.ID, g.given = p.id(), true
		g.Root = g.ID
	}
	return g.ID
}

// emitGoroutine passes the open regions of a goroutine, and then the goroutine, to fn.
func (p *rowReader) emitGoroutine(g *goroutineRow, at int64, ended bool) error {
	for _, x := range slices.Backward(g.regions) {
		p.open--
		if err := p.end(x, at, ended); err != nil {
			return err
		}
	}
	if ofRuntime(g.Name) && !g.given {
		return nil
	}
	g.To, g.Ended = at, ended
	if at-g.From < LongWait && !g.given {
		if _, ok := p.short[g.Name]; ok || len(p.short) < maxNames {
			p.short[strings.Clone(g.Name)]++
		}
		return nil
	}
	p.below(g)
	return p.emit(&g.Part)
}

func (p *rowReader) taskBegin(e *trace.Event, at int64) error {
	if len(p.tasks) >= maxOpenParts {
		return errTooMuch
	}
	g, err := p.of(int64(e.Goroutine()))
	if err != nil {
		return err
	}
	task := e.Task()
	x := begun(Task, task.Type, at, g.Goroutine)
	x.ID, g.mark = g.mark, 0
	if x.ID == 0 {
		x.ID = p.id()
	}
	x.Parent, x.Root = p.task(task.Parent)
	if x.Root == 0 {
		x.Root = x.ID
	}
	p.tasks[uint64(task.ID)] = x
	if n := len(g.tasks); n == cap(g.tasks) { // from time to time, remove tasks that have ended
		g.tasks = slices.DeleteFunc(g.tasks, hasEnded)
		if len(g.tasks) > n/2 {
			g.tasks = slices.Grow(g.tasks, n)
		}
	}
	g.tasks = append(g.tasks, x)
	return nil
}

func hasEnded(x *Part) bool { return x.Ended }

// above returns the parent of a region or log message of a goroutine: its innermost region, or else the task.
func (p *rowReader) above(g *goroutineRow, task trace.TaskID) (parent, root uint64) {
	if n := len(g.regions); n > 0 {
		return g.regions[n-1].ID, g.regions[n-1].Root
	}
	return p.task(task)
}

// task returns the part of a task, and the root of this part. Both are 0 if the task began before the trace.
func (p *rowReader) task(id trace.TaskID) (part, root uint64) {
	if x := p.tasks[uint64(id)]; x != nil {
		return x.ID, x.Root
	}
	ended := p.endedTasks[uint64(id)]
	return ended[0], ended[1]
}

func (p *rowReader) region(e *trace.Event, at int64) error {
	g, err := p.of(int64(e.Goroutine()))
	if err != nil {
		return err
	}
	r := e.Region()
	if e.Kind() == trace.EventRegionBegin {
		if p.open >= maxOpenParts {
			return errTooMuch
		}
		p.open++
		x := begun(Region, r.Type, at, g.Goroutine)
		x.ID = p.id()
		x.Parent, x.Root = p.above(g, r.Task)
		if x.Root == 0 {
			x.Root = x.ID
		}
		g.regions = append(g.regions, x)
		return nil
	}
	n := len(g.regions)
	if n == 0 || g.regions[n-1].Name != r.Type { // the region began before the trace
		return nil
	}
	x := g.regions[n-1]
	g.regions = g.regions[:n-1]
	p.open--
	return p.end(x, at, true)
}

func (p *rowReader) log(e *trace.Event, at int64) error {
	g, err := p.of(int64(e.Goroutine()))
	if err != nil {
		return err
	}
	l := e.Log()
	switch l.Category {
	case "otel.span":
		g.mark = markedID(l.Message)
		return nil
	case "otel.end":
		return nil
	}
	x := begun(Log, l.Category, at, g.Goroutine)
	x.Message = strings.Clone(l.Message)
	x.Parent, x.Root = p.above(g, l.Task)
	return p.end(x, at, true)
}

// sample passes a CPU sample to fn. Its parent is the region or task that began last on its goroutine, or else the
// goroutine.
func (p *rowReader) sample(e *trace.Event, at int64) error {
	x := begun(Sample, "", at, int64(e.Goroutine()))
	x.Below = Sample
	for f := range e.Stack().Frames() { // package trace allows at most 128 frames
		x.Stack = append(x.Stack, Frame{f.Func, f.File, int(f.Line)})
	}
	if x.Goroutine < 0 {
		return p.end(x, at, true)
	}
	g, err := p.of(x.Goroutine)
	if err != nil {
		return err
	}
	for n := len(g.tasks); n > 0 && hasEnded(g.tasks[n-1]); n-- {
		g.tasks = g.tasks[:n-1]
	}
	var up *Part
	for _, list := range [][]*Part{g.tasks, g.regions} {
		if n := len(list); n > 0 && (up == nil || list[n-1].From >= up.From) {
			up = list[n-1]
		}
	}
	if up != nil {
		x.Parent, x.Root, x.Below = up.ID, up.Root, up.Kind
	} else {
		x.Parent, x.Below = p.below(g), Goroutine
		x.Root = x.Parent
	}
	return p.end(x, at, true)
}

// rangeOf handles the begin or end of an activity of the runtime. It ignores the many short activities of goroutines
// and processors for the garbage collector.
func (p *rowReader) rangeOf(e *trace.Event, at int64) error {
	r := e.Range()
	if r.Name == "GC mark assist" || r.Name == "GC incremental sweep" {
		return nil
	}
	k := rangeKey{r.Name, r.Scope}
	x := p.ranges[k]
	if e.Kind() == trace.EventRangeEnd {
		if x == nil {
			return nil
		}
		delete(p.ranges, k)
		return p.end(x, at, true)
	}
	if x == nil {
		if len(p.ranges) >= maxOpenParts {
			return errTooMuch
		}
		x = begun(Range, r.Name, at, -1)
		x.ID = p.id()
		if e.Kind() == trace.EventRangeActive {
			x.From, x.Began = p.first, false
		}
		x.Root = x.ID
		k.name = x.Name
		p.ranges[k] = x
	}
	return nil
}

// emitOpen passes the parts that are still open at the end of the trace to fn.
func (p *rowReader) emitOpen() {
	for _, id := range slices.Sorted(maps.Keys(p.goroutines)) {
		g := p.goroutines[id]
		if p.waited(g, p.last, false, -1) != nil || p.emitGoroutine(g, p.last, false) != nil {
			return
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		if p.end(p.tasks[id], p.last, false) != nil {
			return
		}
	}
	for _, x := range slices.SortedFunc(maps.Values(p.ranges), func(a, b *Part) int { return cmp.Compare(a.ID, b.ID) }) {
		if p.end(x, p.last, false) != nil {
			return
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.short)) {
		if p.emit(&Part{Kind: Short, Name: name, From: p.last, To: p.last, Goroutine: -1, By: -1, Count: p.short[name]}) != nil {
			return
		}
	}
}
