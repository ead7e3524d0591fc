package provider

import (
	"context"
	"errors"
	"fmt"
	"runtime/trace"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

const (
	// maxTrace is the size in bytes above which an execution trace is not kept: an entry can have at
	// most 64 MiB.
	maxTrace = 48 << 20

	minTraceBytes     = 1 << 20
	defaultTraceBytes = 16 << 20
	maxTraceBytes     = 64 << 20
)

// An execTrace provides the runtime's execution trace. The runtime's flight recorder keeps a window
// of it in memory. A process can have one such flight recorder at a time: if other code runs one,
// start returns an error with "already in use".
type execTrace struct {
	mu sync.Mutex

	recorder *trace.FlightRecorder // nil: not running
	most     int                   // the maximum size of a trace in bytes; 0: maxTrace
}

func (x *execTrace) provider() control.Provider {
	return control.Provider{Provides: control.ExecTrace, Start: x.start, Stop: x.stop, Dump: x.dump}
}

// start starts the runtime's flight recorder with the parameters that the package's documentation
// lists.
func (x *execTrace) start(s *control.Session) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.recorder != nil {
		return errRunning
	}
	age, err := duration(s, "exec.trace.min_age", 10*time.Second, 100*time.Millisecond)
	if err != nil {
		return err
	}
	size := defaultTraceBytes
	if text := s.Params["exec.trace.max_bytes"]; text != "" {
		if size, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("exec.trace.max_bytes: %w", err)
		}
	}
	size = min(max(size, minTraceBytes), maxTraceBytes)
	r := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: age, MaxBytes: uint64(size)})
	if err := r.Start(); err != nil {
		// The runtime has no error value for this case.
		if strings.Contains(err.Error(), "already enabled") {
			return fmt.Errorf("flight recorder already in use: %w", err)
		}
		return fmt.Errorf("start flight recorder: %w", err)
	}
	x.recorder = r
	return nil
}

// stop stops the flight recorder. It writes nothing.
func (x *execTrace) stop() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.recorder != nil {
		x.recorder.Stop()
		x.recorder = nil
	}
	return nil
}

// dump writes an entry with the trace in the flight recorder. It returns an error if the flight
// recorder does not run.
func (x *execTrace) dump(ctx context.Context, s *control.Session) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.On&control.ExecTrace == 0 {
		return nil
	}
	if x.recorder == nil {
		return errors.New("the flight recorder is not running")
	}
	now := time.Now()
	w := &limited{ctx: ctx, most: x.most}
	if w.most == 0 {
		w.most = maxTrace
	}
	if _, err := x.recorder.WriteTo(w); err != nil {
		return fmt.Errorf("read flight recorder: %w", err)
	}
	e := format.TraceEntry{Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace", Level: format.LevelDebug}}
	e.Message = format.Some("execution trace")
	e.Attributes = []format.Attribute{u64("bytes", w.written)}
	if w.over() {
		e.Message = format.Some("execution trace too large to keep")
	} else {
		e.Attributes = append(e.Attributes, format.Attribute{Name: "data", Value: format.BytesValue(w.data)})
	}
	return s.Write(control.ExecTrace, format.SpanRef{}, now, &e)
}
