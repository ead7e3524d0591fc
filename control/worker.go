package control

import (
	"context"
	"sync"

	"github.com/entrace-go/entrace/internal/write/safecall"
)

// A worker runs functions one after the other on a goroutine of its own. They may panic or end that
// goroutine, since they call code outside of this package.
type worker struct {
	guard safecall.Guard
	queue chan func()
	quit  chan struct{}
	ended chan struct{}
	once  sync.Once
}

func (w *worker) start(room int) {
	w.queue, w.quit, w.ended = make(chan func(), room), make(chan struct{}), make(chan struct{})
	go w.guard.Serve(func() (string, func(), bool) {
		select {
		case fn := <-w.queue:
			return "a callback", fn, true
		case <-w.quit:
			close(w.ended)
			return "", nil, false
		}
	})
}

// offer queues fn if there is room.
func (w *worker) offer(fn func()) {
	select {
	case w.queue <- fn:
	default:
	}
}

// do queues fn and waits until it has run. The error is errClosed if the worker ended before.
func (w *worker) do(fn func()) error {
	done := make(chan struct{})
	select {
	case w.queue <- func() { defer close(done); fn() }:
		return w.wait(context.Background(), done)
	case <-w.ended:
		return errClosed
	}
}

// wait waits for the end of a function that was queued. The error is the error of ctx, or
// errClosed if the worker ended before.
func (w *worker) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended:
	}
	select {
	case <-done: // it was the last function
		return nil
	default:
		return errClosed
	}
}

// stop ends the worker after the function that runs. Functions that still wait are dropped.
func (w *worker) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
}

// A repeater calls a function on a goroutine of its own. Several calls of again before the
// function runs lead to one call.
type repeater struct {
	asked chan struct{} // has room for one
	ended chan struct{}
}

func newRepeater(g *safecall.Guard, fn func()) *repeater {
	r := &repeater{make(chan struct{}, 1), make(chan struct{})}
	go g.Serve(func() (string, func(), bool) {
		_, ok := <-r.asked
		if !ok {
			close(r.ended)
		}
		return "a callback", fn, ok
	})
	return r
}

// again makes the goroutine call the function after this moment. It never waits.
func (r *repeater) again() {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// stop waits for the last call of the function. Do not call again afterwards.
func (r *repeater) stop() {
	close(r.asked)
	<-r.ended
}
