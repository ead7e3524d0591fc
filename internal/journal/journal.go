package journal

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/osfile"
)

var (
	// ErrFull is returned when no segment is free.
	ErrFull = errors.New("no segment of the journal is free")
	// ErrBusy is returned when a shard was locked for too long: its file does not answer.
	ErrBusy = errors.New("the journal's file does not answer")
	// ErrClosed is returned after CloseShards.
	ErrClosed = errors.New("the journal is closed")
	// ErrTooLarge is returned for a record that no chain can hold.
	ErrTooLarge = errors.New("the record is too large for the journal")
)

// Options describe a journal.
type Options struct {
	Medium Medium
	// Name is the file, which must not exist. Heap has none.
	Name string
	// Beside is the file that names it, "" if there is none.
	Beside string
	// Segments is how many segments the shards use at most, Extra how many more the
	// other streams and large records may use.
	Segments, Extra int
	// Least is how few Segments will do, with Evict, where memory has no room for all. 0:
	// no fewer.
	Least int
	// MaxWait is how long Append waits for a shard of a Written journal.
	MaxWait time.Duration
	// Evict, if set, makes the shards use their oldest segment again when all are in
	// use. It is called first with that segment, with the lock that Lock takes. It must
	// not append to a shard.
	Evict func(*Journal, *Segment)
}

// A Journal stores records. It is safe for concurrent use except where a method says
// otherwise.
type Journal struct {
	o    Options
	pool *pool

	shards []shard // the spans, then the leaves
	tick   *tick   // nil without CoarseClock
	hints  atomic.Uint32
	epoch  uint32       // guarded by the locks of all shards, one of which is enough for reading
	fresh  atomic.Int64 // about how many bytes were appended since the last Capture
	hurry  atomic.Bool  // see SetHurry

	pointer  atomic.Pointer[os.FileInfo] // of Beside; nil: it is not ours
	replaces string                      // the name that Replace gives the file

	mu sync.Mutex // taken with a shard locked, never the other way round

	used     atomic.Int64 // segments of shards; also read without the lock
	limit    int          // of used
	filled   []*Segment   // with Evict: those that are full, the oldest first
	retained int          // of the filled ones, those of StreamRetained
}

// A shard is the part of a journal to which a goroutine appends. The first cache line has what every append
// changes.
type shard struct {
	mu sync.Mutex

	closed bool
	stream uint32
	seg    *Segment
	fresh  int // bytes that were not added to Journal.fresh yet
	base   uint64
	full   []*Segment // without Evict: those before seg that Capture has not seen

	// The sum of what was appended, which is read without the lock.
	entries, spans atomic.Uint64

	_ [32]byte // a multiple of a cache line
}

const (
	// captureAt is how many bytes are to be captured soon. With what shards have not
	// reported, the total stays below 256 KiB.
	captureAt   = 192 << 10
	reportEvery = 4 << 10
)

// numLeaves returns the number of leaf shards, a power of two.
func numLeaves() int {
	n := 2
	for n < 2*runtime.GOMAXPROCS(0) && n < maxLeaves {
		n *= 2
	}
	return n
}

// New returns an empty journal.
func New(o Options) (*Journal, error) {
	o.limit()
	p, err := newPool(&o)
	if err != nil {
		return nil, err
	}
	j := &Journal{o: o, pool: p, limit: o.Segments, shards: make([]shard, numLeaves()+1)}
	for i := range j.shards {
		j.shards[i].stream = StreamSpans + uint32(i)
	}
	if CoarseClock {
		j.tick = new(tick)
	}
	return j, nil
}

// Segments returns how many segments the shards use at most.
func (j *Journal) Segments() int { return j.o.Segments }

// MaxWait returns how long Append waits for a shard of a Written journal.
func (j *Journal) MaxWait() time.Duration { return j.o.MaxWait }

// Medium returns where the segments lie.
func (j *Journal) Medium() Medium { return j.o.Medium }

// Name returns the name of the file, "" for Heap.
func (j *Journal) Name() string { return j.pool.name }

