//go:build conformance

package conformance_test

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
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
)

// recordCases is the folder of programs that reproduce public bug reports about recording.
const recordCases = "cases/record"

// sample returns the path of a file or folder in the folder that ENTRACE_SAMPLES names.
func sample(t *testing.T, name ...string) string {
	t.Helper()
	samples := os.Getenv("ENTRACE_SAMPLES")
	if samples == "" {
		t.Skip("ENTRACE_SAMPLES names no folder of more samples")
	}
	return filepath.Join(samples, filepath.Join(name...))
}

// caseFile returns the name of a file of a case.
func caseFile(t *testing.T, name, file string) string {
	t.Helper()
	return sample(t, recordCases, name, file)
}

// goIn runs the go command in the folder of a module of this repository.
func goIn(t *testing.T, module string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = filepath.Join("..", "..", "..", module)
	c.Env = append(os.Environ(), "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// program builds the program of a case with the packages of the main module.
func program(t *testing.T, name string) string {
	t.Helper()
	return programIn(t, ".", name)
}

// programIn builds the program of a case with the packages of another module of this repository.
func programIn(t *testing.T, module, name string) string {
	t.Helper()
	bin := hosttest.Path(t, name)
	goIn(t, module, "build", "-o", bin, caseFile(t, name, "main.go"))
	return bin
}

// ended runs a program until it ends in whatever way, and returns its output.
func ended(t *testing.T, bin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Dir = t.TempDir()
	out, _ := cmd.CombinedOutput() // many of these programs are killed
	return string(out)
}

// messages recovers the folder dir, and returns how often each message occurs in all its traces, whatever their
// names. If a record has the attribute i, the value of i follows the message.
func messages(t *testing.T, dir string) map[string]int {
	t.Helper()
	if err := recorder.RecoverFolder(context.Background(), dir, func(_ *recorder.Report, err error) {
		expect.OK(t, err)
	}); err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(dir)
	must(t, err)
	found := make(map[string]int)
	for _, e := range list {
		f, err := format.Open(filepath.Join(dir, e.Name()), nil)
		if err != nil {
			continue
		}
		for id := range uint32(f.Len()) {
			e, err := f.Entry(id)
			must(t, err)
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

// wantTicks checks that each record from first to last occurs once.
func wantTicks(t *testing.T, found map[string]int, first, last int) {
	t.Helper()
	for i := first; i <= last; i++ {
		if n := found["tick "+strconv.Itoa(i)]; n != 1 {
			t.Errorf("record %d is there %d times", i, n)
		}
	}
}

func TestCaseGrowingFileRemoved(t *testing.T) {
	for _, x := range []struct {
		name  string
		fates []string
		last  int
	}{
		{"growing-file-removed", []string{"file", "folder", "recreated", "rename"}, 39},
		{"growing-file-removed-shutdown", []string{"file", "folder"}, 59},
	} {
		bin := program(t, x.name)
		for _, fate := range x.fates {
			t.Run(x.name+"/"+fate, func(t *testing.T) {
				dir := hosttest.Path(t, "traces")
				must(t, os.Mkdir(dir, 0o700))
				ended(t, bin, dir, fate)
				wantTicks(t, messages(t, dir), 0, x.last)
			})
		}
	}
}

func TestCaseConsoleBlocks(t *testing.T) {
	bin := program(t, "console-blocks")
	dir := t.TempDir()
	out := ended(t, bin, filepath.Join(dir, "app.et"))
	found, last := messages(t, dir), 0
	_, err := fmt.Sscanf(out, "called last: step %d", &last)
	n := found[fmt.Sprint("step ", last)]
	if last > 1000 { // the pipe was full long before, and no call blocks: the last call may not have begun before the kill
		n = max(n, found[fmt.Sprint("step ", last-1)])
	}
	if err != nil || n != 1 || found["the database is gone"] != 1 {
		t.Errorf("of %q there are %d, and %d of the other goroutine", out, n, found["the database is gone"])
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
	out := ended(t, program(t, "nil-level-var"), hosttest.Path(t, "app.et"))
	for _, line := range []string{"slogadapter: <nil>", "nil recorder: <nil>", "nil ctx handler: <nil>", "setup: <nil>", "setup nil ctx: <nil>"} {
		if !strings.Contains(out, line+"\n") {
			t.Errorf("there is no %q in\n%s", line, out)
		}
	}
}

// TestCaseSystemd kills a program of one of systemd's dynamic users. In one case, the user's shared memory is
// removed when the program is killed, and in the other while it runs.
func TestCaseSystemd(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("it needs root to run a program as another user")
	}
	bin := program(t, "systemd-remove-ipc")
	entrace := hosttest.Path(t, "entrace")
	goIn(t, ".", "build", "-o", entrace, "./cmd/entrace")
	forOthers(t, bin, entrace)
	for _, name := range []string{"systemd-remove-ipc", "held-remove-ipc-live"} {
		out, err := exec.CommandContext(t.Context(), "sh", caseFile(t, name, "run.sh"), bin, entrace).CombinedOutput()
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

// forOthers makes programs accessible to other users.
func forOthers(t *testing.T, programs ...string) {
	t.Helper()
	for _, file := range programs {
		for dir := filepath.Dir(file); dir != "/" && dir != "/tmp"; dir = filepath.Dir(dir) {
			must(t, os.Chmod(dir, 0o755))
		}
	}
}

// TestCaseShmLeftBehind kills programs of another user. Their folders are then removed.
func TestCaseShmLeftBehind(t *testing.T) {
	bin := program(t, "systemd-remove-ipc")
	forOthers(t, bin)
	out, _ := exec.CommandContext(t.Context(), "sh", caseFile(t, "shm-left-behind", "run.sh"), bin).Output()
	if got := strings.Fields(string(out)); len(got) > 0 && got[len(got)-1] != "0" {
		t.Errorf("the journals of %s killed programs stay in shared memory", got[len(got)-1])
	}
}

// TestCaseManyOpenSpans checks that no span that never ends is lost when files rotate. A busy machine may be too
// slow for the program, so the test has three attempts.
func TestCaseManyOpenSpans(t *testing.T) {
	bin := program(t, "many-open-spans-rotation")
	whole := regexp.MustCompile(`Entries:\{Offered:\d+ Written:\d+ Waiting:0 Dropped:\{(\w+:0 ?)*\}`)
	for _, x := range [][2]string{{"300000", "8MiB"}, {"3000000", "256MiB"}} {
		out := ""
		for range 3 {
			out = ended(t, bin, hosttest.Path(t, "a.et"), x[0], x[1])
			if whole.MatchString(out) {
				break
			}
		}
		if !whole.MatchString(out) {
			t.Errorf("%s spans, files of %s:\n%s", x[0], x[1], out)
		}
	}
}

func TestCaseCardinality(t *testing.T) {
	bin := program(t, "held-cardinality")
	for what, most := range map[string]int{"keys": 25, "spans": 25} {
		heaps := regexp.MustCompile(what+` \d+ (\d+) MiB heap`).FindAllStringSubmatch(ended(t, bin, what, hosttest.Path(t, "a.et")), -1)
		if len(heaps) < 6 {
			t.Fatalf("%s: it printed %d times", what, len(heaps))
		}
		least := 1 << 20 // the heap can have many records that are not yet in the file, so use the smallest heap
		for _, m := range heaps[len(heaps)/2:] {
			n, _ := strconv.Atoi(m[1])
			least = min(least, n)
		}
		if least > most {
			t.Errorf("%s: the heap has %d MiB", what, least)
		}
	}
}

func TestCaseFutureFiles(t *testing.T) {
	bin := program(t, "held-future-files")
	dir := t.TempDir()
	path := filepath.Join(dir, "shop.et")
	ended(t, bin, path, "50")
	future := time.Date(2036, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, e := range entriesOf(t, dir) {
		must(t, os.Chtimes(filepath.Join(dir, e.Name()), future, future))
	}
	ended(t, bin, path, "6")
	old := 0
	for _, e := range entriesOf(t, dir) {
		if fi, err := e.Info(); err == nil && fi.ModTime().Year() == 2036 {
			old++
		}
	}
	if n := len(entriesOf(t, dir)); n < 2 || n > 8 || old > n/2 {
		t.Errorf("%d files are left, of which %d are of the future", n, old)
	}
}

func entriesOf(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	return list
}

func TestCaseNoLocks(t *testing.T) {
	bin := program(t, "held-no-locks")
	for _, inject := range []string{
		"flock:error=ENOLCK", "flock:error=ENOSYS", "renameat2:error=EINVAL", "renameat2:error=ENOSYS", "fallocate:error=EOPNOTSUPP", "linkat:error=EPERM", "statfs:error=ENOSYS",
	} {
		dir := t.TempDir()
		call, _, _ := strings.Cut(inject, ":")
		out := ended(t, "strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace="+call, "-e", "inject="+inject, bin, filepath.Join(dir, "a.et"))
		if found := messages(t, dir); found["hello"] != 1 || !strings.Contains(out, "shutdown <nil>") {
			t.Errorf("%s: the record is there %d times\n%s", inject, found["hello"], out)
		}
	}
}

func TestCaseResources(t *testing.T) {
	dir := t.TempDir()
	out := ended(t, program(t, "held-resources"), dir, "a=1,=2,b,c=%zz,d=4")
	if n := strings.Count(out, "shutdown: <nil>"); n != 4 {
		t.Errorf("%d of 4 have ended:\n%s", n, out)
	}
	if found := messages(t, dir); found["pay"] != 2 {
		t.Errorf("the resources are %v", found)
	}
}

func TestCaseRace(t *testing.T) {
	goIn(t, ".", "test", "-race", "-count=1", caseFile(t, "held-race", "main_test.go"))
}

func TestCaseBridges(t *testing.T) {
	dir := t.TempDir()
	ended(t, programIn(t, "examples", "held-bridges"), filepath.Join(dir, "a.et"))
	found := messages(t, dir)
	for _, message := range []string{"in span", "named", "via otelslog", "panic level", "fatal level"} {
		if found[message] != 1 {
			t.Errorf("%q is there %d times", message, found[message])
		}
	}
}
