package ring

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// SnapshotOptions say which records of a ring a [Snapshot] has.
type SnapshotOptions struct {
	// From is the time of the oldest records. Older records are left out, except the starts of spans that
	// were open at that time. Zero means all records.
	From time.Time
	// Providers are the providers whose records the snapshot has.
	Providers record.Providers
	// Trace, if not zero, is the only trace whose spans and log records the snapshot has.
	Trace [16]byte
}

// A Snapshot is the content of a [Ring] at one moment. The content remains in the ring. The Snapshot needs
// memory only for segments that the ring evicts before Copy has read them, and for the segment that Copy is
// reading.
//
// A Snapshot is not safe for concurrent use. It must be closed.
type Snapshot struct {
	Taken time.Time
	// From is the time since which the snapshot is complete: SnapshotOptions.From, or a later time if the
	// ring had evicted later records.
	From time.Time
	// Evicted is the maximum number of missing entries: the ring had evicted them although they are later
	// than SnapshotOptions.From.
	Evicted uint64
	// Orphans is the number of entries of spans whose start the ring had evicted. Copy counts them, and
	// writes them with the ids of their span.
	Orphans uint64

	o        SnapshotOptions
	version  format.Version
	g        *Ring // nil: the snapshot comes from a Dead
	j        *journal.Journal
	table    *record.Table
	retained []*part
	streams  [][]*part // the streams of the shards, by number
	held     map[*journal.Segment]*part
	closed   bool
}

// A part is a segment up to the offset end. The lock of the journal guards it.
type part struct {
	seg  *journal.Segment // nil: the bytes are in data, or lost
	base uint64
	end  int
	data []byte
}

// Snapshot returns a snapshot of the ring as it is now.
func (g *Ring) Snapshot(o SnapshotOptions) *Snapshot { return g.capture(o, nil) }

// capture is like Snapshot. If st is not nil, it also attaches st at the same moment: st gets exactly the
// records that are not in the snapshot.
func (g *Ring) capture(o SnapshotOptions, st *Stream) *Snapshot {
	sn := &Snapshot{o: o, g: g, version: g.o.Version, table: &g.intern.Table, held: make(map[*journal.Segment]*part)}
	g.files.Lock()
	defer g.files.Unlock()
	sn.j = g.live.Load()
	attach := func(epoch uint32) {
		sn.Taken = time.Now()
		if st != nil {
			st.epoch = epoch
			g.attach(st)
		}
	}
	if sn.j == nil || g.isClosed() {
		attach(0)
		sn.From = sn.Taken
		return sn
	}
	sn.j.Hold(attach, func(held []journal.Held) {
		for _, h := range held {
			sn.addSegment(h.Segment, h.End)
		}
		if seg := g.state.retained.Segment(); seg != nil {
			sn.addSegment(seg, seg.End())
		}
		sn.From = g.from()
		if o.From.After(sn.From) {
			sn.From = o.From
		} else if !o.From.IsZero() {
			sn.Evicted = g.state.evicted.since(o.From.UnixNano())
		} else {
			sn.Evicted = g.state.evicted.total.Load()
		}
		g.state.snapshots = append(g.state.snapshots, sn)
	})
	return sn
}

// addSegment adds a segment up to the offset end to the snapshot. The caller has locked the journal.
func (sn *Snapshot) addSegment(s *journal.Segment, end int) {
	p := &part{seg: s, base: s.Base(), end: end}
	sn.held[s] = p
	if s.Stream() == journal.StreamRetained {
		sn.retained = append(sn.retained, p)
		return
	}
	for uint32(len(sn.streams)) <= s.Stream() {
		sn.streams = append(sn.streams, nil)
	}
	sn.streams[s.Stream()] = append(sn.streams[s.Stream()], p)
}

// save copies the segment s, which the ring is about to evict. The caller has locked the journal.
func (sn *Snapshot) save(s *journal.Segment) {
	p := sn.held[s]
	if p == nil {
		return
	}
	delete(sn.held, s)
	p.data, _ = s.Copy(nil, p.end) // on an error, data is nil
	p.seg = nil
}

// dropSegments drops all segments, because their memory is about to be freed. The caller has locked the journal.
func (sn *Snapshot) dropSegments() {
	for _, p := range sn.held {
		p.seg = nil
	}
	clear(sn.held)
}

