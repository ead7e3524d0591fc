//go:build conformance

package collector

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// A received holds the traces and log records that the Collector's receiver accepted.
type received struct {
	endpoint string

	mu     sync.Mutex
	traces []ptrace.Traces
	logs   []plog.Logs
	sizes  []int // the number of spans or log records in each request
}

// receive starts the Collector's receiver of OTLP over HTTP.
func receive(t *testing.T) *received {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	must(t, l.Close()) // the receiver needs a fixed address, because it does not report which one it uses
	r := &received{endpoint: "http://" + address}
	f := otlpreceiver.NewFactory()
	cfg := f.CreateDefaultConfig()
	protocols := map[string]any{"protocols": map[string]any{"http": map[string]any{"endpoint": address}}}
	must(t, confmap.NewFromStringMap(protocols).Unmarshal(cfg))
	traces, err := consumer.NewTraces(func(_ context.Context, td ptrace.Traces) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		own := ptrace.NewTraces()
		td.CopyTo(own)
		r.traces, r.sizes = append(r.traces, own), append(r.sizes, td.SpanCount())
		return nil
	})
	must(t, err)
	logs, err := consumer.NewLogs(func(_ context.Context, ld plog.Logs) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		own := plog.NewLogs()
		ld.CopyTo(own)
		r.logs, r.sizes = append(r.logs, own), append(r.sizes, ld.LogRecordCount())
		return nil
	})
	must(t, err)
	set := receivertest.NewNopSettings(f.Type())
	ofTraces, err := f.CreateTraces(t.Context(), set, cfg, traces)
	must(t, err)
	ofLogs, err := f.CreateLogs(t.Context(), set, cfg, logs)
	must(t, err)
	for _, c := range []component.Component{ofTraces, ofLogs} {
		must(t, c.Start(t.Context(), componenttest.NewNopHost()))
		t.Cleanup(func() { _ = c.Shutdown(context.Background()) }) // the test is over
	}
	return r
}

// command builds the command entrace and returns its path.
func command(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "entrace")
	build := exec.Command("go", "build", "-o", name, "./cmd/entrace")
	build.Dir = "../../../.." // the module of the command
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return name
}

// manyTraces returns n small spans.
func manyTraces(n int) ptrace.Traces {
	td := ptrace.NewTraces()
	spans := td.ResourceSpans().AppendEmpty().ScopeSpans().AppendEmpty().Spans()
	for i := range n {
		s := spans.AppendEmpty()
		s.SetTraceID(traceID(1))
		s.SetSpanID(pcommon.SpanID{1, byte(i >> 8), byte(i)})
		s.SetName("small")
		s.SetStartTimestamp(pcommon.Timestamp(1_700_000_000_000_000_000 + i))
		s.SetEndTimestamp(s.StartTimestamp() + 1)
	}
	return td
}

// TestReplayToCollector replays files to the Collector's receiver, with and without compression. The receiver must
// get all records, in batches. With --new-ids, children, links and log records must still refer to their spans.
func TestReplayToCollector(t *testing.T) {
	exe := command(t)
	replay := func(args ...string) {
		t.Helper()
		cmd := exec.Command(exe, append([]string{"replay"}, args...)...)
		cmd.Env = append(os.Environ(), "GOGC=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	traces := []ptrace.Traces{richTraces(), manyTraces(1000)}
	logs := []plog.Logs{richLogs()}
	files := []string{
		decode(t, exportFile(t, "proto", traces[:1], nil)), decode(t, exportFile(t, "proto", nil, logs)),
		decode(t, exportFile(t, "proto", traces[1:], nil)),
	}
	want := canonicals(t, traces, logs)
	for _, compression := range []string{"gzip", "none"} {
		t.Setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
		r := receive(t)
		replay(append(files, "--endpoint", r.endpoint)...)
		compare(t, canonicals(t, r.traces, r.logs), want)
		for _, n := range r.sizes {
			if n > 512 {
				t.Errorf("a request has %d", n)
			}
		}
	}
	plain, changed := receive(t), receive(t)
	replay(append(files, "--endpoint", plain.endpoint)...)
	for _, f := range files { // each file separately, with the same key
		replay(f, "--endpoint", changed.endpoint, "--new-ids=k", "--shift", "+1h")
	}
	if got, want := knots(changed), knots(plain); got != want || want.children == 0 || want.links == 0 || want.logs == 0 {
		t.Errorf("with new ids %+v belong together, with their own %+v", got, want)
	}
	for _, id := range []pcommon.TraceID{traceID(1), traceID(2)} {
		if strings.Contains(strings.Join(canonicals(t, changed.traces, changed.logs), "\n"), id.String()) {
			t.Errorf("the trace id %s is there", id)
		}
	}
}

// knots counts the children, links and log records whose span was also received.
func knots(r *received) (n struct{ children, links, logs int }) {
	type ref struct {
		trace pcommon.TraceID
		span  pcommon.SpanID
	}
	there := make(map[ref]bool)
	each := func(fn func(ptrace.Span)) {
		for _, td := range r.traces {
			for _, rs := range td.ResourceSpans().All() {
				for _, ss := range rs.ScopeSpans().All() {
					for _, s := range ss.Spans().All() {
						fn(s)
					}
				}
			}
		}
	}
	each(func(s ptrace.Span) { there[ref{s.TraceID(), s.SpanID()}] = true })
	each(func(s ptrace.Span) {
		if there[ref{s.TraceID(), s.ParentSpanID()}] {
			n.children++
		}
		for _, l := range s.Links().All() {
			if there[ref{l.TraceID(), l.SpanID()}] {
				n.links++
			}
		}
	})
	for _, ld := range r.logs {
		for _, rl := range ld.ResourceLogs().All() {
			for _, sl := range rl.ScopeLogs().All() {
				for _, l := range sl.LogRecords().All() {
					if there[ref{l.TraceID(), l.SpanID()}] {
						n.logs++
					}
				}
			}
		}
	}
	return n
}
