package gotrace

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"maps"
	"math"
	"net"
	"runtime"
	"runtime/debug"
	rt "runtime/trace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

const ms = time.Millisecond

// A program has spans in which it does a known amount of work or waits for a known time.
type program struct {
	mu    sync.Mutex
	ids   uint64
	spans map[string]ended
}

// An ended is a span that has ended: its id, and its duration by the program's own clock.
type ended struct {
	id   uint64
	took time.Duration
}

// span begins a span with the same events as the SDK and this module's span processor.
func (p *program) span(ctx context.Context, name string) (context.Context, func()) {
	p.mu.Lock()
	p.ids++
	id := p.ids
	p.mu.Unlock()
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], id)
	begun := time.Now()
	rt.Log(ctx, "otel.span", hex.EncodeToString(b[:]))
	ctx, task := rt.NewTask(ctx, name)
	return ctx, func() {
		took := time.Since(begun)
		task.End()
		if took >= time.Second {
			rt.Log(ctx, "otel.end", hex.EncodeToString(b[:]))
		}
		p.mu.Lock()
		p.spans[name] = ended{id, took}
		p.mu.Unlock()
	}
}

func (p *program) in(ctx context.Context, name string, fn func(ctx context.Context)) {
	ctx, end := p.span(ctx, name)
	defer end()
	fn(ctx)
}

// record returns an execution trace of the execution of fn.
func record(t testing.TB, fn func(ctx context.Context, p *program)) (*program, []byte) {
	t.Helper()
	p := &program{spans: make(map[string]ended)}
	var b bytes.Buffer
	expect.Must(t, rt.Start(&b))
	fn(t.Context(), p)
	rt.Stop()
	return p, b.Bytes()
}

func read(t testing.TB, b []byte) *Trace {
	t.Helper()
	tr, err := Read(t.Context(), bytes.NewReader(b), int64(len(b)))
	expect.Must(t, err)
	expect.Must(t, tr.Damage)
	return tr
}

// of returns the span with the given name.
func (p *program) of(t testing.TB, tr *Trace, name string) *Span {
	t.Helper()
	i := slices.IndexFunc(tr.Spans, func(s Span) bool { return s.ID == p.spans[name].id })
	if i < 0 {
		t.Fatalf("the trace has no span %q", name)
	}
	return &tr.Spans[i]
}

// nameOf returns the name of the span for which a goroutine worked at a time.
func (p *program) nameOf(tr *Trace, goroutine, at int64) string {
	if i := tr.SpanAt(goroutine, at); i >= 0 {
		for name, d := range p.spans {
			if d.id == tr.Spans[i].ID {
				return name
			}
		}
	}
	return ""
}

func spin(d time.Duration) {
	for end, n := time.Now().Add(d), 0; time.Now().Before(end); {
		n++
	}
}

