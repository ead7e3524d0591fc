package measureme

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"
)

const (
	// maxInterned bounds the memory that interning takes. What comes when it is
	// full is written again each time.
	maxInterned      = 16 << 20
	maxInternedTexts = 1 << 18
	// minReference is the size of a reference: a shorter text is put in place.
	minReference = 1 + idSize
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
	scratch  []byte
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

// text returns the id of a text for people: a label or a kind.
func (t *writeTable) text(s string) stringID {
	// A text that is not UTF-8 could be taken for one that is encoded.
	if strings.IndexByte(s, reference) < 0 {
		if id, ok := t.ids[s]; ok {
			return id
		}
	}
	t.scratch = appendText(t.scratch[:0], s)
	if len(t.scratch) == 0 {
		t.scratch = append(t.scratch, unnamed...)
	}
	return t.intern(t.scratch)
}

// unnamed is the label of what has none: the tools refuse an empty one.
const unnamed = "<unnamed>"

// appendReference appends a reference to the string id.
func appendReference(b []byte, id stringID) []byte {
	return binary.LittleEndian.AppendUint64(append(b, reference), uint64(id))
}

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

// An eventID is put together from a label and arguments.
type eventID struct {
	t      *writeTable
	label  stringID
	b      []byte
	unique bool
}

// begin starts one.
func (e *eventID) begin(t *writeTable, label string) {
	e.t, e.label, e.b, e.unique = t, t.text(label), e.b[:0], false
}

// open begins an argument, which what is appended then belongs to.
func (e *eventID) open() {
	if len(e.b) == 0 {
		e.b = appendReference(e.b, e.label)
	}
	e.b = append(e.b, separator)
}

// arg adds an argument whose text is encoded already. One that comes often is
// written once.
func (e *eventID) arg(text []byte, often bool) {
	e.open()
	if often && len(text) > minReference {
		e.b = appendReference(e.b, e.t.intern(text))
		return
	}
	e.b = append(e.b, text...)
	e.unique = e.unique || !often
}

// end returns the id of the whole.
func (e *eventID) end() stringID {
	switch {
	case len(e.b) == 0:
		return e.label
	case e.unique:
		return e.t.add(e.b)
	}
	return e.t.intern(e.b)
}
