package control_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

const disksEnv = "ENTRACE_TEST_DISKS"

// ran reports whether the test ran in the child process whose output is out.
func ran(out []byte) bool { return bytes.Contains(out, []byte("=== RUN")) }

// TestCallsReturnWhileTheDiskStands makes calls while the file system of the traces is frozen.
func TestCallsReturnWhileTheDiskStands(t *testing.T) {
	dir := os.Getenv(disksEnv)
	if dir == "" {
		exe, err := os.Executable()
		must(t, err)
		cmd := exec.Command("unshare", "-m", exe, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), disksEnv+"="+t.TempDir())
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		switch {
		case err != nil && !ran(out):
			if hosttest.Soak() {
				t.Fatalf("no disk can be mounted: %v", err)
			}
			t.Skipf("no disk can be mounted: %v", err)
		case err != nil:
			t.Fatal(err)
		}
		return
	}
	image, root := filepath.Join(dir, "image"), filepath.Join(dir, "root")
	must(t, errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 64<<20), os.Mkdir(root, 0o700)))
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, root}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			if !hosttest.Soak() {
				t.Skipf("%q: %v: %s", args, err, out)
			}
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	defer func() { must(t, unix.Unmount(root, unix.MNT_DETACH)) }()
	freeze := func(what string) {
		out, err := exec.Command("fsfreeze", what, root).CombinedOutput()
		must(t, errorIf(err != nil, fmt.Sprintf("fsfreeze %s: %v: %s", what, err, out)))
	}
	cfg := hostile(filepath.Join(root, "traces"))
	cfg.Ring.Persist = false
	cfg.Traces[0].Providers, cfg.Traces[1].Providers = control.Logs, control.Logs
	ctl, err := control.New(&control.Options{Config: cfg})
	must(t, err)
	stream, err := ctl.Start(t.Context(), ask("deep"))
	must(t, err)
	freeze("-f")
	thaw := sync.OnceFunc(func() { freeze("-u") })
	defer thaw()
	ctl.Fire(ask("shot"))
	answersWhileStuck(t, ctl, stream)
	if list, _ := filepath.Glob(filepath.Join(root, "traces", "*.et")); len(list) > 0 {
		t.Errorf("the disk did not stand: there are %q", list)
	}
	thaw()
	wantStopped(t, stream)
	must(t, ctl.Shutdown(t.Context()))
}
