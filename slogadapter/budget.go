package slogadapter

import (
	"math"

	"github.com/entrace-go/entrace/internal/text"
)

// A budget is the room that the limits of a record leave. Derived handlers start with what WithAttrs has left.
type budget struct {
	attrs  int  // attributes
	visits int  // attributes and groups: a LogValuer can return groups that contain the LogValuer again and no attribute at all
	bytes  int  // bytes of text; negative if the names of groups need more than there is
	cut    bool // something was left out
}

func newBudget(attrs, bytes int) budget {
	const visits = 4 // for each attribute
	return budget{attrs: attrs, visits: min(attrs, math.MaxInt/visits) * visits, bytes: bytes}
}

// spent reports whether no attribute fits.
func (b *budget) spent() bool { return b.attrs <= 0 || b.visits < 0 || b.bytes <= 0 }

// visit counts an attribute or a group, and reports whether it fits.
func (b *budget) visit() bool {
	b.visits--
	if b.spent() {
		b.cut = true
		return false
	}
	return true
}

// take takes n bytes if they fit, and reports whether they do.
func (b *budget) take(n int) bool {
	if n > b.bytes {
		return false
	}
	b.bytes -= n
	return true
}

// text takes the bytes of s and returns s. If s does not fit, text takes all bytes and returns the part that
// fits. Such a part ends in "…", even if there is no room for this mark.
func (b *budget) text(s string) string {
	if len(s) <= b.bytes { // as take, which would make text too large to be inlined
		b.bytes -= len(s)
		return s
	}
	return b.part(s)
}

// part takes all bytes and returns the part of s that text returns.
func (b *budget) part(s string) string {
	room := max(b.bytes, len("…"))
	if len(s) > room {
		b.cut = true
		s = text.Cut(s, room)
	}
	b.bytes = min(b.bytes, 0)
	return s
}

// blob is like text for bytes, of which a part has no mark.
func (b *budget) blob(x []byte) []byte {
	if room := max(b.bytes, 0); len(x) > room {
		x, b.cut = x[:room], true
	}
	b.bytes -= len(x)
	return x
}
