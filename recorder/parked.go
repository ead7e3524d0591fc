package recorder

import (
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
)

// parked is a set of copies of span records in a stream of the journal.
type parked struct {
	stream *journal.Stream           // nil: the journal is in memory, so nothing survives the process
	live   map[*journal.Segment]int  // number of needed copies in each segment
	done   map[*journal.Segment]bool // segments whose copies are not needed, except perhaps by the last checkpoint
}

func newParked(j *journal.Journal, stream uint32) parked {
	if j.Medium() == journal.Heap {
		return parked{}
	}
	return parked{j.NewStream(stream), make(map[*journal.Segment]int), make(map[*journal.Segment]bool)}
}

// add copies e to the stream and returns the segment of the copy. It returns nil if there is no stream or
// the journal has no room.
func (p *parked) add(e *journal.Entry) *journal.Segment {
	if p.stream == nil {
		return nil
	}
	seg, err := p.stream.Append(e.Time, e.Info, e.Data)
	if err != nil {
		return nil
	}
	p.live[seg]++
	return seg
}

// drop removes one copy in seg from the count.
func (p *parked) drop(seg *journal.Segment) {
	p.live[seg]--
	if p.live[seg] <= 0 {
		delete(p.live, seg)
		p.done[seg] = true
	}
}

// release frees the segments without needed copies. The caller has written a checkpoint that does not need
// them.
func (p *parked) release() {
	for seg := range p.done {
		if p.live[seg] == 0 {
			p.stream.Release(seg)
		}
	}
	clear(p.done)
}

// parking holds copies of the spans that wait for their parents.
type parking struct {
	parked

	from uint64 // position in the stream; copies before it are obsolete
}

// repark copies the spans that wait for their parents again, and moves k.from to the first of the
// new copies. Older copies are before this position.
func (k *parking) repark(p *placer.Placer) bool {
	if k.stream == nil {
		return true
	}
	at, old := k.stream.Position(), k.live
	k.live = make(map[*journal.Segment]int)
	if !p.Repark(true) {
		// The old copies are needed as before, and so are the new ones that repark made until it failed.
		for seg, n := range old {
			k.live[seg] += n
		}
		return false
	}
	k.from = at
	for seg := range old {
		k.done[seg] = true
	}
	return true
}
