package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// TestTopCommand prints each of the kinds, as text and as JSON.
func TestTopCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	requests(t, rec)
	must(t, rec.Close(t.Context()))
	out := fine(t, nil, "top", "app.et", "--time", "none")
	for _, want := range []string{"3 spans, 4 log records", "2 errors", "Slowest requests\n", "GET /cart", "Most frequent errors\n", "Longest times", "after loaded"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q in\n%s", want, out)
		}
	}
	var top struct {
		Spans    int
		Slowest  []struct{ Name string }
		Patterns []struct {
			Pattern string
			Count   int
			First   struct{ Role string }
		} `json:"error_patterns"`
	}
	must(t, json.Unmarshal([]byte(fine(t, nil, "top", "--json", "--limit", "2", "app.et")), &top))
	if top.Spans != 3 || len(top.Slowest) != 2 || top.Slowest[0].Name != "GET /cart" || len(top.Patterns) != 2 || top.Patterns[0].Count != 1 {
		t.Errorf("--json: %+v", top)
	}
	if out := fine(t, nil, "top", "app.et", "-q", `.user = "eve"`); !strings.Contains(out, "1 span, 0 log records") {
		t.Errorf("-q: %s", out)
	}
}

// TestCriticalCommand prints a path of one span, or of all.
func TestCriticalCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "app.et")
	must(t, rec.Close(t.Context()))
	out := fine(t, nil, "critical", "app.et")
	if !strings.Contains(out, "inferred") || !strings.Contains(out, "100%") && !strings.Contains(out, "%  ") {
		t.Errorf("it prints\n%s", out)
	}
	n := strings.Count(fine(t, nil, "critical", "--all", "app.et"), "inferred")
	lines := strings.Split(strings.TrimSpace(fine(t, nil, "critical", "--all", "--json", "app.et")), "\n")
	if n < 2 || len(lines) != n {
		t.Errorf("of all there are %d, and %d in JSON", n, len(lines))
	}
	for _, line := range lines {
		var path struct {
			From     int64 `json:"from_unix_nano"`
			Duration int64 `json:"duration_nano"`
			Inferred bool
			Steps    []struct {
				From     int64 `json:"from_unix_nano"`
				Duration int64 `json:"duration_nano"`
			}
		}
		must(t, json.Unmarshal([]byte(line), &path))
		sum := int64(0)
		for _, s := range path.Steps {
			sum += s.Duration
		}
		if !path.Inferred || sum != path.Duration {
			t.Errorf("the steps take %d of %+v", sum, path)
		}
	}
	if code, _, errs := entrace(t, nil, "critical", "app.et", "-q", "nothing"); code != exitData || !strings.Contains(errs, "no such span") {
		t.Errorf("of nothing: exit %d, %s", code, errs)
	}
}

// record makes a file of n requests, so many of which fail.
func record(t *testing.T, name string, n int, took, fails uint64) {
	t.Helper()
	rec, err := recorder.Create(name, nil)
	must(t, err)
	for i := range n {
		e := named("GET /cart")
		e.Attributes = []format.Attribute{
			{Name: format.AttrSpanID, Value: format.StringValue(fmt.Sprintf("%016x", i+1))},
			{Name: format.AttrTraceID, Value: format.StringValue(fmt.Sprintf("%032x", i+1))},
			{Name: format.AttrTime, Value: format.U64Value(uint64(i) * 1000)},
			{Name: format.AttrDuration, Value: format.U64Value(took + uint64(i%9))},
		}
		if uint64(i) < fails {
			e.Metadata.Level = format.LevelError
		}
		_, err := rec.Append(e)
		must(t, err)
	}
	must(t, rec.Close(t.Context()))
}

