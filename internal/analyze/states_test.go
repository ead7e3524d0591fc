package analyze_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	rt "runtime/trace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace"
	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/querytest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
	"github.com/entrace-go/entrace/view"
)

// waits records a program with Go's execution trace: a request waits for a mutex, whose owner waits for a channel, on
// which a third goroutine sends after it has slept.
func waits(t *testing.T, marks string, d time.Duration) *view.View {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "control.yaml")
	must(t, os.WriteFile(config, []byte(`dir: `+dir+`
ring:
  always: [spans, exec.trace]
  params: {exec.trace.marks: "`+marks+`"}
traces:
  - {name: snapshot, on: [{trigger: api}], mode: snapshot, window: 1m, providers: [spans, exec.trace]}
`), 0o600))
	t.Setenv("OTEL_EXPORTER_ENTRACE_CONTROL_CONFIG", config)
	ctx := t.Context()
	p, err := entrace.Setup(ctx)
	must(t, err)
	tracer := p.TracerProvider().Tracer("waits")
	in := func(ctx context.Context, name string, fn func(ctx context.Context)) {
		ctx, span := tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindInternal))
		defer span.End()
		fn(ctx)
	}
	in(ctx, "request", func(ctx context.Context) {
		var mu sync.Mutex
		held, feed := make(chan int), make(chan int)
		var all sync.WaitGroup
		defer all.Wait()
		all.Go(func() {
			in(ctx, "owner", func(context.Context) { mu.Lock(); close(held); <-feed; mu.Unlock(); time.Sleep(2 * time.Millisecond) })
		})
		<-held
		all.Go(func() { in(ctx, "feeder", func(context.Context) { time.Sleep(d); feed <- 1 }) })
		mu.Lock()
		mu.Unlock() //nolint:staticcheck // waiting is all
	})
	tr, err := p.Control().Start(ctx, control.Request{Trigger: control.TriggerAPI, Key: "snapshot"})
	must(t, err)
	must(t, p.Shutdown(ctx))
	f := tracetest.OpenFile(t, tr.Path())
	v, err := view.New(ctx, []*format.File{f}, nil)
	must(t, err)
	return v
}

func spanNamed(t *testing.T, v *view.View, name string) view.Row {
	t.Helper()
	for r := range v.Rows() {
		if v.Role(r) == view.RoleSpan && v.Name(r) == name {
			return r
		}
	}
	t.Fatalf("there is no span %q", name)
	return 0
}

