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
	"github.com/entrace-go/entrace/internal/file/retain"
)

// A Config says which requests become traces and what the traces contain. Do not change a Config
// that a [Control] uses: a trace keeps the Config that it began with.
//
// The comment at the end of a field's line, here and in the types of the fields, is the text of its key in the
// documentation of package filesource.
type Config struct {
	// ID names the configuration in the traces. It must not be empty.
	ID string // the configuration's name; default: sha256: and 12 hexadecimal digits of the file's hash
	// Dir is the folder of the traces. If it does not exist, it is created with the mode 0700. It cannot
	// change while the process runs.
	Dir  string // the folder of the traces
	Keep Keep   // limits for the traces in dir
	// Ring configures the ring and the providers that always record.
	Ring RingConfig // the memory to which records are always written
	// Traces are the kinds of traces. A request becomes a trace of the first kind that matches.
	Traces []TraceConfig // the kinds of traces: see control.TraceConfig
}

// Keep bounds the traces in a folder. If a bound is exceeded, the oldest traces are removed. Traces that were
// requested manually are removed only after all other traces. Zero means no bound.
//
// Traces that were just finished are never removed. The age of a trace of this process counts from the end of the
// trace, by the monotonic clock. The date of a trace of another process is the earlier of two times: the time in its
// name and the time of its last change. A trace of another process is too old only if both times are too old. A trace
// whose date is more than five minutes in the future is removed first. Traces that are [VerdictUnfinished] are not
// counted and not removed.
type Keep struct {
	Files int           // default 50; 0: no bound
	Bytes int64         // default 2GiB; 0: no bound
	Age   time.Duration // default 0: no bound
}

// A RingConfig configures the ring and the providers that always record to it.
type RingConfig struct {
	// Bytes is the size of the ring, at least 4 MiB, or 0 for no ring. Bytes and Persist cannot change
	// while the process runs.
	Bytes int64 // default 32MiB; 0: no ring
	// Persist keeps the ring in a file. After a crash, the next start converts the file to a trace, together with
	// the crash text of the runtime: see [debug.SetCrashOutput], which supports only one file per process.
	Persist bool // default true: the ring survives a crash
	// Always has the providers that always record. The providers of snapshots in Traces always record as
	// well.
	Always Set // default [spans, logs, runtime.metrics, gc]
	// Params are the parameters of the providers that always record.
	Params map[string]string // of the providers
}

// A Mode determines which records are in a trace.
type Mode string

// The modes.
const (
	ModeSnapshot Mode = "snapshot" // the records that are in the ring
	ModeStream   Mode = "stream"   // the records from now on
)

// The values of [TraceConfig.Scope].
const (
	scopeAll   = "all"
	scopeTrace = "trace"
)

// A TraceConfig configures the traces of one kind.
type TraceConfig struct {
	// Name is a part of the file name. It has at most 64 letters, digits, "-", "_" and ".".
	Name string // a part of the file name
	On   []On   // the requests that become such a trace
	// Mode is [ModeSnapshot] if empty.
	Mode Mode // snapshot (default) or stream
	// Window is how far back a snapshot goes. The default is 30 s.
	Window time.Duration // how far back a snapshot goes; default 30s
	// Scope selects the spans and log records of a snapshot. "all", the default, selects all spans and log records.
	// "trace" selects only the spans and log records of the requesting OpenTelemetry trace. The records of other
	// providers are always in the snapshot.
	Scope string // the content of a snapshot: all (default) or trace
	// Providers has the providers whose records are in the trace.
	Providers Set // whose records are in the trace
	// Every is the minimum time between two traces. PerHour is the maximum number of traces in an hour.
	// OneIn means that one of OneIn requests becomes a trace. Zero means no limit. Manual requests are not
	// limited.
	Every   time.Duration // the minimum between two traces; default 0: no limit
	PerHour int           // the maximum of traces in an hour; default 0: no limit
	OneIn   int           // one in this number of requests becomes a trace; default 0: no limit
	// A stream ends after Timeout, or when its entries reach MaxBytes. The defaults are 30 s and no limit. A
	// stream that was requested manually has no timeout unless the request has one.
	Timeout  time.Duration // after which a stream ends; default 30s
	MaxBytes int64         // at which a stream ends; default 0: no bound
	KeepIf   *KeepIf       // whether a stream is kept after its end; default: kept
	// Params are the parameters of the providers. Their keys are PROVIDER.NAME.
	Params map[string]string // of the providers
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
	TriggerPanic    Trigger = "panic"    // a panic in CapturePanic, a span or a net/http handler; key: its value
	TriggerStart    Trigger = "start"    // the start of the process
	TriggerExit     Trigger = "exit"     // the end of the process: Shutdown
)

var triggers = []Trigger{
	TriggerAPI, TriggerSignal, TriggerHTTP, TriggerLog, TriggerSpan, TriggerWatchdog, TriggerPanic, TriggerStart, TriggerExit,
}

// An On matches requests.
type On struct {
	Trigger Trigger // api, signal, http, log, span, watchdog, panic, start, exit
	// Key is a pattern for the key of the request, in which "*" matches any text. An empty pattern matches every
	// key.
	Key   string     // a pattern, in which "*" matches any text
	Level slog.Level // the lowest level of a log record, for log
	// LongerThan is the minimum time that a span took or has been open.
	LongerThan time.Duration // for span and watchdog
	// Count means that only every Count-th matching request counts as a match, if the last Count matching requests
	// were made within the time Within. Zero means every request. If Within is zero, there is no time limit.
	Count  int           // only every count-th request
	Within time.Duration // for count: the last count requests must be within this time
}

