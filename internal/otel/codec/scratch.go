package codec

import "github.com/entrace-go/entrace/internal/core/wire"

// A scratch is a reusable buffer for short strings. To build a string, call m := mark(), append to b, and call
// since(m). The zero scratch is ready for use.
type scratch struct{ b []byte }

// maxScratch is the maximum capacity of a scratch that reset keeps for reuse.
const maxScratch = 64 << 10

// since returns the bytes after the offset mark as a string. The string shares the memory of b. It is valid until
// reset, and nobody may change its bytes before that.
func (t *scratch) since(mark int) string {
	if mark == len(t.b) {
		return ""
	}
	return wire.View(t.b[mark:])
}

// reset empties the buffer. All strings that since returned become invalid.
func (t *scratch) reset() {
	if cap(t.b) > maxScratch {
		t.b = nil
		return
	}
	t.b = t.b[:0]
}
