package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

// A member is a provider with its state. Control.calling guards all fields except busy.
type member struct {
	Provider

	on      Set // 0: the provider does not run
	params  map[string]string
	err     error // why the provider has failed; nil: it can run
	session *Session
	busy    atomic.Bool // a call of Dump has not returned
}

// stop stops the provider.
func (m *member) stop() error {
	m.on = 0
	if m.Stop == nil {
		return nil
	}
	return safecall.Run(m.Stop)
}

// showMembers stores the running and the failed members for Stats. The caller must hold calling.
func (c *Control) showMembers() {
	on, off := Set(0), make(map[string]string)
	for _, m := range c.members {
		on |= m.on
		if m.err != nil {
			off[m.Provides.String()] = m.err.Error()
		}
	}
	c.mu.Lock()
	c.started, c.account.Off = on, off
	c.mu.Unlock()
}

// eachMember calls fn with each member. fn may start or stop the member.
func (c *Control) eachMember(fn func(m *member)) {
	c.calling.Lock()
	defer c.calling.Unlock()
	defer c.showMembers()
	for _, m := range c.members {
		fn(m)
	}
}

// wanted returns which providers in p must run, and their parameters. If two streams have the same
// parameter, the later stream decides.
func (c *Control) wanted(p Set) (on Set, params map[string]string) {
	cfg := c.Config()
	on = cfg.inRing() & p
	params = make(map[string]string)
	names := p.names()
	add := func(more map[string]string) {
		for key, value := range more {
			// Leave out the parameters of other providers, because a change of these parameters must not restart this
			// provider.
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(key, name+".") }) {
				params[key] = value
			}
		}
	}
	if on != 0 {
		add(cfg.Ring.Params)
		for i := range cfg.Traces {
			if t := &cfg.Traces[i]; t.mode() == ModeSnapshot && t.Providers&p != 0 {
				add(t.Params)
			}
		}
	}
	for _, t := range c.streams() {
		if t.tc.Providers&p != 0 {
			on |= t.tc.Providers & p
			add(t.tc.Params)
		}
	}
	return on, params
}

// streams returns the streams that providers write to at present.
func (c *Control) streams() []*Trace {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.fed)
}

// switchProviders starts and stops providers. Afterwards the providers that the current configuration and the streams
// need are running.
func (c *Control) switchProviders() {
	c.eachMember(func(m *member) {
		if m.Start == nil {
			return
		}
		on, params := c.wanted(m.Provides)
		if on == 0 {
			m.err = nil // the next start may succeed
		}
		if on == m.on && (on == 0 || maps.Equal(params, m.params)) || on != 0 && m.err != nil && on == m.session.On {
			return
		}
		if m.on != 0 {
			if err := m.stop(); err != nil {
				c.off(m, fmt.Errorf("stop: %w", err))
			}
		}
		m.err = nil
		if on != 0 {
			c.startProvider(m, on, params)
		}
	})
}

// startProvider starts a provider. The caller must hold calling.
func (c *Control) startProvider(m *member, on Set, params map[string]string) {
	s := &Session{On: on, Params: params}
	s.write = func(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
		return traces.WriteTimed(c.ring.Recorder(), p, ref, at, e)
	}
	var once sync.Once
	s.failed = func(err error) {
		once.Do(func() { go c.broken(m, s, err) })
	}
	m.session = s
	if err := safecall.Run(func() error { return m.Start(s) }); err != nil {
		c.off(m, err)
		return
	}
	m.on, m.params = on, params
}

// broken stops a provider after it has called Fail.
func (c *Control) broken(m *member, s *Session, err error) {
	c.calling.Lock()
	defer c.calling.Unlock()
	defer c.showMembers()
	if m.session != s || m.on == 0 {
		return // the provider has been stopped
	}
	_ = m.stop() // err is the cause
	c.off(m, err)
}