// KeepIf decides whether a stream that has ended is kept. It has three conditions. An empty condition is met.
//
//   - Any: a span or log record of the trace has at least one of these attributes.
//   - All: for each of these attributes, a span or log record of the trace has it.
//   - Longest: the longest span of the trace exceeds one of these bounds.
//
// If all three conditions are met, the highest bound that the longest span exceeds says which share of the traces is
// kept; if Longest is empty, all traces are kept. If a condition is not met, one in Else traces is kept, or no trace
// if Else is 0.
type KeepIf struct {
	Longest []KeepLongest // bounds; the highest one that the longest span exceeds applies
	Any     []string      // of "name=value"; the trace must have at least one of them
	All     []string      // of "name=value"; the trace must have all of them
	Else    int           // one in this number of the other streams is kept; default 0: none
}

// A KeepLongest keeps one in OneIn of the traces with a span longer than LongerThan.
type KeepLongest struct {
	LongerThan time.Duration // of the longest span
	OneIn      int           // one in this number of traces is kept; 0 or 1: all
}

// minRingBytes is the minimum size of a ring.
const minRingBytes = 4 << 20

// The defaults of a [TraceConfig].
const (
	defaultWindow  = 30 * time.Second
	defaultTimeout = 30 * time.Second
)

// DefaultConfig returns the defaults of [Env] and of configuration files: at most 50 traces with at most 2 GiB
// in total, and a persistent ring of 32 MiB with the providers spans, logs, runtime.metrics and gc. ID, Dir and
// Traces are empty.
func DefaultConfig() *Config {
	return &Config{
		Keep: Keep{Files: retain.DefaultFiles, Bytes: retain.DefaultBytes},
		Ring: RingConfig{Bytes: 32 << 20, Persist: true, Always: Spans | Logs | RuntimeMetrics | GC},
	}
}

// A FieldError is the error of a field of a configuration.
type FieldError struct {
	Path string // as in "traces[1].on[0].key"
	Err  error
}

func (e *FieldError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *FieldError) Unwrap() error { return e.Err }

// Validate returns a [*FieldError] for each invalid field of c. The errors are joined with errors.Join, in the
// order of the fields.
func (c *Config) Validate() error {
	v := &validator{}
	v.check(c.ID != "", "id", "must not be empty")
	v.check(c.Dir != "", "dir", "must not be empty")
	v.negative("keep.files", int64(c.Keep.Files))
	v.negative("keep.bytes", c.Keep.Bytes)
	v.negative("keep.age", int64(c.Keep.Age))
	v.check(c.Ring.Bytes == 0 || c.Ring.Bytes >= minRingBytes, "ring.bytes", fmt.Sprintf("must be 0, or at least %d bytes", minRingBytes))
	v.check(c.Ring.Bytes <= math.MaxInt/4 && c.Ring.Bytes <= 1<<40, "ring.bytes", "is too large")
	v.check(c.Ring.Always&(CPUProfile|Goroutines) == 0, "ring.always",
		"must not contain cpu.profile (only for streams) or goroutines (only for the providers of a trace)")
	names := make(map[string]bool)
	for i := range c.Traces {
		t := &c.Traces[i]
		at := fmt.Sprintf("traces[%d]", i)
		v.trace(at, t)
		v.check(!names[t.Name], at+".name", fmt.Sprintf("%q is used twice", t.Name))
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
		v.check(t.Providers&CPUProfile == 0, at+".providers", "must not contain cpu.profile, which is for streams")
		v.check(t.Timeout == 0, at+".timeout", "is only for streams")
		v.check(t.MaxBytes == 0, at+".max_bytes", "is only for streams")
	case ModeStream:
		v.check(t.Window == 0, at+".window", "is only for snapshots")
		v.check(t.Scope == "" || t.Scope == scopeAll, at+".scope", "is only for snapshots")
	default:
		v.check(false, at+".mode", fmt.Sprintf("must be snapshot or stream, not %q", t.Mode))
	}
	v.check(t.Scope == "" || t.Scope == scopeAll || t.Scope == scopeTrace, at+".scope", fmt.Sprintf("must be all or trace, not %q", t.Scope))
	v.check(t.Providers != 0, at+".providers", "must name at least one provider")
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
		fmt.Sprintf("unknown trigger %q: known triggers are %s", o.Trigger, strings.Trim(strings.ReplaceAll(fmt.Sprint(triggers), " ", ", "), "[]")))
	timed := o.Trigger == TriggerSpan || o.Trigger == TriggerWatchdog
	v.check(!timed || o.LongerThan > 0, at+".longer_than", "must be above 0 for the trigger "+string(o.Trigger))
	v.check(timed || o.LongerThan == 0, at+".longer_than", "is only for the triggers span and watchdog")
	v.check(o.Level == 0 || o.Trigger == TriggerLog, at+".level", "is only for the trigger log")
	v.check(o.Count >= 0 && o.Count <= maxCount, at+".count", fmt.Sprintf("must be from 0 to %d", maxCount))
	v.negative(at+".within", int64(o.Within))
	if o.Trigger == TriggerSignal && o.Key != "" {
		_, known := signalNamed(o.Key)
		v.check(known, at+".key", fmt.Sprintf("%q is not a signal that can start a trace on this system", o.Key))
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
			v.check(strings.Index(s, "=") > 0, fmt.Sprintf("%s.%s[%d]", at, list.key, i), fmt.Sprintf("must be name=value, not %q", s))
		}
	}
	v.negative(at+".else", int64(k.Else))
}

func (t *TraceConfig) mode() Mode { return cmp.Or(t.Mode, ModeSnapshot) }

// observed returns the providers whose records can cause requests.
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

// inRing returns the providers whose records the ring holds.
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
