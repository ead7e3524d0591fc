package format

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/entrace-go/entrace/internal/osfile"
)

// Sync is Flush, and makes everything that is in the file, and the file's name,
// survive a loss of power. Once it has failed it fails until the file is another:
// what the disk has lost it does not tell twice.
func (r *Recorder) Sync() error {
	if r.Discards() {
		return nil
	}
	if r.ring != nil {
		return r.ring.sync()
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	err := r.drain()
	ticket, pool := r.sync.ticket(), r.pool
	r.unlock()
	err = errors.Join(err, r.finished.sync(), r.syncUpTo(ticket))
	if pool != nil {
		// Recovery cuts the file to what the checkpoint says, so that on disk this
		// must not be older than what is promised.
		err = errors.Join(err, closedErr(pool.Sync()))
	}
	if r.f == nil {
		return err // no folder either
	}
	return errors.Join(err, osfile.SyncDir(r.stream))
}

// A groupSync lets all who wait for an fsync share one.
type groupSync struct {
	mu sync.Mutex // held during an fsync

	wanted atomic.Uint64 // of Recorder.mu: how many tickets there are
	done   uint64        // the last ticket that an fsync has served
	f      stream        // that failed
	err    error         // sticky: a file that failed once is never safe again
}

// ticket is for what is in the file now. Recorder.mu is held.
func (g *groupSync) ticket() uint64 { return g.wanted.Add(1) }

// syncUpTo returns when what a ticket stands for is safe.
func (r *Recorder) syncUpTo(ticket uint64) error {
	g := &r.sync
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done >= ticket {
		return g.err
	}
	r.mu.Lock()
	f, closed, served := r.w, r.closed, g.wanted.Load()
	if f != g.f {
		g.f, g.err = f, nil
	}
	r.mu.Unlock()
	if closed {
		return g.err // Close syncs
	}
	if g.err == nil {
		if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
			g.err = fmt.Errorf("sync %s: %w", r.stream, err)
			r.mu.Lock()
			r.failed(g.err)
			r.unlock()
		}
	}
	g.done = served
	return g.err
}
