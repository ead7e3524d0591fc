// Package scratch builds short strings without an allocation for each: the strings
// follow one another in one buffer, which is reused.
package scratch

import "unsafe"

// A Text is a reusable buffer for short strings. To build a string, call Mark, append
// to B, and call From with the mark. The zero Text is ready for use.
type Text struct{ B []byte }

// maxKeep is the largest capacity of a buffer that Reset keeps for reuse.
const maxKeep = 64 << 10

// Mark returns the offset in B at which the next text begins.
func (t *Text) Mark() int { return len(t.B) }

// From returns the bytes appended since mark as a string. The string shares the memory of B: it
// is valid until Reset, and its bytes must not be changed before that.
func (t *Text) From(mark int) string {
	if mark == len(t.B) {
		return ""
	}
	return unsafe.String(&t.B[mark], len(t.B)-mark)
}

// Reset empties the buffer. All strings that From returned become invalid.
func (t *Text) Reset() {
	if cap(t.B) > maxKeep {
		t.B = nil
		return
	}
	t.B = t.B[:0]
}
