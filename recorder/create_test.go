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
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
)

// TestCreateTwiceSame: one path, one recorder, however it is spelled, for who shares it.
func TestCreateTwiceSame(t *testing.T) {
	dir := t.TempDir()
	tracetest.Symlink(t, dir, filepath.Join(dir, "link"))
	t.Chdir(dir)
	first, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
	must(t, err)
	for _, name := range []string{"app.et", "./app.et", "link/app.et", "app.iet"} {
		if _, err := recorder.Create(name, nil); !errors.Is(err, format.ErrLocked) {
			t.Errorf("Create(%s) without Shared: %v, want ErrLocked", name, err)
		}
		again, err := recorder.Create(name, &recorder.Options{Version: format.V2, Shared: true})
		must(t, err)
		if again != first {
			t.Errorf("Create(%s) is another recorder", name)
		}
		tracetest.Close(t, again)
	}
	if _, err := first.Append(named("still open")); err != nil {
		t.Errorf("after all but one have closed: %v", err)
	}
	tracetest.Close(t, first)
	if f := tracetest.Open(t, "app.et"); f.Len() != 3 {
		t.Errorf("%d entries, want 3", f.Len())
	}
}

// TestRunTwice runs a program again and again: no trace is ever replaced.
func TestRunTwice(t *testing.T) {
	for _, ext := range []string{".et", ".iet"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "app"+ext)
		for i := range 4 {
			rec, err := recorder.Create(path, nil)
			must(t, err)
			_, err = rec.Append(named(fmt.Sprint("run ", i)))
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
		if got, want := tracetest.Outline(t, tracetest.Open(t, path)), "root(run 3 entrace.end)"; got != want {
			t.Errorf("%s has %s, want %s", path, got, want)
		}
	}
}

// deadStream writes what a killed program would have left.
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

// TestCreateSettlesDead: Create leaves of a dead trace what Recover leaves, under a name with
// its time, and says so.
func TestCreateSettlesDead(t *testing.T) {
	for _, x := range []struct {
		name  string
		tail  []byte
		ext   string
		files string
	}{
		{"whole", nil, ".et", "app.20260102T030405.678Z.et app.et"},
		{"torn", []byte{0, 0, 5, 'a'}, ".et", "app.20260102T030405.678Z.et app.et"},
		{"zeros", make([]byte, 100), ".et", "app.20260102T030405.678Z.et app.et"},
		{"corrupt", []byte{77, 0, 1, 'x', 0, 0, 0, 0, 0, 0}, ".et", "app.20260102T030405.678Z.et app.20260102T030405.678Z.iet.broken app.et"},
		{"torn", []byte{0, 0, 5, 'a'}, ".iet", "app.20260102T030405.678Z.iet app.iet"},
		{"corrupt", []byte{0, 7}, ".iet", "app.20260102T030405.678Z.iet app.20260102T030405.678Z.iet.broken app.iet"},
	} {
		t.Run(x.name+x.ext, func(t *testing.T) {
			dir := t.TempDir()
			stream := filepath.Join(dir, "app.iet")
			whole := deadStream(t, stream, x.tail...)
			before := readFile(t, stream)
			var told []string
			rec, err := recorder.Create(filepath.Join(dir, "app"+x.ext), &recorder.Options{OnNotice: func(text string) { told = append(told, text) }})
			must(t, err)
			tracetest.Close(t, rec)
			names := dirNames(t, dir)
			if got := strings.Join(names, " "); got != x.files {
				t.Fatalf("the folder has %s, want %s", got, x.files)
			}
			first := filepath.Join(dir, names[0])
			if want := first + ": finished, 2 entries"; len(told) != 1 || told[0] != want {
				t.Errorf("OnNotice was told %q, want %q", told, want)
			}
			if len(names) == 3 && !bytes.Equal(readFile(t, filepath.Join(dir, names[1])), before) {
				t.Error("the corrupt file is not as it was")
			}
			want := "root(whole)"
			if x.name == "corrupt" {
				want = "root(whole entrace.recovered)"
			}
			if got := tracetest.Outline(t, tracetest.Open(t, first)); got != want {
				t.Errorf("the dead trace has %s, want %s", got, want)
			}
			if got := readFile(t, first); x.ext == ".iet" && (!bytes.HasPrefix(got, whole) || x.name != "corrupt" && len(got) != len(whole)) {
				t.Error("the dead IET is not its whole prefix")
			}
			recovered := t.TempDir()
			must(t, os.WriteFile(filepath.Join(recovered, "app.iet"), before, 0o600))
			r, err := recorder.Recover(filepath.Join(recovered, "app"+x.ext), "")
			must(t, err)
			if !bytes.Equal(readFile(t, first), readFile(t, r.Output)) || (r.Broken != "") != (len(names) == 3) {
				t.Errorf("Recover leaves something else: %+v", r)
			}
		})
	}
}

