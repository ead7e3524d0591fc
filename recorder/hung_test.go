package recorder

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// hang makes the writes of f block until resume is called.
func hang(t *testing.T, f *FaultyStream) (resume func()) {
	t.Helper()
	release := make(chan struct{})
	resume = sync.OnceFunc(func() { close(release) })
	t.Cleanup(resume)
	f.Fail(func(_ int, b []byte) (int, error) {
		<-release
		return len(b), nil
	}, nil, nil)
	return resume
}

// within runs fn, and reports an error of the test if fn takes longer than limit.
func within(t *testing.T, what string, limit time.Duration, fn func()) {
	t.Helper()
	start := time.Now()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s stands for ever", what)
	}
	if took := time.Since(start); took > limit {
		t.Errorf("%s took %v, want at most %v", what, took, limit)
	}
}

// TestCallbacksMayDoAnything checks that OnError and the Tee may log, flush, close, panic and end their
// goroutine.
func TestCallbacksMayDoAnything(t *testing.T) {
	for what, do := range map[string]func(r *Recorder){
		"log":   func(r *Recorder) { _ = logNamed(r, "of a callback") },
		"flush": func(r *Recorder) { _ = r.Flush(context.Background()) },
		"close": func(r *Recorder) { _ = r.Close(context.Background()) },
		"panic": func(*Recorder) { panic("in a callback") },
		"exit":  func(*Recorder) { runtime.Goexit() }, // as t.FailNow does
	} {
		synctest.Test(t, func(t *testing.T) {
			t.Log(what)
			var r *Recorder
			called := make(chan bool, 100)
			do := func() { called <- true; do(r) }
			tee := &doingTee{do: do}
			var f *FaultyStream
			r, f = faultRecorder(t, Options{Tee: tee, OnError: func(error) { do() }})
			must(t, logNamed(r, "x"))
			_ = r.Flush(t.Context())
			<-called
			f.breakWrites(errors.New("broken"))
			_ = logNamed(r, "y")
			_ = r.Flush(t.Context())
			f.Mend()
			within(t, "Close", 8*time.Second, func() { _ = r.Close(context.Background()) })
			<-r.target.(*writer).ended // Close of a callback may have returned before the writer has ended
		})
	}
}

// TestFailureOfTeeIsTold checks that OnError is called once for a Tee whose methods panic or end their
// goroutine, and that Close of the recorder does not wait for it.
func TestFailureOfTeeIsTold(t *testing.T) {
	for want, fail := range map[string]func(){"panicked": func() { panic("in the Tee") }, "ended its goroutine": runtime.Goexit} {
		told := make(chan error, 100)
		r, _ := faultRecorder(t, Options{Tee: failingTee(fail), OnError: func(err error) { told <- err }})
		for range 3 {
			writeNamed(t, r, "x")
		}
		expect.Is(t, r.Close(t.Context()), errTeeClose, "Close")
		if err := <-told; len(told) > 0 || !strings.Contains(err.Error(), "Tee.Begin "+want) {
			t.Errorf("OnError was told %v, and of %d more", err, len(told))
		}
	}
}

type failingTee func()

func (fail failingTee) Begin(format.Version)        { fail() }
func (fail failingTee) Take([]TeeEntry)             { fail() }
func (fail failingTee) Close(context.Context) error { fail(); return nil }

type doingTee struct {
	do   func()
	once sync.Once
}

func (*doingTee) Begin(format.Version)        {}
func (t *doingTee) Take([]TeeEntry)           { t.once.Do(t.do) }
func (*doingTee) Close(context.Context) error { return nil }

// TestRotationReadsOpenSpansTogether checks that a rotation does not read the open spans one by one,
// because calls wait during the rotation.
func TestRotationReadsOpenSpansTogether(t *testing.T) {
	const open = 20_000
	r, f := faultRecorder(t, Options{MaxFileSize: 64 << 20})
	for i := range open {
		b := r.Batch()
		ref := format.SpanRef{TraceID: [16]byte{15: 1}}
		binary.BigEndian.PutUint64(ref.SpanID[:], uint64(i+1))
		b.Span(&Span{Ref: ref, Open: true})
		b.Entry(faultEntry("open"))
		must(t, b.Write())
	}
	must(t, r.Flush(t.Context()))
	must(t, onWriter(r, func(w *writer) {
		size, before := w.file.n, f.reads
		expect.OK(t, w.rotate(time.Now()))
		if reads := f.reads - before; int64(reads) > size/readAhead+2 {
			t.Errorf("%d reads of %d bytes", reads, size)
		}
		if n := w.placer.Entries(); n < open {
			t.Errorf("the next file begins with %d entries", n)
		}
	}))
}

