package mapping

import (
	"math"
	"time"
)

// UnixNano returns t in nanoseconds since 1970, or the nearest number that fits into 64 bits.
func UnixNano(t time.Time) int64 {
	switch s := t.Unix(); {
	case s <= math.MinInt64/1_000_000_000:
		return math.MinInt64 + 1 // in a view, the smallest value means no time
	case s >= math.MaxInt64/1_000_000_000:
		return math.MaxInt64
	}
	return t.UnixNano()
}
