package entrace_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/provider"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	testkit "github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
	"github.com/entrace-go/entrace/view"
)

var eventually = testkit.Eventually

func read(t *testing.T, name string) *view.View {
	t.Helper()
	must(t, expect.Err(recorder.Verify(name, func(problem error) { t.Error(problem) })))
	return testkit.View(t, testkit.Open(t, name))
}

const envControl = "OTEL_EXPORTER_ENTRACE_CONTROL"

// setenv sets variables. A name that is empty or begins with "_" stands for the name with
// envControl before it.
func setenv(t *testing.T, env map[string]string) {
	t.Helper()
	for name, value := range env {
		if name == "" || name[0] == '_' {
			name = envControl + name
		}
		t.Setenv(name, value)
	}
}

// controlTraces returns the finished traces in dir whose file names end in -NAME.et.
func controlTraces(t *testing.T, dir, name string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*-"+name+".et"))
	must(t, err)
	return files
}

// oneTrace waits until dir has one finished trace whose file name ends in -NAME.et, and reads it.
func oneTrace(t *testing.T, dir, name string) {
	t.Helper()
	var files []string
	eventually(t, "the trace "+name, func() bool {
		files = controlTraces(t, dir, name)
		return len(files) == 1
	})
	read(t, files[0])
}

// slowSpan records a span of 11 ms.
func slowSpan(t *testing.T, p *entrace.Pipeline) trace.Span {
	t.Helper()
	_, s := p.TracerProvider().Tracer("t").Start(t.Context(), "slow span")
	time.Sleep(11 * time.Millisecond)
	s.End()
	return s
}

// ringOf returns a flight recorder with a ring on the heap. It is shut down at the end of the test.
func ringOf(t *testing.T, always control.Set, traces ...control.TraceConfig) *control.Control {
	t.Helper()
	ctl, err := control.New(&control.Options{
		Config:    &control.Config{ID: "test", Dir: t.TempDir(), Ring: control.RingConfig{Bytes: 4 << 20, Always: always}, Traces: traces},
		Providers: provider.All(),
	})
	must(t, err)
	t.Cleanup(func() { must(t, ctl.Shutdown(context.Background())) })
	return ctl
}

func asked(mode control.Mode, p control.Set) control.TraceConfig {
	return control.TraceConfig{Name: string(mode), Mode: mode, Providers: p, On: []control.On{{Trigger: control.TriggerAPI, Key: string(mode)}}}
}

func ask(t *testing.T, ctl *control.Control, mode control.Mode) *control.Trace {
	t.Helper()
	trace, err := ctl.Start(t.Context(), control.Request{Trigger: control.TriggerAPI, Key: string(mode)})
	must(t, err)
	return trace
}

// count returns how many entries have the given name or message.
func count(t *testing.T, v *view.View, text string) (n int) {
	t.Helper()
	for id := range v.Len() {
		e, err := v.Entry(view.Row(id))
		must(t, err)
		if e.Metadata.Name == text || e.Message.Valid && e.Message.Value == text {
			n++
		}
	}
	return n
}

// TestControlEnvironment compares the effects of variables on Setup with testdata/control.txt.
func TestControlEnvironment(t *testing.T) {
	testkit.Golden(t, "testdata/control.txt", *update, func(env string) (said string) {
		t.Run(env, func(t *testing.T) { said = underControl(t, env) })
		return said
	})
}

