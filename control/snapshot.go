package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

// snapshot writes the records of the ring to the file of a trace. Only the writer
// calls it.
func (c *Control) snapshot(t *Trace) (Verdict, error) {
	window := cmp.Or(max(t.Request.Window, 0), t.tc.Window, defaultWindow)
	o := ring.SnapshotOptions{From: t.StartTime.Add(-window), Providers: record.Providers(t.tc.Providers)}
	if t.tc.Scope == scopeTrace {
		o.Trace = t.Request.Span.TraceID
		if o.Trace == [16]byte{} {
			o.Trace[0] = 1 // an id that no span or log record has
		}
	}
	sn := c.ring.Snapshot(o)
	defer sn.Close()
	dumps := c.dump(t)
	var err error
	t.rec, err = c.ring.Create(t.path, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	if err != nil {
		return VerdictFailed, err
	}
	t.explain(dumps.open(), dumps)
	e := t.head()
	number := func(name string, n uint64) {
		e.Add(name, format.U64Value(n))
	}
	number("window.asked_nano", uint64(window))
	number("window.got_nano", uint64(max(0, t.StartTime.Sub(sn.From))))
	number("evicted", sn.Evicted)
	st := c.ring.Recorder().Stats()
	addDropped(e, &st.Entries.Dropped)
	_, err = inside.Of(t.rec).AppendAnchor(e)
	had := t.rec.Stats().Entries.Written
	err = errors.Join(err, sn.Copy(t.rec))
	c.nameOff(t)
	dumps.write(t)
	if err != nil && t.rec.Stats().Entries.Written == had {
		return VerdictFailed, errors.Join(err, t.discard()) // the file has no record of the ring
	}
	return c.close(t)
}

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
