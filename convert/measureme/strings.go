package measureme

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
)

const (
	maxLiteral = 16 << 10 // maximum number of bytes of a string that are copied at once
	maxDepth   = 64
	maxText    = 4 << 20
	cacheBytes = 8 << 20
	cacheTexts = 1 << 16

	// unknown is the text of a string that has no text, as in the tools of measureme.
	unknown = "<unknown>"
	// damaged is the text of a string that cannot be read.
	damaged = "<invalid>"
)

// A stringData is the stream of strings without its header, as parts of the file.
type stringData struct {
	parts []part
	size  uint64
}

// A part is a part of the stream of strings, with the address of its first byte.
type part struct {
	addr uint64
	b    []byte
}

func (d *stringData) add(b []byte) {
	if len(b) == 0 {
		return
	}
	d.parts = append(d.parts, part{headerSize + d.size, b})
	d.size += uint64(len(b))
}

// from returns some bytes from the address addr on, or nil if addr is beyond the end.
func (d *stringData) from(addr uint64) []byte {
	if addr < headerSize || addr-headerSize >= d.size {
		return nil
	}
	n, _ := slices.BinarySearchFunc(d.parts, addr+1, func(p part, addr uint64) int { return cmp.Compare(p.addr, addr) })
	p := d.parts[n-1]
	return p.b[addr-p.addr:]
}

// An indexEntry has the address of the text of a virtual id.
type indexEntry struct {
	id, number uint32
	addr       uint64
}

func (s *scanner) addIndex(b []byte) {
	if id, addr, _ := cutPair(b, s.version); id <= metadataID {
		s.index = append(s.index, indexEntry{uint32(id), uint32(len(s.index)), addr})
	}
}

// A stringTable resolves ids to texts.
type stringTable struct {
	data   *stringData
	index  []indexEntry
	idSize int
	cache  map[uint64]string
	cached int
	buf    []byte
	steps  int
	budget int64 // the number of bytes of text that may still be made, so that a small file does not expand without limit
}

func newStringTable(s *scanner) *stringTable {
	slices.SortFunc(s.index, func(a, b indexEntry) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.number, b.number)) })
	return &stringTable{
		data: &s.data, index: s.index, idSize: s.size(idSize, idSizeV8), cache: make(map[uint64]string), budget: 16<<20 + 256*int64(len(s.b)),
	}
}

// address returns the address of the text of id. ok is false if id has no text.
func (t *stringTable) address(id uint64) (uint64, bool) {
	if id >= firstRegular {
		return id - firstRegular, true
	}
	if id > metadataID {
		return 0, false
	}
	// If the index has several entries for an id, the last entry counts.
	n, _ := slices.BinarySearchFunc(t.index, uint32(id)+1, func(e indexEntry, id uint32) int { return cmp.Compare(e.id, id) })
	if n == 0 || uint64(t.index[n-1].id) != id {
		return 0, false
	}
	return t.index[n-1].addr, true
}

// text returns the text of id, which is valid UTF-8. If the text cannot be read, it returns the text damaged and an
// error.
func (t *stringTable) text(id uint64) (string, error) {
	if s, ok := t.cache[id]; ok {
		t.budget -= int64(len(s))
		if t.budget < 0 {
			return damaged, errTooLarge
		}
		return s, nil
	}
	addr, ok := t.address(id)
	if !ok {
		return unknown, nil
	}
	if t.budget < 0 {
		return damaged, errTooLarge
	}
	t.steps = 0
	var err error
	t.buf, err = t.expand(t.buf[:0], addr, 0)
	t.budget -= int64(len(t.buf)) + 8*int64(t.steps)
	if err != nil {
		return damaged, err
	}
	s := strings.ToValidUTF8(string(t.buf), "\ufffd")
	t.cached += len(s)
	if t.cached > cacheBytes || len(t.cache) >= cacheTexts {
		clear(t.cache)
		t.cached = len(s)
	}
	t.cache[id] = s
	return s, nil
}

// expand appends the text at addr to dst, with the texts of its references.
func (t *stringTable) expand(dst []byte, addr uint64, depth int) ([]byte, error) {
	if depth > maxDepth {
		return dst, errCycle
	}
	for {
		t.steps++
		if int64(t.steps)*8 > t.budget || len(dst) > maxText {
			return dst, errTooLarge
		}
		b := t.data.from(addr)
		if len(b) == 0 {
			return dst, errString
		}
		switch b[0] {
		case terminator:
			return dst, nil
		case reference:
			id, err := t.id(addr + 1)
			if err != nil {
				return dst, err
			}
			if to, ok := t.address(id); !ok {
				dst = append(dst, unknown...)
			} else {
				dst, err = t.expand(dst, to, depth+1)
				if err != nil {
					return dst, err
				}
			}
			addr += 1 + uint64(t.idSize)
		default:
			n := 1
			limit := min(len(b), maxLiteral)
			for n < limit && b[n] < reference {
				n++
			}
			dst = append(dst, b[:n]...)
			addr += uint64(n)
		}
	}
}

// id reads the id at an address.
func (t *stringTable) id(addr uint64) (uint64, error) {
	var buf [idSize]byte
	for have := 0; have < t.idSize; {
		b := t.data.from(addr + uint64(have))
		if len(b) == 0 {
			return 0, errString
		}
		have += copy(buf[have:t.idSize], b)
	}
	return binary.LittleEndian.Uint64(buf[:]), nil
}
