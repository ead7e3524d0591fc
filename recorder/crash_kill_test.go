//go:build unix

package recorder_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// soakEnv is the environment variable that makes tests run longer, and enables the tests that need root.
const soakEnv = "ENTRACE_SOAK"

// kills returns how often a test kills a program.
func kills(t *testing.T, usual int) int {
	t.Helper()
	if s := os.Getenv("ENTRACE_SOAK_KILLS"); s != "" {
		n, err := strconv.Atoi(s)
		must(t, err)
		return n
	}
	return hosttest.Times(usual, 1000)
}

var durabilities = []recorder.Durability{recorder.DurabilityProcess, recorder.DurabilityWriteThrough, recorder.DurabilityPower}

// storm sends harmless signals to this process until stop is called.
func storm() (stop func()) {
	var over atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		for !over.Load() {
			_ = syscall.Kill(os.Getpid(), syscall.SIGURG)
			time.Sleep(20 * time.Microsecond)
		}
	})
	return func() {
		over.Store(true)
		wg.Wait()
	}
}

// journalFolders has two values for crashRun.journals. With "" the journal is written; with "default" it is
// mapped if the system has shared memory.
var journalFolders = []string{"", "default"}

// TestKillUnderLoad kills a program at a random moment while eight goroutines record. Each acknowledged
// unit is in the files once, below its parent.
func TestKillUnderLoad(t *testing.T) {
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			n := kills(t, hosttest.InCI(8, 20))
			units, lost := 0, 0
			for i := range n {
				c := &crashRun{
					path: filepath.Join(t.TempDir(), "app.et"), durability: d, version: format.Version(1 + i/2%2),
					goroutines: 8, large: i%4 < 2, flushEvery: i % 3 * 70, journals: journalFolders[i/4%2],
				}
				c.kill(t, false)
				c.settled(t, i%2 == 1)
				lost += c.check(t, collect(t, filepath.Dir(c.path)))
				_, returned := c.acked(t)
				units += sum(returned)
				if t.Failed() {
					t.Fatalf("kill %d of version %d, the files are in %s: %v", i, c.version, keep(t, c.path), dirNames(t, filepath.Dir(c.path)))
				}
				must(t, os.RemoveAll(filepath.Dir(c.path)))
			}
			t.Logf("%d kills, %d acknowledged units, %d without a file", n, units, lost)
		})
	}
}

// keep copies the folder of path, and returns the copy, which is not removed after the test.
func keep(t *testing.T, path string) string {
	dir, err := os.MkdirTemp("", "entrace-crash-") //nolint:usetesting // it must not be removed
	must(t, err)
	must(t, os.CopyFS(filepath.Join(dir, "d"), os.DirFS(filepath.Dir(path))))
	return dir
}

// TestKillChain kills many programs one after the other on the same path, with and without rotation. Some
// are killed while they finish the files of the program before. Every acknowledged unit of all programs is
// in one of the files, once.
func TestKillChain(t *testing.T) {
	for _, x := range []struct {
		name    string
		entries int
	}{{"one file", 0}, {"rotating", 150}} {
		for _, d := range durabilities {
			for _, ext := range []string{".et", ".iet"} {
				t.Run(x.name+" "+d.String()+ext, func(t *testing.T) {
					t.Parallel()
					n := kills(t, 4)
					if n > 100 {
						n /= 10
					}
					path := filepath.Join(t.TempDir(), "app"+ext)
					var runs []*crashRun
					total := 0
					for i := range n {
						c := &crashRun{run: i, path: path, durability: d, version: format.V1, goroutines: 4, entries: x.entries, large: i%3 == 0, flushEvery: i % 2 * 50, journals: journalFolders[i/2%2]}
						if x.entries > 0 {
							c.units = 2000
							c.end = "wait"
						}
						c.kill(t, i%2 == 0)
						runs = append(runs, c)
						_, returned := c.acked(t)
						total += sum(returned)
					}
					runs[0].settled(t, true)
					units := collect(t, filepath.Dir(path))
					for _, c := range runs {
						c.check(t, units)
					}
					t.Logf("%d kills, %d acknowledged units, %d files", n, total, len(traces(t, filepath.Dir(path))))
					if t.Failed() {
						t.Logf("the files are in %s", keep(t, path))
					}
				})
			}
		}
	}
}

// TestDeathWithoutClose checks programs that end without Close, but not by a signal.
func TestDeathWithoutClose(t *testing.T) {
	for _, end := range []string{"exit", "panic", "fatal"} {
		for _, d := range durabilities {
			t.Run(end+" "+d.String(), func(t *testing.T) {
				c := &crashRun{path: filepath.Join(t.TempDir(), "app.et"), durability: d, version: format.V2, goroutines: 2, units: 128, end: end}
				out, err := c.finish(t)
				if err == nil || strings.Contains(out, "FAIL:") {
					t.Fatalf("it ended with %v:\n%s", err, out)
				}
				if _, returned := c.acked(t); sum(returned) != 256 {
					t.Fatalf("%d units were recorded, want 256:\n%s", sum(returned), out)
				}
				c.settled(t, true)
				c.check(t, collect(t, filepath.Dir(c.path)))
			})
		}
	}
}

