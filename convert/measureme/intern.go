package measureme

import "unicode/utf8"

const (
	// maxInterned bounds the memory that interning takes. What comes when it is
	// full is written again each time.
	maxInterned      = 16 << 20
	maxInternedTexts = 1 << 18
)

// A stringID names a text of a file that is written.
type stringID uint64

// A writeTable makes the stream of string data. It is not safe for concurrent
// use.
type writeTable struct {
	page     func(payload []byte) error // takes a part of the stream
	next     uint64                     // address of the next string
	buf      []byte                     // what page has not got yet
	ids      map[string]stringID
	interned int
	err      error
}

func newWriteTable(page func(payload []byte) error) *writeTable {
	return &writeTable{page: page, next: headerSize, ids: make(map[string]stringID)}
}

// add appends a string of which b is the encoding, without its end.
func (t *writeTable) add(b []byte) stringID {
	id := stringID(t.next + firstRegular)
	t.buf = append(append(t.buf, b...), terminator)
	t.next += uint64(len(b)) + 1
	if len(t.buf) >= stringPage {
		t.flush()
	}
	return id
}

// flush hands on what there is. No page of string data has the size of a full
// page of events, so that a hole in the file tells what it was.
func (t *writeTable) flush() {
	for len(t.buf) > 0 && t.err == nil {
		n := len(t.buf)
		if n >= fullPage {
			n = min(n/2, fullPage/2)
		}
		t.err = t.page(t.buf[:n])
		t.buf = t.buf[:copy(t.buf, t.buf[n:])]
	}
	t.buf = t.buf[:0]
}

// intern returns the id of b, which is encoded, and keeps it for later.
func (t *writeTable) intern(b []byte) stringID {
	if id, ok := t.ids[string(b)]; ok {
		return id
	}
	id := t.add(b)
	if t.interned+len(b) <= maxInterned && len(t.ids) < maxInternedTexts {
		t.ids[string(b)] = id
		t.interned += len(b)
	}
	return id
}

// unnamed is the label of what has none: the tools refuse an empty one.
const unnamed = "<unnamed>"

// appendText appends s with U+FFFD for what is not UTF-8, and for the control
// characters that the tools refuse.
func appendText(b []byte, s string) []byte {
	plain := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f || c == '\t' || c == '\n' || c == '\r' || c == '\f' {
			i++
			continue
		}
		n := 1
		if c >= utf8.RuneSelf {
			var r rune
			if r, n = utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || n > 1 {
				i += n
				continue
			}
		}
		b = append(append(b, s[plain:i]...), "\uFFFD"...)
		i += n
		plain = i
	}
	return append(b, s[plain:]...)
}
