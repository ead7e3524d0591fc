package perfetto

import "strings"

// What is interned at most, so that names which are all different do not fill the
// memory, here and where the trace is read.
const (
	maxInterned     = 1 << 16
	maxInternedSize = 4 << 20
	maxInternedText = 1 << 10
)

// An interner gives texts numbers, from 1 on. What is new is in a packet that uses
// it.
type interner struct {
	ids  map[string]uint64
	size int
	news []string // since the last packet
}

// id returns the number of s, 0 if it gets none.
func (t *interner) id(s string) uint64 {
	if id, ok := t.ids[s]; ok {
		return id
	}
	if len(s) > maxInternedText || len(t.ids) >= maxInterned || t.size+len(s) > maxInternedSize {
		return 0
	}
	if t.ids == nil {
		t.ids = make(map[string]uint64)
	}
	id := uint64(len(t.ids)) + 1
	s = strings.Clone(s) // of what it was read from, nothing else is to stay
	t.ids[s] = id
	t.size += len(s)
	t.news = append(t.news, s)
	return id
}

// append appends what is new.
func (t *interner) append(b []byte, field uint64) []byte {
	id := uint64(len(t.ids)-len(t.news)) + 1
	for i, s := range t.news {
		var at int
		b, at = open(b, field)
		b = appendUint(b, internedID, id+uint64(i))
		b = end(appendText(b, internedText, s), at)
	}
	t.news = t.news[:0]
	return b
}

// interned appends what the packet's event is the first to use.
func (e *encoder) interned(b []byte) []byte {
	if len(e.categories.news)+len(e.names.news)+len(e.args.news) == 0 {
		return b
	}
	b, at := open(b, packetInterned)
	b = e.categories.append(b, internedCategories)
	b = e.names.append(b, internedNames)
	b = e.args.append(b, internedArgs)
	return end(b, at)
}
