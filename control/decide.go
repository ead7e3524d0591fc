package control

import (
	"context"
	"errors"
	"slices"
	"time"
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

// same reports whether r and the request other have the same trigger and key.
func (r *Request) same(other *Request) bool { return r.Trigger == other.Trigger && r.Key == other.Key }

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

// A limit holds the counts of one kind of trace, for every, per_hour, one_in and keep_if.
type limit struct {
	asked int         // number of requests, for one_in
	last  time.Time   // the time of the last request that was allowed
	hour  []time.Time // the times of the allowed requests during the last hour
	ended map[int]int // number of ended traces by class, for keep_if
	fails int         // failures in a row
	until time.Time   // until this time, after a failure, rests may refuse requests
}

// limitOf returns the limit of a kind of trace. The caller must hold mu.
func (c *Control) limitOf(tc *TraceConfig) *limit {
	l := c.limits[tc.Name]
	if l == nil {
		l = new(limit)
		c.limits[tc.Name] = l
	}
	return l
}

// failed sets a pause after a trace could not be written.
func (l *limit) failed(now time.Time) {
	l.fails = min(l.fails+1, 6)
	l.until = now.Add(time.Second << l.fails)
}

// rests reports whether r is refused because a trace failed a short time ago. The application may have
// logged the failure, and this log record may have caused r.
func (l *limit) rests(r *Request, now time.Time) bool {
	switch r.Trigger {
	case TriggerLog, TriggerSpan, TriggerWatchdog, TriggerPanic:
		return !r.Manual && now.Before(l.until)
	}
	return false
}

// allow counts a request for a trace and returns VerdictStarted if the limits in t allow it.
func (l *limit) allow(t *TraceConfig, now time.Time) Verdict {
	if t.Every > 0 && !l.last.IsZero() && now.Sub(l.last) < t.Every {
		return VerdictRateLimited
	}
	l.hour = slices.DeleteFunc(l.hour, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if t.PerHour > 0 && len(l.hour) >= t.PerHour {
		return VerdictRateLimited
	}
	l.asked++
	if t.OneIn > 1 && (l.asked-1)%t.OneIn != 0 {
		return VerdictSampledOut
	}
	l.last = now
	if t.PerHour > 0 {
		l.hour = append(l.hour, now)
	}
	return VerdictStarted
}
