package journal

import (
	"encoding/binary"
	"errors"
	"math"
	"sync"
)

// An Entry is a record that was read from a journal. It is valid until the next call of Next.
type Entry struct {
	Time int64
	Info Info
	Data []byte
	// Segment is the memory of the segment. It contains the shared bytes to which Data refers.
	Segment []byte
	Stream  uint32
}

// Shared returns the shared bytes to which the reference at e.Data[off] refers, and the bytes of Data that follow.
// ok is false if there is no valid reference.
func (e *Entry) Shared(off int) (shared, rest []byte, ok bool) {
	if off < 0 || len(e.Data)-off < SharedSize {
		return nil, nil, false
	}
	at := int64(binary.LittleEndian.Uint32(e.Data[off:]))
	n := int64(binary.LittleEndian.Uint32(e.Data[off+4:]))
	rest = e.Data[off+SharedSize:]
	switch {
	case at == 0 && n <= int64(len(rest)):
		return rest[:n:n], rest[n:], true
	case at > 0 && at+n <= int64(len(e.Segment)):
		return e.Segment[at : at+n : at+n], rest, true
	}
	return nil, nil, false
}

// Mark returns the last word of the data, or 0 if the data is shorter than a word.
func (e *Entry) Mark() uint64 {
	if len(e.Data) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(e.Data[len(e.Data)-8:])
}

// A Part is the first End bytes of a segment. It ends with a complete record.
type Part struct {
	Base uint64
	End  int
	// Read returns the bytes of the segment before the offset end. It may copy them to buf. The first bytes of buf,
	// whose number is have, are still valid from an earlier call.
	Read func(buf []byte, have, end int) ([]byte, error)

	// These fields are set only if the journal is in use.
	seg            *Segment
	entries, spans uint32
}

// A Cursor reads the records of one stream in their order.
type Cursor struct {
	stream uint32
	parts  []Part
	at     int    // offset in parts[0] of the next record to consume
	left   uint64 // the position of the next record if parts is empty
	mem    []byte // the bytes of parts[0] up to the offset loaded
	loaded int
	buf    []byte // buffer for mem
	chain  []byte // buffer for the bytes of a chain

	// The record at the offset at, if ok is set.
	ok       bool
	rec      Entry
	key      int64 // the time by which rec is merged; no key is less than an earlier key
	nextPart int   // the number of parts before the part with the next record
	nextAt   int   // offset of the next record in its part

	// earliest is only used for the stream of the spans. For each record of the part, it has the earliest time
	// among this record and all later ones. If the clock went back, a span is then returned too early instead of
	// too late.
	earliest []int64
	index    int // index in earliest

	growing        bool // parts may be added, and the last part may become longer
	entries, spans uint32
	m              *Merge
}

// NewCursor returns a cursor before the first record of the given parts of a stream.
func NewCursor(stream uint32, parts []Part) *Cursor {
	return &Cursor{stream: stream, parts: parts, at: First, key: math.MinInt64, m: new(Merge)}
}

// Next returns the next record, or nil at the end.
func (c *Cursor) Next() *Entry {
	c.advance()
	if !c.ok {
		return nil
	}
	c.consume()
	return &c.rec
}

// position returns the position of the next record to consume.
func (c *Cursor) position() uint64 {
	if len(c.parts) == 0 {
		return c.left
	}
	return c.parts[0].Base + uint64(c.at)
}

// advance decodes the record at the offset at.
func (c *Cursor) advance() {
	for !c.ok && len(c.parts) > 0 {
		p := &c.parts[0]
		if c.at < p.End && c.loaded < p.End {
			mem, err := p.Read(c.buf, c.loaded, p.End)
			if err != nil {
				c.lose(err)
				continue
			}
			c.mem, c.loaded = mem, p.End
			if p.seg != nil && p.seg.pool.medium == Mapped {
				c.buf = mem
			}
			if c.stream == StreamSpans {
				c.lookAhead()
			}
		}
		if c.at >= p.End {
			if len(c.parts) == 1 && c.growing {
				return
			}
			c.drop(1, First)
			continue
		}
		n, chain, ok := partAt(c.mem, c.at, p.End)
		switch {
		case !ok || chain == 0 && n < HeadSize:
			c.lose(ErrDamaged)
		case chain&chainRest != 0:
			c.at += n // the parts before it are gone
		case chain&chainMore != 0:
			c.gather(n)
		default:
			c.set(c.mem[c.at+8:c.at+n:c.at+n], c.mem, 0, c.at+n)
		}
	}
}

// ErrDamaged says that records are lost because somebody else has written to their segment.
var ErrDamaged = errors.New("not a record")

