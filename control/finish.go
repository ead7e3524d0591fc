package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/recorder"
)

// close finishes the file of a trace, or removes the file if KeepIf does not keep the trace. If close returns
// VerdictStarted and an error, the trace lost records, and an entry of the trace has the number of lost records.
func (c *Control) close(t *Trace) (Verdict, error) {
	keep, err := c.keeps(t)
	if err != nil {
		c.report(fmt.Errorf("trace %s is kept, because keep_if could not be evaluated: %w", t.Name, err))
	}
	if !keep {
		c.mu.Lock()
		c.account.Unkept++
		c.mu.Unlock()
		return VerdictConditionUnmet, t.discard()
	}
	err = t.rec.Close(context.Background())
	v := outcome(t.rec, err)
	name := filepath.Base(t.path)
	var finished []string
	switch v {
	case VerdictStarted:
		finished = append(c.retryUnfinished(), name) // this trace could be written, so the disk may have room again for the unfinished traces
	case VerdictUnfinished:
		t.mu.Lock()
		t.path = t.rec.StreamPath()
		t.mu.Unlock()
		c.unfinished.traces = append(c.unfinished.traces, t)
	}
	_, terr := c.dir.Trim(retain.Keep(c.Config().Keep), time.Now(), finished...)
	if terr != nil {
		c.report(fmt.Errorf("remove old traces of %s: %w", c.dir.Dir(), terr))
	}
	return v, err
}

// conclude counts a trace that has ended, reports its error and calls OnTrace.
func (c *Control) conclude(t *Trace, v Verdict, err error) {
	c.mu.Lock()
	switch v {
	case VerdictStarted:
		c.account.Kept++
	case VerdictUnfinished:
		c.account.Unfinished++
	case VerdictFailed:
		c.account.Lost++
	}
	l := c.limitOf(t.tc)
	if err == nil {
		l.fails = 0
	} else {
		l.failed(time.Now())
	}
	c.mu.Unlock()
	if err != nil {
		c.report(fmt.Errorf("trace %s: %w", t.Name, err))
	}
	t.rec, t.size = nil, nil // free the journal even if the application keeps t
	t.stream.Store(nil)
	t.finish(v, err)
	c.callOnTrace(t)
}

// callOnTrace calls OnTrace with a trace that is finished.
func (c *Control) callOnTrace(t *Trace) {
	if c.o.OnTrace != nil {
		c.callbacks.offer(func() { c.o.OnTrace(t) })
	}
}

// The minimum and maximum time between two attempts to finish traces. These times are long because an attempt to
// finish a large trace may fill the disk.
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
