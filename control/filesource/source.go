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
	// Poll is the time between two reads of the file. The default is 2 s.
	Poll time.Duration
	// Debounce is the time between two reads of a file that has changed. When two reads are equal, the change is
	// reported. If the file keeps changing, the change is reported after ten reads. The default is 200 ms.
	Debounce time.Duration
	// Defaults has the values of Dir, Keep, Ring and their fields for keys that the file does not have. Its ID and
	// Traces are ignored. The default is the result of [control.DefaultConfig]: to change some values, change a
	// result of that function. New copies Defaults.
	Defaults *control.Config
}

// New returns a source of the configuration in the file at path. The file need not exist yet. A nil
// *Options means defaults. New resolves a relative path, so that later changes of the working directory
// have no effect.
//
// Config reads the file. Watch calls its function with each content that differs from the previous content. The first
// content is compared with the content at the last call of Config before Watch, or else at the call of Watch. Invalid
// content, or a file that cannot be read, is reported once, with the error. The calls do not overlap. The function
// must not call stop, because stop waits for it. Watch never returns an error.
//
// The file must be a regular file of at most 256 KiB, or a symbolic link to such a file. The source is safe for
// concurrent use. The caller may change the configurations that it gets.
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

	config string // the state at the last call of Config; "" if Config was not called
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

// parse parses text, or returns err. Both are results of load.
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
