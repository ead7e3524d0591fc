//go:build conformance

package conformance

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/recorder"
)

// recordCases is the folder of programs that rebuild public bug reports about recording.
const recordCases = "cases/record"

// program builds the program of a case, with this module's packages.
func program(t *testing.T, name string) string {
	t.Helper()
	samples := os.Getenv("ENTRACE_SAMPLES")
	if samples == "" {
		t.Skip("ENTRACE_SAMPLES names no folder of more samples")
	}
	bin := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, filepath.Join(samples, recordCases, name, "main.go"))
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// ended runs a program to its end, whatever that is, and returns what it prints.
func ended(t *testing.T, bin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = t.TempDir()
	out, _ := cmd.CombinedOutput() // many of them are killed
	return string(out)
}

// messages returns how often each message, with the value of the attribute i, is in the traces of a folder, which is
// recovered first, and in files with other names.
func messages(t *testing.T, dir string) map[string]int {
	t.Helper()
	if err := recorder.RecoverFolder(context.Background(), dir, func(_ *recorder.Report, err error) {
		if err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for _, e := range list {
		f, err := format.Open(filepath.Join(dir, e.Name()), nil)
		if err != nil {
			continue
		}
		for id := range uint32(f.Len()) {
			e, err := f.Entry(id)
			if err != nil {
				t.Fatal(err)
			}
			if v, ok := e.Attribute("i"); ok {
				found[e.Message.Value+" "+v.String()]++
			} else if e.Message.Valid {
				found[e.Message.Value]++
			}
		}
		_ = f.Close()
	}
	return found
}

// wantTicks checks that the records from first to last are there, each once.
func wantTicks(t *testing.T, found map[string]int, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		if n := found["tick "+strconv.Itoa(i)]; n != 1 {
			t.Errorf("record %d is there %d times", i, n)
		}
	}
}

func TestCaseGrowingFileRemoved(t *testing.T) {
	bin := program(t, "growing-file-removed")
	for _, fate := range []string{"file", "folder", "recreated", "rename"} {
		t.Run(fate, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "traces")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			ended(t, bin, dir, fate)
			wantTicks(t, messages(t, dir), 0, 39)
		})
	}
}

func TestCaseGrowingFileRemovedShutdown(t *testing.T) {
	bin := program(t, "growing-file-removed-shutdown")
	for _, fate := range []string{"file", "folder"} {
		dir := filepath.Join(t.TempDir(), "traces")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		ended(t, bin, dir, fate)
		wantTicks(t, messages(t, dir), 0, 59)
	}
}

func TestCaseConsoleBlocks(t *testing.T) {
	bin := program(t, "console-blocks")
	dir := t.TempDir()
	out := ended(t, bin, filepath.Join(dir, "app.et"))
	last := regexp.MustCompile(`called last: (.+)`).FindStringSubmatch(out)
	found := messages(t, dir)
	if last == nil || found[last[1]] != 1 || found["the database is gone"] != 1 {
		t.Errorf("of %q there are %d, and %d of the other goroutine", out, found[last[1]], found["the database is gone"])
	}
}

func TestCaseFatalReason(t *testing.T) {
	bin := program(t, "fatal-reason")
	for kind, want := range map[string]string{
		"maps": "several goroutines use a map at once, at main.main.func", "stack": "stack overflow, at main.deep main.go:", "oom": "out of memory, at main.main main.go:",
		"nil": "panic: runtime error: invalid memory address", "panicval": "panic: ", "goexit": "panic: first",
	} {
		dir := t.TempDir()
		ended(t, bin, filepath.Join(dir, "app.et"), kind)
		found := false
		for text := range messages(t, dir) {
			first, _, _ := strings.Cut(text, "\n")
			found = found || strings.Contains(first, want) && (kind == "panicval" || !strings.Contains(first, "0x"))
		}
		if !found {
			t.Errorf("%s: no record says %q", kind, want)
		}
	}
}

func TestCaseNilLevelVar(t *testing.T) {
	out := ended(t, program(t, "nil-level-var"), filepath.Join(t.TempDir(), "app.et"))
	for _, line := range []string{"slogadapter: <nil>", "nil recorder: <nil>", "nil ctx handler: <nil>", "setup: <nil>", "setup nil ctx: <nil>"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("there is no %q in\n%s", line, out)
		}
	}
}

// TestCaseSystemd kills a program of one of systemd's dynamic users, whose shared memory goes with it, or while it
// runs.
func TestCaseSystemd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("it needs root to run a program as another user")
	}
	bin := program(t, "systemd-remove-ipc")
	entrace := filepath.Join(t.TempDir(), "entrace")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", entrace, "./cmd/entrace")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, file := range []string{bin, entrace} { // for the other user
		for dir := filepath.Dir(file); dir != "/" && dir != "/tmp"; dir = filepath.Dir(dir) {
			if err := os.Chmod(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"systemd-remove-ipc", "held-remove-ipc-live"} {
		script := filepath.Join(os.Getenv("ENTRACE_SAMPLES"), recordCases, name, "run.sh")
		out, err := exec.CommandContext(t.Context(), "sh", script, bin, entrace).CombinedOutput()
		taken := regexp.MustCompile(`taken: (\d+)`).FindSubmatch(out)
		most := regexp.MustCompile(`(?m)^ *(\d+)$`).FindSubmatch(out)
		if err != nil || taken == nil || most == nil {
			t.Errorf("%s: %v\n%s", name, err, out)
			continue
		}
		last, _ := strconv.Atoi(string(taken[1]))
		there, _ := strconv.Atoi(string(most[1]))
		if there < last {
			t.Errorf("%s: the last record that was taken is %d, the last one that is there %d\n%s", name, last, there, fmt.Sprint(string(out)))
		}
	}
}
