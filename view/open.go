package view

import (
	"math"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
)

// OpenFor reports whether the span at row r has not ended, and how long it was open at least: from its start to
// the last time in the files that contain the span. The time at which a recorder closed a file does not count.
func (v *View) OpenFor(r Row) (d time.Duration, open bool) {
	start := v.start(r)
	if f := v.flags(r); f.Role() != RoleSpan || !f.Open() || start == noTime {
		return 0, false
	}
	v.lastsOnce.Do(v.findLasts)
	last := v.lasts[v.fileNumber(r)]
	if other, several := v.lastOf[r]; several {
		last = max(last, other)
	}
	return max(0, time.Duration(last-start)), true
}

// Period returns the first and the last time in the view, in nanoseconds since 1970. The result ok is false if no
// row has a time. Period ignores resources, links and the entries of the recorder itself.
func (v *View) Period() (first, last int64, ok bool) {
	v.periodOnce.Do(func() {
		v.period = [2]int64{math.MaxInt64, math.MinInt64}
		for k := range v.Columns().Blocks() {
			b := v.Columns().Block(k)
			for i, start := range b.Start {
				switch Flags(b.Flags[i]).Role() {
				case RoleSpan, RoleLog, RoleEvent, RoleOther:
					if start != noTime {
						v.period = [2]int64{min(v.period[0], start), max(v.period[1], EndOf(&b, i))}
					}
				}
			}
		}
	})
	return v.period[0], v.period[1], v.period[0] <= v.period[1]
}

// Lasted returns the duration of the span at row r. For a span that has not ended, it returns how long the span was
// open at least, like [View.OpenFor]. It returns false if r has neither a duration nor a time of [View.OpenFor].
func (v *View) Lasted(r Row) (d time.Duration, known bool) {
	d, known = v.Duration(r)
	if !known {
		d, known = v.OpenFor(r)
	}
	return d, known
}

// findLasts finds the last time of each file. For an open span that is in several files, it finds
// the last time of the other files that contain it.
func (v *View) findLasts() {
	v.lasts = make([]int64, len(v.files))
	for i := range v.lasts {
		v.lasts[i] = math.MinInt64
		for _, run := range v.files[i].runs {
			for r := run.row; r < run.end; r++ {
				if v.Role(r) == RoleRecorder && v.Name(r) == mapping.NameEnd {
					continue // before this entry, the program may have been idle for long, or dead
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
			if at := v.lasts[v.fileNumber(r)]; !ok || at > last {
				v.lastOf[first] = at
			}
		}
	}
}
