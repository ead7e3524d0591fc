package osfile

import "errors"

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
	if !haveLocks {
		return HoldUnknown, 0
	}
	f, err := OpenRead(name)
	if err != nil {
		return HoldUnknown, 0
	}
	defer f.Close() // gives the lock back, too
	err = Lock(f, false)
	switch {
	case err == nil:
		return HoldNone, 0
	case errors.Is(err, ErrLocked):
		return HoldTaken, lockPID(f)
	}
	return HoldUnknown, 0
}

// Locked reports whether another open file holds the exclusive lock of the file
// name. To find out it takes a shared lock for a moment.
func Locked(name string) bool {
	h, _ := Holder(name)
	return h == HoldTaken
}
