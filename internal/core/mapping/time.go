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

// ExactTime returns the value of AttrTime for t, or "" if UnixNano returns t exactly.
func ExactTime(t time.Time) string {
	if n := UnixNano(t); n > math.MinInt64+1 && n < math.MaxInt64 {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