// Close ends the snapshot, which then does not refer to segments of the ring any more.
func (sn *Snapshot) Close() {
	if sn.closed {
		return
	}
	sn.closed = true
	if sn.j == nil {
		return
	}
	sn.g.files.Lock()
	defer sn.g.files.Unlock()
	sn.j.Lock()
	defer sn.j.Unlock()
	sn.dropSegments()
	st := &sn.g.state
	if sn.g.live.Load() == sn.j { // another journal has another list
		st.snapshots = slices.DeleteFunc(st.snapshots, func(s *Snapshot) bool { return s == sn })
	}
}

// read returns the bytes of p, perhaps in buf. It can be called once for each part.
func (sn *Snapshot) read(p *part, buf []byte) (data []byte, err error) {
	if sn.j == nil {
		return p.data, nil
	}
	sn.j.Lock()
	defer sn.j.Unlock()
	if p.seg == nil {
		data = p.data
		if data == nil {
			return nil, journal.ErrDamaged
		}
		p.data = nil
		return data, nil
	}
	buf, err = p.seg.Copy(buf[:0], p.end)
	if err == nil {
		delete(sn.held, p.seg)
		p.seg = nil
	}
	return buf, err
}

// parts returns the parts in list for a Merge or a Cursor.
func (sn *Snapshot) parts(list []*part) (parts []journal.Part) {
	for _, p := range list {
		parts = append(parts, journal.Part{Base: p.base, End: p.end, Read: func(buf []byte, _, _ int) ([]byte, error) {
			return sn.read(p, buf)
		}})
	}
	return parts
}

// A copying is the state of Snapshot.Copy, which writes a [Snapshot] to a recorder. The window is the time
// from SnapshotOptions.From on.
type copying struct {
	sn       *Snapshot
	to       placer.Importer
	from     int64
	begun    bool                           // the spans that were open at the start of the window are written
	pending  spanmap.Map[startedSpan]       // open spans so far; at the start of the window they are written
	retained spanmap.Map[struct{}]          // spans in pending whose start was retained
	ended    spanmap.Map[struct{}]          // spans whose end was evicted
	late     map[record.Ref][]journal.Entry // ends of spans that are not written yet, by span
	whole    []journal.Entry                // older spans that were recorded as a whole and ended in the window
	order    int
	rec      record.Record
}

// A startedSpan is the start of a span. The field order is the position of the start in the order of all starts.
type startedSpan struct {
	entry journal.Entry
	order int
}

// cloneRecord returns a copy of a record.
func cloneRecord(e *journal.Entry) journal.Entry {
	c := *e
	c.Data, c.Segment = slices.Clone(e.Data), nil
	return c
}

// Create calls recorder.Create and returns a recorder for the snapshot.
func (sn *Snapshot) Create(name string, o *recorder.Options) (*recorder.Recorder, error) {
	if sn.g != nil {
		return sn.g.Create(name, o)
	}
	return createWith(name, o, sn.version, record.NewInterner(sn.table, o.Redact), true)
}

func createWith(name string, o *recorder.Options, v format.Version, in *record.Interner, died bool) (*recorder.Recorder, error) {
	opt := *o
	opt.Version = v
	r, err := inside.Create(name, &opt, in, died)
	return r.(*recorder.Recorder), err
}

// Copy appends the snapshot to r, which [Snapshot.Create] or [Ring.Create] has returned. It may be called
// only once.
func (sn *Snapshot) Copy(r *recorder.Recorder) error {
	return inside.Of(r).WithFile(func(to placer.Importer) error {
		from := int64(math.MinInt64)
		if !sn.o.From.IsZero() {
			from = sn.o.From.UnixNano()
		}
		sn.copySpans(to, from).orphans()
		for to.StagePending() {
			to.Flush(false)
		}
		to.Flush(true)
		return to.Err()
	})
}

// copySpans copies all records except the ends of spans whose start is missing.
func (sn *Snapshot) copySpans(to placer.Importer, from int64) *copying {
	c := &copying{sn: sn, to: to, from: from, late: make(map[record.Ref][]journal.Entry)}
	c.readRetained()
	c.merge()
	c.begin()
	return c
}

// IsOpen reports whether the file of r has the start of a span but not its end.
func IsOpen(r *recorder.Recorder, span format.SpanRef) (open bool, err error) {
	err = inside.Of(r).WithFile(func(to placer.Importer) error {
		open = slices.ContainsFunc(to.OpenSpans(), func(s placer.OpenSpan) bool {
			return [16]byte(s.Ref.TraceID()) == span.TraceID && [8]byte(s.Ref.SpanID()) == span.SpanID
		})
		return nil
	})
	return open, err
}

