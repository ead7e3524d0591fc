package control

import (
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
)

// rules is a configuration, prepared for matching requests.
type rules struct {
	cfg   *Config
	by    map[Trigger][]*rule // by trigger
	waits []atomic.Bool       // for each trace: whether a request of Fire waits for the writer
	// waitsManual is like waits, for manual requests of signals.
	waitsManual []atomic.Bool
	noticed     format.Level  // the lowest level of log records that a trigger may match
	slow        time.Duration // the shortest LongerThan of the trigger span
	stuck       time.Duration // the shortest LongerThan of the trigger watchdog
	signals     []string
	exits       bool // a trace has the trigger exit
	dumps       bool // a trace has the provider called "goroutines"
	marks       bool // spans write their ids to an execution trace
}

// A rule is an [On] of a trace.
type rule struct {
	On
	trace int

	mu sync.Mutex

	times []time.Time // times of matches during the last Within
	count int
}

// paramMarks is the parameter of package provider that controls whether spans write their ids to an execution
// trace.
const paramMarks = "exec.trace.marks"

const never = time.Duration(math.MaxInt64)

func compile(cfg *Config) *rules {
	f := &rules{
		cfg: cfg, by: make(map[Trigger][]*rule), waits: make([]atomic.Bool, len(cfg.Traces)), waitsManual: make([]atomic.Bool, len(cfg.Traces)),
		noticed: format.LevelError + 1, slow: never, stuck: never, marks: cfg.Ring.Params[paramMarks] != "off",
	}
	for i := range cfg.Traces {
		f.marks = f.marks && cfg.Traces[i].Params[paramMarks] != "off"
		f.dumps = f.dumps || cfg.Traces[i].Providers&Goroutines != 0
		for _, on := range cfg.Traces[i].On {
			f.by[on.Trigger] = append(f.by[on.Trigger], &rule{On: on, trace: i})
			switch on.Trigger {
			case TriggerLog:
				f.noticed = min(f.noticed, format.Level(mapping.Level(on.Level)))
			case TriggerSpan:
				f.slow = min(f.slow, on.LongerThan)
			case TriggerWatchdog:
				f.stuck = min(f.stuck, on.LongerThan)
			case TriggerSignal:
				f.signals = append(f.signals, on.signal())
			case TriggerExit:
				f.exits = true
			}
		}
	}
	slices.Sort(f.signals)
	f.signals = slices.Compact(f.signals)
	return f
}

func (o *On) signal() string {
	if o.Key == "" {
		return defaultSignal
	}
	return o.Key
}

const defaultSignal = "SIGUSR1"

// match returns the index of the first trace that r matches, or a verdict other than
// VerdictStarted.
func (f *rules) match(r *Request) (trace int, v Verdict) {
	v = VerdictNoConfig
	for _, on := range f.by[r.Trigger] {
		if !f.cfg.Traces[on.trace].requestedBy(r) || !on.matches(r) {
			continue
		}
		if r.Manual || on.enough(time.Now()) {
			return on.trace, VerdictStarted
		}
		v = VerdictNotEnough
	}
	return -1, v
}

// requestedBy reports whether t has the name and the mode of r. An empty name or mode matches every trace.
func (t *TraceConfig) requestedBy(r *Request) bool {
	return (r.Name == "" || r.Name == t.Name) && (r.Mode == "" || r.Mode == t.mode())
}

func (o *On) matches(r *Request) bool {
	switch o.Trigger {
	case TriggerSignal:
		return o.signal() == r.Key
	case TriggerLog:
		if r.Level < o.Level {
			return false
		}
	case TriggerSpan, TriggerWatchdog:
		if r.Took <= o.LongerThan {
			return false
		}
	}
	return o.Key == "" || wildcard(o.Key, r.Key)
}

// enough counts a match, and reports whether Count matches are reached. If so, it begins to count anew.
func (o *rule) enough(now time.Time) bool {
	if o.Count <= 1 {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.Within == 0 {
		o.count++
		if o.count < o.Count {
			return false
		}
		o.count = 0
		return true
	}
	o.times = slices.DeleteFunc(o.times, func(t time.Time) bool { return now.Sub(t) > o.Within })
	o.times = append(o.times, now)
	if len(o.times) < o.Count {
		return false
	}
	o.times = o.times[:0]
	return true
}

// wildcard reports whether s matches pattern, in which each "*" stands for any text.
func wildcard(pattern, s string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return s == pattern
	}
	if !strings.HasPrefix(s, head) {
		return false
	}
	s = s[len(head):]
	for {
		part, after, more := strings.Cut(rest, "*")
		if !more {
			return strings.HasSuffix(s, part)
		}
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s, rest = s[i+len(part):], after
	}
}

// A limit holds the counts of one kind of trace, for every, per_hour, one_in and keep_if.
type limit struct {
	asked int         // number of requests, for one_in
	last  time.Time   // the time of the last request that was allowed
	hour  []time.Time // the times of the allowed requests during the last hour
	ended map[int]int // number of ended traces by class, for keep_if
	fails int         // failures in a row
	until time.Time   // until this time, after a failure, rests may refuse requests
}

// failed sets a pause after a trace could not be written.
func (l *limit) failed(now time.Time) {
	l.fails = min(l.fails+1, 6)
	l.until = now.Add(time.Second << l.fails)
}

// rests reports whether r is refused because a trace failed a short time ago. The application may have
// logged the failure, and this log record may have caused r.
func (l *limit) rests(r *Request, now time.Time) bool {
	switch r.Trigger {
	case TriggerLog, TriggerSpan, TriggerWatchdog, TriggerPanic:
		return !r.Manual && now.Before(l.until)
	}
	return false
}

// allow counts a request for a trace and returns VerdictStarted if the limits in t allow it.
func (l *limit) allow(t *TraceConfig, now time.Time) Verdict {
	if t.Every > 0 && !l.last.IsZero() && now.Sub(l.last) < t.Every {
		return VerdictRateLimited
	}
	l.hour = slices.DeleteFunc(l.hour, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if t.PerHour > 0 && len(l.hour) >= t.PerHour {
		return VerdictRateLimited
	}
	l.asked++
	if t.OneIn > 1 && (l.asked-1)%t.OneIn != 0 {
		return VerdictSampledOut
	}
	l.last = now
	if t.PerHour > 0 {
		l.hour = append(l.hour, now)
	}
	return VerdictStarted
}
