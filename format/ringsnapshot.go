package format

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
	"github.com/entrace-go/entrace/internal/spanmap"
)

// SnapshotOptions say what of a ring a [Snapshot] has.
type SnapshotOptions struct {
	// From is how far back it goes. What is older is left out, but for the beginnings
	// of spans that had not ended then. Zero is everything.
	From time.Time
	// Providers are those whose records it has.
	Providers Providers
	// Trace, if not zero, leaves out the spans and log records that are not of that
	// trace.
	Trace [16]byte
}

// A Snapshot is what a [Ring] had in it at a moment. It takes memory only for what
// the ring gives up meanwhile, and of each segment while it is copied.
//
// A Snapshot is not safe for concurrent use. It must be closed.
type Snapshot struct {
	Taken time.Time
	// From is since when it has everything: what was asked for, or later if the ring
	// does not go back so far.
	From time.Time
	// Evicted is how many entries may be missing: the ring had given them up
	// although they are later than what was asked for.
	Evicted uint64
	// Orphans is how many entries belong to spans whose beginning the ring had given
	// up. Copy counts them; they are there, with the ids of their span.
	Orphans uint64

	o         SnapshotOptions
	g         *Ring // nil: of a dead one
	version   Version
	resources []*Resource
	latest    *Resource
	carried   []*ringPart
	stripes   [][]*ringPart // the spans last
	held      map[*segment.Segment]*ringPart
	closed    bool
}

// A ringPart is a segment up to an end. Ring.mu guards it.
type ringPart struct {
	seg  *segment.Segment // nil: it is in data, or gone
	end  int
	data []byte
}

// Snapshot returns what is in the ring now.
func (g *Ring) Snapshot(o SnapshotOptions) *Snapshot {
	g.r.mu.Lock()
	defer g.r.mu.Unlock()
	return g.capture(o, nil)
}

// capture is Snapshot, and lets a stream have what comes from the same moment on.
// Recorder.mu is held.
func (g *Ring) capture(o SnapshotOptions, st *RingStream) *Snapshot {
	sn := &Snapshot{
		o: o, g: g, version: g.r.version, resources: slices.Clone(g.r.all), latest: g.r.latest,
		held: make(map[*segment.Segment]*ringPart),
	}
	sn.stripes = make([][]*ringPart, len(g.r.stripes))
	last := make([]ringPart, 0, len(g.r.stripes))
	for i := range g.r.stripes {
		g.r.stripes[i].mu.Lock()
	}
	g.mu.Lock()
	sn.Taken = time.Now()
	for i := range g.r.stripes {
		if s := g.r.stripes[i].seg; s != nil {
			last = append(last, ringPart{seg: s, end: s.End()})
		}
	}
	if st != nil && !g.closed {
		g.attach(st)
	}
	// Whoever records waits no longer: without Ring.mu nobody gets another segment.
	for i := range g.r.stripes {
		g.r.stripes[i].mu.Unlock()
	}
	for _, s := range g.full {
		sn.hold(s, s.End())
	}
	for _, p := range last {
		sn.hold(p.seg, p.end)
	}
	if g.carry != nil {
		sn.hold(g.carry, g.carry.End())
	}
	if sn.From = g.from(); o.From.After(sn.From) {
		sn.From = o.From
	} else if !o.From.IsZero() {
		sn.Evicted = g.evictions.since(o.From.UnixNano())
	} else {
		sn.Evicted = g.evictions.total
	}
	g.snapshots = append(g.snapshots, sn)
	g.mu.Unlock()
	return sn
}

// hold notes a segment up to an end. Its ring is locked.
func (sn *Snapshot) hold(s *segment.Segment, end int) {
	p := &ringPart{seg: s, end: end}
	sn.held[s] = p
	if s.Stream() == carryStream {
		sn.carried = append(sn.carried, p)
	} else if n := s.Stream(); n < uint64(len(sn.stripes)) {
		sn.stripes[n] = append(sn.stripes[n], p)
	}
}

// save copies a segment that the ring gives up. Its lock is held.
func (sn *Snapshot) save(s *segment.Segment) {
	p := sn.held[s]
	if p == nil {
		return
	}
	delete(sn.held, s)
	p.data, _ = s.Copy(nil, p.end) // a page that is gone leaves nothing
	p.seg = nil
}

