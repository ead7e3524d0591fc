package recorder_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// crashedElsewhere runs a program that dies. It returns the run and the folder of its journal.
func crashedElsewhere(t *testing.T) (c *crashRun, journals string) {
	t.Helper()
	journals, err := os.MkdirTemp("/dev/shm", "entrace-test-") //nolint:usetesting // it has to be in tmpfs
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(journals) })
	c = &crashRun{path: hosttest.Path(t, "app.et"), version: format.V2, goroutines: 1, units: 58, flushEvery: 15, end: "exit", journals: journals}
	for {
		out, err := c.finish(t)
		if err == nil {
			t.Fatal(out)
		}
		if r, err := recorder.Inspect(c.path); err == nil && r.Pending > 0 && r.Journal == nil {
			return c, journals
		}
		// Try again: all records were written to the file already.
		for _, name := range []string{"app.iet", "app.iet.buffer"} {
			must(t, os.Remove(filepath.Join(filepath.Dir(c.path), name)))
		}
	}
}

// TestJournalIsGone removes the journal of a dead program, as a restart of the machine does. The next
// program finishes the trace, reports once that records are lost, and leaves no other file.
func TestJournalIsGone(t *testing.T) {
	for _, how := range []string{"Create", "Create without the IET", "Recover"} {
		t.Run(how, func(t *testing.T) {
			c, journals := crashedElsewhere(t)
			must(t, os.RemoveAll(journals))
			must(t, os.Mkdir(journals, 0o700))
			r, err := recorder.Inspect(c.path)
			if err != nil || !errors.Is(r.Journal, recorder.ErrJournalGone) || r.Entries == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			want := r.Entries + 1 // 1 for the entry which says that the process died
			var told []string
			var mu sync.Mutex
			start := func() {
				rec := tracetest.CreateAt(t, c.path, &recorder.Options{BufferDir: journals, OnError: func(err error) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, err.Error())
				}})
				tracetest.Close(t, rec)
			}
			switch how {
			case "Recover":
				r, err = recorder.Recover(c.path, "")
				if err != nil || !errors.Is(r.Journal, recorder.ErrJournalGone) || r.Entries != want {
					t.Fatalf("%+v, %v", r, err)
				}
			case "Create without the IET":
				must(t, os.Remove(r.Name))
				fallthrough
			default:
				start()
				if len(told) != 1 || !strings.Contains(told[0], recorder.ErrJournalGone.Error()) {
					t.Errorf("OnError was told %q", told)
				}
			}
			start()
			if len(told) > 1 {
				t.Errorf("then OnError was told %q", told)
			}
			most := 0
			for _, name := range dirNames(t, filepath.Dir(c.path)) {
				switch filepath.Ext(name) {
				case ".et":
					r, err := recorder.Inspect(filepath.Join(filepath.Dir(c.path), name))
					must(t, err)
					most = max(most, r.Entries)
				case ".acks0":
				default:
					t.Errorf("%s is left", name)
				}
			}
			if how != "Create without the IET" && most != want {
				t.Errorf("the largest file has %d entries, want %d", most, want)
			}
			if left := dirNames(t, journals); len(left) > 0 {
				t.Errorf("%q are left", left)
			}
		})
	}
}

// TestNameOfJournalIsLeft checks the file app.iet.buffer that only names a journal elsewhere. If Close
// removed the journal but could not remove this file, no record is reported as missing.
func TestNameOfJournalIsLeft(t *testing.T) {
	journals, err := os.MkdirTemp("/dev/shm", "entrace-test-") //nolint:usetesting // it has to be in tmpfs
	must(t, err)
	defer os.RemoveAll(journals)
	path := hosttest.Path(t, "app.iet")
	rec := tracetest.CreateAt(t, path, &recorder.Options{BufferDir: journals})
	must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("message")}))
	names := readFile(t, path+".buffer")
	tracetest.Close(t, rec)
	must(t, os.WriteFile(path+".buffer", names, 0o600))
	if r, err := recorder.Inspect(path); err != nil || r.Journal != nil || !r.Ended {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := recorder.Recover(path, ""); err != nil || r.Journal != nil || r.Entries != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, name := range dirNames(t, filepath.Dir(path)) {
		if strings.HasSuffix(name, ".buffer") {
			t.Errorf("%s is left", name)
		}
	}
}

const containerEnv = "ENTRACE_CONTAINER"

// inContainer runs a test of this binary in new namespaces of processes and mounts, with its own shared
// memory.
func inContainer(t *testing.T, name string, c *crashRun) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+name+"$", "-test.v")
	cmd.Env = append(os.Environ(), containerEnv+"="+c.encode())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 && os.Getenv("ENTRACE_CI") == "" {
		t.Skip("no namespaces: ", err)
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Fatalf("in the container: %v\n%s", err, out)
	}
}

