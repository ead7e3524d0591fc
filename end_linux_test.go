package entrace_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
)

// TestNoLocks: without file locks, a process cannot know whether an existing file is in use. So the
// second process records to a file of its own.
func TestNoLocks(t *testing.T) {
	hosttest.NeedStrace(t)
	clean(t)
	for range 2 {
		cmd := exec.Command("strace", "-f", "-qq", "-o", os.DevNull, "-e", "trace=flock", "-e", "inject=flock:error=ENOLCK", os.Args[0])
		cmd.Env = append(os.Environ(), "ENTRACE_TEST_END=kill")
		out, _ := cmd.CombinedOutput() // an error, because the program kills itself
		if list, err := filepath.Glob("*.iet"); err != nil || len(list) == 0 {
			t.Fatalf("%v, %v\n%s", list, err, out)
		} else if len(list) == 2 && !strings.Contains(string(out), "perhaps format: in use by a living process: the file system does not support file locks") {
			t.Errorf("the second says\n%s", out)
		}
	}
	list, err := filepath.Glob("app*.iet")
	must(t, err)
	if len(list) != 2 {
		t.Fatalf("there is %q, want two", list)
	}
	for _, name := range list {
		f, err := recorder.Open(name, nil)
		must(t, err)
		if last, err := f.Entry(uint32(f.Len() - 1)); err != nil || last.Message.Value != "begun" {
			t.Errorf("%s ends with %v, %v", name, last, err)
		}
		must(t, f.Close())
	}
}
