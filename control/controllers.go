package control

import (
	"math/rand/v2"
	"time"
)

// Matched returns the controller that takes the first trace of the configuration
// one of whose On matches the request. Two requests are the same if their trigger
// and key are.
func Matched() Controller { return matched{} }

type matched struct{}

func (matched) Decide(r Request, c *Config) (int, Verdict) {
	for i := range c.Traces {
		t := &c.Traces[i]
		for k := range t.On {
			on := &t.On[k]
			if on.Trigger == r.Trigger && t.wished(&r) && on.matches(&r) {
				return i, Started
			}
		}
	}
	return -1, NoConfig
}

func (matched) Same(open, r Request) bool { return open.Trigger == r.Trigger && open.Key == r.Key }

// Always returns a controller that takes the trace of that name, whatever its On
// says.
func Always(name string) Controller { return always{name: name} }

type always struct {
	matched

	name string
}

func (a always) Decide(_ Request, c *Config) (int, Verdict) {
	if i := c.trace(a.name); i >= 0 {
		return i, Started
	}
	return -1, NoConfig
}

// Sampled returns a controller that lets one of so many requests through to c, by
// chance.
func Sampled(oneIn int, c Controller) Controller { return sampled{c, oneIn} }

type sampled struct {
	Controller

	oneIn int
}

func (s sampled) Decide(r Request, c *Config) (int, Verdict) {
	i, v := s.Controller.Decide(r, c)
	if v == Started && !r.Manual && s.oneIn > 1 && rand.IntN(s.oneIn) != 0 { //nolint:gosec // chance is enough
		return -1, SampledOut
	}
	return i, v
}

// Limited returns a controller that lets requests through to c that come so long
// after the one before, and so many in an hour. Zero is no limit.
func Limited(every time.Duration, perHour int, c Controller) Controller {
	return &limited{Controller: c, config: TraceConfig{Every: every, PerHour: perHour}}
}

type limited struct {
	Controller

	config TraceConfig
	limit  limit
}

func (l *limited) Decide(r Request, c *Config) (int, Verdict) {
	i, v := l.Controller.Decide(r, c)
	if v != Started || r.Manual {
		return i, v
	}
	if v := l.limit.allow(&l.config, time.Now()); v != Started {
		return -1, v
	}
	return i, v
}

// controller returns the one for a request.
func (c *Control) controller(r *Request) Controller {
	if own := c.o.Controllers[r.Trigger]; own != nil {
		return own
	}
	return Matched()
}

// matches returns the trace that r is for, as far as that can be told at once: -1
// leaves it to the controller.
func (c *Control) matches(f *inForce, r *Request) (candidate int, v Verdict) {
	if c.o.Controllers[r.Trigger] != nil {
		return -1, Started
	}
	return f.match(r)
}
