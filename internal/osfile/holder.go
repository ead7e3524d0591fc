package osfile

import (
	"errors"
	"os"
)

// A Hold says whether somebody holds the exclusive lock of a file.
type Hold int

// What is known of a lock.
const (
	HoldUnknown Hold = iota // the system or the file system has no locks
	HoldNone
	HoldTaken
)

// Holder reports whether another open file holds the exclusive lock of the file name,
// and which process that is, 0 where that is not known. To find out it takes a shared
// lock for a moment.
func Holder(name string) (h Hold, pid int) {
	f, err := OpenRead(name)
	if err != nil {
		return HoldUnknown, 0
	}
	defer f.Close() // gives the lock back, too
	if h = holdOf(f); h == HoldTaken {
		pid = lockPID(f)
	}
	return h, pid
}

// Locked reports whether another open file holds the exclusive lock of the file
// name. To find out it takes a shared lock for a moment.
func Locked(name string) bool {
	f, err := OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close() // gives the lock back, too
	return holdOf(f) == HoldTaken
}

func holdOf(f *os.File) Hold {
	if !haveLocks {
		return HoldUnknown
	}
	err := Lock(f, false)
	switch {
	case err == nil:
		return HoldNone
	case errors.Is(err, ErrLocked):
		return HoldTaken
	}
	return HoldUnknown
}
