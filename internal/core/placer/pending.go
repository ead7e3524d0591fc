package placer

import (
	"cmp"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

// A pendingRecord is a span that arrived before its local parent, or a log record whose span is pending. It
// has no pointers, because there may be many pending records. They refer to each other by their indexes in
// pendingRecords.all. Index 0 means no record.
type pendingRecord struct {
	ref, parent record.Ref // for a log record, ref is zero and parent is its span
	since       time.Duration
	time        int64 // time, info and stream are fields of the record
	info        journal.Info
	from, to    int // the data of the record is pendingRecords.data[from:to]
	stream      uint32
	prev, next  int32 // list of all records, in the order in which they arrived
	// left and right link the records with the same parent, in that order. left of the first record is the
	// last record. If left is 0, the record is in no such list.
	left, right int32
}

// pendingRecords holds the pending records of a Placer. The Placer bounds their number and bytes.
type pendingRecords struct {
	all    []pendingRecord
	parked []*journal.Segment // by index
	free   []int32            // unused indexes
	data   []byte             // the data of all records, in the order in which they arrived, with gaps

	bySpan   map[record.Ref]int32
	byParent map[record.Ref]int32 // the first record of each parent
	oldest   int32
	newest   int32
	began    time.Time

	records, spans, entries int
	bytes                   int    // size of data without gaps
	logs                    uint64 // number of log records so far
}

const (
	// slackBytes is the number of bytes of gaps that are always allowed.
	slackBytes = 1 << 20
	// maxRoom is the number of items of all that are kept when nothing is pending.
	maxRoom = 1 << 8
)

// add adds a record with a copy of its data.
func (p *pendingRecords) add(ref, parent record.Ref, e *journal.Entry, parked *journal.Segment) {
	now := time.Now()
	if p.all == nil {
		*p = pendingRecords{
			all: make([]pendingRecord, 1), parked: make([]*journal.Segment, 1), began: now, logs: p.logs,
			bySpan: make(map[record.Ref]int32), byParent: make(map[record.Ref]int32),
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
		p.bySpan[ref] = i
	}
	if first := p.byParent[parent]; first == 0 {
		p.byParent[parent] = i
	} else {
		last := p.all[first].left
		p.all[last].right, p.all[i].left, p.all[first].left = i, last, i
	}
	if p.newest == 0 {
		p.oldest = i
	} else {
		p.all[p.newest].next = i
	}
	p.newest = i
	p.count(&p.all[i], 1)
	if len(p.data) > p.bytes+p.bytes/4+slackBytes {
		p.compact() // not earlier, because e.Data may be a part of p.data
	}
}

func (p *pendingRecords) count(r *pendingRecord, n int) {
	p.records += n
	p.spans += n * r.info.Spans()
	p.entries += n * r.info.Entries()
	p.bytes += n * (r.to - r.from)
}

// renumber says that a new file begins, which does not have the span of any pending log record yet.
func (p *pendingRecords) renumber() {
	for i := p.oldest; i != 0; i = p.all[i].next {
		if r := &p.all[i]; r.ref == (record.Ref{}) {
			clear(p.data[r.from+record.RefSize+8:][:8])
		}
	}
}

// since returns the time since which the oldest record is pending, zero if no record is pending.
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
	if p.data = p.data[:n]; cap(p.data) > 4*n+slackBytes {
		p.data = slices.Clone(p.data)
	}
}

// entry returns the record with index i. It is valid until add is called.
func (p *pendingRecords) entry(i int32) journal.Entry {
	r := &p.all[i]
	return journal.Entry{Time: r.time, Info: r.info, Stream: r.stream, Data: p.data[r.from:r.to:r.to]}
}

// remove removes the record with index i, which must not be in a list of children any more.
func (p *pendingRecords) remove(i int32) {
	r := &p.all[i]
	if p.bySpan[r.ref] == i {
		delete(p.bySpan, r.ref)
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

// children appends to list the indexes of the records that need ref, and removes these records from their list
// of children.
func (p *pendingRecords) children(ref record.Ref, list []int32) []int32 {
	i := p.byParent[ref]
	delete(p.byParent, ref)
	for i != 0 {
		r := &p.all[i]
		list = append(list, i)
		i, r.left, r.right = r.right, 0, 0
	}
	return list
}

// first returns the index of the topmost pending ancestor of the oldest record, and removes that ancestor from
// its list of children.
func (p *pendingRecords) first() int32 {
	i, mark := p.oldest, p.oldest
	for n := 1; ; n++ {
		up := p.bySpan[p.all[i].parent]
		if up == 0 {
			break
		}
		if i = up; i == mark {
			break // spans that need each other in a circle: any of them may be the topmost
		}
		if n&(n-1) == 0 {
			mark = i
		}
	}
	r := &p.all[i]
	first := p.byParent[r.parent]
	switch {
	case r.left == 0: // a panic ended an earlier attempt to stage r
	case r.left == i:
		delete(p.byParent, r.parent)
	case first == i:
		p.byParent[r.parent] = r.right
		p.all[r.right].left = r.left
	default:
		p.all[r.left].right = r.right
		p.all[cmp.Or(r.right, first)].left = r.left
	}
	r.left, r.right = 0, 0
	return i
}
