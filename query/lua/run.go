package lua

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"runtime/metrics"
	"strings"
	"sync"
	"time"

	vm "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/entrace-go/entrace/format"
)

// Options change how Run works.
type Options struct {
	// Output receives the output of print. The default is [io.Discard].
	Output io.Writer
	// Threads is the number of parts into which the file is divided. The script runs once for each
	// part, in a thread of its own. In the script, en_span_range returns the part of the thread.
	// The default is 1.
	Threads int
	// MaxMemory is the approximate number of bytes that the script may use. The size of a text is checked before
	// it is made. All other memory is checked every 5 ms, so the script may use up to 50 % more for a moment. The
	// default is 1 GiB.
	MaxMemory int64
}

// MaxScript is the maximum size in bytes of a script, or of a text that it loads. It also limits the stack of the
// compiler, which needs a kilobyte for each level of nested expressions.
const MaxScript = 64 << 10

// defaultMaxMemory is the default of [Options].MaxMemory.
const defaultMaxMemory = 1 << 30

// ErrMemory is the error of a script that uses more than [Options].MaxMemory.
var ErrMemory = errors.New("the script uses more memory than its limit")

// A ScriptError is an error that a script raised, or an error in its syntax.
type ScriptError struct {
	Message string // includes the name of the script and the line
}

func (e *ScriptError) Error() string { return e.Message }

// A Result holds the ids of the list or filterset that a script returned.
type Result struct {
	IDs []uint32 // the ids of entries, in the order in which the script returned them
	Any bool     // whether the script returned a list or filterset, which may be empty, and not a value of another kind
}

// Run runs a script on a file. The name of the script is used in errors. Run returns a
// [*ScriptError] or ErrMemory if the script fails, if it returns a table that is neither a list of
// ids nor a filterset, or if the file cannot be read. It also returns the errors of ctx and of
// Output.
func Run(ctx context.Context, f *format.File, name, script string, o *Options) (*Result, error) {
	if o == nil {
		o = &Options{}
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
	n       int // the number of entries
	proto   *vm.FunctionProto
	cancel  context.CancelCauseFunc
	join    join
	before  int64 // the memory in use when the run began

	out      sync.Mutex
	outError error
}

// gopher-lua stores a table with number keys as an array, up to the largest key. This limits the size of such
// arrays.
func init() { vm.MaxArrayIndex = 1 << 24 }

// print writes a line to Output.
func (r *run) print(s string) {
	r.out.Lock()
	defer r.out.Unlock()
	if r.outError != nil {
		return
	}
	_, r.outError = io.WriteString(r.options.Output, s+"\n")
	if r.outError != nil {
		r.cancel(r.outError)
	}
}

// heap returns the size of all heap objects in bytes, including garbage.
func heap() int64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return int64(min(s[0].Value.Uint64(), math.MaxInt64))
}

// used returns by how much the heap has grown since the run began.
func (r *run) used() int64 { return heap() - r.before }

// watch starts a goroutine that cancels the run when it uses too much memory. The returned function
// stops the goroutine.
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

// A join implements en_join: it is the barrier for the threads of a run.
type join struct {
	mu      sync.Mutex
	arrived sync.Cond
	want    int        // the number of threads that have not stopped or ended
	here    []int      // the threads that wait in meet
	lists   [][]uint32 // the ids passed by each thread
	woken   bool       // the run has ended
}

// meet waits until every running thread has called meet. Then one thread continues with the ids of all threads, in
// the order of the threads. The other threads stop.
func (j *join) meet(thread int, ids []uint32) (all []uint32, goesOn bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lists[thread] = ids
	j.here = append(j.here, thread)
	j.arrived.Broadcast()
	for len(j.here) < j.want && !j.woken {
		j.arrived.Wait()
		if j.here == nil { // another thread has continued
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

// done records that a thread has ended. The parameter stopped says whether meet stopped it.
func (j *join) done(stopped bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !stopped {
		j.want--
	}
	j.arrived.Broadcast()
}

// wake releases all waiting threads because the run has ended.
func (j *join) wake() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.woken = true
	j.arrived.Broadcast()
}

// A thread is one execution of the script, for one part of the file.
type thread struct {
	*run

	number      int
	first, last int // the ids of the thread's part, as returned by en_span_range
	l           *vm.LState
	file        *format.File
	cancelOwn   context.CancelFunc
	stopped     bool // en_join stopped the thread

	ids []uint32
	any bool
	err error
}

func newThread(ctx context.Context, r *run, f *format.File, number int) *thread {
	t := &thread{run: r, number: number, file: f}
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

// compile compiles a script as an expression, or as a block if it is not an expression.
func compile(name, script string) (*vm.FunctionProto, error) {
	if proto, err := compileBlock(name, "return "+script); err == nil {
		return proto, nil
	}
	return compileBlock(name, script)
}

func compileBlock(name, script string) (*vm.FunctionProto, error) {
	if len(script) > MaxScript {
		return nil, &ScriptError{Message: fmt.Sprintf("%s: a script has at most %d bytes", name, MaxScript)}
	}
	chunk, err := parse.Parse(strings.NewReader(script), name)
	var proto *vm.FunctionProto
	if err == nil {
		bound(reflect.ValueOf(chunk))
		proto, err = vm.Compile(chunk, name)
	}
	if err != nil {
		return nil, &ScriptError{Message: strings.TrimSpace(err.Error())}
	}
	return proto, nil
}

// execute runs the script.
func (t *thread) execute() {
	defer t.l.Close()
	defer t.cancelOwn()
	err := t.l.CallByParam(vm.P{Protect: true, Fn: t.l.NewFunction(func(l *vm.LState) int {
		l.Push(l.NewFunctionFromProto(t.proto))
		l.Call(0, 1)
		t.result(l.Get(-1))
		return 0
	})})
	if err != nil && !t.stopped {
		t.err = scriptError(err)
	}
}

// result converts the value that the script returned to ids and stores them in t.
func (t *thread) result(value vm.LValue) {
	list, ok := value.(*vm.LTable)
	if !ok {
		return
	}
	t.any = true
	if list.RawGetString("type") == vm.LString("filterset") {
		t.ids = t.evaluate(list)
		return
	}
	for i := range list.Len() {
		id, err := toID(list.RawGetInt(i + 1))
		if err != nil {
			t.fail(fmt.Errorf("expected the script to return a list of ids or a filterset: element %d: %w", i+1, err))
		}
		t.ids = append(t.ids, id)
	}
}

// scriptError converts an error of gopher-lua to a ScriptError without a stack trace.
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
