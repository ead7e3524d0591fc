package provider

import (
	"context"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

//go:noinline
func blockedHere(ready *sync.WaitGroup, quit chan struct{}) {
	ready.Done()
	<-quit
}

func TestGoroutines(t *testing.T) {
	quit := make(chan struct{})
	var ready, done sync.WaitGroup
	start := func(n int, labels ...string) {
		ready.Add(n)
		for range n {
			done.Go(func() {
				pprof.Do(context.Background(), pprof.Labels(labels...), func(context.Context) { blockedHere(&ready, quit) })
			})
		}
	}
	start(3, "trace_id", testTrace, "span_id", testSpan, "route", "/a")
	start(2, "route", "/b")
	ready.Wait()
	// A goroutine may have called ready.Done, but not be blocked by quit yet: try again.
	var with, without *written
	for try := 0; ; try++ {
		r := &record{}
		before := time.Now()
		must(t, dumpGoroutines(t.Context(), r.session(control.Goroutines, nil)))
		with, without = nil, nil
		for _, e := range r.entries {
			if e.at.Before(before) || e.Metadata.Name != "goroutines" || e.p != control.Goroutines || !e.Message.Valid {
				t.Fatalf("entry %+v at %v", e.TraceEntry, e.at)
			}
			if strings.Contains(e.text(t, "stack"), "chanrecv") && e.has("label.route") {
				if e.text(t, "label.route") == "/a" {
					with = &e
				} else {
					without = &e
				}
			}
		}
		if with != nil && without != nil && with.u64(t, "count") == 3 && without.u64(t, "count") == 2 {
			break
		}
		if try == 2000 {
			t.Fatalf("found %v and %v", with, without)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if with.ref != testRef || with.has("label.span_id") || with.has("label.trace_id") {
		t.Errorf("the one with a span is below %v: %+v", with.ref, with.Attributes)
	}
	expect.Equal(t, without.ref, format.SpanRef{}, "the one without a span is below")
	if !strings.HasSuffix(with.Message.Value, "provider.blockedHere") {
		t.Errorf("message %q, want the function that waits", with.Message.Value)
	}
	lines := strings.Split(with.text(t, "stack"), "\n")
	if !strings.HasPrefix(lines[0], "runtime.") || !strings.Contains(lines[0], ".go:") {
		t.Errorf("the innermost frame is %q", lines[0])
	}
	close(quit)
	done.Wait()
}

// TestGoroutinesMany dumps 100,000 goroutines, which have only few different stacks.
func TestGoroutinesMany(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 1000
	} else if !hosttest.Alone(t) {
		return // in this process, so many goroutines would make each later garbage collection slow
	}
	quit := make(chan struct{})
	var ready, done sync.WaitGroup
	ready.Add(n)
	for range n {
		done.Go(func() { blockedHere(&ready, quit) })
	}
	ready.Wait()
	r := &record{}
	must(t, dumpGoroutines(t.Context(), r.session(control.Goroutines, nil)))
	close(quit)
	done.Wait()
	var count uint64
	for _, e := range r.entries {
		if strings.Contains(e.Message.Value, "blockedHere") {
			count += e.u64(t, "count")
		}
	}
	if count != uint64(n) || len(r.entries) > 100 {
		t.Errorf("%d goroutines in %d entries, want %d", count, len(r.entries), n)
	}
}
