package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// Options configure a [Control]. Config or Source is required.
type Options struct {
	Config *Config
	Source Source
	// Providers record in addition to the span processor and the slog handler, which always record. Package
	// provider has implementations.
	Providers []Provider
	// Service names the process in its crash trace.
	Service string
	// Version is the disk version of the traces. The default is
	// [format.DefaultVersion].
	Version format.Version
	// BufferDir is the folder for the ring, as in [recorder.Options]. By default the ring is in shared memory if
	// shared memory survives the process, and is smaller if memory is short. Otherwise the ring is in the folder of
	// the traces.
	BufferDir string
	// Redact says which values are secrets, as in [recorder.Options].
	Redact *redact.Policy
	// OnError, if set, is called with errors: for example, a configuration is invalid, a trace could not be
	// written, or the ring has no file. OnError and OnTrace are called one at a time, on a goroutine of their own.
	// If 64 calls are waiting, further calls are dropped. The functions may call all methods of the control except
	// Shutdown.
	OnError func(error)
	// OnTrace, if set, is called when a trace ends. If the verdict of the trace is VerdictUnfinished, OnTrace is
	// called again when the trace is finished.
	OnTrace func(*Trace)
	// OnCrash, if set, is called when [New] has made a trace from the ring of a process that died. It is called in
	// the same way as OnTrace.
	OnCrash func(*tracedir.Result)
}

// maxStreams is the maximum number of running streams.
const maxStreams = 4

// maxQueue is the maximum number of requests that wait for the writer goroutine, and of waiting callbacks.
const maxQueue = 64

// A Control decides which requests become traces, and writes the traces. Its Recorder records to its ring.
// The methods of a nil Control do nothing, and requests are denied.
//
// Decisions are made on the goroutine of the caller, under a mutex that is never held while a file is used or while a
// provider, a dumper or a callback runs. Slow work has its own goroutines. The first goroutine, the writer, begins,
// writes and ends traces, one after the other. A second goroutine starts and stops providers, a third writes the note
// of the ring, and a fourth calls OnError, OnTrace and OnCrash.
//
// A Control is safe for concurrent use.
type Control struct {
	on     atomic.Uint64 // the providers that are on, for a check without a lock
	o      Options
	dir    *traces.Folder
	ring   *ring.Ring
	crash  *crashtext.Output
	began  time.Time
	rules  atomic.Pointer[rules]
	closed atomic.Bool
	ending atomic.Bool // Shutdown has been called
	stop   func()      // ends Source.Watch

	callbacks worker    // calls OnError, OnTrace and OnCrash
	notes     *repeater // writes the note of the ring
	verdicts  verdicts

	listeners
	configuring
	feeding
	deciding
	writing
}

// listeners holds the state of the triggers.
type listeners struct {
	signals  signals
	watchdog watchdog
	panics   lastPanic
}

// configuring is the state of SetConfig.
type configuring struct {
	applying sync.Mutex // locked before all other mutexes

	over bool // Shutdown has begun: no configuration can be set and no trace can begin; writers also hold deciding.mu
}

// feeding is the state of the code that calls providers.
type feeding struct {
	switches *repeater // starts and stops providers
	provided Set       // all providers: the span processor, the slog handler and the members

	calling sync.Mutex // held while a provider is called; locked before deciding.mu

	members []*member
}

// deciding is the state of the decisions whether a request becomes a trace.
type deciding struct {
	mu sync.Mutex // never held while a file is used or a provider or callback runs

	running []*Trace // streams that were requested and whose end is not queued yet
	fed     []*Trace // streams that providers write to
	limits  map[string]*limit
	account Stats // counters, and the members that failed
	started Set   // the members that run
}

// writing is the state of the goroutine that writes traces.
type writing struct {
	writer     worker
	slots      chan struct{} // a semaphore: holds one element for each request that waits for the writer
	unfinished unfinishedTraces
	ended      error // the errors of the streams that Shutdown ended
}

// New makes traces from the files that dead processes left in the folder of the configuration. Then it returns a
// Control, which records.
func New(o *Options) (*Control, error) {
	c := &Control{o: *o, began: time.Now(), stop: func() {}}
	c.limits, c.slots, c.provided = make(map[string]*limit), make(chan struct{}, maxQueue), Spans|Logs
	cfg := o.Config
	if o.Source != nil {
		var err error
		cfg, err = o.Source.Config()
		if err != nil {
			return nil, fmt.Errorf("control: %w", err)
		}
	}
	if cfg == nil {
		return nil, errors.New("control: no configuration: set Options.Config or Options.Source")
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("control: configuration: %w", err)
	}
	if err := o.Version.Check(); o.Version != 0 && err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	var err error
	c.dir, err = traces.Open(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	c.callbacks.guard.Tell, c.writer.guard.Tell = c.report, c.report
	c.callbacks.start(maxQueue)
	c.saveDead(cfg.Keep)
	c.ring, err = c.newRing(cfg)
	if err != nil {
		c.callbacks.stop()
		return nil, fmt.Errorf("control: %w", err)
	}
	for _, p := range o.Providers {
		c.members = append(c.members, &member{Provider: p})
		c.provided |= p.Provides
	}
	// The queue has room for all waiting requests, the ends of their streams, the ends of the running
	// streams, and Shutdown. So a send never blocks a decision.
	c.writer.start(2*maxQueue + 2*maxStreams)
	c.switches = newRepeater(&c.writer.guard, c.switchProviders)
	c.notes = newRepeater(&c.writer.guard, func() { c.report(c.ring.SetNote(c.note(c.Config()))) })
	c.apply(cfg)
	c.switchProviders()
	if o.Source != nil {
		stop, err := o.Source.Watch(c.sourceChanged)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("control: %w", err), c.Shutdown(context.Background()))
		}
		c.stop = stop
	}
	c.startUnlessDenied(context.Background(), Request{Trigger: TriggerStart, Key: o.Service, Reason: "the process has started"})
	return c, nil
}