// TestDiffCommand: the exit status says whether a limit is passed.
func TestDiffCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	record(t, "old.et", 40, 1000, 0)
	record(t, "slow.et", 40, 1500, 0)
	record(t, "more.et", 60, 1000, 0)
	record(t, "bad.et", 40, 1000, 20)
	record(t, "little.et", 40, 1000, 1)
	record(t, "few.et", 5, 1500, 0)
	for _, x := range []struct {
		args string
		code int
		want string
	}{
		{"old.et old.et --max-p95 +0% --max-count +0 --any-change", 0, "+0%"},
		{"old.et slow.et", 0, "old.et → slow.et: 0 with more spans, 0 with new errors, 0 new of 1 path\none run on each side: machine noise is not in \"chance\""},
		{"old.et slow.et", 0, "ok: no path exceeds --max-count +10% --fail-on new-errors,new-spans\n"},
		{"old.et slow.et --max-p95 +40%", 1, "old.et → slow.et: 1 slower, 0 with more spans, 0 with new errors, 0 new of 1 path\n"},
		{"old.et slow.et --max-p95 +40%", 1, "\nFAIL     40       0  1µs → 1.5µs  1.01µs → 1.51µs        +50%  40.1µs → 60.1µs  p<0.0001  GET /cart  slower\nFAIL: 1 path exceeds --max-p95 +40%\n"},
		{"old.et slow.et --max-p95 +60%", 0, "p<0.0001"},
		{"old.et slow.et --max-p95 +400ns", 1, "slower"},
		{"old.et slow.et --max-p95 1ms", 0, "1.01µs → 1.51µs"},
		{"old.et few.et --max-p95 +10%", 0, "too few"},
		{"old.et few.et --max-p95 +10% --any-change", 1, "slower"},
		{"old.et more.et --max-count +0 --any-change", 0, "40 → 60"}, // there are more requests
		{"old.et bad.et", 1, "FAIL: 1 path exceeds --fail-on new-errors\n"},
		{"old.et bad.et --fail-on none", 0, "0 → 20"},
		{"old.et little.et", 0, "1 path exceeds a limit by what can be chance"},
		{"old.et little.et --any-change", 1, "new errors"},
		{"old.et old.et -q nothing", 0, "path\n"},
		{"old.et slow.et --json --max-p95 +40%", 1, `"fail":"slower"`},
		{"--before old.et --after slow.et", 0, "ok: "},
		{"--before old.et,old.et,old.et --after slow.et,slow.et,slow.et", 1, "FAIL: 1 path exceeds --max-p95 +10%\n"},
		{"--before old.et,old.et --after slow.et,slow.et --max-p95 +10%", 0, "2 and 2 runs are too few"},
		{"--before old.et", 2, ""},
		{"--before old.et --after slow.et slow.et", 2, ""},
		{"old.et gone.et", 2, ""},
		{"old.et", 2, ""},
		{"old.et slow.et --max-p95 much", 2, ""},
		{"old.et slow.et --fail-on spans", 2, ""},
	} {
		code, out, errs := entrace(t, nil, append([]string{"diff"}, strings.Fields(x.args)...)...)
		if code != x.code || !strings.Contains(out, x.want) {
			t.Errorf("diff %s: exit %d, want %d with %q:\n%s%s", x.args, code, x.code, x.want, out, errs)
		}
	}
	b, err := os.ReadFile("old.et")
	must(t, err)
	must(t, os.WriteFile("cut.et", b[:len(b)-20], 0o600))
	if code, _, errs := entrace(t, nil, "diff", "old.et", "cut.et"); code != 2 || !strings.Contains(errs, "cut.et") {
		t.Errorf("of a file that was cut: exit %d, %s", code, errs)
	}
}

// TestDocumentedGatesPassNoise runs the gates of the documents on runs of one program, each of which
// was as fast as the machine was then.
func TestDocumentedGatesPassNoise(t *testing.T) {
	document := string(read(t, filepath.Join(here, "..", "..", "examples", "queries", "README.md")))
	t.Chdir(t.TempDir())
	for name, took := range map[string]uint64{
		"main": 1000, "branch": 1500,
		"m1": 1000, "m2": 1400, "m3": 1100, "m4": 1500, "m5": 1200, "b1": 1300, "b2": 1050, "b3": 1600, "b4": 1150, "b5": 1450,
	} {
		record(t, name+".et", 60, took, 0)
	}
	n := 0
	for line := range strings.Lines(document) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "entrace diff ")
		if !ok {
			continue
		}
		n++
		command, _, _ = strings.Cut(command, "#")
		if code, out, errs := entrace(t, nil, append([]string{"diff"}, strings.Fields(command)...)...); code != exitFine {
			t.Errorf("diff %s: exit %d\n%s%s", command, code, out, errs)
		}
	}
	if n < 2 {
		t.Errorf("%d gates are documented, want one for a run on each side and one for several", n)
	}
}

