package control

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/safecall"
)

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
