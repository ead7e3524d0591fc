package control

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/control/internal/traces"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/redact"
)

// Options configure a [Control]. Config or Source is required.
type Options struct {
	Config *Config
	Source Source
	// Providers record in addition to the span processor and the slog handler, which always record. Package
	// provider has implementations.
	Providers []Provider
	// Service names the process in its crash trace.
	Service string
	// Version is the disk version of the traces. The default is
	// [format.DefaultVersion].
	Version format.Version
	// BufferDir is the folder for the ring, as in [recorder.Options]. By default the ring is in shared memory if
	// shared memory survives the process, and is smaller if memory is short. Otherwise the ring is in the folder of
	// the traces.
	BufferDir string
	// Redact says which values are secrets, as in [recorder.Options].
	Redact *redact.Policy
	// OnError, if set, is called with errors: for example, a configuration is invalid, a trace could not be
	// written, or the ring has no file. OnError and OnTrace are called one at a time, on a goroutine of their own.
	// If 64 calls are waiting, further calls are dropped. The functions may call all methods of the control except
	// Shutdown.
	OnError func(error)
	// OnTrace, if set, is called when a trace ends. If the verdict of the trace is VerdictUnfinished, OnTrace is
	// called again when the trace is finished.
	OnTrace func(*Trace)
	// OnCrash, if set, is called when [New] has made a trace from the ring of a process that died. It is called in
	// the same way as OnTrace.
	OnCrash func(*tracedir.Result)
}

// maxStreams is the maximum number of running streams.
const maxStreams = 4

// maxQueue is the maximum number of requests that wait for the writer goroutine, and of waiting callbacks.
const maxQueue = 64

// A Control decides which requests become traces, and writes the traces. Its Recorder records to its ring.
// The methods of a nil Control do nothing, and requests are denied.
//
// Decisions are made on the goroutine of the caller, under a mutex that is never held while a file is used or while a
// provider, a dumper or a callback runs. Slow work has its own goroutines. The first goroutine, the writer, begins,
// writes and ends traces, one after the other. A second goroutine starts and stops providers, a third writes the note
// of the ring, and a fourth calls OnError, OnTrace and OnCrash.
//
// A Control is safe for concurrent use.
type Control struct {
	on     atomic.Uint64 // the providers that are on, for a check without a lock
	o      Options
	dir    *traces.Folder
	ring   *ring.Ring
	crash  *crashtext.Output
	began  time.Time
	rules  atomic.Pointer[rules]
	closed atomic.Bool
	ending atomic.Bool // Shutdown has been called
	stop   func()      // ends Source.Watch

	callbacks worker    // calls OnError, OnTrace and OnCrash
	notes     *repeater // writes the note of the ring
	verdicts  verdicts

	listeners
	configuring
	feeding
	deciding
	writing
}

// listeners holds the state of the triggers.
type listeners struct {
	signals  signals
	watchdog watchdog
	panics   lastPanic
}

// samePanic is the period in which panics with the same text count as one panic. One panic is reported several
// times: by each span that it ends, by CapturePanic, and by the server's log record.
const samePanic = 2 * time.Second

// A lastPanic holds the panic that was reported most recently.
type lastPanic struct {
	mu   sync.Mutex
	text string
	at   time.Time
}

// first reports whether a panic is new. A panic is not new if the last panic has the same text and was reported less
// than samePanic ago. The result only says that no other panic was reported within samePanic.
func (l *lastPanic) first(text string, now time.Time) (first, only bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	only = l.at.IsZero() || now.Sub(l.at) >= samePanic
	if l.text == text && !only {
		return false, false
	}
	l.text, l.at = text, now
	return true, only
}

// configuring is the state of SetConfig.
type configuring struct {
	applying sync.Mutex // locked before all other mutexes

	over bool // Shutdown has begun: no configuration can be set and no trace can begin; writers also hold deciding.mu
}

// feeding is the state of the code that calls providers.
type feeding struct {
	switches *repeater // starts and stops providers
	provided Set       // all providers: the span processor, the slog handler and the members

	calling sync.Mutex // held while a provider is called; locked before deciding.mu

	members []*member
}

// deciding is the state of the decisions whether a request becomes a trace.
type deciding struct {
	mu sync.Mutex // never held while a file is used or a provider or callback runs

	running []*Trace // streams that were requested and whose end is not queued yet
	fed     []*Trace // streams that providers write to
	limits  map[string]*limit
	account Stats // counters, and the members that failed
	started Set   // the members that run
}

// writing is the state of the goroutine that writes traces.
type writing struct {
	writer     worker
	slots      chan struct{} // a semaphore: holds one element for each request that waits for the writer
	unfinished unfinishedTraces
	ended      error // the errors of the streams that Shutdown ended
}

// unfinishedTraces holds the traces that are still IETs.
type unfinishedTraces struct {
	traces []*Trace
	wait   time.Duration // time between the last attempt to finish the traces and the next attempt
	next   time.Time     // time of the next attempt
}

// report calls OnError with an error that does not stop the control.
func (c *Control) report(err error) {
	if c.o.OnError != nil && err != nil {
		c.callbacks.offer(func() { c.o.OnError(err) })
	}
}

// Recorder returns the recorder of the ring, for the span processor and the slog handler. The recorder of a
// nil Control drops all records.
func (c *Control) Recorder() *recorder.Recorder {
	if c == nil {
		return recorder.Discard()
	}
	return c.ring.Recorder()
}

// Enabled reports whether at least one provider in s is on. It costs one atomic load.
func (c *Control) Enabled(s Set) bool { return c != nil && c.on.Load()&uint64(s) != 0 }

// Config returns the current configuration.
func (c *Control) Config() *Config {
	if c == nil {
		return nil
	}
	return c.rules.Load().cfg
}

// Dir returns the folder of the traces.
func (c *Control) Dir() string {
	if c == nil {
		return ""
	}
	return c.dir.Dir()
}

// Stats returns the current statistics.
func (c *Control) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	s, on := c.account, c.started
	s.Off = maps.Clone(s.Off)
	c.mu.Unlock()
	s.Config, s.Verdicts = c.Config().ID, c.verdicts.copy()
	for _, p := range []Set{Spans, Logs} {
		if c.Enabled(p) {
			on |= p
		}
	}
	s.On = on.names()
	r, d := c.ring.Stats(), c.ring.Recorder().Stats()
	s.Ring.Bytes, s.Ring.Entries, s.Ring.Evicted, s.Ring.Dropped = r.Bytes, r.Entries, r.Evicted, d.Entries.Dropped.Total()
	s.Ring.From, s.Ring.Open = r.From, r.Open
	return s
}

// limitOf returns the limit of a kind of trace. The caller must hold mu.
func (c *Control) limitOf(tc *TraceConfig) *limit {
	l := c.limits[tc.Name]
	if l == nil {
		l = new(limit)
		c.limits[tc.Name] = l
	}
	return l
}