// A Hint is the shard that somebody appended to last. Those who append with the same
// Hint tend to meet nobody else. It may be used by several goroutines only one after the
// other.
type Hint uint32

// NewHint returns a hint that few others have.
func (j *Journal) NewHint() Hint { return Hint(j.hints.Add(1)) }

// SetHurry says whether Append waits but a millisecond for a shard, as others have waited
// for MaxWait in vain.
func (j *Journal) SetHurry(on bool) { j.hurry.Store(on) }

// lock returns a locked shard: that of the spans, or the one that hint says, or the next
// leaf that is not locked.
func (j *Journal) lock(leaf bool, hint *Hint) (*shard, error) {
	s := &j.shards[0]
	if leaf {
		n := Hint(len(j.shards) - 1)
		for i := range n {
			s = &j.shards[1+(*hint+i)&(n-1)]
			if s.mu.TryLock() {
				*hint += i
				return s, nil
			}
		}
		s = &j.shards[1+*hint&(n-1)]
	}
	if j.o.Medium != Written {
		s.mu.Lock() // nobody keeps it while a file is written
		return s, nil
	}
	if s.mu.TryLock() {
		return s, nil
	}
	const shortest, longest = 20 * time.Microsecond, time.Millisecond
	pause, most := shortest, j.o.MaxWait
	if j.hurry.Load() {
		most = min(most, longest)
	}
	for start := time.Now(); !s.mu.TryLock(); {
		if time.Since(start) >= most {
			return nil, ErrBusy
		}
		time.Sleep(pause)
		pause = min(2*pause, longest)
	}
	return s, nil
}

// Append appends a record. When it returns nil, the record is as safe as the medium. It
// reports whether so much has come that Capture should be called soon. The errors are
// ErrFull, ErrBusy, ErrClosed, ErrTooLarge, and those of the file. See CoarseClock for
// what becomes of its time.
func (j *Journal) Append(r *Record, hint *Hint) (soon bool, err error) {
	if j.tick != nil {
		r.Time = j.tick.next(r.Time)
	}
	s, err := j.lock(r.Leaf, hint)
	if err != nil {
		return false, err
	}
	soon, err = j.appendTo(s, r)
	s.mu.Unlock()
	return soon, err
}

func (j *Journal) appendTo(s *shard, r *Record) (soon bool, err error) {
	if s.closed {
		return false, ErrClosed
	}
	size := r.size()
	if size > maxPart {
		if size, err = j.appendChain(s, r); err != nil {
			return false, err
		}
	} else {
		if s.seg == nil || !s.seg.fits(size) {
			if err := j.nextSegment(s); err != nil {
				return false, err
			}
		}
		if size, err = s.seg.append(r); err != nil {
			return false, err
		}
	}
	r.Epoch, r.Base = j.epoch, s.seg.base
	s.entries.Store(s.entries.Load() + uint64(r.Info.Entries()))
	if r.Info.Spans() > 0 {
		s.spans.Store(s.spans.Load() + 1)
	}
	if s.fresh += size; s.fresh < reportEvery {
		return false, nil
	}
	soon = j.fresh.Add(int64(s.fresh)) >= captureAt
	s.fresh = 0
	return soon, nil
}

// Appended returns the number of entries and spans that were appended. It takes no lock.
func (j *Journal) Appended() (entries, spans uint64) {
	for i := range j.shards {
		entries += j.shards[i].entries.Load()
		spans += j.shards[i].spans.Load()
	}
	return entries, spans
}

// nextSegment gives s, which is locked, an empty segment.
func (j *Journal) nextSegment(s *shard) error {
	seg, err := j.newSegment(s)
	if err != nil {
		return err
	}
	j.install(s, seg)
	return nil
}

// install makes seg the segment of s.
func (j *Journal) install(s *shard, seg *Segment) {
	if s.seg != nil {
		if j.o.Evict != nil {
			j.mu.Lock()
			j.filled = append(j.filled, s.seg)
			j.mu.Unlock()
		} else {
			s.full = append(s.full, s.seg)
		}
	}
	s.seg = seg
	s.base += SegmentSize
}

