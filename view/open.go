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
	return max(0, time.Duration(v.fileEnd(r).last-start)), true
}

// GoesOn reports whether the span at row r is open only because the view lacks its end: a new file began while the
// span was open, and the view does not have that file.
func (v *View) GoesOn(r Row) bool {
	f := v.flags(r)
	return f.Role() == RoleSpan && f.Open() && v.fileEnd(r).rotated
}

// fileEnd returns how the files end that contain the open span at row r.
func (v *View) fileEnd(r Row) fileEnd {
	v.fileEndsOnce.Do(v.findFileEnds)
	end := v.fileEnds[v.fileNumber(r)]
	if others, several := v.endsOfOpen[r]; several {
		end = end.and(others)
	}
	return end
}

// Period returns the first and the last time in the view, in nanoseconds since 1970. The result ok is false if no
// row has a time. Period ignores resources, links and the entries of the recorder itself.
func (v *View) Period() (first, last int64, ok bool) {
	v.periodOnce.Do(func() {
		v.period = [2]int64{math.MaxInt64, math.MinInt64}
		c := columnsOf{v}
		for k := range c.Blocks() {
			b := c.Block(k)
			for i, start := range b.Start {
				switch Flags(b.Flags[i]).Role() {
				case RoleSpan, RoleLog, RoleEvent, RoleOther:
					if start != noTime {
						v.period = [2]int64{min(v.period[0], start), max(v.period[1], b.EndOf(i))}
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

// findFileEnds finds how each file ends. For an open span that is in several files, it finds how the other files end
// that contain the span.
func (v *View) findFileEnds() {
	v.fileEnds = make([]fileEnd, len(v.files))
	for i := range v.files {
		end := &v.fileEnds[i]
		end.last = math.MinInt64
		for _, run := range v.files[i].runs {
			for r := run.row; r < run.end; r++ {
				if v.Role(r) == RoleRecorder && v.Name(r) == mapping.NameEnd {
					// The entry's time does not count: before it, the program may have been idle for long, or dead.
					e, err := v.Entry(r)
					end.rotated = err == nil && e.IsRotated() && v.id(r)+1 == v.files[i].n
					continue
				}
				if t := v.start(r); t != noTime {
					end.last = max(end.last, t, t+max(0, v.duration(r)))
				}
			}
		}
	}
	v.endsOfOpen = make(map[Row]fileEnd)
	for r := range Row(v.n) {
		first := v.firstOf(r)
		if f := v.flags(first); first != r && f.Role() == RoleSpan && f.Open() {
			end := v.fileEnds[v.fileNumber(r)]
			if others, several := v.endsOfOpen[first]; several {
				end = end.and(others)
			}
			v.endsOfOpen[first] = end
		}
	}
}
