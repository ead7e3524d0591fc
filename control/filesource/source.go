package filesource

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/osfile"
)

// Options of [New].
type Options struct {
	// Poll is how often the file is read without a notification: some network file systems have
	// none. The default is 5 s.
	Poll time.Duration
	// Debounce is how long a change must be old before the file is read. When
	// changes go on and on it is read after ten times that. The default is 200 ms.
	Debounce time.Duration
	// Defaults hold for what the file does not say of Dir, Keep and Ring, field by
	// field; ID and Traces are ignored. To change some, begin with [control.DefaultConfig], which
	// is the default. It is copied.
	Defaults *control.Config
}

// New returns a source of the configuration in the file at path, which need not
// exist. A nil *Options means defaults. A relative path is that of now, whatever
// the working directory becomes.
//
// Config reads the file. Watch follows it from what Config said last, or without
// Config from what it says then: it reports each content that differs from the one
// before, a broken one once with its error, and once that the file cannot be read.
// No two calls overlap. The function that is called must not call stop, which waits
// for it. Watch returns no error: without notifications, polling is enough.
//
// The file must be a regular one of 256 KiB at most, or a symbolic link to one.
// The source is safe for concurrent use, and what it returns is the caller's.
func New(path string, o *Options) control.Source {
	s := &source{name: path, path: path, notifier: fsnotify.NewWatcher}
	if o != nil {
		s.o = *o
	}
	if s.o.Poll <= 0 {
		s.o.Poll = 5 * time.Second
	}
	if s.o.Debounce <= 0 {
		s.o.Debounce = 200 * time.Millisecond
	}
	if s.o.Defaults == nil {
		s.o.Defaults = control.DefaultConfig()
	} else {
		d := *s.o.Defaults
		d.Ring.Params = maps.Clone(d.Ring.Params)
		s.o.Defaults = &d
	}
	if abs, err := filepath.Abs(path); err == nil {
		s.path = abs
	}
	return s
}

type source struct {
	name     string // for errors
	path     string
	o        Options
	notifier func() (*fsnotify.Watcher, error)

	mu sync.Mutex

	config string // the state at the last call of Config; "" if it was not called
}

// Config reads the file.
func (s *source) Config() (*control.Config, error) {
	text, err := s.load()
	s.mu.Lock()
	s.config = state(text, err)
	s.mu.Unlock()
	return s.parse(text, err)
}

// load reads the file.
func (s *source) load() (text []byte, err error) {
	f, err := osfile.OpenRead(s.path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	defer f.Close() // nothing was written
	text, err = io.ReadAll(io.LimitReader(f, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read configuration: %w", err)
	case len(text) > maxSize:
		return nil, tooLarge(s.name)
	}
	return text, nil
}

// parse makes a configuration of the results of load.
func (s *source) parse(text []byte, err error) (*control.Config, error) {
	if err != nil {
		return nil, err
	}
	return parse(s.name, text, s.o.Defaults)
}

// state returns a text that differs for different results of load.
func state(text []byte, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}
