package remote

import (
	"math"
	"net/netip"
	"sync"
)

// A budget limits an amount that all senders share. All senders at one address together may use only a part of the
// amount. It is safe for concurrent use.
type budget struct {
	max        int64 // limit for all senders
	perAddress int64

	mu sync.Mutex

	used   int64
	usedBy map[netip.Prefix]int64
}

// reserve reserves the amount n for a sender, if at least n is left, and reports whether it has reserved n. For the
// zero address, only the limit for all senders applies.
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
	b.usedBy[address] -= n
	if b.usedBy[address] == 0 {
		delete(b.usedBy, address)
	}
}

// limitOf returns the limit for an option. The option 0 means byDefault, and a negative option means no limit.
func limitOf[T int | int64](option, byDefault T) int64 {
	switch {
	case option < 0:
		return math.MaxInt64
	case option == 0:
		return int64(byDefault)
	}
	return int64(option)
}
