package journal

import (
	"encoding/binary"
	"math"
	"os"
	"time"

	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// A Segment is a part of 64 KiB of a stream. The lock of its shard, or the owner of its stream, guards it. A
// goroutine that has read end under that lock may read the bytes before end without the lock.
type Segment struct {
	// Entries and Spans are the numbers of entries and spans that the records count for. Last is the latest time of a
	// record.
	Entries, Spans uint32
	Last           int64
	// Ends is the number of records with Record.End.
	Ends uint32

	end    int32
	stream uint32
	base   uint64
	mem    []byte
	pool   *pool
	off    int64  // offset of the segment in the file
	used   uint32 // when begin was last called, in seconds since the start of the program, plus 1; 0: never

	// shared has the last few Shared that were stored in the segment, with their offsets.
	shared     [4]sharedAt
	nextShared uint8
}

type sharedAt struct {
	of *Shared
	at uint32
}

// A Shared holds bytes that several records have in common. A segment stores them only once.
type Shared struct{ bytes []byte }

// NewShared returns a Shared with the bytes b. The caller must no longer change b.
func NewShared(b []byte) *Shared { return &Shared{b} }

// Bytes returns the bytes. The caller must not change them.
func (s *Shared) Bytes() []byte { return s.bytes }

// A Record is the argument of Append.
type Record struct {
	Time int64
	Info Info
	// Data begins with HeadSize reserved bytes, which the journal fills. The journal may also overwrite the bytes
	// between the length and the capacity of Data.
	Data []byte
	// With, if not nil, has shared bytes. Data[Split:] begins with SharedSize reserved bytes, in which the journal
	// stores a reference to them.
	With  *Shared
	Split int
	// If HasMark is set, Mark becomes the last word of the data.
	Mark    uint64
	HasMark bool
	// Leaf says that no record refers to this one. End says that Segment.Ends counts this record.
	Leaf, End bool

	// Append sets Epoch to the number of calls of Hold so far.
	Epoch uint32
	// Append sets Base to the base of the segment that holds the record.
	Base uint64
}

// size returns the size of the record including all its shared bytes.
func (r *Record) size() int {
	n := len(r.Data)
	if r.With != nil {
		n += len(r.With.bytes)
	}
	return (n+7)&^7 + r.markSize()
}

func (r *Record) markSize() int {
	if r.HasMark {
		return 8
	}
	return 0
}

var programStart = time.Now()

// writtenBack is the number of seconds after which the kernel may have written back the pages of a segment. The
// next write to each page would then fault, so begin faults in all pages at once.
const writtenBack = 5

// begin makes s an empty segment of the given stream.
func (s *Segment) begin(stream uint32, base uint64) error {
	s.Entries, s.Spans, s.Ends, s.Last = 0, 0, 0, math.MinInt64
	s.stream, s.base, s.end = stream, base, First
	s.shared, s.nextShared = [4]sharedAt{}, 0
	if s.pool.medium == Mapped {
		now := uint32(time.Since(programStart)/time.Second) + 1
		if s.used == 0 || now-s.used >= writtenBack {
			osfile.Populate(s.mem)
		}
		s.used = now
	}
	return s.change(0, First+8, func() {
		b := s.mem
		clear(b[:8])
		binary.LittleEndian.PutUint64(b[First:], 0)
		binary.LittleEndian.PutUint64(b[8:], base)
		binary.LittleEndian.PutUint64(b[16:], uint64(stream))
		binary.LittleEndian.PutUint64(b, commitWord(checksum(b[8:First]), place(uint64(stream), base), First))
	})
}

// pageSize is the smallest size of a page. A kill can interrupt a pwrite only at a page boundary.
const pageSize = 4 << 10

// change runs fn, which changes the n bytes of s at off, and writes them to the medium. After a kill, either all
// these bytes are changed, or the first word of them is unchanged.
func (s *Segment) change(off, n int, fn func()) error {
	switch s.pool.medium {
	case Mapped:
		return mapfile.Guard(s.mem, fn)
	case Written:
		fn()
		if off/pageSize != (off+n-1)/pageSize {
			if _, err := s.pool.f.WriteAt(s.mem[off+8:off+n], s.off+int64(off)+8); err != nil {
				return err
			}
			n = 8
		}
		_, err := s.pool.f.WriteAt(s.mem[off:off+n], s.off+int64(off))
		return err
	}
	fn()
	return nil
}

// Stream returns the number of the stream to which s belongs.
func (s *Segment) Stream() uint32 { return s.stream }

// Base returns the position of the segment in its stream.
func (s *Segment) Base() uint64 { return s.base }

// End returns the offset after the last record.
func (s *Segment) End() int { return int(s.end) }

// fits reports whether s has room for a record of n bytes.
func (s *Segment) fits(n int) bool { return int(s.end)+n+8 <= SegmentSize }

// sharedIn returns the offset of the bytes of w in s, or 0 if s does not have them.
func (s *Segment) sharedIn(w *Shared) uint32 {
	for i := range s.shared {
		if s.shared[i].of == w {
			return s.shared[i].at
		}
	}
	return 0
}

// append appends a record and returns its size. s must have room for the record with all its shared bytes.
func (s *Segment) append(r *Record) (int, error) {
	at := int(s.end)
	n := len(r.Data)
	sharedOff := uint32(0)
	if r.With != nil {
		sharedOff = s.sharedIn(r.With)
		if sharedOff == 0 {
			n += len(r.With.bytes)
		}
	}
	n = (n+7)&^7 + r.markSize()
	err := s.change(at, n+8, func() { s.copyRecord(at, n, r, sharedOff) })
	if err != nil {
		return 0, err
	}
	if r.With != nil && sharedOff == 0 {
		s.shared[s.nextShared] = sharedAt{r.With, uint32(at + r.Split + SharedSize)}
		s.nextShared = (s.nextShared + 1) % uint8(len(s.shared))
	}
	s.count(r)
	s.end = int32(at + n)
	return n, nil
}

func (s *Segment) count(r *Record) {
	s.Entries += uint32(r.Info.Entries())
	s.Spans += uint32(r.Info.Spans())
	s.Last = max(s.Last, r.Time)
	if r.End {
		s.Ends++
	}
}

// copyRecord copies a record of n bytes to the offset at. After a kill, the segment has the stores so far, in
// program order.
func (s *Segment) copyRecord(at, n int, r *Record, sharedOff uint32) {
	b := s.mem[at : at+n+8 : at+n+8]
	binary.LittleEndian.PutUint64(b[n:], 0)
	if (r.With == nil || sharedOff != 0) && cap(r.Data) >= n {
		// The record needs no shared bytes after it. Use r.Data for the checksum, because it is in the CPU cache.
		d := r.Data[:n]
		clear(d[len(r.Data):])
		if r.With != nil {
			r.With.refer(d[r.Split:], sharedOff)
		}
		s.commit(b, d, at, r)
		return
	}
	binary.LittleEndian.PutUint64(b[n-r.markSize()-8:], 0) // clear the padding
	if r.With == nil {
		copy(b, r.Data)
	} else {
		end := r.Split + SharedSize
		copy(b, r.Data[:end])
		r.With.refer(b[r.Split:], sharedOff)
		if sharedOff == 0 {
			copy(b[end+copy(b[end:], r.With.bytes):], r.Data[end:])
		} else {
			copy(b[end:], r.Data[end:])
		}
	}
	s.commit(b, b[:n], at, r)
}

// refer writes a reference to the bytes of s to b. The bytes are at the offset off in the segment; 0 means that
// they follow the reference.
func (s *Shared) refer(b []byte, off uint32) {
	binary.LittleEndian.PutUint32(b, off)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(s.bytes)))
}

