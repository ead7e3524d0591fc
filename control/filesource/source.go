package filesource

import (
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/file/osfile"
)

// Options configure [New].
type Options struct {
	// Poll is the interval at which the file is read. The default is 2 s.
	Poll time.Duration
	// Debounce is the interval between reads of a file that has changed, until two reads are equal. If changes
	// continue, the change is reported after ten times Debounce. The default is 200 ms.
	Debounce time.Duration
	// Defaults has the values of Dir, Keep, Ring and their fields that the file leaves out; its ID and Traces are
	// ignored. The default is [control.DefaultConfig]. To change some values, change a copy of the default. New
	// copies Defaults.
	Defaults *control.Config
}

// New returns a source of the configuration in the file at path. The file need not exist
// yet. A nil *Options means defaults. New resolves a relative path, so that later changes of
// the working directory have no effect.
//
// Config reads the file. Watch reports each change since the last call of Config, or since the call of Watch if
// Config was not called. It calls its function with each content that differs from the previous content. An
// invalid content is reported once, with its error; a file that cannot be read is also reported once. The calls
// do not overlap. The function must not call stop, because stop waits for the function. Watch never returns an
// error.
//
// The file must be a regular file of at most 256 KiB, or a symbolic link to one. The source
// is safe for concurrent use. The caller owns the configurations that it returns.
func New(path string, o *Options) control.Source {
	s := &source{name: path, path: path}
	if o != nil {
		s.o = *o
	}
	if s.o.Poll <= 0 {
		s.o.Poll = 2 * time.Second
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
	name string // for errors
	path string
	o    Options

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

// parse parses the text that load returned, or returns the error of load.
func (s *source) parse(text []byte, err error) (*control.Config, error) {
	if err != nil {
		return nil, err
	}
	return parse(s.name, text, s.o.Defaults)
}

// state returns a text that identifies a result of load. Different results have different texts.
func state(text []byte, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}
