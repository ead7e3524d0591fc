package chrome_test

import (
	"bytes"
	"encoding/json"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/entrace-go/entrace/convert/chrome"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/jsontext"
)

var converter = converttest.Format{
	Encode: chrome.Encode,
	Check:  func(t testing.TB, out []byte) { parse(t, out) },
	Golden: map[string]string{
		"sample.json": filepath.Join("testdata", "sample.iet"), "timeless.json": filepath.Join("testdata", "timeless.iet"),
		"empty.json": filepath.Join("testdata", "empty.iet"),
	},
}

func TestConverter(t *testing.T) { converter.Run(t) }

func FuzzEncode(f *testing.F) { converter.Fuzz(f) }

// encoded encodes a trace of the given entries and parses the result.
func encoded(t testing.TB, entries []*format.TraceEntry) *parsed {
	t.Helper()
	return parse(t, converter.Bytes(t, converttest.Open(t, converttest.Write(t, format.V1, entries...))))
}

// An event is an element of traceEvents.
type event struct {
	Phase    string          `json:"ph"`
	Name     string          `json:"name"`
	Category string          `json:"cat"`
	Time     json.Number     `json:"ts"`
	Duration json.Number     `json:"dur"`
	Process  int             `json:"pid"`
	Thread   int             `json:"tid"`
	Scope    string          `json:"s"`
	ID       int             `json:"id"`
	BindTo   string          `json:"bp"`
	Args     map[string]any  `json:"args"`
	Raw      json.RawMessage `json:"-"`
}

// nanos converts microseconds with three decimals to nanoseconds.
func nanos(t testing.TB, n json.Number) uint64 {
	t.Helper()
	whole, rest, _ := strings.Cut(string(n), ".")
	if len(rest) != 3 {
		t.Errorf("time %s has not three decimals", n)
	}
	ns, err := strconv.ParseUint(whole+rest, 10, 64)
	expect.Is(t, err, nil, "time %s", n)
	return ns
}

type parsed struct {
	Unit   string            `json:"displayTimeUnit"`
	Other  map[string]string `json:"otherData"`
	Events []event           `json:"traceEvents"`
}

// parse parses the output of Encode strictly, and checks conditions that must hold for every trace.
func parse(t testing.TB, b []byte) *parsed {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	d.DisallowUnknownFields()
	var p parsed
	converttest.Must(t, d.Decode(&p))
	for _, r := range string(b) {
		if r != '\n' && (unicode.IsControl(r) || jsontext.Acts(r)) {
			t.Fatalf("%U is in the output", r)
		}
	}
	check(t, &p)
	return &p
}

type slice struct{ start, end uint64 }

// check checks that the spans on each lane nest, that times do not decrease, and that the ends of arrows are within
// spans.
func check(t testing.TB, p *parsed) {
	t.Helper()
	open := make(map[[2]int][]slice)
	flows := make(map[int]event)
	last := uint64(0)
	for i, e := range p.Events {
		if e.Process < 1 || e.Thread < 1 && e.Phase != "M" {
			t.Errorf("%s of %q is on %d/%d", e.Phase, e.Name, e.Process, e.Thread)
		}
		if e.Phase == "M" {
			continue
		}
		at := nanos(t, e.Time)
		if at < last {
			t.Errorf("event %d, %q, is at %d, behind %d", i, e.Name, at, last)
		}
		last = at
		lane := [2]int{e.Process, e.Thread}
		switch e.Phase {
		case "X":
			s := slice{at, at + nanos(t, e.Duration)}
			stack := open[lane]
			for len(stack) > 0 && stack[len(stack)-1].end <= s.start && stack[len(stack)-1].end < s.end {
				stack = stack[:len(stack)-1]
			}
			if len(stack) > 0 && s.end > stack[len(stack)-1].end {
				t.Errorf("%q, %v, overlaps %v on lane %v", e.Name, s, stack[len(stack)-1], lane)
			}
			open[lane] = append(stack, s)
		case "s", "f":
			stack := open[lane]
			if len(stack) == 0 || stack[len(stack)-1].start != at {
				t.Errorf("arrow %d is not at the beginning of a slice", e.ID)
			}
			if e.Phase == "s" {
				if _, twice := flows[e.ID]; twice {
					t.Errorf("arrow %d starts twice", e.ID)
				}
				flows[e.ID] = e
			} else if s, ok := flows[e.ID]; !ok || e.BindTo != "e" || s.Name != e.Name || s.Category != e.Category {
				t.Errorf("arrow %d ends and did not start, or otherwise: %+v and %+v", e.ID, s, e)
			} else {
				delete(flows, e.ID)
			}
		case "i":
			expect.Equal(t, e.Scope, "t", "instant %q has scope", e.Name)
		default:
			t.Errorf("phase %q", e.Phase)
		}
	}
	for id := range flows {
		t.Errorf("arrow %d does not end", id)
	}
}

