package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
	"github.com/entrace-go/entrace/internal/spanmap"
)

// A Ring keeps the latest of what its [Recorder] takes, in memory that is used
// over and over, and hands on what comes to streams. It writes no trace by itself:
// a [Snapshot] has what is in it at a moment, while it runs on.
//
// The memory is in segments of 64 KiB, the oldest of which is given up as a whole
// for a new one. The beginnings of spans that are open are carried over, so that
// they are there however long ago that was.
//
// A Ring is safe for concurrent use.
type Ring struct {
	r    *Recorder
	o    RingOptions
	keep atomic.Uint64 // Providers
	// notice is the least level of log records that OnLog is told of.
	notice  atomic.Uint32
	streams atomic.Pointer[[]*RingStream]
	open    ringSpans
	// spanSegment is the number of the segment that the beginnings of spans go to, from
	// 1 on. It takes 256 TiB to come round.
	spanSegment atomic.Uint32
	began       time.Time

	// mu is taken with a stripe locked, or Recorder.mu, never the other way round.
	mu sync.Mutex

	most      int                // segments of records, but for one that carries
	used      int                // of these
	full      []*segment.Segment // those that are full, oldest first
	carry     *segment.Segment   // the beginnings of spans that are open
	carryBase uint64
	carried   int // segments in full that are such
	snapshots []*Snapshot
	listen    Providers // that are taken, and need not be kept
	evictions evictions
	firstSpan uint32 // of the segments of spans this is the oldest that is left, see spanSegment
	failed    bool   // a fault was told
	closed    bool
	buf       []byte
	ledger    ledger // of the resources, in a file
	old       *segment.File
	leaving   sync.WaitGroup // what leaves the file for the heap
}

// carryStream is the number of the stream of what is carried over.
const carryStream = ledgerStream + 1

// RingOptions change how a [Ring] works. The zero value means defaults.
type RingOptions struct {
	// Version is the disk version of the snapshots and streams. The default is
	// [DefaultVersion].
	Version Version
	// Bytes is the size. The default is 64 MiB, the least 4 MiB. Below zero there
	// is no ring, and what comes goes to streams alone.
	Bytes int64
	// Path is a file for the ring, which outlives the process if that does not
	// close the ring, see [OpenRing]. It must not exist. If empty the ring is on the
	// heap.
	Path string
	// Note is kept in that file, for whoever finds it: up to [MaxNote] bytes.
	Note []byte
	// MaxEntrySize is the size above which an entry is cut and marked with
	// [AttrTruncated]. The default, and the most, is 60 KiB, the least 2 KiB.
	MaxEntrySize int
	// Taken, if set, always has what the recorder takes, see [Recorder.Takes]: for
	// whoever wants to know that without going through the recorder.
	Taken *atomic.Uint64
	// OnError, if set, is called once when the ring's file has become useless, and
	// the ring went on on the heap. No lock is held then.
	OnError func(error)
	// OnLog, if set, is called with log records of a level that was asked for by
	// Notice, when they are in the ring. No lock is held; it must return at once
	// and must not record.
	OnLog func(*Seen)
}

// A Seen is what a [Ring] tells of a log record.
type Seen struct {
	Level   Level
	Message string
	Span    SpanRef // zero: none
}

const (
	defaultRingBytes = 64 << 20
	minRingBytes     = 4 << 20
	maxRingEntry     = 60 << 10

	// MaxNote is how many bytes of a note a ring's file keeps.
	MaxNote = segment.MaxCheckpoint - noteHead

	// ledgerSegments are for resources.
	ledgerSegments = 64
)

