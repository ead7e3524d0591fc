package control_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/filesource"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// A configFile is the file of a configuration that changes during a test.
type configFile struct {
	t    testing.TB
	path string
	dir  string // the folder of the traces
}

func newConfigFile(t testing.TB) *configFile {
	return &configFile{t: t, path: hosttest.Path(t, "control.yaml"), dir: t.TempDir()}
}

func (f *configFile) source() control.Source {
	return filesource.New(f.path, &filesource.Options{Poll: 100 * time.Millisecond, Debounce: time.Millisecond})
}

// write replaces the file by a configuration with the given id and lines. The rename is atomic, so that the
// control never reads a part of a configuration.
func (f *configFile) write(id, traces string) {
	f.t.Helper()
	text := fmt.Sprintf("id: %s\ndir: %s\nring: {bytes: 4MiB, persist: false, always: [logs]}\n%s", id, f.dir, traces)
	next := f.path + ".next"
	must(f.t, os.WriteFile(next, []byte(text), 0o600))
	must(f.t, osfile.RenameOver(next, f.path)) // Windows does not rename over a file that is being read
}

// change writes a configuration and waits until the control uses it.
func (f *configFile) change(c *control.Control, id, traces string) {
	f.t.Helper()
	f.write(id, traces)
	eventually(f.t, "configuration "+id+" is in force", func() bool { return c.Config().ID == id })
}

// TestRequestVersusConfig makes the same request with various configurations, and checks the verdicts.
func TestRequestVersusConfig(t *testing.T) {
	f := newConfigFile(t)
	f.write("c0", "")
	r := newRig(t, control.Options{Source: f.source()})
	const trace = "traces: [{name: import, on: [{trigger: api, key: \"import*\"}], providers: [logs], "
	steps := []struct {
		traces string
		want   []control.Verdict // the verdicts of one call after the other
	}{
		{"", []control.Verdict{control.VerdictNoConfig, control.VerdictNoConfig}},
		{trace + "one_in: 3}]", []control.Verdict{control.VerdictStarted, control.VerdictSampledOut, control.VerdictSampledOut, control.VerdictStarted, control.VerdictSampledOut}},
		{trace + "mode: stream}]", []control.Verdict{control.VerdictStarted, control.VerdictAlreadyRunning}},
		{trace + "every: 1h}]", []control.Verdict{control.VerdictRateLimited}}, // earlier traces count for the limit
		{"traces: [{name: other, on: [{trigger: api, key: export}], providers: [logs]}]", []control.Verdict{control.VerdictNoConfig}},
		{trace + "}]", []control.Verdict{control.VerdictStarted, control.VerdictStarted}},
		{"traces: [{name: import, on: [{trigger: api, count: 3, within: 1h}], providers: [logs]}]", []control.Verdict{
			control.VerdictNotEnough, control.VerdictNotEnough, control.VerdictStarted, control.VerdictNotEnough,
		}},
		{"traces: [{name: import, on: [{trigger: api}], providers: [process], window: 1s}]", []control.Verdict{control.VerdictStarted}},
	}
	for i, step := range steps {
		f.change(r.ctl, fmt.Sprint("c", i+1), step.traces)
		for k, want := range step.want {
			expect.Equal(t, r.verdict(api("import of orders")), want, "configuration %d, call %d: the verdict", i+1, k)
		}
	}
	r.stop(api("import of orders"))
	started := uint64(0)
	for _, step := range steps {
		for _, v := range step.want {
			if v == control.VerdictStarted {
				started++
			}
		}
	}
	expect.Equal(t, r.ctl.Stats().Verdicts[control.TriggerAPI][control.VerdictStarted], started, "requests counted as started")
	for _, trace := range r.wait(int(started)) {
		w := everyLink(t, trace.Path())
		expect.Equal(t, w.attr(w.head, "config.id"), trace.Config.ID, "the trace is of configuration")
	}
	r.quiet()
}

