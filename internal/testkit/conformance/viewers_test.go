//go:build conformance

package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/convert/chrome"
	"github.com/entrace-go/entrace/convert/perfetto"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

const (
	profilerCLI  = "@firefox-devtools/profiler-cli@0.10.0"
	nodeVersion  = "node@24"
	perfettoPyPI = "perfetto==0.59.1"
)

// viewersDir returns the folder in which the viewers are installed.
func viewersDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "entrace-conformance", "viewers")
	return dir, os.MkdirAll(dir, 0o755)
}

// install runs commands that create the file made. It does nothing if the file already exists.
func install(made string, commands ...[]string) error {
	if _, err := os.Stat(made); err == nil {
		return nil
	}
	for _, c := range commands {
		cmd := exec.Command(c[0], c[1:]...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(c, " "), err, out)
		}
	}
	_, err := os.Stat(made)
	return err
}

// profiler installs the command of the Firefox Profiler, and returns its path.
var profiler = sync.OnceValues(func() (string, error) {
	dir, err := viewersDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "node")
	bin := filepath.Join(dir, "node_modules", ".bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return bin, install(filepath.Join(bin, "profiler-cli"),
		[]string{"npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", dir, profilerCLI, nodeVersion})
})

// python installs the package perfetto, and returns the path of the Python that has it.
var python = sync.OnceValues(func() (string, error) {
	dir, err := viewersDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, "venv")
	bin := filepath.Join(dir, "bin", "python")
	classes := filepath.Join(dir, "has-"+perfettoPyPI)
	return bin, install(classes,
		[]string{"python3", "-m", "venv", dir},
		[]string{bin, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", perfettoPyPI},
		[]string{bin, "-c", "import sys; open(sys.argv[1], 'w').close()", classes})
})

// viewed calls fn with the views of some traces.
func viewed(t *testing.T, fn func(t *testing.T, v *view.View)) {
	files := map[string]string{
		"sample":   "../../../convert/chrome/testdata/sample.iet",
		"recorded": record(t, format.V2, format.ET),
		"timeless": "../../../convert/chrome/testdata/timeless.iet",
	}
	if dir := os.Getenv("ENTRACE_SAMPLES"); dir != "" {
		files["scoreman"] = filepath.Join(dir, "scoreman.iet")
	}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			f, err := format.Open(file, nil)
			must(t, err)
			defer f.Close()
			v := tracetest.View(t, f)
			fn(t, v)
		})
	}
}

// A moment is a span, an event or a log record. It has only the fields that both viewers show.
type moment struct {
	name        string
	start, took int64 // in nanoseconds; start counts from the first time of the trace
	instant     bool
}

func compareMoments(x, y moment) int {
	return slices.Compare([]string{x.name, fmt.Sprintf("%20d %20d", x.start, x.took)}, []string{y.name, fmt.Sprintf("%20d %20d", y.start, y.took)})
}

// spans returns the spans of v, keyed by span id, and the first time of the trace.
func spans(t *testing.T, v *view.View) (map[string]view.Row, int64) {
	t.Helper()
	ids := make(map[string]view.Row)
	first := int64(math.MaxInt64)
	for id := range v.Rows() {
		if at, ok := v.Time(id); ok && v.Role(id) != view.RoleRecorder {
			first = min(first, at.UnixNano())
		}
		if v.Role(id) == view.RoleSpan {
			ref := v.Ref(id)
			ids[string(wire.AppendHex(nil, ref.SpanID[:]))] = id
		}
	}
	return ids, first
}