// TestLuaCommand prints what a script prints, then its ids.
func TestLuaCommand(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "app.et")
	must(t, rec.Close(t.Context()))
	write := func(name, text string) { must(t, os.WriteFile(name, []byte(text), 0o600)) }
	write("ids.lua", `print("found") return en_foreach(function(i) return i > 0 and i < 4 end)`)
	write("set.lua", `en_filterset_from_range(2, 3)`)
	write("union.lua", `return en_filterset_union{en_filterset_from_range(1, 1), en_filterset_from_range(3, 3)}`)
	write("fails.lua", "\nerror('no\\27')")
	write("endless.lua", "while true do end")
	for _, x := range []struct {
		args string
		code int
		want string
	}{
		{"ids.lua app.et", 0, "found\n1\n2\n3\n"},
		{"ids.lua app.et --json", 0, "found\n[1,2,3]\n"},
		{"set.lua app.et", 0, "2\n3\n"},
		{"union.lua app.et", 0, "1\n3\n"},
		{"union.lua app.et --compat upstream", 0, ""},
		{"ids.lua --threads 2 app.et", 0, "found\nfound\n1\n2\n3\n"},
		{"fails.lua app.et", 1, "entrace: fails.lua:2: no\\x1b\n"},
		{"endless.lua app.et --timeout 20ms", 1, "entrace: the script takes longer than 20ms\n"},
		{"endless.lua app.et --compat ours", 2, ""},
		{"missing.lua app.et", 1, ""},
		{"set.lua missing.et", 1, ""},
	} {
		code, out, errs := entrace(t, nil, append([]string{"lua"}, strings.Fields(x.args)...)...)
		if code != x.code || x.want != "" && out+errs != x.want {
			t.Errorf("lua %s: exit %d, want %d with %q:\n%s%s", x.args, code, x.code, x.want, out, errs)
		}
	}
	b, err := os.ReadFile("app.et")
	must(t, err)
	if out := fine(t, b, "lua", "set.lua", "-"); out != "2\n3\n" {
		t.Errorf("of the standard input: %q", out)
	}
}

// TestPanickedSpanIsOneError: a span that ended in a panic, whose status nobody set, is marked and
// counted as an error once.
func TestPanickedSpanIsOneError(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	p, err := exporter.NewSpanProcessor(exporter.WithRecorder(rec))
	must(t, err)
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(p)).Tracer("t")
	func() {
		defer func() { _ = recover() }()
		_, s := tracer.Start(t.Context(), "GET /panic")
		defer s.End()
		panic("no such page")
	}()
	_, s := tracer.Start(t.Context(), "GET /cart")
	s.End()
	must(t, p.Shutdown(t.Context()))
	must(t, rec.Close(t.Context()))
	for _, c := range []struct {
		want string
		args []string
	}{
		{"1 error", []string{"tree", "app.et"}},
		{"ERROR GET /panic", []string{"tree", "app.et"}},
		{"1 error", []string{"top", "app.et"}},
		{"1  span  GET /panic: no such page\n", []string{"top", "app.et"}},
		{",GET /panic,1,1,", []string{"stats", "--csv", "app.et"}},
		{",GET /cart,1,0,", []string{"stats", "--csv", "app.et"}},
		{"1\n", []string{"grep", "--count", "{ span:failed }", "app.et"}},
	} {
		if out := fine(t, nil, c.args...); !strings.Contains(out, c.want) {
			t.Errorf("%v has no %q:\n%s", c.args, c.want, out)
		}
	}
}
