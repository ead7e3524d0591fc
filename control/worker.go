package control

import (
	"context"
	"errors"
	"sync"

	"github.com/entrace-go/entrace/internal/write/safecall"
)

var errClosed = errors.New("control: shut down")

// A worker runs functions one after the other on its own goroutine. The functions may panic or end their
// goroutine, because they call code of other packages.
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

// offer queues fn if the queue has room, and drops it otherwise.
func (w *worker) offer(fn func()) {
	select {
	case w.queue <- fn:
	default:
	}
}

// do queues fn and waits until fn has run. It returns errClosed if the worker ends before fn has run.
func (w *worker) do(fn func()) error {
	done := make(chan struct{})
	select {
	case w.queue <- func() { defer close(done); fn() }:
		return w.wait(context.Background(), done)
	case <-w.ended:
		return errClosed
	}
}

// wait waits until done is closed, which means that a queued function has run. It returns the error of ctx, or
// errClosed if the worker ends before.
func (w *worker) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended:
	}
	select {
	case <-done: // the function has run as the last function of the worker
		return nil
	default:
		return errClosed
	}
}

// stop ends the worker after the running function. Queued functions are dropped.
func (w *worker) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
}

// A repeater calls a function on its own goroutine. If again is called several times before the function
// runs, the function runs once.
type repeater struct {
	asked chan struct{} // capacity 1
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

// again requests another call of the function, which begins after this moment. It never waits.
func (r *repeater) again() {
	select {
	case r.asked <- struct{}{}:
	default:
	}
}

// stop waits for the last call of the function. After stop, again must not be called.
func (r *repeater) stop() {
	close(r.asked)
	<-r.ended
}
