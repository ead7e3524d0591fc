package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

// frozenFor is how long the file system is frozen. A call that takes longer than slow has waited for the
// file system.
const (
	frozenFor = 4 * time.Second
	slow      = time.Second
)

// TestFrozenDisk freezes the file system of a trace. Goroutines without a recorder continue, and calls wait
// no longer than their limit.
func TestFrozenDisk(t *testing.T) {
	dir, here := inNamespace(t)
	if !here {
		return
	}
	// With one processor, a page fault that waits for the file system stops the whole program.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const maxBlock = 100 * time.Millisecond
	d := newDisk(t, dir, 256)
	defer d.unmount(t)
	memory := filepath.Join(dir, "memory")
	command(t, "mkdir", memory)
	command(t, "mount", "-t", "tmpfs", "tmpfs", memory)
	defer command(t, "umount", memory)
	for _, x := range []struct {
		medium, dir string
		waiting     int // maximum number of calls that wait for the disk: one for each shard
	}{{"mapped", memory, 0}, {"written", d.root, 2}} {
		t.Run("recorder/"+x.medium, func(t *testing.T) {
			path := filepath.Join(d.root, x.medium+".et")
			rec := tracetest.CreateAt(t, path, &recorder.Options{BufferDir: x.dir, MaxBlock: maxBlock})
			other := tracetest.CreateAt(t, filepath.Join(d.root, x.medium+"-closed.et"), &recorder.Options{BufferDir: x.dir, MaxBlock: maxBlock})
			must(t, logNamed(other, "x"))
			acked := frozen(t, d, rec, x.waiting, func() {
				soon(t, "a new resource", func() { _, _ = rec.Resource(named("resource")) })
				soon(t, "Close", func() {
					ctx, cancel := context.WithTimeout(context.Background(), maxBlock)
					defer cancel()
					if err := other.Close(ctx); err == nil {
						t.Error("Close says that all is in the file")
					}
				})
			})
			// Calls that were refused have set ErrOverflow.
			if err := rec.Close(context.Background()); err != nil && !errors.Is(err, recorder.ErrOverflow) {
				t.Error(err)
			}
			wantAcked(t, path, acked)
		})
		t.Run("ring/"+x.medium, func(t *testing.T) {
			g, err := ring.New(&ring.Options{Path: filepath.Join(d.root, x.medium+".ring"), Dir: x.dir, MaxBlock: maxBlock})
			must(t, err)
			g.SetBuffered(1 << record.ProviderLogs)
			frozen(t, d, g.Recorder(), x.waiting, func() {
				soon(t, "Stats of the ring", func() { _ = g.Stats() })
				soon(t, "SetBuffered", func() { g.SetBuffered(1 << record.ProviderLogs) })
			})
			must(t, g.Close())
		})
	}
}

// frozen records with several goroutines while the disk is frozen. It returns the numbers of the
// acknowledged records of each goroutine.
func frozen(t *testing.T, d *disk, rec *recorder.Recorder, waiting int, during func()) (acked [4]map[int]bool) {
	t.Helper()
	var stop, tooSlow atomic.Int64
	var gap atomic.Int64
	var all sync.WaitGroup
	all.Go(func() { // a goroutine without a recorder
		for last := time.Now(); stop.Load() == 0; {
			time.Sleep(time.Millisecond)
			now := time.Now()
			gap.Store(max(gap.Load(), int64(now.Sub(last))))
			last = now
		}
	})
	var calls atomic.Int64
	for g := range acked {
		acked[g] = make(map[int]bool)
		all.Go(func() {
			for i := 0; stop.Load() == 0; i++ {
				start := time.Now()
				if logNamed(rec, fmt.Sprint(g, ".", i)) == nil {
					acked[g][i] = true
				}
				if time.Since(start) > slow {
					tooSlow.Add(1)
				}
				calls.Add(1)
				time.Sleep(200 * time.Microsecond)
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	thaw := sync.OnceFunc(func() { command(t, "fsfreeze", "-u", d.root) })
	t.Cleanup(thaw)
	command(t, "fsfreeze", "-f", d.root)
	before := calls.Load()
	began := time.Now()
	soon(t, "Stats and Err", func() { _ = rec.Stats(); _ = rec.Err() })
	during()
	time.Sleep(frozenFor - time.Since(began))
	soon(t, "Stats and Err at the end", func() { _ = rec.Stats(); _ = rec.Err() })
	made := calls.Load() - before
	if made == 0 {
		t.Error("nobody called while the disk stood")
	}
	thaw()
	time.Sleep(200 * time.Millisecond)
	stop.Store(1)
	all.Wait()
	if g := time.Duration(gap.Load()); g > slow {
		t.Errorf("an unrelated goroutine stood still for %v", g)
	}
	if n := int(tooSlow.Load()); n > waiting {
		t.Errorf("%d calls took more than %v, want at most %d", n, slow, waiting)
	}
	st := rec.Stats().Entries
	if st.Offered != st.Written+st.Waiting+st.Dropped.Total() {
		t.Errorf("the account: %+v", st)
	}
	t.Logf("%d calls while the disk stood, %d of them slow; the longest gap elsewhere %v; %d dropped",
		made, tooSlow.Load(), time.Duration(gap.Load()), st.Dropped.Total())
	return acked
}

// soon runs fn, and reports an error of the test if fn waits for a file.
func soon(t *testing.T, what string, fn func()) {
	t.Helper()
	start := time.Now()
	fn()
	if took := time.Since(start); took > slow {
		t.Errorf("%s took %v", what, took)
	}
}

// wantAcked checks that each acknowledged record is in the file once.
func wantAcked(t *testing.T, path string, acked [4]map[int]bool) {
	t.Helper()
	f := tracetest.Open(t, path)
	got := make(map[string]int)
	must(t, f.Walk(0, func(_ uint32, e *format.TraceEntry) error { got[strings.Clone(e.Metadata.Name)]++; return nil }))
	lost := 0
	for g, all := range acked {
		for i := range all {
			switch got[strconv.Itoa(g)+"."+strconv.Itoa(i)] {
			case 0:
				lost++
			case 1:
			default:
				t.Fatalf("%d.%d is there twice", g, i)
			}
		}
	}
	if lost > 0 {
		t.Errorf("%d acknowledged records are lost", lost)
	}
}