// kinds are spans that spend nearly all their time in one state.
var kinds = map[string]struct {
	state State
	fn    func(ctx context.Context, p *program)
}{
	"sleep":   {Sleep, func(context.Context, *program) { time.Sleep(60 * ms) }},
	"spin":    {Running, func(context.Context, *program) { spin(60 * ms) }},
	"syscall": {Syscall, func(context.Context, *program) { longSyscall(60 * ms) }},
	"mutex": {Mutex, func(ctx context.Context, p *program) {
		var mu sync.Mutex
		held := make(chan int)
		go p.in(ctx, "holder", func(context.Context) { mu.Lock(); close(held); time.Sleep(60 * ms); mu.Unlock() })
		<-held
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // waiting is all
	}},
	"rwmutex": {Mutex, func(context.Context, *program) {
		var mu sync.RWMutex
		for range 3 {
			held := make(chan int)
			go func() { mu.Lock(); close(held); time.Sleep(20 * ms); mu.Unlock() }()
			<-held
			mu.RLock()
			mu.RUnlock() //nolint:staticcheck // waiting is all
		}
	}},
	"chan": {Chan, func(ctx context.Context, p *program) {
		c := make(chan int)
		go p.in(ctx, "sender", func(context.Context) { time.Sleep(60 * ms); c <- 1 })
		<-c
	}},
	"select": {Select, func(ctx context.Context, _ *program) {
		select {
		case <-time.After(60 * ms):
		case <-ctx.Done():
		}
	}},
	"group": {Sync, func(context.Context, *program) {
		var wg sync.WaitGroup
		wg.Go(func() { time.Sleep(60 * ms) })
		wg.Go(func() { time.Sleep(20 * ms) })
		wg.Wait()
	}},
	"cond": {Sync, func(context.Context, *program) {
		var mu sync.Mutex
		c := sync.NewCond(&mu)
		go func() { time.Sleep(60 * ms); c.Signal() }()
		mu.Lock()
		c.Wait()
		mu.Unlock()
	}},
	"net": {Net, func(context.Context, *program) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		defer l.Close()
		go func() {
			if c, err := l.Accept(); err == nil {
				time.Sleep(60 * ms)
				_ = c.Close()
			}
		}()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			panic(err)
		}
		_, _ = io.ReadAll(c)
		_ = c.Close()
	}},
}

// TestKnown checks that nearly all of a span's time is in the state in which the program is known to be. A loaded
// machine adds time in other states, so the best of several runs counts.
func TestKnown(t *testing.T) {
	worst := make(map[string]float64)
	for range 10 {
		p, b := record(t, func(ctx context.Context, p *program) {
			for name, k := range kinds {
				p.in(ctx, name, func(ctx context.Context) { k.fn(ctx, p) })
			}
		})
		tr := read(t, b)
		for name, k := range kinds {
			s := p.of(t, tr, name)
			took := float64(p.spans[name].took.Microseconds())
			times := tr.Times(s)
			off := max(math.Abs(float64(times[k.state])-took), math.Abs(float64(times.Sum())-took)) / took
			if before, ok := worst[name]; !ok || off < before {
				worst[name] = off
			}
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(worst)), func(x float64) bool { return x > .05 }) {
			return
		}
	}
	t.Errorf("of a span's duration, this share is not in the state in which it was: %v", worst)
}

type node struct{ l, r *node }

func tree(n int) *node {
	if n == 0 {
		return new(node)
	}
	return &node{l: tree(n - 1), r: tree(n - 1)}
}

func TestAssist(t *testing.T) {
	p, b := record(t, func(ctx context.Context, p *program) {
		p.in(ctx, "assist", func(context.Context) {
			old := debug.SetGCPercent(5)
			defer debug.SetGCPercent(old)
			keep := tree(17)
			for range 6 {
				tree(16)
			}
			runtime.KeepAlive(keep)
		})
	})
	tr := read(t, b)
	if times := tr.Times(p.of(t, tr, "assist")); times[GCWork]+times[GCWait] == 0 {
		t.Errorf("a span that must help the collector has the times %v", times)
	}
}

// pathOf returns the steps that took at least a tenth of a span's path, as texts with the state and the span of the
// goroutine.
func (p *program) pathOf(t *testing.T, tr *Trace, name string) (steps []string, known float64) {
	t.Helper()
	s := p.of(t, tr, name)
	w, err := tr.Window(t.Context(), s.Begin, s.End)
	if err != nil || w.Damage != nil {
		t.Fatal(err, w.Damage)
	}
	sum := int64(0)
	for _, x := range w.Path(tr.Legs(s)) {
		if x.Followed {
			continue
		}
		sum += x.To - x.From
		text := x.State.String() + " " + p.nameOf(tr, x.Goroutine, x.To-1)
		if (x.To-x.From)*10 < s.End-s.Begin || len(steps) > 0 && steps[len(steps)-1] == text {
			continue
		}
		steps = append(steps, text)
	}
	return steps, float64(sum) / float64(s.End-s.Begin)
}

