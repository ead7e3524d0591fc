package lua

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	vm "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/entrace-go/entrace/format"
)

// Options change how Run works.
type Options struct {
	// Output gets what the script prints. The default is [io.Discard].
	Output io.Writer
	// Threads is in how many parts the file is cut, each with its own run of the script, which
	// en_span_range tells which part it has. The default is 1.
	Threads int
	// Upstream makes functions do what ENTRACE's do where these err.
	Upstream bool
	// MaxMemory is about how many bytes the script may use: texts are bound before they are made,
	// tables are looked at every 5 ms, so that it may be half as much more for a moment. The
	// default is 1 GiB.
	MaxMemory int64
}

// MaxScript is how many bytes a script, or a text that it loads, has at most: what compiles them
// takes a kilobyte of its stack for each expression in another one.
const MaxScript = 64 << 10

// defaultMaxMemory is the default of [Options].MaxMemory.
const defaultMaxMemory = 1 << 30

var (
	// ErrMemory says that a script uses more memory than it may.
	ErrMemory = errors.New("the script uses more memory than it may")

	errResult = errors.New("the script returns a table that is neither a list of ids nor a filterset")
)

// A ScriptError is an error that a script has raised, or in its syntax.
type ScriptError struct {
	Message string // with the name of the script and the line
}

func (e *ScriptError) Error() string { return e.Message }

// A Result has the ids of the list or filterset that a script returns.
type Result struct {
	IDs []uint32 // of entries, in the order of the script
	Any bool     // it returns a list or filterset, which can be empty, and not a value of another kind
}

// Run runs a script of that name on a file. The error is a [*ScriptError], ErrMemory, that of a
// result which is neither of these, or that of ctx, of reading, or of Output.
func Run(ctx context.Context, f *format.File, name, script string, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
	}
	if len(script) > MaxScript {
		return nil, &ScriptError{Message: fmt.Sprintf("%s: a script has at most %d bytes", name, MaxScript)}
	}
	r := &run{options: *o, n: f.Len()}
	if r.options.Output == nil {
		r.options.Output = io.Discard
	}
	if r.options.MaxMemory <= 0 {
		r.options.MaxMemory = defaultMaxMemory
	}
	proto, err := compile(name, script)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.cancel, r.proto = cancel, proto
	defer r.watch(ctx)()

	threads := max(1, min(o.Threads, r.n))
	r.join.want = threads
	r.join.arrived.L = &r.join.mu
	r.join.lists = make([][]uint32, threads)
	all := make([]*thread, threads)
	var wait sync.WaitGroup
	for i := range all {
		t := newThread(ctx, r, f, i)
		per := r.n / threads
		t.first, t.last = i*per, (i+1)*per-1
		if i == threads-1 {
			t.last = max(r.n-1, 0)
		}
		all[i] = t
		wait.Go(func() {
			t.execute()
			r.join.done(t.stopped)
		})
	}
	stop := context.AfterFunc(ctx, r.join.wake)
	defer stop()
	wait.Wait()
	out := new(Result)
	for _, t := range all {
		if t.err != nil {
			if cause := context.Cause(ctx); cause != nil {
				return nil, cause
			}
			return nil, t.err
		}
		out.IDs = append(out.IDs, t.ids...)
		out.Any = out.Any || t.any
	}
	return out, nil
}

// A run is one call of Run.
type run struct {
	options Options
	n       int // entries
	proto   *vm.FunctionProto
	cancel  context.CancelCauseFunc
	join    join
	before  int64 // the memory in use when the run began

	out      sync.Mutex
	outError error
}

// A table whose keys are numbers is a list up to this, and is filled up to the largest of them.
func init() { vm.MaxArrayIndex = 1 << 24 }

// print writes a line.
func (r *run) print(s string) {
	r.out.Lock()
	defer r.out.Unlock()
	if r.outError != nil {
		return
	}
	if _, r.outError = io.WriteString(r.options.Output, s+"\n"); r.outError != nil {
		r.cancel(r.outError)
	}
}

// heap returns how much memory is in use, with what nobody needs any more.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(min(s[0].Value.Uint64(), math.MaxInt64))
}

// used returns how much more memory is in use than when the run began.
func (r *run) used() int64 { return heap() - r.before }

// watch ends the run when it uses too much memory. The function that it returns ends the watch.
func (r *run) watch(ctx context.Context) (stop func()) {
	r.before = heap()
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if r.used() > r.options.MaxMemory {
					r.cancel(ErrMemory)
					return
				}
			}
		}
	})
	return func() {
		close(done)
		wait.Wait()
	}
}

