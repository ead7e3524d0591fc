package recorder

import (
	"context"
	"runtime"
)

// RaceEnabled tells the external tests that the race detector is on. Then pools drop objects at random.
const RaceEnabled = raceEnabled

// ReplaceJournal makes a recorder replace its journal n times, all in one thread. A recorder
// otherwise does so after an error of the journal.
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
