package placer

import (
	"cmp"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

// A pendingRecord is a span that came before its local parent, or a log record whose span is pending. It has no
// pointers, because there may be many. Pending records refer to each other by their places in
// pendingRecords.all, where place 0 is none.
type pendingRecord struct {
	ref, parent record.Ref // of a log record, parent is its span
	since       time.Duration
	time        int64 // as info and stream: of the record
	info        journal.Info
	from, to    int // of its data
	stream      uint32
	prev, next  int32 // in the order in which they came
	left, right int32 // of the same parent, in that order; left of the first one is the last one, 0: in no list
}

// pendingRecords are bounded in number and bytes by their Placer.
type pendingRecords struct {
	all    []pendingRecord
	parked []*journal.Segment // by place
	free   []int32            // places
	data   []byte             // of all, in the order in which they came, with gaps

	bySpan   map[record.Ref]int32
	byParent map[record.Ref]int32 // the first one
	oldest   int32
	newest   int32
	began    time.Time

	records, spans, entries int
	bytes                   int // of data, without gaps
	logs                    uint64
}

const (
	// slackBytes is how many bytes of gaps are allowed in any case.
	slackBytes = 1 << 20
	// maxRoom is how many places are kept when nothing is pending.
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
		p.compact() // only now, since e may be of data
	}
}

func (p *pendingRecords) count(r *pendingRecord, n int) {
	p.records += n
	p.spans += n * r.info.Spans()
	p.entries += n * r.info.Entries()
	p.bytes += n * (r.to - r.from)
}

// renumber says that the file has no span yet that a pending log record belongs to.
func (p *pendingRecords) renumber() {
	for i := p.oldest; i != 0; i = p.all[i].next {
		if r := &p.all[i]; r.ref == (record.Ref{}) {
			clear(p.data[r.from+record.RefSize+8:][:8])
		}
	}
}

// since returns since when the oldest record is pending, zero if none is.
func (p *pendingRecords) since() time.Time {
	if p.oldest == 0 {
		return time.Time{}
	}
	return p.began.Add(p.all[p.oldest].since)
}

// compact removes the gaps.
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

// entry returns a record, which is valid until add is called.
func (p *pendingRecords) entry(i int32) journal.Entry {
	r := &p.all[i]
	return journal.Entry{Time: r.time, Info: r.info, Stream: r.stream, Data: p.data[r.from:r.to:r.to]}
}

// remove removes a record that is in no list of children any more.
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

// children appends the places of the records that need ref to list. They are in no list of children any more.
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

// first returns the place of the topmost pending ancestor of the oldest record, and removes it from its list of
// children.
func (p *pendingRecords) first() int32 {
	i, mark := p.oldest, p.oldest
	for n := 1; ; n++ {
		up := p.bySpan[p.all[i].parent]
		if up == 0 {
			break
		}
		if i = up; i == mark {
			break // of spans that need each other in a ring any one is topmost
		}
		if n&(n-1) == 0 {
			mark = i
		}
	}
	r := &p.all[i]
	first := p.byParent[r.parent]
	switch {
	case r.left == 0: // staging it was cut short by a panic
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
