package control

import (
	"errors"
	"fmt"

	"github.com/entrace-go/entrace/internal/core/record"
)

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
	c.watchdog.follow(c, f)
	c.switches.again()
	c.notes.again()
}