// TestStreamKeepsItsConfig changes the file while a stream runs. The stream ignores the changes.
func TestStreamKeepsItsConfig(t *testing.T) {
	f := newConfigFile(t)
	stream := func(more string) string {
		return "traces: [{name: deep, mode: stream, on: [{trigger: api}], providers: [logs], timeout: 1h" + more + "}]"
	}
	f.write("old", stream(""))
	r := newRig(t, control.Options{Source: f.source()})
	running := r.start(api("deep"))
	const n = 20
	for i := range n {
		f.change(r.ctl, fmt.Sprint("new-", i), stream(fmt.Sprintf(", max_bytes: %d", 1+i)))
		if i%2 == 0 {
			r.log.Info(strings.Repeat("x", 200)) // more than the new limits, which do not apply to this stream
		}
	}
	expect.Equal(t, running.Config.ID, "old", "the stream goes by")
	r.stop(api("deep"))
	w := r.last(1)
	expect.Equal(t, w.attr(w.head, "config.id"), "old", "the trace says that it is of configuration")
	expect.Equal(t, w.attr(w.one("trace end"), "end.reason"), "stopped", "the stream ended for")
	expect.Len(t, r.errors(), 0, "reported")

	last := fmt.Sprint("new-", n-1)
	for i, broken := range []string{
		"traces: [", "traces: [{name: deep, providers: [logs], mode: movie}]", "tracs: []",
		"traces: [{name: a, providers: [logs]}, {name: a, providers: [logs]}]", "ring: {bytes: 4MiB}\n",
	} {
		f.write(fmt.Sprint("broken-", i), broken)
		eventually(t, "it is refused", func() bool { return r.ctl.Stats().Refused > uint64(i) })
		if got := r.ctl.Config().ID; got != last {
			t.Errorf("after %q configuration %q is in force, want %q", broken, got, last)
		}
	}
	eventually(t, "all are told", func() bool { return len(r.errors()) >= 5 })
	if st := r.ctl.Stats(); st.Refused != 5 || len(r.errors()) != 5 || st.Config != last {
		t.Errorf("%d configurations were refused and %d errors reported, want 5 each; %q is in force", st.Refused, len(r.errors()), st.Config)
	}
	second := r.start(api("deep"))
	eventually(t, "the new bound ends the stream", func() bool {
		r.log.Info("more")
		return len(r.traces()) == 2
	})
	w = everyLink(t, second.Path())
	expect.Equal(t, w.attr(w.head, "config.id"), last, "the next trace says that it is of configuration")
}

// TestProviderTypo checks the error for a provider that does not exist.
func TestProviderTypo(t *testing.T) {
	f := newConfigFile(t)
	const typo = "traces: [{name: a, on: [{trigger: api}], providers: [spans, lgos]}]"
	check := func(err error) {
		t.Helper()
		if _, ok := errors.AsType[*control.FieldError](err); !ok || !strings.Contains(err.Error(), `unknown provider "lgos"`) {
			t.Fatalf("the error is %v, want a *FieldError that names lgos", err)
		}
		for name := range strings.SplitSeq((^control.Set(0)).String(), ",") {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("the error does not name %s: %v", name, err)
			}
		}
	}
	f.write("typo", typo)
	_, err := control.New(&control.Options{Source: f.source()})
	check(err)
	f.write("right", strings.Replace(typo, "lgos", "logs", 1))
	r := newRig(t, control.Options{Source: f.source()})
	f.write("typo", typo)
	eventually(t, "it is refused", func() bool { return r.ctl.Stats().Refused == 1 && len(r.errors()) == 1 })
	check(r.errors()[0])
	expect.Equal(t, r.ctl.Config().ID, "right", "configuration in force")
	r.start(api("x"))
	w := r.last(1)
	expect.Equal(t, w.attr(w.head, "config.id"), "right", "the trace says that it is of configuration")
}