func (p *program) wantPath(t *testing.T, tr *Trace, name string, want ...string) {
	t.Helper()
	got, known := p.pathOf(t, tr, name)
	if !slices.Equal(got, want) || known < .99 || known > 1.0001 {
		t.Errorf("the path of %q is %q (%.4f of it), want %q", name, got, known, want)
	}
}

// TestPath checks that the path leads to the goroutine that really caused a wait, and not to a span whose times
// merely fit.
func TestPath(t *testing.T) {
	p, b := record(t, func(ctx context.Context, p *program) {
		p.in(ctx, "chain", func(ctx context.Context) {
			var mu sync.Mutex
			held, feed := make(chan int), make(chan int)
			go p.in(ctx, "owner", func(context.Context) { mu.Lock(); close(held); <-feed; mu.Unlock() })
			<-held
			go p.in(ctx, "feeder", func(context.Context) { time.Sleep(50 * ms); spin(50 * ms); feed <- 1 })
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // waiting is all
		})
		p.in(ctx, "convoy", func(ctx context.Context) {
			var mu sync.Mutex
			for _, name := range []string{"first", "second", "third"} {
				begun := make(chan int)
				go p.in(ctx, name, func(context.Context) { close(begun); mu.Lock(); time.Sleep(60 * ms); mu.Unlock() })
				<-begun
				time.Sleep(5 * ms)
			}
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // waiting is all
		})
		jobs := make(chan func())
		go func() {
			for job := range jobs {
				time.Sleep(40 * ms)
				spin(40 * ms)
				job()
			}
		}()
		done := make(chan int)
		_, end := p.span(ctx, "hop")
		jobs <- func() { end(); close(done) }
		p.in(ctx, "beside", func(context.Context) { time.Sleep(50 * ms) })
		<-done
		close(jobs)
	})
	tr := read(t, b)
	p.wantPath(t, tr, "chain", "sleep feeder", "running feeder")
	p.wantPath(t, tr, "convoy", "sleep first", "sleep second", "sleep third")
	p.wantPath(t, tr, "hop", "sleep hop", "running hop")
	if times := tr.Times(p.of(t, tr, "hop")); times[Sleep] < 39_000 || times[Running] < 35_000 {
		t.Errorf("the span that ends on a worker has the times %v", times)
	}
	p.wantPath(t, tr, "beside", "sleep beside")
	s := p.of(t, tr, "chain")
	found := false
	for _, w := range tr.Waits {
		c := &tr.Classes[w.Class]
		if &tr.Spans[w.Span] == s && c.State == Mutex {
			found = true
			if w.By < 0 || tr.Spans[w.By].ID != p.spans["owner"].id {
				t.Errorf("the wait for the mutex was ended by %d", w.By)
			}
			if f := c.Stack[c.User]; !strings.Contains(f.Func, "TestPath") {
				t.Errorf("the program's own frame is %+v of %+v", f, c.Stack)
			}
		}
	}
	if !found {
		t.Errorf("the wait for the mutex is not among %d waits", len(tr.Waits))
	}
}

// TestWorkersOutliveRequests checks that if a request starts a pool of goroutines, these do not work for the
// request after its end.
func TestWorkersOutliveRequests(t *testing.T) {
	var worker int64
	p, b := record(t, func(ctx context.Context, p *program) {
		jobs, ready, done := make(chan int), make(chan int), make(chan int)
		p.in(ctx, "begins the pool", func(context.Context) {
			go func() { close(ready); <-jobs; time.Sleep(20 * ms); close(done) }()
			<-ready
			time.Sleep(ms)
		})
		p.in(ctx, "later", func(context.Context) { jobs <- 1; <-done })
	})
	tr := read(t, b)
	first, later := p.of(t, tr, "begins the pool"), p.of(t, tr, "later")
	for _, h := range tr.helpers {
		if h.from > first.Begin && h.from < first.End {
			worker = h.goroutine
		}
	}
	expect.Equal(t, p.nameOf(tr, worker, first.End-1), "begins the pool", "what worker %d works for while the span is open", worker)
	expect.Equal(t, p.nameOf(tr, worker, later.End-1), "", "what the worker works for later")
	for _, w := range tr.Waits {
		if &tr.Spans[w.Span] == first && w.To > first.End {
			t.Errorf("a wait that ends behind the span counts as its own: %+v", w)
		}
	}
}