// leave lets go of all segments: they are gone.
func (sn *Snapshot) leave() {
	for _, p := range sn.held {
		p.seg = nil
	}
	clear(sn.held)
}

// Close lets go of the ring.
func (sn *Snapshot) Close() {
	if sn.closed {
		return
	}
	sn.closed = true
	if sn.g == nil {
		return
	}
	sn.g.mu.Lock()
	defer sn.g.mu.Unlock()
	sn.leave()
	sn.g.snapshots = slices.DeleteFunc(sn.g.snapshots, func(s *Snapshot) bool { return s == sn })
}

// read returns what is in p, in buf if that is needed. Unless it is asked for
// again, the ring need not keep it any longer.
func (sn *Snapshot) read(p *ringPart, buf []byte, again bool) (data, room []byte) {
	if sn.g == nil {
		return p.data, buf
	}
	sn.g.mu.Lock()
	defer sn.g.mu.Unlock()
	if p.seg == nil {
		data = p.data
		if !again {
			p.data = nil
		}
		return data, buf
	}
	buf, err := p.seg.Copy(buf[:0], p.end)
	if err != nil {
		return nil, buf[:0]
	}
	if !again {
		delete(sn.held, p.seg)
		p.seg = nil
	}
	return buf, buf
}

// A ringCursor is how far a copy has come in a stripe.
type ringCursor struct {
	parts []*ringPart
	part  *ringPart // the record is in
	off   int       // where in it
	rest  []byte
	room  []byte
	total int    // bytes of the part
	data  []byte // the record, nil at the end
	o     record
	key   int64
}

// advance finds the next record.
func (c *ringCursor) advance(sn *Snapshot, again bool) {
	for {
		c.off = c.total - len(c.rest)
		if c.data, c.rest = segment.Next(c.rest); c.data != nil {
			if !c.o.parse(c.data) {
				continue // of a later version
			}
			c.key = max(c.key, c.o.key)
			return
		}
		if len(c.parts) == 0 {
			return
		}
		c.part, c.parts = c.parts[0], c.parts[1:]
		c.rest, c.room = sn.read(c.part, c.room, again)
		c.total = len(c.rest)
	}
}

// A ringCopy is a [Snapshot] on its way to a recorder.
type ringCopy struct {
	sn      *Snapshot
	r       *Recorder
	from    int64
	begun   bool // what is older is done with
	pending spanmap.Map[ringPlace]
	late    map[SpanRef][][]byte
	whole   [][]byte // spans that were recorded when they had ended
	err     error
}

// A ringPlace is where a record is.
type ringPlace struct {
	part *ringPart
	off  int
}

// Copy writes the snapshot to r, which must be of its ring's version, behind what
// is there already. It is done once.
func (sn *Snapshot) Copy(r *Recorder) error {
	if r.Discards() {
		return nil
	}
	if r.version != sn.version {
		return fmt.Errorf("snapshot of a ring of version %d to %s: %w", sn.version, r.stream, &VersionError{Version: r.version})
	}
	r.adopt(sn.resources, sn.latest)
	r.mu.Lock()
	defer r.unlock()
	return sn.copy(r)
}

// copy is Copy to a recorder that is locked.
func (sn *Snapshot) copy(r *Recorder) error {
	if r.closed {
		return ErrClosed
	}
	c := &ringCopy{sn: sn, r: r, from: math.MinInt64, late: make(map[SpanRef][][]byte)}
	if !sn.o.From.IsZero() {
		c.from = sn.o.From.UnixNano()
	}
	c.carried()
	c.merge()
	c.begin()
	c.orphans()
	if c.err == nil {
		c.err = r.flush()
	}
	if c.err != nil {
		r.unstage(0, c.err)
		return c.err
	}
	r.checkpoint()
	return nil
}

// carried notes the beginnings that were carried over.
func (c *ringCopy) carried() {
	cur := ringCursor{parts: c.sn.carried}
	for {
		cur.advance(c.sn, true)
		if cur.data == nil {
			return
		}
		if c.wanted(&cur.o) {
			c.wait(&cur)
		}
	}
}

