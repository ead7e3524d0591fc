package entrace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/filesource"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/file/crashtext"
	"github.com/entrace-go/entrace/internal/file/env"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/internal/write/flightrecorder"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/setup"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

// A recording is the destination of spans and log records. It holds a recorder, the resource, and everything that is
// closed together with the recorder.
type recording struct {
	recorder *recorder.Recorder
	owned    bool             // this package opened the recorder
	closed   bool             // close has been called
	control  *control.Control // nil: no flight recorder
	ours     bool             // this package made the control
	resource *resource.Resource
	process  []attribute.KeyValue // attributes that are added to resources when they are recorded
	crash    *crashtext.Output    // nil: no crash output was set
}

// open opens the recording. If that fails, it returns the error and a recording that drops
// everything.
func (c *config) open() (*recording, error) {
	r := new(recording)
	var err error
	r.resource, err = setup.Resource(c.resource)
	if err != nil {
		notice.Error(fmt.Errorf("entrace: detect the resource: %w", err)) // the resource is usable nevertheless
	}
	r.process = setup.Process(!c.noArguments)
	failed := c.openRecorder(r)
	if failed != nil {
		r.recorder = recorder.Discard()
	}
	r.keepCrashText(!c.noCrash)
	// Record the resource now, because log records may come before the first span.
	if _, err := setup.RecordResource(r.recorder, r.resource, r.process); err != nil {
		notice.Error(err)
	}
	return r, failed
}

// keepCrashText makes the runtime write the text of a fatal panic to a file in the folder of the
// IET. A flight recorder does this itself.
func (r *recording) keepCrashText(wanted bool) {
	if !r.owned || !wanted || r.recorder.StreamPath() == "" {
		return
	}
	name := r.recorder.StreamPath() + crashtext.Ext
	_ = os.Remove(name) // a file of an earlier process; the path now belongs to this process
	var err error
	r.crash, err = crashtext.Open(name)
	if err != nil {
		notice.Error(fmt.Errorf("the text of a panic will not be saved: %w", err))
	}
}

func (c *config) openRecorder(r *recording) (err error) {
	s := setup.Resolve(c.recording...)
	r.control, r.ours = c.controlled(s, serviceName(r.resource))
	if r.control != nil && !c.noCrash {
		labelCrashes()
	}
	switch {
	case r.control != nil:
		if r.ours {
			notice.Info(fmt.Sprintf("a flight recorder is on: it writes a trace to %s when a trigger fires", r.control.Config().Dir))
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
		s.Recording.Tee, err = c.sender()
		if err != nil {
			return err
		}
	}
	r.recorder, err = s.Open(r.resource)
	r.owned = err == nil
	return err
}

// options returns the options for exporters and processors that write to r.
func (r *recording) options(c *config) []exporter.Option {
	o := slices.Concat(c.recording, []exporter.Option{exporter.WithRecorder(r.recorder), setup.WithProcess(r.process)})
	if r.control != nil {
		o = append(o, setup.WithFlight(flightrecorder.Of(r.control)))
	}
	return o
}

func serviceName(r *resource.Resource) string {
	v, _ := r.Set().Value(semconv.ServiceNameKey)
	return v.String()
}

// close ends the recording. The parameter finish says whether ctx was still running when the
// shutdown began. If so, close finishes the file even if ctx is done by now.
func (r *recording) close(ctx context.Context, finish bool) (err error) {
	if r.ours { // remove the ring, because a remaining ring looks like the ring of a crashed process
		if ctx.Err() == nil {
			err = r.control.Shutdown(ctx)
		} else {
			err = errors.Join(withGrace(ctx, r.control.Shutdown), ctx.Err())
		}
	}
	switch {
	case !r.owned:
	case r.closed:
		err = errors.Join(err, inside.Of(r.recorder).FinishLeft(ctx))
	case finish && ctx.Err() != nil: // exporters used up the time of ctx
		err = errors.Join(err, withGrace(ctx, r.recorder.Close))
	default:
		err = errors.Join(err, r.recorder.Close(ctx))
	}
	r.crash.Close()
	r.closed, r.crash = true, nil
	return err
}

// endpointEnvironment sets the endpoint and the token from the environment if no option
// did.
func (c *config) endpointEnvironment() {
	if s, ok := env.Lookup(envToken); ok && c.sending.Token == "" {
		c.sending.Token = s
	}
	if s, ok := env.Lookup(envEndpoint); ok && c.endpoint == "" {
		// Make a sender only to check the endpoint and report an error. The method c.sender makes
		// the sender that sends.
		if _, err := remote.NewSender(s, &c.sending); err != nil {
			notice.Error(fmt.Errorf("entrace: %s is ignored: %w", envEndpoint, err))
			return
		}
		c.endpoint = s
	}
}

// sender returns a Tee that sends to the endpoint, or nil if there is no endpoint.
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

// defaultTraces is the default folder of the traces of a flight recorder.
const defaultTraces = "{service}-traces"

// controlled returns the flight recorder to use, or nil if the program has none. The result ours
// says whether controlled made the flight recorder.
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
	if v, ok := env.Lookup(envExecTrace); ok {
		is, err := strconv.ParseBool(v)
		on = on || is || err != nil // an invalid value is reported when the flight recorder reads it
	}
	if !on && !file || strings.EqualFold(mode, "off") || s.Recorder != nil || s.Refused != nil {
		return nil, false
	}
	dir := filepath.Clean(env.Expand(defaultTraces, service))
	o := &control.Options{
		Source: control.Env(envControl, dir, notice.Error), Providers: provider.All(), Service: service, OnTrace: wrote, OnCrash: saved,
		Version: s.Recording.Version, BufferDir: s.Recording.BufferDir, Redact: s.Recording.Redact, OnError: func(err error) { notice.Error(fmt.Errorf("entrace: %w", err)) },
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
		// Without the flight recorder, the program still gets an ordinary recording.
		notice.Error(fmt.Errorf("entrace: start the flight recorder: %w; recording to a file instead", err))
		return nil, false
	}
	return ctl, true
}

// wrote prints a notice about a trace that a flight recorder wrote.
func wrote(t *control.Trace) {
	if t.Verdict() != control.VerdictStarted || t.Path() == "" {
		return
	}
	notice.Info(fmt.Sprintf("wrote %s: %s", t.Path(), cmp.Or(t.Request.Reason, string(t.Request.Trigger))))
}

// saved prints a notice about the trace of a process that died.
func saved(c *tracedir.Result) {
	notice.Info(fmt.Sprintf("recovered %s from process %d, which ended at %s: %s",
		c.Output, c.PID, c.Time.UTC().Format(time.RFC3339), cmp.Or(c.Reason, "killed, or os.Exit")))
}

// mustBeLive reports two settings that have no effect with a flight recorder: mode batch and an
// endpoint.
func (c *config) mustBeLive() {
	if c.mode == ModeBatch {
		env.ReportValue(envMode, string(c.mode), errors.New("a flight recorder always uses mode live"))
	}
	if c.endpoint != "" {
		env.ReportValue(envEndpoint, c.endpoint, errors.New("a flight recorder does not send to an endpoint"))
	}
}