// NewRing returns a ring that keeps nothing yet: see [Ring.Keep]. A nil o means
// defaults.
func NewRing(o *RingOptions) (*Ring, error) {
	if o == nil {
		o = &RingOptions{}
	}
	g := &Ring{o: *o, began: time.Now(), open: ringSpans{spanmap.NewSharded[uint32](maxRingOpen)}}
	if g.o.Bytes == 0 {
		g.o.Bytes = defaultRingBytes
	}
	ro := RecorderOptions{Version: o.Version, MaxEntrySize: o.MaxEntrySize}
	if err := ro.check(); err != nil {
		return nil, err
	}
	if ro.MaxEntrySize <= 0 || ro.MaxEntrySize > maxRingEntry {
		ro.MaxEntrySize = maxRingEntry
	}
	if len(o.Note) > MaxNote {
		return nil, fmt.Errorf("a note of %d bytes: there is room for %d", len(o.Note), MaxNote)
	}
	g.notice.Store(uint32(numLevels))
	r := newRecorder(nil, &ro)
	r.w, r.slot, r.refs, r.ring, g.r = noFile{}, &slot{recorder: r}, 1, g, r
	n := numStripes()
	r.stripes = make([]stripe, n+1)
	for i := range r.stripes {
		r.stripes[i].number = uint64(i)
	}
	if g.o.Bytes > 0 {
		g.most = int(max(g.o.Bytes, minRingBytes) / segment.Size)
		if err := g.begin(); err != nil {
			return nil, err
		}
	}
	r.direct.Store(false)
	return g, nil
}

// begin makes the pool of segments.
func (g *Ring) begin() error {
	n := g.most + 1 + ledgerSegments
	if g.o.Path == "" {
		g.r.pool = segment.New(n)
		return nil
	}
	if !segment.Supported {
		return fmt.Errorf("a ring in a file: %w", errors.ErrUnsupported)
	}
	var err error
	if g.r.pool, err = segment.Create(g.o.Path, n); err != nil {
		return err
	}
	g.ledger.file = g.r.pool
	if err := g.SetNote(g.o.Note); err != nil {
		return errors.Join(err, g.r.pool.Remove())
	}
	return nil
}

// Recorder returns what records to the ring. It takes what the ring or one of its
// streams wants, see [Recorder.Takes]; what it does beyond that depends on no file.
// Closing it closes the ring.
func (g *Ring) Recorder() *Recorder { return g.r }

// noteHead is what comes before the note in the checkpoint:
//
//	kind     [4]byte // "RING"
//	version  uint8   // in which the records are encoded
//	reserved uint8
//	size     uint16  // of the note
//	began    int64   // in nanoseconds since 1970
const noteHead = 16

var noteKind = [4]byte{'R', 'I', 'N', 'G'}

// SetNote changes the note in the ring's file.
func (g *Ring) SetNote(note []byte) error {
	if len(note) > MaxNote {
		return fmt.Errorf("a note of %d bytes: there is room for %d", len(note), MaxNote)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ledger.file == nil || g.closed {
		return nil
	}
	b := append(make([]byte, 0, noteHead+len(note)), noteKind[:]...)
	b = append(b, byte(g.r.version), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(note)))
	b = binary.LittleEndian.AppendUint64(b, uint64(g.began.UnixNano()))
	return g.r.pool.Checkpoint(append(b, note...))
}

// Keep says what the ring keeps from now on.
func (g *Ring) Keep(p Providers) {
	if g.most == 0 {
		p = 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keep.Store(uint64(p))
	g.turnOn()
}

// Listen says what the recorder takes besides, although nobody keeps it: for OnLog,
// or for what a span processor tells of spans.
func (g *Ring) Listen(p Providers) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listen = p
	g.turnOn()
}

// turnOn makes the recorder take what is wanted. The lock is held.
func (g *Ring) turnOn() {
	on := g.keep.Load() | uint64(g.listen)
	if s := g.streams.Load(); s != nil {
		for _, st := range *s {
			on |= st.providers.Load()
		}
	}
	if g.closed {
		on = 0
	}
	g.r.on.Store(on)
	if g.o.Taken != nil {
		g.o.Taken.Store(on)
	}
}

// Notice says of which log records OnLog is told: those of level least and above;
// with a level that there is not, such as LevelError+1, of none.
func (g *Ring) Notice(least Level) { g.notice.Store(uint32(min(least, numLevels))) }

// alone reports whether log records can be encoded where they stay. There may be
// no ring.
func (g *Ring) alone() bool {
	return g == nil || g.streams.Load() == nil && Providers(g.keep.Load()).Has(ProviderLogs)
}

