// Package setup reads the environment for whatever records the spans of this process: a span exporter
// or processor of package exporter, or entrace.Setup, which shares the settings with them.
package setup

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/env"
	"github.com/entrace-go/entrace/internal/flight"
	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/recorder"
)

// Settings are what options say, and the environment where they are silent.
type Settings struct {
	Recorder  *recorder.Recorder // that is there; nil: one is opened
	Flight    flight.Recorder    // nil: none
	Path      string             // with its placeholders; "none" and "-": no file
	Recording recorder.Options
	Unsampled bool         // a processor takes spans that are not sampled as well
	Level     slog.Leveler // from which a log processor takes records; nil: all

	fromEnv bool // Path is of the environment
}

// An Option is an option of package exporter or of entrace.Setup.
type Option func(*Settings)

// Apply changes s as the option says.
func (o Option) Apply(s *Settings) { o(s) }

// WithFlight records for a flight recorder: to its ring, live, and those spans as well that
// are recorded but not sampled. What is about files has no effect then. It stays the
// caller's to shut down. An exporter takes ended spans to the ring.
func WithFlight(f flight.Recorder) Option { return func(s *Settings) { s.Flight = f } }

// WithLevel makes a log processor take only the records from a level of log/slog on.
func WithLevel(l slog.Leveler) Option { return func(s *Settings) { s.Level = l } }

// Resolve applies options, and reads the environment where they are silent, unless they
// name a recorder. What is wrong with a variable is told on the console.
func Resolve[O interface{ Apply(*Settings) }](options ...O) *Settings {
	s := new(Settings)
	for _, o := range options {
		o.Apply(s)
	}
	if s.Recorder == nil {
		s.environment()
	}
	return s
}

// Open opens a recorder for the settings, for the caller to close. {service} in the path is
// the service of res, or the program if that has none; its folder is made if it is not there,
// for the user alone. Without a file and a Tee it is [recorder.Discard]'s.
func (s *Settings) Open(res *resource.Resource) (*recorder.Recorder, error) {
	o := s.Recording
	if o.OnError == nil {
		o.OnError = notice.Error
	}
	switch {
	case !noFile(s.Path):
		r, err := create(s.Path, serviceName(res), &o)
		if err != nil && s.fromEnv {
			return nil, fmt.Errorf("exporter: %s=%q: %w", envPath, s.Path, err)
		}
		if err != nil {
			return nil, fmt.Errorf("exporter: %w", err)
		}
		return r, nil
	case o.Tee == nil:
		return recorder.Discard(), nil
	}
	return recorder.Stream(&o), nil
}

// create opens a recorder for the template of a path. Where another process records, or may,
// it takes another name.
func create(template, service string, o *recorder.Options) (*recorder.Recorder, error) {
	path := env.Expand(template, service)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if f := env.Family(template, service); f != nil && o.Family == nil {
		o.Family = f.MatchString
	}
	if o.OnNotice == nil {
		o.OnNotice = notice.Info
	}
	o.Shared = true // all exporters of a process record to one file
	r, err := recorder.Create(path, o)
	if !errors.Is(err, format.ErrLocked) {
		return r, err
	}
	other := env.Unique(path)
	r, oerr := recorder.Create(other, o)
	if oerr != nil {
		return nil, errors.Join(err, oerr)
	}
	hint := ""
	if !strings.Contains(template, "{pid}") {
		hint = "; {pid} in " + envPath + " gives each process its own"
	}
	notice.Error(fmt.Errorf("recording to %s instead: %w%s", other, err, hint))
	return r, nil
}

// Use returns the recorder for an exporter or processor that records in that mode, and whether it was
// opened for it.
func (s *Settings) Use(mode string) (r *recorder.Recorder, owned bool, err error) {
	switch {
	case s.Flight != nil:
		return s.Flight.Recorder(), false, nil
	case s.Recorder != nil:
		return s.Recorder, false, nil
	}
	needSetup(mode)
	res, err := Resource(nil)
	if err != nil {
		notice.Error(fmt.Errorf("entrace: resource: %w", err)) // it is usable all the same
	}
	r, err = s.Open(res)
	return r, err == nil, err
}

// noFile reports whether a path says that there is to be no file.
func noFile(path string) bool { return path == "-" || strings.EqualFold(path, "none") }
