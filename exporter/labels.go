package exporter

import (
	"context"
	"encoding/hex"
	"runtime/pprof"
	"sync/atomic"

	"github.com/entrace-go/entrace/format"
)

// The labels of a goroutine that works for a span, by which profiles find it.
const (
	labelSpan  = "span_id"
	labelTrace = "trace_id"
)

// goroutineLabels are the labels that a goroutine got when a span began. Nothing
// tells which goroutine it was: when the span ends on another one, that one gets
// the labels back.
type goroutineLabels struct {
	own    context.Context
	before context.Context  // with the labels of the caller
	up     *goroutineLabels // those of the parent
	ended  atomic.Bool
}

// label labels the goroutine, which begins a span, and returns nil if it did not. The parent
// is the local one, zero if there is none.
// Labels that ctx has stay; those that were set otherwise are not known here, and
// are lost.
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

// unlabel gives the goroutine back the labels that it had: those of the next span
// above that is open, which the caller's context does not know, or else the
// caller's.
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