// TestCreateSettlesTwin: a writer that died between making the ET and removing the
// IET left its trace twice.
func TestCreateSettlesTwin(t *testing.T) {
	for _, x := range []struct {
		change bool
		files  int
	}{{false, 2}, {true, 3}} {
		dir := t.TempDir()
		stream, final := filepath.Join(dir, "app.iet"), filepath.Join(dir, "app.et")
		deadStream(t, stream)
		must(t, format.Finalize(t.Context(), stream, final, nil))
		if x.change {
			b := readFile(t, stream)
			b[len(b)-8]++ // of the name: another trace of the same shape
			must(t, os.WriteFile(stream, b, 0o600))
		}
		rec, err := recorder.Create(final, nil)
		must(t, err)
		tracetest.Close(t, rec)
		if names := dirNames(t, dir); len(names) != x.files {
			t.Errorf("changed: %t: the folder has %q, want %d files", x.change, names, x.files)
		}
	}
}

// TestCreateDropsEmpty: a writer that died before it wrote anything left nothing.
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
		if got := strings.Join(dirNames(t, dir), " "); got != "app.et" {
			t.Errorf("%d bytes: the folder has %s, want app.et alone", n, got)
		}
	}
}

// TestCreateRefuses leaves alone what is not a trace of its own.
func TestCreateRefuses(t *testing.T) {
	newer := []byte("\x00ENTRACE\x03\x01")
	for _, x := range []struct {
		name string
		make func(dir string) error
		want error
	}{
		{"foreign stream", func(d string) error { return os.WriteFile(d+"/app.iet", []byte("hello"), 0o600) }, format.ErrNotEntrace},
		{"foreign target", func(d string) error { return os.WriteFile(d+"/app.et", []byte("hello"), 0o600) }, format.ErrNotEntrace},
		{"newer version", func(d string) error { return os.WriteFile(d+"/app.iet", newer, 0o600) }, format.ErrUnsupported},
		{"link to file", func(d string) error { return os.Symlink(d+"/x", d+"/app.iet") }, format.ErrNotRegular},
		{"target is link", func(d string) error { return os.Symlink(d+"/x", d+"/app.et") }, format.ErrNotRegular},
		{"folder", func(d string) error { return os.Mkdir(d+"/app.iet", 0o700) }, format.ErrNotRegular},
		{"target is folder", func(d string) error { return os.Mkdir(d+"/app.et", 0o700) }, format.ErrNotRegular},
		{"missing folder", func(d string) error { return os.Remove(d) }, os.ErrNotExist},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "d")
			must(t, os.Mkdir(dir, 0o700))
			must(t, x.make(dir))
			if list, _ := os.ReadDir(dir); runtime.GOOS == "windows" && len(list) == 0 && strings.Contains(x.name, "link") {
				t.Skip("wine makes no link")
			}
			before, _ := os.ReadDir(dir)
			_, err := recorder.Create(filepath.Join(dir, "app.et"), nil)
			if !errors.Is(err, x.want) {
				t.Errorf("Create: %v, want %v", err, x.want)
			}
			after, _ := os.ReadDir(dir)
			if fmt.Sprint(before) != fmt.Sprint(after) {
				t.Errorf("the folder had %v and has %v", before, after)
			}
		})
	}
}

// The tests start themselves as another process with these roles.
const (
	roleEnv  = "ENTRACE_TEST_ROLE"
	pathEnv  = "ENTRACE_TEST_PATH"
	roleHold = "hold" // records until its input ends
	roleMany = "many" // opens and closes a recorder again and again
)

