package recorder

import (
	"context"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/write/safecall"
)

// callbacks runs functions of the application one after the other, on a goroutine that
// exists while functions are queued. The size of the queue is bounded.
type callbacks struct {
	guard safecall.Guard

	mu sync.Mutex

	queue   []callback
	size    int // bytes that the queue keeps
	running bool
	idle    chan struct{} // closed when the queue is empty; nil: it is
	started time.Time     // the function that runs
	current int           // its size
}

type callback struct {
	name string // for people
	fn   func()
	size int
}

const (
	maxCallbacks     = 1024
	maxCallbackBytes = 8 << 20
	// callbackGrace is how long Close waits for a function that does not return: it may be
	// the one that calls Close.
	callbackGrace = 2 * time.Second
)

// post queues fn, which keeps size bytes. It reports false if there is no room.
func (c *callbacks) post(name string, size int, fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) >= maxCallbacks || c.size+size > maxCallbackBytes && c.size > 0 {
		return false
	}
	c.add(callback{name, fn, size})
	return true
}

// mustPost queues fn even if there is no room. It is for rare calls that must not be lost.
func (c *callbacks) mustPost(name string, fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(callback{name, fn, 0})
}

// add queues a function. The lock is held.
func (c *callbacks) add(f callback) {
	c.queue = append(c.queue, f)
	c.size += f.size
	if !c.running {
		c.running, c.idle = true, make(chan struct{})
		go c.guard.Serve(c.next)
	}
}

// next takes the next function from the queue.
func (c *callbacks) next() (name string, fn func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size -= c.current
	if len(c.queue) == 0 {
		c.queue, c.running, c.current = nil, false, 0
		close(c.idle)
		return "", nil, false
	}
	f := c.queue[0]
	c.queue[0] = callback{}
	c.queue = c.queue[1:]
	c.started, c.current = time.Now(), f.size
	return f.name, f.fn, true
}

// runningFor returns how long the current function has run.
func (c *callbacks) runningFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return 0
	}
	return time.Since(c.started)
}

// wait returns when nothing is queued and nothing runs, when ctx ends, or when a function
// has run for callbackGrace.
func (c *callbacks) wait(ctx context.Context) {
	c.mu.Lock()
	idle, running := c.idle, c.running
	c.mu.Unlock()
	if !running {
		return
	}
	tick := time.NewTicker(callbackGrace / 20)
	defer tick.Stop()
	for {
		select {
		case <-idle:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			if c.runningFor() > callbackGrace {
				return
			}
		}
	}
}
