package control

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/crashtext"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/ring"
	"github.com/entrace-go/entrace/recorder"
)

// Options are what a [Control] is made of. One of Config and Source is needed.
type Options struct {
	Config *Config
	Source Source
	// Providers are those that there are, beside spans and logs, which are always
	// there. Each is a [Provider] or a [Dumper], or both.
	Providers []Member
	// Controllers decide by the trigger of the request; [Matched] does for those
	// that are not here.
	Controllers map[string]Controller
	// Service names the process in what a crash leaves.
	Service string
	// Version is the disk version of the traces. The default is
	// [format.DefaultVersion].
	Version format.Version
	// BufferDir is the folder for the ring, as for [recorder.Options]: by default it
	// is in shared memory where that survives the process, and smaller if there is less
	// room, else in the folder of the traces.
	BufferDir string
	// OnError is told of what goes wrong: a configuration that is broken, a trace
	// that could not be written, a ring that has to do without a file. It and OnTrace
	// are called by a goroutine of their own, one at a time; of what comes while 64
	// wait nothing is told. They may call the control, but for Shutdown.
	OnError func(error)
	// OnTrace, if set, is called when a trace ends. If its verdict is Unfinished,
	// OnTrace is called again when the trace is finished.
	OnTrace func(*Trace)
	// OnCrash, if set, is called when [New] has made a trace of the ring of a process that
	// died. It is called as OnTrace is.
	OnCrash func(*Crash)
}

// A Member is a [Provider] or a [Dumper].
type Member interface{ Provides() Set }

// maxStreams is how many streams there are at once.
const maxStreams = 4

// A Control decides which requests become traces, and writes them. Its ring is fed
// by its Recorder. A nil Control does nothing and denies everything.
//
// A Control is safe for concurrent use.
type Control struct {
	on     atomic.Uint64 // providers, for a quick look
	o      Options
	dir    *folder
	ring   *ring.Ring
	crash  *crashtext.Output
	worker worker
	told   worker // what OnError and OnTrace are told
	notes  *noteWriter
	force  atomic.Pointer[inForce]
	closed atomic.Bool
	ending atomic.Bool // Shutdown was called
	began  time.Time

	verdicts verdicts
	signals  signals
	watchdog watchdog
	panics   lastPanic
	stop     func() // ends the watch on the source

	workerState
	published
}

// workerState is what the worker alone uses.
type workerState struct {
	over       bool // no trace begins any more
	unfinished unfinished
	running    []*Trace
	members    []*member
	limits     map[string]*limit
	override   struct {
		timer *time.Timer
		base  *Config // what comes back
	}
}

// published is what others see of what the worker does.
type published struct {
	mu sync.Mutex

	shown  []*Trace // running, for others
	failed uint64   // configurations that were refused
	lost   uint64   // traces that could not be written
	open   uint64   // traces whose verdict is Unfinished
	kept   uint64
	unkept uint64
	live   Set               // the members' that are on
	offs   map[string]string // those that cannot go on, and why
}

// New returns a control, which records from now on what its configuration says,
// and first saves what a process that died has left in its folder.
func New(o *Options) (*Control, error) {
	c := &Control{o: *o, began: time.Now(), workerState: workerState{limits: make(map[string]*limit)}, stop: func() {}}
	cfg := o.Config
	if o.Source != nil {
		var err error
		if cfg, err = o.Source.Config(); err != nil {
			return nil, fmt.Errorf("control: %w", err)
		}
	}
	if cfg == nil {
		return nil, errors.New("control: there is no configuration")
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("control: configuration: %w", err)
	}
	if err := o.Version.Check(); o.Version != 0 && err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	var err error
	if c.dir, err = openFolder(cfg.Dir); err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	c.told.start()
	c.saveDead(cfg.Keep)
	if c.ring, err = c.newRing(cfg); err != nil {
		c.told.stop()
		return nil, fmt.Errorf("control: %w", err)
	}
	for _, m := range o.Providers {
		c.members = append(c.members, &member{m: m, provides: m.Provides()})
	}
	c.notes = newNoteWriter(c.ring.SetNote, c.report)
	c.worker.start()
	_ = c.worker.do(func() { c.apply(cfg) }) // it has just begun
	if o.Source != nil {
		stop, err := o.Source.Watch(c.sourceChanged)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("control: %w", err), c.Shutdown(context.Background()))
		}
		c.stop = stop
	}
	var denied *DeniedError // unless something asks for it
	if _, err := c.Start(context.Background(), Request{Trigger: TriggerStart, Key: o.Service, Reason: "the process has started"}); err != nil && !errors.As(err, &denied) {
		c.report(err)
	}
	return c, nil
}

