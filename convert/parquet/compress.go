package parquet

import (
	"encoding/binary"
	"fmt"

	pq "github.com/parquet-go/parquet-go"
)

// The codecs that are read. The numbers are Parquet's.
const (
	codecNone   = 0
	codecSnappy = 1
	codecZstd   = 6
)

var (
	snappyCodec = &pq.Snappy
	zstdCodec   = &pq.Zstd
)

// decompress returns what src holds, which must be size bytes: in dst if that has
// the room. That the input can hold as much is checked before memory is taken.
func decompress(codec int64, dst, src []byte, size int) (out []byte, err error) {
	// The codecs are other people's code that reads hostile input.
	defer func() {
		if r := recover(); r != nil {
			err = problem(ErrCorrupt, fmt.Sprint("decompression: ", r))
		}
	}()
	var most uint64
	switch codec {
	case codecNone:
		if len(src) != size {
			return nil, problem(ErrCorrupt, "the page is not as long as its header says")
		}
		return append(dst[:0], src...), nil
	case codecSnappy:
		most, _ = binary.Uvarint(src)
		if most > 22*uint64(len(src))+64 {
			return nil, problem(ErrCorrupt, "more than snappy can compress")
		}
	case codecZstd:
		most = zstdLimit(src)
	default:
		return nil, problem(ErrUnsupported, fmt.Sprint("compression codec ", codec))
	}
	if uint64(size) > most || most > maxUncompressed {
		return nil, problem(ErrCorrupt, "the page cannot be as long as its header says")
	}
	if cap(dst) < size {
		dst = make([]byte, 0, size)
	}
	if codec == codecSnappy {
		out, err = snappyCodec.Decode(dst[:0:cap(dst)], src)
	} else {
		out, err = zstdCodec.Decode(dst[:0], src)
	}
	if err != nil {
		return nil, problem(ErrCorrupt, "decompression: "+err.Error())
	}
	if len(out) != size {
		return nil, problem(ErrCorrupt, "the page is not as long as its header says")
	}
	return out, nil
}

// The layout of zstd (RFC 8878).
const (
	zstdMagic     = 0xFD2FB528
	zstdSkippable = 0x184D2A50
	zstdBlock     = 128 << 10 // bytes that a compressed block has at most
)

// zstdLimit returns how many bytes the frames in b hold at most, as far as the
// heads of frames and blocks tell; 0 where they are no frames.
func zstdLimit(b []byte) uint64 {
	var total uint64
	for len(b) > 0 {
		if len(b) < 8 {
			return 0
		}
		m := binary.LittleEndian.Uint32(b)
		if m&^0xf == zstdSkippable {
			n := uint64(binary.LittleEndian.Uint32(b[4:])) + 8
			if n > uint64(len(b)) {
				return 0
			}
			b = b[n:]
			continue
		}
		if m != zstdMagic {
			return 0
		}
		size, rest, ok := zstdFrame(b[4:])
		if !ok {
			return 0
		}
		total += size
		b = rest
	}
	return total
}

// zstdFrame returns the limit of a frame and what is behind it.
func zstdFrame(b []byte) (size uint64, rest []byte, ok bool) {
	flags := b[0]
	single, checksum := flags&0x20 != 0, flags&4 != 0
	head := 1 + [4]int{0, 1, 2, 4}[flags&3]
	content := [4]int{0, 2, 4, 8}[flags>>6]
	if single && content == 0 {
		content = 1
	}
	if !single {
		head++
		// A window beyond 64 MiB would be allocated before it is filled.
		if len(b) < 2 || b[1]>>3 > 16 {
			return 0, nil, false
		}
	}
	if len(b) < head+content {
		return 0, nil, false
	}
	var claimed uint64
	for i, c := range b[head : head+content] {
		claimed |= uint64(c) << (8 * i)
	}
	if content == 2 {
		claimed += 256
	}
	b = b[head+content:]
	for last := false; !last; {
		if len(b) < 3 {
			return 0, nil, false
		}
		h := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
		b = b[3:]
		n := uint64(h >> 3)
		last = h&1 != 0
		stored := n
		switch h >> 1 & 3 {
		case 0: // as it is
			size += n
		case 1: // one byte again and again
			size += min(n, zstdBlock)
			stored = 1
		case 2:
			size += zstdBlock
		default:
			return 0, nil, false
		}
		if stored > uint64(len(b)) {
			return 0, nil, false
		}
		b = b[stored:]
	}
	if checksum {
		if len(b) < 4 {
			return 0, nil, false
		}
		b = b[4:]
	}
	if content > 0 {
		if claimed > size {
			return 0, nil, false
		}
		size = claimed
	}
	return size, b, true
}
