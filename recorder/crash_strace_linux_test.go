package recorder_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// needStrace skips a test if strace is missing, or under the race detector, which makes many system calls
// itself.
func needStrace(t *testing.T) {
	t.Helper()
	hosttest.NeedStrace(t)
	if recorder.RaceEnabled {
		t.Skip("the race detector makes a program of many system calls")
	}
}

// traced runs the program of c under strace, with the further arguments args for strace.
func (c *crashRun) traced(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	cmd := c.command(t)
	// Do not use --seccomp-bpf: with it strace 6.1 sends no signal.
	args = append([]string{"-f", "-qq", "-o", filepath.Join(filepath.Dir(c.acks()), ".strace")}, args...)
	run := exec.Command("strace", append(append(args, "--"), cmd.Args...)...)
	// Under strace each system call stops its thread twice. With several processors, threads would wait for
	// each other and make most of the system calls.
	run.Env = append(cmd.Env, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1")
	b, err := run.CombinedOutput()
	return string(b), err
}

// calls returns for each system call the largest number of calls by one thread of the program.
func (c *crashRun) calls(t *testing.T, names []string) map[string]int {
	t.Helper()
	if out, err := c.traced(t, "-e", "trace="+strings.Join(names, ",")); err != nil && c.end != "exit" {
		t.Fatalf("%v\n%s", err, out)
	}
	log := readFile(t, filepath.Join(filepath.Dir(c.acks()), ".strace"))
	counts, most := make(map[string]int), make(map[string]int)
	for _, m := range regexp.MustCompile(`(?m)^(\d+) +(\w+)\(`).FindAllSubmatch(log, -1) {
		key := string(m[1]) + string(m[2])
		counts[key]++
		most[string(m[2])] = max(most[string(m[2])], counts[key])
	}
	return most
}

// changing are the system calls that change files.
var changing = []string{"write", "pwrite64", "ftruncate", "fallocate", "fsync", "renameat2", "unlinkat", "copy_file_range", "openat", "flock", "close", "mmap", "munmap"}

// killAtEveryCall runs the program of prepare again and again. For n = 1, 2, …, strace kills it at its nth
// call of each system call in names. check then checks the files that are left. Outside of CI it kills only at one call
// of three.
func killAtEveryCall(t *testing.T, names []string, prepare func(t *testing.T) *crashRun, check func(t *testing.T, c *crashRun)) {
	t.Helper()
	runs := 0
	first := prepare(t)
	most := first.calls(t, names)
	check(t, first)
	for _, name := range names {
		alive := 0 // runs that were not killed; more than one, because the number of calls varies
		for n := 1; most[name] > 0 && alive < hosttest.InCI(1, 2); n += hosttest.InCI(3, 1) {
			c := prepare(t)
			out, err := c.traced(t, "-e", "trace="+name, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", name, n))
			if !killed(err) {
				alive++
				if n == 1 || err != nil && c.end != "exit" {
					t.Fatalf("not killed at %s %d: %v\n%s", name, n, err, out)
				}
			}
			check(t, c)
			if t.Failed() {
				t.Fatalf("killed at %s %d; the files are in %s", name, n, keep(t, c.path))
			}
			must(t, os.RemoveAll(filepath.Dir(c.path)))
			runs++
		}
	}
	t.Logf("%d runs, calls %v", runs, most)
}

// again returns a function prepare for killAtEveryCall. The function restores the folder to its current
// state.
func (c *crashRun) again(t *testing.T) func(*testing.T) *crashRun {
	t.Helper()
	dir, kept := filepath.Dir(c.path), filepath.Join(hosttest.MemoryDir(t), "kept")
	must(t, os.CopyFS(kept, os.DirFS(dir)))
	return func(t *testing.T) *crashRun {
		t.Helper()
		must(t, os.RemoveAll(dir))
		must(t, os.CopyFS(dir, os.DirFS(kept)))
		return c
	}
}

func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	w := exit.Sys().(syscall.WaitStatus)
	return w.Signaled() && w.Signal() == syscall.SIGKILL || exit.ExitCode() == 128+9
}

// TestKillAtEverySyscall kills a program at each of its system calls that change files.
func TestKillAtEverySyscall(t *testing.T) {
	needStrace(t)
	soak := os.Getenv(soakEnv) != ""
	for _, x := range []struct {
		durability recorder.Durability
		entries    int
		names      []string // the system calls if the tests do not soak
	}{
		{recorder.DurabilityProcess, 0, nil}, // the next case also makes these calls
		{recorder.DurabilityProcess, 20, changing[:8]},
		{recorder.DurabilityPower, 20, []string{"fsync"}}, // with this durability, fsync is called far more often
	} {
		names := x.names
		if soak {
			names = changing
		}
		if len(names) == 0 {
			continue
		}
		t.Run(fmt.Sprint(x.durability, " ", x.entries), func(t *testing.T) {
			t.Parallel()
			odd := false
			killAtEveryCall(t, names, func(t *testing.T) *crashRun {
				return &crashRun{
					path: filepath.Join(t.TempDir(), "app.et"), durability: x.durability, version: format.V1,
					goroutines: 1, units: 18 + 2*x.entries, flushEvery: 7, entries: x.entries, end: "close",
				}
			}, func(t *testing.T, c *crashRun) {
				odd = !odd
				c.settled(t, odd)
				c.check(t, collect(t, filepath.Dir(c.path)))
			})
		})
	}
}

// crashed runs a program that dies while some of its units are in the file and the others only in the
// journal. It returns the run.
func crashed(t *testing.T, path string, v format.Version) *crashRun {
	t.Helper()
	c := &crashRun{path: path, version: v, goroutines: 1, units: 28, flushEvery: 15, end: "exit"}
	if out, err := c.finish(t); err == nil {
		t.Fatal(out)
	}
	return c
}

// TestKillDuringRecovery kills Recover at each of its system calls, and then recovers again. The trace then
// has each record of the journal once.
func TestKillDuringRecovery(t *testing.T) {
	needStrace(t)
	for _, x := range []struct {
		name string
		ext  string
		fate func(t *testing.T, stream string)
	}{
		{"same", ".et", func(*testing.T, string) {}},
		{"same", ".iet", func(*testing.T, string) {}},
		{"gone", ".et", func(t *testing.T, stream string) {
			must(t, os.Rename(stream, strings.TrimSuffix(stream, ".iet")+".20260102T030405.678Z.iet"))
		}},
	} {
		t.Run(x.name+x.ext, func(t *testing.T) {
			t.Parallel()
			c := crashed(t, filepath.Join(hosttest.MemoryDir(t), "app"+x.ext), format.V1)
			x.fate(t, filepath.Join(filepath.Dir(c.path), "app.iet"))
			c.keptAcks = readFile(t, c.acks())
			c.end = "recover"
			killAtEveryCall(t, changing[:8], c.again(t), func(t *testing.T, c *crashRun) {
				must(t, os.WriteFile(c.acks(), c.keptAcks, 0o600))
				c.settled(t, true)
				units := collect(t, filepath.Dir(c.path))
				d := *c
				if x.name != "same" {
					d.entries = 1 // a unit may be in another file than its parent
				}
				d.check(t, units)
			})
		})
	}
}

// TestKillDuringRecoveryOfRotation is like TestKillDuringRecovery, for a program that was killed in a
// rotation: the new file had its name already, but the journal still described the old file.
func TestKillDuringRecoveryOfRotation(t *testing.T) {
	needStrace(t)
	for _, ext := range []string{".et", ".iet"} {
		t.Run(ext, func(t *testing.T) {
			t.Parallel()
			dir := hosttest.MemoryDir(t)
			c := &crashRun{path: filepath.Join(dir, "app"+ext), version: format.V1, goroutines: 1, units: 88, flushEvery: 29, entries: 40, waiting: true, end: "wait"}
			c.killInRotation(t)
			c.keptAcks = readFile(t, c.acks())
			c.end = "recover"
			killAtEveryCall(t, changing[:8], c.again(t), func(t *testing.T, c *crashRun) {
				must(t, os.WriteFile(c.acks(), c.keptAcks, 0o600))
				c.settled(t, true)
				units := collect(t, dir)
				c.check(t, units)
				if waiting := units[unitName(0, 1, 0)]; len(waiting) != 1 {
					t.Errorf("the span that waits is there %d times: %v", len(waiting), waiting)
				}
			})
		})
	}
}

// killInRotation kills the program just after both files of a rotation have their names.
func (c *crashRun) killInRotation(t *testing.T) {
	t.Helper()
	cmd := c.command(t)
	run := exec.Command("strace", append([]string{"-f", "-qq", "-o", os.DevNull, "-e", "trace=renameat2", "-e", "inject=renameat2:delay_exit=1000000", "--"}, cmd.Args...)...)
	run.Env, run.SysProcAttr = cmd.Env, &syscall.SysProcAttr{Setpgid: true}
	must(t, run.Start())
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(filepath.Dir(c.path), "app.iet")); err == nil && len(traces(t, filepath.Dir(c.path))) == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Error("it has not rotated")
			break
		}
	}
	must(t, syscall.Kill(-run.Process.Pid, syscall.SIGKILL))
	_ = run.Wait() // strace and the program are dead
}