// newRing makes the ring, in a file if that can be had.
func (c *Control) newRing(cfg *Config) (*ring.Ring, error) {
	ro := ring.Options{
		Version: c.o.Version, Bytes: cfg.Ring.Bytes, Taken: &c.on, OnError: c.report, OnLog: c.logged,
	}
	if cfg.Ring.Bytes == 0 {
		ro.Bytes = -1
	}
	if cfg.Ring.Bytes == 0 || !cfg.Ring.Persist {
		return ring.New(&ro)
	}
	base := c.dir.path(ringName(c.began))
	ro.Path, ro.Dir, ro.Note = base+ringExt, c.o.BufferDir, c.note(cfg)
	g, err := ring.New(&ro)
	if err != nil {
		c.report(fmt.Errorf("the ring does without a file: %w", err))
		ro.Path, ro.Note = "", nil
		return ring.New(&ro)
	}
	if c.crash, err = crashtext.Open(base + crashExt); err != nil {
		c.report(fmt.Errorf("no crash text: %w", err))
	}
	return g, nil
}

// report tells of what is no reason to stop.
func (c *Control) report(err error) {
	if c.o.OnError != nil && err != nil {
		c.told.offer(func() { c.o.OnError(err) })
	}
}

// Recorder returns the recorder of the ring: give it to the span processor and to
// the slog handler. That of a nil Control drops everything.
func (c *Control) Recorder() *recorder.Recorder {
	if c == nil {
		return recorder.Discard()
	}
	return c.ring.Recorder()
}

// Enabled reports whether one of the providers in s is on. It is one atomic load.
func (c *Control) Enabled(s Set) bool { return c != nil && c.on.Load()&uint64(s) != 0 }

// Config returns the configuration in force.
func (c *Control) Config() *Config {
	if c == nil {
		return nil
	}
	return c.force.Load().cfg
}

// Dir returns the folder of the traces.
func (c *Control) Dir() string {
	if c == nil {
		return ""
	}
	return c.dir.dir
}

// SetConfig puts another configuration in force. If it is wrong the old one stays.
// The folder, and size and place of the ring, stay what they are. The error may be
// [ErrLate].
func (c *Control) SetConfig(cfg *Config) error {
	if c == nil || c.closed.Load() {
		return errClosed
	}
	if err := cfg.Validate(); err != nil {
		c.refused()
		return err
	}
	return c.worker.doSoon(func() {
		if c.override.timer != nil {
			c.override.base = cfg // it comes when that is over
			return
		}
		c.apply(cfg)
	})
}

var errClosed = errors.New("control: shut down")

var errFull = errors.New("control: too much waits for the file of the ring or of a trace, which does not answer: try again later")

// ErrLate says that a [Control] did not come to what it was asked for within a second, as
// the file of its ring or of a trace does not answer. It does it as soon as that answers.
var ErrLate = errors.New("control: done when the file of the ring or of a trace answers, which it did not for a second")

func (c *Control) refused() {
	c.mu.Lock()
	c.failed++
	c.mu.Unlock()
}

// sourceChanged is told by the source.
func (c *Control) sourceChanged(cfg *Config, err error) {
	if err == nil {
		err = c.SetConfig(cfg)
	} else {
		c.refused()
	}
	switch {
	case err == nil, errors.Is(err, errClosed):
	case errors.Is(err, ErrLate):
		c.report(fmt.Errorf("configuration %s: %w", cfg.ID, err))
	default:
		c.report(fmt.Errorf("configuration %s stays in force: %w", c.Config().ID, err))
	}
}

// Override puts a configuration in force for a while, after which the one before
// comes back, or what the source has brought meanwhile. A nil cfg ends that now. The error
// may be [ErrLate].
func (c *Control) Override(cfg *Config, d time.Duration) error {
	if c == nil || c.closed.Load() {
		return errClosed
	}
	if cfg != nil {
		if err := cfg.Validate(); err != nil {
			c.refused()
			return err
		}
	}
	return c.worker.doSoon(func() {
		c.endOverride()
		if cfg == nil || c.over {
			return
		}
		c.override.base = c.force.Load().cfg
		var t *time.Timer
		t = time.AfterFunc(d, func() {
			c.worker.post(context.Background(), func() {
				if c.override.timer == t {
					c.endOverride()
				}
			})
		})
		c.override.timer = t
		c.apply(cfg)
	})
}

func (c *Control) endOverride() {
	if c.override.timer == nil {
		return
	}
	c.override.timer.Stop()
	base := c.override.base
	c.override.timer, c.override.base = nil, nil
	c.apply(base)
}

// apply puts a configuration in force. The worker calls it.
func (c *Control) apply(cfg *Config) {
	if c.over {
		return
	}
	f := compile(cfg)
	c.force.Store(f)
	c.ring.SetBuffered(record.Providers(cfg.inRing()))
	c.ring.SetObserved(record.Providers(cfg.heard()))
	c.ring.SetLogLevel(f.noticed)
	c.ring.SetPanics(len(f.rules[TriggerPanic]) > 0)
	c.switchProviders()
	c.signals.follow(f.signals, c.onSignal)
	c.watchdog.follow(c, f)
	c.notes.put(c.note(cfg))
}