// newSegment returns the next segment for s.
func (j *Journal) newSegment(s *shard) (*Segment, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.take(s.stream, s.base, j.limit)
}

// take returns a segment for a shard, unless limit segments are in use. It evicts others
// if it may. The lock is held.
func (j *Journal) take(stream uint32, base uint64, limit int) (*Segment, error) {
	for {
		for int(j.used.Load()) >= limit {
			if !j.evict() {
				return nil, ErrFull
			}
		}
		seg, err := j.pool.take(stream, base)
		if err == nil {
			j.used.Add(1)
			return seg, nil
		}
		if j.o.Evict == nil || len(j.filled) == 0 {
			return nil, err
		}
		// The file system has no room for more segments.
		j.limit = max(1, int(j.used.Load()))
		limit = j.limit
	}
}

// evict gives up the oldest segment that is full, if it may. The lock is held.
func (j *Journal) evict() bool {
	if j.o.Evict == nil || len(j.filled) == 0 {
		return false
	}
	seg := j.filled[0]
	j.filled[0] = nil
	j.filled = j.filled[1:]
	if seg.stream == StreamRetained {
		j.retained--
	}
	j.o.Evict(j, seg)
	j.used.Add(-1)
	j.pool.release(seg)
	return true
}

// appendChain appends a record that is larger than a segment, in parts.
func (j *Journal) appendChain(s *shard, r *Record) (size int, err error) {
	b := make([]byte, r.size())
	flat := Segment{mem: append(b, make([]byte, 8)...), stream: s.stream}
	flat.copyRecord(0, len(b), r, 0)
	b = flat.mem[8:len(b)] // time, info and data
	const payload = maxPart - 8
	n := (len(b) + payload - 1) / payload
	limit, most := j.o.Segments+j.o.Extra, j.o.Extra
	if j.o.Evict != nil { // a large record must not take the room of all others
		limit, most = j.limit, j.limit/2
	}
	if n > most {
		return 0, ErrTooLarge
	}
	segs := make([]*Segment, 0, n)
	base := s.base
	for range n {
		j.mu.Lock()
		seg, err := j.take(s.stream, base, limit)
		j.mu.Unlock()
		if err != nil {
			j.giveBack(segs)
			return 0, err
		}
		segs, base = append(segs, seg), base+SegmentSize
	}
	for i, seg := range segs {
		chain := 0
		if i > 0 {
			chain |= chainRest
		}
		if i < n-1 {
			chain |= chainMore
		}
		if err := seg.appendPart(b[i*payload:min((i+1)*payload, len(b))], chain); err != nil {
			j.giveBack(segs)
			return 0, err
		}
	}
	segs[0].count(r)
	for _, seg := range segs {
		seg.Last = max(seg.Last, r.Time)
		j.install(s, seg)
	}
	return len(b) + 8*n, nil
}

// giveBack gives up segments whose records are not to be read.
func (j *Journal) giveBack(segs []*Segment) {
	for _, seg := range segs {
		seg.void()
	}
	j.Release(segs)
}

// Release gives segments back whose records are not needed any more, not even by the
// last checkpoint.
func (j *Journal) Release(segs []*Segment) {
	if len(segs) == 0 {
		return
	}
	j.used.Add(-int64(len(segs)))
	for _, seg := range segs {
		j.pool.release(seg)
	}
}

// Checkpoint makes data the checkpoint that a reader finds. Only one goroutine may call
// it. There are MaxCheckpoint bytes of room.
func (j *Journal) Checkpoint(data []byte) error { return j.pool.checkpoint(data) }

// A Held is a segment up to an end.
type Held struct {
	Segment *Segment
	End     int
}