func find(t testing.TB, p *parsed, phase, name string) *event {
	t.Helper()
	for i := range p.Events {
		if e := &p.Events[i]; e.Phase == phase && e.Name == name {
			return e
		}
	}
	t.Fatalf("there is no %s of %q", phase, name)
	return nil
}

// TestSampleFiles checks that the traces in testdata have the entries from which they were made.
func TestSampleFiles(t *testing.T) {
	for name, entries := range map[string][]*format.TraceEntry{"sample": sample(), "timeless": timeless(), "empty": {format.Root()}} {
		made := tracetest.ReadFile(t, converttest.Write(t, format.V1, entries...))
		converttest.Golden(t, name+".iet", made)
	}
}

func TestEncodeTimes(t *testing.T) {
	p := encoded(t, sample())
	expect.Equal(t, p.Other["base_unix_nano"], strconv.FormatInt(base, 10), "the base")
	for _, want := range []struct {
		phase, name, time, took string
		process, thread         int
	}{
		{"X", "GET /cart", "0.000", "1.000", 1, 1},
		{"X", "SELECT", "0.100", "0.500", 1, 1},
		{"X", "overlaps SELECT", "0.300", "0.500", 1, 2},
		{"X", "no time at all", "0.600", "0.000", 1, 1},
		{"X", "pay", "0.400", "0.300", 2, 1},
		{"X", "skewed", "0.900", "0.000", 1, 1},
		{"X", "job", "1.000", "1.000", 1, 1},
		{"i", "exception", "1.000", "", 1, 1},
		{"i", "without a time", "0.100", "", 1, 1},
		{"i", "rows read", "0.555", "", 1, 1},
		{"i", "too late", "1.500", "", 1, 3},
		{"i", "foreign", "1.999", "", 3, 1},
		{"X", "Profile ", "0.980", "0.010", 1, 1},
		{"X", "open", "0.850", "1.150", 1, 2},
	} {
		e := find(t, p, want.phase, want.name)
		if e.Time.String() != want.time || e.Duration.String() != want.took || e.Process != want.process || e.Thread != want.thread {
			t.Errorf("%q is at %s for %s on %d/%d, want %v", want.name, e.Time, e.Duration, e.Process, e.Thread, want)
		}
	}
	if open := find(t, p, "X", "open"); open.Args["entrace.open"] != true {
		t.Errorf("the open span has %v", open.Args)
	}
}