// underControl sets the variables of env, as in "NAME=value; NAME=value", and records a span, a slow span and an error.
// If the configuration has a trigger for hanging spans, it also records a span that hangs. It returns the
// configuration, and for each trace, which of these spans it has.
func underControl(t *testing.T, env string) string {
	dir, told := clean(t), reports(t)
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	must(t, os.WriteFile("control.yaml", []byte("{id: of the file, ring: {bytes: 4MiB}}"), 0o600))
	for kv := range strings.SplitSeq(env, "; ") {
		name, value, _ := strings.Cut(kv, "=")
		setenv(t, map[string]string{name: value})
	}
	p := setup(t)
	ctl := p.Control()
	if ctl == nil {
		_, err := os.Stat("traces")
		return fmt.Sprintf("no control, records to %s, has a folder %t", strings.ReplaceAll(filepath.Base(p.Recorder().Path()), strconv.Itoa(os.Getpid()), "PID"), err == nil)
	}
	var b strings.Builder
	c := ctl.Config()
	dir, err := filepath.EvalSymlinks(dir)
	must(t, err)
	where, err := filepath.Rel(dir, ctl.Dir())
	must(t, err)
	fmt.Fprintf(&b, "configuration %s in %s: ring of %d bytes, persists %t, always %v; streams: %d\n", c.ID, filepath.ToSlash(where), c.Ring.Bytes, c.Ring.Persist, c.Ring.Always, len(ctl.Running()))
	for _, tc := range c.Traces {
		fmt.Fprintf(&b, "trace %s of %v on", tc.Name, tc.Providers)
		for _, on := range tc.On {
			fmt.Fprintf(&b, " %s %s %v %v,", on.Trigger, on.Key, on.Level, on.LongerThan)
		}
		b.WriteByte('\n')
	}
	rings, err := filepath.Glob(filepath.Join(ctl.Dir(), "ring-*.ring"))
	must(t, err)
	for _, ring := range rings {
		d, err := journal.OpenDead(ring, false) // the file itself, or the ring in shared memory to which it points
		must(t, err)
		if fi, err := d.Stat(); err != nil || fi.Size() < c.Ring.Bytes*3/4 || fi.Size() > c.Ring.Bytes*4 || runtime.GOOS != "windows" && fi.Mode().Perm() != 0o600 {
			t.Errorf("the ring has %d bytes and mode %v, %v", fi.Size(), fi.Mode(), err)
		}
		must(t, d.Close())
	}
	oneSpan(t, p)
	id := slowSpan(t, p).SpanContext().SpanID().String()
	if strings.Contains(env, "_ON_SLOW") {
		oneTrace(t, ctl.Dir(), "slow")
	}
	if strings.Contains(env, "_ON_HANG") {
		_, s := p.TracerProvider().Tracer("t").Start(t.Context(), "hangs")
		oneTrace(t, ctl.Dir(), "hang")
		s.End()
	}
	slog.New(slogadapter.New(p.Recorder(), nil)).Error("the reason")
	must(t, p.Shutdown(t.Context()))
	wantNoReport(t, told)
	for _, name := range glob(t, filepath.Join(ctl.Dir(), "*.et")) {
		v := read(t, name)
		fmt.Fprintf(&b, "wrote %s:", regexp.MustCompile(`^.*-`).ReplaceAllString(filepath.Base(name), ""))
		for _, text := range []string{"shop", "span", "slow span", "hangs", "the reason"} {
			if n := count(t, v, text); n > 0 {
				fmt.Fprintf(&b, " %d %s,", n, text)
			}
		}
		e, err := v.Entry(v.Children(0)[0])
		must(t, err)
		expect.Equal(t, e.Metadata.Name, mapping.NameTrace, "the first entry")
		for r := range v.Rows() {
			if e, err := v.Entry(r); err == nil && v.Name(r) == "exec.trace" {
				data, _ := e.Attribute("data")
				fmt.Fprintf(&b, " an execution trace with the slow span %t", bytes.Contains(data.Bytes(), []byte("otel.span")) && bytes.Contains(data.Bytes(), []byte(id)))
			}
		}
		b.WriteByte('\n')
	}
	if left := glob(t, "*/*.ring"); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
	return b.String()
}

// TestControlFileChanges: if the file with the configuration changes, the new configuration is used.
func TestControlFileChanges(t *testing.T) {
	clean(t)
	must(t, os.WriteFile("control.yaml", []byte("{id: of the file, ring: {bytes: 4MiB}}"), 0o600))
	setenv(t, map[string]string{"_CONFIG": "control.yaml"})
	p := setup(t)
	expect.MustEqual(t, p.Control().Config().ID, "of the file", "configuration in force")
	must(t, os.WriteFile("next.yaml", []byte("{id: next, ring: {bytes: 4MiB}}"), 0o600))
	must(t, os.Rename("next.yaml", "control.yaml"))
	eventually(t, "the next configuration", func() bool { return p.Control().Config().ID == "next" })
	must(t, p.Shutdown(t.Context()))
}

