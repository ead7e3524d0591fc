package segment

import (
	"encoding/binary"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/entrace-go/entrace/internal/mapfile"
	"github.com/entrace-go/entrace/internal/osfile"
)

// A Segment is a part of a stream that is being written. It is not safe for
// concurrent use, but that what lies before an end can be read meanwhile.
//
// It takes one cache line, as what has several goroutines write to it goes from one
// processor to the other line by line.
type Segment struct {
	// Fresh, Ends and Last are the user's, to count what is in the segment and to
	// note when the last of it was.
	Fresh Counts
	Last  int64
	Ends  uint16

	mapped bool
	end    int32
	mem    []byte
	stream uint32
	used   uint32 // when it began last, in seconds since the program did; 0: never
	base   uint64
}

// Counts are of entries and spans in records.
type Counts struct{ Entries, Spans uint32 }

// writtenBack is after how many seconds the system may have written pages to disk,
// which then are to be faulted in again before they can be written to. Linux looks
// for such pages every 5 s.
const writtenBack = 5

var began = time.Now()

// start makes s, which may have been used before, an empty part of a stream.
func (s *Segment) start(stream uint32, base uint64) error {
	s.stream, s.base, s.end, s.Fresh, s.Ends, s.Last = stream, base, First, Counts{}, 0, math.MinInt64
	if !s.mapped {
		return nil
	}
	now := uint32(time.Since(began)/time.Second) + 1
	if s.used == 0 || now-s.used >= writtenBack {
		osfile.Populate(s.mem)
	}
	s.used = now
	return mapfile.Guard(s.mem, func() {
		store(s.mem, 0, 0)
		store(s.mem, First, 0)
		binary.LittleEndian.PutUint64(s.mem[8:], base)
		binary.LittleEndian.PutUint64(s.mem[16:], uint64(stream))
		store(s.mem, 0, commitWord(Sum(s.mem[8:First]), place(uint64(stream), base), First))
	})
}

// store is one store to a word that is aligned.
func store(b []byte, i int, w uint64) {
	if hostIsBig {
		w = swap(w)
	}
	atomic.StoreUint64((*uint64)(unsafe.Pointer(&b[i])), w)
}

var hostIsBig = func() bool {
	n := uint16(1)
	return *(*byte)(unsafe.Pointer(&n)) == 0
}()

func swap(w uint64) uint64 {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], w)
	return binary.LittleEndian.Uint64(b[:])
}

// Void makes s unreadable.
func (s *Segment) Void() {
	if s.mapped {
		_ = mapfile.Guard(s.mem, func() { store(s.mem, 0, 0) }) // a page that is gone is unreadable
	}
}

// Stream returns the stream that s is a part of.
func (s *Segment) Stream() uint64 { return uint64(s.stream) }

// Base returns the position of the segment in its stream.
func (s *Segment) Base() uint64 { return s.base }

// End returns the offset behind the last record.
func (s *Segment) End() int { return int(s.end) }

// Fits reports whether a record of n bytes, a multiple of 8, has room.
func (s *Segment) Fits(n int) bool { return int(s.end)+n+8 <= Size }

// Append adds a record that Fits. Its first 8 bytes are room for the commit word,
// sum is the checksum of the others. The error is a fault of the map.
func (s *Segment) Append(record []byte, sum uint64) error {
	at, n := int(s.end), len(record)
	w := commitWord(sum, place(uint64(s.stream), s.base+uint64(at)), n)
	if s.mapped {
		if err := s.copyIn(at, record, w); err != nil {
			return err
		}
	} else {
		copy(s.mem[at+8:], record[8:])
		binary.LittleEndian.PutUint64(s.mem[at:], w)
	}
	s.end = int32(at + n)
	return nil
}

// Place lets fill put a record of at most so many bytes, which Fits, in its place.
// It returns the record's size, a multiple of 8, whose first 8 bytes it leaves to
// the commit word. The error is a fault of the map; a panic of fill goes through,
// and either leaves nothing.
func (s *Segment) Place(most int, fill func(b []byte) int) error {
	if s.mapped {
		return mapfile.Guard(s.mem, func() { s.place(most, fill) })
	}
	s.place(most, fill)
	return nil
}

func (s *Segment) place(most int, fill func(b []byte) int) {
	at := int(s.end)
	b := s.mem[at : at+most : at+most]
	n := fill(b)
	b = b[:n]
	w := commitWord(Sum(b[8:]), place(uint64(s.stream), s.base+uint64(at)), n)
	binary.LittleEndian.PutUint64(s.mem[at+n:], 0)
	binary.LittleEndian.PutUint64(b, w)
	s.end = int32(at + n)
}

// copyIn copies a record to its place. The order of the stores is that of the
// program, which is what a process that is killed leaves, as its processor is done
// with those before: no barrier has to wait for them.
func (s *Segment) copyIn(at int, record []byte, w uint64) error {
	return mapfile.Guard(s.mem, func() {
		binary.LittleEndian.PutUint64(s.mem[at+len(record):], 0)
		copy(s.mem[at+8:], record[8:])
		binary.LittleEndian.PutUint64(s.mem[at:], w)
	})
}

// Record returns the record at off, without its commit word, and the offset of
// the next. The end is one that End returned. The bytes are gone when the segment
// is released, and must be read under [Segment.Guard].
func (s *Segment) Record(off, end int) (data []byte, next int) {
	n := int(uint32(binary.LittleEndian.Uint64(s.mem[off:])))
	if n < 8 || n > end-off {
		return nil, end // something else has written to the map
	}
	return s.mem[off+8 : off+n : off+n], off + n
}

// Copy appends what lies before end to b, for [Next]. The error is a fault of the
// map.
func (s *Segment) Copy(b []byte, end int) ([]byte, error) {
	err := s.Guard(func() { b = append(b, s.mem[First:end]...) })
	return b, err
}

// Next returns the first record in b, which Copy has made, without its commit
// word, and what is behind it; nil when there is none.
func Next(b []byte) (data, rest []byte) {
	if len(b) < 8 {
		return nil, nil
	}
	n := uint64(binary.LittleEndian.Uint32(b))
	if n < 8 || n > uint64(len(b)) {
		return nil, nil // something else has written to the map
	}
	return b[8:n:n], b[n:]
}

// Guard runs fn, which reads records of s, so that a page that is gone is an
// error.
func (s *Segment) Guard(fn func()) error {
	if !s.mapped {
		fn()
		return nil
	}
	return mapfile.Guard(s.mem, fn)
}
