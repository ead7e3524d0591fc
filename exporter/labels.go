package exporter

import (
	"context"
	"encoding/hex"
	"runtime/pprof"
	"sync/atomic"

	"github.com/entrace-go/entrace/format"
)

// The labels of a goroutine that works for a span. Profiles use them to find the span.
const (
	labelSpan  = "span_id"
	labelTrace = "trace_id"
)

// goroutineLabels are the labels that a goroutine got when a span began. They do not identify
// the goroutine: if the span ends on another goroutine, that other goroutine gets the
// earlier labels.
type goroutineLabels struct {
	own    context.Context  // with the labels of the span
	before context.Context  // with the labels of the caller
	up     *goroutineLabels // the labels of the parent
	ended  atomic.Bool
}

// label sets labels of the calling goroutine, which begins the span ref. It returns nil if it set no labels. The
// parameter parent is the local parent of the span. It is zero if the span has no local parent. The goroutine also gets
// the labels in ctx. It loses other labels, because label cannot read the labels of a goroutine.
func (p *SpanProcessor) label(ctx context.Context, ref, parent format.SpanRef) *goroutineLabels {
	local := parent.IsValid()
	if !p.flight.WantsLabels(!local) {
		return nil
	}
	l := &goroutineLabels{before: ctx}
	if local {
		l.up = p.open.labels(parent)
	}
	var text [48]byte
	hex.Encode(text[:], ref.TraceID[:])
	hex.Encode(text[32:], ref.SpanID[:])
	l.own = pprof.WithLabels(ctx, pprof.Labels(labelSpan, string(text[32:]), labelTrace, string(text[:32])))
	pprof.SetGoroutineLabels(l.own)
	return l
}

// unlabel restores the labels of the goroutine. If an ancestor of the span is open, the goroutine
// gets the labels of the nearest open ancestor. Otherwise it gets the labels that it had before the
// oldest ancestor began.
func (l *goroutineLabels) unlabel() {
	if l == nil {
		return
	}
	l.ended.Store(true)
	to := l.before
	for up := l.up; up != nil; up = up.up {
		if !up.ended.Load() {
			to = up.own
			break
		}
		to = up.before
	}
	pprof.SetGoroutineLabels(to)
}
