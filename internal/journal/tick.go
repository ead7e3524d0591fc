package journal

import (
	"runtime"
	"sync"
	"time"
)

// CoarseClock says that Append moves the times of records, by less than a tick of the clock, so that
// the end of a span stays behind the leaves that were appended before it.
// Whoever needs the exact time has it in the data of the record too. Only Linux has a clock
// that moves between two records; that of Windows stands still for up to 16 ms.
const CoarseClock = runtime.GOOS != "linux"

// A tick gives records whose times are one reading of a clock times of their own, so that
// they are read in the order in which they were appended.
type tick struct {
	mu          sync.Mutex
	first, last int64 // of the times that one reading became
}

// next returns the time of a record that was read as t: t, or a nanosecond after the record
// before.
func (c *tick) next(t int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	// A record may come a little after one of the next tick. But one wrong time must not
	// hide all that follow.
	case t > c.last || t < c.first-int64(time.Second):
		c.first, c.last = t, t
	case t >= c.first:
		c.last++
		t = c.last
	}
	return t
}
