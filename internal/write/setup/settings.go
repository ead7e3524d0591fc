// Package setup has the settings of the exporters and processors in package exporter and of entrace.Setup.
// It reads them from options and from the environment.
package setup

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/recorder"
)

// Settings holds the values of options, and values from the environment for options that are not given.
type Settings struct {
	Recorder  *recorder.Recorder      // nil: Open or Use opens a recorder
	Flight    flightrecorder.Recorder // nil: no flight recorder
	Path      string                  // a path with placeholders; "none" and "-" mean no file
	Recording recorder.Options
	Unsampled bool                 // a processor also records spans that are not sampled
	Level     slog.Leveler         // the lowest level of log records that a log processor records; nil: all levels
	Process   []attribute.KeyValue // RecordResource adds them to resources that do not have them

	// Refused, if not nil, is the reason why nothing may be recorded.
	Refused error

	fromEnv bool // Path was read from the environment
}

// NewSpanExporter and NewLogExporter return exporters of ended spans and of the records of OpenTelemetry's log API, for
// package exporter/autoexport. They record to the same places as entrace.Setup does without options, including an
// endpoint or a flight recorder. All of them share one recording. The root package sets the variables.
var (
	NewSpanExporter func() (sdktrace.SpanExporter, error)
	NewLogExporter  func() (sdklog.Exporter, error)
)

// An Option is an option of package exporter or of entrace.Setup.
type Option func(*Settings)

func (Option) sealed() {}

// A Sealed is an option that only this module can make: an Option, or a type that embeds Seal.
type Sealed interface{ sealed() }

// A Seal makes a type that embeds it Sealed.
type Seal struct{}

func (Seal) sealed() {}

// WithFlight makes an exporter or processor record to the ring of f, including spans that are recording but
// not sampled. A processor records spans from their start on; an exporter records only ended spans.
// Settings for files have no effect. The caller must shut the flight recorder down.
func WithFlight(f flightrecorder.Recorder) Option { return func(s *Settings) { s.Flight = f } }

// WithLevel makes a log processor record only log records of at least the level l of log/slog.
func WithLevel(l slog.Leveler) Option { return func(s *Settings) { s.Level = l } }

// Resolve applies the options of type Option. If they set no recorder, it then reads all other settings from the
// environment. Errors in variables are reported on the console.
func Resolve[O Sealed](options ...O) *Settings {
	s := new(Settings)
	for _, o := range options {
		if apply, ok := any(o).(Option); ok {
			apply(s)
		}
	}
	if s.Recorder == nil {
		s.environment()
	}
	return s
}

// Open opens a recorder for the settings. The caller has to close the recorder. In the path, {service} is
// replaced by the service name in res, or by the name of the program if res has none. If the folder of the
// path does not exist, Open makes it with the mode 0700. If the settings have neither a file nor a Tee,
// Open returns [recorder.Discard].
func (s *Settings) Open(res *resource.Resource) (*recorder.Recorder, error) {
	if s.Refused != nil {
		return nil, s.Refused
	}
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

// create opens a recorder for a path with placeholders. If another process has locked the file, create uses
// another name.
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
	other := tracename.Unique(path)
	r, oerr := recorder.Create(other, o)
	if oerr != nil {
		return nil, errors.Join(err, oerr)
	}
	hint := ""
	if !strings.Contains(template, "{pid}") {
		hint = "; put {pid} into " + envPath + " to give each process its own file"
	}
	notice.Error(fmt.Errorf("%w; recording to %s instead%s", err, other, hint))
	return r, nil
}

// Use returns the recorder for an exporter or processor with the given mode. If owned is true, Use has
// opened the recorder, and the caller must close it.
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
		notice.Error(fmt.Errorf("entrace: detect the resource: %w", err)) // the resource is usable nevertheless
	}
	r, err = s.Open(res)
	return r, err == nil, err
}

// noFile reports whether path means that no file is written.
func noFile(path string) bool { return path == "-" || strings.EqualFold(path, "none") }
