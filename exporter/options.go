package exporter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/env"
	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/internal/selfmetrics"
	"github.com/entrace-go/entrace/recorder"
)

// ErrShutdown is returned by what was shut down.
var ErrShutdown = selfmetrics.ErrShutdown

// Settings are what options say, and the environment where they are silent.
type Settings struct {
	Recorder  *recorder.Recorder // of WithRecorder; nil: one is opened
	Flight    Flight             // of WithFlight; nil: none
	Path      string             // with its placeholders; "none" and "-": no file
	Recording recorder.Options

	fromEnv   bool // Path is of the environment
	durable   bool // Recording.Durability is set
	bounded   bool // the bounds of files are set
	unsampled bool
}

// An Option is an option of [New], [NewSpanProcessor] and [Resolve], and of entrace.Setup.
type Option interface {
	apply(*Settings)
	// SetupOption marks what entrace.Setup takes.
	SetupOption()
}

type option func(*Settings)

func (o option) apply(c *Settings) { o(c) }

// SetupOption implements Option.
func (option) SetupOption() {}

// WithRecorder makes spans go to r, which stays the caller's to close.
func WithRecorder(r *recorder.Recorder) Option { return option(func(c *Settings) { c.Recorder = r }) }

// WithPath sets the file, with {service}, {pid} and {time} in it expanded, as
// OTEL_EXPORTER_ENTRACE_PATH does; "none" and "-" are no file. It has no effect
// beside WithRecorder.
func WithPath(path string) Option { return option(func(c *Settings) { c.Path = path }) }

// WithFormat sets what there is after Shutdown: [format.ET] or [format.IET].
func WithFormat(f format.StorageFormat) Option {
	return option(func(c *Settings) { c.Recording.Format = format.Some(f) })
}

// WithVersion sets the disk version.
func WithVersion(v format.Version) Option {
	return option(func(c *Settings) { c.Recording.Version = v })
}

// WithDurability sets what records survive.
func WithDurability(d recorder.Durability) Option {
	return option(func(c *Settings) { c.Recording.Durability, c.durable = d, true })
}

// WithRotation begins a new file when the growing one has so many bytes or is so
// old, and keeps so many finished ones of this service in the folder; zero is no bound. See
// [recorder.Options].
func WithRotation(maxSize int64, maxAge time.Duration, keep int) Option {
	return option(func(c *Settings) {
		c.Recording.MaxFileSize, c.Recording.MaxFileAge, c.Recording.KeepFiles = maxSize, maxAge, keep
		c.bounded = true
	})
}

// WithKeepBytes keeps finished files of this service in the folder of so many bytes together.
// With WithRotation and without WithKeepBytes there is no such bound.
func WithKeepBytes(n int64) Option { return option(func(c *Settings) { c.Recording.KeepBytes = n }) }

// WithWaiting bounds the spans that wait for their parents in number, bytes and
// time; zero leaves the default. See [recorder.Options].
func WithWaiting(spans, size int, age time.Duration) Option {
	return option(func(c *Settings) {
		c.Recording.MaxWaitingSpans, c.Recording.MaxWaitingBytes, c.Recording.MaxWaitingAge = spans, size, age
	})
}

// WithUnsampled makes a [SpanProcessor] take spans, too, that are recorded but
// not sampled.
func WithUnsampled() Option { return option(func(c *Settings) { c.unsampled = true }) }

// WithFlight records for a flight recorder: to its ring, live, and those spans, too, that
// are recorded but not sampled. What is about files has no effect then. It stays the
// caller's to shut down. [New] takes ended spans to the ring.
func WithFlight(f Flight) Option { return option(func(c *Settings) { c.Flight = f }) }

// Resolve applies options, and reads the environment where they are silent, unless they
// name a recorder. What is wrong with a variable is told on the console.
func Resolve(options ...Option) *Settings {
	s := new(Settings)
	for _, o := range options {
		o.apply(s)
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

// recorder returns the recorder to use and whether it was opened here. The mode is that of
// the caller.
func (s *Settings) recorder(mode string) (*recorder.Recorder, bool, error) {
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
	r, err := s.Open(res)
	return r, err == nil, err
}

// noFile reports whether a path says that there is to be no file.
func noFile(path string) bool { return path == "-" || strings.EqualFold(path, "none") }

// Resource returns the resource of this process: what r says, which may be nil, then what
// the environment says now, then the SDK's defaults. With an error it is usable all the
// same.
func Resource(r *resource.Resource) (*resource.Resource, error) {
	if r == nil {
		return resource.Merge(resource.Default(), resource.Environment())
	}
	// The SDK itself reads the environment for its defaults but once.
	environment, err := resource.Merge(resource.Environment(), r)
	if environment == nil {
		environment = r
	}
	// Without its schema, which need not be that of r.
	full, merr := resource.Merge(resource.NewSchemaless(resource.Default().Attributes()...), environment)
	return full, errors.Join(err, merr)
}

// RecordResource records r as the resource of spans is: log records of the same process can
// go below it.
func RecordResource(rec *recorder.Recorder, r *resource.Resource) (*recorder.Resource, error) {
	return rec.Resource(resourceEntry(r))
}
