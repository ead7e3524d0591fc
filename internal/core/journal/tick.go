package journal

import (
	"runtime"
	"sync"
	"time"
)

// CoarseClock says that Append changes the times of records by less than a tick of the clock, so
// that the end of a span stays after the leaves that were appended before it. The exact time is
// also in the data of a record. Only on Linux do two records always have different times. On Windows
// the clock does not move for up to 16 ms.
const CoarseClock = runtime.GOOS != "linux"

// A tick gives different times to records for which the clock showed the same time, so that
// they are read in the order in which they were appended.
type tick struct {
	mu          sync.Mutex
	first, last int64 // the first and the last time that next returned for one reading of the clock
}

// next returns the time of a record for which the clock showed t. The result is t, or one
// nanosecond after the time of the record before.
func (c *tick) next(t int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	// A record may be appended shortly after a record of the next tick. But if t is much smaller,
	// the last time was wrong and must not affect all following records.
	case t > c.last || t < c.first-int64(time.Second):
		c.first, c.last = t, t
	case t >= c.first:
		c.last++
		t = c.last
	}
	return t
}