// readRetained reads the retained records: starts of spans, and marks of evicted ends.
func (c *copying) readRetained() {
	cur := journal.NewCursor(journal.StreamRetained, c.sn.parts(c.sn.retained))
	for e := cur.Next(); e != nil; e = cur.Next() {
		if !c.rec.Parse(e) {
			continue
		}
		key := (*spanmap.Key)(&c.rec.Ref)
		switch {
		case c.rec.Kind == record.KindMark:
			c.ended.Put(key)
		case c.wanted(&c.rec) && c.rec.Kind == record.KindSpan:
			c.wait(e)
			c.retained.Put(key)
		}
	}
	for key := range c.ended.All() {
		c.pending.Delete(&key)
	}
}

func (c *copying) wait(e *journal.Entry) {
	at, _ := c.pending.Put((*spanmap.Key)(&c.rec.Ref))
	*at = startedSpan{cloneRecord(e), c.order}
	c.order++
}

// merge handles the records in chronological order.
func (c *copying) merge() {
	streams := make([][]journal.Part, len(c.sn.streams))
	for i := range streams {
		streams[i] = c.sn.parts(c.sn.streams[i])
	}
	if len(streams) == 0 {
		return
	}
	m := journal.NewMerge(streams)
	m.Slack = slack
	var rec record.Record
	m.Needs = func(e *journal.Entry) bool {
		return rec.Parse(e) && (c.begun || rec.Time >= c.from) && c.wanted(&rec) && c.to.Needs(e)
	}
	for e := m.Next(); e != nil && c.to.Err() == nil; e = m.Next() {
		if c.rec.Parse(e) && c.wanted(&c.rec) {
			c.take(e)
		}
	}
}

// slack is how much earlier than the start of its span a log record may be.
const slack = int64(10 * time.Millisecond)

// wanted reports whether the options of the snapshot select a record.
func (c *copying) wanted(r *record.Record) bool {
	o := &c.sn.o
	if !o.Providers.Has(record.Provider(r.Provider)) {
		return false
	}
	return o.Trace == [16]byte{} || r.Provider > uint8(record.ProviderLogs) || [16]byte(r.Ref.TraceID()) == o.Trace
}

func (c *copying) take(e *journal.Entry) {
	r := &c.rec
	key := (*spanmap.Key)(&r.Ref)
	old := r.Time < c.from
	// The time of a span that was recorded as a whole is the time of its start.
	began := r.Kind == record.KindSpan || r.Kind == record.KindEither
	opens := r.Kind == record.KindSpan && r.Flags&record.FlagOpen != 0
	if !old && !c.begun {
		c.begin()
		c.rec.Parse(e)
	}
	switch {
	case opens && c.ended.Get(key) != nil:
		// The end was evicted, so the span ended before the window.
	case c.begun && (!old || began):
		c.apply(e)
	case c.begun:
		if c.to.Knows(&r.Ref) {
			c.apply(e) // the start is written, so the end must follow
		}
	case opens:
		c.wait(e)
	case began:
		c.pending.Delete(key)
		if r.Time+c.duration(r) >= c.from {
			c.whole = append(c.whole, cloneRecord(e))
		}
	case r.Kind == record.KindEnd:
		c.pending.Delete(key)
	}
}

// begin writes the spans that are open at the start of the window.
func (c *copying) begin() {
	if c.begun {
		return
	}
	c.begun = true
	var open []startedSpan
	for _, s := range c.pending.All() {
		open = append(open, s)
	}
	c.pending.Clear()
	slices.SortFunc(open, func(a, b startedSpan) int { return cmp.Compare(a.order, b.order) })
	list := c.whole
	c.whole = nil
	for _, s := range open {
		list = append(list, s.entry)
	}
	slices.SortStableFunc(list, func(a, b journal.Entry) int { return cmp.Compare(a.Time, b.Time) })
	for i := range list {
		if c.rec.Parse(&list[i]) {
			c.apply(&list[i])
		}
	}
}

