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
	// maxCPUStacks is the maximum number of stacks in a part of a profile that get an entry of their own.
	maxCPUStacks = 5000
	// cpuPart is the maximum duration of a part of the profile. Parts are short because the runtime holds a
	// part in memory, and its samples have no times.
	cpuPart = time.Minute
)

// A cpuProfile is the provider of CPU profiles, with the 100 samples per second of CPU time that the
// runtime takes. A process can have one CPU profile at a time: if other code runs one, start and flush
// return an error with "already in use". The zero cpuProfile is ready for use. It is safe for concurrent
// use.
type cpuProfile struct {
	life sync.Mutex // held during start and stop

	loop  *loop         // nil: not running
	every time.Duration // the length of a part; 0: cpuPart

	mu sync.Mutex // held while a part begins or ends

	session *control.Session
	part    *cpuRecording // nil: the next part could not be started
	err     error         // the first error of a part that the loop has written
}

// A cpuRecording is the writer for one part of the profile. The runtime writes to it only when the profile
// stops.
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

// ended reports whether the profile has stopped. While the recording is c.part, only other code can have stopped the
// profile.
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

// stop ends the profile, and writes the samples since the last part.
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

// flush ends a part of the profile, begins the next part, and writes the samples of the ended part. The loop does the
// same every minute.
func (c *cpuProfile) flush() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.nextPart())
}

// flushPart is flush for the loop. It reports errors to the session, or keeps them for stop.
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

// nextPart does the work of flush. The result restart is the error of beginning the next part, and err
// is the error of the ended part.
func (c *cpuProfile) nextPart() (restart, err error) {
	if c.part == nil {
		return nil, nil
	}
	groups, began, took, err := c.end()
	// First begin the next part, so that it includes the work of writing the ended part.
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

// end stops the profile if one runs, and returns its samples.
func (c *cpuProfile) end() (groups []*group, began time.Time, took time.Duration, err error) {
	part := c.part
	if part == nil {
		return nil, began, 0, nil
	}
	c.part = nil
	// Other code has stopped this part. The profile that runs now, if any, belongs to that code.
	if part.ended() {
		return nil, began, 0, errors.New("other code of the program stopped the CPU profile")
	}
	pprof.StopCPUProfile()
	took = time.Since(part.began)
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.w.over() {
		return nil, began, 0, errors.New("the CPU profile is too large")
	}
	groups, err = parseProfile(part.w.data)
	return groups, part.began, took, err
}

// write writes an entry for each stack.
func (c *cpuProfile) write(groups []*group, at time.Time, took time.Duration) error {
	slices.SortFunc(groups, mostFirst)
	return writeGroups(context.Background(), c.session, control.CPUProfile, at, groups, maxCPUStacks, anyFunction, func(values [2]int64) []format.Attribute {
		return []format.Attribute{u64("samples", uint64(values[0])), u64("cpu_nano", uint64(values[1])), u64("window_nano", uint64(took))}
	})
}

func anyFunction(string) bool { return true }