// TestRole is what such a process runs.
func TestRole(t *testing.T) {
	path := os.Getenv(pathEnv)
	switch os.Getenv(roleEnv) {
	case roleHold:
		rec, err := recorder.Create(path, nil)
		must(t, err)
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

// TestProcessesCompete lets processes open and close one path, and kills them in
// whatever they do: what they were told is recorded is in one of the files, once.
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
			for i := range 6 {
				cmd := exec.Command(exe, "-test.run=^TestRole$")
				cmd.Env = append(os.Environ(), roleEnv+"="+roleMany, pathEnv+"="+path)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, os.Stderr
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				// The later ones live longer, so that some record something on a slow machine.
				time.Sleep(time.Duration((1+i)*(40+(w*37+i*53)%90)) * time.Millisecond)
				_ = cmd.Process.Kill() // it may have ended
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
	rec, err := recorder.Create(path, nil) // the next start finishes what is left
	must(t, err)
	tracetest.Close(t, rec)
	found := make(map[string]int)
	for _, name := range dirNames(t, dir) {
		if strings.HasPrefix(name, ".") {
			continue // of a killed finalizer: its source is beside it or was settled
		}
		f, err := recorder.Open(filepath.Join(dir, name), nil)
		if errors.Is(err, format.ErrTruncated) && name == "app.iet" {
			continue // killed before it recorded anything
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

// TestOtherProcess meets a living writer, and then a killed one.
func TestOtherProcess(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "app.et")
	cmd, _ := other(t, path)
	begun := time.Now()
	if _, err := recorder.Create(path, nil); !errors.Is(err, format.ErrLocked) {
		t.Errorf("Create beside a living writer: %v, want ErrLocked", err)
	}
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it took %v to find out", took)
	}
	if r, err := recorder.Inspect(path); err != nil || !r.Live || r.Entries != 101 {
		t.Errorf("Inspect says %+v, %v; want 101 entries of a living writer", r, err)
	}
	if _, err := recorder.Recover(path, ""); !errors.Is(err, format.ErrLocked) {
		t.Errorf("Recover beside a living writer: %v, want ErrLocked", err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	r, err := recorder.Recover(path, filepath.Join(dir, "copy.et"))
	must(t, err)
	if r.Live || r.Ended || r.Entries != 102 {
		t.Errorf("Recover says %+v; want 101 entries of a dead writer and the one that says so", r)
	}
	rec, err := recorder.Create(path, nil)
	must(t, err)
	tracetest.Close(t, rec)
	names := dirNames(t, dir)
	if len(names) != 3 {
		t.Fatalf("the folder has %q", names)
	}
	for _, name := range []string{names[0], "copy.et"} {
		if f := tracetest.Open(t, filepath.Join(dir, name)); f.Len() != 102 || f.Format() != format.ET {
			t.Errorf("%s has %d entries as %v, want 102 as et", name, f.Len(), f.Format())
		}
	}
}

// TestOtherProcessEnds lets another process close while this one follows it.
func TestOtherProcessEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	cmd, in := other(t, path)
	f, err := format.Follow(path, &format.FollowOptions{Poll: time.Millisecond})
	must(t, err)
	defer f.Close()
	for want := range uint32(102) {
		id, e, err := f.Next(t.Context())
		must(t, err)
		if id != want {
			t.Fatalf("Next returned entry %d, want %d", id, want)
		}
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

// TestOtherProcessDies lets another process be killed while this one follows it.
func TestOtherProcessDies(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
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

// TestOtherProcessDiesBeforeFirstLook: a follower does not wait for a writer that dies before the
// follower looks at the lock for the first time.
func TestOtherProcessDiesBeforeFirstLook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
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
	if !errors.Is(err, format.ErrTruncated) {
		t.Errorf("Next after the writer died: %v, want ErrTruncated", err)
	}
}

// TestFollowerThatSkipsEndIsAtTheEnd: behind the entry that marks a clean end nothing is waited for.
func TestFollowerThatSkipsEndIsAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.iet")
	rec, err := recorder.Create(path, nil)
	must(t, err)
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

// TestCreateRace creates one path from many goroutines.
func TestCreateRace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.et")
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for range 5 {
				rec, err := recorder.Create(path, &recorder.Options{Shared: true})
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := rec.Append(named(fmt.Sprint(w))); err != nil {
					t.Error(err)
				}
				tracetest.Close(t, rec)
			}
		})
	}
	wg.Wait()
	total := 0
	for _, name := range dirNames(t, filepath.Dir(path)) {
		total += tracetest.Open(t, filepath.Join(filepath.Dir(path), name)).Len() - 2
	}
	if total != 40 {
		t.Errorf("%d entries are in all files, want 40", total)
	}
}

// TestAbandonedTwice: an IET whose writer was killed, and after it the process that had begun to
// finish it, is finished by the next one.
func TestAbandonedTwice(t *testing.T) {
	dir := t.TempDir()
	torn := filepath.Join(dir, "app.20261122T123836.273Z.iet")
	b := format.AppendTraceEntry(wire.AppendMagic(nil, format.V1, format.IET), format.V1, format.Root())
	b = format.AppendTraceEntry(b, format.V1, named("whole"))
	must(t, os.WriteFile(torn, append(b, format.AppendTraceEntry(nil, format.V1, named("torn"))[:5]...), 0o600))
	rec, err := recorder.Create(filepath.Join(dir, "app.iet"), nil)
	must(t, err)
	must(t, rec.Close(context.Background()))
	got, err := os.ReadFile(torn)
	must(t, err)
	if !bytes.Equal(got, b) {
		t.Errorf("it has %d bytes, want %d", len(got), len(b))
	}
}
