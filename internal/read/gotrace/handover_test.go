package gotrace

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// worker starts a goroutine that runs jobs, and waits until it is idle. The returned function sends a job to this
// goroutine. size is the size of the queue.
func worker(size int) func(job func()) {
	jobs := make(chan func(), size)
	go func() {
		for job := range jobs {
			job()
		}
	}()
	time.Sleep(2 * ms)
	return func(job func()) { jobs <- job }
}

// ways are ways to pass a job to another goroutine. Each returns a function that sends one job.
var ways = map[string]func() func(job func()){
	"to an idle worker":         func() func(job func()) { return worker(0) },
	"to a worker with a queue":  func() func(job func()) { return worker(1) },
	"to a goroutine of its own": func() func(job func()) { return func(job func()) { go job() } },
	"to a worker that selects": func() func(job func()) {
		jobs, quit := make(chan func()), make(chan int)
		go func() {
			select {
			case job := <-jobs:
				job()
			case <-quit:
			}
		}()
		time.Sleep(2 * ms)
		return func(job func()) {
			select {
			case jobs <- job:
			case <-quit:
			}
		}
	},
	"by a condition": func() func(job func()) {
		var mu sync.Mutex
		var todo func()
		c := sync.NewCond(&mu)
		go func() {
			mu.Lock()
			for todo == nil {
				c.Wait()
			}
			mu.Unlock()
			todo()
		}()
		time.Sleep(2 * ms)
		return func(job func()) {
			mu.Lock()
			todo = job
			mu.Unlock()
			c.Signal()
		}
	},
	"to a busy worker": func() func(job func()) {
		send := worker(0)
		send(func() { spin(60 * ms) })
		return send
	},
	"in a select to a busy worker": func() func(job func()) {
		jobs := make(chan func())
		go func() { spin(60 * ms); (<-jobs)() }()
		return func(job func()) {
			select {
			case jobs <- job:
			case <-time.After(time.Minute):
			}
		}
	},
}

// A tally collects the errors of a run. A loaded machine can take time from a program anywhere, so it is enough if
// one of several runs has no errors.
type tally struct{ wrong []string }