// startUnlessDenied requests a trace. It reports all errors except a DeniedError.
func (c *Control) startUnlessDenied(ctx context.Context, r Request) {
	var denied *DeniedError
	if _, err := c.Start(ctx, r); err != nil && !errors.As(err, &denied) {
		c.report(err)
	}
}

// newRing makes the ring, in a file if possible.
func (c *Control) newRing(cfg *Config) (*ring.Ring, error) {
	ro := ring.Options{
		Version: c.o.Version, Bytes: cfg.Ring.Bytes, Taken: &c.on, OnError: c.report, OnLog: c.logged, OnSpan: c.spanEnded, Redact: c.o.Redact,
	}
	if cfg.Ring.Bytes == 0 {
		ro.Bytes = -1
	}
	if cfg.Ring.Bytes == 0 || !cfg.Ring.Persist {
		return ring.New(&ro)
	}
	var text string
	ro.Path, text = c.dir.NewRing(c.began)
	ro.Dir, ro.Note = c.o.BufferDir, c.note(cfg)
	g, err := ring.New(&ro)
	if err != nil {
		c.report(fmt.Errorf("the ring has no file, and is lost if the process dies: %w", err))
		ro.Path, ro.Note = "", nil
		return ring.New(&ro)
	}
	c.crash, err = crashtext.Open(text)
	if err != nil {
		c.report(fmt.Errorf("the text of a panic will not be saved: %w", err))
	}
	return g, nil
}

// report calls OnError with an error that does not stop the control.
func (c *Control) report(err error) {
	if c.o.OnError != nil && err != nil {
		c.callbacks.offer(func() { c.o.OnError(err) })
	}
}

// Recorder returns the recorder of the ring, for the span processor and the slog handler. The recorder of a
// nil Control drops all records.
func (c *Control) Recorder() *recorder.Recorder {
	if c == nil {
		return recorder.Discard()
	}
	return c.ring.Recorder()
}

// Enabled reports whether at least one provider in s is on. It costs one atomic load.
func (c *Control) Enabled(s Set) bool { return c != nil && c.on.Load()&uint64(s) != 0 }

// Config returns the current configuration.
func (c *Control) Config() *Config {
	if c == nil {
		return nil
	}
	return c.rules.Load().cfg
}

// Dir returns the folder of the traces.
func (c *Control) Dir() string {
	if c == nil {
		return ""
	}
	return c.dir.Dir()
}

var errClosed = errors.New("control: shut down")

// Shutdown makes the trace of the trigger exit, if the configuration has one, ends all streams, and removes the file
// of the ring. It returns the errors of these streams. It drops manual requests for snapshots, such as requests of
// signals, that the writer has not begun. It waits for all goroutines, but not longer than ctx. It is idempotent.
//
// If a panic runs Shutdown, or if main calls runtime.Goexit, Shutdown does nothing: the ring and the streams outlive
// the process, and the next start makes the trace of the panic. If the program recovers the panic, call Shutdown
// again after the function that recovers has returned.
func (c *Control) Shutdown(ctx context.Context) error {
	if c == nil || safecall.Dying() {
		return nil
	}
	if c.ending.Swap(true) {
		select {
		case <-c.callbacks.ended: // the last goroutine that ends
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if c.rules.Load().exits {
		c.startUnlessDenied(ctx, Request{Trigger: TriggerExit, Key: c.o.Service, Reason: "the process ends"})
	}
	c.closed.Store(true)
	finished := make(chan error, 1)
	go func() {
		c.stop()
		c.endDecisions()
		var err error
		if c.writer.do(func() { err = c.finish() }) != nil {
			err = errors.Join(c.ring.Close(), errors.New("control: a provider or a callback called runtime.Goexit, which ended the goroutine that writes traces"))
			c.crash.Close()
		}
		c.writer.stop()
		_ = c.callbacks.do(func() {}) // returns after all queued callbacks
		c.callbacks.stop()
		finished <- err
	}()
	select {
	case err := <-finished:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endDecisions ends all streams. Afterwards no trace can begin.
func (c *Control) endDecisions() {
	c.applying.Lock()
	defer c.applying.Unlock()
	c.signals.follow(nil, nil)
	c.watchdog.follow(c, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, t := range slices.Clone(c.running) {
		c.endStream(t, endShutdown, "")
	}
}

// finish stops the providers and closes the ring. It is the last function that the writer runs.
func (c *Control) finish() error {
	c.switches.stop()
	c.stopProviders()
	c.notes.stop()
	err := errors.Join(c.ended, c.ring.Close())
	c.crash.Close()
	return err
}

// note returns the note for the file of the ring. It describes this process.
func (c *Control) note(cfg *Config) []byte { return traces.Note(c.o.Service, cfg.ID) }
