package view

import (
	"math"
	"time"

	"github.com/entrace-go/entrace/internal/mapping"
)

// OpenFor returns for how long the span at row r was open at least, and whether it has not ended:
// up to the last time in the files that have it. When a recorder closed them does not count.
func (v *View) OpenFor(r Row) (d time.Duration, open bool) {
	start := v.start(r)
	if f := v.flags(r); f.Role() != RoleSpan || !f.Open() || start == noTime {
		return 0, false
	}
	v.lastsOnce.Do(v.findLasts)
	last := v.lasts[v.fileOf(r)]
	if other, several := v.lastOf[r]; several {
		last = max(last, other)
	}
	return max(0, time.Duration(last-start)), true
}

// findLasts finds the last time of each file, and for open spans of the other files that have them.
func (v *View) findLasts() {
	v.lasts = make([]int64, len(v.files))
	for i := range v.lasts {
		v.lasts[i] = math.MinInt64
		for _, run := range v.files[i].runs {
			for r := run.row; r < run.end; r++ {
				if v.Role(r) == RoleRecorder && v.Name(r) == mapping.NameEnd {
					continue // the program may have done nothing for long before it, or be dead
				}
				if t := v.start(r); t != noTime {
					v.lasts[i] = max(v.lasts[i], t, t+max(0, v.duration(r)))
				}
			}
		}
	}
	v.lastOf = make(map[Row]int64)
	for r := range Row(v.n) {
		first, folded := storedRows{v}.First(r)
		if f := v.flags(first); folded && f.Role() == RoleSpan && f.Open() {
			last, ok := v.lastOf[first]
			if at := v.lasts[v.fileOf(r)]; !ok || at > last {
				v.lastOf[first] = at
			}
		}
	}
}