// TestKillDuringRecoveryOfCorrupt kills Recover of a corrupt file at each of its system calls, and then
// recovers again. The trace then has the complete entries of the file and the records of the journal, and
// there is one copy of the corrupt file.
func TestKillDuringRecoveryOfCorrupt(t *testing.T) {
	needStrace(t)
	names := append(slices.Clone(changing[:8]), "linkat", "renameat", "rename")
	for _, x := range []struct {
		name    string
		file    string // the corrupt file
		journal bool
	}{
		{"x.iet", "x.iet", false},
		{"x.et", "x.iet", false},
		{"x.et", "x.et", false},
		{"x.iet", "x.iet", true},
		{"x.et", "x.iet", true},
	} {
		t.Run(fmt.Sprint(x.name, " of ", x.file, " ", x.journal), func(t *testing.T) {
			t.Parallel()
			c := crashed(t, filepath.Join(hosttest.MemoryDir(t), x.name), format.V1)
			dir := filepath.Dir(c.path)
			name := filepath.Join(dir, x.file)
			if !x.journal {
				must(t, os.Remove(filepath.Join(dir, "x.iet.buffer")))
			}
			if x.file == "x.et" {
				must(t, format.Finalize(t.Context(), filepath.Join(dir, "x.iet"), name, &format.FinalizeOptions{RemoveSource: true}))
			}
			corrupt, whole := breakEntry(t, name)
			c.end = "recover"
			killAtEveryCall(t, names, c.again(t), func(t *testing.T, c *crashRun) {
				// A test that runs in parallel may be starting a process. That process holds the locks of this one
				// until it executes its program.
				unlocked := func(try func() error) (err error) {
					for until := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
						err = try()
						if !errors.Is(err, format.ErrLocked) || time.Now().After(until) {
							return err
						}
					}
				}
				for range 2 { // the second Recover has no work
					must(t, unlocked(func() error { return expect.Err(recorder.Recover(c.path, "")) }))
				}
				var r *recorder.Report
				err := unlocked(func() (err error) { r, err = recorder.Inspect(c.path); return err })
				if err != nil || r.Reason != mapping.CutClean || r.Entries <= whole || filepath.Base(r.Name) != x.name {
					t.Errorf("%+v, %v; %d entries were whole", r, err, whole)
				}
				broken := 0
				for _, name := range dirNames(t, dir) {
					switch {
					case strings.HasSuffix(name, ".broken"):
						broken++
						if !bytes.Equal(readFile(t, filepath.Join(dir, name)), corrupt) {
							t.Errorf("%s is not what the file was", name)
						}
					case name == x.name, strings.Contains(name, ".acks"), name == ".strace", strings.Contains(name, ".tmp-"):
					default:
						t.Errorf("%s is left", name)
					}
				}
				expect.Equal(t, broken, 1, "copies")
			})
		})
	}
}

