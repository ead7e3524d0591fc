//go:build conformance && unix

package conformance_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A tmux is a terminal in which a command runs.
type tmux struct {
	t      *testing.T
	socket string
	traces string // the folder of the files
	live   *exec.Cmd
	tell   io.Writer // to the program that writes a trace while it is shown
	told   *bufio.Scanner
}

// do runs a command of tmux, and returns what it prints.
func (x *tmux) do(args ...string) string {
	x.t.Helper()
	out, err := exec.CommandContext(x.t.Context(), "tmux", append([]string{"-f", "/dev/null", "-S", x.socket}, args...)...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// resets are the sequences at the end of a color. Where tmux prints them depends on which blanks were drawn before.
var resets = strings.NewReplacer("\x1b[0;", "␛[", "\x1b[0m", "", "\x1b[39m", "", "\x1b[49m", "", "\x1b", "␛")

// screen returns what the terminal shows, with the beginnings of the colors as text.
func (x *tmux) screen() string {
	text := resets.Replace(x.do("capture-pane", "-p", "-e", "-t", "0"))
	return strings.TrimRight(text, "\n") + "\n"
}

// open starts the command in a terminal with a size, as in 80x24, and with environment variables.
func (x *tmux) open(words []string) {
	entrace, err := command()
	expect.Must(x.t, err)
	line := []string{"cd", x.traces, "&&", "env", "TZ=UTC", "PS1=$ "}
	var files []string
	width, height := 0, 0
	for _, w := range words {
		switch _, err := fmt.Sscanf(w, "%dx%d", &width, &height); {
		case err == nil:
		case strings.Contains(w, "=") && !strings.HasPrefix(w, "--"):
			line = append(line, w)
		default:
			files = append(files, w)
		}
	}
	line = append(append(append(line, entrace, "ui"), files...), ";", "echo", "ended", "$?;", "sleep", "1000")
	x.do("new-session", "-d", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height), strings.Join(line, " "))
	x.do("set-option", "-g", "escape-time", "0")
}

// wait waits until the terminal shows what ok accepts.
func (x *tmux) wait(what string, ok func(screen string) bool) {
	x.t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		s := x.screen()
		if ok(s) {
			return
		}
		if time.Since(begun) > 20*time.Second {
			x.t.Fatalf("waited for\n%s\nthe terminal shows\n%s", what, s)
		}
	}
}

// step does a step of a script.
func (x *tmux) step(line string) {
	x.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	words := strings.Fields(rest)
	switch verb {
	case "open":
		x.open(words)
	case "press":
		x.do(append([]string{"send-keys", "-t", "0"}, words...)...)
	case "type":
		x.do("send-keys", "-l", "-t", "0", rest)
	case "size":
		width, height, _ := strings.Cut(rest, "x")
		x.do("resize-window", "-x", width, "-y", height)
	case "click": // a column and a row, from 1 on
		x.do("send-keys", "-l", "-t", "0", fmt.Sprintf("\x1b[<0;%s;%sM\x1b[<0;%s;%sm", words[0], words[1], words[0], words[1]))
	case "see":
		re := regexp.MustCompile(rest)
		x.wait(rest, re.MatchString)
	case "run":
		x.live = exec.CommandContext(x.t.Context(), filepath.Join(x.traces, "traces"), x.traces, rest)
		in, err := x.live.StdinPipe()
		expect.Must(x.t, err)
		out, err := x.live.StdoutPipe()
		expect.Must(x.t, err)
		x.tell, x.told = in, bufio.NewScanner(out)
		expect.Must(x.t, x.live.Start())
	case "tell":
		_, err := fmt.Fprintln(x.tell, rest)
		expect.Must(x.t, err)
		if !x.told.Scan() {
			x.t.Fatal("the program has ended")
		}
	case "kill":
		expect.Must(x.t, x.live.Process.Kill())
		_ = x.live.Wait() // it was killed
	case "hangup":
		x.do("kill-server")
	default:
		x.t.Fatalf("unknown step %q", line)
	}
}

// settled returns the screen once it has not changed for a while.
func (x *tmux) settled() string {
	for was := ""; ; {
		time.Sleep(700 * time.Millisecond)
		now := x.screen()
		if now == was && !strings.Contains(now, "computing") {
			return now
		}
		was = now
	}
}

// TestTerminal runs the scripts of testdata/terminal in tmux. In a script, lines that begin with "$ " are steps; the
// others are the screen after the steps above, with ␛ for the escape character.
func TestTerminal(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Fatal("this test needs tmux: ", err)
	}
	traces := t.TempDir()
	program, err := built("../../..", "./viewer/web/test/traces")
	expect.Must(t, err)
	out, err := exec.CommandContext(t.Context(), program, traces).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expect.Must(t, os.Symlink(program, filepath.Join(traces, "traces")))
	scripts, err := filepath.Glob("testdata/terminal/*.txt")
	expect.Must(t, err)
	expect.Equal(t, len(scripts) > 5, true, "there are scripts")
	for _, name := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(name)
			expect.Must(t, err)
			x := &tmux{t: t, socket: filepath.Join(t.TempDir(), "tmux"), traces: traces}
			defer func() { _ = exec.Command("tmux", "-S", x.socket, "kill-server").Run() }() // it may have ended
			var updated strings.Builder
			for part := range strings.SplitSeq("\n"+strings.TrimRight(string(script), "\n"), "\n$ ") {
				if part == "" {
					continue
				}
				step, screen, has := strings.Cut(part, "\n")
				x.step(step)
				updated.WriteString("$ " + step + "\n")
				if !has {
					continue
				}
				if *update {
					screen = x.settled()
				} else {
					x.wait(screen, func(now string) bool { return now == strings.TrimRight(screen, "\n")+"\n" })
				}
				updated.WriteString(strings.TrimRight(screen, "\n") + "\n")
			}
			if *update {
				expect.Must(t, os.WriteFile(name, []byte(updated.String()), 0o600))
			}
		})
	}
}