func TestControlUnsampled(t *testing.T) {
	clean(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	t.Setenv("OTEL_TRACES_EXPORTER", "mine,entrace")
	ctl := ringOf(t, control.Spans, asked(control.ModeSnapshot, control.Spans))
	mine, synced := tracetest.NewInMemoryExporter(), tracetest.NewInMemoryExporter()
	p := setup(t, entrace.WithControl(ctl),
		entrace.WithSpanExporter("mine", func(context.Context) (sdktrace.SpanExporter, error) { return mine, nil }),
		entrace.WithTracerProviderOptions(sdktrace.WithSyncer(synced)))
	tracer := p.TracerProvider().Tracer("t")
	_, s := tracer.Start(t.Context(), "dropped")
	if !s.IsRecording() || s.SpanContext().IsSampled() {
		t.Errorf("the span is recorded: %t, sampled: %t", s.IsRecording(), s.SpanContext().IsSampled())
	}
	s.End()
	remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	_, s = tracer.Start(trace.ContextWithSpanContext(t.Context(), remote), "sampled")
	if !s.SpanContext().IsSampled() {
		t.Error("the span of a sampled parent is not sampled")
	}
	s.End()
	must(t, p.ForceFlush(t.Context()))
	for _, e := range []*tracetest.InMemoryExporter{mine, synced} {
		if got := e.GetSpans(); len(got) != 1 || got[0].Name != "sampled" {
			t.Errorf("another exporter has %d spans, want only the sampled one", len(got))
		}
	}
	v := read(t, ask(t, ctl, control.ModeSnapshot).Path())
	if count(t, v, "dropped") != 1 || count(t, v, "sampled") != 1 {
		t.Error("a span is not in the trace")
	}

	off := *ctl.Config()
	off.Ring.Always, off.Traces = control.Logs, nil
	must(t, ctl.SetConfig(&off))
	_, s = tracer.Start(t.Context(), "off")
	if s.IsRecording() {
		t.Error("a span is recorded that nobody wants")
	}
}

// fixedIDs generates the same trace ids for each provider.
type fixedIDs struct{ r *rand.Rand }

func (g fixedIDs) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], g.r.Uint64())
	binary.BigEndian.PutUint64(id[8:], g.r.Uint64())
	return id, g.NewSpanID(ctx, id)
}

func (g fixedIDs) NewSpanID(context.Context, trace.TraceID) (span trace.SpanID) {
	binary.BigEndian.PutUint64(span[:], g.r.Uint64()|1)
	return span
}

// sampledOf starts 1,000 spans with tp and returns a digit for each, 1 if it is sampled. In turn,
// the spans have no parent, and a local or remote parent that is sampled or not.
func sampledOf(tp *sdktrace.TracerProvider) string {
	tracer := tp.Tracer("t")
	var b strings.Builder
	for i := range 1000 {
		ctx := context.Background()
		if k := i % 5; k > 0 {
			sc := trace.SpanContextConfig{TraceID: trace.TraceID{byte(i), byte(i >> 8), 15: byte(i * 7), 9: byte(i * 31)}, SpanID: trace.SpanID{1}, Remote: k > 2}
			if k%2 == 0 {
				sc.TraceFlags = trace.FlagsSampled
			}
			ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(sc))
		}
		_, s := tracer.Start(ctx, "s")
		b.WriteByte("01"[s.SpanContext().TraceFlags()&trace.FlagsSampled])
		s.End()
	}
	return b.String()
}

