//go:build unix

package control_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// A process is a child process of the test. said has the lines that it has printed.
type process struct {
	t   *testing.T
	cmd *exec.Cmd
	err bytes.Buffer

	reading sync.WaitGroup
	mu      sync.Mutex
	said    []string
}

// startChild starts a process of this binary.
func startChild(t *testing.T, what, dir string) *process {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	p := &process{t: t, cmd: exec.Command(exe)}
	p.cmd.Env = append(os.Environ(), childEnv+"="+what, dirEnv+"="+dir, "GOTRACEBACK=all")
	p.cmd.Stderr = &p.err
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	p.reading.Go(func() {
		for r := bufio.NewReader(out); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				expect.Equal(t, err, io.EOF, "err")
				return // an incomplete last line does not count
			}
			p.mu.Lock()
			p.said = append(p.said, strings.TrimSpace(line))
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			p.kill(syscall.SIGKILL)
		}
	})
	return p
}

// says waits until the process has printed n lines.
func (p *process) says(n int) {
	p.t.Helper()
	eventually(p.t, fmt.Sprint("the process says ", n, " lines"), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.said) >= n
	})
}

// ends waits for the end of the process, and returns all lines that it printed.
func (p *process) ends() []string {
	p.t.Helper()
	p.reading.Wait()
	_ = p.cmd.Wait() // an error is expected: the process dies
	return p.said
}

func (p *process) kill(sig syscall.Signal) []string {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Errorf("%v; it said: %s", err, &p.err)
	}
	return p.ends()
}

// has checks that a crash trace has every step whose line the process has printed, see recordChild.
func (w *walked) has(said []string) {
	w.t.Helper()
	have := make(map[string]bool)
	for i := range w.entries {
		id := uint32(i)
		switch {
		case w.entries[i].Message.Value == "load":
			k := fmt.Sprintf("%s %s", w.attr(id, "g"), w.attr(id, "n"))
			have["L "+k] = true
			if up := w.up(id); w.entries[up].Metadata.Name == "work" && fmt.Sprintf("%s %s", w.attr(up, "g"), w.attr(up, "n")) != k {
				w.t.Errorf("log record %s is below another span", k)
			}
		case w.entries[i].Metadata.Name == "work":
			k := fmt.Sprintf("%s %s", w.attr(id, "g"), w.attr(id, "n"))
			have["S "+k] = true
			_, ended := w.ended(id)
			have["E "+k] = ended
		}
	}
	missing := 0
	for _, line := range said {
		if !have[line] {
			missing++
		}
	}
	if missing > 0 {
		w.t.Errorf("%s: of %d acknowledged records %d are missing", w.name, len(said), missing)
	}
	if w.missing > 0 {
		w.t.Errorf("%s: %d entries miss their span", w.name, w.missing)
	}
}

// TestKillAndRecover kills a recording process at random times, and checks its crash trace.
func TestKillAndRecover(t *testing.T) {
	dir := t.TempDir()
	acknowledged := 0
	rounds := hosttest.Times(8, 100)
	for round := range rounds {
		p := startChild(t, "record", dir)
		p.says(1 + rand.IntN(3000))
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		said := p.kill(syscall.SIGKILL)
		acknowledged += len(said)
		before := crashTraces(t, dir)
		if round%2 == 0 {
			r := rigOf(t, persistent(dir))
			r.quiet()
		} else {
			crashes, finished, err := recovered(dir)
			if len(crashes) != 1 || len(finished) != 0 || err != nil {
				t.Fatalf("Recover finds %+v, %q, %v; want one crash", crashes, finished, err)
			}
			if c := crashes[0]; c.Damaged != 0 || c.Err != nil || c.PID != p.cmd.Process.Pid || c.Service != "accept" {
				t.Errorf("the crash is %+v", c)
			}
		}
		now := crashTraces(t, dir)
		expect.MustEqual(t, len(now), len(before)+1, "traces of crashes after %d deaths; the process said: %s", round+1, &p.err)
		onlyTraces(t, dir)
		i := slices.IndexFunc(now, func(name string) bool { return !slices.Contains(before, name) })
		w := everyLink(t, now[i])
		w.has(said)
		if w.attr(w.head, "damaged") != "" {
			t.Errorf("of the ring %s parts were damaged", w.attr(w.head, "damaged"))
		}
	}
	t.Logf("%d rounds, %d acknowledged records", rounds, acknowledged)
}

