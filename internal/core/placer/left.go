package placer

import (
	"maps"
	"slices"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

// A leftSpan is an open span whose entry is only in an earlier file. The Placer writes the span again before the
// first record that refers to it.
type leftSpan struct {
	time   int64
	info   journal.Info
	data   []byte
	parked *journal.Segment
}

// maxLeftBytes bounds the memory for the records of leftSpans.
const maxLeftBytes = 64 << 20

// Leave remembers an open span whose entry is only in an earlier file. e is the record of the span, which Leave
// copies. The span is written again before the first record that refers to it.
func (p *Placer) Leave(e *journal.Entry) {
	var r record.Record
	if !r.Parse(e) || p.leftBytes+len(e.Data) > maxLeftBytes {
		p.Forget()
		return
	}
	if p.left == nil {
		p.left = make(map[record.Ref]leftSpan)
	}
	s := leftSpan{time: e.Time, info: e.Info, data: slices.Clone(e.Data)}
	s.park(&p.o)
	p.left[r.Ref] = s
	p.leftBytes += len(s.data)
}

func (s *leftSpan) entry() *journal.Entry {
	return &journal.Entry{Time: s.time, Info: s.info, Data: s.data}
}

func (s *leftSpan) park(o *Options) {
	s.parked = nil
	if o.ParkLeft != nil {
		s.parked = o.ParkLeft(s.entry())
	}
}

// Forget says that the Placer does not know all open spans of earlier files. From now on, the end of an unknown
// span is written below its resource, instead of being dropped.
func (p *Placer) Forget() { p.keepOrphans = true }

// Left returns the number of open spans whose entries are only in earlier files.
func (p *Placer) Left() int { return len(p.left) }

// DropLeft forgets all spans that were passed to Leave.
func (p *Placer) DropLeft() {
	for ref := range p.left {
		p.takeLeft(ref)
	}
}

// ReparkLeft parks again the spans that were passed to Leave.
func (p *Placer) ReparkLeft() {
	for ref, s := range p.left {
		s.park(&p.o)
		p.left[ref] = s
	}
}

// adoptLeft moves the leftSpans of q to p.
func (p *Placer) adoptLeft(q *Placer) {
	if len(p.left) > len(q.left) {
		p.left, q.left = q.left, p.left
	}
	if q.left == nil {
		q.left = p.left
	} else {
		maps.Copy(q.left, p.left)
	}
	p.left, q.left = q.left, nil
	p.leftBytes, q.leftBytes = p.leftBytes+q.leftBytes, 0
}

// takeLeft removes a span from p.left and returns it.
func (p *Placer) takeLeft(ref record.Ref) (s leftSpan, ok bool) {
	s, ok = p.left[ref]
	if ok {
		delete(p.left, ref)
		p.leftBytes -= len(s.data)
		if s.parked != nil {
			p.o.UnparkLeft(s.parked)
		}
	}
	return s, ok
}

// continueLeft writes the spans to which e refers again, if their entries are only in earlier files.
func (p *Placer) continueLeft(e *journal.Entry) {
	var r record.Record
	if !r.Parse(e) {
		return
	}
	begins := r.Kind == record.KindSpan && r.Flags&record.FlagOpen != 0
	if r.Flags&record.FlagRef != 0 && !begins {
		p.continueSpan(r.Ref)
	}
	if r.Flags&record.FlagParent != 0 {
		p.continueSpan(r.Parent)
	}
}

func (p *Placer) continueSpan(ref record.Ref) {
	if p.spans.get(&ref) != nil {
		return
	}
	if s, ok := p.takeLeft(ref); ok {
		p.Continue(s.entry())
	}
}

// Continue stages the entry of a span that began in an earlier file. Extra counts this entry, because no record
// does.
func (p *Placer) Continue(e *journal.Entry) {
	drop, out, staged := p.Drop, p.enc.B, len(p.staged)
	p.Drop = nil
	defer func() {
		p.Drop = drop
		if recover() != nil { // as in Place
			p.enc.Restore(out)
			p.unstage(staged)
			p.Forget()
		}
	}()
	var r record.Record
	if !r.Parse(e) || !p.putSpan(&r) {
		p.Forget()
		return
	}
	p.staged[len(p.staged)-1].CountsSpan = false
	p.extra.Entries++
}
