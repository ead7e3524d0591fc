package sink

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"github.com/entrace-go/entrace/internal/otel/codec"
)

// heads holds the different heads of resources or scopes.
type heads struct {
	all  []codec.Head
	of   map[[sha256.Size]byte]uint32
	last uint32
}

func (hs *heads) reset() {
	hs.all = hs.all[:0]
	clear(hs.of)
}

// add returns the number of the head h in b. It adds h if it is new.
func (hs *heads) add(b []byte, h codec.Head) uint32 {
	value, url := h.Bytes(b)
	if len(hs.all) > 0 {
		// Usually the head is equal to the last one.
		v, u := hs.all[hs.last].Bytes(b)
		if bytes.Equal(v, value) && bytes.Equal(u, url) {
			return hs.last
		}
	}
	sum := sha256.New()
	sum.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(value))))
	sum.Write(value)
	sum.Write(url)
	var key [sha256.Size]byte
	sum.Sum(key[:0])
	n, known := hs.of[key]
	if !known {
		if hs.of == nil {
			hs.of = make(map[[sha256.Size]byte]uint32)
		}
		n = uint32(len(hs.all))
		hs.all = append(hs.all, h)
		hs.of[key] = n
	}
	hs.last = n
	return n
}
