package control_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/control/tracedir"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/slogadapter"
)

// The acceptance tests of package control. They use its public functions, the SDK, slog, files, signals and
// other processes. They take longer if tests soak.

const (
	childEnv = "ENTRACE_TEST_CHILD" // the task of a child process
	dirEnv   = "ENTRACE_TEST_DIR"   // the folder of the child process
	ciEnv    = "ENTRACE_CI"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		if err := child(what, os.Getenv(dirEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

var must = expect.Must

// patience is how long a test waits for an event that must happen.
const patience = 60 * time.Second

var eventually = tracetest.Eventually

// A rig is a control with a pipeline, a tracer and a logger, like a program that uses it.
type rig struct {
	t      testing.TB
	ctl    *control.Control
	p      *entrace.Pipeline
	tracer trace.Tracer
	log    *slog.Logger

	mu       sync.Mutex
	finished []*control.Trace
	errs     []error
}

// options returns o with callbacks that collect the finished traces and the errors in the rig.
func (r *rig) options(o control.Options) *control.Options {
	if o.Providers == nil {
		o.Providers = provider.All()
	}
	o.OnError = func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.errs = append(r.errs, err)
	}
	o.OnTrace = func(t *control.Trace) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.finished = append(r.finished, t)
	}
	return &o
}

// newRig returns a rig with the options o. It is shut down when the test ends.
func newRig(t testing.TB, o control.Options) *rig {
	t.Helper()
	r := &rig{t: t}
	var err error
	r.ctl, err = control.New(r.options(o))
	must(t, err)
	r.p, err = entrace.Setup(context.Background(), entrace.WithControl(r.ctl), entrace.WithoutGlobals(),
		entrace.WithSampler(sdktrace.NeverSample())) // the recorder gets all spans nevertheless
	must(t, err)
	r.tracer = r.p.TracerProvider().Tracer("accept")
	r.log = slog.New(slogadapter.New(r.p.Recorder(), &slogadapter.Options{Level: slog.LevelDebug}))
	t.Cleanup(r.end)
	return r
}

// rigOf returns a rig with only a configuration.
func rigOf(t testing.TB, cfg *control.Config) *rig {
	t.Helper()
	return newRig(t, control.Options{Config: cfg})
}

// end shuts the rig down. It can be called twice.
func (r *rig) end() {
	r.t.Helper()
	expect.OK(r.t, errors.Join(r.p.Shutdown(context.Background()), r.ctl.Shutdown(context.Background())))
}

// traces returns the traces that are finished and kept.
func (r *rig) traces() []*control.Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.finished), func(t *control.Trace) bool { return t.Verdict() != control.VerdictStarted })
}

func (r *rig) errors() []error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.errs)
}

// quiet shuts the rig down, and reports an error of the test for each error that the control has reported.
// Afterwards, the control reports no more.
func (r *rig) quiet() {
	r.t.Helper()
	r.end()
	for _, err := range r.errors() {
		r.t.Errorf("reported: %v", err)
	}
}

// wait waits until n traces are finished. More traces are an error.
func (r *rig) wait(n int) []*control.Trace {
	r.t.Helper()
	eventually(r.t, fmt.Sprint(n, " traces"), func() bool { return len(r.traces()) >= n })
	expect.MustEqual(r.t, len(r.traces()), n, "traces")
	return r.traces()
}

// last waits until n traces are finished, and returns the last one.
func (r *rig) last(n int) *walked {
	r.t.Helper()
	return everyLink(r.t, r.wait(n)[n-1].Path())
}

func (r *rig) start(q control.Request) *control.Trace {
	r.t.Helper()
	t, err := r.ctl.Start(context.Background(), q)
	must(r.t, err)
	return t
}

// stop ends the streams that were requested by q, waits until their files are finished, and reports whether
// there were any.
func (r *rig) stop(q control.Request) bool {
	was := r.ctl.Running()
	ended := r.ctl.Stop(q)
	now := r.ctl.Running()
	for _, t := range was {
		if !slices.Contains(now, t) {
			<-t.Done()
		}
	}
	return ended
}

// verdict requests a trace and returns the verdict.
func (r *rig) verdict(q control.Request) control.Verdict {
	r.t.Helper()
	_, err := r.ctl.Start(context.Background(), q)
	if err == nil {
		return control.VerdictStarted
	}
	d, ok := errors.AsType[*control.DeniedError](err)
	if !ok {
		r.t.Fatalf("Start returned %v, want a *DeniedError", err)
	}
	return d.Verdict
}

// api returns a request of the application.
func api(key string) control.Request { return control.Request{Trigger: control.TriggerAPI, Key: key} }