// TestRingOfLivingProcess recovers a folder while another process records to it. Recovery does not touch
// the ring of the living process.
func TestRingOfLivingProcess(t *testing.T) {
	dir := t.TempDir()
	living := startChild(t, "record", dir)
	living.says(100)
	rings, err := filepath.Glob(filepath.Join(dir, "ring-*.ring"))
	must(t, err)
	if len(rings) != 1 {
		t.Fatalf("there are %q", rings)
	}
	dying := startChild(t, "record", dir)
	dying.says(100)
	said := dying.kill(syscall.SIGKILL)
	r := rigOf(t, persistent(dir))
	crashes, _, err := recovered(dir) // the start of r has recovered the dead process already
	if len(crashes) != 0 || err != nil {
		t.Errorf("Recover finds %+v, %v", crashes, err)
	}
	r.quiet()
	expect.MustIs(t, expect.Err(os.Stat(rings[0])), nil, "the ring of the living process")
	first := crashTraces(t, dir)
	expect.MustLen(t, first, 1, "the traces")
	everyLink(t, first[0]).has(said)
	living.mu.Lock()
	n := len(living.said)
	living.mu.Unlock()
	living.says(n + 100) // the process still records
	said = living.kill(syscall.SIGKILL)
	crashes, _, err = recovered(dir)
	if len(crashes) != 1 || err != nil || crashes[0].Name != mustResolve(t, rings[0]) {
		t.Fatalf("Recover finds %+v, %v; want %s", crashes, err, rings[0])
	}
	everyLink(t, crashes[0].Output).has(said)
	onlyTraces(t, dir)
}