// commit completes the record d at the offset at of the segment. b is the memory at that offset. If d is not in b,
// commit copies it there. It writes the commit word last.
func (s *Segment) commit(b, d []byte, at int, r *Record) {
	n := len(d)
	if r.HasMark {
		binary.LittleEndian.PutUint64(d[n-8:], r.Mark)
	}
	binary.LittleEndian.PutUint64(d[8:], uint64(r.Time))
	binary.LittleEndian.PutUint64(d[16:], uint64(r.Info))
	w := commitWord(checksum(d[8:]), place(uint64(s.stream), s.base+uint64(at)), n)
	if &d[0] != &b[0] {
		copy(b[8:n], d[8:])
	}
	binary.LittleEndian.PutUint64(b, w)
}

// appendPart appends a part of a chain.
func (s *Segment) appendPart(b []byte, chain int) error {
	at := int(s.end)
	n := 8 + len(b)
	err := s.change(at, n+8, func() {
		m := s.mem[at : at+n+8]
		clear(m[:8])
		binary.LittleEndian.PutUint64(m[n:], 0)
		copy(m[8:], b)
		binary.LittleEndian.PutUint64(m, commitWord(checksum(m[8:n]), place(uint64(s.stream), s.base+uint64(at)), n|chain))
	})
	if err == nil {
		s.end = int32(at + n)
	}
	return err
}

// read returns the bytes of s before the offset end. It copies the bytes of a mapped segment to buf. The first
// bytes of buf, whose number is have, are already copied. The error is a page fault in the mapping.
func (s *Segment) read(buf []byte, have, end int) ([]byte, error) {
	if s.pool.medium != Mapped {
		return s.mem[:end:end], nil
	}
	if cap(buf) < SegmentSize {
		buf = buffers.Get().(*[SegmentSize]byte)[:]
		have = 0
	}
	buf = buf[:end]
	err := mapfile.Guard(s.mem, func() { copy(buf[have:], s.mem[have:end]) })
	return buf, err
}

// Copy appends the first end bytes of s to b. The error is a page fault in the mapping.
func (s *Segment) Copy(b []byte, end int) ([]byte, error) {
	if s.pool.medium != Mapped {
		return append(b, s.mem[:end]...), nil
	}
	err := mapfile.Guard(s.mem, func() { b = append(b, s.mem[:end]...) })
	return b, err
}

func closeFile(f *os.File) error { return osfile.Ignore(f.Close(), os.ErrClosed) }
