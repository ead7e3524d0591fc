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
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
)

// eachDamage copies what c left, that was killed with units in its file and others
// in its crash buffer, to a folder of its own, for each of some damages.
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

// crashedBuffer returns a run whose units from flushedUnits on are in the buffer.
func crashedBuffer(t *testing.T) *crashRun {
	t.Helper()
	c := &crashRun{path: filepath.Join(t.TempDir(), "app.et"), version: format.V2, goroutines: 1, units: crashedUnits, flushEvery: 1 << 30, end: "exit"}
	c.flushEvery = flushedUnits
	for {
		// A drain by the timer, on a machine that stands, would leave less to do.
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

// TestBufferDamaged cuts the crash buffer at, and breaks a byte in, every 512th
// place: there is never an entry that was not recorded, none twice, and what the
// file had stays.
func TestBufferDamaged(t *testing.T) {
	const step = 512
	places := make(map[string][]int) // those where it makes a difference
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
				switch at := list[i]; kind {
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
				if len(units) != n {
					t.Errorf("%d units, %d of them known", len(units), n)
				}
				most, least = max(most, n), min(least, n)
			})
			if most < crashedUnits-1 || least == 0 {
				t.Errorf("between %d and %d units are found, want up to %d", least, most, crashedUnits)
			}
			t.Logf("%d places, between %d and %d units are found", len(list), least, most)
		})
	}
}

// TestBufferOfAnotherFile finds the crash buffer beside no IET, a shorter one, a
// longer one and another one: everything that is in either is kept.
func TestBufferOfAnotherFile(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(t *testing.T, stream string)
		kept   bool // of the IET
	}{
		{"missing", func(t *testing.T, s string) { must(t, os.Remove(s)) }, false},
		{"empty", func(t *testing.T, s string) { must(t, os.Truncate(s, 0)) }, false},
		{"half a magic", func(t *testing.T, s string) { must(t, os.Truncate(s, 5)) }, false},
		{"a magic", func(t *testing.T, s string) { must(t, os.Truncate(s, wire.MagicSize)) }, false},
		{"half a root", func(t *testing.T, s string) { must(t, os.Truncate(s, 15)) }, false},
		{"shorter", func(t *testing.T, s string) { must(t, os.Truncate(s, int64(len(readFile(t, s))-7))) }, false},
		{"longer", func(t *testing.T, s string) { appendTo(t, s, []byte{0, 1, 2}) }, true},
		{"longer by zeros", func(t *testing.T, s string) { appendTo(t, s, make([]byte, 5000)) }, true},
		{"another", func(t *testing.T, s string) {
			b := wire.AppendMagic(nil, format.V2, format.IET)
			b = format.AppendTraceEntry(b, format.V2, format.Root())
			for range 100 {
				b = format.AppendTraceEntry(b, format.V2, named("whole"))
			}
			must(t, os.WriteFile(s, b, 0o600))
		}, false},
	} {
		t.Run(x.name, func(t *testing.T) {
			crashedBuffer(t).eachDamage(t, 2, func(t *testing.T, _ int, stream, _ string) { x.change(t, stream) },
				func(t *testing.T, _ int, dir string, units map[string][]foundUnit) {
					for i := range crashedUnits {
						n := len(units[unitName(0, 0, i)])
						if n > 1 || n == 0 && (x.kept || i >= crashedUnits-crashedUnits%flushedUnits) {
							t.Errorf("unit %d is there %d times", i, n)
						}
					}
					if x.name == "another" {
						n := 0
						for _, name := range traces(t, dir) {
							n += strings.Count(tracetest.Outline(t, tracetest.Open(t, name)), "whole")
						}
						if n != 100 {
							t.Errorf("%d of the 100 other entries are left", n)
						}
					}
				})
		})
	}
}

func appendTo(t *testing.T, name string, b []byte) {
	t.Helper()
	must(t, os.WriteFile(name, append(readFile(t, name), b...), 0o600))
}

// TestBufferTruncatedWhileRunning lets somebody truncate the crash buffer under a
// recorder: the process lives, writes through from then on, says so, and its
// account adds up.
func TestBufferTruncatedWhileRunning(t *testing.T) {
	for _, size := range []int64{0, 1000, 64 << 10, 64<<10 + 4096, 192 << 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			told := 0
			dir := t.TempDir()
			rec, err := recorder.Create(filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir, OnError: func(error) {
				mu.Lock()
				told++
				mu.Unlock()
			}})
			must(t, err)
			var wg sync.WaitGroup
			taken := make([]int, 8)
			for g := range taken {
				wg.Go(func() {
					for i := range 400 {
						if i == 100 && g == 0 {
							if err := os.Truncate(rec.StreamPath()+".buffer", size); err != nil {
								t.Error(err)
							}
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
			_ = rec.Flush(context.Background()) // it may tell of the loss
			for i := range 100 {
				if err := rec.Log(format.SpanRef{}, named(fmt.Sprint("late ", i))); err != nil {
					t.Errorf("late %d: %v", i, err)
				}
			}
			must(t, rec.Flush(context.Background()))
			if d, why := rec.Durability(); d != recorder.DurabilityProcess || why != nil {
				t.Errorf("Durability is %v, %v", d, why)
			}
			if !eventually(func() bool {
				must(t, rec.Log(format.SpanRef{}, named("another")))
				must(t, rec.Flush(context.Background()))
				mu.Lock()
				defer mu.Unlock()
				return told > 0
			}) {
				t.Error("OnError was not told")
			}
			st := rec.Stats().Entries
			if st.Offered != st.Written+st.Waiting+st.Dropped.Total() || st.Offered < 1+3200+100 || st.Waiting != 0 {
				t.Errorf("the account is %+v", st)
			}
			_ = rec.Close(context.Background()) // it tells of the loss
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