// take records what is in b.
func (g *Ring) take(b *Batch) error {
	var errs joined
	for i := range b.ops {
		o := &b.ops[i]
		streams, err := g.takeOne(b, o)
		if streams != nil && o.bad == 0 {
			for _, s := range *streams {
				if Providers(s.providers.Load()).Has(o.provider) {
					s.put(b, o)
				}
			}
		}
		errs.add(err)
		if o.provider == ProviderLogs && !o.quiet && uint32(LevelError) >= g.notice.Load() && err == nil {
			g.look(b, o)
		}
	}
	return errs.err()
}

// takeOne puts a record of b into the ring, if that wants it, and returns the
// streams that there were at that moment.
func (g *Ring) takeOne(b *Batch, o *op) (*[]*RingStream, error) {
	if g.most == 0 || o.bad != 0 {
		err := b.errOf(o)
		if err != nil {
			g.count(b, o, err)
		}
		return g.streams.Load(), err
	}
	opens := o.kind == opSpan && o.flags&(flagOpen|flagRef) == flagOpen|flagRef
	begins := g.spanSegment.Load()
	closes := (o.kind == opEnd || o.kind == opEither) && o.flags&flagRef != 0
	keeps := Providers(g.keep.Load()).Has(o.provider)
	if opens && keeps {
		g.open.put(o.ref(b.buf), begins) // first, so that it is carried over from the beginning
	}
	if closes && !keeps {
		_, keeps = g.open.get(o.ref(b.buf)) // what began in the ring ends there, whatever is kept now
	}
	if !keeps {
		return g.streams.Load(), nil
	}
	var err error
	p := b
	if o.end-o.start > segment.MaxRecord {
		p, err = g.putParts(b, o)
		defer p.release()
	} else if err = g.r.tryPut(b, o); err != nil && errors.Is(err, errNoRoom) {
		err = ErrOverflow
		g.count(b, o, err)
	}
	switch {
	case closes || opens && err != nil:
		g.open.delete(o.ref(b.buf))
	case opens:
		if now := g.spanSegment.Load(); now != begins { // it may be there, and cannot end before this returns
			g.open.later(o.ref(b.buf), now)
		}
	}
	streams := p.streams
	p.streams = nil
	if err != nil {
		streams = g.streams.Load()
	}
	return streams, err
}

// beganOf returns where the beginning of a span that ends is, as its record has it in
// the place of a resource: a segment, see Ring.spanSegment, which it is in or before;
// 0 if it is not in the ring. There may be no ring.
func (g *Ring) beganOf(ref *SpanRef) uint32 {
	if g == nil || g.most == 0 {
		return 0
	}
	began, _ := g.open.get(*ref)
	return began
}

// beganCarried is for spans whose beginning was carried over.
const beganCarried = math.MaxUint32

// count counts a record that was not taken.
func (g *Ring) count(b *Batch, o *op, err error) {
	s := g.r.lockStripe(b, o)
	s.drop(o, err)
	s.mu.Unlock()
}

// putParts puts a record that is larger than a segment: a span with many events,
// each of which fits. It returns the parts, whose streams are those that there were
// then.
func (g *Ring) putParts(b *Batch, o *op) (*Batch, error) {
	p := g.r.Batch()
	var rec record
	if !rec.parse(b.buf[o.start+8 : o.end]) {
		g.count(b, o, ErrTooLarge)
		return p, ErrTooLarge
	}
	last := countBodies(rec.bodies) - 1
	known := false
	if o.kind == opEither {
		_, known = g.open.get(rec.ref)
	}
	bodies := rec.bodies
	for i := 0; ; i++ {
		body, head, rest, ok := nextBody(bodies)
		if !ok {
			break
		}
		bodies = rest
		if o.kind == opEither && (known && i == 0 || !known && i == last) {
			continue // the span as a whole, or its end
		}
		if p.entries > 0 && len(p.buf)-p.record+bodyHead+len(body)+2*refSize+16 > segment.MaxRecord {
			g.sealPart(p, o, &rec, false, known)
		}
		p.room()
		p.buf = append(p.buf, body...)
		p.attrs, p.open = p.body+head, false
		p.fits()
	}
	g.sealPart(p, o, &rec, true, known)
	var errs joined
	var streams *[]*RingStream // of the first part: whoever comes later has none of it
	for i := range p.ops {
		part := &p.ops[i]
		err := p.errOf(part)
		if err == nil {
			err = g.r.tryPut(p, part)
		}
		if errors.Is(err, errNoRoom) {
			err = ErrOverflow
			g.count(p, part, err)
		} else if part.bad != 0 {
			g.count(p, part, err)
		}
		if i == 0 {
			streams = p.streams
		}
		errs.add(err)
	}
	p.streams = streams
	return p, errs.err()
}