// TestChromeInFirefoxProfiler loads Chrome Trace Event JSON into the Firefox Profiler, and compares the threads
// and their markers.
func TestChromeInFirefoxProfiler(t *testing.T) {
	bin, err := profiler()
	must(t, err)
	viewed(t, func(t *testing.T, v *view.View) {
		var b bytes.Buffer
		must(t, chrome.Encode(t.Context(), &b, v))
		name := filepath.Join(t.TempDir(), "trace.json")
		must(t, os.WriteFile(name, b.Bytes(), 0o600))
		threads, want := ours(t, b.Bytes())

		sessions, err := os.MkdirTemp("", "fx") //nolint:usetesting // the name of a socket must be short
		must(t, err)
		defer os.RemoveAll(sessions)
		try := func(ctx context.Context, args ...string) ([]byte, error) {
			cmd := exec.CommandContext(ctx, filepath.Join(bin, "profiler-cli"), args...)
			cmd.Env = append(os.Environ(), "PROFILER_CLI_SESSION_DIR="+sessions, "PROFILER_CLI_NO_SYMBOLICATE=1", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			if err != nil {
				err = fmt.Errorf("profiler-cli %s: %w: %s", strings.Join(args, " "), err, errs.Bytes())
			}
			return out, err
		}
		run := func(args ...string) []byte {
			t.Helper()
			out, err := try(t.Context(), args...)
			must(t, err)
			return out
		}
		// The profiler's command starts another process and waits half a second for it. On a busy machine that
		// process can be late, and then it still runs: stop it here.
		defer func() {
			expect.OK(t, expect.Err(try(context.WithoutCancel(t.Context()), "stop", "--all")))
		}()
		for left := 20; ; left-- {
			_, err := try(t.Context(), "load", name)
			if err == nil {
				break
			}
			if left == 0 || !strings.Contains(err.Error(), "did not become ready") {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		var list struct {
			Threads []struct {
				Handle  string `json:"threadHandle"`
				Name    string `json:"name"`
				Process string `json:"processName"`
				TID     string `json:"tid"`
				Markers int    `json:"markerCount"`
			} `json:"threads"`
		}
		must(t, json.Unmarshal(run("thread", "list", "--json"), &list))
		expect.Equal(t, len(list.Threads), len(threads), "threads")
		total := 0
		for _, thread := range list.Threads {
			w := threads[thread.TID]
			if thread.Name != w.name || thread.Process != w.process && !strings.HasPrefix(thread.Process, w.process+" (") {
				t.Errorf("thread %s is %q of %q, want %q of %q", thread.TID, thread.Name, thread.Process, w.name, w.process)
			}
			expect.Equal(t, thread.Markers, len(want[thread.TID]), "markers of thread %s", thread.TID)
			total += thread.Markers
			var markers struct {
				Types []struct {
					Name string `json:"markerName"`
					Top  []struct {
						Start    float64  `json:"start"` // milliseconds
						Duration *float64 `json:"duration"`
					} `json:"topMarkers"`
				} `json:"byType"`
			}
			out := run("thread", "markers", "--thread", thread.Handle, "--json", "--limit", "0", "--top-n", "1000000")
			must(t, json.Unmarshal(out, &markers))
			var got []moment
			for _, kind := range markers.Types {
				for _, m := range kind.Top {
					one := moment{name: kind.Name, start: int64(math.Round(m.Start * 1e6)), instant: m.Duration == nil}
					if m.Duration != nil {
						one.took = int64(math.Round(*m.Duration * 1e6))
					}
					got = append(got, one)
				}
			}
			slices.SortFunc(got, compareMoments)
			expect.Slice(t, got, want[thread.TID], "thread %s has", thread.TID)
		}
		t.Logf("%d threads, %d markers", len(list.Threads), total)
	})
}

type thread struct{ name, process string }

// ours reads JSON that this module wrote. It returns the threads that have events, and the events of each thread.
func ours(t *testing.T, b []byte) (map[string]thread, map[string][]moment) {
	t.Helper()
	var trace struct {
		Events []struct {
			Phase    string         `json:"ph"`
			Name     string         `json:"name"`
			Time     json.Number    `json:"ts"`
			Duration json.Number    `json:"dur"`
			PID      int            `json:"pid"`
			TID      int            `json:"tid"`
			Args     map[string]any `json:"args"`
		} `json:"traceEvents"`
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	must(t, d.Decode(&trace))
	processes := make(map[int]string)
	threads := make(map[string]thread)
	moments := make(map[string][]moment)
	nanos := func(n json.Number) int64 {
		ns, err := strconv.ParseInt(strings.Replace(string(n), ".", "", 1), 10, 64)
		must(t, err)
		return ns
	}
	for _, e := range trace.Events {
		id := fmt.Sprintf("%d:%d", e.PID, e.TID)
		text, _ := e.Args["name"].(string)
		switch {
		case e.Phase == "M" && e.Name == "process_name":
			processes[e.PID] = text
		case e.Phase == "M" && e.Name == "thread_name":
			threads[id] = thread{text, processes[e.PID]}
		case e.Phase == "X":
			moments[id] = append(moments[id], moment{e.Name, nanos(e.Time), nanos(e.Duration), false})
		case e.Phase == "i":
			moments[id] = append(moments[id], moment{e.Name, nanos(e.Time), 0, true})
		}
	}
	for _, all := range moments {
		slices.SortFunc(all, compareMoments)
	}
	return threads, moments
}

// A perfettoEvent is a slice or an instant as read_trace.py prints it.
type perfettoEvent struct {
	Name     string                        `json:"name"`
	Category []string                      `json:"category"`
	PID      int                           `json:"pid"`
	Start    int64                         `json:"start"`
	End      int64                         `json:"end"`
	Trace    string                        `json:"trace"`
	Within   string                        `json:"within"`
	ID       string                        `json:"id"`
	Args     map[string][2]json.RawMessage `json:"args"`
}

// TestPerfettoWithItsClasses reads Perfetto traces with Perfetto's own message classes, and compares their
// contents with the original view.
func TestPerfettoWithItsClasses(t *testing.T) {
	bin, err := python()
	must(t, err)
	viewed(t, func(t *testing.T, v *view.View) {
		var b, out, errs bytes.Buffer
		must(t, perfetto.Encode(t.Context(), &b, v))
		name := filepath.Join(t.TempDir(), "trace.pftrace")
		must(t, os.WriteFile(name, b.Bytes(), 0o600))
		cmd := exec.CommandContext(t.Context(), bin, "testdata/viewers/read_trace.py", name)
		cmd.Stdout, cmd.Stderr = &out, &errs
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, errs.Bytes())
		}
		var got struct {
			Problems []string         `json:"problems"`
			Clocks   map[string]int64 `json:"clocks"`
			Slices   []perfettoEvent  `json:"slices"`
			Instants []perfettoEvent  `json:"instants"`
			Flows    [][]string       `json:"flows"`
			Tracks   []struct {
				Name   string `json:"name"`
				Parent uint64 `json:"parent"`
			} `json:"tracks"`
		}
		must(t, json.Unmarshal(out.Bytes(), &got))
		for _, p := range got.Problems {
			t.Error(p)
		}
		for _, f := range got.Flows {
			if len(f) != 2 {
				t.Errorf("flow %v has not two ends", f)
			}
		}
		ids, first := spans(t, v)
		if len(ids) == 0 {
			first = 0
		}
		if got.Clocks["6"] != first || len(ids) > 0 && got.Clocks["1"] != first {
			t.Errorf("the clocks are %v, want %d", got.Clocks, first)
		}
		events, others := 0, 0
		for id := range v.Rows() {
			switch v.Role(id) {
			case view.RoleEvent, view.RoleLog:
				events++
			case view.RoleOther:
				others++
			}
		}
		if len(ids) > 0 {
			comparePerfetto(t, v, ids, got.Slices)
			// A row of RoleOther without a time is an instant only if the row above it is on a timeline.
			if n := len(got.Instants); n < events || n > events+others {
				t.Errorf("%d instants of %d events and log records, and %d others", n, events, others)
			}
		} else if len(got.Slices) != others || len(got.Instants) != events {
			t.Errorf("%d slices and %d instants, want %d and %d", len(got.Slices), len(got.Instants), others, events)
		}
		t.Logf("%d slices, %d instants, %d flows, %d tracks", len(got.Slices), len(got.Instants), len(got.Flows), len(got.Tracks))
	})
}

// kinds maps the kinds of values to the fields of Perfetto's annotations.
var kinds = map[format.Kind]string{
	format.KindString: "string_value", format.KindBytes: "string_value", format.KindBool: "bool_value", format.KindFloat: "double_value",
	format.KindU64: "int_value", format.KindI64: "int_value",
}

// comparePerfetto compares each slice of Perfetto with its span.
func comparePerfetto(t *testing.T, v *view.View, ids map[string]view.Row, all []perfettoEvent) {
	t.Helper()
	typed := 0
	seen := make(map[string]bool)
	for _, s := range all {
		id, ok := ids[s.ID]
		if !ok || seen[s.ID] {
			t.Errorf("slice %q of span %q, which is none or was there", s.Name, s.ID)
			continue
		}
		seen[s.ID] = true
		e, err := v.Entry(id)
		must(t, err)
		start, _ := v.Time(id)
		took, ended := v.Duration(id)
		if s.Name != e.Metadata.Name || s.Start != start.UnixNano() || ended && s.End-s.Start != took.Nanoseconds() {
			t.Errorf("%q is from %d to %d, the span %q from %d for %v", s.Name, s.Start, s.End, e.Metadata.Name, start.UnixNano(), took)
		}
		if want, _ := e.Attribute(format.AttrTraceID); s.Trace != want.Text() {
			t.Errorf("%q is of trace %q, want %q", s.Name, s.Trace, want.Text())
		}
		if ref := v.Ref(v.Parent(id)); s.Within != "" && s.Within != string(wire.AppendHex(nil, ref.SpanID[:])) {
			t.Errorf("%q is in slice %s, which is not its parent %x", s.Name, s.Within, ref.SpanID)
		}
		composite, _ := e.Attribute(mapping.AttrJSON)
		more, _ := e.Attribute(mapping.AttrAnyValue)
		for _, a := range e.Attributes {
			if _, user := mapping.UserName(a.Name); !user || strings.Contains(composite.Text()+more.Text(), strconv.Quote(a.Name)) {
				continue
			}
			want, native := kinds[a.Value.Kind()]
			if _, fits := a.Value.I64(); !native || a.Value.Kind() == format.KindU64 && !fits {
				want = "string_value"
			}
			name := a.Name
			if name == "kind" {
				name = "otel.attr.kind"
			}
			if got := string(s.Args[name][0]); got != strconv.Quote(want) && name != "x" {
				t.Errorf("%q has %s of type %s, want %s", s.Name, name, got, want)
			}
			typed++
		}
	}
	expect.Equal(t, len(seen), len(ids), "slices")
	t.Logf("%d annotations have the type of their attribute", typed)
}
