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
	minTraceBytes     = 1 << 20
	defaultTraceBytes = 16 << 20
	maxTraceBytes     = 48 << 20 // an entry can have 64 MiB at most
)

// An execTrace is the provider of the runtime's execution trace. The runtime's flight recorder holds the
// latest part of the trace in memory. A process can have one such flight recorder at a time: if other code
// runs one, start returns an error with "already in use".
type execTrace struct {
	mu sync.Mutex

	recorder *trace.FlightRecorder // nil: not running
	most     int                   // maximum size of a trace in bytes
}

func (x *execTrace) provider() control.Provider {
	return control.Provider{Provides: control.ExecTrace, Start: x.start, Stop: x.stop, Dump: x.dump}
}

// start starts the runtime's flight recorder. The package documentation describes the parameters.
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
		size, err = strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("exec.trace.max_bytes: %w", err)
		}
	}
	if text := s.Params["exec.trace.marks"]; text != "" && text != "on" && text != "off" {
		return fmt.Errorf("exec.trace.marks is %q: must be on or off", text)
	}
	size = min(max(size, minTraceBytes), maxTraceBytes)
	r := trace.NewFlightRecorder(trace.FlightRecorderConfig{MinAge: age, MaxBytes: uint64(size)})
	if err := r.Start(); err != nil {
		// The runtime has no error value for a running flight recorder.
		if strings.Contains(err.Error(), "already enabled") {
			return fmt.Errorf("the flight recorder of runtime/trace is already in use: %w", err)
		}
		return fmt.Errorf("start the flight recorder of runtime/trace: %w", err)
	}
	x.recorder, x.most = r, size
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

// dump writes an entry with the last generations of the trace. If the flight recorder does not run, dump
// returns an error.
func (x *execTrace) dump(ctx context.Context, s *control.Session) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s.On&control.ExecTrace == 0 {
		return nil
	}
	if x.recorder == nil {
		return errors.New("the flight recorder of runtime/trace is not running")
	}
	now := time.Now()
	w := newGenerations(ctx, x.most)
	if _, err := x.recorder.WriteTo(w); err != nil {
		return fmt.Errorf("read the flight recorder of runtime/trace: %w", err)
	}
	e := format.TraceEntry{Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace", Level: format.LevelDebug}}
	e.Message = format.Some("execution trace")
	data := w.trace()
	e.Attributes = []format.Attribute{u64("bytes", uint64(len(data)))}
	if w.lost > 0 {
		e.Attributes = append(e.Attributes, u64("left_out_bytes", w.lost))
	}
	if data == nil {
		e.Message = format.Some("execution trace too large to keep")
	} else {
		e.Add("data", format.BytesValue(data))
	}
	return s.Write(control.ExecTrace, format.SpanRef{}, now, &e)
}
