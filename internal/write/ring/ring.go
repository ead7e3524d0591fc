// Package ring is the memory of a flight recorder: a journal that evicts its oldest segments. A [Snapshot]
// makes a trace from its content while the ring continues to record.
//
// The ring has the start of each open span, even if the span is old: when it evicts the segment of the
// start, it copies the start to a separate stream. The copy is called retained. If the ring evicts the end
// of a span but may still have the start, it stores a mark, so that readers do not consider the span open.
package ring

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// Options change how a [Ring] works. The zero value means defaults.
type Options struct {
	// Version is the disk version of the snapshots and streams. The default is
	// [format.DefaultVersion].
	Version format.Version
	// Bytes is the size of the ring. The default is 32 MiB, the minimum is 4 MiB. If the size is negative,
	// the ring holds no records, and records go only to streams.
	Bytes int64
	// Path is the name of a file for the ring. The file must not exist. If Path is empty, the ring is on
	// the heap. The file outlives a process that does not close the ring, see [Open]. If the system has
	// shared memory that survives the process, the ring is there, and the file only names its place. If
	// shared memory has too little room, the ring is smaller, but at least 8 MiB.
	Path string
	// Dir, if not empty, is the folder for the ring. Shared memory is not used then.
	Dir string
	// Note is stored in the file of the ring, and is later in [Dead].Note. It has up to [MaxNote] bytes.
	Note []byte
	// MaxBlock is the longest time that a call waits if the disk does not respond. The default
	// is one second.
	MaxBlock time.Duration
	// Redact says which values are secrets, as in [recorder.Options].
	Redact *redact.Policy
	// Taken, if set, always holds the record.Providers whose records the recorder accepts. The caller can
	// read it before the recorder exists.
	Taken *atomic.Uint64
	// OnError, if set, is called when the ring has lost its file and continues in another file or on the
	// heap, and when the ring is smaller than Bytes. No lock is held during the call.
	OnError func(error)
	// OnLog, if set, is called with the log records that SetLogLevel and SetPanics select,
	// after these were recorded. No lock is held during the call. OnLog must return at once
	// and must not record.
	OnLog func(*LogEvent)
	// OnSpan, if set, is called after a span processor has recorded the end of a span, or has failed to. No lock is
	// held during the call. OnSpan must return at once and must not record.
	OnSpan func(*record.Event)
}

const (
	defaultBytes    = 32 << 20
	minBytes        = 4 << 20
	enoughBytes     = 8 << 20 // the minimum size if shared memory has no room for Bytes
	defaultMaxBlock = time.Second

	// MaxNote is the largest size of a note in bytes.
	MaxNote = journal.MaxCheckpoint - noteHead

	// extraSegments is the number of segments for definitions and retained records.
	extraSegments = 24

	// noLevel is above all levels.
	noLevel = format.LevelError + 1

	checkEvery = time.Second

	// maxText is the size in bytes above which a text is cut, so that one record does not evict many
	// others.
	maxText = 60 << 10
)

// A LogEvent is the log record that [Options].OnLog gets.
type LogEvent struct {
	Level   format.Level
	Message string
	Span    format.SpanRef // zero: no span
}

// A Ring holds the latest records of its Recorder, and forwards new records to its streams. It is safe for
// concurrent use.
type Ring struct {
	o      Options
	rec    *recorder.Recorder
	guard  safecall.Guard
	intern *record.Interner
	live   atomic.Pointer[journal.Journal] // nil: the ring holds no records

	buffered atomic.Uint64 // a record.Providers: the providers whose records the ring holds
	level    atomic.Uint32 // the lowest level of log records for which OnLog is called
	panics   atomic.Bool   // OnLog is called for panics of HTTP handlers
	streams  atomic.Pointer[[]*Stream]
	open     openSpans
	dropped  drops
	began    time.Time
	check    *time.Timer

	// files is held while the journal's file is replaced or removed, and while a snapshot begins or closes.
	// If the disk hangs, these tasks wait for each other. It is locked before all other locks.
	files   sync.Mutex
	removed bool        // guarded by files: Close has run
	moved   bool        // guarded by files: the live journal is out of reach, and OnError was called for that
	failing atomic.Bool // a goroutine is replacing the journal

	// notes is held while the note is written or the journal is removed. Both can wait for the disk. It is
	// locked after files.
	notes sync.Mutex
	state state

	mu sync.Mutex // never held while a file is used

	observed record.Providers // see SetObserved
	closed   bool
	previous [2]uint64 // numbers of entries and of spans in the journals before the live one
}

