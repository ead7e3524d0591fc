package control

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

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
func Env(prefix, dir string, ignored func(error)) Source { return env{prefix, dir, ignored} }

type env struct {
	prefix, dir string
	ignored     func(error)
}

func (e env) Watch(func(*Config, error)) (func(), error) { return func() {}, nil }

func (e env) get(name string) string { return strings.TrimSpace(os.Getenv(e.prefix + name)) }

// minAfter is the minimum time of a trigger. A shorter time is probably a mistake, for example a number of
// seconds without a unit.
const minAfter = 10 * time.Millisecond

func (e env) Config() (*Config, error) {
	c := DefaultConfig()
	c.ID, c.Dir = "environment", cmp.Or(e.get("_DIR"), e.dir)
	var errs []error
	bad := func(name string, err error) {
		if e.ignored != nil {
			e.ignored(fmt.Errorf("entrace: %s%s=%q is ignored: %w", e.prefix, name, e.get(name), err))
			return
		}
		errs = append(errs, fmt.Errorf("%s%s=%q: %w", e.prefix, name, e.get(name), err))
	}
	if s := e.get("_RING_BYTES"); s != "" {
		n, err := quantity.ParseBytes(s)
		if err == nil && n < minRingBytes {
			err = fmt.Errorf("must be at least %d bytes", minRingBytes)
		}
		if err != nil {
			bad("_RING_BYTES", err)
		} else {
			c.Ring.Bytes = n
		}
	}
	if s := e.get("_PROVIDERS"); s != "" {
		var names []string
		for name := range strings.SplitSeq(s, ",") {
			name = strings.TrimSpace(name)
			if name != "" {
				names = append(names, name)
			}
		}
		set, err := Named(names...)
		if err != nil {
			bad("_PROVIDERS", err)
		} else {
			c.Ring.Always = set &^ (Goroutines | CPUProfile)
		}
	}
	if s := e.get("_EXEC_TRACE"); s != "" {
		on, err := strconv.ParseBool(s)
		if err != nil {
			bad("_EXEC_TRACE", errors.New("must be 1 or 0"))
		}
		if on {
			c.Ring.Always |= ExecTrace
		}
	}
	after := func(name string, def time.Duration) time.Duration {
		s := e.get(name)
		switch strings.ToLower(s) {
		case "":
			return def
		case "off", "0":
			return 0
		}
		d, err := quantity.ParseTime(s)
		if err == nil && d < minAfter {
			err = fmt.Errorf("must be at least %v", minAfter)
			if n, nerr := strconv.Atoi(s); nerr == nil {
				err = fmt.Errorf("a number without a unit means milliseconds: %w; did you mean %ds?", err, n)
			}
		}
		if err != nil {
			bad(name, err)
			return def
		}
		return d
	}
	all := c.Ring.Always | Goroutines
	add := func(name string, window time.Duration, every time.Duration, on ...On) {
		perHour := 0
		if every >= time.Minute {
			perHour = 6
		}
		c.Traces = append(c.Traces, TraceConfig{Name: name, On: on, Window: window, Providers: all, Every: every, PerHour: perHour})
	}
	if w := after("_ON_ERROR", defaultWindow); w > 0 {
		add("error", w, time.Minute, On{Trigger: TriggerLog, Level: slog.LevelError})
	}
	if d := after("_ON_SLOW", 0); d > 0 {
		add("slow", defaultWindow, time.Minute, On{Trigger: TriggerSpan, LongerThan: d})
	}
	if d := after("_ON_HANG", 0); d > 0 {
		add("hang", defaultWindow, time.Minute, On{Trigger: TriggerWatchdog, LongerThan: d})
	}
	add("panic", defaultWindow, time.Minute, On{Trigger: TriggerPanic})
	add("snapshot", defaultWindow, 10*time.Second,
		On{Trigger: TriggerSignal}, On{Trigger: TriggerHTTP}, On{Trigger: TriggerAPI, Key: "snapshot"})
	c.Traces = append(c.Traces, TraceConfig{
		Name: "stream", Mode: ModeStream, Providers: all | CPUProfile, MaxBytes: 256 << 20,
		On: []On{{Trigger: TriggerHTTP}, {Trigger: TriggerAPI, Key: "stream"}},
	})
	switch mode := strings.ToLower(e.get("")); mode {
	case "", "ring":
	case "stream":
		c.Traces = append(c.Traces, TraceConfig{
			Name: "all", Mode: ModeStream, Providers: all, On: []On{{Trigger: TriggerStart}}, Timeout: math.MaxInt64 / 4,
		})
	default:
		bad("", errors.New("must be ring, stream or off; using ring"))
	}
	return c, errors.Join(errs...)
}