// Start asks for a trace. Of a snapshot it returns when the file is there, of a
// stream when that has begun. The error is a [*DeniedError], or that of ctx: the
// trace may come all the same then.
func (c *Control) Start(ctx context.Context, r Request) (*Trace, error) {
	if c == nil || c.closed.Load() {
		return nil, &DeniedError{Request: r, Verdict: Closed}
	}
	f := c.force.Load()
	candidate, v := c.matches(f, &r)
	if v != Started {
		c.verdicts.count(r.Trigger, v)
		return nil, &DeniedError{Request: r, Verdict: v}
	}
	var t *Trace
	err := error(&DeniedError{Request: r, Verdict: Failed}) // unless it comes back
	done := make(chan struct{})
	if !c.worker.post(ctx, func() {
		defer close(done)
		t, err = c.begin(r, f, candidate)
	}) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, &DeniedError{Request: r, Verdict: Closed}
	}
	select {
	case <-done:
		return t, err
	case <-c.worker.ended:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select {
	case <-done: // it was the last thing
		return t, err
	default:
		return nil, &DeniedError{Request: r, Verdict: Closed}
	}
}

// Fire is Start for those who do not care: it returns at once, and what comes of
// it is counted. Requests for a trace that one waits for already are one with it.
func (c *Control) Fire(r Request) {
	if c == nil || c.closed.Load() {
		return
	}
	f := c.force.Load()
	candidate, v := c.matches(f, &r)
	if v != Started {
		c.verdicts.count(r.Trigger, v)
		return
	}
	if !r.Manual && candidate >= 0 {
		if f.waits[candidate].Swap(true) {
			c.verdicts.count(r.Trigger, Coalesced)
			return
		}
	}
	if !c.worker.offer(func() {
		if !r.Manual && candidate >= 0 {
			f.waits[candidate].Store(false)
		}
		_, _ = c.begin(r, f, candidate) // which is counted, and reported
	}) {
		if !r.Manual && candidate >= 0 {
			f.waits[candidate].Store(false)
		}
		c.verdicts.count(r.Trigger, Coalesced)
	}
}

// Stop ends the streams that r asked for, and reports whether there was one. They
// are finished when it returns, or later if a file does not answer for a second.
func (c *Control) Stop(r Request) bool {
	return c.endAll(func(t *Trace) bool { return same(c.controller(&r), t.request, r) }, endStopped, "")
}

// Abort is Stop, and keeps nothing of them.
func (c *Control) Abort(r Request, why string) bool {
	return c.endAll(func(t *Trace) bool { return same(c.controller(&r), t.request, r) }, endAborted, why)
}

func (c *Control) endAll(which func(*Trace) bool, how endReason, why string) bool {
	if c == nil {
		return false
	}
	late := slices.ContainsFunc(c.Running(), which)
	ended := false
	switch err := c.worker.doSoon(func() {
		for _, t := range append([]*Trace(nil), c.running...) {
			if which(t) {
				ended = true
				c.end(t, how, why)
			}
		}
	}); {
	case err == nil:
		return ended
	case errors.Is(err, ErrLate):
		return late
	}
	return false
}

// Running returns the streams that have not ended.
func (c *Control) Running() []*Trace {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Trace(nil), c.shown...)
}

// Shutdown takes the trace of the trigger exit, if there is one, ends all streams
// and the ring, whose file goes. It waits for all goroutines, until ctx ends. It is
// idempotent.
func (c *Control) Shutdown(ctx context.Context) error {
	if c == nil {
		return nil
	}
	if c.ending.Swap(true) {
		select {
		case <-c.told.ended: // the last that ends
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if f := c.force.Load(); f != nil && f.exits {
		var denied *DeniedError
		if _, err := c.Start(ctx, Request{Trigger: TriggerExit, Key: c.o.Service, Reason: "the process ends"}); err != nil && !errors.As(err, &denied) {
			c.report(err)
		}
	}
	c.closed.Store(true)
	finished := make(chan error, 1)
	go func() {
		c.stop()
		var err error
		if c.worker.do(func() { err = c.finish() }) != nil {
			err = errors.Join(c.ring.Close(), errors.New("control: its goroutine is gone"))
			c.crash.Close()
		}
		c.worker.stop()
		_ = c.told.do(func() {}) // what waits is told
		c.told.stop()
		finished <- err
	}()
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish is the last that the worker does.
func (c *Control) finish() error {
	c.over = true
	c.signals.follow(nil, nil)
	c.watchdog.follow(c, nil)
	if c.override.timer != nil {
		c.override.timer.Stop()
	}
	for _, t := range append([]*Trace(nil), c.running...) {
		c.end(t, endShutdown, "")
	}
	c.stopProviders()
	c.notes.stop()
	err := c.ring.Close()
	c.crash.Close()
	return err
}

// ringName begins the names of the files of a ring.
func ringName(at time.Time) string {
	return fmt.Sprintf("ring-%s-%d-%s", thisHost(), os.Getpid(), at.UTC().Format(fileTime))
}
