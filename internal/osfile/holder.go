package osfile

import (
	"errors"
	"os"
)

// A LockState says whether another process holds the exclusive lock of a file.
type LockState int

// The states of a lock.
const (
	LockUnknown LockState = iota // the system or the file system has no locks
	LockFree
	LockHeld
)

// LockHolder returns the state of the exclusive lock of the file name, and the id of
// the process that holds it, 0 if that is unknown. It takes a shared lock for a moment.
func LockHolder(name string) (state LockState, pid int) {
	f, err := OpenRead(name)
	if err != nil {
		return LockUnknown, 0
	}
	defer f.Close() // releases the shared lock
	if state = stateOf(f); state == LockHeld {
		pid = lockPID(f)
	}
	return state, pid
}

// Locked reports whether another open file holds the exclusive lock of the file
// name. It takes a shared lock for a moment.
func Locked(name string) bool {
	f, err := OpenRead(name)
	if err != nil {
		return false
	}
	defer f.Close() // releases the shared lock
	return stateOf(f) == LockHeld
}

// stateOf tries to take the shared lock of f, which the caller closes.
func stateOf(f *os.File) LockState {
	if !haveLocks {
		return LockUnknown
	}
	err := Lock(f, false)
	switch {
	case err == nil:
		return LockFree
	case errors.Is(err, ErrLocked):
		return LockHeld
	}
	return LockUnknown
}