// selects returns the names of the rows that a query selects.
func selects(t *testing.T, v *view.View, text string) string {
	t.Helper()
	r := querytest.Result(t, v, text)
	var names []string
	for row := range r.Rows.All() {
		names = append(names, v.Name(row))
	}
	for _, h := range r.Hints {
		names = append(names, "hint: "+h.Text)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestStates(t *testing.T) {
	for marks, join := range map[string]string{"on": "marked", "off": "matched"} {
		v := waits(t, marks, 60*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		expect.Is(t, expect.Err(analyze.Measured(ctx, v, spanNamed(t, v, "request"))), context.Canceled, "%s: with a context that has ended", join)
		for text, want := range map[string]string{
			`{ span:mutex > 55ms }`:                       "request",
			`{ span:chan > 55ms && span:mutex < 1ms }`:    "owner",
			`{ span:sleep > 55ms }`:                       "feeder",
			`{ span:blocked > 55ms && span:running > 0 }`: "feeder owner request",
			`{ span:states = "` + join + `" }`:            "feeder owner request",
			`{ span:mutex = nil }`:                        "",
			`{ span:goroutine > 0 }`:                      "feeder owner request",
			`{ span:goroutine = 0 }`:                      "",
		} {
			if got := selects(t, v, text); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%s: %s selects %q, want %q", join, text, got, want)
			}
		}
		request := spanNamed(t, v, "request")
		m, err := analyze.Measured(t.Context(), v, request)
		must(t, err)
		if m != nil && selects(t, v, fmt.Sprintf("{ span:goroutine = %d }", m.Goroutine)) != "request" {
			t.Errorf("%s: goroutine %d did not only work for the request", join, m.Goroutine)
		}
		if m == nil || m.Known < .95 || m.Join.String() != join || m.Open {
			t.Fatalf("%s: the measured path is %+v", join, m)
		}
		var slept analyze.MeasuredStep
		for _, s := range m.Steps {
			if s.State == "sleep" && s.Duration > slept.Duration {
				slept = s
			}
		}
		if slept.Span != spanNamed(t, v, "feeder") || slept.Frame == nil || !strings.Contains(slept.Frame.Func, "analyze_test.waits") {
			t.Errorf("%s: the path leads to %+v", join, slept)
		}
		// The critical path that is inferred from times ends at the span "owner", which only waited.
		c, ok := analyze.Critical(v, request)
		if !ok || !slices.ContainsFunc(c.Steps, func(s analyze.Step) bool { return v.Name(s.Span) == "owner" && s.Duration > int64(55*time.Millisecond) }) {
			t.Errorf("%s: the inferred path is %+v", join, c.Steps)
		}
		all := v.NewSet()
		for r := range v.Rows() {
			all.Add(r)
		}
		list, err := analyze.Waits(t.Context(), v, all, 10)
		must(t, err)
		i := slices.IndexFunc(list, func(w analyze.WaitTotal) bool { return w.State == "mutex" })
		if i < 0 || list[i].Longest != request || len(list[i].By) != 1 || list[i].By[0].Name != "owner" || list[i].Spans != 1 {
			t.Errorf("%s: the waits are %+v", join, list)
		}
	}
}

// TestDiffSaysWhichStateGrew compares a request that waits long with one that waits a millisecond.
func TestDiffSaysWhichStateGrew(t *testing.T) {
	slow, fast := waits(t, "on", 60*time.Millisecond), waits(t, "on", time.Millisecond)
	all := func(v *view.View) query.Run {
		rows := v.NewSet()
		for r := range v.Rows() {
			rows.Add(r)
		}
		return query.Run{View: v, Rows: rows}
	}
	d, err := analyze.Compare(t.Context(), []query.Run{all(fast)}, []query.Run{all(slow)})
	must(t, err)
	for _, p := range d.Paths {
		want := map[string]string{"request": "mutex", "owner": "chan", "feeder": "sleep"}[p.Path[len(p.Path)-1].Name]
		if got := p.Grew(); len(got) == 0 || got[0].State != want || got[0].Time < 20e6 {
			t.Errorf("%+v grew by %v, want %s", p.Path, got, want)
		}
	}
}

// recordedWith returns a view of two spans and of execution traces. The spans have the ids in the execution traces of
// internal/read/gotrace/testdata. The parameter took is the duration of the first span.
func recordedWith(t *testing.T, took time.Duration, traces ...[]byte) *view.View {
	t.Helper()
	span := func(parent uint32, name, id string, took time.Duration) *format.TraceEntry {
		return tracetest.Below(parent, tracetest.Entry(name,
			format.AttrTime, uint64(1e18), format.AttrSpanID, id,
			format.AttrTraceID, strings.Repeat("1", 32), format.AttrDuration, uint64(took),
		))
	}
	entries := []*format.TraceEntry{format.Root(), tracetest.Resource("shop"), span(1, "request", "0000000000000001", took), span(2, "reindex", "0000000000000002", 100*time.Millisecond)}
	for _, b := range traces {
		entries = append(entries, &format.TraceEntry{Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace"}, Attributes: tracetest.Attributes("data", b)})
	}
	return viewOf(t, entries)
}

// TestExecutionTracesThatOverlap: if two execution traces of a process contain the same wait, it counts once.
func TestExecutionTracesThatOverlap(t *testing.T) {
	b := tracetest.ReadFile(t, "../../internal/read/gotrace/testdata/go1.26.trace")
	v := recordedWith(t, 100*time.Millisecond, b, b)
	all := v.NewSet()
	for r := range v.Rows() {
		all.Add(r)
	}
	list, err := analyze.Waits(t.Context(), v, all, 10)
	must(t, err)
	i := slices.IndexFunc(list, func(w analyze.WaitTotal) bool { return w.State == "mutex" })
	if i < 0 || list[i].Time < 95e6 || list[i].Time > 150e6 || len(list[i].By) != 1 || list[i].By[0].Name != "reindex" {
		t.Errorf("the waits are %+v", list)
	}
}

// TestExecutionTraceThatEndsEarly: if a span ends long after the execution trace, only a part of its path is known, but
// the span does not count as open.
func TestExecutionTraceThatEndsEarly(t *testing.T) {
	var b bytes.Buffer
	must(t, rt.Start(&b))
	ctx := t.Context()
	rt.Log(ctx, "otel.span", "0000000000000001")
	_, task := rt.NewTask(ctx, "request")
	time.Sleep(100 * time.Millisecond)
	rt.Stop()
	task.End()
	v := recordedWith(t, time.Second, b.Bytes())
	m, err := analyze.Measured(ctx, v, spanNamed(t, v, "request"))
	must(t, err)
	if m == nil || m.Open || m.Known > .5 || m.Known < .05 || m.Duration != int64(time.Second) {
		t.Errorf("the path is %+v", m)
	}
}

// TestStatesOfHandedSpan: the states of a span that a timer ends are unknown, not 0. The states and the path of a
// span that another goroutine continues and ends are known.
func TestStatesOfHandedSpan(t *testing.T) {
	var b bytes.Buffer
	must(t, rt.Start(&b))
	ctx, done := t.Context(), make(chan int)
	rt.Log(ctx, "otel.span", "0000000000000001")
	_, task := rt.NewTask(ctx, "request")
	time.AfterFunc(50*time.Millisecond, func() { task.End(); close(done) })
	<-done
	rt.Log(ctx, "otel.span", "0000000000000002")
	_, handed := rt.NewTask(ctx, "reindex")
	over := make(chan int)
	go func() { time.Sleep(50 * time.Millisecond); handed.End(); close(over) }()
	<-over
	rt.Stop()
	v := recordedWith(t, 50*time.Millisecond, b.Bytes())
	for text, want := range map[string]string{
		`{ span:states = marked }`:                         "reindex request",
		`{ span:blocked = nil && span:states = marked }`:   "request",
		`{ span:blocked >= 0ns }`:                          "reindex",
		`{ span:sleep > 20ms && span:chan < 10ms }`:        "reindex",
		`{ span:running = nil && span:states = "marked" }`: "request",
	} {
		expect.Equal(t, selects(t, v, text), want, "%s selects", text)
	}
	request, reindex := spanNamed(t, v, "request"), spanNamed(t, v, "reindex")
	if m, err := analyze.Measured(ctx, v, request); m != nil || err != nil {
		t.Errorf("the path of what is not known is %+v, %v", m, err)
	}
	if m, err := analyze.Measured(ctx, v, reindex); err != nil || m == nil || m.Longest(v, 1)[0].State != "sleep" {
		t.Errorf("the path of the span that was handed on is %+v, %v", m, err)
	}
	strips, err := analyze.NewStrips(ctx, v, slices.Values([]view.Row{request, reindex}), time.Minute)
	must(t, err)
	if got := strips.Of(request, 20); got != nil {
		t.Errorf("the strip of what is not known is %q", got)
	}
	if got := strips.Of(reindex, 20); !slices.Contains(got, "sleep") {
		t.Errorf("the strip of the span that was handed on is %q", got)
	}
}

// TestExecutionTraceThatCannotBeRead: the hint says why the states are unknown.
func TestExecutionTraceThatCannotBeRead(t *testing.T) {
	for data, want := range map[string]string{
		"go 1.29 trace\x00\x00\x00more": `unknown header "go 1.29 trace"`, "go 1.26 trace\x00\x00\x00more": "generation at byte 16",
	} {
		v := recordedWith(t, time.Second, []byte(data))
		expect.Has(t, selects(t, v, `{ span:mutex > 1ns }`), want, "%q", data)
	}
}

func TestStatesWithoutExecutionTrace(t *testing.T) {
	v := viewOf(t, fixed())
	if got := selects(t, v, `{ span:mutex > 1ns }`); !strings.HasPrefix(got, "hint: the file has no execution trace") {
		t.Errorf("the hint is %q", got)
	}
	if m, err := analyze.Measured(t.Context(), v, 1); m != nil || err != nil {
		t.Errorf("there is a measured path: %v, %v", m, err)
	}
}

// TestLinesOfSteps: similar waits that follow each other are one line with the sum of their times. Steps of different
// goroutines without a span are different lines.
func TestLinesOfSteps(t *testing.T) {
	p := &analyze.MeasuredPath{Duration: 1000}
	for i := range int64(10) { // each wait is followed by steps that are too short for a line
		p.Steps = append(p.Steps, analyze.MeasuredStep{From: 100 * i, Duration: 100, Followed: true, State: "chan", Goroutine: 1, EndedBy: &analyze.Waker{Goroutine: 2}})
		for k := range int64(100) {
			p.Steps = append(p.Steps, analyze.MeasuredStep{From: 100*i + k, Duration: 1, Depth: 1, State: "running", Goroutine: 2 + k%2})
		}
	}
	lines, shorter, took := p.Lines(nil, .01)
	if len(lines) != 1 || lines[0].Duration != 1000 || lines[0].Times != 10 || shorter != 1000 || took != 1000 {
		t.Errorf("the lines are %+v, and %d shorter ones of %d", lines, shorter, took)
	}
	p.Steps = p.Steps[:0]
	for g := range int64(3) {
		p.Steps = append(p.Steps, analyze.MeasuredStep{From: 300 * g, Duration: 300, State: "running", Goroutine: 10 + g})
	}
	if lines, _, _ := p.Lines(nil, .01); len(lines) != 3 {
		t.Errorf("three goroutines are %d lines", len(lines))
	}
}

// TestPartOfASpan: if the execution trace begins after a span, the strip of the span is empty before that. Waits in
// different library functions are different places, even if the program calls them in one line.
func TestPartOfASpan(t *testing.T) {
	begun := time.Now()
	time.Sleep(150 * time.Millisecond)
	var b bytes.Buffer
	must(t, rt.Start(&b))
	to, from := io.Pipe()
	wake, woken := io.Pipe()
	go func() {
		time.Sleep(60 * time.Millisecond)
		_, _ = from.Write([]byte{1})
		time.Sleep(40 * time.Millisecond)
		_, _ = wake.Read(make([]byte, 1))
	}()
	func() { _, _ = to.Read(make([]byte, 1)); _, _ = woken.Write([]byte{1}) }()
	took := time.Since(begun)
	rt.Log(t.Context(), "otel.end", "0000000000000001")
	rt.Stop()
	v := tracetest.New(t, format.V2, format.IET, format.Root(), tracetest.Entry("early",
		format.AttrTime, uint64(begun.UnixNano()),
		format.AttrDuration, uint64(took),
		format.AttrSpanID, "0000000000000001",
		format.AttrTraceID, strings.Repeat("1", 32),
	), &format.TraceEntry{
		Metadata: format.Metadata{Name: "exec.trace", Target: "runtime/trace"}, Attributes: tracetest.Attributes("data", b.Bytes()),
	}).View()
	strips, err := analyze.NewStrips(t.Context(), v, everything(t, v).All(), math.MaxInt64)
	must(t, err)
	if got := strips.Of(spanNamed(t, v, "early"), 20); got[0] != "" || got[9] != "" && took < 300*time.Millisecond || got[19] != "select" {
		t.Errorf("the parts of a span of %v are %q", took, got)
	}
	list, err := analyze.Waits(t.Context(), v, everything(t, v), 10)
	must(t, err)
	if !slices.IsSortedFunc(list, func(a, b analyze.WaitTotal) int { return cmp.Compare(b.Time, a.Time) }) {
		t.Errorf("the longest is not the first: %+v", list)
	}
	// On a busy machine, either wait can be the longer one.
	slices.SortFunc(list, func(a, b analyze.WaitTotal) int { return cmp.Compare(a.Via, b.Via) })
	if len(list) != 2 || list[0].Via != "io.(*pipe).read" || list[1].Via != "io.(*pipe).write" || !strings.Contains(list[0].Text(), "select in 1 span of early in io.(*pipe).read at analyze_test.TestPartOfASpan.func") {
		t.Errorf("the places are %+v", list)
	}
	r, err := runOn(t, v, "{ mutex > 1ms }")
	must(t, err)
	if len(r.Hints) != 1 || r.Hints[0].Query != "{ span:mutex > 1ms }" {
		t.Errorf("the hints are %+v", r.Hints)
	}
}

// TestStatesOfAnExecutionTrace: if the view is an execution trace whose waits are rows, the hint says so.
func TestStatesOfAnExecutionTrace(t *testing.T) {
	v := viewOf(t, []*format.TraceEntry{format.Root(), tracetest.Entry("mutex", format.AttrSpanID, "0000000000000001", "wait.reason", "sync")})
	r, err := runOn(t, v, "{ span:mutex > 1ms }")
	must(t, err)
	if len(r.Hints) != 1 || !strings.Contains(r.Hints[0].Text, "such as { name = mutex }") {
		t.Errorf("the hints are %+v", r.Hints)
	}
}
