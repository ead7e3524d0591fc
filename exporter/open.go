package exporter

import (
	"time"
	"unsafe"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/spanmap"
)

// openSpans holds the spans that have begun but not ended.
type openSpans struct {
	*spanmap.Sharded[startData]
}

// clock is the zero point for the start times of open spans. It has a monotonic reading,
// so that setting the machine's clock does not change how long a span is open.
var clock = time.Now()

// maxOpen bounds the number of open spans, since some never end. Forgetting a span only
// costs space in the file: its start data is written again at its end.
const maxOpen = 192 << 10

func key(r *format.SpanRef) *spanmap.Key { return (*spanmap.Key)(unsafe.Pointer(r)) }

// has reports whether the span r is open.
func (o openSpans) has(r format.SpanRef) bool {
	s := o.Lock(key(&r))
	defer s.Unlock()
	return s.Get(key(&r)) != nil
}

// labels returns the labels that the open span r gave its goroutine, or nil if it gave none.
func (o openSpans) labels(r format.SpanRef) *goroutineLabels {
	s := o.Lock(key(&r))
	defer s.Unlock()
	if b := s.Get(key(&r)); b != nil {
		return b.labels
	}
	return nil
}

// each calls fn for each open span that began before the given time, and passes the local parent
// of the span. It stops when fn returns false. No lock is held while fn runs.
func (o openSpans) each(before time.Time, fn func(name string, span, parent format.SpanRef, start time.Time) bool) {
	type open struct {
		name         string
		span, parent format.SpanRef
		start        time.Duration
	}
	limit := before.Sub(clock)
	var list []open
	for i := range o.Shards() {
		list = list[:0]
		m := o.LockAt(i)
		for k, b := range m.All() {
			if b.start < limit && !b.elsewhere {
				list = append(list, open{b.name, format.SpanRef{TraceID: [16]byte(k[:16]), SpanID: [8]byte(k[16:])}, b.parent, b.start})
			}
		}
		m.Unlock()
		for _, s := range list {
			if !fn(s.name, s.span, s.parent, clock.Add(s.start)) {
				return
			}
		}
	}
}
