package osfile

import (
	"errors"
	"os"
	"time"
)

// A LockState describes whether another process holds the exclusive lock of a file.
type LockState int

// The states of a lock.
const (
	LockUnknown LockState = iota // the system or the file system does not support locks
	LockFree
	LockHeld
)

// LockHolder returns the state of the exclusive lock of the file called name. If a process holds the lock, pid is its id,
// or 0 if the id is unknown. It takes a shared lock for a moment.
func LockHolder(name string) (state LockState, pid int) {
	f, err := OpenRead(name)
	if err != nil {
		return LockUnknown, 0
	}
	defer f.Close() // releases the shared lock
	state = stateOf(f)
	if state == LockHeld {
		pid = lockPID(f)
	}
	return state, pid
}

// Locked reports whether another open file holds the exclusive lock of the file called name. It takes a shared lock for a
// moment.
func Locked(name string) bool {
	f, err := OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close() // releases the shared lock
	return stateOf(f) == LockHeld
}

// stateOf returns the state of the lock of f. It takes the shared lock if it can. The caller closes f.
func stateOf(f *os.File) LockState {
	err := Lock(f, false)
	switch {
	case err == nil:
		return LockFree
	case errors.Is(err, ErrLocked):
		return LockHeld
	}
	return LockUnknown
}

// How often LockPatiently tries to lock, and the pause between two tries. A process that only checks a lock holds
// it for a shorter time than all tries together.
const (
	lockTries = 10
	lockPause = 5 * time.Millisecond
)

// LockPatiently is like Lock, but tries several times, because a process that only checks the lock may hold it for
// a moment.
func LockPatiently(f *os.File, exclusive bool) error {
	for try := 1; ; try++ {
		err := Lock(f, exclusive)
		if try == lockTries || !errors.Is(err, ErrLocked) {
			return err
		}
		time.Sleep(lockPause)
	}
}
