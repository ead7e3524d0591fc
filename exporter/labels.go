package exporter

import (
	"context"
	"encoding/hex"
	"runtime/pprof"

	"github.com/entrace-go/entrace/format"
)

// The labels of a goroutine that works for a span, by which profiles find it.
const (
	labelSpan  = "span_id"
	labelTrace = "trace_id"
)

// goroutineLabels are the labels that a goroutine got when a span began.
type goroutineLabels struct {
	own    context.Context // nil: it got none
	before context.Context // what comes back when the span ends
}

// label labels the goroutine, which begins a span. Labels that ctx has stay.
func (p *SpanProcessor) label(ctx context.Context, ref, parent format.SpanRef, local bool) (l goroutineLabels) {
	if !p.control.WantsLabels(!local) {
		return l
	}
	l.before = ctx
	if local {
		// The caller's context does not know what the parent has set.
		if up := p.open.labels(parent); up != nil {
			l.before = up
		}
	}
	var text [48]byte
	hex.Encode(text[:], ref.TraceID[:])
	hex.Encode(text[32:], ref.SpanID[:])
	l.own = pprof.WithLabels(ctx, pprof.Labels(labelSpan, string(text[32:]), labelTrace, string(text[:32])))
	pprof.SetGoroutineLabels(l.own)
	return l
}

// unlabel gives the goroutine back the labels that it had.
func (l *goroutineLabels) unlabel() {
	if l.own != nil {
		pprof.SetGoroutineLabels(l.before)
	}
}
