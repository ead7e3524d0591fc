// Package segment keeps records in a file that is mapped into memory, so that
// what was put there outlives the process at the price of a copy.
//
// # Layout
//
// All numbers are little endian. The header comes first, segments follow.
//
//	header {            // 64 KiB
//		magic    [8]byte // "ENTRACEB"
//		version  uint32  // 1
//		size     uint32  // of a segment
//		...
//		slots    [2]checkpoint at 1024 and 2560, up to 1536 bytes each
//	}
//
//	checkpoint {
//		commit   uint64 // see record
//		sequence uint64 // the greater one of two is in force
//		data     []byte // the user's
//	}
//
//	segment {           // 64 KiB
//		commit   uint64 // of the next two
//		base     uint64 // position of the segment in its stream
//		stream   uint64
//		records  []record
//	}
//
//	record {            // a multiple of 8 bytes
//		commit   uint64 // low half: size in bytes with this word, high half: checksum
//		data     []byte
//	}
//
// A commit word is written last, in one store, after the word behind the record
// was set to zero: a reader takes records until it meets a zero, and never meets
// what an earlier use of the segment has left. The checksum depends on where a
// record lies. It is there for what a loss of power leaves; a process that is
// killed leaves whole words in order.
//
// A stream is a sequence of records in segments. The position of a record is its
// segment's base and its offset in it. Bases of a stream grow.
package segment

import "math/bits"

// Size is the size of a segment in bytes.
const Size = 64 << 10

const (
	headerSize = Size // a multiple of every page size
	slotAt     = 1024
	slotSize   = 1536
	numSlots   = 2

	// First is the offset of the first record in a segment.
	First = 24

	// MaxRecord is the size of the largest record, with its commit word.
	MaxRecord = Size - First - 8

	// MaxCheckpoint is the size of the data of the largest checkpoint.
	MaxCheckpoint = slotSize - 24

	version = 1
)

var magic = [8]byte{'E', 'N', 'T', 'R', 'A', 'C', 'E', 'B'}

const (
	k0 = 0x9e3779b97f4a7c15
	k1 = 0xd1342543de82ef95
	k2 = 0xaf251af3b0f025b5
)

func word(b []byte, i int) uint64 {
	_ = b[i+7]
	return uint64(b[i]) | uint64(b[i+1])<<8 | uint64(b[i+2])<<16 | uint64(b[i+3])<<24 |
		uint64(b[i+4])<<32 | uint64(b[i+5])<<40 | uint64(b[i+6])<<48 | uint64(b[i+7])<<56
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// Sum returns the checksum of b, whose length is a multiple of 8. It takes about
// as long as copying b: four lanes keep the multiplier busy.
func Sum(b []byte) uint64 {
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

// commitWord returns the commit word of a record of n bytes with that checksum at
// that place.
func commitWord(sum, place uint64, n int) uint64 {
	return fold(sum^k2, place^k0)&^0xffff_ffff | uint64(n)
}

// place tells a position in one stream from the same one in another.
func place(stream, position uint64) uint64 { return position<<8 ^ stream }