// sealPart makes a record of the entries in p, which are part of o.
func (g *Ring) sealPart(p *Batch, o *op, rec *record, last, known bool) {
	first := len(p.ops) == 0
	p.provider = o.provider
	kind, flags := byte(opMore), byte(flagRef)
	switch {
	case o.kind == opLog:
		kind, flags = opLog, o.flags
	case first && (o.kind == opSpan || o.kind == opEither && !known):
		kind, flags = opSpan, o.flags
	case last && (o.kind == opEnd || o.kind == opEither && known):
		kind = opEnd
	}
	if flags&flagRef != 0 {
		p.ref(&rec.ref)
	}
	if flags&flagParent != 0 {
		p.ref(&rec.parent)
	}
	p.seal(kind, flags, rec.resource, rec.key) // of an end, with its beginning
}

// look tells OnLog of a log record.
func (g *Ring) look(b *Batch, o *op) {
	var rec record
	if !rec.parse(b.buf[o.start+8 : o.end]) {
		return
	}
	if body, _, _, ok := nextBody(rec.bodies); ok {
		if seen := g.see(body, &rec.ref); seen != nil {
			g.tell(seen)
		}
	}
}

// see returns what is to be told of the log record with that body, nil if nothing
// is.
func (g *Ring) see(body []byte, ref *SpanRef) *Seen {
	least := g.notice.Load()
	if least > uint32(LevelError) || len(body) == 0 {
		return nil
	}
	var message []byte
	at := 1
	if body[0] == 1 {
		message, at = text(body, at)
	}
	if _, at = text(body, at); at < 0 {
		return nil
	}
	if _, at = text(body, at); at < 0 || at >= len(body) || uint32(body[at]) < least {
		return nil
	}
	return &Seen{Level: Level(body[at]), Message: string(message), Span: *ref}
}

// text returns the text at b[at:] and where it ends, -1 if it does not.
func text(b []byte, at int) ([]byte, int) {
	if at < 0 || at >= len(b) {
		return nil, -1
	}
	n, size := uint64(b[at]), 1
	switch b[at] {
	case tag16:
		if size = 3; at+size <= len(b) {
			n = uint64(binary.LittleEndian.Uint16(b[at+1:]))
		}
	case tag16 + 1:
		if size = 5; at+size <= len(b) {
			n = uint64(binary.LittleEndian.Uint32(b[at+1:]))
		}
	default:
		if b[at] > tag16 {
			return nil, -1
		}
	}
	if at += size; at > len(b) || n > uint64(len(b)-at) {
		return nil, -1
	}
	return b[at : at+int(n)], at + int(n)
}

func (g *Ring) tell(s *Seen) {
	if g.o.OnLog == nil {
		return
	}
	defer func() { _ = recover() }() // it must not take the application along
	g.o.OnLog(s)
}

// append is Recorder.Append.
func (g *Ring) append(e *TraceEntry) error {
	if e.Parent != 0 {
		return ErrBadParent
	}
	b := g.r.Batch()
	b.Entry(e)
	b.Log(SpanRef{}, entryTime(e))
	return b.Write()
}

// resource notes a new resource, for the streams and whoever finds the file.
// Recorder.mu is held.
func (g *Ring) resource(res *Resource) {
	g.mu.Lock()
	if !g.closed && g.ledger.file != nil && len(g.ledger.segs) < ledgerSegments {
		g.ledger.resource(res)
	}
	g.mu.Unlock()
	g.latest(res)
}