// A state belongs to the live journal, whose lock guards it.
type state struct {
	retained  *journal.Stream
	snapshots []*Snapshot
	evicted   evictions
	firstSpan uint64 // the base of the oldest segment of spans in the ring
}

// New returns a ring. It holds no records until [Ring.SetBuffered] is called. A nil o means defaults.
func New(o *Options) (*Ring, error) {
	if o == nil {
		o = &Options{}
	}
	g := &Ring{o: *o, began: time.Now(), open: openSpans{spanmap.NewSharded[uint64](maxOpen)}, intern: record.NewInterner(nil, o.Redact)}
	if g.o.Version == 0 {
		g.o.Version = format.DefaultVersion
	}
	if err := g.o.Version.Check(); err != nil {
		return nil, err
	}
	if g.o.Bytes == 0 {
		g.o.Bytes = defaultBytes
	}
	if g.o.MaxBlock <= 0 {
		g.o.MaxBlock = defaultMaxBlock
	}
	if len(o.Note) > MaxNote {
		return nil, fmt.Errorf("the note has %d bytes, but there is room for only %d", len(o.Note), MaxNote)
	}
	g.level.Store(uint32(noLevel))
	g.guard.Tell = g.reportError
	if g.o.Taken == nil {
		g.o.Taken = new(atomic.Uint64)
	}
	g.o.Taken.Store(0)
	g.rec = inside.NewRing(target{g}, g.intern, &recorder.Options{Version: g.o.Version, MaxEntrySize: maxText}, g.o.Taken).(*recorder.Recorder)
	if g.o.Bytes < 0 {
		return g, nil
	}
	j, err := g.newJournal(g.o.Path)
	if err != nil {
		return nil, err
	}
	g.setJournal(j)
	if err := g.SetNote(g.o.Note); err != nil {
		return nil, errors.Join(err, j.Remove())
	}
	if g.o.Path != "" {
		g.check = time.AfterFunc(checkEvery, g.checkName)
	}
	return g, nil
}

// newJournal returns an empty journal. It is in a file unless path is empty.
func (g *Ring) newJournal(path string) (*journal.Journal, error) {
	o := journal.Options{
		Segments: int(max(g.o.Bytes, minBytes) / journal.SegmentSize), Extra: extraSegments, MaxWait: g.o.MaxBlock, Evict: g.evict,
	}
	o.Least = min(o.Segments, enoughBytes/journal.SegmentSize)
	var j *journal.Journal
	var err error
	if path == "" {
		j, err = journal.New(o)
	} else {
		j, err = journal.Create(journal.Place{Beside: path, Dir: g.o.Dir}, o)
	}
	if err != nil {
		return nil, err
	}
	if n := j.Segments(); n < o.Segments {
		g.reportError(fmt.Errorf("the ring has %d bytes instead of %d: not enough memory", n*journal.SegmentSize, g.o.Bytes))
	}
	if err := g.intern.Attach(j); err != nil {
		return nil, errors.Join(err, j.Remove())
	}
	return j, nil
}

// setJournal makes j the journal of the ring.
func (g *Ring) setJournal(j *journal.Journal) {
	j.Lock()
	g.state.retained, g.state.firstSpan = j.NewStream(journal.StreamRetained), 0
	j.Unlock()
	g.live.Store(j)
}

