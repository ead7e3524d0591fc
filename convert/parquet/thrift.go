package parquet

// The types of Thrift's compact protocol.
const (
	thriftStop   = 0
	thriftTrue   = 1
	thriftFalse  = 2
	thriftByte   = 3
	thriftI16    = 4
	thriftI32    = 5
	thriftI64    = 6
	thriftDouble = 7
	thriftBinary = 8
	thriftList   = 9
	thriftSet    = 10
	thriftMap    = 11
	thriftStruct = 12
	thriftUUID   = 13
)

// maxThriftDepth bounds how deep what is passed over may nest.
const maxThriftDepth = 16

// A thrift is a cursor over a structure in Thrift's compact protocol, in which all
// metadata of Parquet is. Its first error stays, and it reads as the end of every
// structure then.
type thrift struct {
	b      []byte
	off    int
	failed bool
	short  bool // the failure is that b ends
}

func (t *thrift) fail() { t.failed, t.off = true, len(t.b) }

func (t *thrift) byte() byte {
	if t.off >= len(t.b) {
		t.short = t.short || !t.failed
		t.fail()
		return 0
	}
	t.off++
	return t.b[t.off-1]
}

func (t *thrift) uint() uint64 {
	var n uint64
	for shift := 0; shift < 64; shift += 7 {
		c := t.byte()
		n |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return n
		}
	}
	t.fail()
	return 0
}

func (t *thrift) int() int64 {
	n := t.uint()
	return int64(n>>1) ^ -int64(n&1)
}

// number is int for a field that must be an integer of that type.
func (t *thrift) number(kind byte) int64 {
	if kind < thriftI16 || kind > thriftI64 {
		t.fail()
		return 0
	}
	return t.int()
}

// count is number for what must not be negative; it returns no more than 1<<40.
func (t *thrift) count(kind byte) int64 {
	n := t.number(kind)
	if n < 0 || n > 1<<40 {
		t.fail()
		return 0
	}
	return n
}

// bytes reads a binary, which aliases the buffer.
func (t *thrift) bytes(kind byte) []byte {
	if kind != thriftBinary {
		t.fail()
		return nil
	}
	n := t.uint()
	if n > uint64(len(t.b)-t.off) {
		t.short = t.short || !t.failed
		t.fail()
		return nil
	}
	t.off += int(n)
	return t.b[t.off-int(n) : t.off]
}

// list reads how many items of which type follow: no more than there are bytes.
func (t *thrift) list(kind byte) (item byte, n int) {
	if kind != thriftList && kind != thriftSet {
		t.fail()
		return 0, 0
	}
	c := t.byte()
	size := uint64(c >> 4)
	if size == 15 {
		size = t.uint()
	}
	if size > uint64(len(t.b)-t.off) {
		t.fail()
		return 0, 0
	}
	return c & 15, int(size)
}

// structs is list for structures.
func (t *thrift) structs(kind byte) int {
	item, n := t.list(kind)
	if n > 0 && item != thriftStruct {
		t.fail()
		return 0
	}
	return n
}

// fields calls fn for the fields of a structure. What fn does not read it must
// skip.
func (t *thrift) fields(fn func(id int16, kind byte)) {
	for id := int16(0); !t.failed; {
		kind := t.next(&id)
		if kind == thriftStop {
			return
		}
		fn(id, kind)
	}
}

// next reads the head of a field, whose predecessor id is, and returns its type.
func (t *thrift) next(id *int16) byte {
	c := t.byte()
	if c == thriftStop {
		return thriftStop
	}
	if delta := c >> 4; delta != 0 {
		*id += int16(delta)
	} else {
		*id = int16(t.int())
	}
	return c & 15
}

// skip passes over a value.
func (t *thrift) skip(kind byte) { t.pass(kind, maxThriftDepth) }

func (t *thrift) pass(kind byte, depth int) {
	if depth == 0 {
		t.fail()
	}
	if t.failed {
		return
	}
	switch kind {
	case thriftTrue, thriftFalse:
	case thriftByte:
		t.byte()
	case thriftI16, thriftI32, thriftI64:
		t.uint()
	case thriftDouble, thriftUUID:
		n := 8
		if kind == thriftUUID {
			n = 16
		}
		if n > len(t.b)-t.off {
			t.short = true
			t.fail()
			return
		}
		t.off += n
	case thriftBinary:
		t.bytes(kind)
	case thriftList, thriftSet:
		item, n := t.list(kind)
		for i := 0; i < n && !t.failed; i++ {
			t.item(item, depth-1)
		}
	case thriftMap:
		n := t.uint()
		if n == 0 {
			return
		}
		kinds := t.byte()
		for ; n > 0 && !t.failed; n-- {
			t.item(kinds>>4, depth-1)
			t.item(kinds&15, depth-1)
		}
	case thriftStruct:
		for id := int16(0); !t.failed; {
			k := t.next(&id)
			if k == thriftStop {
				return
			}
			t.pass(k, depth-1)
		}
	default:
		t.fail()
	}
}

// item is pass for a value of a list or a map, where a bool is a byte.
func (t *thrift) item(kind byte, depth int) {
	if kind == thriftTrue || kind == thriftFalse {
		kind = thriftByte
	}
	t.pass(kind, depth)
}
