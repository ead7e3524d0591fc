package control

import (
	"cmp"
	"errors"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
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
