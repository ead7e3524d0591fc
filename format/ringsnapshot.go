package format

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
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
	stripes   [][]*ringPart // the spans last, but for a dead ring
	spans     int           // of a dead ring: the stripe of the spans
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
	// key orders the records of all stripes. It is that of the record, made to
	// ascend: a record of another time must not hold up those behind it. Of spans it
	// is rather too early, of what refers to them too late.
	key   int64
	early []int64 // of the spans: the keys of the records in the part
	n     int     // records of the part before this one
}

// advance finds the next record.
func (c *ringCursor) advance(sn *Snapshot, spans bool) {
	for {
		c.off = c.total - len(c.rest)
		if c.data, c.rest = segment.Next(c.rest); c.data != nil {
			c.n++
			if !c.o.parse(c.data) {
				continue // of a later version
			}
			if spans {
				c.key = c.early[c.n-1]
			} else {
				c.key = max(c.key, c.o.key)
			}
			return
		}
		if len(c.parts) == 0 {
			return
		}
		c.part, c.parts = c.parts[0], c.parts[1:]
		c.rest, c.room = sn.read(c.part, c.room, spans)
		c.total, c.n = len(c.rest), 0
		if spans {
			c.lookAhead()
		}
	}
}

// lookAhead finds the keys of the records in a part of the spans.
func (c *ringCursor) lookAhead() {
	c.early = c.early[:0]
	for b := c.rest; ; {
		var data []byte
		if data, b = segment.Next(b); data == nil {
			break
		}
		key := int64(math.MaxInt64)
		if len(data) >= 8 {
			key = int64(leUint64(data))
		}
		c.early = append(c.early, key)
	}
	for i := len(c.early) - 2; i >= 0; i-- {
		c.early[i] = min(c.early[i], c.early[i+1])
	}
}

// A ringCopy is a [Snapshot] on its way to a recorder.
type ringCopy struct {
	sn      *Snapshot
	r       *Recorder
	from    int64
	begun   bool                   // the window: what is older is done with
	pending spanmap.Map[ringPlace] // spans that have not ended when the window begins
	carried spanmap.Map[struct{}]  // those of them that were carried over
	ended   spanmap.Map[struct{}]  // spans whose end was given up
	late    map[SpanRef][][]byte   // what refers to spans that are not there yet
	whole   [][]byte               // older spans that were recorded when they had ended
	more    map[SpanRef][][]byte   // what belongs to those, or to those that are pending
	err     error
}

// A ringPlace is where a record is.
type ringPlace struct {
	part *ringPart
	off  int
}

// Copy writes the snapshot to r, which must be of its ring's version and have no
// resources of its own, behind what is there already. It is done once.
func (sn *Snapshot) Copy(r *Recorder) error {
	if r.Discards() {
		return nil
	}
	r.mu.Lock()
	defer r.unlock()
	if err := sn.hand(r); err != nil {
		return err
	}
	return sn.copy(r)
}

// hand makes the resources known to r, which is locked.
func (sn *Snapshot) hand(r *Recorder) error {
	if r.version != sn.version {
		return fmt.Errorf("snapshot of a ring of version %d to %s: %w", sn.version, r.stream, &VersionError{Version: r.version})
	}
	if len(r.all) > 0 {
		return fmt.Errorf("snapshot of a ring to %s: it has resources of its own", r.stream)
	}
	if r.closed {
		return ErrClosed
	}
	r.adopted.add(sn.resources, sn.latest)
	r.adopt()
	return nil
}

// copy is Copy to a recorder that is locked.
func (sn *Snapshot) copy(r *Recorder) error {
	c := &ringCopy{sn: sn, r: r, from: math.MinInt64, late: make(map[SpanRef][][]byte), more: make(map[SpanRef][][]byte)}
	if !sn.o.From.IsZero() {
		c.from = sn.o.From.UnixNano()
	}
	c.carriedOver()
	c.merge()
	c.begin()
	c.orphans()
	for c.err == nil && r.waiting.oldest != nil {
		r.writeFirst()
		c.flushLarge()
	}
	c.flush()
	if c.err != nil {
		return c.err
	}
	r.checkpoint()
	return nil
}

// carriedOver notes the beginnings that were carried over, and which spans have
// ended.
func (c *ringCopy) carriedOver() {
	cur := ringCursor{parts: c.sn.carried}
	for cur.advance(c.sn, true); cur.data != nil; cur.advance(c.sn, true) {
		switch {
		case cur.o.kind == opMark:
			c.ended.Put(cur.o.ref.key())
		case c.wanted(&cur.o) && cur.o.kind == opSpan:
			c.wait(&cur)
			c.carried.Put(cur.o.ref.key())
		}
	}
	for key := range c.ended.All() {
		c.pending.Delete(&key)
	}
}

func (c *ringCopy) wait(cur *ringCursor) {
	at, _ := c.pending.Put(cur.o.ref.key())
	*at = ringPlace{cur.part, cur.off}
}

// merge goes through the records in the order of time.
func (c *ringCopy) merge() {
	cursors := make([]ringCursor, len(c.sn.stripes))
	last := -1 // the stripe of the spans, of which there are as many as there were processors
	for i := range cursors {
		if len(c.sn.stripes[i]) > 0 {
			last = i
		}
	}
	if last < 0 {
		return
	}
	spans := len(cursors) - 1
	if c.sn.g == nil {
		spans = c.sn.spans
	}
	for i := range cursors {
		cursors[i].parts, cursors[i].key = c.sn.stripes[i], math.MinInt64
		cursors[i].advance(c.sn, i == spans)
	}
	for c.err == nil {
		next := -1
		for i := range cursors {
			if cursors[i].data == nil || next >= 0 && cursors[i].key > cursors[next].key {
				continue
			}
			if next < 0 || cursors[i].key < cursors[next].key || i == spans { // of one time, spans first
				next = i
			}
		}
		if next < 0 {
			return
		}
		if next != spans {
			c.ahead(&cursors[next], &cursors[spans], spans)
		}
		cur := &cursors[next]
		if c.wanted(&cur.o) {
			c.take(cur)
		}
		cur.advance(c.sn, next == spans)
	}
}

