package provider

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// A tickProvider is a provider that takes samples at intervals.
type tickProvider struct {
	of       control.Provider // all fields except Start and Stop
	interval string           // name of the parameter for the interval
	least    time.Duration    // the minimum interval
	begin    func(s *control.Session) (ticker, error)

	mu sync.Mutex

	loop *loop // nil if not running
	tick ticker
}

// A ticker writes the samples of the present moment in each call of run. Only one goroutine at a time may
// use it.
type ticker interface {
	run()
	// failure returns the first error of an entry that could not be written.
	failure() error
}

func (p *tickProvider) provider() control.Provider {
	of := p.of
	of.Start, of.Stop = p.start, p.stop
	return of
}

// start starts the sampling. The package documentation describes its parameters. The first deltas are
// relative to this moment.
func (p *tickProvider) start(s *control.Session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loop != nil {
		return errRunning
	}
	every, err := duration(s, p.interval, time.Second, p.least)
	if err != nil {
		return err
	}
	t, err := p.begin(s)
	if err != nil {
		return err
	}
	p.tick, p.loop = t, newLoop(s, every, t.run)
	return nil
}

// stop writes a last sample. It returns the first error of a sample that could not be written.
func (p *tickProvider) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loop == nil {
		return nil
	}
	ok := p.loop.stop()
	t := p.tick
	p.loop, p.tick = nil, nil
	if ok {
		t.run()
	}
	return t.failure()
}

// samples is the part of a ticker that writes entries.
type samples struct {
	session *control.Session
	last    time.Time         // time of the previous tick
	entry   format.TraceEntry // memory for the next entry
	err     error             // the first error of write
}

func (t *samples) failure() error { return t.err }

// entryOf prepares the entry for write, and returns it without attributes.
func (t *samples) entryOf(name, target string) *format.TraceEntry {
	e := &t.entry
	e.Metadata = format.Metadata{Name: name, Target: target, Level: format.LevelTrace}
	e.Attributes = e.Attributes[:0]
	return e
}

func (t *samples) write(p control.Set, at time.Time) {
	if err := t.session.Write(p, format.SpanRef{}, at, &t.entry); err != nil && t.err == nil {
		t.err = err
	}
}

var errRunning = errors.New("already running")

// A loop calls a function at intervals, on its own goroutine, until stop.
type loop struct {
	quit   chan struct{}
	done   chan struct{} // closed when the goroutine ends
	failed bool          // tick panicked; valid after done is closed
}

// newLoop starts a loop that calls tick once in every interval. A panic of tick ends the loop and calls
// s.Fail. It must not end the observed program.
func newLoop(s *control.Session, every time.Duration, tick func()) *loop {
	l := &loop{quit: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer func() {
			if r := recover(); r != nil {
				l.failed = true
				s.Fail(fmt.Errorf("panic: %v", r))
			}
		}()
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-l.quit:
				return
			case <-ticker.C:
				tick()
			}
		}
	}()
	return l
}

// stop ends the loop and waits for its goroutine. It returns false if tick has panicked. Otherwise the
// caller may write to the session once more.
func (l *loop) stop() bool {
	close(l.quit)
	<-l.done
	return !l.failed
}

// duration returns the value of the parameter name, or def if it is not set. A value below least counts as
// least.
func duration(s *control.Session, name string, def, least time.Duration) (time.Duration, error) {
	text := s.Params[name]
	if text == "" {
		return def, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return def, fmt.Errorf("%s: %w", name, err)
	}
	return max(d, least), nil
}