func (w *tally) add(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func bestOf(t *testing.T, run func(w *tally)) {
	t.Helper()
	var w tally
	for range 10 {
		w = tally{}
		run(&w)
		if len(w.wrong) == 0 {
			return
		}
	}
	t.Errorf("in the last of 10 runs:\n%s", strings.Join(w.wrong, "\n"))
}

// TestHandover checks that the times of a span come from its first goroutine until the handover, and then from the
// second goroutine.
func TestHandover(t *testing.T) { bestOf(t, func(w *tally) { handOver(t, w) }) }

func handOver(t *testing.T, w *tally) {
	t.Helper()
	p, b := record(t, func(ctx context.Context, p *program) {
		for name, way := range ways {
			send, done := way(), make(chan int)
			_, end := p.span(ctx, name)
			spin(20 * ms)
			send(func() { time.Sleep(40 * ms); end(); close(done) })
			p.in(ctx, name+": next", func(context.Context) { <-done })
		}
	})
	tr := read(t, b)
	for name := range ways {
		s := p.of(t, tr, name)
		times, took := tr.Times(s), (s.End-s.Begin)/1000
		waited := int64(times[Chan] + times[Select] + times[Sync])
		if name == "to a busy worker" || name == "in a select to a busy worker" {
			if waited < 20_000 {
				w.add("%s: the span waited for %d µs until it was taken", name, waited)
			}
			waited = 0
		}
		if s.Goroutine == s.ender || s.Handed == Unknown || times[Sleep] < 39_000 || times[Running]+times[Runnable] < 19_000 || waited > 0 || times.Sum() > took+2*NumStates {
			w.add("%s: of %d µs the times are %v, on %d and %d", name, took, times, s.Goroutine, s.ender)
		}
		for i, own := range tr.Own(s) {
			if d := int64(own) - int64(times[i]); d > 3 || d < -3 { // times are rounded
				w.add("%s: its own times are %v of %v", name, tr.Own(s), times)
			}
		}
		if got := p.nameOf(tr, s.ender, s.End-1); got != name {
			w.add("%s: at its end its goroutine works for %q", name, got)
		}
		if _, known := p.pathOf(t, tr, name); known < .99 || known > 1.0001 {
			w.add("%s: its path explains %.3f of it", name, known)
		}
		next := p.of(t, tr, name+": next")
		if got := p.nameOf(tr, next.Goroutine, next.End-1); got != name+": next" {
			w.add("%s: its first goroutine works for %q then", name, got)
		}
	}
	for i := range tr.Waits {
		if x := &tr.Waits[i]; x.From < tr.Spans[x.Span].Begin || x.To > tr.Spans[x.Span].End && tr.Spans[x.Span].End != 0 {
			w.add("the wait %+v is not within its span %+v", x, tr.Spans[x.Span])
		}
	}
}

// TestUnknownHandover checks that a span has no times if the handover is not known.
func TestUnknownHandover(t *testing.T) {
	p, b := record(t, func(ctx context.Context, p *program) {
		done := make(chan int)
		_, end := p.span(ctx, "ended by a timer")
		time.AfterFunc(50*ms, func() { end(); done <- 1 })
		<-done

		send := worker(2)
		send(func() { spin(20 * ms) })
		_, end = p.span(ctx, "queued for a busy worker")
		send(func() { time.Sleep(20 * ms); end(); done <- 1 })
		<-done

		items := make(chan int)
		go func() {
			for range 3 {
				<-items
			}
			end()
			done <- 1
		}()
		_, end = p.span(ctx, "by one of several meetings")
		for range 3 {
			items <- 1
			time.Sleep(5 * ms)
		}
		<-done
	})
	tr := read(t, b)
	for name := range p.spans {
		s := p.of(t, tr, name)
		if s.Handed != Unknown || tr.Times(s) != (Times{}) || tr.Own(s) != (Times{}) {
			t.Errorf("%s: unknown %v, with the times %v", name, s.Handed == Unknown, tr.Times(s))
		}
	}
	for _, w := range tr.Waits {
		if s := &tr.Spans[w.Span]; s.Handed == Unknown {
			t.Errorf("a wait of %+v is told: %+v", s, w)
		}
	}
}

// TestCoroutine checks that the work of a coroutine counts for its caller: over several calls, in coroutines that
// run in coroutines, and if the coroutine began before the trace.
func TestCoroutine(t *testing.T) { bestOf(t, func(w *tally) { coroutines(t, w) }) }

func coroutines(t *testing.T, w *tally) {
	t.Helper()
	steps := func(yield func(int) bool) {
		for {
			spin(20 * ms)
			time.Sleep(20 * ms)
			if !yield(0) {
				return
			}
		}
	}
	old, stop := iter.Pull(iter.Seq[int](steps))
	defer stop()
	old()
	p, b := record(t, func(ctx context.Context, p *program) {
		p.in(ctx, "old", func(context.Context) { old() })
		p.in(ctx, "old again", func(context.Context) { old() })
		next, stop := iter.Pull(iter.Seq[int](steps))
		p.in(ctx, "new", func(context.Context) { next() })
		p.in(ctx, "between", func(context.Context) { time.Sleep(10 * ms) })
		done := make(chan int)
		go func() { p.in(ctx, "elsewhere", func(context.Context) { next() }); close(done) }()
		<-done
		stop()
		p.in(ctx, "nested", func(context.Context) {
			next, stop := iter.Pull(func(yield func(int) bool) {
				next, stop := iter.Pull(iter.Seq[int](steps))
				defer stop()
				next()
				yield(0)
			})
			next()
			stop()
		})
		next, stop = iter.Pull(func(func(int) bool) {
			p.in(ctx, "within", func(context.Context) { spin(20 * ms); time.Sleep(20 * ms) })
		})
		next()
		stop()
	})
	tr := read(t, b)
	for name := range p.spans {
		s := p.of(t, tr, name)
		times := tr.Times(s)
		if name == "between" {
			if times[Sleep] < 9_000 {
				w.add("%s: the times are %v", name, times)
			}
			continue
		}
		if times[Sleep] < 19_000 || times[Running]+times[Runnable] < 19_000 || times[Other] > 1_000 {
			w.add("%s: the times are %v", name, times)
		}
		found := false
		for i := range tr.Waits {
			x := &tr.Waits[i]
			found = found || &tr.Spans[x.Span] == s && tr.Classes[x.Class].State == Sleep
			if &tr.Spans[x.Span] == s && tr.Classes[x.Class].State == Other {
				w.add("a wait of %q for a coroutine counts: %+v", name, x)
			}
		}
		if !found {
			w.add("%s: its sleep is not among the waits", name)
		}
		if steps, known := p.pathOf(t, tr, name); known < .99 || len(steps) < 2 || steps[len(steps)-1] != "sleep "+name {
			w.add("%s: its path is %q, %.2f of it", name, steps, known)
		}
	}
}

// TestWorkersOfTheCollector checks that the garbage collector's workers do not work for a span that is open when
// they are created.
func TestWorkersOfTheCollector(t *testing.T) {
	const child = "ENTRACE_TEST_COLLECTOR"
	if os.Getenv(child) == "" { // the first garbage collection of a process creates the workers
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		c.Env = append(os.Environ(), child+"=1", "GOGC=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	p, b := record(t, func(ctx context.Context, p *program) {
		p.in(ctx, "collects", func(context.Context) { runtime.GC(); time.Sleep(30 * ms) })
	})
	tr := read(t, b)
	s := p.of(t, tr, "collects")
	for _, w := range tr.Waits {
		c := &tr.Classes[w.Class]
		own := slices.ContainsFunc(c.Stack, func(f Frame) bool { return strings.HasSuffix(f.Func, "runtime.GC") }) // until the workers run
		if &tr.Spans[w.Span] == s && c.State != Sleep && !own {
			t.Errorf("the span has the wait %+v at %+v", w, c.Stack)
		}
	}
	if !bytes.Contains(b, []byte("runtime.gcBgMarkWorker")) {
		t.Error("the collection has created no workers")
	}
}
