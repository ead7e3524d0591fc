package control

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/text/quantity"
)

// Env returns a source that reads the environment variables that begin with prefix:
//
//	PREFIX             ring: snapshots of the ring;
//	                   stream: also a trace from the start of the process on
//	PREFIX_DIR         the folder; the default is dir
//	PREFIX_RING_BYTES  size of the ring; 32MiB
//	PREFIX_PROVIDERS   the providers; spans,logs,runtime.metrics,gc
//	PREFIX_EXEC_TRACE  1: the runtime's execution trace as well, with marks of spans; 0
//	PREFIX_ON_ERROR    how far back the trace goes that a log record of level ERROR
//	                   requests, once a minute and six times an hour at most; 30s; off: none
//	PREFIX_ON_SLOW     a span that takes longer requests a trace; off
//	PREFIX_ON_HANG     a span that is open for longer requests a trace; off
//
// A snapshot is also made for the signal SIGUSR1, for requests of the application with the key "snapshot",
// for requests over HTTP, and for panics: panics that end a span, panics in a handler of net/http, which
// logs them, and panics in [Control.CapturePanic]. Panics make at most one snapshot a minute and six an
// hour. A stream named "stream", with a CPU profile, can be requested over HTTP and by the application with
// the key "stream". Every snapshot has the goroutines.
//
// A size is in bytes or has a unit, such as 64MiB. A time is in milliseconds or has a unit, such as 5s, and
// is at least 10 ms. If a value is invalid, the function ignored is called with the error, and the default
// is used. If ignored is nil, Config returns the error instead.
func Env(prefix, dir string, ignored func(error)) Source { return environment{prefix, dir, ignored} }

type environment struct {
	prefix, dir string
	ignored     func(error)
}

func (e environment) Watch(func(*Config, error)) (func(), error) { return func() {}, nil }

func (e environment) Config() (*Config, error) {
	c := DefaultConfig()
	c.ID, c.Dir = "environment", e.dir
	var errs []error
	bad := func(name, value string, err error) {
		if e.ignored != nil {
			e.ignored(fmt.Errorf("entrace: %s=%q is ignored: %w", name, value, err))
			return
		}
		errs = append(errs, fmt.Errorf("%s=%q: %w", name, value, err))
	}
	var stream, execTrace bool
	var onSlow, onHang time.Duration
	onError := defaultWindow
	env.Value(e.prefix+"_DIR", &c.Dir, env.Text, bad)
	env.Value(e.prefix+"_RING_BYTES", &c.Ring.Bytes, parseRingBytes, bad)
	env.Value(e.prefix+"_PROVIDERS", &c.Ring.Always, parseProviders, bad)
	env.Value(e.prefix+"_EXEC_TRACE", &execTrace, parseExecTrace, bad)
	env.Value(e.prefix+"_ON_ERROR", &onError, parseAfter, bad)
	env.Value(e.prefix+"_ON_SLOW", &onSlow, parseAfter, bad)
	env.Value(e.prefix+"_ON_HANG", &onHang, parseAfter, bad)
	env.Value(e.prefix, &stream, parseStream, bad)
	if execTrace {
		c.Ring.Always |= ExecTrace
	}
	all := c.Ring.Always | Goroutines
	add := func(name string, window time.Duration, every time.Duration, on ...On) {
		perHour := 0
		if every >= time.Minute {
			perHour = 6
		}
		c.Traces = append(c.Traces, TraceConfig{Name: name, On: on, Window: window, Providers: all, Every: every, PerHour: perHour})
	}
	if onError > 0 {
		add("error", onError, time.Minute, On{Trigger: TriggerLog, Level: slog.LevelError})
	}
	if onSlow > 0 {
		add("slow", defaultWindow, time.Minute, On{Trigger: TriggerSpan, LongerThan: onSlow})
	}
	if onHang > 0 {
		add("hang", defaultWindow, time.Minute, On{Trigger: TriggerWatchdog, LongerThan: onHang})
	}
	add("panic", defaultWindow, time.Minute, On{Trigger: TriggerPanic})
	add("snapshot", defaultWindow, 10*time.Second,
		On{Trigger: TriggerSignal}, On{Trigger: TriggerHTTP}, On{Trigger: TriggerAPI, Key: "snapshot"})
	c.Traces = append(c.Traces, TraceConfig{
		Name: "stream", Mode: ModeStream, Providers: all | CPUProfile, MaxBytes: 256 << 20,
		On: []On{{Trigger: TriggerHTTP}, {Trigger: TriggerAPI, Key: "stream"}},
	})
	if stream {
		c.Traces = append(c.Traces, TraceConfig{
			Name: "all", Mode: ModeStream, Providers: all, On: []On{{Trigger: TriggerStart}}, Timeout: math.MaxInt64 / 4,
		})
	}
	return c, errors.Join(errs...)
}

func parseRingBytes(s string) (int64, error) {
	n, err := quantity.ParseBytes(s)
	if err == nil && n < minRingBytes {
		err = fmt.Errorf("must be at least %d bytes", minRingBytes)
	}
	return n, err
}

// parseProviders parses a list of the providers that always record.
func parseProviders(s string) (Set, error) {
	set, err := Named(env.List(s)...)
	return set &^ (Goroutines | CPUProfile), err
}

func parseExecTrace(s string) (bool, error) {
	on, err := strconv.ParseBool(s)
	if err != nil {
		err = errors.New("must be 1 or 0")
	}
	return on, err
}

// minAfter is the minimum time of a trigger. A shorter time is probably a mistake, for example a number of
// seconds without a unit.
const minAfter = 10 * time.Millisecond

// parseAfter parses the time of a trigger; 0 or off: no trigger.
func parseAfter(s string) (time.Duration, error) {
	if s == "0" || strings.EqualFold(s, "off") {
		return 0, nil
	}
	d, err := quantity.ParseTime(s)
	if err == nil && d < minAfter {
		err = fmt.Errorf("must be at least %v", minAfter)
		if n, nerr := strconv.Atoi(s); nerr == nil {
			err = fmt.Errorf("a number without a unit means milliseconds: %w; did you mean %ds?", err, n)
		}
	}
	return d, err
}

// parseStream reports whether the mode asks for a stream of everything.
func parseStream(mode string) (bool, error) {
	switch strings.ToLower(mode) {
	case "ring":
		return false, nil
	case "stream":
		return true, nil
	}
	return false, errors.New("must be ring, stream or off; using ring")
}
