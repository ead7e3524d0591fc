package recorder

import (
	"context"
	"runtime"
)

// RaceEnabled says whether the race detector is on. It makes pools drop objects at random.
const RaceEnabled = raceEnabled

// ReplaceJournal makes the writer of r replace its journal n times, locked to one thread. Without this
// function, a recorder replaces its journal only after an error.
func ReplaceJournal(ctx context.Context, r *Recorder, n int) error {
	return r.target.(*writer).ask(ctx, func(w *writer) error {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for range n {
			w.replaceJournal(ErrUnlinked)
		}
		return nil
	})
}

// FailDisk replaces the growing file of r by one whose calls fail as a test requests.
func FailDisk(r *Recorder) (f *FaultyStream) {
	_ = onWriter(r, func(w *writer) {
		f = &FaultyStream{File: w.file.f}
		w.file.w = f
	})
	return f
}
