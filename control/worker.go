package control

import (
	"context"
	"sync"
)

// A worker does what is asked of it, one thing after the other, on a goroutine of
// its own: nothing that takes time is done on a caller's.
type worker struct {
	queue chan func()
	quit  chan struct{}
	ended chan struct{}
	once  sync.Once
}

// maxQueue is how many things wait at most.
const maxQueue = 64

func (w *worker) start() {
	w.queue, w.quit, w.ended = make(chan func(), maxQueue), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(w.ended)
		for {
			select {
			case fn := <-w.queue:
				guarded(fn)
			case <-w.quit:
				return
			}
		}
	}()
}

// guarded calls fn, which may lead to code of others: their panics are not the
// application's end.
func guarded(fn func()) {
	defer func() { _ = recover() }()
	fn()
}

// offer asks for fn if there is room, and reports that.
func (w *worker) offer(fn func()) bool {
	select {
	case w.queue <- fn:
		return true
	default:
		return false
	}
}

// post asks for fn, and reports whether it could before ctx or the worker ended.
func (w *worker) post(ctx context.Context, fn func()) bool {
	select {
	case w.queue <- fn:
		return true
	case <-ctx.Done():
		return false
	case <-w.ended:
		return false
	}
}

// do has fn done and reports whether it was. The worker itself must not call it.
func (w *worker) do(fn func()) bool {
	done := make(chan struct{})
	if !w.post(context.Background(), func() { defer close(done); fn() }) {
		return false
	}
	select {
	case <-done:
		return true
	case <-w.ended:
	}
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// stop ends the worker when it has done what it does, whatever waits still.
func (w *worker) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
}
