package gotrace

import (
	"context"
	"io"
	"slices"
)

// If a span began on one goroutine and ended on another, it was handed over in between. The trace does not record the
// handover, but it records a meeting: one goroutine woke or created the other. If the two met exactly once while the
// span was open, that meeting was the handover. Otherwise neither the handover nor the work for the span is known.

// A handover is a meeting of two goroutines at which spans may have been handed over.
type handover struct{ at, from, to int64 }

// A hop is a span that ended on another goroutine than it began on. The time of its handover is 0 if the time is not
// known.
type hop struct {
	span int32
	handover
}

// meetings are the latest meetings of a goroutine with goroutines that had open spans.
type meetings struct {
	with   [4]meeting
	lost   int64 // the time of the last meeting that was dropped from with
	hopped int64 // when a span that began elsewhere last ended on this goroutine
}

// A meeting holds the latest meetings with a goroutine that may have handed a span over. A meeting is weak if the
// other goroutine waited in a select, because that goroutine may have sent or received.
type meeting struct {
	goroutine                int64
	last, before             int64 // 0 if there was none
	lastWeak, beforeLastWeak int64
}

func (m *meetings) add(goroutine, at int64, weak bool) {
	x, oldest := (*meeting)(nil), &m.with[0]
	for i := range m.with {
		y := &m.with[i]
		if y.goroutine == goroutine {
			x = y
			break
		}
		if max(y.last, y.lastWeak) < max(oldest.last, oldest.lastWeak) {
			oldest = y
		}
	}
	if x == nil {
		m.lost = max(m.lost, oldest.last, oldest.lastWeak)
		x = oldest
		*x = meeting{goroutine, m.lost, m.lost, m.lost, m.lost} // dropped meetings may have been with this goroutine
	}
	if weak {
		x.lastWeak, x.beforeLastWeak = at, x.lastWeak
	} else {
		x.last, x.before = at, x.last
	}
}

// only returns the time of the meeting with a goroutine since a time. It returns 0 if there was no meeting, or
// more than one.
func (m *meetings) only(goroutine, since int64) int64 {
	for i := range m.with {
		x := &m.with[i]
		at, before := x.last, x.before
		if at < since {
			at, before = x.lastWeak, x.beforeLastWeak
		}
		if x.goroutine == goroutine && at >= since && before < since && at > m.hopped {
			return at
		}
	}
	return 0
}

// addMeeting records that the goroutine from may have handed a span to the goroutine to. If p.handovers has the spans
// that were handed over at this meeting, addMeeting moves these spans.
func (p *spanPass) addMeeting(from, to *goroutine, at int64, weak bool) {
	if p.quiet || len(from.open) == 0 {
		return
	}
	to.meetings.add(from.id, at, weak)
	for _, i := range p.handovers[handover{at, from.id, to.id}] {
		x := &p.t.Spans[i]
		k := int(x.slot)
		if x.Handed != 0 || k >= len(from.open) || from.open[k].span != i {
			continue
		}
		x.Handed = at
		p.addTime(from, at)
		p.creditOpenSpan(from)
		p.addTime(to, at)
		p.creditOpenSpan(to)
		o := from.open[k]
		for s := range o.base { // add the work before the handover to the work after it
			o.base[s] += to.sums[s] - from.sums[s]
		}
		p.close(from, k)
		x.slot = int32(len(to.open))
		to.open = append(to.open, o)
	}
}

// follow reads the trace again with the known handovers, and moves spans between goroutines. It deletes the data
// of spans whose handover is not known.
func (t *Trace) follow(ctx context.Context, hops []hop) error {
	p := newPass(t)
	p.handovers = make(map[handover][]int32)
	for _, h := range hops {
		if h.at != 0 {
			p.handovers[h.handover] = append(p.handovers[h.handover], h.span)
		}
	}
	if len(p.handovers) > 0 {
		t.Spans, t.Classes, t.Waits, t.clocks, t.names, t.helpers, t.packed = t.Spans[:0], nil, nil, nil, nil, nil, nil
		t.Damage = p.run(ctx, io.NewSectionReader(t.source, 0, t.size), 0)
		p.finish()
		t.Classes, hops = p.classes.list, p.hops
	}
	if len(hops) == 0 {
		return ctx.Err()
	}
	for _, h := range hops {
		t.Spans[h.span].times, t.Spans[h.span].Handed = 0, Unknown
	}
	t.Waits = slices.DeleteFunc(t.Waits, func(w Wait) bool { return t.Spans[w.Span].Handed == Unknown })
	return ctx.Err()
}
