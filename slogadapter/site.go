package slogadapter

import (
	"maps"
	"math"
	"path"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/entrace-go/entrace/internal/source"
)

// A place is one in the source.
type place struct {
	name     string // event BASENAME:LINE
	pkg      string
	function string
	file     string // empty: unknown
	line     uint32
}

// A site is a place that logs.
type site struct {
	place

	shapes atomic.Pointer[[]*shape]

	mu sync.Mutex // held while shapes are replaced
}

const eventName = "event"

// A siteCache knows the sites of program counters, of which a program has only so
// many. Looking one up takes no lock and allocates nothing.
type siteCache struct {
	none site // for no program counter

	known atomic.Pointer[map[uintptr]*site]

	mu sync.Mutex // held while known is replaced
}

func (c *siteCache) of(pc uintptr) *site {
	if pc == 0 {
		return &c.none
	}
	if m := c.known.Load(); m != nil {
		if s := (*m)[pc]; s != nil {
			return s
		}
	}
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	s := newSite(f.Function, f.File, f.Line)
	c.mu.Lock()
	defer c.mu.Unlock()
	m := make(map[uintptr]*site)
	if old := c.known.Load(); old != nil {
		m = maps.Clone(*old)
	}
	m[pc] = s
	c.known.Store(&m)
	return s
}

func newSite(function, file string, line int) *site {
	s := &site{place: place{name: eventName, function: function, pkg: source.Package(function), file: file}}
	if line > 0 && int64(line) <= math.MaxUint32 {
		s.line = uint32(line)
	}
	if file != "" {
		s.name += " " + path.Base(file) + ":" + strconv.Itoa(line)
	}
	return s
}
