//go:build unix

package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestAccountIsExact records from 64 goroutines with every durability, with rotation and a limit for
// waiting spans. The counts must match the files.
func TestAccountIsExact(t *testing.T) {
	for _, d := range durabilities {
		for _, entries := range []uint32{0, 700} {
			t.Run(fmt.Sprint(d, " ", entries), func(t *testing.T) {
				rec := tracetest.CreateAt(t, hosttest.Path(t, "app.et"), &recorder.Options{Durability: d, MaxFileEntries: entries, MaxWaitingSpans: 5, MaxBlock: time.Minute})
				res, err := rec.Resource(named(format.NameResource))
				must(t, err)
				c := &crashRun{durability: d, goroutines: 64, large: true, entries: int(entries)}
				var wg sync.WaitGroup
				rounds := 40
				if d == recorder.DurabilityPower {
					rounds = 20
				}
				for g := range c.goroutines {
					wg.Go(func() {
						for i := range rounds {
							expect.Is(t, c.unit(rec, res, g, i), nil, "unit %d of %d", i, g)
							if i%10 == 0 {
								recorder.Balanced(t, rec.Stats())
							}
							if i%17 == 0 {
								must(t, rec.Flush(context.Background()))
							}
						}
					})
				}
				wg.Wait()
				recorder.Balanced(t, rec.Stats())
				must(t, rec.Close(context.Background()))
				st := rec.Stats()
				recorder.Balanced(t, st)
				if st.Entries.Dropped.Total()+st.Spans.Dropped.Total() != 0 || st.Spans.Waiting != 0 || st.Spans.Offered < uint64(64*rounds*3/10) {
					t.Errorf("the account is %+v", st)
				}
				total := uint64(0)
				for _, name := range traces(t, filepath.Dir(rec.Path())) {
					total += uint64(tracetest.Open(t, name).Len())
				}
				expect.Equal(t, total, st.Entries.Written, "entries in the files")
				units := collect(t, filepath.Dir(rec.Path()))
				for g := range c.goroutines {
					for i := range rounds {
						expect.Equal(t, len(units[unitName(0, g, i)]), 1, "times that unit %d of %d is there", i, g)
					}
				}
			})
		}
	}
}

// TestCloseRaces calls Close several times at once while other goroutines record.
func TestCloseRaces(t *testing.T) {
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			rec := tracetest.CreateAt(t, hosttest.Path(t, "app.et"), &recorder.Options{Durability: d, MaxFileEntries: 500})
			var wg sync.WaitGroup
			var taken, refused, begun atomic.Int64
			for range 8 {
				wg.Go(func() {
					for {
						begun.Add(1)
						err := logNamed(rec, "x")
						if errors.Is(err, recorder.ErrClosed) {
							refused.Add(1)
							return
						}
						expect.OK(t, err)
						taken.Add(1)
						_ = rec.Stats()
					}
				})
			}
			eventually(t, "1000 calls", func() bool { return begun.Load() >= 1000 })
			for range 3 {
				wg.Go(func() { _ = rec.Close(context.Background()) })
			}
			wg.Wait()
			tracetest.Close(t, rec)
			st := rec.Stats()
			recorder.Balanced(t, st)
			if st.Entries.Dropped.Closed != uint64(refused.Load()) || st.Entries.Waiting != 0 {
				t.Errorf("%d were refused; %+v", refused.Load(), st.Entries)
			}
			found := int64(0)
			for _, name := range traces(t, filepath.Dir(rec.Path())) {
				f := tracetest.Open(t, name)
				must(t, f.Walk(1, func(_ uint32, e *format.TraceEntry) error {
					if e.Metadata.Name == "x" {
						found++
					}
					return nil
				}))
			}
			expect.Equal(t, found, taken.Load(), "entries there")
		})
	}
}
