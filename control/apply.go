package control

import (
	"errors"
	"fmt"
	"time"

	"github.com/entrace-go/entrace/internal/record"
)

// SetConfig puts another configuration in force. If it is wrong the old one stays.
// The folder, and the size and place of the ring, do not change. SetConfig waits for no file and
// no provider: providers start and stop soon afterwards.
func (c *Control) SetConfig(cfg *Config) error {
	if cfg == nil {
		return errors.New("control: there is no configuration")
	}
	if err := c.check(cfg); err != nil {
		return err
	}
	c.applying.Lock()
	defer c.applying.Unlock()
	switch {
	case c.over:
		return errClosed
	case c.override.timer != nil:
		c.override.base = cfg // for later
	default:
		c.apply(cfg)
	}
	return nil
}

// Override puts a configuration in force for a time. Then the one before comes back, or the latest one
// of SetConfig and of the source. A nil cfg ends an override now. Like SetConfig it waits for nothing.
func (c *Control) Override(cfg *Config, d time.Duration) error {
	if err := c.check(cfg); err != nil {
		return err
	}
	c.applying.Lock()
	defer c.applying.Unlock()
	if c.over {
		return errClosed
	}
	c.endOverride()
	if cfg == nil {
		return nil
	}
	c.override.base = c.Config()
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		c.applying.Lock()
		defer c.applying.Unlock()
		if c.override.timer == t {
			c.endOverride()
		}
	})
	c.override.timer = t
	c.apply(cfg)
	return nil
}

// check returns why a configuration cannot be put in force. A nil one can.
func (c *Control) check(cfg *Config) error {
	if c == nil || c.closed.Load() {
		return errClosed
	}
	if cfg == nil {
		return nil
	}
	err := cfg.Validate()
	if err != nil {
		c.countRefused()
	}
	return err
}

func (c *Control) countRefused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.account.refused++
}

// sourceChanged puts a configuration in force that the source has read.
func (c *Control) sourceChanged(cfg *Config, err error) {
	if err == nil {
		err = c.SetConfig(cfg)
	} else {
		c.countRefused()
	}
	if err != nil && !errors.Is(err, errClosed) {
		c.report(fmt.Errorf("configuration %s stays in force: %w", c.Config().ID, err))
	}
}

// endOverride puts the configuration before an override in force. The lock applying is held.
func (c *Control) endOverride() {
	if c.override.timer == nil {
		return
	}
	c.override.timer.Stop()
	base := c.override.base
	c.override.timer, c.override.base = nil, nil
	c.apply(base)
}

// apply puts a configuration in force. The lock applying is held.
func (c *Control) apply(cfg *Config) {
	if c.over {
		return
	}
	f := compile(cfg)
	c.rules.Store(f)
	c.ring.SetBuffered(record.Providers(cfg.inRing()))
	c.ring.SetObserved(record.Providers(cfg.observed()))
	c.ring.SetLogLevel(f.noticed)
	c.ring.SetPanics(len(f.by[TriggerPanic]) > 0)
	c.signals.follow(f.signals, c.onSignal)
	c.watchdog.follow(c, f)
	c.switches.again()
	c.notes.again()
}
