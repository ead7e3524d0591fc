package gotrace

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestHopToIdleWorker: a worker that waited since before the trace is known by its first event, which comes
// behind the span's begin.
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
	if took := (s.End - s.Begin) / 1000; times.Sum() > took+NumStates || times[Running] < 15_000 {
		t.Errorf("a span of %d µs has the times %v", took, times)
	}
}

// TestWaitThatNobodyEnded: the one who ended the wait before did not end this one.
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
			if found++; w.By != Nobody || w.ByClass != -1 {
				t.Errorf("a wait that has not ended was ended by %d at %d", w.By, w.ByClass)
			}
		}
	}
	if found < 2 {
		t.Errorf("the waits are %+v", tr.Waits)
	}
}

// TestManySpansOfAGoroutine begins many spans on a goroutine that end in the order of their begins. In quadratic time
// that takes minutes.
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
	if len(tr.Spans) != n {
		t.Fatalf("there are %d spans", len(tr.Spans))
	}
	last := &tr.Spans[n-1]
	for i := range tr.Spans {
		s := &tr.Spans[i]
		if s.End == 0 || tr.Times(s).Sum() > (s.End-s.Begin)/1000+NumStates { // each is rounded
			t.Fatalf("span %d is %+v", i, s)
		}
		if got, want := tr.SpanAt(s.Goroutine, s.Begin), int32(i); got != want {
			t.Fatalf("at the begin of span %d it works for %d", i, got)
		}
	}
	if got := tr.SpanAt(last.Goroutine, last.End-1); got != n-1 {
		t.Errorf("before the end of the last span the goroutine works for %d", got)
	}
}
