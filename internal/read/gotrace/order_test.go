package gotrace

import (
	"context"
	"math/rand/v2"
	rt "runtime/trace"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// TestHopToIdleWorker checks the handover to a worker that has waited since before the trace. The first event of
// the worker comes after the begin of the span.
func TestHopToIdleWorker(t *testing.T) {
	jobs := make(chan func())
	defer close(jobs)
	go func() {
		for job := range jobs {
			job()
		}
	}()
	time.Sleep(5 * ms)
	p, b := record(t, func(ctx context.Context, p *program) {
		time.Sleep(100 * ms)
		done := make(chan int)
		_, end := p.span(ctx, "hop")
		time.Sleep(10 * ms)
		jobs <- func() { spin(20 * ms); end(); close(done) }
		<-done
	})
	tr := read(t, b)
	s := p.of(t, tr, "hop")
	times := tr.Times(s)
	if took := (s.End - s.Begin) / 1000; times.Sum() > took+NumStates || times[Running] < 15_000 || times[Sleep] < 9_000 {
		t.Errorf("a span of %d µs has the times %v", took, times)
	}
}

// TestWaitThatNobodyEnded checks that a wait without an end has no one who ended it. The goroutine that ended the
// wait before it does not count.
func TestWaitThatNobodyEnded(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	begun := make(chan uint64, 1)
	_, b := record(t, func(ctx context.Context, p *program) {
		c := make(chan int)
		go p.in(ctx, "sender", func(context.Context) { time.Sleep(5 * ms); c <- 1 })
		go func() {
			p.span(ctx, "hang")
			<-c
			begun <- 1
			mu.Lock()
			mu.Unlock() //nolint:staticcheck // waiting is all
		}()
		<-begun
		time.Sleep(20 * ms)
	})
	mu.Unlock()
	tr, found := read(t, b), 0
	for _, w := range tr.Waits {
		switch tr.Classes[w.Class].State {
		case Chan:
			if w.By >= 0 {
				found++
			}
		case Mutex:
			found++
			expect.Equal(t, w.By, Nobody, "who ended a wait that has not ended")
		}
	}
	if found < 2 {
		t.Errorf("the waits are %+v", tr.Waits)
	}
}

// TestManySpansOfAGoroutine begins many spans on one goroutine, which end in the order in which they began. With
// quadratic time, the test would take minutes.
func TestManySpansOfAGoroutine(t *testing.T) {
	const n = 100_000
	_, b := record(t, func(ctx context.Context, p *program) {
		ends := make([]func(), n)
		for i := range ends {
			_, ends[i] = p.span(ctx, "message")
		}
		for _, end := range ends {
			end()
		}
	})
	tr := read(t, b)
	expect.MustEqual(t, len(tr.Spans), n, "spans")
	last := &tr.Spans[n-1]
	for i := range tr.Spans {
		s := &tr.Spans[i]
		if s.End == 0 || tr.Times(s).Sum() > (s.End-s.Begin)/1000+NumStates { // each time is rounded
			t.Fatalf("span %d is %+v", i, s)
		}
		expect.MustEqual(t, tr.SpanAt(s.Goroutine, s.Begin), int32(i), "at the begin of span %d it works for", i)
	}
	expect.Equal(t, tr.SpanAt(last.Goroutine, last.End-1), n-1, "before the end of the last span the goroutine works for")
}

// TestWaitsOutliveSpans checks a wait that continues after the end of its span: each span gets its own part of the
// wait. If the span has created the waiting goroutine, the wait counts until the end of the span. A second read
// must give the same result.
func TestWaitsOutliveSpans(t *testing.T) {
	p, b := record(t, func(ctx context.Context, p *program) {
		jobs, done, begun := make(chan func()), make(chan int), make(chan int)
		go func() {
			close(begun)
			for job := range jobs {
				job()
			}
		}()
		<-begun
		time.Sleep(10 * ms) // until the worker waits: inner must not wait for it
		p.in(ctx, "outer", func(ctx context.Context) {
			_, end := p.span(ctx, "inner")
			jobs <- func() { time.Sleep(40 * ms); end(); time.Sleep(20 * ms); done <- 1 }
			<-done
		})
		p.in(ctx, "creates", func(context.Context) {
			go func() { <-done }()
			time.Sleep(30 * ms)
		})
		time.Sleep(30 * ms)
		close(done)
	})
	tr := read(t, b)
	waits := func(tr *Trace, name string, state State) (all int64) {
		s := p.of(t, tr, name)
		for i := range tr.Waits {
			if w := &tr.Waits[i]; &tr.Spans[w.Span] == s && tr.Classes[w.Class].State == state {
				all += w.To - w.From
			}
		}
		return all / 1000
	}
	for _, x := range []struct {
		name  string
		state State
		least int64
	}{{"inner", Sleep, 38_000}, {"outer", Chan, 58_000}, {"creates", Chan, 28_000}} {
		got, s := waits(tr, x.name, x.state), p.of(t, tr, x.name)
		if took := (s.End - s.Begin) / 1000; got < x.least || got > took {
			t.Errorf("%s of %d µs was %d µs in %v", x.name, took, got, x.state)
		}
	}
	if got := waits(tr, "inner", Chan); got > 0 {
		t.Errorf("the span that was handed on has %d µs of its former goroutine's wait", got)
	}
	for range 5 {
		if again := read(t, b); !slices.Equal(again.Waits, tr.Waits) {
			t.Fatalf("read again, the waits are %+v, not %+v", again.Waits, tr.Waits)
		}
	}
}

// TestBackdated checks a span whose start the program itself has set to an earlier time: it has a mark at its end,
// although its task was short.
func TestBackdated(t *testing.T) {
	_, b := record(t, func(ctx context.Context, _ *program) {
		time.Sleep(50 * ms)
		rt.Log(ctx, "otel.span", "0000000000000007")
		_, task := rt.NewTask(ctx, "message")
		time.Sleep(10 * ms)
		task.End()
		rt.Log(ctx, "otel.end", "0000000000000007")
	})
	tr := read(t, b)
	if len(tr.Spans) != 1 || tr.Times(&tr.Spans[0])[Sleep] < 9_000 || tr.Spans[0].Begin == 0 {
		t.Errorf("the spans are %+v", tr.Spans)
	}
}

// TestPacked packs and unpacks random times.
func TestPacked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	tr := new(Trace)
	some := func() (x Times) {
		for range r.IntN(6) {
			x[r.IntN(NumStates)] = r.Uint32() >> r.IntN(32)
		}
		return x
	}
	want := make([][2]Times, 2000)
	tr.Spans = make([]Span, len(want)+1)
	for range 2 { // the second time, the latest values count
		for i := range want {
			want[i] = [2]Times{some(), some()}
			if r.IntN(2) == 0 {
				want[i][1] = want[i][0]
			}
			tr.setTimes(&tr.Spans[i], &want[i][0], &want[i][1])
		}
	}
	for i := range want {
		if s := &tr.Spans[i]; tr.Times(s) != want[i][0] || tr.Own(s) != want[i][1] {
			t.Fatalf("span %d has %v and %v, not %v", i, tr.Times(s), tr.Own(s), want[i])
		}
	}
	if last := &tr.Spans[len(want)]; tr.Times(last) != (Times{}) || tr.Own(last) != (Times{}) {
		t.Error("a span without times has some")
	}
}
