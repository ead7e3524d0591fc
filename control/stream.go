package control

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// streamBlock is the maximum time that the application waits for the disk of a stream.
const streamBlock = 20 * time.Millisecond

// beginStream makes the file of a stream and attaches it to the ring. Only the writer calls it.
func (c *Control) beginStream(t *Trace) error {
	o := &recorder.Options{MaxBlock: streamBlock}
	if t.tc.MaxBytes > 0 {
		t.size = &sizeTee{most: t.tc.MaxBytes, full: func() { t.narrow(); c.endLater(t, endMaxBytes) }}
		o.Tee = t.size
	}
	var err error
	t.rec, err = c.ring.Create(t.path, o)
	if err != nil {
		return err
	}
	t.explain(c.watchdog.openTree(), nil)
	if _, err := inside.Of(t.rec).AppendAnchor(t.head()); err != nil {
		return errors.Join(err, t.discard())
	}
	c.flushProviders(t.tc.Providers) // data from before this stream goes only to earlier streams
	stream, err := c.ring.Stream(t.rec, record.Providers(t.tc.Providers))
	if err != nil {
		return errors.Join(err, t.discard())
	}
	t.stream.Store(stream)
	c.mu.Lock()
	c.fed = append(c.fed, t)
	ends := !slices.Contains(c.running, t) // the end of the stream has been requested in the meantime
	c.mu.Unlock()
	if ends || t.size != nil && t.size.size.Load() >= t.size.most { // the open spans alone may exceed MaxBytes
		t.narrow()
	}
	c.switchProviders()
	c.nameOff(t)
	timeout := cmp.Or(t.tc.Timeout, defaultTimeout)
	if t.Request.Timeout > 0 {
		timeout = t.Request.Timeout
		if !t.Request.Manual && t.tc.Timeout > 0 {
			timeout = min(timeout, t.tc.Timeout)
		}
	} else if t.Request.Manual {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.running, t) {
		t.timer = time.AfterFunc(timeout, func() { c.endLater(t, endTimeout) })
	}
	return nil
}

// narrow makes the stream ignore new spans and log records. Other providers can still write their last data.
func (t *Trace) narrow() {
	if s := t.stream.Load(); s != nil {
		s.SetProviders(record.Providers(t.tc.Providers &^ (Spans | Logs)))
	}
}

// Running returns the streams that have begun and are not ending.
func (c *Control) Running() (begun []*Trace) {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.running {
		if slices.Contains(c.fed, t) {
			begun = append(begun, t)
		}
	}
	return begun
}

// Stop ends this stream, as [Control.Stop] does, and reports whether it was running.
func (t *Trace) Stop() bool {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.c.endStream(t, endStopped, "")
}

// Stop ends the streams whose request had the trigger and key of r, and reports whether such a stream was running. It
// returns at once: the streams then ignore new spans and log records. The channel of [Trace.Done] is closed when a
// file is finished.
func (c *Control) Stop(r Request) bool {
	return c.endAll(&r, endStopped, "")
}

func (c *Control) endAll(r *Request, how endReason, why string) (ended bool) {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range slices.Clone(c.running) {
		if t.Request.same(r) {
			ended = c.endStream(t, how, why) || ended
		}
	}
	return ended
}

// endStream queues the end of a stream, and reports whether the stream was running. The caller must hold mu.
func (c *Control) endStream(t *Trace, how endReason, why string) bool {
	i := slices.Index(c.running, t)
	if i < 0 {
		return false
	}
	c.running = slices.Delete(c.running, i, i+1)
	if t.timer != nil {
		t.timer.Stop()
	}
	t.narrow()
	c.writer.queue <- func() { c.end(t, how, why) }
	return true
}

// endLater queues the end of a stream.
func (c *Control) endLater(t *Trace, how endReason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endStream(t, how, "")
}

// end ends a stream and finishes its file. Only the writer calls it.
func (c *Control) end(t *Trace, how endReason, why string) {
	stream := t.stream.Load()
	if stream == nil {
		return // the stream could not begin
	}
	c.dump(t).write(t)
	c.mu.Lock()
	c.fed = slices.DeleteFunc(c.fed, func(other *Trace) bool { return other == t })
	c.mu.Unlock()
	c.switchProviders() // a provider may write a last time when it stops
	c.flushProviders(t.tc.Providers)
	stream.Close()
	t.writeEnd(how, why)
	v, err := c.close(t)
	if how == endShutdown {
		c.ended = errors.Join(c.ended, err)
	}
	c.conclude(t, v, err)
}

// writeEnd writes the entry that says why the stream ended.
func (t *Trace) writeEnd(how endReason, why string) {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: nameTraceEnd, Target: target, Level: format.LevelInfo}}
	e.Add("end.reason", format.StringValue(string(how)))
	e.Add("duration_nano", format.U64Value(uint64(time.Since(t.StartTime))))
	if why != "" {
		e.Add("end.why", format.StringValue(cut(why)))
	}
	_ = t.rec.Flush(context.Background()) // writes the entries before they are counted; the recorder keeps the error
	st := t.rec.Stats()
	addDropped(e, &st.Entries.Dropped)
	_ = child(t.rec, e) // the recorder counts an entry that fails
}

// A sizeTee is a recorder.Tee that counts the bytes of a stream. When the count reaches most, it calls full, only
// once.
type sizeTee struct {
	most int64
	full func()
	size atomic.Int64
	told bool
}

// Begin implements [recorder.Tee].
func (s *sizeTee) Begin(format.Version) {}

// Take implements [recorder.Tee].
func (s *sizeTee) Take(entries []recorder.TeeEntry) {
	n := int64(0)
	for i := range entries {
		n += int64(len(entries[i].Raw))
	}
	if s.size.Add(n) >= s.most && !s.told {
		s.told = true
		s.full()
	}
}

// Close implements [recorder.Tee].
func (s *sizeTee) Close(context.Context) error { return nil }
