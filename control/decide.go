package control

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Start asks for a trace. Of a snapshot it returns when the file is there, of a
// stream when that has begun. The error is a [*DeniedError], or that of ctx: the
// trace may come all the same then.
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
	begun := error(&DeniedError{Request: r, Verdict: VerdictFailed}) // unless begin returns
	done := make(chan struct{})
	if v := c.admit(&r, f, i, func(t *Trace) {
		defer close(done)
		if begun = c.begin(t); begun == nil {
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

// Fire asks for a trace like Start and returns at once; the verdict is counted. A request for a trace for
// which another request waits is one with that.
func (c *Control) Fire(r Request) {
	f, i, v := c.match(&r)
	if v != VerdictStarted {
		return
	}
	once := !r.Manual
	if once && f.waits[i].Swap(true) {
		c.verdicts.count(r.Trigger, VerdictCoalesced)
		return
	}
	taken := func() {
		if once {
			f.waits[i].Store(false)
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

// match returns the trace of the configuration in force that r is for. It counts another verdict than
// VerdictStarted.
func (c *Control) match(r *Request) (f *rules, trace int, v Verdict) {
	if c == nil || c.closed.Load() {
		return nil, 0, VerdictClosed
	}
	f = c.rules.Load()
	if trace, v = f.match(r); v != VerdictStarted {
		c.verdicts.count(r.Trigger, v)
	}
	return f, trace, v
}

// admit makes a trace, if the limits allow it, and queues begin for the writer. It counts another verdict
// than VerdictStarted. The caller has taken a slot. Admit frees it with such a verdict, and the writer
// when it calls begin.
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
		c.watchdog.traces(r.Span) // now: it may end at any moment
	}
	c.writer.queue <- func() {
		<-c.slots
		begin(t)
	}
	return VerdictStarted
}

// allow returns VerdictStarted if there can be a trace now. The lock mu is held.
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

// same reports whether r and other ask for the same.
func (r *Request) same(other *Request) bool { return r.Trigger == other.Trigger && r.Key == other.Key }

// Stop ends the streams that a request like r has started, and reports whether there was one. It returns
// at once: the streams take no more spans and log records, and [Trace.Done] says when a file is finished.
func (c *Control) Stop(r Request) bool {
	return c.endAll(func(t *Trace) bool { return t.Request.same(&r) }, endStopped, "")
}

// Abort is Stop, and removes the files of the streams.
func (c *Control) Abort(r Request, why string) bool {
	return c.endAll(func(t *Trace) bool { return t.Request.same(&r) }, endAborted, why)
}

func (c *Control) endAll(which func(*Trace) bool, how endReason, why string) (ended bool) {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range slices.Clone(c.running) {
		if which(t) {
			ended = c.endStream(t, how, why) || ended
		}
	}
	return ended
}

// endStream queues the end of a stream, and reports whether it ran. The lock mu is held.
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

// Running returns the streams that have begun and have not been stopped.
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

// A limit counts how often a trace was taken, for every, per_hour, one_in and keep_if.
type limit struct {
	asked int         // for one_in
	last  time.Time   // when the last one was asked for
	hour  []time.Time // of those of the last hour
	ended map[int]int // for keep_if, by class
	fails int         // in a row
	until time.Time   // it rests after a failure
}

// limitOf returns the limit of a trace. The lock mu is held.
func (c *Control) limitOf(tc *TraceConfig) *limit {
	l := c.limits[tc.Name]
	if l == nil {
		l = new(limit)
		c.limits[tc.Name] = l
	}
	return l
}

// failed has the trace rest, since it could not be written.
func (l *limit) failed(now time.Time) {
	l.fails = min(l.fails+1, 6)
	l.until = now.Add(time.Second << l.fails)
}

// rests reports whether r is refused because the trace failed a moment ago. The failure may have been
// logged, and r be a consequence of that.
func (l *limit) rests(r *Request, now time.Time) bool {
	switch r.Trigger {
	case TriggerLog, TriggerSpan, TriggerWatchdog, TriggerPanic:
		return !r.Manual && now.Before(l.until)
	}
	return false
}

// allow counts a request for a trace and returns VerdictStarted if its limits allow it.
func (l *limit) allow(t *TraceConfig, now time.Time) Verdict {
	if t.Every > 0 && !l.last.IsZero() && now.Sub(l.last) < t.Every {
		return VerdictRateLimited
	}
	l.hour = slices.DeleteFunc(l.hour, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if t.PerHour > 0 && len(l.hour) >= t.PerHour {
		return VerdictRateLimited
	}
	if l.asked++; t.OneIn > 1 && (l.asked-1)%t.OneIn != 0 {
		return VerdictSampledOut
	}
	l.last = now
	if t.PerHour > 0 {
		l.hour = append(l.hour, now)
	}
	return VerdictStarted
}
