package placer

import (
	"cmp"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/spanmap"
)

// A pendingRecord is a span that arrived before its local parent, or a log record whose span is pending. Pending
// records refer to each other by their index in pendingRecords.all; 0 means no record. There may be many, so the
// type has no pointers, which the garbage collector would follow.
type pendingRecord struct {
	ref, parent record.Ref // for a log record, ref is zero and parent is the ref of its span
	since       time.Duration
	time        int64 // time, info and stream are fields of the journal.Entry
	info        journal.Info
	from, to    int // the data of the record is pendingRecords.data[from:to]
	stream      uint32
	prev, next  int32 // links of the list of all records, in the order of their arrival
	// left and right link the records with the same parent, in the order of their arrival. left of the first record
	// is the last record. If left is 0, the record is in no such list.
	left, right int32
}

// pendingRecords holds the pending records of a Placer. The Placer bounds their number and bytes.
type pendingRecords struct {
	all    []pendingRecord
	parked []*journal.Segment // by index
	free   []int32            // unused indexes
	data   []byte             // the data of all records in the order of their arrival, with gaps

	bySpan   spanmap.Map[int32]
	byParent spanmap.Map[int32] // the first record below each parent
	oldest   int32
	newest   int32
	began    time.Time

	records, spans, entries int
	bytes                   int    // size of data without gaps
	logs                    uint64 // number of log records that have been pending so far
}

const (
	// slackBytes is the size that the gaps may have in any case.
	slackBytes = 1 << 20
	// maxRoom is the largest capacity of the lists and buffers that are kept while nothing is pending.
	maxRoom = 1 << 8
)

// add adds a record with a copy of its data.
func (p *pendingRecords) add(ref, parent record.Ref, e *journal.Entry, parked *journal.Segment) {
	now := time.Now()
	if p.all == nil {
		*p = pendingRecords{
			all: make([]pendingRecord, 1), parked: make([]*journal.Segment, 1), began: now, logs: p.logs,
		}
	}
	i := int32(len(p.all))
	if n := len(p.free); n > 0 {
		i, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.all, p.parked = append(p.all, pendingRecord{}), append(p.parked, nil)
	}
	p.all[i] = pendingRecord{
		ref: ref, parent: parent, since: now.Sub(p.began), time: e.Time, info: e.Info, stream: e.Stream,
		from: len(p.data), to: len(p.data) + len(e.Data), prev: p.newest, left: i,
	}
	p.parked[i] = parked
	p.data = append(p.data, e.Data...)
	if ref != (record.Ref{}) {
		at, _ := p.bySpan.Put((*spanmap.Key)(&ref))
		*at = i
	}
	if first, known := p.byParent.Put((*spanmap.Key)(&parent)); !known {
		*first = i
	} else {
		last := p.all[*first].left
		p.all[last].right, p.all[i].left, p.all[*first].left = i, last, i
	}
	if p.newest == 0 {
		p.oldest = i
	} else {
		p.all[p.newest].next = i
	}
	p.newest = i
	p.count(&p.all[i], 1)
	if len(p.data) > p.bytes+p.bytes/4+slackBytes {
		p.compact() // only now, because e.Data may be a part of p.data
	}
}

func (p *pendingRecords) count(r *pendingRecord, n int) {
	p.records += n
	p.spans += n * r.info.Spans()
	p.entries += n * r.info.Entries()
	p.bytes += n * (r.to - r.from)
}

// renumber is called when a new file begins. It clears the entry id that each pending log record has stored,
// because that id belongs to the old file. See Placer.waitForSpan.
func (p *pendingRecords) renumber() {
	for i := p.oldest; i != 0; i = p.all[i].next {
		if r := &p.all[i]; r.ref == (record.Ref{}) {
			clear(p.data[r.from+record.RefSize+8:][:8])
		}
	}
}

// span returns the index of the pending span ref, or 0.
func (p *pendingRecords) span(ref *record.Ref) int32 {
	if at := p.bySpan.Get((*spanmap.Key)(ref)); at != nil {
		return *at
	}
	return 0
}

// since returns when the oldest pending record arrived. It returns the zero Time if no record is pending.
func (p *pendingRecords) since() time.Time {
	if p.oldest == 0 {
		return time.Time{}
	}
	return p.began.Add(p.all[p.oldest].since)
}

// compact removes the gaps in p.data.
func (p *pendingRecords) compact() {
	n := 0
	for i := p.oldest; i != 0; i = p.all[i].next {
		r := &p.all[i]
		r.from, r.to = n, n+copy(p.data[n:], p.data[r.from:r.to])
		n = r.to
	}
	p.data = p.data[:n]
	if cap(p.data) > 4*n+slackBytes {
		p.data = slices.Clone(p.data)
	}
}

// entry returns the record with index i. It is valid until add is called.
func (p *pendingRecords) entry(i int32) journal.Entry {
	r := &p.all[i]
	return journal.Entry{Time: r.time, Info: r.info, Stream: r.stream, Data: p.data[r.from:r.to:r.to]}
}

// remove removes the record with index i, which must already be removed from its list of children.
func (p *pendingRecords) remove(i int32) {
	r := &p.all[i]
	if p.span(&r.ref) == i {
		p.bySpan.Delete((*spanmap.Key)(&r.ref))
	}
	if r.prev == 0 {
		p.oldest = r.next
	} else {
		p.all[r.prev].next = r.next
	}
	if r.next == 0 {
		p.newest = r.prev
	} else {
		p.all[r.next].prev = r.prev
	}
	p.parked[i] = nil
	p.free = append(p.free, i)
	p.count(r, -1)
	if p.records == 0 {
		p.data = p.data[:0]
		if len(p.all) > maxRoom || cap(p.data) > slackBytes {
			*p = pendingRecords{logs: p.logs}
		}
	}
}

// children appends the indexes of the records that need ref to list, and removes these records from their list of
// children.
func (p *pendingRecords) children(ref record.Ref, list []int32) []int32 {
	i, _ := p.byParent.Delete((*spanmap.Key)(&ref))
	for i != 0 {
		r := &p.all[i]
		list = append(list, i)
		i, r.left, r.right = r.right, 0, 0
	}
	return list
}

// first returns the index of the topmost pending ancestor of the oldest record. If its parent is not pending, this
// is the oldest record itself. first removes the returned record from its list of children.
func (p *pendingRecords) first() int32 {
	i, mark := p.oldest, p.oldest
	for n := 1; ; n++ {
		up := p.span(&p.all[i].parent)
		if up == 0 {
			break
		}
		i = up
		if i == mark {
			break // spans are each other's ancestors: return any of them
		}
		if n&(n-1) == 0 {
			mark = i
		}
	}
	r := &p.all[i]
	first := p.byParent.Get((*spanmap.Key)(&r.parent))
	switch {
	case r.left == 0: // a panic interrupted an earlier attempt to stage r
	case r.left == i:
		p.byParent.Delete((*spanmap.Key)(&r.parent))
	case *first == i:
		*first = r.right
		p.all[r.right].left = r.left
	default:
		p.all[r.left].right = r.right
		p.all[cmp.Or(r.right, *first)].left = r.left
	}
	r.left, r.right = 0, 0
	return i
}