// latest tells the streams which resource is the latest. Recorder.mu is held. No
// stream's lock is taken, which may be held while its disk stands still.
func (g *Ring) latest(res *Resource) {
	if s := g.streams.Load(); s != nil {
		for _, st := range *s {
			st.r.adopted.add([]*Resource{res}, res)
		}
	}
}

// adoptions are resources of a ring that its stream has not looked at yet.
type adoptions struct {
	any atomic.Bool
	mu  sync.Mutex

	list   []*Resource
	latest *Resource
}

func (a *adoptions) add(list []*Resource, latest *Resource) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list = append(a.list, list...)
	if latest != nil {
		a.latest = latest
	}
	a.any.Store(true)
}

// adopt makes resources of a ring known under their numbers. The lock is held.
func (r *Recorder) adopt() {
	a := &r.adopted
	if !a.any.Load() {
		return
	}
	a.mu.Lock()
	list, latest := a.list, a.latest
	a.list, a.latest = nil, nil
	a.any.Store(false)
	a.mu.Unlock()
	for _, res := range list {
		if int(res.index) != len(r.all)+1 {
			continue // it is known, or somebody has made the ring's file
		}
		own := &Resource{owner: r, index: res.index, body: res.body, head: res.head}
		r.all = append(r.all, own)
		r.known[string(own.body)] = own
		r.ledger.resource(own)
	}
	if latest != nil && int(latest.index) <= len(r.all) {
		r.latest = r.all[latest.index-1]
		if n := len(list); n == 0 || list[n-1] != latest {
			r.ledger.resource(r.latest)
		}
	}
}

// AppendHead writes e below the root and returns its id. Entries of providers
// other than spans and log records that belong to no span hang below it from then
// on.
func (r *Recorder) AppendHead(e *TraceEntry) (uint32, error) {
	id, err := r.Append(e)
	if err == nil && !r.Discards() {
		r.mu.Lock()
		r.home = id
		r.checkpoint()
		r.mu.Unlock()
	}
	return id, err
}

func (g *Ring) sync() error {
	g.mu.Lock()
	pool := g.r.pool
	g.mu.Unlock()
	if pool == nil {
		return nil
	}
	return closedErr(pool.Sync())
}

// RingStats says how a [Ring] does.
type RingStats struct {
	Bytes   int64     // that are in use
	Entries uint64    // that are in it
	Evicted uint64    // entries that were given up for newer ones
	From    time.Time // everything since then is there
	Open    int       // spans that have begun and not ended
}

// Stats returns how the ring does.
func (g *Ring) Stats() RingStats {
	s := RingStats{Open: g.open.Len()}
	entries := g.r.Stats().Entries.Written
	g.mu.Lock()
	defer g.mu.Unlock()
	s.Bytes = int64(g.used) * segment.Size
	s.Evicted = g.evictions.total
	s.Entries = entries - min(entries, s.Evicted)
	s.From = g.from()
	return s
}

// from returns since when everything is there. The lock is held.
func (g *Ring) from() time.Time {
	if g.evictions.last > g.began.UnixNano() {
		return time.Unix(0, g.evictions.last+1)
	}
	return g.began
}

// Close ends the ring, and removes its file: there is nothing to recover. Streams
// and snapshots are to be closed before. It is idempotent.
func (g *Ring) Close() error {
	for i := range g.r.stripes {
		st := &g.r.stripes[i]
		st.mu.Lock()
		st.closed = true
		st.leave()
		st.mu.Unlock()
	}
	g.r.mu.Lock()
	g.r.closed = true
	g.r.mu.Unlock()
	g.leaving.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	g.turnOn()
	for _, sn := range g.snapshots {
		sn.leave()
	}
	g.snapshots, g.full, g.carry, g.ledger = nil, nil, nil, ledger{}
	var err error
	for _, pool := range []*segment.File{g.r.pool, g.old} {
		if pool != nil {
			err = errors.Join(err, pool.Remove())
		}
	}
	g.r.pool, g.old = nil, nil
	return err
}