// TestRecoverAtOnce lets several goroutines recover the same folder at the same time.
func TestRecoverAtOnce(t *testing.T) {
	dir := t.TempDir()
	var alive []*process // all are started before one is killed, because a start recovers dead processes
	for range 3 {
		p := startChild(t, "record", dir)
		p.says(50)
		alive = append(alive, p)
	}
	for _, p := range alive {
		p.kill(syscall.SIGKILL)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	found := 0
	for range 4 {
		all.Go(func() {
			crashes, _, err := recovered(dir)
			mu.Lock()
			defer mu.Unlock()
			expect.OK(t, err)
			for _, c := range crashes {
				found++
				expect.Is(t, c.Err, nil, "%s", c.Name)
			}
		})
	}
	all.Wait()
	names := crashTraces(t, dir)
	if len(names) != 3 || found != 3 {
		t.Errorf("3 rings became %d traces, %d were told", len(names), found)
	}
	for _, name := range names {
		everyLink(t, name)
	}
	onlyTraces(t, dir)
}

// TestWaysToDie checks the crash trace for each way in which a process can die.
func TestWaysToDie(t *testing.T) {
	tests := []struct {
		how  string
		sig  syscall.Signal // 0: the process dies by itself
		text []string       // parts of the text that the runtime writes; nil: it writes none
	}{
		{"nil", 0, []string{"nil pointer dereference", "goroutine "}},
		// The crash text begins after the line that names the error.
		{"map", 0, []string{"maps.fatal", "goroutine "}},
		{"panic", 0, []string{"on purpose", "goroutine "}},
		{"shutdown", 0, []string{"on purpose", "goroutine "}},
		{"exit", 0, nil},
		{"kill", syscall.SIGKILL, nil},
		{"segv", syscall.SIGSEGV, []string{"SIGSEGV", "goroutine "}},
		{"abrt", syscall.SIGABRT, []string{"SIGABRT", "goroutine "}},
	}
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			dir := t.TempDir()
			p := startChild(t, "die "+tt.how, dir)
			if tt.sig != 0 {
				p.says(1)
				p.kill(tt.sig)
			} else {
				p.ends()
			}
			crashes, _, err := recovered(dir)
			if len(crashes) != 1 || err != nil || crashes[0].Err != nil {
				t.Fatalf("Recover finds %+v, %v; the process said: %s", crashes, err, &p.err)
			}
			c := crashes[0]
			w := everyLink(t, c.Output)
			expect.Equal(t, w.messages()["load"], 100, "log records of the trace")
			id := w.one("the last one")
			if _, ended := w.ended(id); ended {
				t.Error("the last span has ended")
			}
			goes := slices.Contains([]string{"nil", "map", "panic", "shutdown"}, tt.how)
			expect.Equal(t, w.v.Flags(w.row(id)).Failed(), goes, "the span failed")
			stacks := w.named("goroutines")
			dying := 0
			for _, i := range stacks {
				expect.Equal(t, w.entries[i].Parent, id, "a stack is below entry")
				if strings.Contains(w.attr(i, "stack"), "control_test.die") {
					dying++
				}
			}
			if goes && dying == 0 {
				t.Errorf("none of %d stacks below the span is that of the goroutine", len(stacks))
			}
			texts := w.named(mapping.NameCrash)
			if tt.text == nil {
				if len(texts) != 0 || c.Reason != "" {
					t.Errorf("the runtime wrote %q", c.Reason)
				}
				return
			}
			if len(texts) != 1 || c.Reason == "" {
				t.Fatalf("%d entries with what the runtime wrote, want 1; it begins with %q; the process said: %s", len(texts), c.Reason, &p.err)
			}
			e := &w.entries[texts[0]]
			for _, text := range tt.text {
				if !strings.Contains(e.Message.Value, text) {
					t.Errorf("the runtime wrote nothing of %q: %.500s", text, e.Message.Value)
				}
			}
			if e.Parent != w.head || w.attr(w.head, "reason") != c.Reason {
				t.Errorf("it is below entry %d, and the reason is %q; want %d, %q", e.Parent, w.attr(w.head, "reason"), w.head, c.Reason)
			}
			onlyTraces(t, dir)
		})
	}
}

// TestKillWhileTracing kills a process at random times while it makes traces, and then records to its
// folder. Each process leaves one crash trace, and the other traces have no problems except a missing end.
func TestKillWhileTracing(t *testing.T) {
	dir := t.TempDir()
	rounds := hosttest.Times(6, 60)
	if tracetest.Race {
		rounds = 2
	}
	for range rounds {
		p := startChild(t, "traces", dir)
		p.says(1 + rand.IntN(8))
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		p.kill(syscall.SIGKILL)
		age(t, dir)
		r := rigOf(t, persistent(dir))
		r.end()
		r.quiet()
		onlyTraces(t, dir)
		if t.Failed() {
			t.Fatalf("the process said: %s", &p.err)
		}
	}
	crashed, killed := 0, 0
	for _, name := range traceFiles(t, dir) {
		w, problems := walk(t, name)
		for _, problem := range problems {
			// A stream whose process died has no end. For traces with nothing but a root, see
			// TestFolderNothingYet.
			onlyBegun := w != nil && len(w.entries) <= 1
			if !onlyBegun && !strings.Contains(problem.Error(), `0 entries "trace end"`) {
				t.Errorf("%s: %v", filepath.Base(name), problem)
			}
			killed++
		}
		if w != nil && w.attr(w.head, "trigger") == "crash" {
			crashed++
		}
	}
	expect.Equal(t, crashed, rounds, "traces of crashes")
	t.Logf("%d streams were without an end", killed)
}

// age makes the files of a folder a minute old. Recovery does not remove new temporary files, which may
// belong to living processes.
func age(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	then := time.Now().Add(-time.Minute)
	for _, e := range list {
		must(t, os.Chtimes(filepath.Join(dir, e.Name()), then, then))
	}
}
