package receive_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestFrozenFolderTakesRequestsWhole freezes the file system of the folder for longer than a call waits, while
// senders continue. It mounts a file system, so it runs only with make soak.
func TestFrozenFolderTakesRequestsWhole(t *testing.T) {
	if !hosttest.Soak() {
		return
	}
	work := t.TempDir()
	image, dir := filepath.Join(work, "image"), filepath.Join(work, "disk")
	command := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(context.Background(), name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	must(t, os.Mkdir(dir, 0o700))
	command("truncate", "-s", "600M", image)
	command("mkfs.ext4", "-q", image)
	command("mount", "-o", "loop", image, dir)
	defer command("umount", dir)
	f := newFiles(t, receive.FolderOptions{Dir: dir})
	end := time.Now().Add(9 * time.Second)
	time.AfterFunc(2*time.Second, func() { command("fsfreeze", "-f", dir) })
	time.AfterFunc(5*time.Second, func() { command("fsfreeze", "-u", dir) })
	taken, again := overload(t, f, 4, 512, func() bool {
		time.Sleep(50 * time.Millisecond)
		return time.Now().Before(end)
	})
	f.Close(context.Background())
	compareNumbers(t, dir, taken)
	if len(taken) < 50_000 {
		t.Errorf("%d spans were taken", len(taken))
	}
	t.Logf("%d spans were taken, %d requests are to come again", len(taken), again)
}
