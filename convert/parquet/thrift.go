package parquet

import (
	"encoding/binary"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// The kinds of values in Thrift's compact protocol.
const (
	kindStop   = 0
	kindTrue   = 1
	kindFalse  = 2
	kindByte   = 3
	kindI16    = 4
	kindI64    = 6
	kindDouble = 7
	kindBinary = 8
	kindList   = 9
	kindStruct = 12
)

const (
	// maxDepth is the maximum nesting depth of structures. The library recurses for each level.
	maxDepth = 16
	// maxItems is the maximum number of items in all lists of a structure. The library needs up to a kilobyte for
	// an item, which may be a single byte in the file.
	maxItems = 1 << 15
)

// A walker skips a structure in Thrift's compact protocol, to check it before the library decodes it. The library
// allocates memory for as many items as a list claims, and recurses as deep as structures nest. A walker fails if a
// limit is exceeded. It also fails at sets, maps and lists of booleans, which Parquet's metadata never has.
//
// After the first error, the walker is at the end of b.
type walker struct {
	b      []byte
	off    int
	items  int // number of items in all lists so far
	failed bool
	short  bool // the error is that b ends too early
}

func (w *walker) fail() { w.failed, w.off = true, len(w.b) }

// skip skips n bytes.
func (w *walker) skip(n uint64) {
	if n > uint64(len(w.b)-w.off) {
		w.short = w.short || !w.failed
		w.fail()
		return
	}
	w.off += int(n)
}

func (w *walker) byte() byte {
	if w.skip(1); w.failed {
		return 0
	}
	return w.b[w.off-1]
}

func (w *walker) uint() uint64 {
	n, size := binary.Uvarint(w.b[w.off:])
	if size < 0 {
		w.fail()
	}
	w.skip(uint64(max(size, 1)))
	return n
}

// list reads the header of a list.
func (w *walker) list() (kind byte, n uint64) {
	head := w.byte()
	if n = uint64(head >> 4); n == 15 {
		n = w.uint()
	}
	return head & 15, n
}

// next reads the header of a field and returns its kind. The parameter id has the id of the previous field. next
// replaces it by the id of this field.
func (w *walker) next(id *int16) byte {
	head := w.byte()
	switch {
	case head == kindStop:
	case head>>4 != 0:
		*id += int16(head >> 4)
	default:
		n := w.uint()
		*id = int16(n>>1) ^ -int16(n&1)
	}
	return head & 15
}

// pass skips a value of the given kind.
func (w *walker) pass(kind byte, depth int) {
	if depth == maxDepth {
		w.fail()
	}
	switch kind {
	case kindTrue, kindFalse:
	case kindByte:
		w.skip(1)
	case kindDouble:
		w.skip(8)
	case kindBinary:
		w.skip(w.uint())
	case kindList:
		item, n := w.list()
		for ; n > 0 && !w.failed; n-- {
			if w.items++; w.items > maxItems || item <= kindFalse {
				w.fail()
			}
			w.pass(item, depth+1)
		}
	case kindStruct:
		for id := int16(0); !w.failed; {
			field := w.next(&id)
			if field == kindStop {
				return
			}
			w.pass(field, depth+1)
		}
	default:
		if kind < kindI16 || kind > kindI64 {
			w.fail()
		}
		w.uint()
	}
}

// unmarshal decodes a value that a walker has checked.
func unmarshal(b []byte, v any) (err error) {
	defer contain(&err)
	return thrift.NewDecoder(new(thrift.CompactProtocol).NewReaderFromBytes(b)).Decode(v)
}
