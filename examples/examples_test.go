package examples_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// build builds an example.
func build(t *testing.T, name string) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), name)
	if runtime.GOOS == "windows" {
		exe += ".exe"
	}
	cmd := exec.Command("go", "build", "-o", exe, "./"+name)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// run runs an example in a folder of its own.
func run(t *testing.T, name string, env ...string) (dir, out string) {
	t.Helper()
	dir = t.TempDir()
	cmd := exec.Command(build(t, name))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return dir, string(b)
}

// count opens a trace and counts what is in it.
func count(t *testing.T, name string) map[view.Role]int {
	t.Helper()
	f, err := format.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[view.Role]int)
	for id := range v.Rows() {
		n[v.Role(id)]++
	}
	return n
}

func TestQuickstart(t *testing.T) {
	dir, out := run(t, "quickstart")
	n := count(t, filepath.Join(dir, "trace.et"))
	if n[view.RoleSpan] != 19 || n[view.RoleLog] != 11 || n[view.RoleEvent] != 5 || n[view.RoleResource] != 1 {
		t.Errorf("there are %v", n)
	}
	for _, want := range []string{`"GET /cart"`, `"SELECT price"`, `"checkout refused"`, `"recovered"`, `"shutting down"`} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %s:\n%s", want, out)
		}
	}
}

func TestAutoexport(t *testing.T) {
	dir, _ := run(t, "autoexport", "OTEL_TRACES_EXPORTER=entrace", "OTEL_EXPORTER_ENTRACE_PATH=app.et")
	if n := count(t, filepath.Join(dir, "app.et")); n[view.RoleSpan] != 4 {
		t.Errorf("there are %v, want 4 spans", n)
	}
}

func TestSlogonly(t *testing.T) {
	dir, out := run(t, "slogonly")
	if n := count(t, filepath.Join(dir, "slogonly.et")); n[view.RoleLog] != 2 || !strings.Contains(out, "nothing to remove") {
		t.Errorf("there are %v, want 2 log records; it prints %s", n, out)
	}
}

// TestLive kills the example: what it was doing is in the file.
func TestLive(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(build(t, "live"))
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, "live.iet") {
		t.Errorf("it says %q, %v", line, err)
	}
	follow(t, filepath.Join(dir, "live.et"), "store")
	// What is seen in the file is a tenth of a second old, as long as a part takes:
	// just now one ends and the next begins.
	time.Sleep(50 * time.Millisecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	// What had not come to the file yet is in the crash buffer.
	if r, err := recorder.Recover(filepath.Join(dir, "live.et"), ""); err != nil || r.Format != format.IET || r.Ended {
		t.Errorf("Recover says %+v, %v", r, err)
	}
	f, err := format.Open(filepath.Join(dir, "live.et"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	open := 0
	for id := range v.Rows() {
		if v.Role(id) == view.RoleSpan {
			if _, ended := v.Duration(id); !ended {
				open++
			}
		}
	}
	if open != 2 && open != 1 { // it may have been between two parts
		t.Errorf("%d spans had not ended, want the round and its part", open)
	}
}

// follow waits for an entry of that name.
func follow(t *testing.T, name, entry string) {
	t.Helper()
	f, err := format.Follow(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		_, e, err := f.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e.Metadata.Name == entry {
			return
		}
	}
}
