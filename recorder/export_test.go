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