// TestOpenAndEarlier checks a span that has not ended, and a span that began before the trace.
func TestOpenAndEarlier(t *testing.T) {
	p := &program{spans: make(map[string]ended)}
	_, early := p.span(t.Context(), "early")
	began := time.Now()
	time.Sleep(950 * ms)
	var b bytes.Buffer
	expect.Must(t, rt.Start(&b))
	release, over := make(chan int), make(chan int)
	time.Sleep(20 * ms) // the end of the span "early" proves that it was open during this time
	ctx, hang := p.span(t.Context(), "hang")
	time.Sleep(60 * ms)
	early()
	rt.Stop()
	close(release)
	hang()
	close(over)
	_, _ = ctx, began
	tr := read(t, b.Bytes())
	s := p.of(t, tr, "early")
	times, own := tr.timesOf(s)
	if s.Begin != 0 || s.End == 0 || times[Sleep] < 55_000 || own[Sleep] < 15_000 || own[Sleep] > times[Sleep]-55_000 {
		t.Errorf("the span that began before the trace is %+v, with the times %v, its own %v", s, times, own)
	}
	i := slices.IndexFunc(tr.Waits, func(w Wait) bool { return &tr.Spans[w.Span] == s })
	if i < 0 || tr.Classes[tr.Waits[i].Class].State != Sleep || tr.Waits[i].To-tr.Waits[i].From < 15_000_000 {
		t.Errorf("it has not its wait: %+v", tr.Waits)
	}
	s = p.of(t, tr, "hang")
	if s.Begin == 0 || s.End != 0 || tr.Times(s)[Sleep] < 55_000 {
		t.Errorf("the span that has not ended is %+v", s)
	}
}

// TestSelf checks that time belongs to the span that began last on its goroutine.
func TestSelf(t *testing.T) {
	p, b := record(t, func(ctx context.Context, p *program) {
		p.in(ctx, "outer", func(ctx context.Context) {
			time.Sleep(20 * ms)
			p.in(ctx, "inner", func(context.Context) { time.Sleep(40 * ms) })
			time.Sleep(20 * ms)
		})
	})
	tr := read(t, b)
	outer, outerOwn := tr.timesOf(p.of(t, tr, "outer"))
	inner, innerOwn := tr.timesOf(p.of(t, tr, "inner"))
	if d := outer[Sleep] - outerOwn[Sleep] - inner[Sleep]; d > 2 && -d > 2 {
		t.Errorf("outer %v of its own %v, inner %v", outer[Sleep], outerOwn[Sleep], inner[Sleep])
	}
	if inner[Sleep] < 35_000 || innerOwn != inner {
		t.Errorf("inner %v, of its own %v", inner, innerOwn)
	}
}

// TestWall checks that the clock of the trace agrees with the clock of the program.
func TestWall(t *testing.T) {
	var before time.Time
	p, b := record(t, func(ctx context.Context, p *program) {
		time.Sleep(5 * ms)
		before = time.Now()
		p.in(ctx, "a", func(context.Context) {})
	})
	tr := read(t, b)
	s := p.of(t, tr, "a")
	wall, ok := tr.Wall(s.Begin)
	if d := time.Duration(wall - before.UnixNano()); !ok || d < -ms || d > 100*ms {
		t.Errorf("the span began %v after the time before it", d)
	}
	if at, ok := tr.Time(wall); !ok || at != s.Begin {
		t.Errorf("%d becomes %d", s.Begin, at)
	}
}