// off marks a provider as failed because of err, and writes an entry about it to the streams that need the
// provider. The caller must hold calling.
func (c *Control) off(m *member, err error) {
	m.err = err
	if m.session == nil {
		m.session = &Session{}
	}
	for _, t := range c.streams() {
		if p := m.Provides & t.tc.Providers; p != 0 {
			t.off(p, err)
		}
	}
	c.report(fmt.Errorf("provider %s is switched off: %w", m.Provides, err))
}

// nameOff writes an entry to a trace for each of its providers that has failed.
func (c *Control) nameOff(t *Trace) {
	c.calling.Lock()
	defer c.calling.Unlock()
	for _, m := range c.members {
		if p := m.Provides & t.tc.Providers; p != 0 && m.err != nil {
			t.off(p, m.err)
		}
	}
}

// flushProviders calls Flush of the running providers in s.
func (c *Control) flushProviders(s Set) {
	c.eachMember(func(m *member) {
		if m.Flush == nil || m.on&s == 0 {
			return
		}
		if err := safecall.Run(m.Flush); err != nil {
			_ = m.stop()
			c.off(m, err)
		}
	})
}

func (c *Control) stopProviders() {
	c.eachMember(func(m *member) {
		if m.on == 0 {
			return
		}
		if err := m.stop(); err != nil {
			c.report(fmt.Errorf("stop provider %s: %w", m.Provides, err))
		}
	})
}

// dumpTime is the maximum duration of a call of Dump.
const dumpTime = 5 * time.Second

// dumps holds the entries that calls of Dump wrote for one trace.
type dumps struct {
	open func() openTree // returns the open spans

	mu     sync.Mutex
	closed bool
	list   []dumped
	size   int
	errs   []dumpError
}

type dumped struct {
	p   record.Provider
	ref format.SpanRef
	at  time.Time
	e   *format.TraceEntry
}

type dumpError struct {
	p   Set
	err error
}

// maxDump is the maximum total size in bytes of the dumps for one trace.
const maxDump = 128 << 20

// dump calls the Dump functions of a trace's providers.
func (c *Control) dump(t *Trace) *dumps {
	d := &dumps{open: sync.OnceValue(c.watchdog.openTree)}
	for _, m := range c.members {
		on := m.Provides & t.tc.Providers
		if m.Dump == nil || on == 0 || c.isOff(m) {
			continue
		}
		if m.busy.Swap(true) {
			d.errs = append(d.errs, dumpError{on, errors.New("the previous call of Dump has not returned")})
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), dumpTime)
		done := make(chan error, 1)
		go func() { // on its own goroutine, because Dump may never return
			defer m.busy.Store(false)
			done <- safecall.Run(func() error { return m.Dump(ctx, &Session{On: on, Params: t.tc.Params, write: d.add, open: d.open}) })
		}()
		var err error
		select {
		case err = <-done:
		case <-ctx.Done():
			select {
			case err = <-done:
			case <-time.After(dumpTime / 10):
				err = ctx.Err()
			}
		}
		cancel()
		if err != nil {
			d.errs = append(d.errs, dumpError{on, err})
		}
	}
	return d
}

// isOff reports whether m failed.
func (c *Control) isOff(m *member) bool {
	c.calling.Lock()
	defer c.calling.Unlock()
	return m.err != nil
}

func (d *dumps) add(p record.Provider, ref format.SpanRef, at time.Time, e *format.TraceEntry) error {
	size := len(e.Message.Value) + 64
	for i := range e.Attributes {
		size += len(e.Attributes[i].Name) + len(e.Attributes[i].Value.Text()) + 32
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return errClosed
	}
	d.size += size
	if d.size > maxDump {
		return fmt.Errorf("the dump is larger than %d bytes", maxDump)
	}
	d.list = append(d.list, dumped{p, ref, at, e.Clone()})
	return nil
}

// write writes the entries and errors of the dumps to a trace.
func (d *dumps) write(t *Trace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, e := range d.list {
		_ = traces.WriteTimed(t.rec, e.p, e.ref, e.at, e.e) // the recorder counts an entry that fails
	}
	d.list = nil
	for _, e := range d.errs {
		t.off(e.p, e.err)
	}
}
