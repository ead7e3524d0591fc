// Package scratch makes short texts without allocating each: they lie one behind
// the other in a buffer that is used again.
package scratch

import "unsafe"

// A Text is such a buffer. Append to B from Mark on, then take what was appended
// as a string. The zero Text is ready for use.
type Text struct{ B []byte }

// maxKeep is how large a buffer is kept for later use.
const maxKeep = 64 << 10

// Mark returns the place at which the next text begins.
func (t *Text) Mark() int { return len(t.B) }

// From returns what was appended since mark. The string is valid until Reset;
// the bytes must not be changed before.
func (t *Text) From(mark int) string {
	if mark == len(t.B) {
		return ""
	}
	return unsafe.String(&t.B[mark], len(t.B)-mark)
}

// Reset forgets all texts.
func (t *Text) Reset() {
	if cap(t.B) > maxKeep {
		t.B = nil
		return
	}
	t.B = t.B[:0]
}
