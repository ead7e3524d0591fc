package filesource

import (
	"sync"
	"time"

	"github.com/entrace-go/entrace/control"
)

// Watch calls f with each new content of the file; see [New].
func (s *source) Watch(f func(*control.Config, error)) (stop func(), err error) {
	s.mu.Lock()
	seen := s.config
	s.mu.Unlock()
	if seen == "" {
		seen = state(s.load())
	}
	quit := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() { s.follow(seen, f, quit) })
	return sync.OnceFunc(func() {
		close(quit)
		done.Wait()
	}), nil
}

// maxAgain is the maximum number of consecutive reads that find a change. Then the change is reported although the
// file keeps changing.
const maxAgain = 10

// follow reads the file until quit is closed, and reports each state that differs from the previous state. The first
// previous state is seen.
func (s *source) follow(seen string, f func(*control.Config, error), quit <-chan struct{}) {
	timer := time.NewTimer(0) // fires when the file must be read again
	defer timer.Stop()
	last, again := seen, 0
	for {
		select {
		case <-quit:
			return
		case <-timer.C:
		}
		text, err := s.load()
		now := state(text, err)
		next := s.o.Poll
		switch {
		case now == seen:
			again = 0
		case now != last && again < maxAgain: // the writer may not have finished
			again++
			next = s.o.Debounce
		default:
			seen, again = now, 0
			f(s.parse(text, err))
		}
		last = now
		timer.Reset(next)
	}
}
