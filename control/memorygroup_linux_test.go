package control_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

func init() { children["small memory"] = inSmallMemory }

const smallMemory = 32 << 20

// inSmallMemory fills a ring of the default size, and makes a snapshot.
func inSmallMemory(dir string) error {
	if got := osfile.MemoryLimit(); got != smallMemory {
		return fmt.Errorf("the limit is %d bytes, want %d", got, smallMemory)
	}
	var told []string
	r, err := recordingTold(dir, 0, &told)
	if err != nil {
		return err
	}
	text := strings.Repeat("x", 1000)
	for range 2 * smallMemory / len(text) {
		r.log.Info(text)
	}
	if err := errors.Join(r.snapshots(1), r.end()); err != nil {
		return err
	}
	if len(told) != 1 || !strings.Contains(told[0], "not enough memory") {
		return fmt.Errorf("it is told %q", told)
	}
	return nil
}

// TestFlightRecorderInSmallMemoryGroup runs inSmallMemory in a control group with 32 MiB of memory. If the
// process used more, the kernel would kill it.
func TestFlightRecorderInSmallMemoryGroup(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector takes more memory than the group has")
	}
	group := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprint("entrace-test-", os.Getpid())) // control groups of version 1
	if err := os.Mkdir(group, 0o755); err != nil {
		if _, serr := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); serr == nil && os.Getenv(ciEnv) != "" && os.Geteuid() == 0 {
			t.Fatal(err)
		}
		t.Skip("no control group can be made: ", err)
	}
	defer os.Remove(group)
	must(t, os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), fmt.Append(nil, smallMemory), 0o600))
	exe, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `echo 0 > "$0/cgroup.procs" && exec "$1"`, group, exe)
	cmd.Env = append(os.Environ(), childEnv+"=small memory", dirEnv+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expect.Len(t, traceFiles(t, dir), 1, "the traces")
}
