package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/entrace-go/entrace/format"
)

// dead is a context that is done.
var dead = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// snapshot writes what is in the ring. The worker calls it.
func (c *Control) snapshot(t *Trace) (Verdict, error) {
	window := t.tc.window()
	if w := t.request.Window; w > 0 {
		window = w
	}
	o := format.SnapshotOptions{From: t.began.Add(-window), Providers: format.Providers(t.tc.Providers)}
	if t.tc.Scope == ScopeTrace {
		if o.Trace = t.request.Span.TraceID; o.Trace == [16]byte{} {
			o.Trace[0] = 1 // none at all
		}
	}
	sn := c.ring.Snapshot(o)
	defer sn.Close()
	dumps := c.dump(t)
	var err error
	if t.rec, err = c.create(t, &format.RecorderOptions{Durability: format.DurabilityWriteThrough}); err != nil {
		return Failed, err
	}
	e := t.head()
	number := func(name string, n uint64) {
		e.Attributes = append(e.Attributes, format.Attribute{Name: name, Value: format.U64Value(n)})
	}
	number("window.asked_nano", uint64(window))
	number("window.got_nano", uint64(max(0, t.began.Sub(sn.From))))
	number("evicted", sn.Evicted)
	st := c.ring.Recorder().Stats()
	dropped(e, &st.Entries.Dropped)
	if _, err = t.rec.AppendHead(e); err == nil {
		err = sn.Copy(t.rec)
	}
	c.nameOff(t)
	dumps.write(t)
	if err == nil {
		err = t.rec.Err()
	}
	if err != nil {
		return Failed, errors.Join(err, t.discard())
	}
	return c.close(t)
}

// create makes the file of a trace.
func (c *Control) create(t *Trace, o *format.RecorderOptions) (*format.Recorder, error) {
	o.Version = c.ring.Recorder().Version()
	return format.Create(t.path, o)
}

// close finishes the file of a trace, if that is to be kept.
func (c *Control) close(t *Trace) (Verdict, error) {
	keep, err := c.keeps(t)
	if err != nil {
		c.report(fmt.Errorf("trace %s is kept: %w", t.tc.Name, err))
	}
	if !keep {
		c.mu.Lock()
		c.unkept++
		c.mu.Unlock()
		return ConditionUnmet, t.discard()
	}
	if err := t.rec.Close(context.Background()); err != nil {
		return Failed, errors.Join(err, t.discard())
	}
	c.mu.Lock()
	c.kept++
	c.mu.Unlock()
	if _, err := c.dir.trim(c.force.Load().cfg.Keep, time.Now()); err != nil {
		c.report(fmt.Errorf("trim %s: %w", c.dir.dir, err))
	}
	t.finish(Started, nil)
	c.tellOf(t)
	return Started, nil
}
