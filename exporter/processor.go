package exporter

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/recorder"
)

var _ sdktrace.SpanProcessor = (*SpanProcessor)(nil)

// A SpanProcessor records spans live: when OnStart has returned, the span is as safe as the
// recorder's durability promises. Register it last, so that it sees the additions of other
// processors.
//
// A SpanProcessor is safe for concurrent use.
type SpanProcessor struct {
	target

	unsampled bool
	flight    flightrecorder.Recorder // nil: no flight recorder
	unwatch   func()
	open      openSpans
	others    atomic.Pointer[[]*SpanProcessor] // other processors with the same recorder; nil: none
}

// A startData holds the data of an open span that was recorded at its start.
type startData struct {
	name         string
	attrs        []attribute.KeyValue
	links        int
	droppedLinks int
	start        time.Duration    // time since clock
	parent       format.SpanRef   // zero: no local parent, or no flight recorder
	labels       *goroutineLabels // nil: the goroutine got no labels
	elsewhere    bool             // another processor records the span
}

// changed appends to list the items of attrs that are not in b.attrs or have another value there.
func (b *startData) changed(list, attrs []attribute.KeyValue) []attribute.KeyValue {
	if len(attrs) == len(b.attrs) && (len(attrs) == 0 || &attrs[0] == &b.attrs[0]) {
		return list // same slice: the SDK never changes a slice that it has returned
	}
	has := func(kv attribute.KeyValue) bool { return slices.Contains(b.attrs, kv) }
	if len(b.attrs) > 16 { // a search for each of many attributes would take too long
		known := make(map[attribute.KeyValue]bool, len(b.attrs))
		for _, kv := range b.attrs {
			known[kv] = true
		}
		has = func(kv attribute.KeyValue) bool { return known[kv] }
	}
	for i := range attrs {
		kv := &attrs[i]
		// In most cases an attribute still has the index that it had at the start.
		if i < len(b.attrs) && b.attrs[i].Key == kv.Key && b.attrs[i].Value == kv.Value {
			continue
		}
		if !has(*kv) {
			list = append(list, *kv)
		}
	}
	return list
}

// evicted returns how many of the links that the span had at its start the SDK has dropped to make
// room for later links. These links are in the recording nevertheless.
func (b *startData) evicted(dropped int) int { return min(b.links, max(0, dropped-b.droppedLinks)) }

// later returns the links that were added after the start. If a span has too many links, the SDK
// drops the oldest ones.
func (b *startData) later(links []sdktrace.Link, dropped int) []sdktrace.Link {
	return links[min(b.links-b.evicted(dropped), len(links)):]
}

// NewSpanProcessor returns a processor. Without [WithRecorder] it opens a
// recorder of its own, as [New] does.
func NewSpanProcessor(options ...Option) (*SpanProcessor, error) {
	p := &SpanProcessor{open: openSpans{spanmap.NewSharded[startData](maxOpen)}}
	s := setup.Resolve(options...)
	p.unsampled = s.Unsampled
	if s.Flight != nil {
		p.flight, p.unsampled = s.Flight, true
		p.unwatch = s.Flight.WatchSpans(p.open.each)
	}
	err := p.target.open(s, modeLive)
	if !p.recorder.Discards() {
		processors.change(p.recorder, func(list []*SpanProcessor) []*SpanProcessor { return append(list, p) })
	}
	return p, err
}

// processors holds the processors that have not been shut down, by their recorders. If a provider has two processors
// with one recorder, only one of them records each span.
var processors = processorsOf{of: make(map[*recorder.Recorder][]*SpanProcessor)}

type processorsOf struct {
	mu sync.Mutex

	of map[*recorder.Recorder][]*SpanProcessor
}

// change replaces the list of the processors of r by the result of fn.
func (x *processorsOf) change(r *recorder.Recorder, fn func([]*SpanProcessor) []*SpanProcessor) {
	x.mu.Lock()
	defer x.mu.Unlock()
	list := fn(x.of[r])
	x.of[r] = list
	if len(list) == 0 {
		delete(x.of, r)
	}
	for i, p := range list {
		others := slices.Delete(slices.Clone(list), i, i+1)
		p.others.Store(&others)
	}
}

// leaves reports whether p leaves the span r, which begins now, to another processor with the same recorder.
func (p *SpanProcessor) leaves(r format.SpanRef) bool {
	others := p.others.Load()
	if others == nil || len(*others) == 0 {
		return false
	}
	is := slices.ContainsFunc(*others, func(other *SpanProcessor) bool { return other.open.has(r) })
	if is {
		p.open.Set(key(&r), &startData{elsewhere: true})
	}
	return is
}