// Recorder returns the recorder that records to the ring. It accepts the records of the providers that
// SetBuffered, SetObserved or a stream selects, see [recorder.Recorder.TakesSpans]. Its Close closes the
// ring.
func (g *Ring) Recorder() *recorder.Recorder { return g.rec }

// Create calls recorder.Create and returns a recorder for a snapshot or a stream of the ring.
func (g *Ring) Create(name string, o *recorder.Options) (*recorder.Recorder, error) {
	return createWith(name, o, g.o.Version, g.intern, false)
}

// noteHead is the size of the fields before the note in the checkpoint:
//
//	kind     [4]byte // "RING"
//	version  uint8   // of the format
//	reserved uint8
//	size     uint16  // of the note
//	began    int64   // in nanoseconds since 1970
const noteHead = 16

var noteKind = [4]byte{'R', 'I', 'N', 'G'}

// SetNote changes the note in the ring's file. It returns when the note is written.
func (g *Ring) SetNote(note []byte) error {
	if len(note) > MaxNote {
		return fmt.Errorf("the note has %d bytes, but there is room for only %d", len(note), MaxNote)
	}
	g.notes.Lock()
	defer g.notes.Unlock()
	g.o.Note = note
	j := g.live.Load()
	if j == nil || g.isClosed() {
		return nil
	}
	return g.writeNote(j)
}

func (g *Ring) writeNote(j *journal.Journal) error {
	b := append(make([]byte, 0, noteHead+len(g.o.Note)), noteKind[:]...)
	b = append(b, byte(g.o.Version), 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(g.o.Note)))
	b = binary.LittleEndian.AppendUint64(b, uint64(g.began.UnixNano()))
	return j.Checkpoint(append(b, g.o.Note...))
}

// SetBuffered sets the providers of later records that the ring holds.
func (g *Ring) SetBuffered(p record.Providers) {
	if g.live.Load() == nil {
		p = 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.buffered.Store(uint64(p))
	g.updateProviders()
}

// SetObserved adds providers whose records the recorder accepts although the ring and its streams do not
// hold them. OnLog and span processors see these records.
func (g *Ring) SetObserved(p record.Providers) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.observed = p
	g.updateProviders()
}

// updateProviders makes the recorder accept the records of all providers that are buffered, observed or in
// a stream. The caller holds g.mu.
func (g *Ring) updateProviders() {
	on := g.buffered.Load() | uint64(g.observed)
	if s := g.streams.Load(); s != nil {
		for _, st := range *s {
			on |= st.providers.Load()
		}
	}
	if g.closed {
		on = 0
	}
	g.o.Taken.Store(on)
}

// SetLogLevel makes the ring call OnLog for log records of the level least and above. If least is above
// LevelError, no record has such a level.
func (g *Ring) SetLogLevel(least format.Level) { g.level.Store(uint32(min(least, noLevel))) }

// SetPanics sets whether the ring calls OnLog for the records that net/http logs after a handler has
// panicked. Their level does not matter.
func (g *Ring) SetPanics(told bool) { g.panics.Store(told) }

// ServedPanic returns the text of a handler's panic from the message that net/http logs about it. It
// returns false for other messages.
func ServedPanic(message string) (text string, is bool) {
	rest, is := strings.CutPrefix(message, "http: panic serving ")
	if !is {
		rest, is = strings.CutPrefix(message, "http2: panic serving ")
		if !is {
			return "", false
		}
	}
	_, text, _ = strings.Cut(rest, ": ") // the text follows the address
	text, _, _ = strings.Cut(text, "\ngoroutine ")
	return strings.TrimRight(text, "\n"), true
}

// tellsOf reports whether OnLog is called for the log record e.
func (g *Ring) tellsOf(e *record.Event) bool {
	if uint32(e.Level) >= g.level.Load() {
		return true
	}
	_, is := ServedPanic(e.Message)
	return is && g.panics.Load()
}

