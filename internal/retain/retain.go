// Package retain says which finished traces are the oldest, for those who keep no
// more than so many. The clock of a machine cannot be trusted for that: it may have
// been a day ahead when a file was made, or be set while the process runs.
package retain

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// A File is a finished trace.
type File struct {
	Path     string
	Named    time.Time // the time in its name
	Modified time.Time
}

// A Log remembers which files are this process's own, and since when by a clock that
// nobody can set: thousands of them, the latest ones. The zero value is empty. A Log is safe for concurrent use.
type Log struct {
	mu sync.Mutex

	own map[string]time.Time // by path
}

// Add notes that this process ended a file just now.
func (l *Log) Add(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own == nil {
		l.own = make(map[string]time.Time)
	}
	l.own[path] = time.Now()
	if len(l.own) > maxOwn {
		times := slices.SortedFunc(maps.Values(l.own), time.Time.Compare)
		maps.DeleteFunc(l.own, func(_ string, at time.Time) bool { return at.Before(times[maxOwn/2]) })
	}
}

// maxOwn is how many files are remembered at most: where there is no bound nobody
// forgets those that are gone.
const maxOwn = 10_000

// settled is how long ago a file was ended that nobody renames any more: while that is
// done, whoever lists the folder may miss it.
const settled = time.Minute

// Forget drops what is known of files that are not there any more. What was added
// within the last minute stays.
func (l *Log) Forget(there func(path string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.own, func(path string, at time.Time) bool { return time.Since(at) > settled && !there(path) })
}

// tolerated is how far ahead the clock of another machine, or that of this one before
// it was set, may have been for a file to be as new as it says.
const tolerated = 5 * time.Minute

// Compare returns a comparison by which the oldest files come first, at the time now.
// A file of this process counts from when it ended it, another one from the earlier
// one of the times in its name and of its last change. A file both of whose times
// have not come yet, by more than five minutes, is older than all others: it was made
// while the clock was wrong, nobody knows when.
func (l *Log) Compare(now time.Time) func(a, b *File) int {
	ref := time.Now() // one for all, since files are ended at almost the same time
	at := func(f *File) time.Time {
		if ended, ok := l.ended(f); ok {
			return now.Add(-ref.Sub(ended))
		}
		at := f.Named
		if f.Modified.Before(at) {
			at = f.Modified
		}
		switch ahead := at.Sub(now); {
		case ahead > tolerated:
			return time.Time{}
		case ahead > 0:
			return now
		}
		return at
	}
	return func(a, b *File) int { return at(a).Compare(at(b)) }
}

// Older reports whether f is older than age at the time now, by all that is known: a
// file whose name or last change is younger is not.
func (l *Log) Older(f *File, now time.Time, age time.Duration) bool {
	if ended, ok := l.ended(f); ok {
		return time.Since(ended) > age
	}
	return now.Sub(f.Named) > age && now.Sub(f.Modified) > age
}

// ended returns when this process ended f, with a reading of the clock that nobody can
// set.
func (l *Log) ended(f *File) (at time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok = l.own[f.Path]
	return at, ok
}