// TestControlSamplers: with a flight recorder, Setup samples the same spans as the SDK does with
// the same environment.
func TestControlSamplers(t *testing.T) {
	for _, sampler := range []string{
		"", "always_on", "always_off", "traceidratio", "parentbased_always_on", "parentbased_always_off", "parentbased_traceidratio",
		"ALWAYS_OFF", " always_off ", "ParentBased_Always_Off", "jaeger_remote", "alwaysoff",
	} {
		args := []string{""}
		if strings.Contains(sampler, "ratio") {
			args = []string{"", "0", "0.25", " 0.25 ", "1", "1.0", "1e-1", "-0.5", "1.5", "x", "0x1p-2", "Inf"}
		}
		for _, arg := range args {
			for _, wanted := range []control.Set{control.Spans, control.Logs} { // whether the flight recorder records spans
				t.Run(fmt.Sprintf("%s %s %v", sampler, arg, wanted), func(t *testing.T) {
					clean(t)
					reports(t)
					set := func(name, value string) {
						t.Setenv(name, value) // restores the variable after the test
						if value == "" {
							must(t, os.Unsetenv(name))
						}
					}
					set("OTEL_TRACES_SAMPLER", sampler)
					set("OTEL_TRACES_SAMPLER_ARG", arg)
					ids := func() sdktrace.TracerProviderOption {
						return sdktrace.WithIDGenerator(fixedIDs{rand.New(rand.NewPCG(1, 2))})
					}
					sdk := sdktrace.NewTracerProvider(ids())
					want := sampledOf(sdk)
					must(t, sdk.Shutdown(t.Context()))
					p := setup(t, entrace.WithControl(ringOf(t, wanted)), entrace.WithTracerProviderOptions(ids()))
					if got := sampledOf(p.TracerProvider()); got != want {
						t.Errorf("%d of 1000 are sampled, the SDK samples %d, or others", strings.Count(got, "1"), strings.Count(want, "1"))
					}
					must(t, p.Shutdown(t.Context()))
				})
			}
		}
	}
}

// TestSamplerDecides compares the decisions and the trace state of a RecordingSampler with the decisions and the
// trace state of the sampler that it wraps.
func TestSamplerDecides(t *testing.T) {
	on, off := ringOf(t, control.Spans), ringOf(t, control.Logs)
	for _, next := range []sdktrace.Sampler{sdktrace.AlwaysSample(), sdktrace.NeverSample(), sdktrace.TraceIDRatioBased(0.5), sdktrace.AlwaysRecord(sdktrace.NeverSample())} {
		for i := range 100 {
			q := sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: trace.TraceID{8: byte(i * 5), 15: 1}, Name: "s"}
			plain := next.ShouldSample(q)
			if got := entrace.RecordingSampler(next, off).ShouldSample(q); got.Decision != plain.Decision {
				t.Errorf("%s: with spans off the decision is %v, want %v", next.Description(), got.Decision, plain.Decision)
			}
			want := plain.Decision
			if want == sdktrace.Drop {
				want = sdktrace.RecordOnly
			}
			got := entrace.RecordingSampler(next, on).ShouldSample(q)
			if got.Decision != want || got.Tracestate.String() != plain.Tracestate.String() {
				t.Errorf("%s: with spans on the decision is %v, want %v", next.Description(), got.Decision, want)
			}
		}
		expect.Has(t, entrace.RecordingSampler(next, on).Description(), next.Description(), "the description")
		if got := entrace.RecordingSampler(next, nil).ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context()}); got.Decision != next.ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context()}).Decision {
			t.Errorf("with a nil control the decision is %v", got.Decision)
		}
	}
}

// TestSamplerByDefault: defaultSampler makes the same decisions as a sampler around the SDK's
// default sampler.
func TestSamplerByDefault(t *testing.T) {
	on, off := ringOf(t, control.Spans), ringOf(t, control.Logs)
	next := sdktrace.ParentBased(sdktrace.AlwaysSample())
	state, err := trace.ParseTraceState("vendor=1,other=2")
	must(t, err)
	parent := func(c trace.SpanContextConfig) context.Context {
		return trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(c))
	}
	id, span := trace.TraceID{1}, trace.SpanID{2}
	for name, ctx := range map[string]context.Context{
		"no parent":          t.Context(),
		"no valid parent":    parent(trace.SpanContextConfig{SpanID: span, TraceFlags: trace.FlagsSampled, TraceState: state}),
		"sampled":            parent(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled, TraceState: state}),
		"not sampled":        parent(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceState: state}),
		"sampled, remote":    parent(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: true}),
		"not sampled remote": parent(trace.SpanContextConfig{TraceID: id, SpanID: span, TraceState: state, Remote: true}),
	} {
		q := sdktrace.SamplingParameters{ParentContext: ctx, TraceID: id, Name: "s"}
		want := next.ShouldSample(q)
		for _, c := range []*control.Control{off, nil} {
			expect.DeepEqual(t, entrace.RecordingSampler(next, c).ShouldSample(q), want, "%s", name)
		}
		if want.Decision == sdktrace.Drop {
			want.Decision = sdktrace.RecordOnly
		}
		expect.DeepEqual(t, entrace.RecordingSampler(next, on).ShouldSample(q), want, "%s, with spans on", name)
	}
	expect.Has(t, entrace.RecordingSampler(next, on).Description(), next.Description(), "the description")
	uncomparable := sdktrace.ParentBased(sdktrace.AlwaysSample(), sdktrace.WithLocalParentSampled(sliceSampler{nil}))
	expect.Has(t, entrace.RecordingSampler(uncomparable, on).Description(), uncomparable.Description(), "the description")
}