// TestCreateSettlesCorruptWithJournal damages the file of a killed program. Create makes the same files of
// it as Recover, with the records of the journal.
func TestCreateSettlesCorruptWithJournal(t *testing.T) {
	for _, ext := range []string{".et", ".iet"} {
		c := crashed(t, filepath.Join(t.TempDir(), "app"+ext), format.V1)
		dir, other := filepath.Dir(c.path), filepath.Join(t.TempDir(), "other")
		corrupt, _ := breakEntry(t, filepath.Join(dir, "app.iet"))
		must(t, os.CopyFS(other, os.DirFS(dir)))
		r, err := recorder.Recover(filepath.Join(other, "app"+ext), "")
		must(t, err)
		var told []string
		rec := tracetest.CreateAt(t, c.path, &recorder.Options{OnNotice: func(text string) { told = append(told, text) }})
		must(t, rec.Close(t.Context()))
		var settled, broken string
		for _, name := range dirNames(t, dir) {
			switch name := filepath.Join(dir, name); {
			case strings.HasSuffix(name, ".broken"):
				broken = name
			case strings.HasSuffix(name, "Z"+ext):
				settled = name
			}
		}
		if settled == "" || broken == "" {
			t.Fatalf("%s: the folder has %q", ext, dirNames(t, dir))
		}
		if !bytes.Equal(readFile(t, settled), readFile(t, r.Output)) || !bytes.Equal(readFile(t, broken), corrupt) {
			t.Errorf("%s: Create left %s, Recover %s", ext, tracetest.Outline(t, tracetest.Open(t, settled)), tracetest.Outline(t, tracetest.Open(t, r.Output)))
		}
		if r.Pending == 0 || len(told) != 1 || !strings.HasPrefix(told[0], settled) {
			t.Errorf("%s: %d entries were in the journal, OnNotice was told %q", ext, r.Pending, told)
		}
	}
}

