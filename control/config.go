package control

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/internal/retain"
)

// A Config says which requests become traces and what the traces contain. Do not
// change it once a [Control] has it: a trace keeps the one that it began with.
type Config struct {
	// ID names the configuration in the traces. It must not be empty.
	ID string
	// Dir is the folder of the traces. It is made, for the user alone, if it does not exist.
	// It cannot change while the process runs.
	Dir string
	// Keep bounds the traces in Dir.
	Keep Keep
	// Ring is about the providers that record all the time.
	Ring RingConfig
	// Traces are the kinds of traces. A request becomes the first one that matches.
	Traces []TraceConfig
}

// Keep bounds the traces in a folder. Beyond a bound the oldest traces are removed first,
// and those that somebody asked for by hand last. Zero is no bound.
//
// A trace that was finished just now always stays. The age of a trace of this process
// counts from its end, by the monotonic clock. Any other trace dates from its name or
// its last change, whichever is earlier, and is too old only if both are. A trace that
// is dated more than five minutes in the future is the first to be removed. Traces that
// are [VerdictUnfinished] are not counted and not removed.
type Keep struct {
	Files int
	Bytes int64
	Age   time.Duration
}

// A RingConfig has the providers that record all the time, and the memory that they use again and again.
type RingConfig struct {
	// Bytes is the size of the ring, 4 MiB at least, or 0 for no ring. Like Persist it cannot change while the
	// process runs.
	Bytes int64
	// Persist keeps the ring in a file, which the next start finds after a crash together with
	// the last words of the runtime: see
	// [debug.SetCrashOutput], which takes one file for a process.
	Persist bool
	// Always are the providers that record all the time. Those of the snapshots in Traces do so as well.
	Always Set
	// Params are the parameters of the providers that run all the time.
	Params map[string]string
}

// A Mode says which records a trace has.
type Mode string

// The modes.
const (
	ModeSnapshot Mode = "snapshot" // the records in the ring, which records on
	ModeStream   Mode = "stream"   // the records from now on
)

// The values of [TraceConfig.Scope].
const (
	scopeAll   = "all"
	scopeTrace = "trace"
)

// A TraceConfig is one kind of trace.
type TraceConfig struct {
	// Name is in the file's name: letters, digits, "-", "_" and ".", up to 64.
	Name string
	// On has the requests that the trace is for.
	On []On
	// Mode is [ModeSnapshot] if empty.
	Mode Mode
	// Window is how far back a snapshot goes. The default is 30 s.
	Window time.Duration
	// Scope says what of a snapshot is kept: "all", which is the default, or "trace", the spans and log
	// records of the OpenTelemetry trace that made the request alone, and everything else.
	Scope string
	// Providers record to the trace.
	Providers Set
	// Every is the shortest time between two traces, PerHour the largest number of traces in an
	// hour, and with OneIn one request of so many becomes a trace. Zero is no limit. Requests that are
	// Manual are not limited.
	Every   time.Duration
	PerHour int
	OneIn   int
	// A stream ends after Timeout, and when its entries have MaxBytes. The defaults are
	// 30 s and no bound. A stream that was asked for by hand has no timeout unless
	// the request has one.
	Timeout  time.Duration
	MaxBytes int64
	// KeepIf decides at the end whether a stream is kept. Nil keeps it.
	KeepIf *KeepIf
	// Params are the parameters of the providers, by PROVIDER.NAME.
	Params map[string]string
}

// A Trigger names a source of requests.
type Trigger string

// The triggers that an [On] can name.
const (
	TriggerAPI      Trigger = "api"      // Start and Fire
	TriggerSignal   Trigger = "signal"   // key: the signal's name, such as SIGUSR1
	TriggerHTTP     Trigger = "http"     // package httpapi
	TriggerLog      Trigger = "log"      // a log record; key: its message
	TriggerSpan     Trigger = "span"     // a span that has ended; key: its name
	TriggerWatchdog Trigger = "watchdog" // a span that is still open; key: its name
	TriggerPanic    Trigger = "panic"    // CapturePanic, a span that ends by a panic, net/http's log of one; key: the value of the panic
	TriggerStart    Trigger = "start"    // the start of the process
	TriggerExit     Trigger = "exit"     // its end, Shutdown
)

