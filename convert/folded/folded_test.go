package folded_test

import (
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/folded"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// viewOf returns a view of a root and the given entries.
func viewOf(t testing.TB, entries ...*format.TraceEntry) *view.View {
	t.Helper()
	return converttest.Open(t, converttest.Write(t, format.V1, append([]*format.TraceEntry{format.Root()}, entries...)...))
}

func resource(service string) *format.TraceEntry {
	e := tracetest.Entry("resource")
	if service != "" {
		e.Attributes = tracetest.Attributes("service.name", service)
	}
	return e
}

const base = 1_700_000_000_000_000_000

// span returns a span below parent. If end is before start, the span has not ended.
func span(id, parent uint32, name string, start, end int64) *format.TraceEntry {
	e := tracetest.Below(parent, tracetest.Entry(name,
		format.AttrTraceID, fmt.Sprintf("%032x", 1),
		format.AttrSpanID, fmt.Sprintf("%016x", id),
		format.AttrTime, uint64(base+start),
	))
	if end >= start {
		e.Add(format.AttrDuration, format.U64Value(uint64(end-start)))
	}
	return e
}

// shop returns a trace of two services with the difficult cases for lanes.
func shop(t testing.TB) *view.View {
	placed := span(3, 2, "GET /cart", 0, 1000)
	placed.Metadata.File, placed.Metadata.Line = format.Some("cart.go"), format.Some[uint32](42)
	end := &format.TraceEntry{Parent: 9, Message: format.Some("renamed"), Metadata: format.Metadata{Name: format.NameSpanEnd}, Attributes: tracetest.Attributes(
		format.AttrSpanID, fmt.Sprintf("%016x", 9),
		format.AttrDuration, uint64(50),
	)}
	return viewOf(t,
		resource("cart"), resource(""),
		placed, // 3
		span(4, 3, "SELECT; x\n", 100, 400),
		span(5, 3, "SELECT; x\n", 300, 600), // overlaps 4
		span(6, 4, "row", 150, 200),
		span(7, 3, "SELECT; x\n", 600, 700),
		span(8, 1, "HTTP 200", 2000, 2100),
		span(9, 1, "early name", 3000, -1), // ends in entry 10
		end,
		span(11, 1, "open", 4000, -1),
		span(12, 1, "last", 5000, 5100),
		tracetest.Below(4, tracetest.Log("a log")),
		span(14, 1, "", 6000, 6001),
		span(15, 1, "nothing", 6000, 6000),
	)
}

var stacks = converttest.Format{Encode: folded.EncodeFolded}

func TestConverters(t *testing.T) { stacks.Run(t) }

// TestTraceGolden checks the trace in testdata, which the example reads.
func TestTraceGolden(t *testing.T) {
	b := tracetest.ReadFile(t, shop(t).Files()[0].Name())
	converttest.Golden(t, "shop.iet", b)
}

func TestFoldedGolden(t *testing.T) {
	converttest.Golden(t, "shop.folded", stacks.Bytes(t, shop(t)))
}

var line = regexp.MustCompile(`^[^;\n]+(;[^;\n]+)* [0-9]+$`)

// TestNames encodes names that could break a line.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"a":               "a",
		"":                "(unnamed)",
		" \t\n":           "(unnamed)",
		"a;b":             "a:b",
		"a\nb\r\x00c":     "a b  c",
		"GET 200":         "GET_200",
		"GET 200 1.5":     "GET 200_1.5",
		"a 1 ":            "a_1",
		"x\u202ey\u2028z": "x y z",
		"bad\xff":         "bad\ufffd",
		"日本 語":            "日本 語",
		"\n7":             "7",
		"a\n7":            "a_7",
	} {
		out := string(stacks.Bytes(t, viewOf(t, resource("s"), span(1, 1, name, 0, 5))))
		if out != "s;"+want+" 5\n" {
			t.Errorf("%q: got %q, want the name %q", name, out, want)
		}
		if !line.MatchString(strings.TrimSuffix(out, "\n")) {
			t.Errorf("%q: %q is no line", name, out)
		}
	}
}

func TestServiceNames(t *testing.T) {
	out := string(stacks.Bytes(t, viewOf(t, resource("b;c"), resource("b:c"), resource("a\n"), span(1, 1, "x", 0, 5), span(2, 2, "x", 0, 5), span(3, 3, "x", 0, 1))))
	if want := "a;x 1\nb:c;x 10\n"; out != want {
		t.Errorf("got %q, want %q: one service for names that are written alike", out, want)
	}
}

// TestLarge encodes a trace of which only a part is in memory at a time. The names that were read first must still
// be right.
func TestLarge(t *testing.T) {
	entries := []*format.TraceEntry{resource("first service"), resource("second")}
	for i := range uint32(20_000) {
		e := span(i+1, 1+i%2, fmt.Sprint("GET /", i%3), int64(i), int64(i+1))
		e.Metadata.File = format.Some("file.go")
		entries = append(entries, e)
	}
	v := viewOf(t, entries...)
	out := string(stacks.Bytes(t, v))
	want := "first service;GET /0 3334\nfirst service;GET /1 3333\nfirst service;GET /2 3333\nsecond;GET /0 3333\nsecond;GET /1 3334\nsecond;GET /2 3333\n"
	expect.Equal(t, out, want, "out")
}

