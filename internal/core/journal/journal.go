package journal

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
)

var (
	// ErrFull is returned when no segment is free.
	ErrFull = errors.New("the journal is full")
	// ErrBusy is returned if a shard was locked for too long, because the disk does not respond.
	ErrBusy = errors.New("the disk of the journal does not respond")
	// ErrClosed is returned after CloseShards.
	ErrClosed = errors.New("the journal is closed")
	// ErrTooLarge is returned for a record that is too large even for a chain.
	ErrTooLarge = errors.New("the record is too large for the journal")
)

// Options describe a journal.
type Options struct {
	Medium Medium
	// Name is the name of the journal's file, which New creates. It must not exist. It is unused for Heap.
	Name string
	// Beside is the name of the small file that says where the journal is, or "" if no such file is needed.
	Beside string
	// Segments is the largest number of segments for the shards. Extra is the number of additional segments for
	// other streams and for large records.
	Segments, Extra int
	// Least is only used with Evict. If there is not enough memory for Segments segments, the journal gets fewer,
	// but at least Least. 0 means that it never gets fewer than Segments.
	Least int
	// MaxWait is how long Append waits for the lock of a shard of a Written journal.
	MaxWait time.Duration
	// Evict, if set, lets the shards reuse the oldest full segment when all segments are in use. Evict is called
	// with this segment before it is reused, while the journal is locked as by the method Lock. It must not append
	// to a shard.
	Evict func(*Journal, *Segment)
}

// A Journal stores records. It is safe for concurrent use except where a method says
// otherwise.
type Journal struct {
	o    Options
	pool *pool

	shards []shard // the shard of the spans, then the leaf shards
	tick   *tick   // nil without CoarseClock
	hints  atomic.Uint32
	epoch  uint32       // written with the locks of all shards, read with the lock of one
	fresh  atomic.Int64 // approximate number of bytes that were appended since the last Capture
	hurry  atomic.Bool  // see SetHurry

	pointer  atomic.Pointer[os.FileInfo] // describes the file Beside; nil: that file does not name this journal
	replaces string                      // the name that Replace will give to the journal's file

	mu sync.Mutex // a goroutine that has locked a shard may lock mu; one that has locked mu must not lock a shard

	used     atomic.Int64 // number of segments of the shards; also read without the lock
	limit    int          // the largest allowed value of used
	filled   []*Segment   // with Evict: the full segments, the oldest first
	retained int          // how many segments in filled are of StreamRetained
}

// A shard is a part of a journal with its own lock. Its first cache line has the fields that every append changes.
type shard struct {
	mu sync.Mutex

	closed bool
	stream uint32
	seg    *Segment
	fresh  int // appended bytes that were not added to Journal.fresh yet
	base   uint64
	full   []*Segment // without Evict: the segments before seg that Capture has not seen

	// The number of appended entries and spans. They are read without locking mu.
	entries, spans atomic.Uint64

	_ [32]byte // makes the size of a shard a multiple of a cache line
}

const (
	// captureAt is the number of appended bytes at which Append asks for a Capture. A shard reports its bytes only
	// after reportEvery of them. With the unreported bytes of all shards, the total is still below 256 KiB.
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

// Segments returns the largest number of segments for the shards.
func (j *Journal) Segments() int { return j.o.Segments }

// MaxWait returns how long Append waits for the lock of a shard of a Written journal.
func (j *Journal) MaxWait() time.Duration { return j.o.MaxWait }

// Medium returns the medium of the segments.
func (j *Journal) Medium() Medium { return j.o.Medium }

// Name returns the name of the journal's file, or "" for Heap.
func (j *Journal) Name() string { return j.pool.name }

// A Hint is the number of the shard to which a caller last appended. A caller with its own Hint seldom waits for
// other callers. Two goroutines must not use a Hint at the same time.
type Hint uint32

// NewHint returns a Hint for a shard that few other callers use.
func (j *Journal) NewHint() Hint { return Hint(j.hints.Add(1)) }

// SetHurry sets whether Append waits for a shard for at most a millisecond, instead of MaxWait. The caller sets it
// after an append has waited for MaxWait in vain.
func (j *Journal) SetHurry(on bool) { j.hurry.Store(on) }

// lock locks a shard and returns it. For a span, this is the first shard. For a leaf, it is the shard that hint
// names, or the next unlocked leaf shard if that shard is locked.
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
		s.mu.Lock() // no goroutine holds this lock while it writes a file
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

// Append appends a record. If it returns nil, the record survives what the journal's medium survives. If soon is true,
// many bytes were appended since the last Capture, and the reader should call Capture. The errors are ErrFull,
// ErrBusy, ErrClosed, ErrTooLarge, and errors of the file. With CoarseClock, Append may change the time of the
// record.
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
		size, err = j.appendChain(s, r)
		if err != nil {
			return false, err
		}
	} else {
		if s.seg == nil || !s.seg.fits(size) {
			if err := j.nextSegment(s); err != nil {
				return false, err
			}
		}
		size, err = s.seg.append(r)
		if err != nil {
			return false, err
		}
	}
	r.Epoch, r.Base = j.epoch, s.seg.base
	s.entries.Store(s.entries.Load() + uint64(r.Info.Entries()))
	if r.Info.Spans() > 0 {
		s.spans.Store(s.spans.Load() + 1)
	}
	s.fresh += size
	if s.fresh < reportEvery {
		return false, nil
	}
	soon = j.fresh.Add(int64(s.fresh)) >= captureAt
	s.fresh = 0
	return soon, nil
}