// Stats holds the numbers of a [Ring].
type Stats struct {
	Bytes   int64     // number of bytes in use
	Entries uint64    // number of entries in the ring
	Evicted uint64    // number of entries that were replaced by newer ones
	From    time.Time // the ring has all entries since this time
	Open    int       // number of spans that have begun but not ended
}

// Stats returns the numbers of the ring. It does not wait for a file.
func (g *Ring) Stats() Stats {
	s := Stats{Open: g.open.Len(), From: g.began}
	j := g.live.Load()
	if j == nil {
		return s
	}
	s.Evicted = g.state.evicted.total.Load() // first, because Entries.Written includes the evicted entries
	entries := g.rec.Stats().Entries.Written
	s.Bytes = int64(j.Used()) * journal.SegmentSize
	s.Entries = entries - min(entries, s.Evicted)
	s.From = g.from()
	return s
}

// from returns the time since which the ring has all entries.
func (g *Ring) from() time.Time {
	if last := g.state.evicted.last.Load(); last > g.began.UnixNano() {
		return time.Unix(0, last+1)
	}
	return g.began
}

func (g *Ring) isClosed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.closed
}

// Close ends the ring and removes its file, so that nothing can be recovered. Close streams
// and snapshots first. Close is idempotent.
func (g *Ring) Close() error {
	g.mu.Lock()
	g.closed = true
	g.updateProviders()
	g.mu.Unlock()
	g.files.Lock()
	defer g.files.Unlock()
	g.notes.Lock()
	defer g.notes.Unlock()
	if g.removed {
		return nil
	}
	g.removed = true
	if g.check != nil {
		g.check.Stop()
	}
	j := g.live.Load()
	if j == nil {
		return nil
	}
	j.CloseShards()
	g.dropSnapshots(j)
	g.intern.Detach(j)
	return j.Remove()
}

// dropSnapshots makes all snapshots drop the segments of j, whose memory is about to be freed.
func (g *Ring) dropSnapshots(j *journal.Journal) {
	j.Lock()
	defer j.Unlock()
	for _, sn := range g.state.snapshots {
		sn.dropSegments()
	}
	g.state.snapshots = nil
}

// checkName replaces the journal if its file was removed or renamed.
func (g *Ring) checkName() {
	j := g.live.Load()
	j.SetHurry(false)
	if !j.HasName() {
		g.replace(j, recorder.ErrUnlinked)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.check.Reset(checkEvery)
	}
}

// failed makes a goroutine replace the journal j after an error of its file. Only the first of several
// calls does.
func (g *Ring) failed(j *journal.Journal, err error) {
	if g.live.Load() == j && g.failing.CompareAndSwap(false, true) {
		go g.replace(j, err) // the caller must not wait for a file
	}
}

// replace replaces the journal old by a new one. The records in old are lost. If old is only out of reach, as after
// chroot, and no new file can be made, the ring keeps old.
func (g *Ring) replace(old *journal.Journal, cause error) {
	g.files.Lock()
	defer g.files.Unlock()
	g.notes.Lock()
	defer g.notes.Unlock()
	defer g.failing.Store(false)
	if g.live.Load() != old || g.isClosed() {
		return
	}
	old.RemoveNames() // the new journal gets these names
	j, err := g.newJournal(g.o.Path)
	if err != nil {
		if errors.Is(cause, recorder.ErrUnlinked) && old.IsLinked() {
			if !g.moved {
				g.reportError(fmt.Errorf("ring %s: recording continues in the same file: %w; %w", old.Name(), cause, err))
			}
			g.moved = true
			return
		}
		j, err = g.newJournal("")
		if err != nil { // in memory
			return
		}
		cause = fmt.Errorf("%w; recording continues in memory", cause)
	}
	err = g.writeNote(j)
	old.CloseShards()
	g.dropSnapshots(old)
	entries, spans := old.Appended()
	g.mu.Lock()
	g.previous[0] += entries
	g.previous[1] += spans
	lost := g.previous[0] - min(g.previous[0], g.state.evicted.total.Load())
	g.state.evicted.add(time.Now().UnixNano(), lost) // old evicts nothing any more
	g.setJournal(j)
	g.mu.Unlock()
	g.intern.Detach(old)
	err = errors.Join(err, old.Remove())
	g.reportError(errors.Join(fmt.Errorf("ring %s was lost: %w", old.Name(), cause), err))
}

