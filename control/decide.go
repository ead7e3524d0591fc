package control

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/file/tracename"
)

// Start requests a trace. If the request becomes a snapshot, Start returns when the file is written; if it becomes a
// stream, Start returns when the stream has begun. The error is a [*DeniedError] or the error of ctx. If Start
// returns the error of ctx, the trace may still be made.
func (c *Control) Start(ctx context.Context, r Request) (*Trace, error) {
	f, i, v := c.match(&r)
	if v != VerdictStarted {
		return nil, &DeniedError{Request: r, Verdict: v}
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.writer.ended:
		return nil, &DeniedError{Request: r, Verdict: VerdictClosed}
	}
	var made *Trace
	begun := error(&DeniedError{Request: r, Verdict: VerdictFailed}) // the result if begin panics
	done := make(chan struct{})
	if v := c.admit(&r, f, i, func(t *Trace) {
		defer close(done)
		begun = c.begin(t)
		if begun == nil {
			made = t
		}
	}); v != VerdictStarted {
		return nil, &DeniedError{Request: r, Verdict: v, Trace: f.cfg.Traces[i].Name}
	}
	err := c.writer.wait(ctx, done)
	if errors.Is(err, errClosed) {
		err = &DeniedError{Request: r, Verdict: VerdictClosed}
	}
	if err != nil {
		return nil, err
	}
	return made, begun
}

// Fire requests a trace like Start, but returns at once. The verdict is counted. If another request of Fire
// for the same trace is waiting, both count as one. Manual requests count one by one, unless they come from signals.
func (c *Control) Fire(r Request) {
	f, i, v := c.match(&r)
	if v != VerdictStarted {
		return
	}
	waits := &f.waits[i]
	if r.Manual { // the limits may refuse the waiting request
		waits = &f.waitsManual[i]
	}
	once := !r.Manual || r.Trigger == TriggerSignal
	if once && waits.Swap(true) {
		c.verdicts.count(r.Trigger, VerdictCoalesced)
		return
	}
	taken := func() {
		if once {
			waits.Store(false)
		}
	}
	select {
	case c.slots <- struct{}{}:
	default:
		taken()
		c.verdicts.count(r.Trigger, VerdictCoalesced)
		return
	}
	if c.admit(&r, f, i, func(t *Trace) { taken(); _ = c.begin(t) }) != VerdictStarted { // begin counts the verdict
		taken()
	}
}

// match returns the index in the current configuration of the trace that r requests. It counts verdicts other
// than VerdictStarted.
func (c *Control) match(r *Request) (f *rules, trace int, v Verdict) {
	if c == nil || c.closed.Load() {
		return nil, 0, VerdictClosed
	}
	f = c.rules.Load()
	trace, v = f.match(r)
	if v != VerdictStarted {
		c.verdicts.count(r.Trigger, v)
	}
	return f, trace, v
}

// admit makes a trace if the limits allow it, and queues begin for the writer. It counts verdicts other than
// VerdictStarted. The caller has acquired a slot: if the verdict is VerdictStarted, the writer releases the slot
// before it calls begin. Otherwise admit releases the slot.
func (c *Control) admit(r *Request, f *rules, trace int, begin func(*Trace)) Verdict {
	tc := &f.cfg.Traces[trace]
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.allow(r, tc); v != VerdictStarted {
		<-c.slots
		c.verdicts.count(r.Trigger, v)
		return v
	}
	t := &Trace{
		Name: tc.Name, Mode: tc.mode(), StartTime: time.Now(), Config: f.cfg, Request: *r,
		c: c, tc: tc, done: make(chan struct{}), verdict: VerdictStarted, named: make(map[string]bool),
	}
	if tc.mode() == ModeStream {
		c.running = append(c.running, t)
	}
	if r.Trigger == TriggerWatchdog {
		c.watchdog.traces(r.Span) // now, because the span may end at any moment
	}
	c.writer.queue <- func() {
		<-c.slots
		begin(t)
	}
	return VerdictStarted
}

// allow returns VerdictStarted if a trace can begin now. The caller must hold mu.
func (c *Control) allow(r *Request, tc *TraceConfig) Verdict {
	if c.over {
		return VerdictClosed
	}
	if tc.mode() == ModeStream {
		if slices.ContainsFunc(c.running, func(t *Trace) bool { return t.Name == tc.Name && t.Request.same(r) }) {
			return VerdictAlreadyRunning
		}
		if len(c.running) >= maxStreams {
			return VerdictNoSlot
		}
	}
	if tc.Providers&c.provided == 0 {
		return VerdictNoProviders
	}
	if r.Manual {
		return VerdictStarted
	}
	l, now := c.limitOf(tc), time.Now()
	if l.rests(r, now) {
		return VerdictRateLimited
	}
	return l.allow(tc, now)
}

// begin makes the file of a trace that admit has allowed. Only the writer calls it.
func (c *Control) begin(t *Trace) error {
	r := &t.Request
	c.mu.Lock()
	rests := c.limitOf(t.tc).rests(r, time.Now()) // a trace may have failed since admit
	c.mu.Unlock()
	v, err := VerdictStarted, error(nil)
	switch {
	case rests:
		v = VerdictRateLimited
	case r.Manual && t.Mode != ModeStream && c.ending.Load():
		v = VerdictClosed
	}
	if v != VerdictStarted {
		c.forget(t)
		c.verdicts.count(r.Trigger, v)
		return &DeniedError{Request: *r, Verdict: v, Trace: t.Name}
	}
	name := c.dir.NewName(t.StartTime, t.Name, r.Manual)
	t.ID, t.path = strings.TrimSuffix(name, tracename.ET), filepath.Join(c.dir.Dir(), name)
	if t.Mode == ModeStream {
		err = c.beginStream(t)
		if err != nil {
			v = VerdictFailed
		}
	} else {
		v, err = c.snapshot(t)
	}
	c.verdicts.count(r.Trigger, v)
	if t.Mode != ModeStream || v != VerdictStarted { // a stream that has begun continues
		c.conclude(t, v, err)
	}
	if v != VerdictStarted && v != VerdictUnfinished {
		c.forget(t)
		return &DeniedError{Request: *r, Verdict: v, Trace: t.Name, Err: err}
	}
	return nil
}

// forget is called if t could not be made. It removes t from the running streams, and its span from the watchdog.
func (c *Control) forget(t *Trace) {
	c.mu.Lock()
	c.running = slices.DeleteFunc(c.running, func(other *Trace) bool { return other == t })
	c.mu.Unlock()
	if t.Request.Trigger == TriggerWatchdog {
		c.watchdog.forget(t.Request.Span)
	}
}
