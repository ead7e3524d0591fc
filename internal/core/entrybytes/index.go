package entrybytes

import "encoding/binary"

// An Index holds the size and the parent of each entry of an IET, in a few bytes for each entry. format.Finalize
// uses it, so that it need not read the file to find them. An Index is not safe for concurrent use. The zero Index
// is empty.
type Index struct {
	chunks  [][]byte
	entries int
	size    int64 // size of all entries in bytes
	broken  bool  // an entry is missing, so the Index is of no use
}

// The first chunk has 1 KiB. The next six chunks double in size, and all later chunks have 64 KiB.
const (
	firstChunk   = 1 << 10
	chunkDoubles = 6
)

// Add adds the entry with the given id and size in bytes. Each reports the value span again. Ids must be
// consecutive from 0. Otherwise Finalize cannot use the index.
func (x *Index) Add(size int, id, parent uint32, span bool) {
	if int(id) != x.entries {
		x.broken = true
	}
	if x.broken {
		return
	}
	n := len(x.chunks)
	if n == 0 || len(x.chunks[n-1])+20 > cap(x.chunks[n-1]) {
		x.chunks = append(x.chunks, make([]byte, 0, firstChunk<<min(n, chunkDoubles)))
		n++
	}
	// Offsets need not be stored, because they are sums of sizes. Store the parent as its distance from the entry
	// or from the root, whichever is smaller.
	p := uint64(parent)<<1 | 1
	if back := uint64(id-parent) << 1; back < p {
		p = back
	}
	p <<= 1
	if span {
		p |= 1
	}
	x.chunks[n-1] = binary.AppendUvarint(binary.AppendUvarint(x.chunks[n-1], uint64(size)), p)
	x.entries++
	x.size += int64(size)
}

// Each calls fn with the size and the parent of each entry, and with the value of span that was passed to Add. It
// stops if fn returns false.
func (x *Index) Each(fn func(size, parent uint32, span bool) bool) {
	id := uint64(0)
	for _, c := range x.chunks {
		for len(c) > 0 {
			size, n := binary.Uvarint(c)
			p, m := binary.Uvarint(c[n:])
			c = c[n+m:]
			span := p&1 != 0
			p >>= 1
			if p&1 != 0 {
				p >>= 1
			} else {
				p = id - p>>1
			}
			if !fn(uint32(size), uint32(p), span) {
				return
			}
			id++
		}
	}
}

// Len returns the number of entries.
func (x *Index) Len() int { return x.entries }

// Size returns the size of all entries in bytes, or -1 if an entry is missing.
func (x *Index) Size() int64 {
	if x.broken {
		return -1
	}
	return x.size
}

// CutTo removes all entries but the first n. It returns how many entries it has removed, and how
// many of these entries are spans.
func (x *Index) CutTo(n int) (entries, spans int) {
	var left Index
	x.Each(func(size, parent uint32, span bool) bool {
		switch {
		case left.entries < n:
			left.Add(int(size), uint32(left.entries), parent, span)
		case span:
			spans++
		}
		return true
	})
	entries = x.entries - left.entries
	*x = left
	return entries, spans
}