// TestFlightRecorderAllocates: with a flight recorder, a span allocates no more than with a
// processor that does nothing.
func TestFlightRecorderAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("pools drop what they are given")
	}
	clean(t)
	allocations := func(tp trace.TracerProvider) float64 {
		tracer := tp.Tracer("t")
		ctx, root := tracer.Start(t.Context(), "root")
		defer root.End()
		attrs := []attribute.KeyValue{attribute.String("a", "b"), attribute.Int("n", 1)}
		return hosttest.Allocations(5000, func() {
			_, s := tracer.Start(ctx, "span", trace.WithAttributes(attrs...))
			s.End()
		})
	}
	want := allocations(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(nothing{})))
	p := setup(t, entrace.WithControl(ringOf(t, control.Spans)), entrace.WithoutGlobals())
	if got := allocations(p.TracerProvider()); got > want {
		t.Errorf("a span takes %v allocations, %v without", got, want)
	}
}

// nothing is a processor that does nothing.
type nothing struct{}

func (nothing) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (nothing) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (nothing) Shutdown(context.Context) error                  { return nil }
func (nothing) ForceFlush(context.Context) error                { return nil }

// A sliceSampler is a sampler that panics if it is compared with ==.
type sliceSampler struct{ rules []string }

func (sliceSampler) ShouldSample(sdktrace.SamplingParameters) (r sdktrace.SamplingResult) {
	return r
}
func (sliceSampler) Description() string { return "slice" }

var labelLine = regexp.MustCompile(`"([^"]*)":"([^"]*)"`)