// breakEntry makes entry 5 of a file invalid. It returns the content of the damaged file, and the number of
// entries before entry 5.
func breakEntry(t *testing.T, name string) (b []byte, whole int) {
	t.Helper()
	const before = 5
	f, err := recorder.Open(name, &format.OpenOptions{Prefix: true})
	must(t, err)
	at := f.Size()
	for id := before; id < f.Len(); id++ {
		raw, err := entrybytes.Of(f).Append(nil, uint32(id))
		must(t, err)
		at -= int64(len(raw))
	}
	must(t, f.Close())
	b = readFile(t, name)
	for i := range 12 {
		b[at+int64(i)] = 255
	}
	must(t, os.WriteFile(name, b, 0o600))
	r, err := recorder.Inspect(name)
	if err != nil || r.Reason != mapping.CutCorrupt || r.Entries != before {
		t.Fatalf("%+v, %v", r, err)
	}
	return b, before
}

// wantOneWhole checks that exactly one file of a folder has the entry of deadStream.
func wantOneWhole(t *testing.T, dir string) {
	t.Helper()
	n := 0
	for _, name := range traces(t, dir) {
		f, err := recorder.Open(name, nil)
		must(t, err)
		must(t, f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
			if e.Metadata.Name == "whole" {
				n++
			}
			return nil
		}))
		must(t, f.Close())
	}
	expect.Equal(t, n, 1, "times that the entry is there")
}

// TestKillDuringFinalize kills Finalize at each of its system calls. Then the IET is unchanged or the ET is
// complete. The next recording removes the temporary files.
func TestKillDuringFinalize(t *testing.T) {
	needStrace(t)
	t.Parallel()
	var iet []byte
	killAtEveryCall(t, changing[:11], func(t *testing.T) *crashRun {
		dir := hosttest.MemoryDir(t)
		iet = deadStream(t, filepath.Join(dir, "app.iet"))
		return &crashRun{path: filepath.Join(dir, "app.et"), goroutines: 1, end: "finalize"}
	}, func(t *testing.T, c *crashRun) {
		dir := filepath.Dir(c.path)
		stream := filepath.Join(dir, "app.iet")
		b, err := os.ReadFile(stream)
		switch {
		case err == nil && !bytes.Equal(b, iet):
			t.Error("the IET was changed")
		case err != nil:
			wantWhole(t, c.path)
		}
		if _, err := os.Stat(c.path); err == nil {
			wantWhole(t, c.path)
		}
		for _, name := range dirNames(t, dir) {
			if strings.Contains(name, ".tmp-") { // temporary files that are new may belong to a living process
				must(t, os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Now().Add(-time.Hour)))
			}
		}
		c.settled(t, false)
		names := slices.DeleteFunc(dirNames(t, dir), func(name string) bool { return name == ".strace" || strings.Contains(name, ".acks") })
		if len(names) != 2 || names[1] != "app.et" {
			t.Errorf("the folder has %q in the end", names)
		}
		wantOneWhole(t, dir)
	})
}

