package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/recorder"
)

// unfinishedTraces holds the traces that are still IETs.
type unfinishedTraces struct {
	traces []*Trace
	wait   time.Duration // time between the last attempt to finish the traces and the next attempt
	next   time.Time     // time of the next attempt
}

// The minimum and maximum time between two attempts. These times are long because an attempt to finish a large
// trace may fill the disk.
const (
	minFinishWait = time.Minute
	maxFinishWait = time.Hour
)

// retryUnfinished tries again to finish the unfinished traces, and returns the names of the traces that it has
// finished. Each failed attempt doubles the wait. Errors are not reported again.
func (c *Control) retryUnfinished() (finished []string) {
	u := &c.unfinished
	if len(u.traces) == 0 || time.Now().Before(u.next) {
		return nil
	}
	u.traces = slices.DeleteFunc(u.traces, func(t *Trace) bool {
		name := t.ID + tracename.ET
		done, err := c.dir.Finish(name)
		if done {
			finished = append(finished, name)
			c.markFinished(t)
		}
		return err == nil
	})
	if len(u.traces) == 0 {
		*u = unfinishedTraces{}
		return finished
	}
	u.wait = min(max(2*u.wait, minFinishWait), maxFinishWait)
	u.next = time.Now().Add(u.wait)
	return finished
}

// markFinished updates a trace that was unfinished and is finished now.
func (c *Control) markFinished(t *Trace) {
	t.mu.Lock()
	t.verdict, t.path = VerdictStarted, filepath.Join(c.dir.Dir(), t.ID+tracename.ET)
	t.mu.Unlock()
	c.mu.Lock()
	c.account.Unfinished--
	c.account.Kept++
	c.mu.Unlock()
	c.callOnTrace(t)
}

// outcome returns the verdict for a trace whose recorder has returned err from Close: VerdictStarted if the
// ET exists, else VerdictUnfinished if the IET or its journal exists, else VerdictFailed.
func outcome(rec *recorder.Recorder, err error) Verdict {
	if traces.IsFinished(rec, err) {
		return VerdictStarted
	}
	for _, name := range []string{rec.StreamPath(), rec.StreamPath() + tracename.Journal} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return VerdictUnfinished // the file exists, or Lstat failed for another reason than a missing file
		}
	}
	return VerdictFailed
}
