package perfetto

import "strings"

// The limits of interning. Without them, many different names could fill the memory of this process and of readers.
const (
	maxInterned     = 1 << 16
	maxInternedSize = 4 << 20
	maxInternedText = 1 << 10
)

// An interner gives numbers to texts, from 1 on. The first packet that uses a text defines its number.
type interner struct {
	ids  map[string]uint64
	size int
	news []string // texts that no packet has defined yet
}

// id returns the number of s, or 0 if s is not interned.
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
	s = strings.Clone(s) // so that the larger string of which s is a part can be collected
	t.ids[s] = id
	t.size += len(s)
	t.news = append(t.news, s)
	return id
}

// append appends the definitions of the texts in news.
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

// interned appends the definitions of the texts that this packet is the first to use.
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
