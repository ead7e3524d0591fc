package recorder_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

// TestCreateTwiceSame checks that callers who share a path get the same recorder, even if they write the
// path differently.
func TestCreateTwiceSame(t *testing.T) {
	dir := t.TempDir()
	tracetest.Symlink(t, dir, filepath.Join(dir, "link"))
	t.Chdir(dir)
	first := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), nil)
	for _, name := range []string{"app.et", "./app.et", "link/app.et", "app.iet"} {
		expect.Is(t, expect.Err(recorder.Create(name, nil)), format.ErrLocked, "Create(%s) without Shared", name)
		again := tracetest.CreateAt(t, name, &recorder.Options{Version: format.V2, Shared: true})
		if again != first {
			t.Errorf("Create(%s) is another recorder", name)
		}
		tracetest.Close(t, again)
	}
	expect.Is(t, expect.Err(first.Append(named("still open"))), nil, "after all but one have closed")
	tracetest.Close(t, first)
	expect.Equal(t, tracetest.Open(t, "app.et").Len(), 3, "entries")
}

// TestRunTwice checks that several runs of a program with the same path do not replace each other's traces.
func TestRunTwice(t *testing.T) {
	for _, ext := range []string{".et", ".iet"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "app"+ext)
		for i := range 4 {
			rec := tracetest.CreateAt(t, path, nil)
			_, err := rec.Append(named(fmt.Sprint("run ", i)))
			must(t, err)
			tracetest.Close(t, rec)
		}
		seen := make(map[string]bool)
		pattern := regexp.MustCompile(`^app(\.20\d{6}T\d{6}\.\d{3}Z(-\d)?)?\` + ext + `$`)
		for _, name := range dirNames(t, dir) {
			if !pattern.MatchString(name) {
				t.Errorf("there is a file %s", name)
			}
			seen[tracetest.Outline(t, tracetest.Open(t, filepath.Join(dir, name)))] = true
		}
		for i := range 4 {
			if want := fmt.Sprintf("root(run %d entrace.end)", i); !seen[want] {
				t.Errorf("%s: trace %s is lost; there are %v", ext, want, seen)
			}
		}
		expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, path)), "root(run 3 entrace.end)", "%s has", path)
	}
}

// deadStream writes the IET of a killed program, with the bytes tail at its end. It returns the IET without
// tail.
func deadStream(t *testing.T, name string, tail ...byte) []byte {
	t.Helper()
	b := wire.AppendMagic(nil, format.V1, format.IET)
	b = format.AppendTraceEntry(b, format.V1, format.Root())
	b = format.AppendTraceEntry(b, format.V1, named("whole"))
	whole := len(b)
	must(t, os.WriteFile(name, append(b, tail...), 0o600))
	must(t, os.Chtimes(name, time.Time{}, time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC)))
	return b[:whole]
}

// TestCreateDropsEmpty checks that Create removes the file of a writer that died before it wrote an
// entry.
func TestCreateDropsEmpty(t *testing.T) {
	root := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	for n := range len(root) + 1 {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "app.iet"), root[:n], 0o600))
		rec, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
		if err != nil {
			t.Errorf("%d bytes: %v", n, err)
			continue
		}
		tracetest.Close(t, rec)
		expect.Equal(t, strings.Join(dirNames(t, dir), " "), "app.et", "%d bytes: the folder has", n)
	}
}

// The roles in which the tests start their own binary as another process.
const (
	roleEnv  = "ENTRACE_TEST_ROLE"
	pathEnv  = "ENTRACE_TEST_PATH"
	roleHold = "hold" // records until its input ends
	roleMany = "many" // opens and closes a recorder again and again
)

// TestRole is no test of its own: it is the code of such a process.
func TestRole(t *testing.T) {
	path := os.Getenv(pathEnv)
	switch os.Getenv(roleEnv) {
	case roleHold:
		rec := tracetest.CreateAt(t, path, nil)
		for i := range 100 {
			_, err := rec.Append(named(fmt.Sprint("held ", i)))
			must(t, err)
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		tracetest.Close(t, rec)
	case roleMany:
		fmt.Println("ready")
		for i := range 1000 {
			rec, err := recorder.Create(path, nil)
			if errors.Is(err, format.ErrLocked) {
				continue
			}
			must(t, err)
			for k := range 5 {
				name := fmt.Sprint(os.Getpid(), " ", i, " ", k)
				_, err := rec.Append(named(name))
				must(t, err)
				fmt.Println(name)
			}
			tracetest.Close(t, rec)
		}
	}
}

// TestProcessesCompete lets several processes open and close the same path, and kills them at random
// moments. Each record whose call has returned is in one of the files.
func TestProcessesCompete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "app.et")
	exe, err := os.Executable()
	must(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	told := make(map[string]bool)
	for w := range 3 {
		wg.Go(func() {
			for i := range hosttest.InCI(4, 6) {
				cmd := exec.Command(exe, "-test.run=^TestRole$")
				cmd.Env = append(os.Environ(), roleEnv+"="+roleMany, pathEnv+"="+path)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, os.Stderr
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				// Later processes live longer, so that some of them have time to record on a slow machine.
				time.Sleep(time.Duration((1+i)*(40+(w*37+i*53)%90)) * time.Millisecond)
				_ = cmd.Process.Kill() // it may have ended already
				_ = cmd.Wait()
				mu.Lock()
				for line := range strings.Lines(out.String()) {
					if strings.HasSuffix(line, "\n") && line != "ready\n" && !strings.Contains(line, "PASS") {
						told[strings.TrimSpace(line)] = true
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	rec, err := recorder.Create(path, nil) // finishes the remaining files
	must(t, err)
	tracetest.Close(t, rec)
	found := make(map[string]int)
	for _, name := range dirNames(t, dir) {
		if strings.HasPrefix(name, ".") {
			continue // a temporary file of a killed finalizer: its source still exists or was finished
		}
		f, err := recorder.Open(filepath.Join(dir, name), nil)
		if errors.Is(err, format.ErrTruncated) && name == "app.iet" {
			continue // the process was killed before it recorded anything
		}
		must(t, err)
		defer f.Close()
		must(t, f.Walk(1, func(_ uint32, e *format.TraceEntry) error {
			found[strings.Clone(e.Metadata.Name)]++
			return nil
		}))
	}
	if len(told) == 0 {
		t.Error("nothing was recorded")
	}
	for name := range told {
		if found[name] == 0 {
			t.Errorf("entry %q is lost", name)
		}
	}
	t.Logf("%d entries in %d files", len(told), len(dirNames(t, dir)))
}

// other starts this test as another process that holds a recorder, and waits until it is ready.
func other(t *testing.T, path string) (cmd *exec.Cmd, stdin io.Closer) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd = exec.Command(exe, "-test.run=^TestRole$")
	cmd.Env = append(os.Environ(), roleEnv+"="+roleHold, pathEnv+"="+path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	s := bufio.NewScanner(out)
	if !s.Scan() || s.Text() != "ready" {
		t.Fatalf("the other process said %q, %v", s.Text(), s.Err())
	}
	return cmd, in
}

// TestOtherProcess calls Create with the path of another process, first while that process lives, then
// after it was killed.
func TestOtherProcess(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.et")
	cmd, _ := other(t, path)
	begun := time.Now()
	expect.Is(t, expect.Err(recorder.Create(path, nil)), format.ErrLocked, "Create beside a living writer")
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v to find out", took)
	}
	if r, err := recorder.Inspect(path); err != nil || !r.Live || r.Entries != 101 {
		t.Errorf("Inspect says %+v, %v; want 101 entries of a living writer", r, err)
	}
	expect.Is(t, expect.Err(recorder.Recover(path, "")), format.ErrLocked, "Recover beside a living writer")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	r, err := recorder.Recover(path, filepath.Join(dir, "copy.et"))
	must(t, err)
	if r.Live || r.Ended || r.Entries != 102 {
		t.Errorf("Recover says %+v; want 101 entries of a dead writer and the one that says so", r)
	}
	rec := tracetest.CreateAt(t, path, nil)
	tracetest.Close(t, rec)
	names := dirNames(t, dir)
	expect.MustLen(t, names, 3, "the folder has")
	for _, name := range []string{names[0], "copy.et"} {
		if f := tracetest.Open(t, filepath.Join(dir, name)); f.Len() != 102 || f.Format() != format.ET {
			t.Errorf("%s has %d entries as %v, want 102 as et", name, f.Len(), f.Format())
		}
	}
}

// TestOtherProcessEnds follows the file of another process until that process closes it.
func TestOtherProcessEnds(t *testing.T) {
	path := hosttest.Path(t, "app.et")
	cmd, in := other(t, path)
	f, err := format.Follow(path, &format.FollowOptions{Poll: time.Millisecond})
	must(t, err)
	defer f.Close()
	for want := range uint32(102) {
		id, e, err := f.Next(t.Context())
		must(t, err)
		expect.MustEqual(t, id, want, "Next returned entry")
		if id == 100 {
			must(t, in.Close())
		}
		if id == 101 && e.Metadata.Name != mapping.NameEnd {
			t.Errorf("the last entry is %q", e.Metadata.Name)
		}
	}
	if _, _, err := f.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("Next after the end: %v, want io.EOF", err)
	}
	must(t, cmd.Wait())
}

// TestOtherProcessDies follows the file of another process until that process is killed.
func TestOtherProcessDies(t *testing.T) {
	path := hosttest.Path(t, "app.et")
	cmd, _ := other(t, path)
	f, err := format.Follow(path, &format.FollowOptions{Poll: 10 * time.Millisecond})
	must(t, err)
	defer f.Close()
	for range 101 {
		_, _, err := f.Next(t.Context())
		must(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
	defer cancel()
	if _, _, err := f.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next while the writer lives: %v, want the context's error", err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	ctx, cancel = context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, _, err := f.Next(ctx); !errors.Is(err, format.ErrTruncated) {
		t.Errorf("Next after the writer died: %v, want ErrTruncated", err)
	}
}

// TestOtherProcessDiesBeforeFirstLook checks that a follower does not wait for entries if the writer died
// before the follower first checked the writer's lock.
func TestOtherProcessDiesBeforeFirstLook(t *testing.T) {
	path := hosttest.Path(t, "app.et")
	cmd, _ := other(t, path)
	f, err := format.Follow(path, &format.FollowOptions{Poll: time.Millisecond})
	must(t, err)
	defer f.Close()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for err == nil {
		_, _, err = f.Next(ctx)
	}
	expect.Is(t, err, format.ErrTruncated, "Next after the writer died")
}

// TestFollowerThatSkipsEndIsAtTheEnd checks that a follower which has skipped the entry of a clean end
// returns io.EOF.
func TestFollowerThatSkipsEndIsAtTheEnd(t *testing.T) {
	path := hosttest.Path(t, "app.iet")
	rec := tracetest.CreateAt(t, path, nil)
	tracetest.Close(t, rec)
	whole := tracetest.Open(t, path)
	last, err := whole.Entry(uint32(whole.Len() - 1))
	must(t, err)
	f, err := format.Follow(path, &format.FollowOptions{Poll: time.Millisecond})
	must(t, err)
	defer f.Close()
	f.SkipTo(whole.WholeSize(), uint32(whole.Len()), last)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, _, err := f.Next(ctx); !errors.Is(err, io.EOF) {
		t.Errorf("Next: %v, want io.EOF", err)
	}
}

// TestCreateWhileTraceIsFinished calls Create while another goroutine, in the role of another process,
// recovers the trace of a dead writer at the same path. Create waits for it.
func TestCreateWhileTraceIsFinished(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.et")
	f, err := os.Create(filepath.Join(dir, "app.iet"))
	must(t, err)
	w, err := format.NewWriter(f, format.V2, format.IET, nil)
	must(t, err)
	for range 200_000 {
		_, err := w.Write(named("of a dead one"))
		must(t, err)
	}
	must(t, errors.Join(w.Close(), f.Close()))
	done := make(chan error)
	go func() {
		_, err := recorder.Recover(path, "")
		done <- err
	}()
	for len(dirNames(t, dir)) == 1 {
		time.Sleep(100 * time.Microsecond) // until Recover has made its first file
	}
	rec := tracetest.CreateAt(t, path, &recorder.Options{MaxBlock: time.Minute})
	must(t, <-done)
	expect.Equal(t, rec.Path(), path, "it records to")
	tracetest.Close(t, rec)
}

// TestCreateBesideTraceThatIsFinished checks that Create records under another name, and calls OnNotice, if
// another process takes longer than MaxBlock to finish the trace. If a living process writes the trace,
// Create fails.
func TestCreateBesideTraceThatIsFinished(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.et")
	f, err := osfile.CreateAppend(filepath.Join(dir, "app.iet"))
	must(t, err)
	defer f.Close()
	must(t, osfile.Lock(f, true))
	expect.Is(t, expect.Err(recorder.Create(path, nil)), format.ErrLocked, "beside a living writer")
	mark, err := osfile.CreateTemp(f.Name())
	must(t, err)
	defer mark.Discard()
	told := make(chan string, 1)
	rec := tracetest.CreateAt(t, path, &recorder.Options{MaxBlock: time.Millisecond, OnNotice: func(text string) { told <- text }})
	if text := <-told; rec.Path() == path || !strings.Contains(text, "is still finishing") || !strings.Contains(text, rec.Path()) {
		t.Errorf("it records to %s and tells %q", rec.Path(), text)
	}
	tracetest.Close(t, rec)
}

// TestCreateRace calls Create for one path from many goroutines.
func TestCreateRace(t *testing.T) {
	path := hosttest.Path(t, "app.et")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 5 {
				rec, err := recorder.Create(path, &recorder.Options{Shared: true})
				if err != nil {
					t.Error(err)
					return
				}
				expect.OK(t, expect.Err(rec.Append(named(fmt.Sprint(w)))))
				tracetest.Close(t, rec)
			}
		})
	}
	wg.Wait()
	total := 0
	for _, name := range dirNames(t, filepath.Dir(path)) {
		total += tracetest.Open(t, filepath.Join(filepath.Dir(path), name)).Len() - 2
	}
	expect.Equal(t, total, 40, "entries in all files")
}
