package perfetto_test

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/convert/perfetto"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

const base = converttest.Base

var converter = converttest.Format{
	Encode: perfetto.Encode,
	Check:  func(t testing.TB, out []byte) { check(t, out) },
	Golden: map[string]string{"sample.pftrace": sampleFile("sample"), "timeless.pftrace": sampleFile("timeless"), "empty.pftrace": sampleFile("empty")},
}

func TestConverter(t *testing.T) { converter.Run(t) }

func FuzzEncode(f *testing.F) { converter.Fuzz(f) }

// sampled returns the events of the sample trace.
func sampled(t *testing.T) []event {
	t.Helper()
	return check(t, converter.Bytes(t, converttest.Open(t, sampleFile("sample"))))
}

// sampleFile returns the name of a trace in testdata of package chrome. The trace sample has every kind of entry
// and value.
func sampleFile(name string) string { return filepath.Join("..", "chrome", "testdata", name+".iet") }

// TestReadable compares the output, as readable text, with golden files.
func TestReadable(t *testing.T) {
	for _, name := range []string{"sample", "timeless", "empty"} {
		var text strings.Builder
		converttest.Must(t, dump(&text, "Trace", converter.Bytes(t, converttest.Open(t, sampleFile(name))), ""))
		converttest.Golden(t, name+".txt", []byte(text.String()))
	}
}

// check checks that spans nest on each track, that times do not decrease, and that flows lead from one beginning to
// another.
func check(t testing.TB, b []byte) []event {
	t.Helper()
	all, tracks, err := events(b)
	converttest.Must(t, err)
	depth := make(map[uint64]int)
	flows := make(map[uint64]bool)
	last := uint64(0)
	for i, e := range all {
		if e.time < last {
			t.Errorf("event %d is at %d, behind %d", i, e.time, last)
		}
		last = e.time
		if parent, ok := tracks[e.track]; !ok || parent == 0 {
			t.Errorf("event %d is on track %d, which is none", i, e.track)
		}
		switch e.kind {
		case 1:
			depth[e.track]++
		case 2:
			depth[e.track]--
			if depth[e.track] < 0 {
				t.Errorf("event %d ends nothing on track %d", i, e.track)
			}
		}
		for _, id := range e.flows {
			if flows[id] || id == 0 || e.kind != 1 {
				t.Errorf("flow %d starts twice, or in no slice", id)
			}
			flows[id] = true
		}
		for _, id := range e.ends {
			if !flows[id] || e.kind != 1 {
				t.Errorf("flow %d ends before it starts, or in no slice", id)
			}
			delete(flows, id)
		}
	}
	for track, n := range depth {
		expect.Equal(t, n, 0, "slices open on track %d", track)
	}
	if len(flows) > 0 {
		t.Errorf("flows %v do not end", flows)
	}
	return all
}

// pairs pairs beginnings with ends. On a track, the end belongs to the last open beginning.
func pairs(all []event) map[string][2]uint64 {
	open := make(map[uint64][]event)
	found := make(map[string][2]uint64)
	for _, e := range all {
		stack := open[e.track]
		switch e.kind {
		case 1:
			open[e.track] = append(stack, e)
		case 2:
			b := stack[len(stack)-1]
			open[e.track] = stack[:len(stack)-1]
			found[b.name] = [2]uint64{b.time, e.time}
		}
	}
	return found
}

func TestEncodeTimes(t *testing.T) {
	got := pairs(sampled(t))
	want := map[string][2]uint64{
		"GET /cart": {0, 1000}, "SELECT": {100, 600}, "overlaps SELECT": {300, 800}, "no time at all": {600, 600}, "pay": {400, 700},
		"open": {850, 2000}, "skewed": {900, 900}, "job": {1000, 2000}, "twice": {960, 970},
		"Profile": {980, 990},
	}
	for name, w := range want {
		if g := got[name]; g[0] != base+w[0] || g[1] != base+w[1] {
			t.Errorf("%q is from %d to %d, want %d to %d", name, g[0]-base, g[1]-base, w[0], w[1])
		}
	}
	expect.Equal(t, len(got), len(want), "slices")
}

// TestEncodeInstants checks that each span event is on the track of its span while the span is open.
func TestEncodeInstants(t *testing.T) {
	open := make(map[uint64][]string)
	found := make(map[string]string)
	for _, e := range sampled(t) {
		stack := open[e.track]
		switch e.kind {
		case 1:
			open[e.track] = append(stack, e.name)
		case 2:
			open[e.track] = stack[:len(stack)-1]
		case 3:
			found[e.name] = strings.Join(stack, "/")
		}
	}
	for name, want := range map[string]string{
		"exception": "GET /cart", "without a time": "GET /cart/SELECT", "rows read": "GET /cart/SELECT", "too late": "", "foreign": "", "event": "",
	} {
		if got, ok := found[name]; !ok || got != want {
			t.Errorf("%q is in %q, %t, want %q", name, got, ok, want)
		}
	}
}

