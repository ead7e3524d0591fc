package remote

import (
	"math"
	"net/netip"
	"sync"
)

// A budget limits an amount that all senders share. The senders of one address together may use only a part of
// it. It is safe for concurrent use.
type budget struct {
	max        int64 // for all senders
	perAddress int64

	mu sync.Mutex

	used   int64
	usedBy map[netip.Prefix]int64
}

// reserve reserves the amount n for a sender if that much is left, and reports whether it did. The limit for
// one address does not apply to the zero address.
func (b *budget) reserve(address netip.Prefix, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n > b.max-b.used || address.IsValid() && n > b.perAddress-b.usedBy[address] {
		return false
	}
	b.used += n
	if address.IsValid() {
		if b.usedBy == nil {
			b.usedBy = make(map[netip.Prefix]int64)
		}
		b.usedBy[address] += n
	}
	return true
}

// release releases a reserved amount.
func (b *budget) release(address netip.Prefix, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if !address.IsValid() {
		return
	}
	if b.usedBy[address] -= n; b.usedBy[address] == 0 {
		delete(b.usedBy, address)
	}
}

// limitOf returns the limit that an option sets: byDefault if the option is 0, and no limit if the option is
// negative.
func limitOf[T int | int64](option, byDefault T) int64 {
	switch {
	case option < 0:
		return math.MaxInt64
	case option == 0:
		return int64(byDefault)
	}
	return int64(option)
}
