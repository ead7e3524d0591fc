package recorder

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// rounds numbers the writes of the writer. A call waits for the end of a round that begins after its
// records were appended, and gets the error of that write.
type rounds struct {
	mu sync.Mutex

	begun, ended uint64
	err          error         // the error of the last round that ended
	woken        chan struct{} // closed when a round has ended or roundTick has passed; nil: nobody waits
	ticks        bool          // the timer of roundTick is running
}

// next returns the number of the next round, which writes everything that was appended before this call.
func (r *rounds) next() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun + 1
}

// begin begins a round. After begin, the caller reads the journal.
func (r *rounds) begin() {
	r.mu.Lock()
	r.begun++
	r.mu.Unlock()
}

// end ends the rounds that have begun, and all rounds up to the number n.
func (r *rounds) end(n uint64, err error) {
	r.mu.Lock()
	r.ended, r.err = max(n, r.begun, r.ended), err
	r.wake()
	r.mu.Unlock()
}

// wake wakes all calls of wait. The caller holds r.mu.
func (r *rounds) wake() {
	if r.woken != nil {
		close(r.woken)
		r.woken = nil
	}
}

// roundTick is how often waiting calls check the time. They share one timer, because a
// timer for each call would cost more than the rest of the call.
const roundTick = time.Millisecond

// wait returns the error of round n when it has ended, or [ErrOverflow] after the time most.
func (r *rounds) wait(n uint64, most time.Duration) error {
	var start time.Time
	for {
		r.mu.Lock()
		if r.ended >= n {
			err := r.err
			r.mu.Unlock()
			return err
		}
		if r.woken == nil {
			r.woken = make(chan struct{})
		}
		woken := r.woken
		if !r.ticks {
			r.ticks = true
			time.AfterFunc(roundTick, r.tick)
		}
		r.mu.Unlock()
		switch {
		case start.IsZero():
			start = time.Now()
		case time.Since(start) >= most:
			return fmt.Errorf("%w: the record is not saved yet", ErrOverflow)
		}
		<-woken
	}
}

func (r *rounds) tick() {
	r.mu.Lock()
	r.ticks = false
	r.wake()
	r.mu.Unlock()
}

// work measures which part of its working time the writer spends in calls of files. Older times have less
// weight.
type work struct {
	since atomic.Int64 // when the running call of a file began, in nanoseconds since 1970; 0: no call is running
	files atomic.Int64 // nanoseconds spent in calls of files
	total atomic.Int64 // nanoseconds of work, including the time in calls of files
}

// end adds the time since begun to the total. A round of work began at that time.
func (k *work) end(begun time.Time) {
	k.total.Add(int64(time.Since(begun)))
	if k.total.Load() > int64(time.Second) {
		k.total.Store(k.total.Load() / 2)
		k.files.Store(k.files.Load() / 2)
	}
}

// disk calls fn, which writes or syncs a file, and measures how long fn takes.
func (k *work) disk(fn func() error) error {
	begun := time.Now()
	k.since.Store(begun.UnixNano())
	err := fn()
	k.since.Store(0)
	k.files.Add(int64(time.Since(begun)))
	return err
}

// standing returns how long the running call of a file has lasted, 0 if no call is running.
func (k *work) standing() time.Duration {
	if since := k.since.Load(); since != 0 {
		return time.Duration(time.Now().UnixNano() - since)
	}
	return 0
}