// reportError calls OnError on a new goroutine.
func (g *Ring) reportError(err error) {
	if g.o.OnError != nil {
		go g.guard.Call("OnError", func() { g.o.OnError(err) })
	}
}

// A target is the target of the ring's recorder. It passes the records to the ring.
type target struct{ *Ring }

// drops counts entries and spans that could not be recorded.
type drops struct {
	mu sync.Mutex

	entries, spans recorder.Dropped
}

// Put implements the target of package recorder.
func (g target) Put(r *journal.Record, hint *journal.Hint, e *record.Event) error {
	streams, err := g.store(r, hint)
	epoch := r.Epoch
	if streams != nil { // the journal of a stream overwrites r.Epoch
		provider := record.Provider(r.Info.User() >> 4 & 63)
		for _, s := range *streams {
			if record.Providers(s.providers.Load()).Has(provider) && epoch >= s.epoch {
				_ = s.rec.Put(r, hint) // on an error, the recorder of the stream counts the record
			}
		}
	}
	switch {
	case e == nil:
	case e.Ended:
		if g.o.OnSpan != nil {
			g.o.OnSpan(e)
		}
	case err == nil && g.o.OnLog != nil && g.tellsOf(e):
		told := LogEvent{
			Level: format.Level(e.Level), Message: strings.Clone(e.Message),
			Span: format.SpanRef{TraceID: [16]byte(e.Ref.TraceID()), SpanID: [8]byte(e.Ref.SpanID())},
		}
		g.guard.Call("OnLog", func() { g.o.OnLog(&told) })
	}
	return err
}

// store appends a record to the ring if the ring holds such records. It returns the streams.
func (g *Ring) store(r *journal.Record, hint *journal.Hint) (*[]*Stream, error) {
	user := r.Info.User()
	kind, provider, flags := record.Kind(user&15), record.Provider(user>>4&63), uint8(user>>10)
	r.Epoch, r.HasMark = math.MaxUint32, false // a record outside the ring is in no snapshot
	j := g.live.Load()
	if j == nil || kind == record.KindResource {
		return g.streams.Load(), nil
	}
	const openFlags = record.FlagOpen | record.FlagRef
	opens := kind == record.KindSpan && flags&openFlags == openFlags
	closes := kind == record.KindEnd && flags&record.FlagRef != 0
	whole := kind == record.KindSpan && flags&openFlags == record.FlagRef // a whole span also ends an open span
	buffers := record.Providers(g.buffered.Load()).Has(provider)
	var ref record.Ref
	if opens || closes || whole {
		ref = record.Ref(r.Data[journal.HeadSize : journal.HeadSize+record.RefSize])
	}
	if opens && buffers {
		start := uint64(startUnknown)
		g.open.Set((*spanmap.Key)(&ref), &start) // before the append, because evict must retain the start from then on
	}
	if closes || whole {
		start, known := g.open.get(&ref)
		buffers = buffers || known // the ring also gets the end of a span if it has the start
		r.Mark, r.HasMark = start, closes
		whole = whole && known
	}
	if !buffers {
		return g.streams.Load(), nil
	}
	_, err := j.Append(r, hint)
	if err != nil {
		err = g.retry(r, hint, j, err)
	}
	switch {
	case closes || whole || opens && err != nil:
		g.open.Delete((*spanmap.Key)(&ref))
	case opens:
		g.open.started(&ref, r.Base+1)
	}
	return g.streams.Load(), err
}