// set makes a record the current record. b is the record without its commit word; mem is its segment.
func (c *Cursor) set(b, mem []byte, nextPart, nextAt int) {
	c.rec = Entry{
		Time: int64(binary.LittleEndian.Uint64(b)), Info: Info(binary.LittleEndian.Uint64(b[8:])),
		Data: b[16:], Segment: mem, Stream: c.stream,
	}
	c.ok, c.nextPart, c.nextAt = true, nextPart, nextAt
	if c.stream == StreamSpans && c.index < len(c.earliest) {
		c.key = c.earliest[c.index]
		c.index++
		return
	}
	c.key = max(c.key, c.rec.Time)
}

// lookAhead fills c.earliest for the records that are loaded, from c.at on.
func (c *Cursor) lookAhead() {
	c.earliest, c.index = c.earliest[:0], 0
	for at := c.at; at < c.loaded; {
		n, chain, ok := partAt(c.mem, at, c.loaded)
		if !ok {
			break
		}
		if chain&chainRest == 0 && n >= HeadSize {
			c.earliest = append(c.earliest, int64(binary.LittleEndian.Uint64(c.mem[at+8:])))
		}
		at += n
	}
	for i := len(c.earliest) - 2; i >= 0; i-- {
		c.earliest[i] = min(c.earliest[i], c.earliest[i+1])
	}
}

// gather reads a chain whose first part has n bytes.
func (c *Cursor) gather(n int) {
	c.chain = append(c.chain[:0], c.mem[c.at+8:c.at+n]...)
	var buf []byte
	for i := 1; i < len(c.parts); i++ {
		p := &c.parts[i]
		mem, err := p.Read(buf, 0, p.End)
		if err != nil {
			break
		}
		n, chain, ok := partAt(mem, First, p.End)
		if !ok || chain&chainRest == 0 {
			break
		}
		c.chain = append(c.chain, mem[First+8:First+n]...)
		if chain&chainMore == 0 && len(c.chain) >= HeadSize-8 {
			c.set(c.chain, nil, i, First+n)
			return
		}
	}
	if c.growing {
		c.lose(ErrDamaged)
		return
	}
	c.at += n // the process died before it had appended the whole chain
}

// consume moves to the record after the current one. The bytes of the current record stay valid.
func (c *Cursor) consume() {
	c.entries += uint32(c.rec.Info.Entries())
	c.spans += uint32(c.rec.Info.Spans())
	c.ok = false
	if c.nextPart > 0 {
		c.drop(c.nextPart, c.nextAt)
		return
	}
	c.at = c.nextAt
}

// drop discards the next n parts, and moves to the offset at in the part that follows.
func (c *Cursor) drop(n, at int) {
	for i := range n {
		if seg := c.parts[i].seg; seg != nil {
			c.m.done = append(c.m.done, seg)
		}
	}
	if n == len(c.parts) {
		c.left = c.parts[n-1].Base + uint64(c.parts[n-1].End)
	}
	c.parts = append(c.parts[:0], c.parts[n:]...)
	c.at, c.loaded, c.entries, c.spans = at, 0, 0, 0
}

// lose skips the rest of the current part and counts its records as lost. err is the reason.
func (c *Cursor) lose(err error) {
	p := &c.parts[0]
	m := c.m
	m.lostEntries += uint64(p.entries - c.entries)
	m.lostSpans += uint64(p.spans - c.spans)
	m.lostErr = err
	c.entries, c.spans = p.entries, p.spans
	c.at, c.loaded = p.End, p.End
}

// A Merge reads several streams as one, ordered by time. If records have the same time, it returns spans first. It
// keeps the order of the records of one goroutine. If a leaf refers to a span in the streams, it returns the span
// first.
type Merge struct {
	// Needs reports whether a leaf refers to a span that was not returned yet.
	Needs func(*Entry) bool
	// Slack is a number of nanoseconds. A span that is needed by a leaf may be later than the leaf by this much. If
	// it is later by more, the leaf does not wait for it.
	Slack int64

	cursors []Cursor // one for each stream; the first is that of the spans
	last    *Cursor  // the cursor whose record Next has returned
	current *Cursor  // the cursor with the oldest record
	limit   int64    // the oldest time of the other cursors

	done                   []*Segment
	lostEntries, lostSpans uint64
	lostErr                error
}

// NewMerge returns a Merge of streams that do not grow. streams[i] is the stream StreamSpans+i, so streams[0] has
// the spans. A stream may have no parts.
func NewMerge(streams [][]Part) *Merge {
	m := &Merge{Slack: math.MaxInt64, cursors: make([]Cursor, len(streams))}
	for i := range m.cursors {
		c := &m.cursors[i]
		*c = Cursor{stream: StreamSpans + uint32(i), parts: streams[i], at: First, key: math.MinInt64, m: m}
		c.advance()
	}
	return m
}

// Skip makes the stream with index i begin at the given position.
func (m *Merge) Skip(i int, position uint64) {
	c := &m.cursors[i]
	c.ok = false
	for len(c.parts) > 0 && c.parts[0].Base+uint64(c.parts[0].End) <= position {
		c.drop(1, First)
	}
	if len(c.parts) > 0 && position > c.parts[0].Base {
		c.at, c.loaded = max(First, int(position-c.parts[0].Base)), 0
	}
	c.advance()
}

