package recorder

import (
	"context"
	"sync"
	"time"

	"github.com/entrace-go/entrace/internal/write/safecall"
)

// callbacks calls functions of the application, one at a time. It has a goroutine only while functions are
// queued. The queue has a maximum size.
type callbacks struct {
	guard safecall.Guard

	mu sync.Mutex

	queue   []callback
	size    int // bytes of memory that the queued functions refer to
	running bool
	idle    chan struct{} // closed when the queue becomes empty; nil before the first function
	started time.Time     // when the running function began
	current int           // the size of the running function
}

type callback struct {
	name string // the name for messages
	fn   func()
	size int
}

const (
	maxCallbacks     = 1024
	maxCallbackBytes = 8 << 20
	// callbackGrace is how long Close waits for a function that does not return. Perhaps that function
	// itself has called Close.
	callbackGrace = 2 * time.Second
)

// post queues fn, which refers to size bytes of memory. It returns false if the queue has no room.
func (c *callbacks) post(name string, size int, fn func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) >= maxCallbacks || c.size+size > maxCallbackBytes && c.size > 0 {
		return false
	}
	c.add(callback{name, fn, size})
	return true
}

// mustPost queues fn even if the queue is full. It is for rare functions that must not be lost.
func (c *callbacks) mustPost(name string, fn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(callback{name, fn, 0})
}

// add queues f. The caller holds c.mu.
func (c *callbacks) add(f callback) {
	c.queue = append(c.queue, f)
	c.size += f.size
	if !c.running {
		c.running, c.idle = true, make(chan struct{})
		go c.guard.Serve(c.next)
	}
}

// next removes the next function from the queue and returns it.
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

// runningFor returns how long the current function has run, 0 if there is none.
func (c *callbacks) runningFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return 0
	}
	return time.Since(c.started)
}

// wait returns when no function is queued or running, when ctx ends, or when a function runs for longer
// than callbackGrace.
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
