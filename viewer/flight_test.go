package viewer_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/analyze"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
	"github.com/entrace-go/entrace/viewer"
)

// flight returns the trace of a flight recorder after its process crashed. It has an entry
// entrace.trace, with a measurement and the crash below it, and a span that never ended.
func flight() []*format.TraceEntry {
	str, ms := format.StringValue, func(n uint64) format.Value { return format.U64Value(1_000_000 * n) }
	entry := func(parent uint32, name, message string, level format.Level, at uint64, more ...format.Attribute) *format.TraceEntry {
		e := &format.TraceEntry{Parent: parent, Metadata: format.Metadata{Name: name, Level: level}}
		if message != "" {
			e.Message = format.Some(message)
		}
		e.Attributes = append(more, format.Attribute{Name: format.AttrTime, Value: ms(at)})
		return e
	}
	return []*format.TraceEntry{
		format.Root(),
		entry(0, "entrace.trace", "", format.LevelError, 900, format.Attribute{Name: "trigger", Value: str("crash")}, format.Attribute{Name: "reason", Value: str("panic: out of stock")}, format.Attribute{Name: "dropped.full", Value: format.U64Value(3)}),
		entry(0, format.NameResource, "shop", format.LevelInfo, 0, format.Attribute{Name: "service.name", Value: str("shop")}),
		entry(2, "GET /cart", "", format.LevelInfo, 100, format.Attribute{Name: format.AttrSpanID, Value: str("0000000000000003")}, format.Attribute{Name: format.AttrTraceID, Value: str("0000000000000000000000000000000a")}),
		entry(1, "runtime.metrics", "", format.LevelInfo, 50, format.Attribute{Name: "interval_nano", Value: format.U64Value(5)}),
		entry(1, "runtime.metrics", "", format.LevelInfo, 250, format.Attribute{Name: "interval_nano", Value: format.U64Value(5)}),
		entry(1, mapping.NameCrash, "panic: out of stock\n\ngoroutine 7 [running]:", format.LevelError, 950),
		entry(3, mapping.NameLink, "", format.LevelError, 100, format.Attribute{Name: mapping.AttrLinkTraceID, Value: str("00")}),
		entry(0, mapping.NameEnd, "", format.LevelTrace, 5000),
	}
}

// TestHitsErrorsAndTimesAreThoseOfTheTree compares the counts of the page with the rows that it shows
// when all rows are open.
func TestHitsErrorsAndTimesAreThoseOfTheTree(t *testing.T) {
	h := served(t, flight())
	all := rowsOf(t, h, "depth=9")
	expect.Equal(t, all.text(), "GET /cart, entrace.trace, ·runtime.metrics, ·runtime.metrics, ·crash", "the tree has")
	type found struct{ Count, Row int }
	for _, q := range []string{"{}", ".interval_nano > 0", "runtime", "stock", "level >= error", "{ entry:role = recorder }", "{ entry:role = resource }"} {
		r := rowsOf(t, h, "depth=9&q="+url.QueryEscape(q))
		hits := 0
		for _, f := range r.flags {
			hits += f >> 17 & 1
		}
		expect.Equal(t, jsonOf[found](t, h, "/api/find?q="+url.QueryEscape(q)).Count, hits, "%s: hits", q)
		only := rowsOf(t, h, "depth=9&only="+url.QueryEscape(q)+"&q="+url.QueryEscape(q))
		marked := 0
		for _, f := range only.flags {
			marked += f >> 17 & 1
		}
		if marked != hits || hits == 0 && only.Total > 0 {
			t.Errorf("%s: the hits alone are %d rows, %d of them hits, want %d", q, only.Total, marked, hits)
		}
	}
	if f := jsonOf[found](t, h, "/api/find?what=error&dir=next"); f.Count != 1 || !slices.Contains(all.row, uint32(f.Row)) {
		t.Errorf("of the errors there are %d, the first is row %d: want the crash alone", f.Count, f.Row)
	}
	meta := jsonOf[struct {
		First int64 `json:"first_unix_nano"`
		Last  int64 `json:"last_unix_nano"`
	}](t, h, "/api/meta")
	if first, last := slices.Min(all.starts), slices.Max(all.starts); all.From != first || all.To != last || meta.First != first || meta.Last != last {
		t.Errorf("the axis is from %d to %d, the trace from %d to %d, the rows from %d to %d", all.From, all.To, meta.First, meta.Last, first, last)
	}
	for _, r := range all.row {
		if w := ask(h, http.MethodGet, "/api/entry?row="+strconv.Itoa(int(r))); w.Code != http.StatusOK {
			t.Errorf("row %d has no details: %d", r, w.Code)
		}
	}
}