// TestDeathWithSpansLeftBehind checks a program that dies while only the journal has the ends of some
// spans. These spans began in earlier files, and the last file does not repeat them. After recovery each
// span is complete, even if the earlier files are removed.
func TestDeathWithSpansLeftBehind(t *testing.T) {
	for i, journals := range []string{"", "default", "", "default"} {
		c := &crashRun{path: filepath.Join(t.TempDir(), "app.et"), version: format.V2, goroutines: 1, units: 90, flushEvery: 9, entries: 40, leaks: 30, replaces: i >= 2, end: "exit", journals: journals}
		if out, err := c.finish(t); err == nil || strings.Contains(out, "FAIL:") {
			t.Fatalf("it ended with %v:\n%s", err, out)
		}
		if i >= 2 {
			for _, name := range traces(t, filepath.Dir(c.path)) {
				if filepath.Base(name) != "app.iet" {
					must(t, os.Remove(name))
				}
			}
		}
		c.settled(t, i%2 == 0)
		c.checkLeaks(t)
	}
}

// TestKillWhileSuspended kills a program in which some goroutines record while another one suspends the
// recorder again and again. Each acknowledged unit is in the files once.
func TestKillWhileSuspended(t *testing.T) {
	for i := range kills(t, 6) {
		c := &crashRun{
			path: filepath.Join(t.TempDir(), "app.et"), version: format.V2, goroutines: 1 + i%4, flushEvery: i % 3 * 70,
			entries: i % 2 * 400, suspend: 1 + i%5*3, orphans: true, journals: journalFolders[i/2%2],
		}
		c.kill(t, false)
		c.settled(t, i%2 == 1)
		c.check(t, collect(t, filepath.Dir(c.path)))
		if t.Failed() {
			t.Fatalf("kill %d, the files are in %s", i, keep(t, c.path))
		}
	}
}

// TestSignals checks that records are not lost while the process receives many signals.
func TestSignals(t *testing.T) {
	for _, d := range durabilities {
		t.Run(d.String(), func(t *testing.T) {
			c := &crashRun{path: filepath.Join(t.TempDir(), "app.et"), durability: d, version: format.V1, goroutines: 3, units: 300, flushEvery: 7, signals: true, end: "close", journals: "default"}
			if out, err := c.finish(t); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if lost := c.check(t, collect(t, filepath.Dir(c.path))); lost > 0 {
				t.Errorf("%d units are lost", lost)
			}
		})
	}
}

// TestWaitingSpans checks a program that dies while spans wait for parents that are never recorded.
// Recovery writes these spans below their resource, with their log records below them.
func TestWaitingSpans(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		t.Run(fmt.Sprint("v", v), func(t *testing.T) {
			c := &crashRun{path: filepath.Join(t.TempDir(), "app.et"), version: v, goroutines: 8, units: 8, flushEvery: 4, end: "exit"}
			if out, err := c.finish(t); err == nil {
				t.Fatal(out)
			}
			r, err := recorder.Inspect(c.path)
			must(t, err)
			if r.Pending == 0 {
				t.Error("nothing waits")
			}
			r, err = recorder.Recover(c.path, "")
			must(t, err)
			units := collect(t, filepath.Dir(c.path))
			c.check(t, units)
			if len(units) != 64 || r.Entries != 64+3 { // 3 for the root, the resource and the last entry
				t.Errorf("%d units in %d entries, want 64 in 67", len(units), r.Entries)
			}
			for g := range 8 {
				if u := units[unitName(0, g, 6)][0]; u.parent != format.NameResource || u.parentSpan == "" {
					t.Errorf("the span whose parent never came is %+v", u)
				}
				if u := units[unitName(0, g, 7)][0]; u.parent != unitName(0, g, 6) {
					t.Errorf("its log record is %+v", u)
				}
			}
		})
	}
}

// TestLocks checks that a child process does not hold the locks of its parent, and that a killed program
// holds no lock.
func TestLocks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	rec := tracetest.CreateAt(t, path, nil)
	must(t, logNamed(rec, "first"))
	c := &crashRun{path: path, version: format.V1, goroutines: 1, units: 10, end: "close"}
	out, err := c.finish(t)
	if err == nil || !strings.Contains(out, format.ErrLocked.Error()) {
		t.Errorf("the child that opens its parent's path: %v, %s; want %v", err, out, format.ErrLocked)
	}
	// Start a child that lives on and has inherited everything that this process passes on.
	other := &crashRun{path: filepath.Join(t.TempDir(), "other.et"), version: format.V1, goroutines: 1, units: 1, end: "wait"}
	cmd := other.command(t)
	must(t, cmd.Start())
	eventually(t, "the child records", func() bool {
		_, returned := other.acked(t)
		return sum(returned) > 0
	})
	tracetest.Close(t, rec)
	must(t, os.Rename(path, path+".first.et"))
	rec, err = recorder.Create(path, nil)
	if err != nil {
		t.Errorf("a program that was started meanwhile holds the lock: %v", err)
	} else {
		tracetest.Close(t, rec)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	rec, err = recorder.Create(other.path, nil)
	if err != nil {
		t.Errorf("after the writer was killed: %v", err)
	} else {
		tracetest.Close(t, rec)
	}
	if names := dirNames(t, filepath.Dir(path)); len(names) != 3 {
		t.Errorf("the folder has %q, want two traces and the child's list", names)
	}
}