var triggers = []Trigger{
	TriggerAPI, TriggerSignal, TriggerHTTP, TriggerLog, TriggerSpan, TriggerWatchdog, TriggerPanic, TriggerStart, TriggerExit,
}

// An On matches requests.
type On struct {
	Trigger Trigger
	// Key is a pattern for the request's key, in which "*" stands for any text.
	// Empty is everything.
	Key string
	// Level is the lowest level of a log record.
	Level slog.Level
	// LongerThan is the time that a span must have taken, or been open.
	LongerThan time.Duration
	// With Count so many requests match once, if they come within Within. Without Within the count
	// never expires.
	Count  int
	Within time.Duration
}

// KeepIf decides whether a stream that has ended is kept. With Any one of these attributes, and with
// All each of them, must be on some span or log record of the trace. Then the highest bound in Longest
// that the longest span of the trace exceeds says how many traces are kept. Of the other traces one in
// Else is kept, none with an Else of 0.
type KeepIf struct {
	Longest  []KeepLongest
	Any, All []string // "name=value"
	Else     int
}

// A KeepLongest keeps one in OneIn traces with a span longer than LongerThan.
type KeepLongest struct {
	LongerThan time.Duration
	OneIn      int // 0 or 1: all
}

// minRingBytes is the size of the smallest ring.
const minRingBytes = 4 << 20

// The defaults of a [TraceConfig].
const (
	defaultWindow  = 30 * time.Second
	defaultTimeout = 30 * time.Second
)

// DefaultConfig returns the defaults of [Env] and of files: 50 files of 2 GiB in all, and a persistent ring of 32 MiB that has spans, logs, runtime.metrics and gc. It has no ID, Dir
// or Traces.
func DefaultConfig() *Config {
	return &Config{
		Keep: Keep{Files: retain.DefaultFiles, Bytes: retain.DefaultBytes},
		Ring: RingConfig{Bytes: 32 << 20, Persist: true, Always: Spans | Logs | RuntimeMetrics | GC},
	}
}

