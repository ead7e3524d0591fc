package control

import (
	"context"
	"io/fs"
	"net/http"
	"time"
)

// Handler returns a handler with which traces are asked for, listed and fetched
// over HTTP, and the configuration is changed for a while, see [HandlerOptions]. It
// is given paths that begin behind the place where it is mounted:
//
//	mux.Handle("/debug/entrace/", http.StripPrefix("/debug/entrace", ctl.Handler(nil)))
func (c *Control) Handler(o *HandlerOptions) http.Handler {
	if c == nil {
		return http.NotFoundHandler()
	}
	return newHandler(served{c}, func() *folder { return c.dir }, o)
}

// served is what the handler sees of a control.
type served struct{ c *Control }

func (s served) Start(ctx context.Context, r Request) (startedTrace, error) {
	t, err := s.c.Start(ctx, r)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (s served) StopTrace(id string) error {
	if !s.c.endAll(func(t *Trace) bool { return t.id == id }, endStopped, "") {
		return fs.ErrNotExist
	}
	return nil
}

func (s served) Stats() any      { return s.c.Stats() }
func (s served) Config() *Config { return s.c.Config() }

func (s served) Running() (list []startedTrace) {
	for _, t := range s.c.Running() {
		list = append(list, t)
	}
	return list
}

func (s served) Override(c *Config, d time.Duration) error { return s.c.Override(c, d) }