func (c *ringCopy) wait(cur *ringCursor) {
	at, _ := c.pending.Put(cur.o.ref.key())
	*at = ringPlace{cur.part, cur.off}
}

// merge goes through the records in the order of time.
func (c *ringCopy) merge() {
	cursors := make([]ringCursor, len(c.sn.stripes))
	spans := len(cursors) - 1
	for i := range cursors {
		cursors[i].parts, cursors[i].key = c.sn.stripes[i], math.MinInt64
		cursors[i].advance(c.sn, i == spans)
	}
	for c.err == nil {
		next := -1
		for i := range slices.Backward(cursors) { // spans first
			if cursors[i].data != nil && (next < 0 || cursors[i].key < cursors[next].key) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		cur := &cursors[next]
		if c.wanted(&cur.o) {
			c.take(cur)
		}
		cur.advance(c.sn, next == spans)
	}
}

// wanted reports whether a record is asked for.
func (c *ringCopy) wanted(o *record) bool {
	opt := &c.sn.o
	if !opt.Providers.Has(o.provider) {
		return false
	}
	return opt.Trace == [16]byte{} || o.provider >= firstOther || o.ref.TraceID == opt.Trace
}

func (c *ringCopy) take(cur *ringCursor) {
	o := &cur.o
	// A span that was recorded when it had ended has the time of its beginning.
	ended := o.kind == opEither || o.kind == opSpan && o.flags&flagOpen == 0
	if cur.key >= c.from && !c.begun && (!ended || o.key >= c.from) {
		c.begin()
	}
	switch {
	case !c.begun && ended:
		c.pending.Delete(o.ref.key())
		if o.key+spanDuration(o, c.r.version) >= c.from {
			c.whole = append(c.whole, slices.Clone(cur.data))
		}
	case !c.begun && o.kind == opSpan:
		c.wait(cur)
	case !c.begun && o.kind == opEnd:
		c.pending.Delete(o.ref.key())
	case !c.begun:
	default:
		c.apply(o, cur.data)
	}
}

// begin writes the spans that had not ended when the window begins.
func (c *ringCopy) begin() {
	if c.begun {
		return
	}
	c.begun = true
	places := make([]ringPlace, 0, c.pending.Len())
	for _, p := range c.pending.All() {
		places = append(places, p)
	}
	c.pending.Clear()
	order := make(map[*ringPart]int, len(places))
	for i := range places {
		if _, known := order[places[i].part]; !known {
			order[places[i].part] = len(order)
		}
	}
	slices.SortFunc(places, func(a, b ringPlace) int {
		return cmp.Or(cmp.Compare(order[a.part], order[b.part]), cmp.Compare(a.off, b.off))
	})
	records := c.whole
	c.whole = nil
	var part *ringPart
	var data, room []byte
	for _, p := range places {
		if p.part != part {
			part = p.part
			data, room = c.sn.read(part, room, true)
		}
		if p.off < len(data) {
			if rec, _ := segment.Next(data[p.off:]); rec != nil {
				records = append(records, slices.Clone(rec))
			}
		}
	}
	slices.SortStableFunc(records, func(a, b []byte) int {
		return cmp.Compare(int64(leUint64(a)), int64(leUint64(b)))
	})
	var o record
	for _, rec := range records {
		if o.parse(rec) {
			c.apply(&o, rec)
		}
	}
}

// apply writes a record of the window.
func (c *ringCopy) apply(o *record, data []byte) {
	if c.err != nil {
		return
	}
	switch {
	case o.kind == opSpan && o.flags&flagRef != 0:
		if o.flags&flagOpen != 0 && c.r.spans.get(&o.ref) != nil {
			return // a process died while it was carried over
		}
		c.put(o, data)
		for _, late := range c.late[o.ref] {
			var l record
			if l.parse(late) {
				c.put(&l, late)
			}
		}
		delete(c.late, o.ref)
	case (o.kind == opEnd || o.kind == opMore) && c.r.spans.get(&o.ref) == nil:
		c.late[o.ref] = append(c.late[o.ref], slices.Clone(data))
	case o.kind == opLog || o.kind == opSpan || o.kind == opEnd || o.kind == opEither || o.kind == opMore:
		c.put(o, data)
	}
}

// put writes a record.
func (c *ringCopy) put(o *record, data []byte) {
	r := c.r
	entries, spans := uint64(countBodies(o.bodies)), uint64(0)
	switch o.kind {
	case opEither:
		entries-- // one of them is left out
	case opSpan:
		spans = 1
	}
	r.stats.Entries.Offered += entries
	r.stats.Spans.Offered += spans
	o.flags &^= flagWait // what it waits for would have come
	_ = r.apply(o, data) // kept and counted
	if len(r.out) >= flushSize {
		c.err = r.flush()
	}
}

// orphans writes what belongs to spans whose beginning is not there.
func (c *ringCopy) orphans() {
	refs := make([]SpanRef, 0, len(c.late))
	for ref := range c.late {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b SpanRef) int {
		return cmp.Compare(int64(leUint64(c.late[a][0])), int64(leUint64(c.late[b][0])))
	})
	for _, ref := range refs {
		for _, late := range c.late[ref] {
			var o record
			if c.err != nil || !o.parse(late) {
				continue
			}
			n := uint64(countBodies(o.bodies))
			c.sn.Orphans += n
			c.r.stats.Entries.Offered += n
			c.r.applyEnd(&o)
			if len(c.r.out) >= flushSize {
				c.err = c.r.flush()
			}
		}
	}
}