// Next returns the next record, or nil at the end.
func (m *Merge) Next() *Entry {
	if m.last != nil {
		m.last.advance()
		m.last = nil
	}
	c := m.current
	if c == nil || !c.ok || c.key > m.limit || c.key == m.limit && c != &m.cursors[0] {
		c = m.oldest()
		if c == nil {
			return nil
		}
	}
	if spans := &m.cursors[0]; c != spans && spans.ok && m.Needs != nil &&
		(m.Slack == math.MaxInt64 || spans.key <= c.rec.Time+m.Slack) && m.Needs(&c.rec) {
		c, m.current = spans, nil
	}
	m.last = c
	c.consume()
	return &c.rec
}

// oldest returns the cursor with the oldest record, and sets m.current and m.limit.
func (m *Merge) oldest() *Cursor {
	m.current, m.limit = nil, math.MaxInt64
	for i := range m.cursors {
		c := &m.cursors[i]
		switch {
		case !c.ok:
		case m.current == nil:
			m.current = c
		case c.key < m.current.key:
			m.current, m.limit = c, min(m.limit, m.current.key)
		default:
			m.limit = min(m.limit, c.key)
		}
	}
	return m.current
}

// Lost returns how many entries and spans could not be read since its last call, and the reason.
func (m *Merge) Lost() (entries, spans uint64, err error) {
	entries, spans, err = m.lostEntries, m.lostSpans, m.lostErr
	m.lostEntries, m.lostSpans, m.lostErr = 0, 0, nil
	return entries, spans, err
}

// A Reader reads a journal to which other goroutines append. Only one goroutine may use a Reader
// at a time.
type Reader struct {
	Merge

	j *Journal
}

// NewReader returns a Reader of the shards of j, which must not evict.
func (j *Journal) NewReader() *Reader {
	r := &Reader{Merge: Merge{Slack: math.MaxInt64, cursors: make([]Cursor, len(j.shards))}, j: j}
	for i := range r.cursors {
		r.cursors[i] = Cursor{stream: j.shards[i].stream, at: First, growing: true, m: &r.Merge}
	}
	return r
}

// Capture makes all records that are in the shards now available to Next. It locks all shards at once, so that it
// never captures a record without the record to which it refers.
func (r *Reader) Capture() {
	for i := range r.j.shards {
		r.j.shards[i].mu.Lock()
	}
	r.j.fresh.Store(0)
	for i := range r.cursors {
		r.cursors[i].capture(&r.j.shards[i])
	}
	for i := range r.j.shards {
		r.j.shards[i].mu.Unlock()
	}
	r.last, r.current = nil, nil
	for i := range r.cursors {
		c := &r.cursors[i]
		c.key = math.MinInt64 // so that a wrong time does not delay later records without bound
		if c.ok {
			c.key = c.rec.Time
		}
		c.advance()
	}
}

// capture adds the segments of s to c. The caller has locked s.
func (c *Cursor) capture(s *shard) {
	for _, seg := range s.full {
		c.captureSegment(seg)
	}
	clear(s.full)
	s.full = s.full[:0]
	if s.seg != nil {
		c.captureSegment(s.seg)
	}
	s.fresh = 0
}

func (c *Cursor) captureSegment(seg *Segment) {
	n := len(c.parts)
	if n == 0 || c.parts[n-1].seg != seg {
		if n == 0 {
			c.at, c.loaded, c.entries, c.spans = First, 0, 0, 0
		}
		c.parts = append(c.parts, Part{Base: seg.base, Read: seg.read, seg: seg})
		n++
	}
	p := &c.parts[n-1]
	p.End, p.entries, p.spans = int(seg.end), seg.Entries, seg.Spans
}

// HasName reports whether the file of the journal still has its name.
func (r *Reader) HasName() bool { return r.j.HasName() }

// Name returns the name of the journal's file.
func (r *Reader) Name() string { return r.j.Name() }

// Positions appends the position of each stream to the given slice. Next has returned all records before it.
func (r *Reader) Positions(to []uint64) []uint64 {
	for i := range r.cursors {
		to = append(to, r.cursors[i].position())
	}
	return to
}

// Release frees the segments that Next has read completely. Before, the caller must write a checkpoint with the new
// positions.
func (r *Reader) Release() {
	r.j.Release(r.done)
	clear(r.done)
	r.done = r.done[:0]
	for i := range r.cursors {
		if c := &r.cursors[i]; !c.ok && cap(c.buf) == SegmentSize {
			buffers.Put((*[SegmentSize]byte)(c.buf[:SegmentSize]))
			c.buf, c.mem, c.loaded = nil, nil, 0
		}
	}
}

// buffers is shared by all Readers, because a program with many journals reads few of them at a time.
var buffers = sync.Pool{New: func() any { return new([SegmentSize]byte) }}
