// Package journal stores records of many goroutines so that they survive the process,
// and reads them back merged by time.
//
// A [Journal] has several shards. Each shard has its own lock and its own current segment of 64 KiB, so that
// goroutines seldom wait for each other. The first shard has the records to which other records refer, such as
// spans. The other shards have leaves: records to which no record refers, such as log records. Once Append has
// returned, the record is safe. The caller defines the content of a record. The journal knows only the time of the
// record, and how many entries and spans it counts for.
//
// # Media
//
// [Heap] is ordinary memory, which does not survive the process. [Mapped] is a file that is mapped into memory. It
// is for tmpfs only: in another file system, a store to a mapped page can cause a page fault that waits for the
// disk. During that wait, Go runs nothing else on that processor. [Written] is a file in any file system: Append
// writes each record with one pwrite(2), or with two if the record crosses a page boundary. Readers use a copy in
// memory.
//
// # Layout
//
// Numbers are little-endian. The file begins with the header, and the segments follow.
//
//	header {            // 64 KiB
//		magic    [8]byte // "ENTRACEB"
//		version  uint32  // 3
//		size     uint32  // of a segment
//		slots    [2]checkpoint at 1024 and 2560, up to 1536 bytes each
//		beside   text at 4096 // path of the file that names this one; empty: no such file
//	}
//
//	text { length uint32; bytes [length]byte }
//
//	checkpoint {
//		commit   uint64 // see record
//		sequence uint64 // of two valid slots, the one with the greater sequence counts
//		data     []byte // the caller's
//	}
//
//	segment {           // 64 KiB
//		commit   uint64 // commit word of base and stream
//		base     uint64 // position of the segment in its stream
//		stream   uint64
//		records  []record
//	}
//
//	record {            // a multiple of 8 bytes
//		commit   uint64 // bits 0-23: size in bytes with this word, 24-25: chain, 32-63: checksum
//		time     int64  // nanoseconds since 1970
//		info     uint64 // see Info
//		data     []byte
//	}
//
//	shared {            // a part of data, where the caller asked for it
//		offset   uint32 // in the segment; 0: the bytes follow
//		length   uint32
//		bytes    [length]byte // if offset is 0
//	}
//
// The commit word of a record is written last, in one store. Before it, the word after the record is set to zero. A
// reader stops at the first zero word, so it never reads bytes of an earlier use of the segment. If a record lies
// within one page, one pwrite writes the record with its commit word, and a kill cannot interrupt this pwrite. The
// checksum also depends on the position of the record. It detects damage after a power failure.
//
// A stream is a sequence of records in segments. The position of a record is the base of
// its segment plus the offset of the record in the segment. The bases of a stream ascend.
//
// A record that is larger than a segment is a chain. Its bytes after the commit word are split into parts, each in
// its own segment of the stream. Chain bit 24 says that another part follows, bit 25 that a part precedes. Readers
// ignore a chain whose parts are not all there.
package journal

import (
	"encoding/binary"
	"math/bits"
)

// SegmentSize is the size of a segment in bytes.
const SegmentSize = 64 << 10

const (
	headerSize = SegmentSize // a multiple of every page size
	slotAt     = 1024
	slotSize   = 1536
	numSlots   = 2
	lostAt     = 512 // int64: seconds since 1970 when the journal was found to be lost; 0: not lost; 1: see unneeded
	// deviceAt is the offset of a text of at most 24 bytes that ends with a zero byte: the device of the folder of
	// the file that names the journal. An empty text means that the device is unknown.
	deviceAt  = 520
	besideAt  = 4096
	maxBeside = 4096

	// First is the offset of the first record in a segment.
	First = 24

	// HeadSize is the size of the three words before the data of a record: commit, time and info.
	HeadSize = 24

	// SharedSize is the size of a reference to shared bytes.
	SharedSize = 8

	// maxPart is the size of the largest record, or of the largest part of a chain, with its commit word.
	maxPart = SegmentSize - First - 8

	// MaxCheckpoint is the largest size of the data of a checkpoint.
	MaxCheckpoint = slotSize - 24

	// Version is the version of the layout.
	Version = 3
)

