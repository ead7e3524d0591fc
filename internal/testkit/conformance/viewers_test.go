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
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

const (
	profilerCLI = "@firefox-devtools/profiler-cli@0.10.0"
	nodeVersion = "node@24"
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
			f := tracetest.OpenFile(t, file)
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

// TestChromeInFirefoxProfiler loads Chrome Trace Event JSON into the Firefox Profiler, and compares the threads
// and their markers.
func TestChromeInFirefoxProfiler(t *testing.T) {
	bin, err := profiler()
	must(t, err)
	viewed(t, func(t *testing.T, v *view.View) {
		var b bytes.Buffer
		must(t, chrome.Encode(t.Context(), &b, v))
		name := hosttest.Path(t, "trace.json")
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
