package exporter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/format"
)

var _ sdktrace.SpanProcessor = (*SpanProcessor)(nil)

// A SpanProcessor records spans live: when OnStart has returned the span is in
// the file. Register it last, so that it sees what other processors add.
//
// A SpanProcessor is safe for concurrent use.
type SpanProcessor struct {
	target

	unsampled bool
	failing   atomic.Bool // the last call failed, and that was reported
	open      [shards]shard
}

// shards is how many locks the spans that are open are spread over.
const shards = 64

// maxOpen bounds the open spans that a shard remembers, since some never end. One
// that is forgotten only costs room: what it had at its start is written again at
// its end.
const maxOpen = 1 << 10

type shard struct {
	mu sync.Mutex

	spans map[format.SpanRef]*begun

	_ [48]byte // a cache line each
}

// A begun span is what is in the file of one that is open.
type begun struct {
	name         string
	attrs        []attribute.KeyValue
	links        int
	droppedAttrs int
	droppedLinks int
}

// changed returns the attributes that b lacks or has otherwise.
func (b *begun) changed(attrs []attribute.KeyValue) []attribute.KeyValue {
	if len(b.attrs) == 0 {
		return attrs
	}
	var out []attribute.KeyValue
	var known map[attribute.Key]attribute.Value
	if len(b.attrs) > 16 {
		known = make(map[attribute.Key]attribute.Value, len(b.attrs))
		for _, kv := range b.attrs {
			known[kv.Key] = kv.Value
		}
	}
	for i, kv := range attrs {
		// Attributes are in the order in which they were set first, mostly.
		if i < len(b.attrs) && b.attrs[i].Key == kv.Key && b.attrs[i].Value == kv.Value {
			continue
		}
		if !b.has(kv, known) {
			out = append(out, kv)
		}
	}
	return out
}

func (b *begun) has(kv attribute.KeyValue, known map[attribute.Key]attribute.Value) bool {
	if known != nil {
		v, ok := known[kv.Key]
		return ok && v == kv.Value
	}
	for _, old := range b.attrs {
		if old.Key == kv.Key {
			return old.Value == kv.Value
		}
	}
	return false
}

// later returns the links that came after the start. The SDK drops the oldest
// ones when there are too many.
func (b *begun) later(links []sdktrace.Link, dropped int) []sdktrace.Link {
	return links[min(max(0, b.links-(dropped-b.droppedLinks)), len(links)):]
}

// NewSpanProcessor returns a processor. Without [WithRecorder] it opens a
// recorder of its own, as [New] does.
func NewSpanProcessor(options ...Option) (*SpanProcessor, error) {
	p := &SpanProcessor{}
	c := newConfig(options)
	p.unsampled = c.unsampled
	return p, p.target.open(&c)
}

func (p *SpanProcessor) shard(r format.SpanRef) *shard {
	return &p.open[(r.SpanID[0]^r.SpanID[7])%shards]
}

// OnStart records what is known of a span when it starts.
func (p *SpanProcessor) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	if p.skip(s) {
		return
	}
	p.result(p.start(s))
}

func (p *SpanProcessor) skip(s sdktrace.ReadOnlySpan) bool {
	return p.stopped.Load() || p.recorder.Discards() || !p.unsampled && !s.SpanContext().IsSampled()
}

func (p *SpanProcessor) start(s sdktrace.ReadWriteSpan) (err error) {
	defer recovered(&err)
	m := p.mapper()
	defer p.release(m)
	res, rerr := p.resource(m, s.Resource())
	m.span.Resource, m.span.Open = res, true
	b := &begun{
		name: s.Name(), attrs: s.Attributes(), links: len(s.Links()),
		droppedAttrs: s.DroppedAttributes(), droppedLinks: s.DroppedLinks(),
	}
	m.start(s, b.attrs)
	if b.links > 0 {
		m.links(s.Links(), m.span.Entry.Metadata.Target)
	}
	if err := p.recorder.WriteSpan(&m.span); err != nil {
		return errors.Join(rerr, err)
	}
	sh := p.shard(m.span.Ref)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.spans == nil {
		sh.spans = make(map[format.SpanRef]*begun)
	}
	if len(sh.spans) >= maxOpen {
		for other := range sh.spans { // any one
			delete(sh.spans, other)
			break
		}
	}
	sh.spans[m.span.Ref] = b
	return rerr
}

// OnEnd records what happened to a span since it started.
func (p *SpanProcessor) OnEnd(s sdktrace.ReadOnlySpan) {
	if p.skip(s) {
		return
	}
	p.result(p.end(s))
}

func (p *SpanProcessor) end(s sdktrace.ReadOnlySpan) (err error) {
	defer recovered(&err)
	m := p.mapper()
	defer p.release(m)
	r := ref(s.SpanContext())
	sh := p.shard(r)
	sh.mu.Lock()
	b := sh.spans[r]
	delete(sh.spans, r)
	sh.mu.Unlock()
	if b == nil {
		b = new(begun)
	}
	target := s.InstrumentationScope().Name
	m.links(b.later(s.Links(), s.DroppedLinks()), target)
	m.events(s.Events(), target)
	err = p.recorder.EndSpan(r, m.span.Children, m.endEntry(s, b))
	if !errors.Is(err, format.ErrNotOpen) {
		return err
	}
	// It began before the processor was there, or could not be written then.
	m.reset()
	return errors.Join(p.whole(m, s), p.recorder.WriteSpan(&m.span))
}

// result reports an error, once until a call succeeds again. No lock is held.
func (p *SpanProcessor) result(err error) {
	if err == nil {
		if p.failing.Load() {
			p.failing.Store(false)
		}
		return
	}
	if !p.failing.Swap(true) {
		report(err)
	}
}

// ForceFlush does nothing: everything is in the file already.
func (p *SpanProcessor) ForceFlush(ctx context.Context) error { return ctx.Err() }

// Shutdown ends the processor, which ignores spans from then on. It closes the
// recorder if NewSpanProcessor opened it; see [Exporter.Shutdown].
func (p *SpanProcessor) Shutdown(ctx context.Context) error {
	err := p.shutdown(ctx)
	for i := range p.open {
		sh := &p.open[i]
		sh.mu.Lock()
		sh.spans = nil
		sh.mu.Unlock()
	}
	return err
}
