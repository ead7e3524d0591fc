package view

import (
	"bytes"
	"math/bits"
	"strings"

	"github.com/entrace-go/entrace/internal/read/columns"
)

// A finder implements columns.Finder.
type finder struct {
	v     *View
	texts []needle    // if empty, any entry can match
	hits  Set[uint32] // the matching entries of a block, relative to the block's first entry
}

func (c columnsOf) Finder(texts ...string) columns.Finder {
	f := &finder{v: c.v}
	for _, text := range texts {
		text = longestASCII(strings.ToLower(text))
		if text == "" {
			return &finder{v: c.v}
		}
		f.texts = append(f.texts, newNeedle(text))
		for ascii, other := range otherCases {
			if strings.Contains(text, ascii) {
				f.texts = append(f.texts, newNeedle(other))
			}
		}
	}
	return f
}

// otherCases maps an ASCII letter to the non-ASCII letter that is equal to it if the case is ignored.
var otherCases = map[string]string{"i": "\u0130", "k": "\u212a", "s": "\u017f"}

// longestASCII returns the longest part of a text that is only ASCII. Other characters may match in more than one
// form.
func longestASCII(text string) string {
	longest := ""
	for _, part := range strings.FieldsFunc(text, func(r rune) bool { return r >= 0x80 }) {
		if len(part) > len(longest) {
			longest = part
		}
	}
	return longest
}

func (f *finder) Block(k int, rows *[blockRows / 64]uint64) {
	if len(f.texts) == 0 {
		return
	}
	v := f.v
	each := func(keep func(r Row) bool) {
		for w, word := range rows {
			for left := word; left != 0; left &= left - 1 {
				bit := bits.TrailingZeros64(left)
				if !keep(Row(k*blockRows + w*64 + bit)) {
					rows[w] &^= 1 << bit
				}
			}
		}
	}
	b, ok := v.bytesOf(k)
	if !ok {
		each(f.row)
		return
	}
	f.hits = append(f.hits[:0], make([]uint64, (b.behind-b.first)/64+1)...)
	err := b.file.entries.View(b.from, b.to-b.from, func(data []byte) {
		for i := range f.texts {
			f.find(&f.texts[i], &b, data)
		}
	})
	if err != nil {
		return // the caller gets the same error when it decodes the entries
	}
	hit := func(id uint32) bool { return f.hits.Has(id - b.first) }
	each(func(r Row) bool {
		if hit(v.id(r)) {
			return true
		}
		switch end := v.end(r); {
		case end == 0:
			return false
		case end >= b.first && end < b.behind:
			return hit(end)
		default:
			return f.entry(b.file, end)
		}
	})
}

// find adds the entries of a block that contain n to f.hits.
func (f *finder) find(n *needle, b *blockBytes, data []byte) {
	id := b.first
	var s search
	for at := s.next(n, data, 0); at >= 0; {
		// The entry that contains the match is often the next one.
		for step := uint32(1); id+step < b.behind && b.file.entries.Offset(id+step)-b.from <= int64(at); step *= 2 {
			id += step
		}
		for step := uint32(1) << 31; step > 0; step /= 2 {
			if step < b.behind-id && b.file.entries.Offset(id+step)-b.from <= int64(at) {
				id += step
			}
		}
		f.hits.Add(id - b.first)
		at = s.next(n, data, int(b.file.entries.Offset(id+1)-b.from))
	}
}

// row reports whether the entry of row r, or the entry of the span's end, can contain one of the texts.
func (f *finder) row(r Row) bool {
	v := f.v
	if v.flags(r).Role() == RoleFolded {
		return false
	}
	if f.entry(v.fileOf(r), v.id(r)) {
		return true
	}
	of, end := v.endOf(r)
	return end != 0 && f.entry(v.fileOf(of), end)
}

func (f *finder) entry(file *fileView, id uint32) (has bool) {
	from := file.entries.Offset(id)
	err := file.entries.View(from, file.entries.Offset(id+1)-from, func(b []byte) {
		for i := range f.texts {
			var s search
			has = has || s.next(&f.texts[i], b, 0) >= 0
		}
	})
	return has || err != nil
}

// A needle is a text to search for.
type needle struct {
	text    string // in lower case
	rare    int    // the index of the rarest byte of text
	low, up byte   // the rarest byte in lower and upper case
}

// common lists characters, the rarest in traces first. Hex digits are frequent because of ids.
const common = "~`^|\\zqjxkvwygmhuplnrsiotbcfdea987654321_/-. 0"

func newNeedle(text string) needle {
	n := needle{text: text}
	least := len(common)
	for i := range len(text) {
		if rank := strings.IndexByte(common, text[i]); rank < least {
			n.rare, least = i, rank
		}
	}
	n.low, n.up = text[n.rare], upper(text[n.rare])
	return n
}

// A search caches the next offsets of a needle's rarest byte in lower case and in upper case.
type search struct{ low, up int }

// next returns the offset of the next match at or after the offset from, or -1 if there is none. The parameter
// from must not decrease from call to call.
func (s *search) next(n *needle, b []byte, from int) int {
	for {
		s.low = indexFrom(b, n.low, s.low, from+n.rare)
		at := s.low
		if n.up != n.low {
			s.up = indexFrom(b, n.up, s.up, from+n.rare)
			at = min(at, s.up)
		}
		if at == len(b) {
			return -1
		}
		from = at - n.rare
		if from+len(n.text) <= len(b) && equalFold(b[from:from+len(n.text)], n.text) {
			return from
		}
		from++
	}
}

// indexFrom returns the offset of the first c at or after the offset from, or len(b) if there is none. The parameter
// known is the result of the previous call. If known is at least from, it is still correct.
func indexFrom(b []byte, c byte, known, from int) int {
	if known >= from && known > 0 {
		return known
	}
	if from >= len(b) {
		return len(b)
	}
	if i := bytes.IndexByte(b[from:], c); i >= 0 {
		return from + i
	}
	return len(b)
}

// equalFold reports whether b is equal to fold if the case of ASCII letters in b is ignored. The text fold is
// in lower case, and b has the same length.
func equalFold(b []byte, fold string) bool {
	for i, c := range b {
		if c != fold[i] && (c < 'A' || c > 'Z' || c|0x20 != fold[i]) {
			return false
		}
	}
	return true
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}
