package journal

import (
	"runtime"
	"sync"
	"time"
)

// CoarseClock says that Append moves the times of records, by less than a tick of the clock, so that
// the end of a span stays behind the leaves that were appended before it.
// The data of the record has the exact time too. Only the clock of Linux moves between two
// records. The clock of Windows stands still for up to 16 ms.
const CoarseClock = runtime.GOOS != "linux"

// A tick gives different times to records that have the same reading of the clock, so that
// they are read in the order in which they were appended.
type tick struct {
	mu          sync.Mutex
	first, last int64 // the first and the last time given for one reading of the clock
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
