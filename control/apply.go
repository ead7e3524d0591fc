package control

import (
	"errors"
	"fmt"
	"time"

	"github.com/entrace-go/entrace/internal/core/record"
)

// SetConfig sets another configuration. If it is not valid, SetConfig returns an error and the old one
// remains. A new configuration cannot change the folder, or the size and place of the ring. SetConfig does
// not wait for files or providers: providers start and stop soon afterwards.
func (c *Control) SetConfig(cfg *Config) error {
	if cfg == nil {
		return errors.New("control: the configuration is nil")
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
		c.override.base = cfg // applied when the override ends
	default:
		c.apply(cfg)
	}
	return nil
}

// Override sets a configuration for the time d. After that, the base configuration returns: the one before
// the override, or a later one of SetConfig or the source. A nil cfg ends a running override now. Override
// does not wait for files or providers.
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

// check returns an error if cfg cannot be set. A nil cfg is valid.
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

// endOverride ends an override and applies the base configuration. The caller must hold the mutex applying.
func (c *Control) endOverride() {
	if c.override.timer == nil {
		return
	}
	c.override.timer.Stop()
	base := c.override.base
	c.override.timer, c.override.base = nil, nil
	c.apply(base)
}

// apply makes cfg the current configuration. The caller must hold the mutex applying.
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
