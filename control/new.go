package control

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/internal/write/safecall"
	"github.com/entrace-go/entrace/recorder"
)

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

// saveDead converts the files that dead processes left in the folder to traces.
func (c *Control) saveDead(keep Keep) {
	var saved []string
	c.report(c.dir.Recover(c.report, func(r *traces.Result, err error) {
		switch {
		case errors.Is(err, recorder.ErrJournalElsewhere): // the process of the ring may be alive
		case err != nil && r != nil:
			c.report(fmt.Errorf("recover: %w", err))
		default:
			c.report(err)
		}
		if r == nil || r.Output == "" {
			return
		}
		saved = append(saved, filepath.Base(r.Output))
		if r.Ring && c.o.OnCrash != nil {
			c.callbacks.offer(func() { c.o.OnCrash((*tracedir.Result)(r)) })
		}
	}))
	_, err := c.dir.Trim(retain.Keep(keep), time.Now(), saved...)
	c.report(err)
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

// note returns the note for the file of the ring. It describes this process.
func (c *Control) note(cfg *Config) []byte { return traces.Note(c.o.Service, cfg.ID) }

// SetConfig sets another configuration. If cfg is not valid, SetConfig returns an error and the old configuration
// remains. A new configuration cannot change the folder, or the size and place of the ring. SetConfig does not wait
// for files or providers: providers start and stop soon afterwards.
func (c *Control) SetConfig(cfg *Config) error {
	if cfg == nil {
		return errors.New("control: the configuration is nil")
	}
	if c == nil || c.closed.Load() {
		return errClosed
	}
	if err := cfg.Validate(); err != nil {
		c.countRefused()
		return err
	}
	c.applying.Lock()
	defer c.applying.Unlock()
	if c.over {
		return errClosed
	}
	c.apply(cfg)
	return nil
}

func (c *Control) countRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account.Refused++
}

// sourceChanged sets the configuration cfg, which the source has read, or reports the error of the source.
func (c *Control) sourceChanged(cfg *Config, err error) {
	if err == nil {
		err = c.SetConfig(cfg)
	} else {
		c.countRefused()
	}
	if err != nil && !errors.Is(err, errClosed) {
		c.report(fmt.Errorf("change the configuration: %w; configuration %q stays in force", err, c.Config().ID))
	}
}

// apply makes cfg the current configuration. The caller must hold the mutex applying.
func (c *Control) apply(cfg *Config) {
	f := compile(cfg)
	c.rules.Store(f)
	c.ring.SetBuffered(record.Providers(cfg.inRing()))
	c.ring.SetObserved(record.Providers(cfg.observed()))
	c.ring.SetLogLevel(f.noticed)
	c.ring.SetPanics(len(f.by[TriggerPanic]) > 0)
	c.signals.follow(f.signals, c.onSignal)
	c.watchdog.follow(f, c.sweep)
	c.switches.again()
	c.notes.again()
}

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
	c.watchdog.follow(nil, nil)
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
