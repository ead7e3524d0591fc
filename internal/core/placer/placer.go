package placer

import (
	"cmp"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

var (
	// ErrNotOpen says that the end of a span was dropped because the span has no entry.
	ErrNotOpen = errors.New("the file has no entry for the span that ended")
	// ErrFull says that an entry was dropped because the trace has 2^32 entries.
	ErrFull = errors.New("the trace is full: 2^32 entries")
	// ErrBadRecord says that a record was dropped because it is damaged.
	ErrBadRecord = errors.New("a record of the journal is damaged")
)

// Options describe a Placer. The caller must set all bounds.
type Options struct {
	Columns      bool // encode entries in version 2 of the format
	MaxEntrySize int  // the size in bytes above which an entry is cut

	MaxPendingSpans int
	MaxPendingBytes int
	MaxPendingAge   time.Duration

	// Park, if set, copies the record of a pending span to a segment that survives the process, and returns this
	// segment. If there is no room, Park returns false, and the span does not become pending. Unpark is called when
	// the copy is no longer needed.
	Park   func(*journal.Entry) (*journal.Segment, bool)
	Unpark func(*journal.Segment)
	// ParkLeft and UnparkLeft are like Park and Unpark, for an open span whose entry is only in an earlier file. If
	// ParkLeft returns nil, the record has no copy and does not survive the process.
	ParkLeft   func(*journal.Entry) *journal.Segment
	UnparkLeft func(*journal.Segment)
}

// A Staged is an entry that has an id and is encoded, but is not in the file yet.
type Staged struct {
	End        int // the offset in the bytes of Out at which the entry ends
	ID, Parent uint32
	Ref        record.Ref // set for a span
	IsSpan     bool
	IsResource bool
	// CountsSpan says that the record of the entry counts as a span. It is false for a span that began in an
	// earlier file. It is true for the end of an open span if the end was made from a record of the whole span.
	CountsSpan bool
}

// Counts holds a number of entries and a number of spans.
type Counts struct{ Entries, Spans uint64 }

// A Placer turns records into entries. It is not safe for concurrent use.
type Placer struct {
	// Drop, if set, is called with the number of entries and spans that cannot be placed, and with the reason:
	// ErrTooLarge, ErrNotOpen, ErrFull or ErrBadRecord.
	Drop func(err error, entries, spans int)

	o         Options
	enc       encoder
	staged    []Staged
	next      uint64 // the id of the next entry
	size      int64  // size of the file without the staged entries
	spans     spanTable
	pending   pendingRecords
	ready     []int32                 // indexes of pending records that can be staged
	entry     journal.Entry           // buffer for a record that was pending or becomes pending
	numbered  []byte                  // buffer for the data of entry
	left      map[record.Ref]leftSpan // open spans whose entries are only in earlier files
	leftBytes int
	resources map[uint16]uint32 // ids of the entries of resources, by number
	anchor    uint32

	keepOrphans bool
	rec         record.Record
	extra       Counts // see Extra
}

// New returns a Placer for a trace without entries. The table t has the definitions to which the records refer.
func New(t *record.Table, o *Options) *Placer {
	p := &Placer{o: *o, resources: make(map[uint16]uint32)}
	p.enc = encoder{definitionCache: newDefinitionCache(t), maxSize: o.MaxEntrySize}
	p.enc.Columns = o.Columns
	return p
}

// Resume makes p continue a file that has size bytes and the given number of entries. The argument anchor is as in
// SetAnchor.
func (p *Placer) Resume(entries uint64, size int64, anchor uint32) {
	p.next, p.size, p.anchor = entries, size, anchor
}

// Know adds a span whose entry, with the given id, is already in the file. If ended is set, p may forget the span.
func (p *Placer) Know(ref *record.Ref, id uint32, ended bool) {
	p.spans.put(ref, &span{id: id, ended: ended})
}

// KnowResource adds a resource whose entry, with the given id, is already in the file.
func (p *Placer) KnowResource(number uint16, id uint32) { p.resources[number] = id }

// Knows reports whether p knows the entry of a span.
func (p *Placer) Knows(ref *record.Ref) bool { return p.spans.get(ref) != nil }

// KeepOrphans sets whether the end of a span without an entry is written below the span's resource. By default such
// an end is dropped. KeepOrphans returns the old setting.
func (p *Placer) KeepOrphans(keep bool) (before bool) {
	before, p.keepOrphans = p.keepOrphans, keep
	return before
}

// An Importer places records in the file of a recorder. A recorder's method WithFile passes an Importer to a
// function.
type Importer interface {
	// Place counts a record as offered to the recorder, and places it.
	Place(e *journal.Entry)
	// Flush writes the staged entries if they are large. If now is set, it always writes them.
	Flush(now bool)
	// Err returns the reason why the file can no longer be written, or nil.
	Err() error

	Needs(e *journal.Entry) bool
	Knows(ref *record.Ref) bool
	StagePending() bool
	OpenSpans() []OpenSpan
	KeepOrphans(keep bool) (before bool)
}

// Needs reports whether a record refers to a span that p does not know.
func (p *Placer) Needs(e *journal.Entry) bool {
	if e.Info.User()>>10&record.FlagRef == 0 || len(e.Data) < record.RefSize {
		return false
	}
	ref := (*record.Ref)(e.Data)
	if p.spans.get(ref) != nil {
		return false
	}
	_, left := p.left[*ref]
	return !left
}

// Out returns the encoded staged entries, one after the other, and their descriptions. Both are valid until p is
// used again.
func (p *Placer) Out() ([]byte, []Staged) { return p.enc.B, p.staged }

// Flushed says that the first n staged entries have been written to the file.
func (p *Placer) Flushed(n int) {
	if n == 0 {
		return
	}
	end := p.staged[n-1].End
	p.size += int64(end)
	p.enc.B = p.enc.B[:copy(p.enc.B, p.enc.B[end:])]
	p.staged = p.staged[:copy(p.staged, p.staged[n:])]
	for i := range p.staged {
		p.staged[i].End -= end
	}
	if len(p.enc.B) == 0 && cap(p.enc.B) > maxKeep {
		p.enc.B = nil
	}
}

// maxKeep is the largest capacity of an empty buffer that is kept for later use.
const maxKeep = 1 << 20

// Entries returns the number of entries in the file, plus the number of staged entries.
func (p *Placer) Entries() uint64 { return p.next }

// Extra returns how many entries and spans were staged since the last call of Extra that no record counts. They are
// the root, resources, spans that began in an earlier file, and the spans of KindEither.
func (p *Placer) Extra() (entries, spans uint64) {
	c := p.extra
	p.extra = Counts{}
	return c.Entries, c.Spans
}

// Size returns the size of the file, without the staged entries.
func (p *Placer) Size() int64 { return p.size }

// Pending returns how many entries and spans are pending, and when the oldest pending record arrived.
func (p *Placer) Pending() (entries, spans int, since time.Time) {
	return p.pending.entries, p.pending.spans, p.pending.since()
}

// Anchor returns the id of the entry below which records are written that are neither log records nor spans. 0
// means that there is no such entry.
func (p *Placer) Anchor() uint32 { return p.anchor }

// SetAnchor sets the id that Anchor returns.
func (p *Placer) SetAnchor(id uint32) { p.anchor = id }

// Root stages the root, the first entry of every trace.
func (p *Placer) Root() {
	h := record.Head{Name: record.Text{Text: "root"}}
	var c record.Cursor
	_ = p.enc.entry(&c, &h, 0, &links{}) // cannot fail, because the root is small
	p.add(0)
	p.extra.Entries++
}

// add appends the entry that was just encoded to p.staged.
func (p *Placer) add(parent uint32) *Staged {
	p.staged = append(p.staged, Staged{End: len(p.enc.B), ID: uint32(p.next), Parent: parent})
	p.next++
	return &p.staged[len(p.staged)-1]
}

// stage encodes and stages the current entry of c below the entry parent. h is the head of the current entry.
func (p *Placer) stage(c *record.Cursor, h *record.Head, parent uint32, l *links) (*Staged, error) {
	if p.next > math.MaxUint32 {
		skipItems(c)
		return nil, ErrFull
	}
	if err := p.enc.entry(c, h, parent, l); err != nil {
		return nil, err
	}
	return p.add(parent), nil
}

func skipItems(c *record.Cursor) {
	var i record.Item
	for code := c.Item(&i); code != record.CodeEnd; {
		code = c.Item(&i)
	}
}

func (p *Placer) drop(err error, entries, spans int) {
	if p.Drop != nil && entries+spans > 0 {
		p.Drop(err, entries, spans)
	}
}

// Place stages the entries of a record, or makes the record pending. It calls Drop if it cannot place the record.
// Place recovers from panics and then also calls Drop. A panic would end the program, because the application
// cannot recover from a panic in a goroutine of this module.
func (p *Placer) Place(e *journal.Entry) {
	if len(p.left) > 0 {
		p.continueLeft(e)
	}
	out, staged := p.enc.B, len(p.staged)
	defer func() {
		if recover() != nil {
			p.enc.Restore(out)
			p.unstage(staged)
			p.drop(ErrBadRecord, e.Info.Entries(), e.Info.Spans())
		}
	}()
	p.place(e)
}

func (p *Placer) place(e *journal.Entry) {
	r := &p.rec
	if !r.Parse(e) {
		p.drop(ErrBadRecord, e.Info.Entries(), e.Info.Spans())
		return
	}
	switch r.Kind {
	case record.KindLog:
		p.log(r, e)
	case record.KindSpan:
		p.span(r, e)
	case record.KindEnd:
		p.end(r)
	case record.KindEither:
		p.either(r, e)
	case record.KindResource:
		p.resource(r.Resource)
	case record.KindElsewhere:
		if p.pending.span(&r.Ref) == 0 { // otherwise the span will also be in this file
			p.release(r.Ref)
		}
	}
}

// resource returns the id of the entry of a resource. It stages this entry if the file does not have it.
func (p *Placer) resource(number uint16) uint32 {
	if number == 0 {
		return 0
	}
	if id, ok := p.resources[number]; ok {
		return id
	}
	d := p.enc.table.Get(number)
	if d == nil || d.Kind != record.DefResource {
		return 0
	}
	c := record.CursorAt(d)
	var h record.Head
	if !c.Next(&h) {
		return 0
	}
	p.extra.Entries++
	s, err := p.stage(&c, &h, 0, &links{})
	if err != nil {
		p.drop(err, 1, 0)
		p.resources[number] = 0
		return 0
	}
	s.IsResource = true
	p.resources[number] = s.ID
	return s.ID
}

// AppendResource appends the encoded entry of a resource, with the root as its parent. It returns false if no
// resource has this number, or if its entry cannot be encoded.
func (p *Placer) AppendResource(b []byte, number uint16) ([]byte, bool) {
	d := p.enc.table.Get(number)
	if d == nil || d.Kind != record.DefResource {
		return b, false
	}
	c := record.CursorAt(d)
	var h record.Head
	if !c.Next(&h) {
		return b, false
	}
	start := len(p.enc.B)
	if err := p.enc.entry(&c, &h, 0, &links{}); err != nil {
		return b, false
	}
	b = append(b, p.enc.B[start:]...)
	p.enc.B = p.enc.B[:start]
	return b, true
}

// log stages a log record below its span or resource, or makes it pending if its span is pending.
func (p *Placer) log(r *record.Record, e *journal.Entry) {
	c := r.Cursor()
	var h record.Head
	if !c.Next(&h) {
		p.drop(ErrBadRecord, r.Entries, 0)
		return
	}
	var l links
	var parent uint32
	var s *span
	if r.Flags&record.FlagRef != 0 {
		s = p.spans.get(&r.Ref)
		if s == nil {
			if r.Flags&record.FlagWait != 0 && p.pending.span(&r.Ref) != 0 && p.waitForSpan(r, e) {
				return
			}
			l.span, l.trace = r.Ref.SpanID(), r.Ref.TraceID()
		}
	}
	switch {
	case s != nil:
		parent = s.id
	case r.Provider >= firstOther && p.anchor != 0:
		parent = p.anchor
	default:
		parent = p.resource(r.Resource)
	}
	if _, err := p.stage(&c, &h, parent, &l); err != nil {
		p.drop(err, r.Entries, 0)
	}
}

// firstOther is the first provider number of records that are neither spans nor log records.
const firstOther = 2

// Append stages the entry of a log record below the entry parent and returns the id of the new entry.
func (p *Placer) Append(e *journal.Entry, parent uint32) (uint32, error) {
	r := &p.rec
	if !r.Parse(e) {
		return 0, ErrBadRecord
	}
	c := r.Cursor()
	var h record.Head
	if !c.Next(&h) {
		return 0, ErrBadRecord
	}
	s, err := p.stage(&c, &h, parent, &links{})
	if err != nil {
		return 0, err
	}
	return s.ID, nil
}

// children stages the next n entries of c below the entry parent, each with the attributes l.
func (p *Placer) children(c *record.Cursor, n int, parent uint32, l *links) {
	var h record.Head
	for i := range n {
		if !c.Next(&h) {
			p.drop(ErrBadRecord, n-i, 0)
			return
		}
		if _, err := p.stage(c, &h, parent, l); err != nil {
			p.drop(err, 1, 0)
		}
	}
}

// end stages the entries of the record of a span's end. If the span has no entry and keepOrphans is set, it stages
// them below the resource, with the ids of the span as attributes.
func (p *Placer) end(r *record.Record) {
	c := r.Cursor()
	switch s := p.spans.get(&r.Ref); {
	case s != nil:
		p.children(&c, r.Entries, s.id, &links{})
		p.spans.end(&r.Ref)
	case p.keepOrphans:
		p.children(&c, r.Entries, p.resource(r.Resource), &links{span: r.Ref.SpanID(), trace: r.Ref.TraceID()})
	default:
		p.drop(ErrNotOpen, r.Entries, 0)
	}
}

// either places a record of KindEither, which has both a whole span and its end. If the span has an entry, either
// stages the end, otherwise the whole span.
func (p *Placer) either(r *record.Record, e *journal.Entry) {
	if s := p.spans.get(&r.Ref); s != nil {
		c := r.Cursor()
		var h record.Head
		if !c.Next(&h) {
			p.drop(ErrBadRecord, r.Entries, 0)
			return
		}
		skipItems(&c)
		p.children(&c, r.Entries, s.id, &links{})
		p.spans.end(&r.Ref)
		return
	}
	p.extra.Spans++
	p.span(r, e)
}

// endOpen stages the end of the open span whose entry is id. The record r has the whole span. endOpen first stages the
// span's links and events, and then an entry for the span's end. This entry has all attributes of the application, and
// of entrace's own attributes only those that belong to an end.
func (p *Placer) endOpen(r *record.Record, id uint32) {
	c := r.Cursor()
	whole := c
	var h record.Head
	if !c.Next(&h) {
		p.drop(ErrBadRecord, r.Entries, 1)
		return
	}
	skipItems(&c)
	p.children(&c, r.Entries-1, id, &links{})
	whole.Next(&h)
	h.HasMessage, h.Message = true, p.enc.definitionCache.head(&h).Name
	h.Name = record.Text{Text: nameSpanEnd}
	if h.Level != levelError {
		h.Level = levelTrace
	}
	if s, err := p.stage(&whole, &h, id, &links{end: true}); err != nil {
		p.drop(err, 1, 1)
	} else {
		s.CountsSpan = true
	}
	p.spans.end(&r.Ref)
}

// span stages a span and then the pending records that need it, or makes the span pending. If r has the complete span
// and the file has it as an open span, span stages only the end.
func (p *Placer) span(r *record.Record, e *journal.Entry) {
	if r.Flags&(record.FlagRef|record.FlagOpen) == record.FlagRef {
		if s := p.spans.get(&r.Ref); s != nil && !s.ended {
			p.endOpen(r, s.id)
			return
		}
	}
	const local = record.FlagWait | record.FlagParent
	if r.Flags&(local|record.FlagRemote) == local && r.Parent != r.Ref && p.spans.get(&r.Parent) == nil && p.wait(r.Ref, r.Parent, e) {
		return
	}
	ref := r.Ref
	if p.putSpan(r) {
		p.release(ref)
	}
}

// putSpan stages a span below its parent if the parent has an entry and the same resource. Otherwise it
// stages the span below the span's resource.
func (p *Placer) putSpan(r *record.Record) bool {
	c := r.Cursor()
	var h record.Head
	if !c.Next(&h) {
		p.drop(ErrBadRecord, r.Entries, 1)
		return false
	}
	var parent *span
	var l links
	if r.Flags&record.FlagParent != 0 {
		parent = p.spans.get(&r.Parent)
	}
	if parent != nil && r.Resource != 0 && parent.resource != 0 && parent.resource != r.Resource {
		parent = nil // below this parent, a reader would give the span the parent's resource
	}
	var below uint32
	same := [16]byte(r.Parent.TraceID()) == [16]byte(r.Ref.TraceID())
	if parent != nil {
		below = parent.id
	} else {
		below = p.resource(r.Resource)
	}
	if parent == nil || !same {
		l.trace = r.Ref.TraceID()
		if r.Flags&record.FlagParent != 0 {
			l.parent = r.Parent.SpanID()
		}
	}
	off := p.size + int64(len(p.enc.B))
	s, err := p.stage(&c, &h, below, &l)
	if err != nil {
		p.drop(err, r.Entries, 1)
		return false
	}
	id := s.ID
	s.Ref, s.IsSpan, s.CountsSpan = r.Ref, true, true
	if r.Flags&record.FlagRef != 0 {
		p.spans.put(&r.Ref, &span{
			id: id, ended: r.Flags&record.FlagOpen == 0, off: off, size: uint32(int64(s.End) + p.size - off), resource: r.Resource, parent: [8]byte(r.Parent.SpanID()),
		})
		if p.spans.lost {
			p.Forget()
		}
	}
	p.children(&c, r.Entries-1, id, &links{})
	return true
}

// release stages the pending records that need the span ref, and the records that need those, and so on.
func (p *Placer) release(ref record.Ref) {
	if p.pending.records == 0 {
		return
	}
	p.ready = p.pending.children(ref, p.ready[:0])
	p.stageReady()
}

// stageReady stages the pending records in p.ready, and all pending records that depend on them.
func (p *Placer) stageReady() {
	for i := 0; i < len(p.ready); i++ {
		at := p.ready[i]
		ref, r := p.pending.all[at].ref, &p.rec
		p.entry = p.pending.entry(at)
		if parked := p.pending.parked[at]; parked != nil {
			p.o.Unpark(parked)
		}
		p.pending.remove(at)
		switch {
		case !r.Parse(&p.entry):
		case r.Kind == record.KindLog:
			p.log(r, &p.entry)
		case p.putSpan(r):
			p.ready = p.pending.children(ref, p.ready)
		}
	}
}

// wait makes the record e pending until the span parent arrives. It returns false if Park has no room for a copy of
// e.
func (p *Placer) wait(ref, parent record.Ref, e *journal.Entry) bool {
	var parked *journal.Segment
	if p.o.Park != nil {
		var ok bool
		parked, ok = p.o.Park(e)
		if !ok {
			return false
		}
	}
	p.pending.add(ref, parent, e, parked)
	return true
}

// waitForSpan makes a log record pending until its span arrives. In the field for a parent, it stores two numbers.
// The first is unique among log records, so that a reader can recognize two copies of a parked record. The second
// is the id of the next entry: the id of the span will not be smaller.
func (p *Placer) waitForSpan(r *record.Record, e *journal.Entry) bool {
	if r.Flags&record.FlagParent != 0 {
		return p.wait(record.Ref{}, r.Ref, e) // the record was pending before and has both numbers
	}
	p.pending.logs++
	var number record.Ref
	binary.LittleEndian.PutUint64(number[:], p.pending.logs)
	binary.LittleEndian.PutUint64(number[8:], p.next)
	p.numbered = append(append(append(p.numbered[:0], e.Data[:record.RefSize]...), number[:]...), e.Data[record.RefSize:]...)
	p.entry = journal.Entry{Time: e.Time, Stream: e.Stream, Info: journal.NewInfo(1, 0, e.Info.User()|record.FlagParent<<10), Data: p.numbered}
	return p.wait(record.Ref{}, r.Ref, &p.entry)
}

// EnforceBounds stages pending records until no bound is exceeded. It returns false after it has staged many bytes:
// the caller then writes them and calls EnforceBounds again.
func (p *Placer) EnforceBounds(now time.Time) (done bool) {
	for p.exceeds(now) {
		if len(p.enc.B) > 1<<18 {
			return false
		}
		p.StagePending()
	}
	return true
}

func (p *Placer) exceeds(now time.Time) bool {
	w := &p.pending
	return w.records > p.o.MaxPendingSpans || w.bytes > p.o.MaxPendingBytes ||
		w.records > 0 && now.Sub(w.since()) >= p.o.MaxPendingAge
}

// StagePending stages the oldest pending record, its pending ancestors, and all records that depend on these. It
// returns false if no record is pending.
func (p *Placer) StagePending() bool {
	if p.pending.records == 0 {
		return false
	}
	p.ready = append(p.ready[:0], p.pending.first())
	p.stageReady()
	return true
}

// Repark parks the pending records again. They will be in the next file if next is set, otherwise in this file.
// Repark returns false if Park does not have room for all of them.
func (p *Placer) Repark(next bool) bool {
	if next {
		p.pending.renumber()
	}
	for i := p.pending.oldest; i != 0 && p.o.Park != nil; i = p.pending.all[i].next {
		e := p.pending.entry(i)
		parked, ok := p.o.Park(&e)
		if !ok {
			return false
		}
		p.pending.parked[i] = parked
	}
	return true
}

// An OpenSpan is a span that has not ended.
type OpenSpan struct {
	Ref      record.Ref
	Parent   [8]byte // zero: no parent
	Resource uint16
	Offset   int64 // offset of the span's entry in the file
	Size     int   // size of the span's entry in bytes
	id       uint32
}

// OpenSpans returns the spans that have not ended, in the order of their entries.
func (p *Placer) OpenSpans() []OpenSpan {
	var open []OpenSpan
	for key, s := range p.spans.open.All() {
		open = append(open, OpenSpan{record.Ref(key), s.parent, s.resource, s.off, int(s.size), s.id})
	}
	slices.SortFunc(open, func(a, b OpenSpan) int { return cmp.Compare(a.id, b.id) })
	return open
}

// ForgetEnded frees the memory of ended spans and of caches. The caller must have written all staged entries.
func (p *Placer) ForgetEnded() {
	p.spans = spanTable{open: p.spans.open, lost: p.spans.lost}
	if p.pending.records == 0 {
		p.DropPending()
	}
	p.enc = encoder{definitionCache: newDefinitionCache(p.enc.table), maxSize: p.enc.maxSize}
	p.enc.Columns = p.o.Columns
	p.staged, p.ready, p.rec, p.entry, p.numbered = nil, nil, record.Record{}, journal.Entry{}, nil
}

// Next returns a Placer for the next file, which shares the cached names with p. Pending records and leftSpans
// remain in p until Adopt is called.
func (p *Placer) Next() *Placer {
	n := &Placer{o: p.o, resources: make(map[uint16]uint32), keepOrphans: p.keepOrphans}
	n.enc = encoder{definitionCache: p.enc.definitionCache, maxSize: p.enc.maxSize}
	n.enc.Columns = p.enc.Columns
	return n
}

// Adopt moves the pending records and the leftSpans from q to p.
func (p *Placer) Adopt(q *Placer) {
	p.pending, q.pending = q.pending, pendingRecords{}
	p.adoptLeft(q)
}

// DropStaged discards the staged entries. Later entries get the ids of the discarded entries.
func (p *Placer) DropStaged() {
	p.unstage(0)
	p.enc.B = p.enc.B[:0]
}

// unstage discards all staged entries but the first n.
func (p *Placer) unstage(n int) {
	if len(p.staged) <= n {
		return
	}
	first := p.staged[n].ID
	for i := range p.staged[n:] {
		s := &p.staged[n+i]
		if s.IsSpan {
			p.spans.drop(&s.Ref, s.ID)
		}
		if s.IsResource {
			for number, id := range p.resources {
				if id == s.ID {
					delete(p.resources, number)
				}
			}
		}
	}
	p.next = uint64(first)
	p.staged = p.staged[:n]
}

// DropPending discards the pending records.
func (p *Placer) DropPending() { p.pending = pendingRecords{logs: p.pending.logs} }