// TestFaultyFinalize makes a sync, rename or removal of Finalize fail. Finalize returns an error. It leaves
// the IET unchanged, unless the ET exists and is durable, and leaves no temporary file unless the removal
// failed. The next attempt succeeds.
func TestFaultyFinalize(t *testing.T) {
	needStrace(t)
	t.Parallel()
	for call, errnos := range map[string][]string{
		"fsync": {"EIO"}, "renameat2": {"EIO", "EXDEV"}, "unlinkat": {"EIO"},
	} {
		for _, errno := range errnos {
			failed := 0
			for n := 1; n <= 6; n++ {
				dir := hosttest.MemoryDir(t)
				stream := filepath.Join(dir, "app.iet")
				iet := deadStream(t, stream)
				c := &crashRun{path: filepath.Join(dir, "app.et"), goroutines: 1, end: "finalize"}
				out, err := c.traced(t, "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call, errno, n))
				if !bytes.Contains(readFile(t, filepath.Join(dir, ".strace")), []byte("INJECTED")) {
					break // the program makes fewer than n calls
				}
				failed++
				if err == nil {
					t.Errorf("%s %s %d: it does not tell", call, errno, n)
				}
				b, err := os.ReadFile(stream)
				if gone := errors.Is(err, fs.ErrNotExist); !gone && !bytes.Equal(b, iet) {
					t.Errorf("%s %s %d: the IET is not as it was (%v)\n%s", call, errno, n, err, out)
				} else if _, err := os.Stat(c.path); err == nil || gone {
					wantWhole(t, c.path) // the IET is removed last, so the ET must be whole
				}
				for _, name := range dirNames(t, dir) {
					if strings.Contains(name, ".tmp-") && call != "unlinkat" {
						t.Errorf("%s %s %d: %s is left", call, errno, n, name)
					}
				}
				c.settled(t, false)
				wantOneWhole(t, dir)
			}
			if failed == 0 {
				t.Errorf("the finalizer makes no call of %s", call)
			}
		}
	}
}

// wantWhole checks that the file name is the ET of deadStream.
func wantWhole(t *testing.T, name string) {
	t.Helper()
	if _, err := recorder.Verify(name, func(problem error) { t.Error(problem) }); err != nil {
		t.Error(err)
		return
	}
	wantWholeET(t, name)
}

// TestSyncReachesBuffer checks that Sync also syncs the journal. Recovery cuts the file to the size in the
// journal, so an old journal would undo the sync of the file.
func TestSyncReachesBuffer(t *testing.T) {
	needStrace(t)
	c := &crashRun{path: filepath.Join(t.TempDir(), "app.et"), version: format.V1, goroutines: 1, units: 20, end: "sync"}
	if out, err := c.traced(t, "-y", "-e", "trace=fsync,fdatasync,msync,sync_file_range,syncfs"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if log := readFile(t, filepath.Join(filepath.Dir(c.path), ".strace")); !bytes.Contains(log, []byte("app.iet.buffer>")) {
		t.Errorf("Sync syncs only\n%s", log)
	}
}

// TestFaultySyscalls makes system calls on the file or the journal fail. The files must have all
// acknowledged units. If units are lost or delayed, the program must report an error.
func TestFaultySyscalls(t *testing.T) {
	needStrace(t)
	for _, x := range []struct {
		name   string
		d      recorder.Durability
		file   string
		inject string
		said   string // a part of the error that the program prints; "": it prints none
		lost   bool
	}{
		{"ENOSPC", recorder.DurabilityWriteThrough, "app.iet", "write:error=ENOSPC:when=9", "no space left", true},
		{"EDQUOT", recorder.DurabilityWriteThrough, "app.iet", "write:error=EDQUOT:when=9", "quota exceeded", true},
		{"EFBIG", recorder.DurabilityPower, "app.iet", "write:error=EFBIG:when=9", "file too large", true},
		{"EIO", recorder.DurabilityPower, "app.iet", "write:error=EIO:when=9", "input/output error", true},
		{"ENOSPC once", recorder.DurabilityProcess, "app.iet", "write:error=ENOSPC:when=2", "no space left", false},
		{"EIO for some time", recorder.DurabilityProcess, "app.iet", "write:error=EIO:when=2..5", "input/output error", false},
		{"EINTR of write", recorder.DurabilityWriteThrough, "app.iet", "write:error=EINTR:when=1+2", "", false},
		{"EINTR of fsync", recorder.DurabilityPower, "app.iet", "fsync:error=EINTR:when=1+2", "", false},
		{"EINTR of flock", recorder.DurabilityProcess, "app.iet.buffer", "flock:error=EINTR:when=1+2", "", false},
		{"EINTR of fallocate", recorder.DurabilityProcess, "app.iet.buffer", "fallocate:error=EINTR:when=1+2", "", false},
		{"fsync", recorder.DurabilityPower, "app.iet", "fsync:error=EIO:when=5", "input/output error", true},
		{"close", recorder.DurabilityProcess, "app.iet", "close:error=EIO", "input/output error", false},
		{"EROFS of rename", recorder.DurabilityProcess, "app.et", "renameat2:error=EROFS", "read-only file system", false},
		{"the buffer stays", recorder.DurabilityProcess, "app.iet.buffer", "unlinkat:error=EROFS", "", false},
		{"no room for the buffer", recorder.DurabilityProcess, "app.iet.buffer", "fallocate:error=ENOSPC", "", false},
		{"no write to the buffer", recorder.DurabilityProcess, "app.iet.buffer", "pwrite64:error=ENOSPC:when=20", "", false},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			call, _, _ := strings.Cut(x.inject, ":")
			var c *crashRun
			var out string
			var err error
			// strace counts the calls of each thread separately, and the scheduler decides which thread
			// makes a call. Try again until strace has injected the failure.
			for try := 1; ; try++ {
				c = &crashRun{path: filepath.Join(t.TempDir(), "app.et"), durability: x.d, version: format.V2, goroutines: 1, units: 40, flushEvery: 5, end: "close"}
				c.orphans = x.file == "app.iet.buffer" && call == "pwrite64"
				out, err = c.traced(t, "-P", filepath.Join(filepath.Dir(c.path), x.file), "-e", "trace="+call, "-e", "inject="+x.inject)
				log := readFile(t, filepath.Join(filepath.Dir(c.path), ".strace"))
				if bytes.Contains(log, []byte("INJECTED")) {
					break
				}
				if try == 20 {
					t.Fatalf("nothing was injected:\n%s", log)
				}
			}
			if (err != nil) != (x.said != "") || !strings.Contains(out, x.said) {
				t.Errorf("it ended with %v and said\n%s\nwant %q", err, out, x.said)
			}
			c.settled(t, true)
			units := collect(t, filepath.Dir(c.path))
			c.check(t, units)
			begun, returned := c.acked(t)
			expect.Equal(t, begun[0] != returned[0], x.lost, "whether one of %d units was not recorded", begun[0])
		})
	}
}

