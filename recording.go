package entrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/filesource"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/crashtext"
	"github.com/entrace-go/entrace/internal/env"
	"github.com/entrace-go/entrace/internal/notice"
	"github.com/entrace-go/entrace/internal/selfmetrics"
	"github.com/entrace-go/entrace/internal/setup"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// A recording is where spans and log records go.
type recording struct {
	recorder *recorder.Recorder
	owned    bool             // the recorder was opened here
	control  *control.Control // nil: none
	ours     bool             // the control was made here
	resource *resource.Resource
	account  *selfmetrics.Account // nil: off
	crash    *crashtext.Output    // nil: none
}

// open opens what spans and log records go to. With an error it drops them.
func (c *config) open() (*recording, error) {
	r := new(recording)
	var err error
	if r.resource, err = setup.Resource(c.resource); err != nil {
		notice.Error(fmt.Errorf("entrace: resource: %w", err)) // it is usable all the same
	}
	failed := c.openRecorder(r)
	if failed != nil {
		r.recorder = recorder.Discard()
	}
	r.keepCrashText(!c.noCrash)
	r.account = selfmetrics.Observe(r.recorder) // also when there are only logs
	// Logs before the first span find the resource already.
	if _, err := setup.RecordResource(r.recorder, r.resource); err != nil {
		notice.Error(err)
	}
	return r, failed
}

// keepCrashText has the runtime write to a file beside the growing one why the process dies,
// if it does. A flight recorder does so itself.
func (r *recording) keepCrashText(wanted bool) {
	if !r.owned || !wanted || r.recorder.StreamPath() == "" {
		return
	}
	name := r.recorder.StreamPath() + crashtext.Ext
	_ = os.Remove(name) // the path is this process's now
	var err error
	if r.crash, err = crashtext.Open(name); err != nil {
		notice.Error(fmt.Errorf("a panic will leave no text: %w", err))
	}
}

func (c *config) openRecorder(r *recording) (err error) {
	s := setup.Resolve(c.recording...)
	r.control, r.ours = c.controlled(s, serviceName(r.resource))
	switch {
	case r.control != nil:
		if r.ours {
			notice.Info(fmt.Sprintf("a flight recorder is on: a file appears in %s when something asks for it", r.control.Config().Dir))
		}
		withoutEffect()
		c.endpointEnvironment()
		c.mustBeLive()
		r.recorder = r.control.Recorder()
		return nil
	case s.Recorder != nil:
		r.recorder = s.Recorder
		return nil
	}
	if s.Recording.Tee == nil {
		if s.Recording.Tee, err = c.sender(); err != nil {
			return err
		}
	}
	r.recorder, err = s.Open(r.resource)
	r.owned = err == nil
	return err
}

// options returns those for what writes to r.
func (r *recording) options(c *config) []exporter.Option {
	o := slices.Concat(c.recording, []exporter.Option{exporter.WithRecorder(r.recorder)})
	if r.control != nil {
		o = append(o, setup.WithFlight(r.control.Flight()))
	}
	return o
}

func serviceName(r *resource.Resource) string {
	v, _ := r.Set().Value(semconv.ServiceNameKey)
	return v.String()
}

// close ends the recording. Finish says that ctx was not done when the end began.
func (r *recording) close(ctx context.Context, finish bool) (err error) {
	if r.ours { // a ring that stays would be taken for that of a crash
		late, cancel := lingering(ctx)
		err = errors.Join(r.control.Shutdown(late), ctx.Err())
		cancel()
	}
	switch {
	case !r.owned:
	case finish && ctx.Err() != nil: // others have used it up
		err = errors.Join(err, withGrace(ctx, r.recorder.Close))
	default:
		err = errors.Join(err, r.recorder.Close(ctx))
	}
	r.crash.Close()
	return errors.Join(err, r.account.Close(ctx))
}

// endpointEnvironment sets where to send to, if options left that open.
func (c *config) endpointEnvironment() {
	if s, ok := env.Lookup(envToken); ok && c.sending.Token == "" {
		c.sending.Token = s
	}
	if s, ok := env.Lookup(envEndpoint); ok && c.endpoint == "" {
		// The error is made here for its text, the sender where it is needed.
		if _, err := remote.NewSender(s, &c.sending); err != nil {
			notice.Error(fmt.Errorf("entrace: %s is ignored: %w", envEndpoint, err))
			return
		}
		c.endpoint = s
	}
}

// sender returns what sends to the endpoint, nil if there is none.
func (c *config) sender() (recorder.Tee, error) {
	c.endpointEnvironment()
	if c.endpoint == "" {
		return nil, nil
	}
	o := c.sending
	if o.OnError == nil {
		o.OnError = notice.Error
	}
	return remote.NewSender(c.endpoint, &o)
}

// defaultTraces is the folder of the traces of a control.
const defaultTraces = "{service}-traces"

// controlled returns the control to use, nil for none, and whether it was made here.
func (c *config) controlled(s *setup.Settings, service string) (ctl *control.Control, ours bool) {
	if c.control != nil {
		return c.control, false
	}
	mode, on := env.Lookup(envControl)
	path, file := env.Lookup(envControlConfig)
	for _, trigger := range []string{envOnError, envOnSlow, envOnHang} {
		v, ok := env.Lookup(trigger)
		on = on || ok && !strings.EqualFold(v, "off") && v != "0"
	}
	if !on && !file || strings.EqualFold(mode, "off") || s.Recorder != nil {
		return nil, false
	}
	dir := filepath.Clean(env.Expand(defaultTraces, service))
	o := &control.Options{
		Source: control.Env(envControl, dir, notice.Error), Providers: provider.All(), Service: service, OnTrace: wrote, OnCrash: saved,
		Version: s.Recording.Version, BufferDir: s.Recording.BufferDir, OnError: func(err error) { notice.Error(fmt.Errorf("entrace: %w", err)) },
	}
	if file {
		def := control.DefaultConfig()
		def.Dir = dir
		withFile := *o
		withFile.Source = filesource.New(path, &filesource.Options{Defaults: def})
		ctl, err := control.New(&withFile)
		if err == nil {
			return ctl, true
		}
		env.ReportValue(envControlConfig, path, err)
	}
	ctl, err := control.New(o)
	if err != nil {
		// A flight recorder that cannot be had costs no more than itself.
		notice.Error(fmt.Errorf("entrace: there is no flight recorder, a file is recorded instead: %w", err))
		return nil, false
	}
	return ctl, true
}

// wrote tells of a trace that a flight recorder has made.
func wrote(t *control.Trace) {
	if t.Verdict() != control.VerdictStarted || t.Path() == "" {
		return
	}
	why := t.Request.Reason
	if why == "" {
		why = string(t.Request.Trigger)
	}
	notice.Info(fmt.Sprintf("wrote %s: %s", t.Path(), why))
}

// saved tells of the trace of a process that died.
func saved(c *tracedir.Result) {
	why := c.Reason
	if why == "" {
		why = "killed, or os.Exit"
	}
	notice.Info(fmt.Sprintf("made %s of what process %d has left, which ended at %s: %s", c.Output, c.PID, c.Time.UTC().Format(time.RFC3339), why))
}

// mustBeLive tells of what a control leaves no room for.
func (c *config) mustBeLive() {
	if c.mode == ModeBatch {
		env.ReportValue(envMode, string(c.mode), errors.New("a control records live"))
	}
	if c.endpoint != "" {
		env.ReportValue(envEndpoint, c.endpoint, errors.New("a control sends nothing"))
	}
}