// A join is where the threads of a run meet.
type join struct {
	mu      sync.Mutex
	arrived sync.Cond
	want    int        // threads that have not stopped or ended
	here    []int      // those that wait
	lists   [][]uint32 // what they bring
	woken   bool       // the run has ended
}

// meet waits until every thread that runs is here. One of them goes on with the ids of all, in
// the order of the threads, and the others stop.
func (j *join) meet(thread int, ids []uint32) (all []uint32, goesOn bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lists[thread] = ids
	j.here = append(j.here, thread)
	j.arrived.Broadcast()
	for len(j.here) < j.want && !j.woken {
		j.arrived.Wait()
		if j.here == nil { // another one has gone on
			return nil, false
		}
	}
	if j.woken {
		return nil, false
	}
	for i, list := range j.lists {
		all = append(all, list...)
		j.lists[i] = nil
	}
	j.want -= len(j.here) - 1
	j.here = nil
	j.arrived.Broadcast()
	return all, true
}

// done says that a thread has ended, and whether it was stopped by meet.
func (j *join) done(stopped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !stopped {
		j.want--
	}
	j.arrived.Broadcast()
}

// wake lets nobody wait any more.
func (j *join) wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.woken = true
	j.arrived.Broadcast()
}

// A thread is one run of the script.
type thread struct {
	*run

	number      int
	first, last int // of its part, which en_span_range returns
	l           *vm.LState
	file        *format.File
	read        reader
	cancelOwn   context.CancelFunc
	stopped     bool // by en_join

	ids []uint32
	any bool
	err error
}

func newThread(ctx context.Context, r *run, f *format.File, number int) *thread {
	t := &thread{run: r, number: number, file: f}
	t.read.init(f, r.options.Upstream)
	t.l = vm.NewState(vm.Options{
		SkipOpenLibs: true, CallStackSize: 10_000, RegistrySize: 16 << 10, RegistryMaxSize: 4 << 20, RegistryGrowStep: 64 << 10,
	})
	ctx, t.cancelOwn = context.WithCancel(ctx)
	t.l.SetContext(ctx)
	t.openLibraries()
	t.openEntries()
	t.openFiltersets()
	return t
}

// compile compiles a script, as an expression if it is one, else as a block.
func compile(name, script string) (*vm.FunctionProto, error) {
	if proto, err := compileBlock(name, "return "+script); err == nil {
		return proto, nil
	}
	return compileBlock(name, script)
}

func compileBlock(name, script string) (*vm.FunctionProto, error) {
	chunk, err := parse.Parse(strings.NewReader(script), name)
	if err != nil {
		return nil, &ScriptError{Message: strings.TrimSpace(err.Error())}
	}
	bound(chunk)
	proto, err := vm.Compile(chunk, name)
	if err != nil {
		return nil, &ScriptError{Message: strings.TrimSpace(err.Error())}
	}
	return proto, nil
}

// execute runs the script.
func (t *thread) execute() {
	defer t.l.Close()
	defer t.cancelOwn()
	err := t.l.CallByParam(vm.P{Fn: t.l.NewFunctionFromProto(t.proto), NRet: 1, Protect: true})
	if t.stopped {
		return
	}
	if err != nil {
		t.err = scriptError(err)
		return
	}
	value := t.l.Get(-1)
	t.l.Pop(1)
	t.err = t.result(value)
}

// result takes what the script returns.
func (t *thread) result(value vm.LValue) (err error) {
	list, ok := value.(*vm.LTable)
	if !ok {
		return nil
	}
	t.any = true
	if list.RawGetString("type") == vm.LString("filterset") {
		set, err := t.evaluate(list)
		if err == nil {
			t.ids = slices.Collect(set.All())
		}
		return err
	}
	for i := range list.Len() {
		id, err := toID(list.RawGetInt(i + 1))
		if err != nil {
			return fmt.Errorf("%w: element %d: %w", errResult, i+1, err)
		}
		t.ids = append(t.ids, id)
	}
	return nil
}

// scriptError returns the error of a script without the stack.
func scriptError(err error) error {
	if e, ok := errors.AsType[*vm.ApiError](err); ok {
		switch {
		case e.Object != vm.LNil && e.Object != nil:
			return &ScriptError{Message: strings.TrimSpace(e.Object.String())}
		case e.Cause != nil:
			return &ScriptError{Message: strings.TrimSpace(e.Cause.Error())}
		}
		return &ScriptError{Message: e.Error()}
	}
	return err
}
