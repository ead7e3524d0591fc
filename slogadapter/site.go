package slogadapter

import (
	"maps"
	"math"
	"path"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// A place describes a line in the source code.
type place struct {
	name     string // event BASENAME:LINE
	pkg      string
	function string
	file     string // empty: unknown
	line     uint32
}

// A site is a place that logs, with the recorder's Place of it.
type site struct {
	place

	call *record.Place // nil: the recorder does not know the site
}

// metadata returns the metadata that all entries of the site share.
func (s *site) metadata() format.Metadata {
	m := format.Metadata{Name: s.name, Target: s.pkg}
	if s.file != "" {
		m.File, m.Line = format.Some(s.file), format.Some(s.line)
	}
	return m
}

const eventName = "event"

// A siteCache holds the sites by program counter. It needs no bound, because a
// program has a limited number of call sites. A lookup takes no lock and does not
// allocate.
type siteCache struct {
	known atomic.Pointer[map[uintptr]*site]

	mu sync.Mutex // held while known is replaced
}

// of returns the site of the program counter pc, and gives it a Place if it has none. pc is 0 if the place is unknown.
// A new Place gets message, so that later records with this message need not store it.
func (c *siteCache) of(r *recorder.Recorder, pc uintptr, message string) *site {
	if s := c.get(pc); s != nil && s.call != nil {
		return s
	}
	s := siteAt(pc)
	m := s.metadata()
	s.call = inside.Of(r).Place(&m, message)
	return c.add(pc, s)
}

// source is like of, but does not give the site a Place. The recorder does not know a site without a Place.
func (c *siteCache) source(pc uintptr) *site {
	if s := c.get(pc); s != nil {
		return s
	}
	return c.add(pc, siteAt(pc))
}

func (c *siteCache) get(pc uintptr) *site {
	if m := c.known.Load(); m != nil {
		return (*m)[pc]
	}
	return nil
}

// add adds the site s for pc and returns s. If the cache already has a site for pc, add returns the cached site, unless
// only s has a Place.
func (c *siteCache) add(pc uintptr, s *site) *site {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := make(map[uintptr]*site)
	if old := c.known.Load(); old != nil {
		if known := (*old)[pc]; known != nil && (known.call != nil || s.call == nil) {
			return known
		}
		m = maps.Clone(*old)
	}
	m[pc] = s
	c.known.Store(&m)
	return s
}

func siteAt(pc uintptr) *site {
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return newSite(f.Function, f.File, f.Line)
}

func newSite(function, file string, line int) *site {
	s := &site{place: place{name: eventName, function: function, pkg: mapping.Package(function), file: file}}
	if line > 0 && int64(line) <= math.MaxUint32 {
		s.line = uint32(line)
	}
	if file != "" {
		s.name += " " + path.Base(file) + ":" + strconv.Itoa(line)
	}
	return s
}