// Hold calls locked, and then fn with the segments of an evicting journal, the oldest
// first. While locked runs nobody appends, and what is appended later has a greater Epoch,
// which locked gets. While fn runs no segment is evicted.
func (j *Journal) Hold(locked func(epoch uint32), fn func([]Held)) {
	held := make([]Held, 0, len(j.shards))
	for i := range j.shards {
		j.shards[i].mu.Lock()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.epoch++
	for i := range j.shards {
		if seg := j.shards[i].seg; seg != nil {
			held = append(held, Held{seg, int(seg.end)})
		}
	}
	locked(j.epoch)
	for i := range j.shards {
		j.shards[i].mu.Unlock()
	}
	all := make([]Held, 0, len(j.filled)+len(held))
	for _, seg := range j.filled {
		all = append(all, Held{seg, int(seg.end)})
	}
	fn(append(all, held...))
}

// Lock keeps segments from being evicted until Unlock.
func (j *Journal) Lock() { j.mu.Lock() }

// Unlock undoes Lock.
func (j *Journal) Unlock() { j.mu.Unlock() }

// AddFilled adds a segment of StreamRetained to those that are evicted in their turn. The
// journal is locked.
func (j *Journal) AddFilled(seg *Segment) {
	j.filled = append(j.filled, seg)
	j.used.Add(1)
	j.retained++
}

// Used returns how many segments the shards use. It takes no lock.
func (j *Journal) Used() int { return int(j.used.Load()) }

// Limit returns how many segments the shards may use, and how many of those that they use
// are of StreamRetained. The journal is locked.
func (j *Journal) Limit() (limit, retained int) { return j.limit, j.retained }

// CloseShards makes every Append from now on return ErrClosed. It waits for those that
// run.
func (j *Journal) CloseShards() {
	for i := range j.shards {
		s := &j.shards[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

// HasName reports whether the file still has its name and its size.
func (j *Journal) HasName() bool {
	p := j.pool
	if p.f == nil {
		return true
	}
	p.mu.Lock()
	size := headerSize + int64(p.count)*SegmentSize
	p.mu.Unlock()
	fi, err := p.f.Stat()
	if err != nil || fi.Size() < size || !osfile.SameFile(p.f, p.name) {
		return false
	}
	return j.o.Beside == "" || j.isNamed()
}

// isNamed reports whether the file that names the journal is still there, and not that of
// another one.
func (j *Journal) isNamed() bool {
	fi, err := os.Lstat(j.o.Beside)
	// A number of a file is used again at once.
	ours := j.pointer.Load()
	return err == nil && ours != nil && os.SameFile(fi, *ours) && fi.ModTime().Equal((*ours).ModTime())
}

// RemoveNames removes the names that the journal still has. It can be used on.
func (j *Journal) RemoveNames() {
	if j.pool.f == nil {
		return
	}
	if j.o.Beside != "" && j.isNamed() {
		_ = j.pool.noteLost(unneeded)
		_ = os.Remove(j.o.Beside)
	}
	j.pointer.Store(nil)
	if osfile.SameFile(j.pool.f, j.pool.name) {
		_ = os.Remove(j.pool.name)
	}
}

// Sync makes the file survive a loss of power.
func (j *Journal) Sync() error {
	if j.pool.f == nil {
		return nil
	}
	return j.pool.f.Sync()
}

// Close unmaps and closes the file, which stays. No segment may be used any more.
func (j *Journal) Close() error {
	if j.pool.f == nil {
		return nil
	}
	j.pool.unmap()
	return closeFile(j.pool.f)
}

// Remove is Close, and removes the file.
func (j *Journal) Remove() error {
	if j.pool.f == nil {
		return nil
	}
	var err error
	if j.o.Beside != "" && j.isNamed() { // first: one that names no journal says that records are lost
		_ = j.pool.noteLost(unneeded) // else it stays for a day if this process dies now
		err = os.Remove(j.o.Beside)
	}
	j.pool.unmap()
	if osfile.SameFile(j.pool.f, j.pool.name) {
		err = errors.Join(err, osfile.Remove(j.pool.f, j.pool.name))
	}
	return errors.Join(err, closeFile(j.pool.f))
}