func TestEncodeFlows(t *testing.T) {
	var got []string
	for _, e := range sampled(t) {
		if len(e.flows)+len(e.ends) > 0 {
			got = append(got, fmt.Sprint(e.name, " ", e.flows, e.ends))
		}
	}
	want := []string{"GET /cart [1 3 4] []", "overlaps SELECT [2] [1]", "pay [] [2]", "open [] [3]", "job [] [4]"}
	expect.Slice(t, got, want, "flows")
}

// TestEncodeNests encodes many random traces with all kinds of unusual times. Each slice must begin and end with
// its span.
func TestEncodeNests(t *testing.T) {
	for seed := range uint64(400) {
		v := converttest.View(t, converttest.Random(3+int(seed)%80, seed)...)
		got := pairs(check(t, converter.Bytes(t, v)))
		spans := 0
		for id := range v.Rows() {
			if v.Role(id) != view.RoleSpan {
				continue
			}
			spans++
			e, err := v.Entry(id)
			converttest.Must(t, err)
			start, _ := v.Time(id)
			took, ended := v.Duration(id)
			g := got[e.Metadata.Name]
			if g[0] != uint64(start.UnixNano()) || ended && g[1]-g[0] != uint64(took) {
				t.Errorf("%s is from %d to %d, want from %d for %v", e.Metadata.Name, g[0]-base, g[1]-base, start.UnixNano()-base, took)
			}
		}
		expect.Equal(t, len(got), spans, "slices")
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestEncodeNames encodes more names than are interned, some of them long.
func TestEncodeNames(t *testing.T) {
	entries := []*format.TraceEntry{format.Root()}
	want := make([]string, 70_000)
	for i := range want {
		want[i] = "name " + strconv.Itoa(i)
		if i%1000 == 0 {
			want[i] += strings.Repeat("ü", 1000)
		}
		s := &otel.Span{Name: want[i], TraceID: [16]byte{1}, SpanID: [8]byte{4: 1, 5: byte(i >> 16), 6: byte(i >> 8), 7: byte(i)}, Start: int64(i + 1), Ended: true}
		entries = append(entries, s.Entry(otel.Where{}))
	}
	var got []string
	for _, e := range check(t, converter.Bytes(t, converttest.View(t, entries...))) {
		if e.kind == 1 {
			got = append(got, e.name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d names came back otherwise, of %d", len(got), len(want))
	}
}

// TestEncodeOld encodes times before 1970.
func TestEncodeOld(t *testing.T) {
	span := func(id byte, start, took int64) *format.TraceEntry {
		return (&otel.Span{Name: strconv.Itoa(int(id)), TraceID: [16]byte{1}, SpanID: [8]byte{id}, Start: start, Duration: took, Ended: true}).Entry(otel.Where{})
	}
	got := pairs(check(t, converter.Bytes(t, converttest.View(t, format.Root(), span(1, -50, 60), span(2, 20, 1)))))
	if got["1"] != [2]uint64{0, 60} || got["2"] != [2]uint64{70, 71} {
		t.Errorf("slices are %v", got)
	}
}

func BenchmarkEncode(b *testing.B) {
	entries := []*format.TraceEntry{format.Root(), (&otel.Resource{}).Entry()}
	for i := range 20000 {
		s := &otel.Span{
			Name: "SELECT name FROM products", TraceID: [16]byte{15: 1}, SpanID: [8]byte{0: 1, 5: byte(i >> 16), 6: byte(i >> 8), 7: byte(i)},
			Start: base + int64(i/10*1000+i%10*90), Duration: 80, Ended: true, Kind: otel.KindClient, Scope: otel.Scope{Name: "shop/cart"},
			Attributes: []otel.Attribute{
				{Name: "db.system", Value: format.StringValue("postgresql")},
				{Name: "db.statement", Value: format.StringValue("SELECT name FROM products WHERE id = $1")},
				{Name: "db.rows", Value: format.I64Value(int64(i))},
				{Name: "db.cached", Value: format.BoolValue(i%2 == 0)},
			},
		}
		parent := uint32(1)
		if i%10 > 0 {
			parent = uint32(2 + i/10*10)
		} else {
			s.Duration = 990
		}
		e := s.Entry(otel.Where{Parent: true})
		e.Parent = parent
		entries = append(entries, e)
	}
	v := converttest.View(b, entries...)
	b.SetBytes(int64(len(converter.Bytes(b, v))))
	b.ReportAllocs()
	for b.Loop() {
		converttest.Must(b, perfetto.Encode(b.Context(), io.Discard, v))
	}
}