// TestDeep encodes a chain of spans that is deeper than a stack may be.
func TestDeep(t *testing.T) {
	const n = 3000
	entries := []*format.TraceEntry{resource("s")}
	for i := range uint32(n) {
		entries = append(entries, span(i+1, i+1, fmt.Sprint("f", i), int64(i), 2*n-int64(i)))
	}
	v := viewOf(t, entries...)
	var sum int
	for l := range strings.Lines(string(stacks.Bytes(t, v))) {
		if frames := strings.Count(l, ";") + 1; frames > 512 {
			t.Fatalf("a stack has %d frames, want 512 at most", frames)
		}
		var count int
		_, err := fmt.Sscan(l[strings.LastIndexByte(l, ' '):], &count)
		converttest.Must(t, err)
		sum += count
	}
	if sum != 2*n {
		t.Errorf("the lines sum up to %d ns, want %d", sum, 2*n)
	}
}

// TestSelfTimes checks the stacks, also of spans that overlap a sibling or end after their parent.
func TestSelfTimes(t *testing.T) {
	for name, c := range map[string]struct {
		spans []*format.TraceEntry
		want  string
	}{
		"children and a grandchild": {
			[]*format.TraceEntry{span(1, 1, "a", 1, 101), span(2, 2, "b", 11, 41), span(3, 3, "c", 21, 31), span(4, 2, "d", 41, 61)},
			"s;a 50\ns;a;b 20\ns;a;b;c 10\ns;a;d 20\n",
		},
		"a child that overlaps its sibling": {
			[]*format.TraceEntry{span(1, 1, "a", 1, 101), span(2, 2, "b", 11, 41), span(3, 2, "c", 21, 61)}, "s;a 50\ns;a;b 30\ns;a;c 40\n",
		},
		"a child that outlives its parent": {[]*format.TraceEntry{span(1, 1, "a", 1, 11), span(2, 2, "b", 6, 21)}, "s;a 5\ns;a;b 15\n"},
		"nothing long at the end of a sibling and of a parent": {
			[]*format.TraceEntry{span(1, 1, "a", 1, 21), span(2, 2, "b", 1, 11), span(3, 2, "c", 11, 11), span(4, 2, "d", 21, 21)}, "s;a 10\ns;a;b 10\n",
		},
		"long": {[]*format.TraceEntry{span(1, 1, "a", 1, 1<<62+1), span(2, 2, "b", 5, 10)}, "s;a 4611686018427387899\ns;a;b 5\n"},
	} {
		expect.Equal(t, string(stacks.Bytes(t, viewOf(t, append([]*format.TraceEntry{resource("s")}, c.spans...)...))), c.want, "%s", name)
	}
}

// TestAddsUp checks that the sum of all numbers is the sum of the self times of all spans.
func TestAddsUp(t *testing.T) {
	v := hard(t, 400)
	want, sum := 0.0, 0.0
	for r := range v.Rows() {
		self, _ := v.SelfTime(r)
		want += float64(self)
	}
	for l := range strings.Lines(string(stacks.Bytes(t, v))) {
		var n float64
		_, err := fmt.Sscan(l[strings.LastIndexByte(l, ' '):], &n)
		converttest.Must(t, err)
		sum += n
	}
	if math.Abs(want-sum) > want/1e12 {
		t.Errorf("the stacks have %g, and the spans %g", sum, want)
	}
}

// hard returns a view of spans that overlap in many ways, some of them at the smallest and largest times.
func hard(t testing.TB, n uint32) *view.View {
	entries := []*format.TraceEntry{resource("a"), resource("b")}
	x := uint32(1)
	for i := range n {
		x = x*1664525 + 1013904223
		parent := 1 + x>>8%(i+2)
		start := int64(x >> 16 % 50)
		e := span(i+1, parent, fmt.Sprint("f", x>>5%7), start, start+int64(x>>20%20))
		switch i {
		case 3:
			e.Attributes[2].Value = format.I64Value(-1 << 62)
		case 4:
			e.Attributes[3].Value = format.U64Value(1<<64 - 1)
		}
		entries = append(entries, e)
	}
	return viewOf(t, entries...)
}

// TestNothing encodes a trace without spans.
func TestNothing(t *testing.T) {
	if out := stacks.Bytes(t, viewOf(t, resource("a"))); len(out) != 0 {
		t.Errorf("got %q, want nothing", out)
	}
}

// TestLateParent encodes a span whose parent was written after it.
func TestLateParent(t *testing.T) {
	child := span(2, 1, "child", 10, 20)
	child.Add(format.AttrParentSpanID, format.StringValue(fmt.Sprintf("%016x", 3)))
	out := string(stacks.Bytes(t, viewOf(t, resource("s"), child, span(3, 1, "parent", 0, 100))))
	expect.Equal(t, out, "s;parent 90\ns;parent;child 10\n", "out")
}

func BenchmarkEncode(b *testing.B) {
	v := hard(b, 50_000)
	b.ReportAllocs()
	b.SetBytes(v.Files()[0].Size())
	for b.Loop() {
		converttest.Must(b, stacks.Encode(b.Context(), io.Discard, v))
	}
}
