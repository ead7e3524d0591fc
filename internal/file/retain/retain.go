// Package retain orders finished traces by age, for retention. It does not trust the
// machine's clock: the clock may have been wrong when a file was made, and it may be
// set while the process runs.
package retain

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// The default bounds for the finished traces of one service in a folder.
const (
	DefaultFiles = 50
	DefaultBytes = 2 << 30
)

// A File is a finished trace.
type File struct {
	Path     string
	Named    time.Time // the time in the name
	Modified time.Time
	Size     int64
	Asked    bool // somebody asked for the trace: it is removed after all others
	Spare    bool // the trace is never removed
}

// Keep says how many finished traces are kept. A zero field means no bound.
type Keep struct {
	Files int
	Bytes int64
	Age   time.Duration
}

// A Log holds the files that this process ended, and the times by the monotonic clock
// at which it ended them. It keeps the latest few thousand files. The zero value is
// empty. A Log is safe for concurrent use.
type Log struct {
	mu sync.Mutex

	ended map[string]time.Time // by path
}

// maxEnded bounds Log.ended, because a process that removes no files never calls Forget.
const maxEnded = 10_000

// Add records that this process ended the file just now.
func (l *Log) Add(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended == nil {
		l.ended = make(map[string]time.Time)
	}
	l.ended[path] = time.Now()
	if len(l.ended) > maxEnded {
		times := slices.SortedFunc(maps.Values(l.ended), time.Time.Compare)
		maps.DeleteFunc(l.ended, func(_ string, at time.Time) bool { return at.Before(times[maxEnded/2]) })
	}
}

// forgetAfter is how long a file must have ended before Forget drops it. A file that is
// being renamed can be missing from a listing of its folder.
const forgetAfter = time.Minute

// Forget drops the files that no longer exist. It keeps files that were added within the
// last minute.
func (l *Log) Forget(exists func(path string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.ended, func(path string, at time.Time) bool { return time.Since(at) > forgetAfter && !exists(path) })
}

// maxAhead is how far in the future the time of a file may be if the file is to count as
// new. The clocks of two machines differ a little, and clocks are corrected sometimes.
const maxAhead = 5 * time.Minute

// Compare returns a function that compares two files by age at the time now, oldest
// first. The time of a file that this process ended is the time when it ended the file.
// The time of any other file is the time in its name or the time of its last change,
// whichever is earlier. If both are more than five minutes in the future, the clock was
// wrong when the file was made, and the file counts as the oldest.
func (l *Log) Compare(now time.Time) func(a, b *File) int {
	ref := time.Now() // taken once, because files may end microseconds apart
	date := func(f *File) time.Time {
		if at, ok := l.endedAt(f); ok {
			return now.Add(-ref.Sub(at))
		}
		at := f.Named
		if f.Modified.Before(at) {
			at = f.Modified
		}
		switch ahead := at.Sub(now); {
		case ahead > maxAhead:
			return time.Time{}
		case ahead > 0:
			return now
		}
		return at
	}
	return func(a, b *File) int { return date(a).Compare(date(b)) }
}

// Prune calls remove until all bounds of k hold at the time now. It calls remove first for the files that
// exceed k.Age, and then for other files from the oldest on. A file for which remove returns false still
// counts. Prune sorts files.
func (l *Log) Prune(files []File, k Keep, now time.Time, remove func(*File) bool) {
	count, size := len(files), int64(0)
	for i := range files {
		size += files[i].Size
	}
	try := func(f *File) bool {
		gone := remove(f)
		if gone {
			count--
			size -= f.Size
		}
		return gone
	}
	older := l.Compare(now)
	slices.SortStableFunc(files, func(a, b File) int {
		switch {
		case a.Asked == b.Asked:
			return older(&a, &b)
		case b.Asked:
			return -1
		}
		return 1
	})
	// First remove the files that are too old, because that may be enough.
	files = slices.DeleteFunc(files, func(f File) bool {
		return f.Spare || k.Age > 0 && l.Older(&f, now, k.Age) && try(&f)
	})
	for i := range files {
		if (k.Files <= 0 || count <= k.Files) && (k.Bytes <= 0 || size <= k.Bytes) {
			return
		}
		try(&files[i])
	}
}

// Older reports whether f is older than age at the time now. The age of a file that this
// process ended is the time since then. Any other file is older only if both the time in
// its name and the time of its last change are.
func (l *Log) Older(f *File, now time.Time, age time.Duration) bool {
	if at, ok := l.endedAt(f); ok {
		return time.Since(at) > age
	}
	return now.Sub(f.Named) > age && now.Sub(f.Modified) > age
}

// endedAt returns the time when this process ended f, with a monotonic reading.
func (l *Log) endedAt(f *File) (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok = l.ended[f.Path]
	return at, ok
}