// A FieldError says why a field of a configuration is wrong.
type FieldError struct {
	Path string // as in "traces[1].on[0].key"
	Err  error
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Validate returns a [*FieldError] for each field of c that is wrong, joined with errors.Join, in
// the order of the fields.
func (c *Config) Validate() error {
	v := &validator{}
	v.check(c.ID != "", "id", "must not be empty")
	v.check(c.Dir != "", "dir", "must not be empty")
	v.negative("keep.files", int64(c.Keep.Files))
	v.negative("keep.bytes", c.Keep.Bytes)
	v.negative("keep.age", int64(c.Keep.Age))
	v.check(c.Ring.Bytes == 0 || c.Ring.Bytes >= minRingBytes, "ring.bytes", fmt.Sprintf("must be 0 or at least %d", minRingBytes))
	v.check(c.Ring.Bytes <= math.MaxInt/4 && c.Ring.Bytes <= 1<<40, "ring.bytes", "is too much")
	v.check(c.Ring.Always&(CPUProfile|Goroutines) == 0, "ring.always",
		"cpu.profile is for streams and goroutines for the traces that name it: neither is of a moment")
	names := make(map[string]bool)
	for i := range c.Traces {
		t := &c.Traces[i]
		at := fmt.Sprintf("traces[%d]", i)
		v.trace(at, t)
		v.check(!names[t.Name], at+".name", fmt.Sprintf("%q comes twice", t.Name))
		names[t.Name] = true
		v.check(t.mode() != ModeSnapshot || c.Ring.Bytes > 0, at+".mode", "a snapshot needs a ring: ring.bytes is 0")
	}
	return errors.Join(v.errs...)
}

type validator struct{ errs []error }

func (v *validator) check(ok bool, path, problem string) {
	if !ok {
		v.errs = append(v.errs, &FieldError{path, errors.New(problem)})
	}
}

func (v *validator) negative(path string, n int64) { v.check(n >= 0, path, "must not be negative") }

func (v *validator) trace(at string, t *TraceConfig) {
	if err := traces.CheckName(t.Name); err != nil {
		v.errs = append(v.errs, &FieldError{at + ".name", err})
	}
	for i := range t.On {
		v.on(fmt.Sprintf("%s.on[%d]", at, i), &t.On[i])
	}
	switch t.mode() {
	case ModeSnapshot:
		v.check(t.Providers&CPUProfile == 0, at+".providers", "cpu.profile is for streams: it has no times to look back to")
		v.check(t.Timeout == 0, at+".timeout", "is for streams")
		v.check(t.MaxBytes == 0, at+".max_bytes", "is for streams")
	case ModeStream:
		v.check(t.Window == 0, at+".window", "is for snapshots")
		v.check(t.Scope == "" || t.Scope == scopeAll, at+".scope", "is for snapshots")
	default:
		v.check(false, at+".mode", fmt.Sprintf("%q is neither snapshot nor stream", t.Mode))
	}
	v.check(t.Scope == "" || t.Scope == scopeAll || t.Scope == scopeTrace, at+".scope", fmt.Sprintf("%q is neither all nor trace", t.Scope))
	v.check(t.Providers != 0, at+".providers", "must name at least one")
	v.negative(at+".window", int64(t.Window))
	v.negative(at+".every", int64(t.Every))
	v.negative(at+".per_hour", int64(t.PerHour))
	v.negative(at+".one_in", int64(t.OneIn))
	v.negative(at+".timeout", int64(t.Timeout))
	v.negative(at+".max_bytes", t.MaxBytes)
	v.keepIf(at+".keep_if", t.KeepIf)
}

func (v *validator) on(at string, o *On) {
	v.check(slices.Contains(triggers, o.Trigger), at+".trigger",
		fmt.Sprintf("unknown trigger %q: there are %s", o.Trigger, strings.Trim(strings.ReplaceAll(fmt.Sprint(triggers), " ", ", "), "[]")))
	timed := o.Trigger == TriggerSpan || o.Trigger == TriggerWatchdog
	v.check(!timed || o.LongerThan > 0, at+".longer_than", "must be above 0 for a "+string(o.Trigger))
	v.check(timed || o.LongerThan == 0, at+".longer_than", "is for span and watchdog")
	v.check(o.Level == 0 || o.Trigger == TriggerLog, at+".level", "is for log")
	v.check(o.Count >= 0 && o.Count <= maxCount, at+".count", fmt.Sprintf("must be from 0 to %d", maxCount))
	v.negative(at+".within", int64(o.Within))
	if o.Trigger == TriggerSignal && o.Key != "" {
		_, known := signalNamed(o.Key)
		v.check(known, at+".key", fmt.Sprintf("%q is no signal that may ask for a trace here", o.Key))
	}
}

const maxCount = 10_000

func (v *validator) keepIf(at string, k *KeepIf) {
	if k == nil {
		return
	}
	for i, l := range k.Longest {
		v.negative(fmt.Sprintf("%s.longest[%d].longer_than", at, i), int64(l.LongerThan))
		v.negative(fmt.Sprintf("%s.longest[%d].one_in", at, i), int64(l.OneIn))
	}
	for _, list := range []struct {
		key    string
		values []string
	}{{"any", k.Any}, {"all", k.All}} {
		for i, s := range list.values {
			v.check(strings.Index(s, "=") > 0, fmt.Sprintf("%s.%s[%d]", at, list.key, i), fmt.Sprintf("%q is not name=value", s))
		}
	}
	v.negative(at+".else", int64(k.Else))
}

func (t *TraceConfig) mode() Mode { return cmp.Or(t.Mode, ModeSnapshot) }

// observed returns the providers whose records the triggers see.
func (c *Config) observed() (s Set) {
	for i := range c.Traces {
		for _, on := range c.Traces[i].On {
			switch on.Trigger {
			case TriggerLog:
				s |= Logs
			case TriggerSpan, TriggerWatchdog:
				s |= Spans
			}
		}
	}
	return s
}

// inRing returns the providers whose records the ring keeps.
func (c *Config) inRing() Set {
	if c.Ring.Bytes == 0 {
		return 0
	}
	s := c.Ring.Always
	for i := range c.Traces {
		if c.Traces[i].mode() == ModeSnapshot {
			s |= c.Traces[i].Providers
		}
	}
	return s &^ (Goroutines | CPUProfile)
}