// TestSlowTeeIsNamed checks that the error of Close names the Tee, not the disk, if the file is finished
// and the Tee is too slow.
func TestSlowTeeIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan int)
		r, err := Create(hosttest.Path(t, "a.et"), &Options{Tee: &doingTee{do: func() { <-release }}})
		must(t, err)
		writeNamed(t, r, "x")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = r.Close(ctx)
		close(release)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not accepted all entries") {
			t.Errorf("Close: %v", err)
		}
		expect.Len(t, faultNames(t, r.Path()), 2, "the file has")
	})
}

// TestOnErrorOfClose checks that OnError gets an error which Close itself causes, even if OnError calls
// Close.
func TestOnErrorOfClose(t *testing.T) {
	var r *Recorder
	r, f := faultRecorder(t, Options{OnError: func(error) { _ = r.Close(context.Background()) }})
	must(t, logNamed(r, "x"))
	f.breakWrites(errors.New("broken"))
	within(t, "Close", 5*time.Second, func() { _ = r.Close(context.Background()) })
}

// TestUnfinishedEntryIsLeftOut checks that an entry without End is left out and does not change later
// entries.
func TestUnfinishedEntryIsLeftOut(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		r, _ := faultRecorder(t, Options{Version: v})
		for range 3 {
			b := r.Batch()
			b.Log(format.SpanRef{}, 0)
			b.Begin(format.Some("never"), &format.Metadata{Name: "ended"})
			b.Attr("secret", format.StringValue("s"))
			must(t, b.Write())
			b = r.Batch()
			b.Log(format.SpanRef{}, 0)
			b.Begin(format.Some("first"), &format.Metadata{Name: "begun twice"})
			b.Attr("a", format.StringValue("1"))
			b.Begin(format.Some("second"), &format.Metadata{Name: "kept"})
			b.Attr("b", format.StringValue("2"))
			b.End()
			must(t, b.Write())
		}
		last := faultEntry("behind")
		last.Attributes = nil // a log record without a time gets the current time
		must(t, r.Log(format.SpanRef{}, last))
		must(t, r.Close(t.Context()))
		st := r.Stats().Entries
		if got := faultNames(t, r.Path()); fmt.Sprint(got) != "[kept kept kept behind entrace.end]" || st.Waiting != 0 || st.Offered != st.Written {
			t.Errorf("version %d: the file has %q; %+v", v, got, st)
		}
	}
}

// TestSlotsAreGivenBack checks that a closed recorder leaves no slot in memory.
func TestSlotsAreGivenBack(t *testing.T) {
	slotsMu.Lock()
	before := len(slots)
	slotsMu.Unlock()
	dir := t.TempDir()
	for i := range 50 {
		r, err := Create(filepath.Join(dir, fmt.Sprint(i, ".et")), nil)
		must(t, err)
		same, err := Create(filepath.Join(dir, fmt.Sprint(i, ".et")), &Options{Shared: true})
		must(t, err)
		must(t, errors.Join(r.Close(t.Context()), same.Close(t.Context()), same.Close(t.Context())))
	}
	slotsMu.Lock()
	defer slotsMu.Unlock()
	expect.Equal(t, len(slots), before, "paths remembered")
}

// TestWaitingCallsAreServed makes calls while the writer writes the records of other calls. The next write
// serves all of them, and no call waits until MaxBlock.
func TestWaitingCallsAreServed(t *testing.T) {
	calls := int64(hosttest.InCI(10_000, 60_000))
	rec, err := Create(hosttest.Path(t, "app.iet"), &Options{Durability: DurabilityWriteThrough, MaxBlock: 10 * time.Second})
	must(t, err)
	var wg sync.WaitGroup
	var done [2]atomic.Int64
	for i := range done {
		wg.Go(func() {
			defer done[i].Store(math.MaxInt64)
			for n := range calls {
				if err := logNamed(rec, "x"); err != nil {
					t.Error(err)
					return
				}
				done[i].Store(n + 1)
				for done[1-i].Load() <= n { // alternate, so that a call begins while the writer serves the other goroutine
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	must(t, rec.Close(context.Background()))
}

// TestAnchorWaitsLonger blocks the disk for longer than MaxBlock. An entry of the application is refused,
// but not the first entry of a flight recorder's trace.
func TestAnchorWaitsLonger(t *testing.T) {
	r, f := faultRecorder(t, Options{MaxBlock: 20 * time.Millisecond})
	resume := hang(t, f)
	must(t, logNamed(r, "staged"))
	go func() { _ = r.Flush(context.Background()) }()
	time.Sleep(50 * time.Millisecond) // until the writer is blocked
	expect.Is(t, expect.Err(r.Append(faultEntry("refused"))), ErrOverflow, "Append")
	time.AfterFunc(300*time.Millisecond, resume)
	expect.Is(t, expect.Err(r.append(faultEntry("head"), true)), nil, "the head")
}