// TestKillWhileJournalIsReplaced kills a program at each system call while and after it replaces its
// journal. Each acknowledged unit is in the files once, also a span that waits for its parent. The journal
// is in the folder of the trace or in another one.
func TestKillWhileJournalIsReplaced(t *testing.T) {
	c := crashRun{version: format.V1, goroutines: 1, units: 22, flushEvery: 50, waiting: true, replaces: true, end: "exit"}
	c.killInBothPlaces(t, []string{"pwrite64", "renameat", "unlinkat"}, append(slices.Clone(changing), "renameat"), func(t *testing.T, c *crashRun, units map[string][]foundUnit) {
		_, returned := c.acked(t)
		if waiting := units[unitName(0, 1, 0)]; len(waiting) > 1 || len(waiting) == 0 && returned[0] > 0 {
			t.Errorf("the span that waits is there %d times: %v", len(waiting), waiting)
		}
	})
}

// TestKillWhileJournalIsSuspended kills a program at its system calls while it suspends its recorder and
// records again. Each acknowledged unit is in the files once, and no journal is unreadable.
func TestKillWhileJournalIsSuspended(t *testing.T) {
	c := crashRun{version: format.V1, goroutines: 1, units: 30, suspend: 7, orphans: true, end: "close"}
	c.killInBothPlaces(t, []string{"write", "unlinkat", "renameat2"}, changing, func(t *testing.T, c *crashRun, _ map[string][]foundUnit) {
		for _, name := range dirNames(t, filepath.Dir(c.path)) {
			if strings.HasSuffix(name, ".broken") {
				t.Errorf("recovery left %s", name)
			}
		}
	})
}