// labelsHere returns the profiler labels of the calling goroutine, as "k=v k=v".
//
//go:noinline
func labelsHere(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	must(t, pprof.Lookup("goroutine").WriteTo(&b, 1))
	for stack := range strings.SplitSeq(b.String(), "\n\n") {
		if !strings.Contains(stack, "entrace_test.labelsHere") {
			continue
		}
		var all []string
		for line := range strings.Lines(stack) {
			if strings.HasPrefix(line, "# labels:") {
				for _, m := range labelLine.FindAllStringSubmatch(line, -1) {
					all = append(all, m[1]+"="+m[2])
				}
			}
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	t.Fatal("this goroutine is not in the profile")
	return ""
}

func labelsOf(s trace.Span) string {
	return "span_id=" + s.SpanContext().SpanID().String() + " trace_id=" + s.SpanContext().TraceID().String()
}

// TestControlLabels checks the profiler labels of the goroutine while spans begin and end.
func TestControlLabels(t *testing.T) {
	clean(t)
	all := control.Spans | control.Goroutines
	ctl := ringOf(t, control.Spans, asked(control.ModeSnapshot, all), asked(control.ModeStream, all|control.CPUProfile))
	p := setup(t, entrace.WithControl(ctl), entrace.WithSampler(sdktrace.NeverSample()))
	tracer := p.TracerProvider().Tracer("t")
	want := func(when, labels string) {
		t.Helper()
		expect.Equal(t, labelsHere(t), labels, "%s the labels", when)
	}
	nested := func(ctx context.Context, around string, profiled bool) {
		t.Helper()
		and := func(labels string) string { return strings.TrimSpace(around + " " + labels) }
		want("before", and(""))
		ctx1, root := tracer.Start(ctx, "root")
		want("in the root", and(labelsOf(root)))
		ctx2, child := tracer.Start(ctx1, "child")
		_, grandchild := tracer.Start(ctx2, "grandchild")
		if profiled {
			want("in the grandchild", and(labelsOf(grandchild)))
		} else {
			want("in the grandchild", and(labelsOf(root)))
		}
		grandchild.End()
		if profiled {
			want("in the child again", and(labelsOf(child)))
		}
		child.End()
		want("in the root again", and(labelsOf(root)))
		root.End()
		want("after", and(""))
	}
	var stream *control.Trace
	for _, profiled := range []bool{false, true} {
		if profiled {
			stream = ask(t, ctl, control.ModeStream)
		}
		nested(t.Context(), "", profiled)
		pprof.Do(t.Context(), pprof.Labels("a", "b"), func(ctx context.Context) { nested(ctx, "a=b", profiled) })
		want("outside of Do", "")
		remote := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true})
		nested(trace.ContextWithRemoteSpanContext(t.Context(), remote), "", profiled)
	}
	if !ctl.Stop(control.Request{Trigger: control.TriggerAPI, Key: string(control.ModeStream)}) {
		t.Error("the stream did not run")
	}
	<-stream.Done()

	// The configuration has no trace with the provider "goroutines", so no goroutine gets labels.
	quiet := *ctl.Config()
	quiet.Traces = nil
	must(t, ctl.SetConfig(&quiet))
	_, s := tracer.Start(t.Context(), "root")
	want("that nobody wants", "")
	s.End()

	// If the configuration changes while a span is open, the end of the span still removes its
	// labels.
	must(t, ctl.SetConfig(&control.Config{
		ID: "again", Dir: quiet.Dir, Ring: quiet.Ring, Traces: []control.TraceConfig{asked(control.ModeSnapshot, all)},
	}))
	_, s = tracer.Start(t.Context(), "root")
	want("in the root", labelsOf(s))
	must(t, ctl.SetConfig(&quiet))
	s.End()
	want("after all", "")
}

func TestControlLeavesNoRoom(t *testing.T) {
	clean(t)
	told := reports(t)
	t.Setenv("OTEL_EXPORTER_ENTRACE_MODE", "batch")
	ctl := ringOf(t, control.Spans, asked(control.ModeSnapshot, control.Spans))
	p := setup(t, entrace.WithControl(ctl))
	if !strings.Contains(told(), "OTEL_EXPORTER_ENTRACE_MODE") || !strings.Contains(told(), "live") {
		t.Errorf("it reported %q, want that the mode is ignored", told())
	}
	_, s := p.TracerProvider().Tracer("t").Start(t.Context(), "open")
	if v := read(t, ask(t, ctl, control.ModeSnapshot).Path()); count(t, v, "open") != 1 {
		t.Error("the span that is open is not recorded live")
	}
	s.End()
}

// slowExporter exports its last spans during Shutdown.
type slowExporter struct{ ended chan struct{} }

func (slowExporter) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (e slowExporter) Shutdown(context.Context) error                           { close(e.ended); return nil }

