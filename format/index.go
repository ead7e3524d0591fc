package format

import "github.com/entrace-go/entrace/internal/wire"

// An index knows, of every entry of the growing file, how long it is and where
// its parent is, in a few bytes each: lengths, from which the offsets follow, and
// parents as the nearer of two numbers. Closing the file does not have to read it
// again then.
type index struct {
	chunks  [][]byte
	entries int
	size    int64 // of the entries
	broken  bool  // an entry was missed
}

const indexChunk = 64 << 10

// add adds entry id.
func (x *index) add(size int, id, parent uint32) {
	if int(id) != x.entries {
		x.broken = true
	}
	if x.broken {
		return // there will be no table
	}
	n := len(x.chunks)
	if n == 0 || len(x.chunks[n-1])+20 > cap(x.chunks[n-1]) {
		x.chunks = append(x.chunks, make([]byte, 0, indexChunk))
		n++
	}
	// A parent is near its child, or near the root.
	p := uint64(parent)<<1 | 1
	if back := uint64(id-parent) << 1; back < p {
		p = back
	}
	x.chunks[n-1] = wire.AppendUint(wire.AppendUint(x.chunks[n-1], uint64(size)), p)
	x.entries++
	x.size += int64(size)
}

// table returns the index as Finalize wants it, nil if it is not whole.
func (x *index) table() *table {
	if x.broken {
		return nil
	}
	t := newTable()
	t.offsets.grow(x.entries + 1)
	t.parents = make([]uint32, 0, x.entries)
	var d decoder
	off := uint64(0)
	for _, c := range x.chunks {
		d.b, d.off = c, 0
		for d.off < len(c) {
			off += d.Uint("", 64)
			p := d.Uint("", 64)
			if p&1 != 0 {
				p >>= 1
			} else {
				p = uint64(len(t.parents)) - p>>1
			}
			t.offsets.add(off)
			t.parents = append(t.parents, uint32(p))
		}
	}
	return t
}
