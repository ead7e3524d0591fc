package provider

import (
	"fmt"
	"time"

	"github.com/entrace-go/entrace/control"
)

// A loop calls a function in a goroutine of its own, at intervals, until stop.
type loop struct {
	quit   chan struct{}
	done   chan struct{} // closed when the goroutine ends
	failed bool          // read it after done
}

// newLoop calls tick every so often. A panic in it ends the loop and fails s:
// a recorder must not end the program that it watches.
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

// stop waits for the goroutine. It reports whether there was no panic, so that the
// session may be written to once more.
func (l *loop) stop() bool {
	close(l.quit)
	<-l.done
	return !l.failed
}
