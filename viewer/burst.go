package viewer

import (
	"math"
	"slices"

	"github.com/entrace-go/entrace/view"
)

// A burst is a short period in which nearly all of the slow or failed spans of one name began.
type burst struct {
	From  int64   `json:"from_unix_nano"`
	To    int64   `json:"to_unix_nano"`
	Share float64 `json:"share"` // the length of the burst as a share of the time in which all spans of the name began
	All   bool    `json:"all"`   // all slow or failed spans began in the burst, not only the share burstMost
}

const (
	burstMost  = .95 // at least this share of the slow or failed spans begins in a burst
	burstLeast = 5   // at least this many spans begin in a burst
	burstTime  = .5  // a burst is at most this share of the time in which all spans of the name began
)

// burstOf returns the shortest period in which nearly all spans of the set "in" began. The set "same" has all
// spans of the same name, and contains "in". burstOf returns nil in the following cases:
//   - The period is longer than the share burstTime of the time in which the spans of "same" began.
//   - The set "in" has too few spans, or all spans of "same".
func (s *state) burstOf(in, same view.Set[view.Row]) *burst {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	var starts []int64
	for r := range same.All() {
		at, timed := s.v.Start(r)
		if !timed {
			continue
		}
		first, last = min(first, at), max(last, at)
		if in.Has(r) {
			starts = append(starts, at)
		}
	}
	n := int(burstMost*float64(len(starts)) + .999)
	if n < burstLeast || len(starts) == same.Len() {
		return nil
	}
	slices.Sort(starts)
	at := 0
	for i := range len(starts) - n + 1 {
		if starts[i+n-1]-starts[i] < starts[at+n-1]-starts[at] {
			at = i
		}
	}
	from, to := starts[at], starts[at+n-1]
	if all := starts[len(starts)-1] - starts[0]; float64(all) < burstTime*float64(last-first) && float64(all) < 1.5*float64(to-from) {
		from, to, n = starts[0], starts[len(starts)-1], len(starts)
	}
	share := float64(to-from) / float64(max(1, last-first))
	if share > burstTime {
		return nil
	}
	return &burst{from, to, share, n == len(starts)}
}