func TestEncodeArgs(t *testing.T) {
	p := encoded(t, sample())
	get := find(t, p, "X", "GET /cart")
	for name, want := range map[string]string{
		"trace_id": `"000000000000000000000000000000aa"`, "span_id": `"0000000000000001"`, "kind": `"server"`, "status": `"ERROR"`,
		"scope": `"shop/cart"`, "otel.status_description": `"boom"`, "otel.attr.kind": `"user's"`, "otel.attr.span_id": `"user's"`,
		"bool": `true`, "f": `2.0`, "nan": `"NaN"`, "-inf": `"-Infinity"`, "max": `"18446744073709551615"`, "min": `"-9223372036854775808"`,
		"2^53": `9007199254740992`, "2^53+1": `"9007199254740993"`, "u128": `"18446744073709551616"`, "bytes": `"AP8="`,
		"list": `[1,"9223372036854775807",null,[],{"a.b":2.0,"t":true}]`, "any": `{"k":"AP8=","k#2":"NaN"}`, "": `"no name"`,
	} {
		if got, err := json.Marshal(get.Args[name]); err != nil || string(got) != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if get.Args["s"] != "a\"b\\\n\x01\x7f\u0085\u202e</script>ü" {
		t.Errorf("a text became %q", get.Args["s"])
	}
	if got := find(t, p, "X", "SELECT").Args["parent_span_id"]; got != "0000000000000001" {
		t.Errorf("the parent of SELECT is %v", got)
	}
	if got := find(t, p, "X", "pay").Args["parent_span_id"]; got != "0000000000000003" {
		t.Errorf("the parent of pay is %v", got)
	}
	if got := find(t, p, "X", "Profile ").Args; got["otel.attr.data"] != "of no type" || got["data"] != nil {
		t.Errorf("an attribute called data becomes %v", got)
	}
	twice := find(t, p, "X", "twice").Args
	if twice["x"] == nil || twice["x#2"] == nil {
		t.Errorf("one name twice becomes %v", twice)
	}
}

func TestEncodeArrows(t *testing.T) {
	p := encoded(t, sample())
	var got []string
	for _, e := range p.Events {
		if e.Phase == "s" || e.Phase == "f" {
			got = append(got, e.Phase+" "+e.Name+" "+e.Time.String()+" "+strconv.Itoa(e.Process)+"/"+strconv.Itoa(e.Thread))
		}
	}
	want := "s child 0.000 1/1, s child 0.000 1/1, s link 0.000 1/1, f child 0.300 1/2, s child 0.300 1/2, f child 0.400 2/1, f child 0.850 1/2, f link 1.000 1/1"
	expect.Equal(t, strings.Join(got, ", "), want, "arrows")
}

// TestEncodeNests encodes many random traces with all kinds of unusual times.
func TestEncodeNests(t *testing.T) {
	for seed := range uint64(400) {
		entries := converttest.Random(3+int(seed)%80, seed)
		p := encoded(t, entries)
		spans, want := 0, 0
		for _, e := range p.Events {
			if e.Phase == "X" {
				spans++
			}
		}
		for _, e := range entries {
			if _, ok := e.Attribute(format.AttrSpanID); ok {
				want++
			}
		}
		expect.MustEqual(t, spans, want, "seed %d: spans", seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestEncodeExtremes encodes the smallest and the largest possible times.
func TestEncodeExtremes(t *testing.T) {
	at := func(start int64, took uint64) *format.TraceEntry {
		return traced(tracetest.Entry(strconv.FormatInt(start, 10),
			format.AttrTime, start,
			format.AttrSpanID, "0000000000000001",
			format.AttrDuration, took,
		), 1)
	}
	const far = 1<<63 - 1
	p := encoded(t, []*format.TraceEntry{format.Root(), at(-far, 5), at(far, 5), at(-3, 1<<64-1), at(7, far)})
	for name, want := range map[string][2]string{
		"-9223372036854775807": {"0.000", "0.005"}, "9223372036854775807": {"18446744073709551.614", "0.000"},
		"-3": {"9223372036854775.804", "9223372036854775.807"}, "7": {"9223372036854775.814", "9223372036854775.800"},
	} {
		if e := find(t, p, "X", name); e.Time.String() != want[0] || e.Duration.String() != want[1] {
			t.Errorf("%s is at %s for %s, want %v", name, e.Time, e.Duration, want)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	entries := []*format.TraceEntry{format.Root(), (&otel.Resource{}).Entry()}
	for i := range 20000 {
		parent := uint32(1)
		if i%10 > 0 {
			parent = uint32(2 + i/10*10)
		}
		start := int64(i/10*1000 + i%10*90)
		e := span(byte(i), "SELECT name FROM products", start, start+80, func(s *otel.Span) {
			s.SpanID = [8]byte{0: 1, 5: byte(i >> 16), 6: byte(i >> 8), 7: byte(i)}
			s.Attributes = []otel.Attribute{
				text("db.system", "postgresql"), text("db.statement", "SELECT name FROM products WHERE id = $1"), value("db.rows", format.I64Value(int64(i))),
				value("db.cached", format.BoolValue(i%2 == 0)),
			}
			if i%10 == 0 {
				s.Duration = 990
			}
		})
		entries = append(entries, below(parent, traced(e, 1)))
	}
	v := converttest.View(b, entries...)
	out := int64(len(converter.Bytes(b, v)))
	b.ReportAllocs()
	b.SetBytes(out)
	for b.Loop() {
		converttest.Must(b, chrome.Encode(b.Context(), io.Discard, v))
	}
}