// spanDuration returns how long the span of a record took, 0 if that does not say.
func spanDuration(o *record, v Version) int64 {
	body, _, _, ok := nextBody(o.bodies)
	if !ok {
		return 0
	}
	var e TraceEntry
	if _, err := DecodeTraceEntry(append([]byte{0}, body...), v, &e); err != nil {
		return 0
	}
	d, _ := e.Attribute(AttrDuration)
	n, _ := d.I64()
	return n
}

// A RingStream gets what comes to a [Ring] as it comes.
type RingStream struct {
	g         *Ring
	r         *Recorder
	providers Providers
}

// Stream has r, which must be of the ring's version, get what the providers
// record from now on, and before it the beginnings of the spans that are open. A
// call that records to the ring then waits for r as well, see
// [RecorderOptions].MaxBlock. What r refuses it counts. Close the stream before r.
func (g *Ring) Stream(r *Recorder, p Providers) (*RingStream, error) {
	if r.version != g.r.version {
		return nil, fmt.Errorf("stream of a ring of version %d to %s: %w", g.r.version, r.stream, &VersionError{Version: r.version})
	}
	st := &RingStream{g: g, r: r, providers: p}
	g.r.mu.Lock()
	r.adopt(g.r.all, g.r.latest)
	r.mu.Lock() // what comes from now on is written after what is open
	defer r.unlock()
	sn := g.capture(SnapshotOptions{Providers: p & (1 << ProviderSpans)}, st)
	g.r.mu.Unlock()
	defer sn.Close()
	sn.o.From = time.Unix(0, math.MaxInt64) // only what is open
	if g.keep.Load()&(1<<ProviderSpans) == 0 {
		return st, nil // no span is there
	}
	if err := sn.copy(r); err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}

// attach adds a stream. The lock is held.
func (g *Ring) attach(st *RingStream) {
	var all []*RingStream
	if s := g.streams.Load(); s != nil {
		all = slices.Clone(*s)
	}
	all = append(all, st)
	g.streams.Store(&all)
	g.turnOn()
}

// Close ends the stream. It is idempotent.
func (st *RingStream) Close() {
	g := st.g
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.streams.Load()
	if s == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(*s), func(other *RingStream) bool { return other == st })
	if len(all) == 0 {
		g.streams.Store(nil)
	} else {
		g.streams.Store(&all)
	}
	g.turnOn()
}

// put hands a record to the stream.
func (st *RingStream) put(b *Batch, o *op) {
	if st.r.direct.Load() {
		_ = st.r.takeDirect(b, []op{*o}) // which counts what it refuses
		return
	}
	_ = st.r.put(b, o)
}