// slack is by how much a log record may seem older than its span.
const slack = int64(10 * time.Millisecond)

// ahead takes spans before their time if the record at leaf refers to one of them.
func (c *ringCopy) ahead(leaf, spans *ringCursor, number int) {
	o := &leaf.o
	if o.flags&flagRef == 0 || !c.begun && o.key < c.from || !c.wanted(o) {
		return
	}
	for spans.data != nil && spans.key <= leaf.key+slack && c.err == nil && c.r.spans.get(&o.ref) == nil {
		if c.wanted(&spans.o) {
			c.take(spans)
		}
		spans.advance(c.sn, number >= 0)
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
	old := o.key < c.from
	// A span that was recorded when it had ended has the time of its beginning, and
	// so has what did not fit into its record.
	began := o.kind == opSpan || o.kind == opEither || o.kind == opMore
	if !old && !c.begun && cur.key >= c.from {
		c.begin()
	}
	switch {
	case o.kind == opSpan && o.flags&flagOpen != 0 && c.ended.Get(o.ref.key()) != nil:
		// Its end was given up: that was before the window.
	case c.begun && (!old || began):
		c.apply(o, cur.data)
	case c.begun:
		if c.r.spans.get(&o.ref) != nil {
			c.apply(o, cur.data) // what began is to end
		}
	case o.kind == opSpan && o.flags&flagOpen != 0:
		c.wait(cur)
	case o.kind == opSpan || o.kind == opEither:
		c.pending.Delete(o.ref.key())
		if o.key+spanDuration(o, c.r.version) >= c.from {
			c.whole = append(c.whole, slices.Clone(cur.data))
			c.more[o.ref] = nil
		}
	case o.kind == opMore:
		if _, is := c.more[o.ref]; is || c.pending.Get(o.ref.key()) != nil {
			c.more[o.ref] = append(c.more[o.ref], slices.Clone(cur.data))
		}
	case o.kind == opEnd && old:
		c.pending.Delete(o.ref.key())
		delete(c.more, o.ref)
	case !old: // of a stripe that is ahead of the others
		c.begin()
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
		if !o.parse(rec) {
			continue
		}
		ref := o.ref
		c.apply(&o, rec)
		for _, more := range c.more[ref] {
			if o.parse(more) {
				c.apply(&o, more)
			}
		}
		delete(c.more, ref)
	}
	clear(c.more)
}

// apply writes a record of the window.
func (c *ringCopy) apply(o *record, data []byte) {
	if c.err != nil {
		return
	}
	switch {
	case o.kind == opSpan && o.flags&flagRef != 0:
		if o.flags&flagOpen != 0 && c.carried.Get(o.ref.key()) != nil && c.r.spans.get(&o.ref) != nil {
			return // a process died while it was carried over
		}
		ref := o.ref
		c.put(o, data)
		for _, late := range c.late[ref] {
			var l record
			if l.parse(late) {
				c.put(&l, late)
			}
		}
		delete(c.late, ref)
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
	switch {
	case entries == 0:
		return
	case o.kind == opEither:
		entries-- // one of them is left out
	case o.kind == opSpan:
		spans = 1
	}
	r.stats.Entries.Offered += entries
	r.stats.Spans.Offered += spans
	_ = r.apply(o, data) // kept and counted
	c.flushLarge()
}

func (c *ringCopy) flushLarge() {
	if len(c.r.out) >= flushSize {
		c.flush()
	}
}

// flush writes the staged entries. If that fails it drops and counts them and goes on,
// as a recording does: a later write may succeed.
func (c *ringCopy) flush() {
	if c.err != nil {
		return
	}
	if err := c.r.flush(); err != nil {
		c.r.unstage(0, err)
		c.err = c.r.dead
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
			c.flushLarge()
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
	providers atomic.Uint64 // Providers
}

// Stream has r, which must be of the ring's version, get what the providers
// record from now on, and before it the beginnings of the spans that are open. A
// call that records to the ring then waits for r as well, see
// [RecorderOptions].MaxBlock. What r refuses it counts. Close the stream before r.
func (g *Ring) Stream(r *Recorder, p Providers) (*RingStream, error) {
	if r.Discards() {
		return nil, fmt.Errorf("stream of a ring to a recorder that discards: %w", ErrClosed)
	}
	st := &RingStream{g: g, r: r}
	st.providers.Store(uint64(p))
	g.r.mu.Lock()
	r.mu.Lock() // what comes from now on is written after what is open
	defer r.unlock()
	sn := g.capture(SnapshotOptions{Providers: p & (1 << ProviderSpans)}, st)
	err := sn.hand(r)
	g.r.mu.Unlock()
	defer sn.Close()
	if err != nil {
		st.Close()
		return nil, err
	}
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

// Narrow has the stream get only what comes from the providers in p, of those it
// was made for. It may be called by a [Tee].
func (st *RingStream) Narrow(p Providers) { st.providers.And(uint64(p)) }

// put hands a record to the stream.
func (st *RingStream) put(b *Batch, o *op) {
	if st.r.direct.Load() {
		_ = st.r.takeDirect(b, []op{*o}) // which counts what it refuses
		return
	}
	_ = st.r.put(b, o)
}
