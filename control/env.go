package control

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// Env returns a source of what the environment says, in variables that begin with
// prefix:
//
//	PREFIX             ring: snapshots of what is recorded all the time;
//	                   stream: a trace from the start of the process on as well
//	PREFIX_DIR         the folder; the default is dir
//	PREFIX_RING_BYTES  size of the ring; 67108864
//	PREFIX_PROVIDERS   what is recorded; spans,logs,runtime.metrics,gc
//	PREFIX_ON_ERROR    how far back the trace goes that the first log record of
//	                   level ERROR asks for, once a minute and six times an hour at most; 30s, off: none
//	PREFIX_ON_SLOW     a span that takes longer asks for a trace; off
//	PREFIX_ON_HANG     a span that is open for longer asks for a trace; off
//
// Snapshots are taken, too, when the signal SIGUSR1 comes, the application asks by
// the key "snapshot" or over HTTP, or [Control.CapturePanic] meets a panic; over HTTP a
// stream can be had, named "stream", with a profile of the processor. What there is
// once stays out of what is recorded all the time: the goroutines are in every
// snapshot.
func Env(prefix, dir string) Source { return env{prefix, dir} }

type env struct{ prefix, dir string }

func (e env) Watch(func(*Config, error)) (func(), error) { return func() {}, nil }

func (e env) get(name string) string { return strings.TrimSpace(os.Getenv(e.prefix + name)) }

// EnvID is the id of the configuration that Env makes.
const EnvID = "environment"

func (e env) Config() (*Config, error) {
	c := &Config{
		ID: EnvID, Dir: cmp.Or(e.get("_DIR"), e.dir), Keep: Keep{Files: 50, Bytes: 2 << 30},
		Ring: RingConfig{Bytes: 32 << 20, Persist: true, Always: Spans | Logs | RuntimeMetrics | GC},
	}
	var errs []error
	bad := func(name string, err error) {
		errs = append(errs, fmt.Errorf("%s%s=%q: %w", e.prefix, name, e.get(name), err))
	}
	if s := e.get("_RING_BYTES"); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		if err == nil && n < MinRingBytes {
			err = fmt.Errorf("must be at least %d", MinRingBytes)
		}
		if err != nil {
			bad("_RING_BYTES", err)
		}
		c.Ring.Bytes = n
	}
	if s := e.get("_PROVIDERS"); s != "" {
		var names []string
		for name := range strings.SplitSeq(s, ",") {
			if name = strings.TrimSpace(name); name != "" {
				names = append(names, name)
			}
		}
		set, err := Named(names...)
		if err != nil {
			bad("_PROVIDERS", err)
		}
		c.Ring.Always = set &^ (Goroutines | CPUProfile)
	}
	after := func(name string, def time.Duration) time.Duration {
		s := e.get(name)
		switch s {
		case "":
			return def
		case "off", "0":
			return 0
		}
		d, err := time.ParseDuration(s)
		if err == nil && d <= 0 {
			err = errors.New("must be above 0")
		}
		if err != nil {
			bad(name, err)
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
	if w := after("_ON_ERROR", DefaultWindow); w > 0 {
		add("error", w, time.Minute, On{Trigger: TriggerLog, Level: 8})
	}
	if d := after("_ON_SLOW", 0); d > 0 {
		add("slow", DefaultWindow, time.Minute, On{Trigger: TriggerSpan, LongerThan: d})
	}
	if d := after("_ON_HANG", 0); d > 0 {
		add("hang", DefaultWindow, time.Minute, On{Trigger: TriggerWatchdog, LongerThan: d})
	}
	add("panic", DefaultWindow, time.Minute, On{Trigger: TriggerPanic})
	add("snapshot", DefaultWindow, 10*time.Second,
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
		bad("", errors.New("neither ring nor stream"))
	}
	return c, errors.Join(errs...)
}
