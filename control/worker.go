package control

import (
	"context"
	"errors"
	"sync"
	"time"
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

// do has fn done. The error is errClosed if the worker ended before. The worker itself must
// not call it.
func (w *worker) do(fn func()) error {
	done := make(chan struct{})
	if !w.post(context.Background(), func() { defer close(done); fn() }) {
		return errClosed
	}
	return w.wait(context.Background(), done)
}

// wait waits until what was posted is done. The error is that of ctx, or errClosed if the
// worker ended before.
func (w *worker) wait(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-w.ended:
	}
	select {
	case <-done: // it was the last thing
		return nil
	default:
		return errClosed
	}
}

// doSoon is do for a caller who has no context. After a second the error is [ErrLate], or
// errFull if fn is not even in the queue.
func (w *worker) doSoon(fn func()) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	done := make(chan struct{})
	if !w.post(ctx, func() { defer close(done); fn() }) {
		if ctx.Err() != nil {
			return errFull
		}
		return errClosed
	}
	if err := w.wait(ctx, done); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return ErrLate
}

// stop ends the worker when it has done what it does, whatever waits still.
func (w *worker) stop() {
	w.once.Do(func() { close(w.quit) })
	<-w.ended
}

// A noteWriter writes the note of the ring's file on a goroutine of its own, as the disk may not
// answer. Its methods are for one goroutine.
type noteWriter struct {
	next  chan []byte // has the last one that is not being written yet
	ended chan struct{}
}

func newNoteWriter(write func(note []byte) error, report func(error)) *noteWriter {
	n := &noteWriter{make(chan []byte, 1), make(chan struct{})}
	go func() {
		defer close(n.ended)
		for note := range n.next {
			report(write(note))
		}
	}()
	return n
}

// put has a note written in place of one that still waits.
func (n *noteWriter) put(note []byte) {
	select {
	case <-n.next:
	default:
	}
	n.next <- note
}

// stop waits until the last note is written.
func (n *noteWriter) stop() {
	close(n.next)
	<-n.ended
}
