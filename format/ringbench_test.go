package format

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// BenchmarkRingPut puts a record of 200 bytes that is encoded into a ring, and
// copies as many bytes under a mutex into one.
func BenchmarkRingPut(b *testing.B) {
	g, err := NewRing(&RingOptions{Bytes: -1})
	must(b, err)
	batch := g.Recorder().Batch()
	e := faultEntry("event")
	e.Message = Some("a message of some length, as they are")
	e.Attributes = []Attribute{{"k", StringValue("a value that makes it about two hundred bytes altogether, with all that it takes")}}
	batch.Entry(e)
	batch.Log(faultRef(1), 1)
	n := batch.ops[0].end - batch.ops[0].start
	for _, goroutines := range []int{1, 2} {
		run := func(b *testing.B, fn func(b *Batch)) {
			b.SetBytes(int64(n))
			b.ReportAllocs()
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					own := &Batch{r: batch.r, buf: append([]byte(nil), batch.buf...), ops: append([]op(nil), batch.ops...), stripe: uint32(goroutines)}
					for range b.N / goroutines {
						fn(own)
					}
				})
			}
			wg.Wait()
		}
		for _, mapped := range []bool{false, true} {
			b.Run(fmt.Sprintf("goroutines=%d/mapped=%v", goroutines, mapped), func(b *testing.B) {
				o := &RingOptions{Bytes: 16 << 20}
				if mapped {
					o.Path = filepath.Join(b.TempDir(), "x.ring")
				}
				g, err := NewRing(o)
				must(b, err)
				g.Keep(^Providers(0))
				run(b, func(own *Batch) { _ = g.r.tryPut(own, &own.ops[0]) })
				b.StopTimer()
				must(b, g.Close())
			})
		}
		b.Run(fmt.Sprintf("goroutines=%d/copy", goroutines), func(b *testing.B) {
			ring := make([]byte, 16<<20)
			var mu sync.Mutex
			at := 0
			run(b, func(own *Batch) {
				mu.Lock()
				if at+n > len(ring) {
					at = 0
				}
				at += copy(ring[at:], own.buf[:n])
				mu.Unlock()
			})
		})
	}
}
