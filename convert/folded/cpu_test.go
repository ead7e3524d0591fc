package folded_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var cpuStacks = converttest.Format{Encode: folded.EncodeFoldedCPU}

// sampled returns a sample of a CPU profile, as package control/provider writes it.
func sampled(parent uint32, nano uint64, stack string) *format.TraceEntry {
	return &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: "cpu.profile", Target: "runtime/pprof"}, Attributes: tracetest.Attributes(
		format.AttrTime, uint64(base),
		"samples", nano/10_000_000,
		"cpu_nano", nano,
		"stack", stack,
	)}
}

// computing returns a trace with samples, some of them below spans.
func computing(t testing.TB) *view.View {
	work := "main.step /src/step.go:7\nmain.work[...] /src/work.go:12"
	return viewOf(t,
		resource("cart"),              // 1
		span(2, 1, "GET /cart", 0, 9), // 2
		span(3, 2, "load 9", 1, 5),    // 3
		sampled(3, 30_000_000, work),
		sampled(3, 10_000_000, strings.Replace(work, ":7", ":8", 1)),
		sampled(2, 20_000_000, work),
		sampled(1, 10_000_000, "0x4711\nruntime.goexit /go/asm.s:1"),
		sampled(1, 50_000_000, ""), // the sum of rare stacks, which have no entries of their own
		sampled(1, 0, "main.never /src/never.go:1"),
	)
}

func TestCPU(t *testing.T) {
	want := `cart;GET /cart;load_9;main.work[...];main.step 40000000
cart;GET /cart;main.work[...];main.step 20000000
cart;other functions 50000000
cart;runtime.goexit;0x4711 10000000
`
	if got := string(cpuStacks.Bytes(t, computing(t))); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestNoCPU checks that a trace without samples is an error and not an empty picture.
func TestNoCPU(t *testing.T) {
	expect.Is(t, cpuStacks.Encode(t.Context(), new(bytes.Buffer), shop(t)), folded.ErrNoCPU, "encode")
}

// TestHostileCPU encodes deep stacks, long names, names with separators, and times whose sum overflows.
func TestHostileCPU(t *testing.T) {
	entries := []*format.TraceEntry{resource("a;b\n")}
	for i := range uint32(2000) {
		entries = append(entries, span(i+2, i+1, "down", 0, 1))
	}
	n := uint32(len(entries))
	v := viewOf(t, append(entries,
		sampled(n, math.MaxUint64, strings.Repeat("main.f f.go:1\n", 5000)),
		sampled(n, math.MaxInt64, strings.Repeat("x", 1<<20)+"\n;\n\x00 3"),
		sampled(1, math.MaxInt64, "main.f;g\u202e f.go:1"),
		sampled(1, math.MaxInt64, "main.f;g\u202e f.go:1"),
	)...)
	out := cpuStacks.Bytes(t, v)
	for l := range bytes.Lines(out) {
		if !line.Match(bytes.TrimSuffix(l, []byte("\n"))) || len(l) > 20<<10 {
			t.Fatalf("%.200q of %d bytes", l, len(l))
		}
	}
	if !bytes.Contains(out, []byte(" 9223372036854775807\n")) {
		t.Errorf("%.300q", out)
	}
}