// A moment is the part of a span's life that a record describes.
type moment uint8

const (
	momentStart moment = iota
	momentEnd          // the end of a span whose start is recorded
	momentWhole        // the end of a span that began before the processor existed, or could not be written at its start, or was forgotten
)

// OnStart records the data of a span that is known when it starts.
func (p *SpanProcessor) OnStart(ctx context.Context, s sdktrace.ReadWriteSpan) {
	p.on(ctx, s, momentStart)
}

// OnEnd records the data that a span got since it started.
func (p *SpanProcessor) OnEnd(s sdktrace.ReadOnlySpan) { p.on(context.Background(), s, momentEnd) }

// on records that s has begun or ended, unless p ignores s.
func (p *SpanProcessor) on(ctx context.Context, s sdktrace.ReadOnlySpan, at moment) {
	sc := s.SpanContext()
	if p.stopped.Load() || !p.unsampled && !sc.IsSampled() {
		return
	}
	r := ref(&sc)
	var b startData
	if at == momentEnd {
		var known bool
		b, known = p.open.Delete(key(&r))
		if !known {
			at = momentWhole
		}
	}
	// Even if the recorder accepts no new spans, record the end of a span whose start was recorded.
	if b.elsewhere || at != momentEnd && !p.recorder.TakesSpans() || at == momentStart && p.leaves(r) {
		return
	}
	p.mark(ctx, s, at)
	p.result(p.record(ctx, s, at, r, &b))
}

// record records the start or the end of s. If s has ended, b has the data of the start; otherwise b is empty.
func (p *SpanProcessor) record(ctx context.Context, s sdktrace.ReadOnlySpan, at moment, r format.SpanRef, b *startData) (err error) {
	defer recovered(&err)
	m := p.mapper()
	defer p.release(m)
	if at == momentEnd {
		b.labels.unlabel()
		m.finish(s, r, b)
		p.ended(m, s, r)
		return m.b.Write()
	}
	res, rerr := p.resource(s.Resource())
	if at == momentWhole {
		m.whole(s, res, false)
		m.children(s)
		p.ended(m, s, r)
		return errors.Join(rerr, m.b.Write())
	}
	h := m.start(s, b, res)
	if err := m.b.Write(); err != nil {
		return errors.Join(rerr, err)
	}
	if p.flight != nil {
		if !h.Remote {
			b.parent = h.Parent
		}
		b.labels = p.label(ctx, r, b.parent)
	}
	p.open.Set(key(&r), b)
	return rerr
}

// ended notifies a flight recorder, through the batch of m, that the span s has ended.
func (p *SpanProcessor) ended(m *mapper, s sdktrace.ReadOnlySpan, r format.SpanRef) {
	if p.flight == nil {
		return
	}
	m.in.Ended(r, s.Name(), duration(s.StartTime(), s.EndTime()))
	if text, is := panicOf(s, s.Events()); is {
		m.in.Panicked(text)
	}
}

// panicOf returns the text of the panic that ends the span s in this goroutine, and whether a panic ends it. The SDK
// records a panic as the last exception event, after it has read the clock for the end time of the span. So the event
// of a panic is not earlier than the end of the span, and events of RecordError are earlier.
func panicOf(s sdktrace.ReadOnlySpan, events []sdktrace.Event) (text string, is bool) {
	if len(events) == 0 {
		return "", false
	}
	last := &events[len(events)-1]
	if last.Name != mapping.NameException || last.Time.Before(s.EndTime()) || !safecall.Dying() {
		return "", false
	}
	for _, a := range last.Attributes {
		if a.Key == "exception.message" {
			text = a.Value.AsString()
		}
	}
	return text, true
}

// ForceFlush writes all records so far to the file.
func (p *SpanProcessor) ForceFlush(ctx context.Context) error { return p.flush(ctx) }

// Shutdown ends the processor, which then ignores spans. If NewSpanProcessor opened the recorder,
// Shutdown closes the recorder; see [Exporter.Shutdown].
func (p *SpanProcessor) Shutdown(ctx context.Context) error {
	processors.change(p.recorder, func(list []*SpanProcessor) []*SpanProcessor {
		return slices.DeleteFunc(list, func(other *SpanProcessor) bool { return other == p })
	})
	err := p.target.Shutdown(ctx)
	if p.unwatch != nil {
		p.unwatch()
	}
	p.open.Clear()
	return err
}