// base returns a configuration with a ring on the heap and the given traces.
func base(dir string, always control.Set, traces ...control.TraceConfig) *control.Config {
	return &control.Config{
		ID: "accept-1", Dir: dir, Ring: control.RingConfig{Bytes: 4 << 20, Always: always}, Traces: traces,
	}
}

func onAPI(key string) []control.On { return []control.On{{Trigger: control.TriggerAPI, Key: key}} }

// traceFiles returns the paths of the finished traces in a folder, sorted by name.
func traceFiles(t testing.TB, dir string) (paths []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range list {
		if filepath.Ext(e.Name()) == ".et" && e.Name()[0] != '.' {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

// onlyTraces reports an error of the test for each file in the folder that is not a finished trace.
func onlyTraces(t testing.TB, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != dir && (filepath.Ext(path) != ".et" || e.Name()[0] == '.') {
			t.Errorf("%s was left over", path)
		}
		return err
	}))
}

// A found holds the arguments with which tracedir.Recover has called the callback for a ring.
type found struct {
	tracedir.Result

	Err error
}

// recovered calls tracedir.Recover. It returns the results for rings, and the names of the traces that were
// made from streams.
func recovered(dir string) (rings []found, finished []string, err error) {
	var errs []error
	err = tracedir.Recover(context.Background(), dir, func(r *tracedir.Result, err error) {
		switch {
		case r == nil:
			errs = append(errs, err)
		case r.Ring:
			rings = append(rings, found{*r, err})
		default:
			errs = append(errs, err)
			finished = append(finished, filepath.Base(r.Output))
		}
	})
	return rings, finished, errors.Join(append(errs, err)...)
}

// crashTraces returns the paths of the traces of processes that died.
func crashTraces(t testing.TB, dir string) []string {
	return slices.DeleteFunc(traceFiles(t, dir), func(path string) bool { return !strings.HasSuffix(path, "-crash.et") })
}

// messages returns how often each message occurs in the trace.
func (w *walked) messages() map[string]int {
	out := make(map[string]int)
	for i := range w.entries {
		if w.entries[i].Message.Valid {
			out[w.entries[i].Message.Value]++
		}
	}
	return out
}

// named returns the ids of the entries with the given name.
func (w *walked) named(name string) (ids []uint32) {
	for i := range w.entries {
		if w.entries[i].Metadata.Name == name {
			ids = append(ids, uint32(i))
		}
	}
	return ids
}

func (w *walked) one(name string) uint32 {
	w.t.Helper()
	ids := w.named(name)
	if len(ids) != 1 {
		w.t.Fatalf("%s has %d entries named %q, want 1", w.name, len(ids), name)
	}
	return ids[0]
}

// attr returns an attribute as text, "" if the entry does not have it.
func (w *walked) attr(id uint32, name string) string { return attrText(&w.entries[id], name) }

func attrText(e *format.TraceEntry, name string) string {
	v, ok := e.Attribute(name)
	if !ok {
		return ""
	}
	switch v.Kind() {
	case format.KindString, format.KindBytes:
		return v.Text()
	case format.KindBool:
		return fmt.Sprint(v.Bool())
	}
	return string(v.AppendDecimal(nil))
}

// number returns the value of an attribute, which must be a number.
func (w *walked) number(id uint32, name string) int64 {
	w.t.Helper()
	v, ok := w.entries[id].Attribute(name)
	n, is := v.I64()
	if !ok || !is {
		w.t.Fatalf("%s: entry %d has no number %s", w.name, id, name)
	}
	return n
}

func start(t testing.TB, o *control.Options) *control.Control {
	t.Helper()
	ctl, err := control.New(o)
	must(t, err)
	t.Cleanup(func() { must(t, ctl.Shutdown(context.Background())) })
	return ctl
}

func ask(key string) control.Request {
	return control.Request{Trigger: control.TriggerAPI, Key: key, Manual: true}
}

// within stops the test if fn does not return in time.
func within(t testing.TB, what string, fn func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s does not return", what)
	}
}

// A gate blocks the goroutines that enter it, until the channel opened is closed.
type gate struct{ entered, opened chan struct{} }

func newGate() gate { return gate{make(chan struct{}, 64), make(chan struct{})} }

func (g gate) enter() error {
	g.entered <- struct{}{}
	<-g.opened
	return nil
}

// dumper returns a provider whose Dump blocks.
func (g gate) dumper() control.Provider {
	return control.Provider{Provides: hostileBit, Dump: func(context.Context, *control.Session) error { return g.enter() }}
}
