package exporter

import (
	"sync"
	"unsafe"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/spanmap"
)

// openSpans are the spans that have begun and not ended.
type openSpans [openShards]openShard

const (
	openShards = 64
	// maxOpen bounds the spans of a shard, since some never end. One that is
	// forgotten only costs room: what it had at its start is written again at its
	// end.
	maxOpen = 3 << 10
)

type openShard struct {
	mu sync.Mutex

	spans spanmap.Map[begun]

	_ [24]byte // a cache line each
}

func (o *openSpans) shard(r *format.SpanRef) *openShard {
	return &o[(r.SpanID[0]^r.SpanID[7])%openShards]
}

func key(r *format.SpanRef) *spanmap.Key { return (*spanmap.Key)(unsafe.Pointer(r)) }

// put notes a span that has begun.
func (o *openSpans) put(r format.SpanRef, b *begun) {
	s := o.shard(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spans.Len() >= maxOpen {
		s.spans.DeleteNear(key(&r)) // any one
	}
	at, _ := s.spans.Put(key(&r))
	*at = *b
}

// take takes a span out, and reports whether it was there.
func (o *openSpans) take(r format.SpanRef) (begun, bool) {
	s := o.shard(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans.Delete(key(&r))
}

// clear forgets all.
func (o *openSpans) clear() {
	for i := range o {
		s := &o[i]
		s.mu.Lock()
		s.spans = spanmap.Map[begun]{}
		s.mu.Unlock()
	}
}
