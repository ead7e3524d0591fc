package exporter

import (
	"github.com/entrace-go/entrace/internal/setup"
	"github.com/entrace-go/entrace/recorder"
)

// An Option is an option of [New] and [NewSpanProcessor], and of entrace.Setup. Only this module
// makes them.
type Option interface{ Apply(*setup.Settings) }

// WithRecorder makes spans go to r, which stays the caller's to close.
func WithRecorder(r *recorder.Recorder) Option {
	return setup.Option(func(s *setup.Settings) { s.Recorder = r })
}

// WithPath sets the file, with {service}, {pid} and {time} in it expanded, as
// OTEL_EXPORTER_ENTRACE_PATH does; "none" and "-" are no file. It has no effect
// beside WithRecorder.
func WithPath(path string) Option {
	return setup.Option(func(s *setup.Settings) { s.Path = path })
}

// WithRecorderOptions sets how the file is recorded. The environment decides what o leaves at
// zero, but for MaxFileSize, MaxFileAge, KeepFiles and KeepBytes: if one of the first three is set, a
// zero of the others is no bound. It has no effect beside WithRecorder.
func WithRecorderOptions(o recorder.Options) Option {
	return setup.Option(func(s *setup.Settings) { s.Recording = o })
}

// WithUnsampled makes a [SpanProcessor] take spans as well that are recorded but
// not sampled.
func WithUnsampled() Option {
	return setup.Option(func(s *setup.Settings) { s.Unsampled = true })
}
