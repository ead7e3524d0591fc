package slogadapter

import (
	"math"

	"github.com/entrace-go/entrace/internal/text"
)

// A budget is the number of attributes and bytes that can still be added to a record. A derived handler starts with
// the budget that WithAttrs has left.
type budget struct {
	attrs  int  // attributes
	visits int  // attributes and groups; bounded because a LogValuer can return groups that contain only the LogValuer again
	bytes  int  // bytes of text; negative if the names of groups need more bytes than are left
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

// take removes n bytes from the budget if they fit, and reports whether they fit.
func (b *budget) take(n int) bool {
	if n > b.bytes {
		return false
	}
	b.bytes -= n
	return true
}

// text takes the bytes of s from the budget and returns s. If s does not fit, text takes all remaining bytes and
// returns the part of s that fits. Such a part ends in "…", even if there is no room for this mark.
func (b *budget) text(s string) string {
	if len(s) <= b.bytes { // not a call of take, with which text would be too large to be inlined
		b.bytes -= len(s)
		return s
	}
	return b.part(s)
}

// part takes all remaining bytes and returns the part of s that fits, with "…" at its end.
func (b *budget) part(s string) string {
	room := max(b.bytes, len("…"))
	if len(s) > room {
		b.cut = true
		s = text.Cut(s, room)
	}
	b.bytes = min(b.bytes, 0)
	return s
}

// blob is like text, for bytes. A part of them does not get a mark at its end.
func (b *budget) blob(x []byte) []byte {
	if room := max(b.bytes, 0); len(x) > room {
		x, b.cut = x[:room], true
	}
	b.bytes -= len(x)
	return x
}
