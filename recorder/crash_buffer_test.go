//go:build unix

package recorder_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// eachDamage calls damage and check several times. Each time, it copies the file and the journal of the
// killed program c, calls damage, finishes the trace, and calls check.
func (c *crashRun) eachDamage(t *testing.T, damages int, damage func(t *testing.T, i int, stream, buffer string), check func(t *testing.T, i int, dir string, units map[string][]foundUnit)) {
	t.Helper()
	stream := readFile(t, filepath.Join(filepath.Dir(c.path), "app.iet"))
	buffer := readFile(t, filepath.Join(filepath.Dir(c.path), "app.iet.buffer"))
	for i := range damages {
		dir := t.TempDir()
		s, b := filepath.Join(dir, "app.iet"), filepath.Join(dir, "app.iet.buffer")
		must(t, os.WriteFile(s, stream, 0o600))
		must(t, os.WriteFile(b, buffer, 0o600))
		damage(t, i, s, b)
		c := &crashRun{path: filepath.Join(dir, "app.et"), version: format.V2}
		c.settled(t, i%2 == 0)
		check(t, i, dir, collect(t, dir))
		must(t, os.RemoveAll(dir))
		if t.Failed() {
			t.Fatalf("damage %d", i)
		}
	}
}

const (
	crashedUnits = 58
	flushedUnits = 15
)

// crashedBuffer returns the run of a program that died. Its units from number flushedUnits on are only in
// the journal.
func crashedBuffer(t *testing.T) *crashRun {
	t.Helper()
	c := &crashRun{path: filepath.Join(t.TempDir(), "app.et"), version: format.V2, goroutines: 1, units: crashedUnits, flushEvery: 1 << 30, end: "exit"}
	c.flushEvery = flushedUnits
	for {
		// On a slow machine, the writer may write the last units to the file before the program ends: try
		// again.
		out, err := c.finish(t)
		if err == nil {
			t.Fatal(out)
		}
		if r, err := recorder.Inspect(c.path); err == nil && r.Pending > 0 {
			return c
		}
		must(t, os.Remove(filepath.Join(filepath.Dir(c.path), "app.iet")))
		must(t, os.Remove(filepath.Join(filepath.Dir(c.path), "app.iet.buffer")))
	}
}

// TestBufferDamaged cuts the journal at multiples of 512 bytes, and changes a byte, or clears 512 bytes, at
// these offsets. Recovery never makes an entry that was not recorded or a second copy of one.
func TestBufferDamaged(t *testing.T) {
	const step = 512
	places := make(map[string][]int) // by kind of damage, the offsets at which the journal has content
	first := crashedBuffer(t)
	b := readFile(t, filepath.Join(filepath.Dir(first.path), "app.iet.buffer"))
	for at := 0; at < len(b); at += step {
		if len(bytes.Trim(b[at:at+step], "\x00")) > 0 {
			for _, kind := range []string{"cut", "flip", "zeros"} {
				places[kind] = append(places[kind], at)
			}
		}
	}
	places["cut"] = append(places["cut"], places["cut"][len(places["cut"])-1]+step)
	for kind, list := range places {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			most, least := 0, crashedUnits
			first.eachDamage(t, len(list), func(t *testing.T, i int, _, buffer string) {
				b := readFile(t, buffer)
				at := list[i]
				switch kind {
				case "cut":
					b = b[:at]
				case "flip":
					b[at+i%step] ^= 1 << (i % 8)
				default:
					clear(b[at : at+step])
				}
				must(t, os.WriteFile(buffer, b, 0o600))
			}, func(t *testing.T, _ int, _ string, units map[string][]foundUnit) {
				n := 0
				for i := range crashedUnits {
					found := units[unitName(0, 0, i)]
					if len(found) > 1 {
						t.Errorf("unit %d is there %d times", i, len(found))
					}
					n += len(found)
				}
				expect.Equal(t, len(units), n, "units")
				most, least = max(most, n), min(least, n)
			})
			if most < crashedUnits-1 || least == 0 {
				t.Errorf("between %d and %d units are found, want up to %d", least, most, crashedUnits)
			}
			t.Logf("%d places, between %d and %d units are found", len(list), least, most)
		})
	}
}

// TestBufferTruncatedWhileRunning truncates the journal of a running recorder. The process survives, the
// error is reported, a new journal replaces the old one, and the counts are right.
func TestBufferTruncatedWhileRunning(t *testing.T) {
	for _, size := range []int64{0, 1000, 64 << 10, 64<<10 + 4096, 192 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			told := 0
			dir := t.TempDir()
			rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir, OnError: func(error) {
				mu.Lock()
				told++
				mu.Unlock()
			}})
			var wg sync.WaitGroup
			taken := make([]int, 8)
			for g := range taken {
				wg.Go(func() {
					for i := range 400 {
						if i == 100 && g == 0 {
							expect.OK(t, os.Truncate(rec.StreamPath()+".buffer", size))
						}
						e := named(fmt.Sprint(g, " ", i))
						e.Message = format.Some(strings.Repeat("x", 1000))
						if rec.Log(format.SpanRef{}, e) == nil {
							taken[g]++
						}
						if i%50 == 0 {
							st := rec.Stats().Entries
							if st.Offered != st.Written+st.Waiting+st.Dropped.Total() {
								t.Errorf("the account is %+v", st)
							}
						}
					}
				})
			}
			wg.Wait()
			_ = rec.Flush(context.Background()) // may return an error, because records are lost
			for i := range 100 {
				expect.Is(t, logNamed(rec, fmt.Sprint("late ", i)), nil, "late %d", i)
			}
			must(t, rec.Flush(context.Background()))
			if d, why := rec.Durability(); d != recorder.DurabilityProcess || why != nil {
				t.Errorf("Durability is %v, %v", d, why)
			}
			eventually(t, "OnError is told", func() bool {
				writeNamed(t, rec, "another")
				mu.Lock()
				defer mu.Unlock()
				return told > 0
			})
			st := rec.Stats().Entries
			if st.Offered != st.Written+st.Waiting+st.Dropped.Total() || st.Offered < 1+3200+100 || st.Waiting != 0 {
				t.Errorf("the account is %+v", st)
			}
			_ = rec.Close(context.Background()) // may return an error, because records are lost
			f := tracetest.Open(t, rec.Path())
			if uint64(f.Len()) != st.Written+1 || f.Len()-2 < sum(taken)+100 {
				t.Errorf("%d entries are in the file, %d were taken; %+v", f.Len(), sum(taken), st)
			}
			mu.Lock()
			defer mu.Unlock()
			if st.Dropped.IO > 0 && told == 0 {
				t.Error("OnError was not told")
			}
			t.Logf("told %d times, %+v", told, st)
			if _, err := os.Stat(rec.StreamPath() + ".buffer"); err == nil {
				t.Error("the buffer is still there")
			}
		})
	}
}