// Appended returns how many entries and spans were appended. It takes no lock.
func (j *Journal) Appended() (entries, spans uint64) {
	for i := range j.shards {
		entries += j.shards[i].entries.Load()
		spans += j.shards[i].spans.Load()
	}
	return entries, spans
}

// nextSegment makes an empty segment the current segment of s. The caller has locked s.
func (j *Journal) nextSegment(s *shard) error {
	j.mu.Lock()
	seg, err := j.take(s.stream, s.base, j.limit)
	j.mu.Unlock()
	if err != nil {
		return err
	}
	j.install(s, seg)
	return nil
}

// install makes seg the current segment of s.
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

// take returns an empty segment for a shard. If limit segments are in use, it first evicts a segment, or returns
// ErrFull if it cannot. The caller holds j.mu.
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
		// There is no space for more segments. Evict from now on.
		j.limit = max(1, int(j.used.Load()))
		limit = j.limit
	}
}

// evict frees the oldest full segment. It returns false if there is no such segment, or if the journal does not
// evict. The caller holds j.mu.
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

// appendChain appends a record that is larger than a segment, as a chain of parts.
func (j *Journal) appendChain(s *shard, r *Record) (size int, err error) {
	b := make([]byte, r.size())
	flat := Segment{mem: append(b, make([]byte, 8)...), stream: s.stream}
	flat.copyRecord(0, len(b), r, 0)
	b = flat.mem[8:len(b)] // all bytes after the commit word
	const payload = maxPart - 8
	n := (len(b) + payload - 1) / payload
	limit, most := j.o.Segments+j.o.Extra, j.o.Extra
	if j.o.Evict != nil { // a large record must not evict all other records
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

// giveBack frees the segments of a chain that could not be appended completely. First it makes them unreadable.
func (j *Journal) giveBack(segs []*Segment) {
	for _, seg := range segs {
		// Ignore the error: if the page cannot be written, nobody can read it.
		_ = seg.change(0, 8, func() { clear(seg.mem[:8]) })
	}
	j.Release(segs)
}

// Release frees segments for reuse. Neither the caller nor recovery from the last checkpoint may need their
// records.
func (j *Journal) Release(segs []*Segment) {
	if len(segs) == 0 {
		return
	}
	j.used.Add(-int64(len(segs)))
	for _, seg := range segs {
		j.pool.release(seg)
	}
}

// Checkpoint makes data the newest checkpoint. It has at most MaxCheckpoint bytes. Only one goroutine at a time may
// call Checkpoint.
func (j *Journal) Checkpoint(data []byte) error { return j.pool.checkpoint(data) }

// A Held is a segment with the number of bytes that may be read from it.
type Held struct {
	Segment *Segment
	End     int
}

// Hold first calls the function locked, during which nothing can be appended. Its argument is the Epoch of all
// records that are appended later; earlier records have a smaller Epoch. Then Hold calls fn with the segments that
// have records, the full ones first, the oldest first. While fn runs, no segment is evicted. The journal must have
// Evict.
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

// Lock prevents the eviction of segments until Unlock.
func (j *Journal) Lock() { j.mu.Lock() }

// Unlock undoes Lock.
func (j *Journal) Unlock() { j.mu.Unlock() }

// AddFilled adds a segment of StreamRetained to the full segments, which the journal evicts in the order in which
// they became full. The caller has called Lock.
func (j *Journal) AddFilled(seg *Segment) {
	j.filled = append(j.filled, seg)
	j.used.Add(1)
	j.retained++
}

// Used returns how many segments the shards use. It takes no lock.
func (j *Journal) Used() int { return int(j.used.Load()) }

// Shards returns the number of shards. Each shard may have a segment that is not full.
func (j *Journal) Shards() int { return len(j.shards) }

// Limit returns how many segments the shards may use, and how many of the full segments are of StreamRetained. The
// caller has called Lock.
func (j *Journal) Limit() (limit, retained int) { return j.limit, j.retained }

// CloseShards makes every later Append return ErrClosed. It waits for the calls of Append that are running.
func (j *Journal) CloseShards() {
	for i := range j.shards {
		s := &j.shards[i]
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
	}
}

// HasName reports whether the file still has its name and its size, and whether the file Beside still names it. If a
// process that has given up rights may not look up the name of the file any more, HasName relies on IsLinked.
func (j *Journal) HasName() bool {
	p := j.pool
	if p.f == nil {
		return true
	}
	return j.IsLinked() && osfile.HasName(p.f, p.name) && (j.o.Beside == "" || j.isNamed())
}

// IsLinked reports whether the file still has a name, whatever it is, and its size. The journal must not be on the
// heap.
func (j *Journal) IsLinked() bool {
	p := j.pool
	p.mu.Lock()
	size := headerSize + int64(p.count)*SegmentSize
	p.mu.Unlock()
	fi, err := p.f.Stat()
	return err == nil && fi.Size() >= size && !osfile.IsRemoved(p.f)
}

// isNamed reports whether the file o.Beside still exists and is the file that pointTo wrote.
func (j *Journal) isNamed() bool {
	ours := j.pointer.Load()
	if ours == nil {
		return false
	}
	fi, err := os.Lstat(j.o.Beside)
	// Also compare the times, because the system soon reuses the inode number of a removed file.
	return err == nil && os.SameFile(fi, *ours) && fi.ModTime().Equal((*ours).ModTime())
}

// RemoveNames removes the names that the journal still has. The journal stays usable.
func (j *Journal) RemoveNames() {
	if j.pool.f == nil {
		return
	}
	if j.isNamed() {
		_ = j.pool.noteLost(unneeded)
		if os.Remove(j.o.Beside) != nil {
			return
		}
	}
	j.pointer.Store(nil)
	if osfile.SameFile(j.pool.f, j.pool.name) {
		_ = os.Remove(j.pool.name)
	}
}

// Sync makes the file survive a power failure.
func (j *Journal) Sync() error {
	if j.pool.f == nil {
		return nil
	}
	return j.pool.f.Sync()
}

// Close unmaps and closes the file, but does not remove it. The caller must not use a segment
// afterwards.
func (j *Journal) Close() error {
	if j.pool.f == nil {
		return nil
	}
	j.pool.unmap()
	return closeFile(j.pool.f)
}

// Remove closes the file as Close does, and removes it. The caller has made sure that nobody needs its records any
// more. If this process may not remove the file, or cannot find the file that names it, Remove empties the file
// instead: a reader that finds it later finds no records.
func (j *Journal) Remove() error {
	f := j.pool.f
	if f == nil {
		return nil
	}
	var err error
	named := j.pointer.Load() != nil
	if named && j.isNamed() { // first, because a file that names a missing journal says that records were lost
		_ = j.pool.noteLost(unneeded) // so that sweep need not keep the journal for a day if the process dies now
		err = os.Remove(j.o.Beside)
		named = err != nil
	}
	j.pool.unmap()
	if !named && osfile.SameFile(f, j.pool.name) {
		err = osfile.Remove(f, j.pool.name)
		if err == nil {
			return closeFile(f)
		}
	}
	return errors.Join(err, osfile.Ignore(empty(f), os.ErrClosed), closeFile(f))
}

// empty removes the records and then the checkpoints of the journal f. The rest of the header stays, because sweep
// needs it.
func empty(f *os.File) error {
	err := f.Truncate(headerSize)
	if err == nil {
		_, err = f.WriteAt(make([]byte, numSlots*slotSize), slotAt)
	}
	return err
}