// retry handles err, the error of appending a record to the journal j. It appends the record to the journal
// that has replaced j, or counts the record as dropped.
func (g *Ring) retry(r *journal.Record, hint *journal.Hint, j *journal.Journal, err error) error {
	switch {
	case errors.Is(err, journal.ErrTooLarge):
		err = format.ErrTooLarge
	case errors.Is(err, journal.ErrBusy):
		j.SetHurry(true) // until the next checkName
		err = recorder.ErrOverflow
	case errors.Is(err, journal.ErrFull):
		err = recorder.ErrOverflow
	case errors.Is(err, journal.ErrClosed):
		err = recorder.ErrClosed
		if now := g.live.Load(); now != j {
			if _, again := now.Append(r, hint); again == nil {
				return nil
			}
		}
	default:
		g.failed(j, err)
		err = recorder.ErrOverflow
	}
	target{g}.Drop(err, r.Info.Entries(), r.Info.Spans())
	return err
}

// Wait implements the target of package recorder.
func (target) Wait() error { return nil }

// Waits implements the target of package recorder.
func (target) Waits() bool { return false }

// NewHint implements the target of package recorder.
func (g target) NewHint() journal.Hint {
	if j := g.live.Load(); j != nil {
		return j.NewHint()
	}
	return 0
}

// Drop implements the target of package recorder.
func (g target) Drop(err error, entries, spans int) {
	g.dropped.mu.Lock()
	defer g.dropped.mu.Unlock()
	g.dropped.entries.Add(err, uint64(entries))
	g.dropped.spans.Add(err, uint64(spans))
}

// Append implements the target of package recorder. A ring has no ids, so it appends the entry like a log
// record and returns the id 0.
func (g target) Append(r *journal.Record, parent uint32, _ bool) (uint32, error) {
	if parent != 0 {
		return 0, format.ErrInvalid
	}
	hint := g.NewHint()
	r.Leaf = true
	return 0, g.Put(r, &hint, nil)
}

// Flush implements the target of package recorder.
func (target) Flush(context.Context) error { return nil }

// Sync implements the target of package recorder.
func (g target) Sync(context.Context) error {
	if j := g.live.Load(); j != nil {
		return j.Sync()
	}
	return nil
}

// Close implements the target of package recorder.
func (g target) Close(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- g.Ring.Close() }() // Ring.Close may wait for the disk
	late := make(chan struct{})
	defer context.AfterFunc(ctx, func() { time.AfterFunc(closeGrace, func() { close(late) }) })()
	select {
	case err := <-done:
		return err
	case <-late:
		return fmt.Errorf("the ring's file was not removed, because the disk does not respond: %w", context.Cause(ctx))
	}
}

// closeGrace is how long Close waits after the end of its context. Close needs less time if the disk
// responds.
const closeGrace = 500 * time.Millisecond

// Stats implements the target of package recorder. It counts a record in the ring as written.
func (g target) Stats() (s recorder.Stats) {
	g.mu.Lock()
	entries, spans := g.previous[0], g.previous[1]
	if j := g.live.Load(); j != nil {
		e, n := j.Appended()
		entries, spans = entries+e, spans+n
	}
	g.mu.Unlock()
	g.dropped.mu.Lock()
	defer g.dropped.mu.Unlock()
	s.Entries = recorder.Counts{Offered: entries + g.dropped.entries.Total(), Written: entries, Dropped: g.dropped.entries}
	s.Spans = recorder.Counts{Offered: spans + g.dropped.spans.Total(), Written: spans, Dropped: g.dropped.spans}
	return s
}

// Err implements the target of package recorder.
func (target) Err() error { return nil }

// Durability implements the target of package recorder.
func (g target) Durability() (recorder.Durability, error) {
	if j := g.live.Load(); j != nil && j.Medium() != journal.Heap {
		return recorder.DurabilityProcess, nil
	}
	return recorder.DurabilityNone, nil
}