func TestControlShutdown(t *testing.T) {
	t.Run("its own", func(t *testing.T) {
		clean(t)
		told := reports(t)
		setenv(t, map[string]string{"_CONFIG": "c.yaml", "OTEL_TRACES_EXPORTER": "entrace,slow"})
		must(t, os.WriteFile("c.yaml", []byte(`{id: c, dir: traces, ring: {bytes: 4MiB}, traces: [
			{name: all, mode: stream, on: [{trigger: start}], timeout: 1h, providers: [spans, logs]},
			{name: exit, on: [{trigger: exit}], providers: [spans, logs]}]}`), 0o600))
		e := slowExporter{make(chan struct{})}
		p := setup(t, entrace.WithSpanExporter("slow", func(context.Context) (sdktrace.SpanExporter, error) { return e, nil }))
		ctl := p.Control()
		log := slog.New(slogadapter.New(p.Recorder(), nil))
		ctx, open := p.TracerProvider().Tracer("t").Start(t.Context(), "open")
		log.InfoContext(ctx, "last words")
		expect.Equal(t, len(ctl.Running()), 1, "streams run")
		must(t, errors.Join(p.Shutdown(t.Context()), p.Shutdown(t.Context())))
		select {
		case <-e.ended:
		default:
			t.Error("the other exporter was not shut down")
		}
		open.End()
		log.Info("too late")
		for _, name := range []string{"all", "exit"} {
			files := controlTraces(t, "traces", name)
			expect.MustLen(t, files, 1, "the traces %s", name)
			v := read(t, files[0])
			if count(t, v, "open") != 1 || count(t, v, "last words") != 1 || count(t, v, "too late") != 0 {
				t.Errorf("%s lacks what was recorded before, or has more", name)
			}
		}
		var denied *control.DeniedError
		if _, err := ctl.Start(t.Context(), control.Request{Trigger: control.TriggerAPI}); !errors.As(err, &denied) || denied.Verdict != control.VerdictClosed {
			t.Errorf("the control answers %v", err)
		}
		must(t, errors.Join(ctl.Shutdown(t.Context()), p.Shutdown(t.Context())))
		wantNoReport(t, told)
	})
	t.Run("somebody's", func(t *testing.T) {
		clean(t)
		ctl := ringOf(t, control.Spans|control.Logs, asked(control.ModeSnapshot, control.Spans|control.Logs))
		p := setup(t, entrace.WithControl(ctl))
		oneSpan(t, p)
		must(t, errors.Join(p.Shutdown(t.Context()), p.Shutdown(t.Context())))
		slog.New(slogadapter.New(p.Recorder(), nil)).Info("goes on")
		if v := read(t, ask(t, ctl, control.ModeSnapshot).Path()); count(t, v, "span") != 1 || count(t, v, "goes on") != 1 {
			t.Error("the trace lacks the span, or what was recorded after Shutdown of the pipeline")
		}
	})
	t.Run("in no time", func(t *testing.T) {
		dir := clean(t)
		setenv(t, map[string]string{"": "stream", "_DIR": "traces"})
		p := setup(t)
		oneSpan(t, p)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Shutdown returns %v", err)
		}
		must(t, p.Shutdown(t.Context()))
		must(t, p.Control().Shutdown(t.Context())) // waits for the goroutines that the first Shutdown has started
		files := controlTraces(t, filepath.Join(dir, "traces"), "all")
		expect.MustLen(t, files, 1, "the traces")
		if v := read(t, files[0]); count(t, v, "span") != 1 {
			t.Error("the trace lacks the span")
		}
	})
}

func TestControlDisabled(t *testing.T) {
	for _, with := range []bool{false, true} {
		t.Run(fmt.Sprint("with an option: ", with), func(t *testing.T) {
			dir := clean(t)
			setenv(t, map[string]string{"OTEL_SDK_DISABLED": "true", "": "stream", "_CONFIG": "nosuch.yaml"})
			var o []entrace.Option
			var ctl *control.Control
			if with {
				ctl = ringOf(t, control.Spans|control.Logs)
				o = append(o, entrace.WithControl(ctl))
			}
			p := setup(t, o...)
			if p.Control() != nil {
				t.Error("there is a control")
			}
			oneSpan(t, p)
			log := slog.New(slogadapter.New(p.Recorder(), nil))
			log.Error("no")
			if log.Enabled(t.Context(), slog.LevelError) {
				t.Error("log records are taken")
			}
			must(t, p.Shutdown(t.Context()))
			if ctl != nil && ctl.Stats().Ring.Entries != 0 {
				t.Errorf("%d entries are in the ring", ctl.Stats().Ring.Entries)
			}
			expect.Len(t, hosttest.Names(t, dir), 0, "the folder has")
		})
	}
}

// TestNoFlightRecorder: a nil flight recorder does nothing.
func TestNoFlightRecorder(t *testing.T) {
	var none *control.Control
	clean(t)
	p, err := entrace.Setup(t.Context(), entrace.WithControl(none), exporter.WithPath("app.et"), entrace.WithoutGlobals())
	must(t, err)
	_, span := p.TracerProvider().Tracer("").Start(t.Context(), "recorded")
	span.End()
	must(t, p.Shutdown(context.Background()))
	if count(t, read(t, "app.et"), "recorded") != 1 {
		t.Error("the span is not in the file")
	}
}
