package provider

import (
	"cmp"
	"context"
	"errors"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

const (
	// maxCPUStacks is how many stacks a part of a profile has.
	maxCPUStacks = 5000
	// cpuPart is how long a part is at most: the runtime keeps it in memory, and
	// its samples have no times of their own.
	cpuPart = time.Minute
)

// CPUProfile is the provider of processor profiles, at the runtime's 100 samples a
// second of processor time. A process has one such profile at a time: Start and
// flush return an error with "already in use" if somebody else has it. The zero
// CPUProfile is ready for use. It is safe for concurrent use.
type cpuProfile struct {
	life sync.Mutex // held to start and stop

	loop  *loop         // nil: not running
	every time.Duration // of the parts, cpuPart if 0

	mu sync.Mutex // held to flush

	session *control.Session
	part    *cpuRecording // nil: none, after a restart that failed
	err     error         // of a part that could not be written by the loop
}

// A cpuRecording is the writer for a profile. The runtime writes all of it at the end.
type cpuRecording struct {
	began time.Time

	mu sync.Mutex

	w limited
}

func (c *cpuRecording) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.w.Write(b)
}

// ended reports whether somebody has stopped the profile.
func (c *cpuRecording) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.w.written > 0
}

func (c *cpuProfile) provider() control.Provider {
	return control.Provider{Provides: control.CPUProfile, Start: c.start, Stop: c.stop, Flush: c.flush}
}

// start starts a profile.
func (c *cpuProfile) start(s *control.Session) error {
	c.life.Lock()
	defer c.life.Unlock()
	if c.loop != nil {
		return errRunning
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.err = s, nil
	if err := c.begin(); err != nil {
		return err
	}
	c.loop = newLoop(s, cmp.Or(c.every, cpuPart), func() { c.flushPart(s) })
	return nil
}

// stop ends the profile and writes the samples since the last flush.
func (c *cpuProfile) stop() error {
	c.life.Lock()
	defer c.life.Unlock()
	if c.loop == nil {
		return nil
	}
	ok := c.loop.stop()
	c.loop = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	groups, began, took, err := c.end()
	if err == nil && ok {
		err = c.write(groups, began, took)
	}
	return errors.Join(c.err, err)
}

// flush ends a part of the profile, begins the next one and writes what was
// gathered. Every minute that happens by itself.
func (c *cpuProfile) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	restart, err := c.nextPart()
	return errors.Join(restart, err)
}

// flushPart is flush for the loop.
func (c *cpuProfile) flushPart(s *control.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	restart, err := c.nextPart()
	if restart != nil {
		s.Fail(errors.Join(restart, err))
	} else if c.err == nil {
		c.err = err
	}
}

// nextPart is flush with two errors: that of the restart, without which nothing is profiled, and
// that of the part that has ended.
func (c *cpuProfile) nextPart() (restart, err error) {
	if c.part == nil {
		return nil, nil
	}
	groups, began, took, err := c.end()
	// Before anything is written, so that the profile has the time that this takes.
	restart = c.begin()
	if err != nil {
		return restart, err
	}
	return restart, c.write(groups, began, took)
}

func (c *cpuProfile) begin() error {
	part := &cpuRecording{began: time.Now(), w: limited{most: maxProfileBytes}}
	if err := pprof.StartCPUProfile(part); err != nil {
		return err
	}
	c.part = part
	return nil
}

// end stops the profile, if there is one, and returns its samples.
func (c *cpuProfile) end() (groups []*group, began time.Time, took time.Duration, err error) {
	part := c.part
	if part == nil {
		return nil, began, 0, nil
	}
	c.part = nil
	// The profile that runs now may be somebody else's.
	if part.ended() {
		return nil, began, 0, errors.New("the profile was stopped by somebody else")
	}
	pprof.StopCPUProfile()
	took = time.Since(part.began)
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.w.over() {
		return nil, began, 0, errors.New("the profile is too large")
	}
	groups, err = parseProfile(part.w.data)
	return groups, part.began, took, err
}

// write writes an entry for each stack.
func (c *cpuProfile) write(groups []*group, at time.Time, took time.Duration) error {
	slices.SortFunc(groups, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.values[0], a.values[0]), cmp.Compare(a.key, b.key))
	})
	return writeGroups(context.Background(), c.session, control.CPUProfile, at, groups, maxCPUStacks, anyFunction, func(values [2]int64) []format.Attribute {
		return []format.Attribute{u64("samples", uint64(values[0])), u64("cpu_nano", uint64(values[1])), u64("window_nano", uint64(took))}
	})
}

func anyFunction(string) bool { return true }
