package placer

import "github.com/entrace-go/entrace/internal/core/wire"

// CutTo tells the Placer that the file was truncated to its first n entries, which have size bytes. The staged entries
// now follow these n. A staged entry whose parent is lost moves below the root. The Placer forgets open spans that are
// lost.
func (p *Placer) CutTo(n uint64, size int64) {
	first := p.next - uint64(len(p.staged))
	gone := first - n
	// newID returns the new id of an entry, or 0 and false if the entry is lost.
	newID := func(id uint32) (uint32, bool) {
		switch {
		case uint64(id) >= first:
			return id - uint32(gone), true
		case uint64(id) < n:
			return id, true
		}
		return 0, false
	}
	offsets := make(map[uint32]int64) // offsets of the staged entries, by new id
	var b []byte
	from := 0
	for i := range p.staged {
		s := &p.staged[i]
		raw := p.enc.B[from:s.End]
		from = s.End
		head := len(wire.AppendUint(nil, uint64(s.Parent)))
		s.ID, _ = newID(s.ID)
		s.Parent, _ = newID(s.Parent)
		offsets[s.ID] = size + int64(len(b))
		b = append(wire.AppendUint(b, uint64(s.Parent)), raw[head:]...)
		s.End = len(b)
	}
	p.enc.B = append(p.enc.B[:0], b...)
	p.next, p.size = p.next-gone, size
	p.spans.renumber(newID, offsets, p.Forget)
	for number, id := range p.resources {
		if id, ok := newID(id); ok {
			p.resources[number] = id
		} else {
			delete(p.resources, number)
		}
	}
	p.anchor, _ = newID(p.anchor)
}
