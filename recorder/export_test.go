package recorder

import (
	"context"
	"runtime"
)

// RaceEnabled tells the external tests that pools drop what they are given.
const RaceEnabled = raceEnabled

// ReplaceJournal makes a recorder replace its journal n times, as it does when that has
// failed, all in one thread.
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
