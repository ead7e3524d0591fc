package exporter

import (
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/recorder"
)

// An Option is an option of the New functions of this package and of entrace.Setup. Only this
// module can make Options.
type Option interface{ setup.Sealed }

// WithRecorder makes the exporter or processor record to r. The caller has to close r.
func WithRecorder(r *recorder.Recorder) Option {
	return setup.Option(func(s *setup.Settings) { s.Recorder = r })
}

// WithPath sets the path of the file, as OTEL_EXPORTER_ENTRACE_PATH does: {service}, {pid} and
// {time} are expanded, and "none" or "-" means no file. WithPath has no effect if WithRecorder is
// given.
func WithPath(path string) Option {
	return setup.Option(func(s *setup.Settings) { s.Path = path })
}

// WithRecorderOptions sets the options of the file's recorder. A zero field of o gets its value
// from the environment, with one exception: if MaxFileSize, MaxFileAge or KeepFiles is set, a zero
// in another of these fields or in KeepBytes means no bound. WithRecorderOptions has no effect if
// WithRecorder is given.
func WithRecorderOptions(o recorder.Options) Option {
	return setup.Option(func(s *setup.Settings) { s.Recording = o })
}

// WithUnsampled makes a [SpanProcessor] also record spans that are recording but not sampled.
func WithUnsampled() Option {
	return setup.Option(func(s *setup.Settings) { s.Unsampled = true })
}
