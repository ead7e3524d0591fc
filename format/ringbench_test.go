package format

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
)

// BenchmarkRingPut puts records of 144 to 216 bytes, as those of spans are, that are
// encoded into a ring, and copies as many bytes under a mutex into one.
func BenchmarkRingPut(b *testing.B) {
	g, err := NewRing(&RingOptions{Bytes: -1})
	must(b, err)
	batch := g.Recorder().Batch()
	const text = "a value that makes it about two hundred bytes altogether, with all that it takes"
	for _, n := range []int{24, 48, 72, len(text)} {
		e := faultEntry("event")
		e.Message = Some("a message of some length, as they are")
		e.Attributes = []Attribute{{"k", StringValue(text[:n])}}
		batch.Entry(e)
		batch.Log(faultRef(1), 1)
	}
	ops := batch.ops
	size := 0
	for _, o := range ops {
		size += o.end - o.start
	}
	for _, goroutines := range []int{1, 2} {
		run := func(b *testing.B, fn func(b *Batch, o *op)) {
			b.SetBytes(int64(size / len(ops)))
			b.ReportAllocs()
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					own := &Batch{r: batch.r, buf: append([]byte(nil), batch.buf...), ops: append([]op(nil), ops...), stripe: uint32(goroutines)}
					for i := range b.N / goroutines {
						fn(own, &own.ops[i%len(ops)])
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
				run(b, func(own *Batch, o *op) { _ = g.r.tryPut(own, o) })
				b.StopTimer()
				must(b, g.Close())
			})
		}
		b.Run(fmt.Sprintf("goroutines=%d/copy", goroutines), func(b *testing.B) {
			ring := make([]byte, 16<<20)
			var mu sync.Mutex
			at := 0
			run(b, func(own *Batch, o *op) {
				mu.Lock()
				if at+o.end-o.start > len(ring) {
					at = 0
				}
				at += copy(ring[at:], own.buf[o.start:o.end])
				mu.Unlock()
			})
		})
	}
}
