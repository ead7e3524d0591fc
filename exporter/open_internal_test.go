package exporter

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/entrace-go/entrace/format"
)

// TestOpenSpansBound puts in many that never end.
func TestOpenSpansBound(t *testing.T) {
	var o openSpans
	var r format.SpanRef
	for range openShards * maxOpen * 2 {
		binary.LittleEndian.PutUint64(r.SpanID[:], rand.Uint64())
		o.put(r, &begun{name: "s"})
	}
	for i := range o {
		if n := o[i].spans.Len(); n > maxOpen {
			t.Errorf("shard %d has %d", i, n)
		}
	}
	if b, ok := o.take(r); !ok || b.name != "s" {
		t.Error("the last one is gone")
	}
	if _, ok := o.take(r); ok {
		t.Error("the last one is there again")
	}
	o.clear()
	for i := range o {
		if o[i].spans.Len() > 0 {
			t.Error("something is left")
		}
	}
}