// The bits of a commit word.
const (
	sizeMask  = 1<<24 - 1
	chainMore = 1 << 24 // another part follows
	chainRest = 1 << 25 // a part precedes
)

var magic = [8]byte{'E', 'N', 'T', 'R', 'A', 'C', 'E', 'B'}

// The streams of a journal. The streams of the leaf shards have the numbers after StreamSpans. Part of the layout.
const (
	StreamSpans       = 0 // records to which other records refer, in order
	StreamDefinitions = 64
	StreamParked      = 65
	StreamRetained    = 66
	StreamLeft        = 67 // records of open spans whose entries are in earlier files

	maxLeaves = 16
)

// An Info says how many entries and spans a record counts for. It also holds 32 bits
// that the caller defines.
type Info uint64

// MaxEntries is the largest number of entries that one record can count for.
const MaxEntries = 1<<24 - 1

// NewInfo returns an Info of at most MaxEntries entries and at most one span.
func NewInfo(entries, spans int, user uint32) Info {
	return Info(uint64(entries) | uint64(spans)<<24 | uint64(user)<<32)
}

// Entries returns the number of entries.
func (i Info) Entries() int { return int(i & MaxEntries) }

// Spans returns the number of spans.
func (i Info) Spans() int { return int(i >> 24 & 1) }

// User returns the caller's bits.
func (i Info) User() uint32 { return uint32(i >> 32) }

const (
	k0 = 0x9e3779b97f4a7c15
	k1 = 0xd1342543de82ef95
	k2 = 0xaf251af3b0f025b5
)

func word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// checksum returns the checksum of b, whose length is a multiple of 8. It takes about as long as copying b, because
// it multiplies in four independent lanes.
func checksum(b []byte) uint64 {
	x, y := uint64(k0)^uint64(len(b)), uint64(k1)
	if len(b) >= 64 {
		z, w := uint64(k2), uint64(k0)
		for len(b) >= 64 {
			_ = b[63]
			x = fold(word(b, 0)^k1, word(b, 8)^x)
			y = fold(word(b, 16)^k2, word(b, 24)^y)
			z = fold(word(b, 32)^k0, word(b, 40)^z)
			w = fold(word(b, 48)^k1, word(b, 56)^w)
			b = b[64:]
		}
		x, y = x^bits.RotateLeft64(z, 17), y^bits.RotateLeft64(w, 43)
	}
	for len(b) >= 16 {
		x = fold(word(b, 0)^k1, word(b, 8)^x)
		b = b[16:]
	}
	if len(b) >= 8 {
		y = fold(word(b, 0)^k2, y)
	}
	return x ^ bits.RotateLeft64(y, 32)
}

// commitWord returns the commit word of a record of n bytes at the given place. sum is the checksum of the bytes
// after the commit word. The caller may set chain bits in n.
func commitWord(sum, place uint64, n int) uint64 {
	return fold(sum^k2^uint64(n)<<32, place^k0)&^0xffff_ffff | uint64(n)
}

// place returns a number that identifies a position in a stream. Equal positions of different streams have
// different numbers.
func place(stream, position uint64) uint64 { return position<<8 ^ stream }

// partAt returns the size and the chain bits of the record or part at mem[off]. mem is valid up to the offset end.
// ok is false if the size is impossible. partAt does not verify the checksum.
func partAt(mem []byte, off, end int) (n, chain int, ok bool) {
	w := uint32(binary.LittleEndian.Uint64(mem[off:]))
	n, chain = int(w&sizeMask), int(w&^sizeMask)
	return n, chain, n >= 8 && n%8 == 0 && n <= end-off && chain&^(chainMore|chainRest) == 0
}

// isCommitted reports whether the n bytes at mem[off] are a record or part with a correct
// checksum.
func isCommitted(mem []byte, off, n, chain int, stream, base uint64) bool {
	return word(mem, off) == commitWord(checksum(mem[off+8:off+n]), place(stream, base+uint64(off)), n|chain)
}