// apply writes a record of the window, which c.rec has parsed.
func (c *copying) apply(e *journal.Entry) {
	r := &c.rec
	if c.to.Err() != nil || r.Kind == record.KindMark {
		return
	}
	switch {
	case r.Kind == record.KindSpan && r.Flags&record.FlagRef != 0:
		if r.Flags&record.FlagOpen != 0 && c.retained.Get((*spanmap.Key)(&r.Ref)) != nil && c.to.Knows(&r.Ref) {
			return // written already: the process died just after it had retained the start
		}
		ref := r.Ref
		c.write(e)
		for i := range c.late[ref] {
			c.write(&c.late[ref][i])
		}
		delete(c.late, ref)
	case r.Kind == record.KindEnd && !c.to.Knows(&r.Ref):
		c.late[r.Ref] = append(c.late[r.Ref], cloneRecord(e))
	default:
		c.write(e)
	}
}

// write writes a record, unless the record makes no entry.
func (c *copying) write(e *journal.Entry) {
	if e.Info.Entries() > 0 {
		c.to.Place(e)
		c.to.Flush(false)
	}
}

// orphans writes the ends of spans whose start is missing.
func (c *copying) orphans() {
	refs := slices.SortedFunc(maps.Keys(c.late), func(a, b record.Ref) int {
		return cmp.Or(cmp.Compare(c.late[a][0].Time, c.late[b][0].Time), slices.Compare(a[:], b[:]))
	})
	keeps := c.to.KeepOrphans(true)
	for _, ref := range refs {
		for i := range c.late[ref] {
			e := &c.late[ref][i]
			c.sn.Orphans += uint64(e.Info.Entries())
			c.write(e)
		}
	}
	c.to.KeepOrphans(keeps)
}

// duration returns the duration of a span that was recorded as a whole, in nanoseconds, or 0 if the record
// has none.
func (c *copying) duration(r *record.Record) int64 {
	cur := r.Cursor()
	var h record.Head
	var i record.Item
	if !cur.Next(&h) {
		return 0
	}
	for {
		switch cur.Item(&i) {
		case record.CodeEnd:
			return 0
		case record.CodeAttribute:
			name := i.Name.Text
			if d := c.sn.table.Get(i.Name.Number); i.Name.Number != 0 && d != nil {
				name = d.Text
			}
			if name == format.AttrDuration {
				return int64(i.Lo)
			}
		}
	}
}

// A Stream forwards the new records of a [Ring] to a recorder.
type Stream struct {
	g         *Ring
	rec       inside.Recorder
	epoch     uint32
	providers atomic.Uint64 // record.Providers
}

// Stream sends to r the starts of the open spans, and from then on all new records of the providers in p. r
// must come from [Ring.Create]. A call that records to the ring then also waits for r, see
// [recorder.Options].MaxBlock. The recorder r counts the records that it refuses. Close the stream before
// r.
func (g *Ring) Stream(r *recorder.Recorder, p record.Providers) (*Stream, error) {
	if r.Discards() {
		return nil, recorder.ErrClosed
	}
	st := &Stream{g: g, rec: inside.Of(r)}
	st.providers.Store(uint64(p))
	var sn *Snapshot
	err := st.rec.WithFile(func(to placer.Importer) error {
		// From here on, new records go to the journal of r, which is written after the open spans.
		sn = g.capture(SnapshotOptions{Providers: p & (1 << record.ProviderSpans)}, st)
		if record.Providers(g.buffered.Load()).Has(record.ProviderSpans) {
			sn.o.From = time.Unix(0, math.MaxInt64) // only open spans
			sn.copySpans(to, math.MaxInt64)
			to.Flush(true)
		}
		return to.Err()
	})
	if sn != nil {
		sn.Close()
	}
	if err != nil {
		st.Close()
		return nil, err
	}
	return st, nil
}

// attach adds a stream, unless the ring is closed.
func (g *Ring) attach(st *Stream) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	var all []*Stream
	if s := g.streams.Load(); s != nil {
		all = slices.Clone(*s)
	}
	all = append(all, st)
	g.streams.Store(&all)
	g.updateProviders()
}

// Close ends the stream. It is idempotent.
func (st *Stream) Close() {
	g := st.g
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.streams.Load()
	if s == nil {
		return
	}
	all := slices.DeleteFunc(slices.Clone(*s), func(other *Stream) bool { return other == st })
	if len(all) == 0 {
		g.streams.Store(nil)
	} else {
		g.streams.Store(&all)
	}
	g.updateProviders()
}

// SetProviders removes all providers from the stream that are not in p. It adds none. A method of a
// [recorder.Tee] may call it.
func (st *Stream) SetProviders(p record.Providers) { st.providers.And(uint64(p)) }