// TestTopOfFlightRecorderSaysWhyAndHowLongNothingHappened checks the overview of a file from a flight
// recorder.
func TestTopOfFlightRecorderSaysWhyAndHowLongNothingHappened(t *testing.T) {
	state := viewer.State{Word: "killed", Text: "killed, recovered, 3 entries dropped (crash: panic: out of stock)"}
	h := serve(t, viewOf(t, format.ET, flight()), viewer.Options{States: func(*view.View) (string, []viewer.State) { return "the states", []viewer.State{state} }})
	meta := jsonOf[struct {
		State  string
		States []viewer.State
	}](t, h, "/api/meta")
	if meta.State != "the states" || len(meta.States) != 1 || meta.States[0] != state {
		t.Errorf("the states are %+v, want %v", meta, state)
	}
	top := jsonOf[struct {
		Errors int
		Gaps   []struct {
			Took          int64 `json:"duration_nano"`
			Before, After *struct{ Name string }
		}
		Services []analyze.ServiceCount
	}](t, h, "/api/top")
	if len(top.Gaps) == 0 || top.Gaps[0].Took != 850000000 || top.Gaps[0].Before.Name != "GET /cart" || top.Gaps[0].After != nil {
		t.Errorf("the longest silence is %+v, want 850 ms after the span's start until the end", top.Gaps)
	}
	for _, l := range top.Services {
		if l.Service == "" {
			t.Errorf("the recorder's own entries are of the service %+v", l)
		}
	}
	expect.Equal(t, top.Errors, 1, "errors; want the crash alone")
}

// TestNewestFileHasTheLastTime checks that meta reports the file with the last time as the newest, because the
// page shows the state of that file as the state of the trace.
func TestNewestFileHasTheLastTime(t *testing.T) {
	later := []*format.TraceEntry{format.Root(), tracetest.Log("later", format.AttrTime, uint64(9e9))}
	files := []*format.File{viewOf(t, format.ET, flight()).Files()[0], viewOf(t, format.ET, later).Files()[0]}
	for _, want := range []int{1, 0} {
		v, err := view.New(t.Context(), files, nil)
		must(t, err)
		expect.Equal(t, jsonOf[struct{ Newest int }](t, serve(t, v, viewer.Options{}), "/api/meta").Newest, want, "file said to be the newest")
		slices.Reverse(files)
	}
}

// TestOpenSpanIsOpenForAsLongAsItsFileSays checks that the tree, the details and the overview show the same time
// for an open span, even if another file has later entries.
func TestOpenSpanIsOpenForAsLongAsItsFileSays(t *testing.T) {
	later := []*format.TraceEntry{format.Root(), tracetest.Log("later", format.AttrTime, uint64(9e9))}
	v, err := view.New(t.Context(), []*format.File{viewOf(t, format.ET, flight()).Files()[0], viewOf(t, format.ET, later).Files()[0]}, nil)
	must(t, err)
	h := serve(t, v, viewer.Options{})
	const want = 850_000_000 // from 100 ms until the crash
	all := rowsOf(t, h, "depth=9")
	at := slices.IndexFunc(all.flags, func(f int) bool { return f&(1<<13) != 0 })
	if at < 0 || all.tooks[at] != want {
		t.Fatalf("of row %d of %s it is %v", at, all.text(), all.tooks)
	}
	type line struct {
		Took int64 `json:"took_nano"`
		Open bool
	}
	expect.Equal(t, jsonOf[line](t, h, "/api/entry?row="+strconv.Itoa(int(all.row[at]))), line{want, true}, "the details have")
	type topLine struct {
		Took int64 `json:"duration_nano"`
		Open bool
	}
	if got := jsonOf[struct {
		Never []topLine `json:"never_ended"`
	}](t, h, "/api/top").Never; len(got) != 1 || got[0] != (topLine{want, true}) {
		t.Errorf("the first look has %+v", got)
	}
}

// TestRuntime reads samples of the runtime that are not in chronological order in the file.
func TestRuntime(t *testing.T) {
	sample := func(name, target string, at uint64, more ...format.Attribute) *format.TraceEntry {
		return &format.TraceEntry{Metadata: format.Metadata{Name: name, Target: target}, Attributes: append(tracetest.Attributes(format.AttrTime, at), more...)}
	}
	heap := func(n uint64) format.Attribute {
		return format.Attribute{Name: "/memory/classes/heap/objects:bytes", Value: format.U64Value(n)}
	}
	all := []*format.TraceEntry{
		format.Root(), sample("runtime.metrics", "runtime/metrics", 20, heap(7)),
		sample("runtime.metrics", "runtime/metrics", 10, heap(5), format.Attribute{Name: "/sched/goroutines:goroutines", Value: format.U64Value(3)}),
		sample("runtime.metrics", "another", 15, heap(9)), sample("gc", "runtime/debug", 12, format.Attribute{Name: format.AttrDuration, Value: format.U64Value(4)}),
	}
	h := served(t, all)
	got := jsonOf[map[string][]struct {
		Time  int64 `json:"time_unix_nano"`
		Value float64
	}](t, h, "/api/runtime")
	if c := jsonOf[struct{ In int }](t, h, "/api/facets"); c.In != 1 {
		t.Errorf("facets count %d rows, want that of the program alone", c.In)
	}
	if s := jsonOf[struct{ Services [][]int }](t, h, "/api/strip?n=1"); len(s.Services) != 1 || s.Services[0][0] != 1 {
		t.Errorf("the strip has %v", s.Services)
	}
	if text := fmt.Sprint(got); text != "map[collections:[{12 4}] goroutines:[{10 3}] heap:[{10 5} {20 7}]]" {
		t.Errorf("got %s", text)
	}
}
