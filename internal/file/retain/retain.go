// Package retain removes old traces. It sorts finished traces by age without trusting the machine's clock: the
// clock may have been wrong when a file was made, and somebody may set it while the process runs.
package retain

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// The default limits for the finished traces of one service in a folder.
const (
	DefaultFiles = 50
	DefaultBytes = 2 << 30
)

// A File is a finished trace.
type File struct {
	Path     string
	Named    time.Time // the time in the file's name
	Modified time.Time
	Size     int64
	Asked    bool // somebody requested the trace, so it is removed after all others
	Spare    bool // the trace is never removed
}

// A Keep says how many finished traces remain. A zero field means no limit.
type Keep struct {
	Files int
	Bytes int64
	Age   time.Duration
}

// A Log holds the files that this process has finished, with the monotonic time of each. It forgets the oldest
// beyond a few thousand. The zero value is empty. A Log is safe for concurrent use.
type Log struct {
	mu sync.Mutex

	ended map[string]time.Time // by path
}

// maxEnded limits the size of Log.ended. A process that never removes files does not call Forget.
const maxEnded = 10_000

// Add records that this process has just finished the file at path.
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

// forgetAfter is how long ago a file must have been added before Forget drops it. A listing of a folder can miss a
// file that is just being renamed.
const forgetAfter = time.Minute

// Forget drops the files that no longer exist, except those that were added within the last minute.
func (l *Log) Forget(exists func(path string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.ended, func(path string, at time.Time) bool { return time.Since(at) > forgetAfter && !exists(path) })
}

// maxAhead is how far in the future a file's time may be. Clocks of different machines differ a little, and clocks
// are corrected.
const maxAhead = 5 * time.Minute

// Compare returns a function that compares the ages of two files at the time now, for sorting the oldest first. For
// a file that this process finished, it uses the time at which it was finished. For any other file, it uses the
// time in the name or of the last change, whichever is earlier. If both are more than five minutes in the future,
// the clock was wrong when the file was made, and the file counts as the oldest.
func (l *Log) Compare(now time.Time) func(a, b *File) int {
	ref := time.Now() // the same reference for all files, because two files may end microseconds apart
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

// Prune calls the function remove until all limits of k hold at the time now. It calls it first for each file that
// exceeds k.Age, and then for the others from the oldest on. If remove returns false, the file still counts. Prune
// sorts files.
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
	// First remove the files that are too old. This may already be enough.
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

// Older reports whether f is older than age at the time now. For a file that this process finished, the time since
// then counts. Any other file is older only if both the time in its name and the time of its last change are.
func (l *Log) Older(f *File, now time.Time, age time.Duration) bool {
	if at, ok := l.endedAt(f); ok {
		return time.Since(at) > age
	}
	return now.Sub(f.Named) > age && now.Sub(f.Modified) > age
}

// endedAt returns the time, with a monotonic reading, at which this process finished f.
func (l *Log) endedAt(f *File) (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok = l.ended[f.Path]
	return at, ok
}
