package control

import (
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"
)

// signals handles the operating system's signals that request traces.
type signals struct {
	mu sync.Mutex

	names []string
	ch    chan os.Signal
	done  chan struct{}
}

// follow makes s call fire with the name of each received signal in names, and ignore all other signals.
// Without names, no signal is received.
func (s *signals) follow(names []string, fire func(name string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Equal(names, s.names) {
		return
	}
	old, oldDone := s.ch, s.done
	defer func() {
		// Stop the old channel after the new Notify, because otherwise a signal in both sets could end the process.
		if old != nil {
			signal.Stop(old)
			close(old)
			<-oldDone
		}
	}()
	s.ch = nil
	s.names = slices.Clone(names)
	by := make(map[string]string) // from the String of a signal to its name in the configuration
	var list []os.Signal
	for _, name := range names {
		if sig, ok := signalNamed(name); ok {
			by[sig.String()] = name
			list = append(list, sig)
		}
	}
	if len(list) == 0 {
		return
	}
	ch, done := make(chan os.Signal, 16), make(chan struct{})
	s.ch, s.done = ch, done
	signal.Notify(ch, list...)
	go func() {
		defer close(done)
		collect(ch, func(sig os.Signal) { fire(by[sig.String()]) })
	}()
}

// sameInstant is the period in which equal signals count as one.
const sameInstant = 100 * time.Millisecond

// collect calls fire for the signals in ch until ch is closed. Signals that come less than sameInstant after a call
// wait, and equal waiting signals become one call.
func collect(ch <-chan os.Signal, fire func(os.Signal)) {
	var rest <-chan time.Time // nil: signals do not wait
	waiting := make(map[os.Signal]bool)
	for open := true; open; {
		var sig os.Signal
		select {
		case sig, open = <-ch:
			if open {
				waiting[sig] = true
			}
		case <-rest:
			rest = nil
		}
		if rest != nil && open || len(waiting) == 0 {
			continue
		}
		for sig := range waiting {
			fire(sig)
		}
		clear(waiting)
		rest = time.After(sameInstant)
	}
}
