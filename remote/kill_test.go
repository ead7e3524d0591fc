//go:build unix

package remote_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/remote"
)

const killEnv = "ENTRACE_TEST_RECEIVE"

// TestKillChild is the child process with the receiver.
func TestKillChild(t *testing.T) {
	dir := os.Getenv(killEnv)
	if dir == "" {
		return
	}
	r := remote.Receiver{Dir: dir}
	l, err := r.Listen("127.0.0.1:0")
	must(t, err)
	fmt.Println(l.Addr())
	must(t, r.Serve(context.Background(), l))
}

// TestKilledReceiver kills a receiver. The file that it leaves must have the complete entries that were received,
// and it must be possible to make an ET from it.
func TestKilledReceiver(t *testing.T) {
	exe, err := os.Executable()
	must(t, err)
	dir := t.TempDir()
	cmd := exec.Command(exe, "-test.run=^TestKillChild$")
	cmd.Env = append(os.Environ(), killEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	s := bufio.NewScanner(out)
	s.Scan()
	addr := s.Text()
	b := stream(format.Root())
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer c.Close()
	const whole = 1000
	for range whole {
		b = frame(b, named(0, "entry"))
	}
	size := int64(len(b) - 8*(whole+1))                    // without the lengths of the entries
	_, err = c.Write(append(b, 9, 0, 0, 0, 0, 0, 0, 0, 1)) // with a part of another entry
	must(t, err)
	name := ""
	tracetest.Eventually(t, "all whole entries are in the file", func() bool {
		names := files(t, dir)
		if len(names) != 1 {
			return false
		}
		name = filepath.Join(dir, names[0])
		fi, err := os.Stat(name)
		return err == nil && fi.Size() == size
	})
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // the process was killed
	f, err := format.Open(name, nil)
	must(t, err)
	if n := f.Len(); n != whole+1 || f.Format() != format.IET {
		t.Errorf("%v of %d entries, want %d", f.Format(), n, whole+1)
	}
	must(t, f.Close())
	_, err = recorder.Recover(name, "")
	must(t, err)
}
