package mapping

import (
	"math"
	"time"
)

// UnixNano returns the nanoseconds since 1970, or the nearest that 64 bits can hold.
func UnixNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case s <= math.MinInt64/1_000_000_000:
		return math.MinInt64 + 1 // a view takes the smallest value for no time
	case s >= math.MaxInt64/1_000_000_000:
		return math.MaxInt64
	}
	return t.UnixNano()
}
