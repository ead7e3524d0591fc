package examples_test

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// flightRecorder is a running process of the example.
type flightRecorder struct {
	cmd *exec.Cmd
	url string
	dir string // the folder of the traces
}

func startRecorder(t *testing.T, exe, dir string) *flightRecorder {
	t.Helper()
	r := &flightRecorder{cmd: exec.Command(exe, "-listen", "127.0.0.1:0", "-dir", dir), dir: dir}
	r.cmd.Stderr = os.Stderr
	out, err := r.cmd.StdoutPipe()
	expect.Must(t, err)
	expect.Must(t, r.cmd.Start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it says %q, %v", line, err)
	}
	r.url = "http://" + addr
	return r
}

func (r *flightRecorder) get(t *testing.T, path string) {
	t.Helper()
	if resp, err := http.Get(r.url + path); err == nil { // a panic in the handler ends the connection
		_ = resp.Body.Close()
	}
}

// traces waits for n finished traces, verifies them, and returns the sorted names of their trace
// configurations.
func (r *flightRecorder) traces(t *testing.T, n int) (names []string) {
	t.Helper()
	var list []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list, _ = filepath.Glob(filepath.Join(r.dir, "*.et"))
		if len(list) >= n {
			break
		}
	}
	for _, name := range list {
		parts := strings.Split(strings.TrimSuffix(filepath.Base(name), ".et"), "-")
		names = append(names, parts[len(parts)-1])
		expect.OK(t, expect.Err(recorder.Verify(name, func(p error) { t.Errorf("%s: %v", name, p) })))
	}
	slices.Sort(names)
	return names
}

// TestFlightRecorder triggers a trace in every possible way.
func TestFlightRecorder(t *testing.T) {
	t.Parallel()
	exe, dir := build(t, "flightrecorder"), filepath.Join(hosttest.TraceDir(t), "traces")
	r := startRecorder(t, exe, dir)
	for range 3 {
		r.get(t, "/ok?user=ada")
	}
	if list, _ := filepath.Glob(filepath.Join(dir, "*et")); len(list) > 0 {
		t.Errorf("without a reason there are %q", list)
	}
	want := []string{}
	expect := func(name string) {
		t.Helper()
		want = append(want, name)
		slices.Sort(want)
		expect.Slice(t, r.traces(t, len(want)), want, "r.traces")
	}
	r.get(t, "/error?x=1")
	r.get(t, "/error?x=2")
	expect("error")
	r.get(t, "/slow")
	expect("slow")
	r.get(t, "/panic")
	expect("panic")
	go r.get(t, "/hang?user=ada")
	expect("hang")
	resp, err := http.Post(r.url+"/debug/entrace/snapshot", "", nil)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Errorf("POST says %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	expect("asked")
	if interrupt(r.cmd.Process) {
		expect("asked")
	}
	list, _ := filepath.Glob(filepath.Join(dir, "*-hang.et"))
	hang(t, list[0])
	if runtime.GOOS == "windows" {
		return // on Windows the ring does not outlive the process
	}
	_ = r.cmd.Process.Kill()
	_ = r.cmd.Wait()
	r = startRecorder(t, exe, dir)
	expect("crash")
}

// hang checks that a trace shows what the hanging request was doing.
func hang(t *testing.T, name string) {
	t.Helper()
	v := tracetest.OpenView(t, name)
	found := 0
	for id := range v.Rows() {
		e, err := v.Entry(id)
		expect.Must(t, err)
		if url, _ := e.Attribute("url.full"); !strings.HasSuffix(url.Text(), "/hang?user=ada") {
			continue
		}
		if _, ended := v.Duration(id); ended {
			t.Error("the request that hangs has ended")
		}
		for _, kid := range v.Children(id) {
			if k, err := v.Entry(kid); err == nil && k.Message.Value == "main.waitForLock" {
				found++
			}
		}
	}
	expect.Equal(t, found, 1, "stacks of the request that hangs")
}
