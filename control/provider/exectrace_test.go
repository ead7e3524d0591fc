package provider

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime/trace"
	"slices"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/core/execbatch"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

func TestExecTrace(t *testing.T) {
	r, x := &record{}, &execTrace{}
	s := r.session(control.ExecTrace, nil)
	if err := x.dump(t.Context(), s); err == nil {
		t.Error("Dump before Start gives no error")
	}
	must(t, x.start(s))
	trace.Log(t.Context(), "entrace", "are you there")
	must(t, x.dump(t.Context(), s))
	must(t, x.stop())
	if err := x.dump(t.Context(), s); err == nil {
		t.Error("Dump after Stop gives no error")
	}
	expect.MustEqual(t, len(r.entries), 1, "entries")
	e := r.entries[0]
	v, _ := e.Attribute("data")
	data := v.Bytes()
	if e.Message.Value != "execution trace" || e.p != control.ExecTrace || e.u64(t, "bytes") != uint64(len(data)) {
		t.Errorf("entry %q of %v, %d bytes", e.Message.Value, e.p, len(data))
	}
	if !bytes.HasPrefix(data, []byte("go 1.")) || !bytes.HasPrefix(data[len("go 1.26"):], []byte(" trace\x00")) {
		t.Fatalf("the trace begins with %q", data[:min(16, len(data))])
	}
	if !bytes.Contains(data, []byte("are you there")) {
		t.Error("the trace has no log message in it")
	}

	out := tracetest.ParsedExecTrace(t, data)
	if !bytes.Contains(out, []byte("are you there")) {
		t.Errorf("go tool trace shows no log message in %d bytes", len(out))
	}
}

func TestExecTraceInUse(t *testing.T) {
	other := trace.NewFlightRecorder(trace.FlightRecorderConfig{})
	must(t, other.Start())
	r, x := &record{}, &execTrace{}
	expect.Says(t, x.start(r.session(control.ExecTrace, nil)), "already in use", "Start")
	must(t, x.stop())
	if !other.Enabled() {
		t.Error("the other one was stopped")
	}
	other.Stop()
	must(t, x.start(r.session(control.ExecTrace, nil)))
	must(t, x.stop())
}

// TestExecTraceWithTracer starts the provider while other code records an execution trace with trace.Start.
func TestExecTraceWithTracer(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the test is traced")
	}
	var other bytes.Buffer
	must(t, trace.Start(&other))
	defer trace.Stop()
	r, x := &record{}, &execTrace{}
	must(t, x.start(r.session(control.ExecTrace, nil)))
	must(t, x.dump(t.Context(), r.session(control.ExecTrace, nil)))
	must(t, x.stop())
	if len(r.entries) != 1 || !trace.IsEnabled() {
		t.Errorf("%d entries, the tracer runs: %v", len(r.entries), trace.IsEnabled())
	}
}

func TestExecTraceTooLarge(t *testing.T) {
	r, x := &record{}, &execTrace{}
	s := r.session(control.ExecTrace, map[string]string{"exec.trace.max_bytes": "-1"})
	must(t, x.start(s))
	x.most = 1000
	must(t, x.dump(t.Context(), s))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	expect.Is(t, x.dump(ctx, s), context.Canceled, "Dump")
	must(t, x.stop())
	if e := r.entries[0]; len(r.entries) != 1 || e.Message.Value != "execution trace too large to keep" || e.has("data") || e.u64(t, "bytes") != 0 || e.u64(t, "left_out_bytes") <= 1000 {
		t.Errorf("%d entries, the first is %q: %d bytes", len(r.entries), e.Message.Value, e.u64(t, "bytes"))
	}
	if err := x.start(r.session(control.ExecTrace, map[string]string{"exec.trace.marks": "yes"})); err == nil {
		t.Error("exec.trace.marks can be anything")
	}
}

// TestLastGenerations writes a trace of some seconds to a generations with various limits. The kept data is
// the end of the trace, from the start of a generation on, and can be parsed.
func TestLastGenerations(t *testing.T) {
	if trace.IsEnabled() {
		t.Skip("the test is traced")
	}
	if testing.Short() {
		t.Skip("it takes three seconds")
	}
	var whole bytes.Buffer
	must(t, trace.Start(&whole))
	for i := range 32 { // a generation takes about a second
		trace.Log(t.Context(), "moment", fmt.Sprintf("moment %02d", i))
		time.Sleep(100 * time.Millisecond)
	}
	trace.Stop()
	all := whole.Bytes()
	moments := momentsIn(t, all)
	expect.MustLen(t, moments, 32, "the trace has")
	some := 0
	for _, share := range []int{100, 80, 50, 30, 10} {
		most := len(all) * share / 100
		g := newGenerations(t.Context(), most)
		rest := all
		for rnd := rand.New(rand.NewPCG(uint64(share), 1)); len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(len(all)/7))
			_, err := g.Write(rest[:n])
			must(t, err)
			rest = rest[n:]
		}
		kept := g.trace()
		if len(kept) > most || kept != nil && (uint64(len(kept))+g.lost != uint64(len(all)) || !bytes.HasSuffix(all, kept[execbatch.HeaderSize:])) {
			t.Errorf("of %d bytes %d are kept, want %d at most, and %d are left out", len(all), len(kept), most, g.lost)
		}
		if kept == nil {
			continue
		}
		some++
		if got := momentsIn(t, kept); !slices.Equal(got, moments[len(moments)-len(got):]) {
			t.Errorf("of %d bytes there is %v", most, got)
		}
	}
	if some < 3 {
		t.Errorf("only %d of the sizes keep something", some)
	}
}

// momentsIn returns the messages "moment NN" in an execution trace.
func momentsIn(t *testing.T, data []byte) (moments []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`moment \d\d`).FindAll(tracetest.ParsedExecTrace(t, data), -1) {
		moments = append(moments, string(m))
	}
	return moments
}

// FuzzGenerations writes arbitrary bytes in two parts. The kept data is within the limit, and all other
// bytes are counted.
func FuzzGenerations(f *testing.F) {
	f.Add([]byte("go 1.26 trace\x00\x00\x00\x01\x01\x01\x01\x02ab\x01\x02\x01\x01\x02cd\x34"), uint16(20), uint16(3))
	f.Add([]byte("go 1.26 trace\x00\x00\x00\x31\x01\x01\x01\x01\x02ab\x34\x01\x02\x01\x01\x05cdefg"), uint16(22), uint16(30))
	f.Fuzz(func(t *testing.T, b []byte, most, at uint16) {
		g := newGenerations(t.Context(), int(most))
		n := min(int(at), len(b))
		for _, part := range [][]byte{b[:n], b[n:]} {
			if n, err := g.Write(part); err != nil || n != len(part) {
				t.Fatal(n, err)
			}
		}
		if kept := g.trace(); len(kept) > int(most) && !g.skips || uint64(len(g.data))+g.lost != uint64(len(b)) {
			t.Errorf("%d bytes are kept and %d left out of %d, want %d at most", len(kept), g.lost, len(b), most)
		}
	})
}
