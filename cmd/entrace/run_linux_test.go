package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// TestRunSignalsOnTerminal checks that the command gets each signal once, from the terminal or from another
// process.
func TestRunSignalsOnTerminal(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must(t, err)
	defer terminal.Close()
	must(t, unix.IoctlSetPointerInt(int(terminal.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPTN)
	must(t, err)
	end, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "entrace", "run", "-o", "x.et", "--", "sh", "-c", "trap 'echo got INT' INT; trap 'echo got HUP' HUP; trap 'echo got USR1' USR1; echo ready; while :; do sleep 0.05; done")
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = hosttest.TraceDir(t), end, end, end
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must(t, cmd.Start())
	must(t, end.Close())
	defer func() { _ = cmd.Process.Kill(); _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() }()
	lines := make(chan string, 100)
	go func() {
		for s := bufio.NewScanner(terminal); s.Scan(); {
			lines <- strings.TrimPrefix(strings.TrimSpace(s.Text()), "^C")
		}
	}()
	wants := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			expect.Equal(t, got, want, "the command prints")
		case <-time.After(20 * time.Second):
			t.Fatalf("the command does not print %q", want)
		}
	}
	wants("ready")
	for range 3 {
		must(t, cmd.Process.Signal(syscall.SIGINT))
		wants("got INT")
		must(t, cmd.Process.Signal(syscall.SIGHUP))
		wants("got HUP")
		_, err := terminal.WriteString("\x03")
		must(t, err)
		wants("got INT")
		// run forwards USR1 after the first INT. Once USR1 has arrived, the next INT cannot merge with the first.
		must(t, cmd.Process.Signal(syscall.SIGUSR1))
		wants("got USR1")
	}
	time.Sleep(2 * witnessWait)
	if len(lines) > 0 {
		t.Errorf("the command got %q as well", <-lines)
	}
}
