package tail

import (
	"bytes"
	"encoding/binary"

	"github.com/entrace-go/entrace/internal/core/wire"
)

const (
	// nearSize is larger than the part of an ET's table with the offsets below 64 KiB.
	nearSize = 64 << 10
	// farSize is the encoded size of an offset from 64 KiB to 4 GiB.
	farSize = 5
)

// isEndOfET reports whether the entries at the given offsets in a part of the file are the last entries of an ET. It
// compares the offsets with the table of offsets.
//
// Offsets ascend, and each has its shortest form. So the position of an offset in the table follows from the number
// of offsets below 64 KiB, and only the beginning and the end of the table are read. The pool after the table begins
// with the number of entries again.
func isEndOfET(src source, at []int) bool {
	head := make([]byte, nearSize)
	if _, err := src.ReadAt(head, wire.MagicSize); err != nil {
		return false
	}
	n, p := wire.Uint32(head, 0)
	far := int64(n)
	for p < len(head) && head[p] < wire.Tag32 {
		_, p = wire.Uint32(head, p)
		far--
	}
	pool := wire.AppendUint(nil, uint64(n))
	last := make([]byte, farSize*len(at)+len(pool))
	from := wire.MagicSize + int64(p) + farSize*(far-int64(len(at)))
	if p >= len(head) || far < int64(len(at)) {
		return false
	}
	if _, err := src.ReadAt(last, from); err != nil || !bytes.HasSuffix(last, pool) {
		return false
	}
	for i := range at {
		item, first := last[farSize*i:], binary.LittleEndian.Uint32(last[1:])
		if item[0] != wire.Tag32 || int(binary.LittleEndian.Uint32(item[1:])-first) != at[i]-at[0] {
			return false
		}
	}
	return true
}