// TestContainers uses two containers that share only the folder of a trace. The second container cannot
// reach the journal of the first. It records nevertheless, and leaves that journal to the first container.
// Each container finishes its own files.
func TestContainers(t *testing.T) {
	if s := os.Getenv(containerEnv); s != "" {
		testInContainer(t, decodeCrashRun(t, s))
		return
	}
	c, journals := crashedElsewhere(t)
	inContainer(t, "TestContainers", c)
	dir := filepath.Dir(c.path)
	names := strings.Join(dirNames(t, dir), " ")
	if len(dirNames(t, journals)) != 1 || !strings.Contains(names, "Z.iet.buffer") {
		t.Fatalf("after the container there are %s, %q", names, dirNames(t, journals))
	}
	second := *c
	second.run = 1
	rec := tracetest.CreateAt(t, c.path, nil)
	tracetest.Close(t, rec)
	units := collect(t, dir)
	for _, x := range []*crashRun{c, &second} {
		x.goroutines = 1
		if lost := x.check(t, units); lost > 0 {
			t.Errorf("run %d: %d units are lost", x.run, lost)
		}
	}
	for _, name := range dirNames(t, dir) {
		if strings.Contains(name, ".buffer") {
			t.Errorf("%s is left", name)
		}
	}
	if left := dirNames(t, journals); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// copyFolder returns a copy of a folder.
func copyFolder(t *testing.T, dir string) string {
	t.Helper()
	to := hosttest.Path(t, "copy")
	must(t, os.CopyFS(to, os.DirFS(dir)))
	for _, name := range dirNames(t, to) {
		must(t, os.Chmod(filepath.Join(to, name), 0o600))
	}
	return to
}

// startAndEnd opens and closes a recorder on a path, and returns the errors that OnError got.
func startAndEnd(t *testing.T, path string) (told []string) {
	t.Helper()
	var mu sync.Mutex
	rec := tracetest.CreateAt(t, path, &recorder.Options{Family: func(string) bool { return true }, OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err.Error())
	}})
	tracetest.Close(t, rec)
	return told
}

func testInContainer(t *testing.T, c *crashRun) {
	must(t, syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must(t, syscall.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64m"))
	r, err := recorder.Inspect(c.path)
	if err != nil || !errors.Is(r.Journal, recorder.ErrJournalElsewhere) {
		t.Fatalf("%+v, %v", r, err)
	}
	whole := copyFolder(t, filepath.Dir(c.path))
	if r, err := recorder.Recover(filepath.Join(whole, "app.et"), ""); err != nil || !errors.Is(r.Journal, recorder.ErrJournalElsewhere) || r.Entries == 0 {
		t.Fatalf("Recover: %+v, %v", r, err)
	}
	if names := fmt.Sprint(dirNames(t, whole)); strings.Contains(names, ".iet") {
		t.Errorf("Recover leaves %s", names)
	}
	siblings := copyFolder(t, filepath.Dir(c.path))
	for _, want := range []int{1, 0} {
		if told := startAndEnd(t, filepath.Join(siblings, "other.et")); len(told) != want || want > 0 && !strings.Contains(told[0], "entrace recover") {
			t.Errorf("a sibling's OnError was told %q", told)
		}
	}
	expect.Has(t, fmt.Sprint(dirNames(t, siblings)), "app.iet app.iet.buffer", "a sibling leaves")
	copied := hosttest.Path(t, "copy.et")
	if r, err := recorder.Recover(c.path, copied); err != nil || r.Entries == 0 {
		t.Fatalf("Recover of a copy: %+v, %v", r, err)
	}
	for _, want := range []int{1, 0} { // only the first start reports it
		if told := startAndEnd(t, c.path); len(told) != want || want > 0 && !strings.Contains(told[0], recorder.ErrJournalElsewhere.Error()) {
			t.Errorf("OnError was told %q", told)
		}
	}
	// A day later, the container no longer waits for the other one.
	late := copyFolder(t, filepath.Dir(c.path))
	pointers, err := filepath.Glob(filepath.Join(late, "*.iet.buffer"))
	if err != nil || len(pointers) != 1 {
		t.Fatalf("%q, %v", pointers, err)
	}
	before, _, _ := strings.Cut(string(readFile(t, pointers[0])), "missed ")
	must(t, os.WriteFile(pointers[0], fmt.Appendf(nil, "%smissed %d\n", before, time.Now().Add(-25*time.Hour).Unix()), 0o600))
	for _, want := range []int{1, 0} {
		if told := startAndEnd(t, filepath.Join(late, "app.et")); len(told) != want || want > 0 && !strings.Contains(told[0], "without its last records") {
			t.Errorf("after a day OnError was told %q", told)
		}
	}
	if names := fmt.Sprint(dirNames(t, late)); strings.Contains(names, ".iet") {
		t.Errorf("after a day a start leaves %s", names)
	}
	must(t, os.Remove(c.path))
	second := *c
	second.run, second.journals = 1, "default"
	if out, err := second.finish(t); err == nil {
		t.Fatal(out)
	}
	if b := readFile(t, filepath.Join(filepath.Dir(c.path), "app.iet.buffer")); !strings.HasPrefix(string(b), "ENTRACEB") {
		t.Errorf("in a container the journal is not in the folder of the trace: %q", b[:min(len(b), 80)])
	}
}