// killInBothPlaces kills the program of c at each of its system calls in names, or in soak if the tests
// soak. It does so with the journal in the folder of the trace and with the journal in another folder.
// check checks the files that are left.
func (c *crashRun) killInBothPlaces(t *testing.T, names, soak []string, check func(*testing.T, *crashRun, map[string][]foundUnit)) {
	t.Helper()
	needStrace(t)
	if os.Getenv(soakEnv) != "" {
		names = soak
	}
	for _, journals := range []string{"beside", "elsewhere"} {
		t.Run(journals, func(t *testing.T) {
			t.Parallel()
			odd := false
			killAtEveryCall(t, names, func(t *testing.T) *crashRun {
				dir := t.TempDir()
				c := *c
				c.path = filepath.Join(dir, "app.et")
				if journals == "elsewhere" {
					c.journals = filepath.Join(dir, "journals")
					must(t, os.Mkdir(c.journals, 0o700))
				}
				return &c
			}, func(t *testing.T, c *crashRun) {
				odd = !odd
				c.settled(t, odd)
				units := collect(t, filepath.Dir(c.path))
				c.check(t, units)
				check(t, c, units)
			})
		})
	}
}

// TestKillWithSpansLeftBehind kills a program at its system calls. Some of its spans began several
// rotations ago, are not repeated in the growing file, and end now. Each span whose end was acknowledged
// has ended in the files.
func TestKillWithSpansLeftBehind(t *testing.T) {
	needStrace(t)
	t.Parallel()
	names := []string{"renameat2"}
	if os.Getenv(soakEnv) != "" {
		names = changing[:8]
	}
	odd := false
	killAtEveryCall(t, names, func(t *testing.T) *crashRun {
		return &crashRun{path: filepath.Join(t.TempDir(), "app.et"), version: format.V1, goroutines: 1, units: 90, flushEvery: 9, entries: 40, leaks: 30, end: "close"}
	}, func(t *testing.T, c *crashRun) {
		odd = !odd
		c.settled(t, odd)
		c.check(t, collect(t, filepath.Dir(c.path)))
		c.checkLeaks(t)
	})
}

// TestKillWhileFileIsMended kills a program at its system calls after another program has
// appended to its file. Each acknowledged unit is in the files once.
func TestKillWhileFileIsMended(t *testing.T) {
	needStrace(t)
	t.Parallel()
	names := []string{"ftruncate", "renameat2", "write"}
	if os.Getenv(soakEnv) != "" {
		names = changing[:8]
	}
	odd := false
	killAtEveryCall(t, names, func(t *testing.T) *crashRun {
		return &crashRun{path: filepath.Join(t.TempDir(), "app.et"), version: format.V1, goroutines: 1, units: 58, flushEvery: 7, waiting: true, spoils: true, end: "close"}
	}, func(t *testing.T, c *crashRun) {
		odd = !odd
		c.settled(t, odd)
		c.check(t, collect(t, filepath.Dir(c.path)))
	})
}

// TestRotationFails makes the renames of a rotation fail. The recorder continues in the same file, which
// has only one entry of a clean end.
func TestRotationFails(t *testing.T) {
	needStrace(t)
	c := &crashRun{path: filepath.Join(t.TempDir(), "app.iet"), version: format.V1, goroutines: 1, units: 88, flushEvery: 29, entries: 40, end: "close"}
	out, err := c.traced(t, "-e", "trace=renameat2", "-e", "inject=renameat2:error=EIO")
	if err == nil || !strings.Contains(out, "rotate "+c.path) { // Close returns the error of the rotation
		t.Fatalf("%v\n%s", err, out)
	}
	if log := readFile(t, filepath.Join(filepath.Dir(c.path), ".strace")); !bytes.Contains(log, []byte("INJECTED")) {
		t.Fatalf("nothing was injected:\n%s", log)
	}
	c.check(t, collect(t, filepath.Dir(c.path)))
	f := tracetest.Open(t, c.path)
	var ends []uint32
	must(t, f.Walk(0, func(id uint32, e *format.TraceEntry) error {
		if e.Metadata.Name == mapping.NameEnd {
			ends = append(ends, id)
		}
		return nil
	}))
	if len(ends) != 1 || int(ends[0]) != f.Len()-1 || len(traces(t, filepath.Dir(c.path))) != 1 {
		t.Errorf("of %d entries %v are ends, the files are %q", f.Len(), ends, traces(t, filepath.Dir(c.path)))
	}
	for _, name := range dirNames(t, filepath.Dir(c.path)) {
		if strings.Contains(name, ".tmp-") {
			t.Errorf("%s is left", name)
		}
	}
}
