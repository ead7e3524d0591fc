package exporter

import (
	"sync"
	"time"
	"unsafe"

	"github.com/entrace-go/entrace/control"
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

// has reports whether a span is open.
func (o *openSpans) has(r format.SpanRef) bool {
	s := o.shard(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spans.Get(key(&r)) != nil
}

// labels returns the labels that the goroutine of an open span got, nil if it got
// none.
func (o *openSpans) labels(r format.SpanRef) *goroutineLabels {
	s := o.shard(&r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.spans.Get(key(&r)); b != nil {
		return b.labels
	}
	return nil
}

// each calls fn for the spans that began before a time, until it returns false.
func (o *openSpans) each(before time.Time, fn func(control.OpenSpan) bool) {
	limit := before.UnixNano()
	for i := range o {
		for _, s := range o[i].before(limit) {
			if !fn(s) {
				return
			}
		}
	}
}

func (s *openShard) before(limit int64) (list []control.OpenSpan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, b := range s.spans.All() {
		if b.start < limit {
			list = append(list, control.OpenSpan{
				Name: b.name, Span: format.SpanRef{TraceID: [16]byte(k[:16]), SpanID: [8]byte(k[16:])}, Start: time.Unix(0, b.start),
			})
		}
	}
	return list
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
