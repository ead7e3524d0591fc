package journal

import (
	"runtime"
	"sync"
	"time"
)

// CoarseClock says that the clock may show the same time for several records, as on Windows, where it stands still
// for up to 16 ms. Append then changes times by less than a tick of the clock, so that the end of a span stays
// after the leaves that were appended before it. The data of a record also has the exact time.
const CoarseClock = runtime.GOOS != "linux"

// A tick gives different times to records for which the clock shows the same time. They are then read in the order
// in which they were appended.
type tick struct {
	mu          sync.Mutex
	first, last int64 // the first and the last result of next for the current time of the clock
}

// next returns the time for a record for which the clock shows t. This is t, or one nanosecond after the result
// before.
func (c *tick) next(t int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	// A record with a slightly earlier time may arrive late. But if t is much earlier, the last time was wrong and
	// must not affect the records that follow.
	case t > c.last || t < c.first-int64(time.Second):
		c.first, c.last = t, t
	case t >= c.first:
		c.last++
		t = c.last
	}
	return t
}
