package traces

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
)

func TestFolderSweep(t *testing.T) {
	f := folderOf(t)
	p := folderStart(t, "write", f)
	name := p.line(t, "wrote")
	q := folderStart(t, "write", f)
	alive := q.line(t, "wrote")
	before, err := os.ReadDir(f.dir)
	must(t, err)
	if done, err := sweep(f); len(done) != 0 || err != nil {
		t.Errorf("sweep while both live: %v, %v", done, err)
	}
	if after, err := os.ReadDir(f.dir); err != nil || len(after) != len(before) {
		t.Errorf("sweep while both live leaves %v of %v", after, before)
	}
	p.kill(t)
	folderAge(t, f)
	done, err := sweep(f)
	if err != nil || !slices.Equal(done, []string{name}) {
		t.Errorf("sweep: %v, %v, want %s", done, err, name)
	}
	if got := folderNames(t, f); !slices.Equal(got, []string{name}) {
		t.Errorf("list has %v, want %s", got, name)
	}
	folderCheck(t, f, name)
	if done, err := sweep(f); len(done) != 0 || err != nil {
		t.Errorf("a second sweep: %v, %v", done, err)
	}
	q.kill(t)
	if done, err := sweep(f); err != nil || !slices.Equal(done, []string{alive}) {
		t.Errorf("sweep: %v, %v, want %s", done, err, alive)
	}
	folderAge(t, f)
	_, err = sweep(f)
	must(t, err)
	folderOnly(t, f, name, alive)
}

// folderAge makes all temporary files an hour old, so that recovery removes them.
func folderAge(t *testing.T, f *Folder) {
	t.Helper()
	list, err := os.ReadDir(f.dir)
	must(t, err)
	long := time.Now().Add(-time.Hour)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), ".") {
			must(t, os.Chtimes(f.path(e.Name()), long, long))
		}
	}
}

// folderCheck checks the trace that recovery has made for a killed child.
func folderCheck(t *testing.T, f *Folder, name string) {
	t.Helper()
	r, err := recorder.Inspect(f.path(name))
	must(t, err)
	if r.Format != format.ET || r.Reason != mapping.CutClean || r.Entries != 102 {
		t.Errorf("%s is %+v, want an ET of 102 entries, of which the last says that it was recovered", name, r)
	}
}

// folderOnly checks that f has exactly these files.
func folderOnly(t *testing.T, f *Folder, want ...string) {
	t.Helper()
	slices.Sort(want)
	expect.Slice(t, hosttest.Names(t, f.dir), want, "the folder has")
}

func TestFolderSweepTwoProcesses(t *testing.T) {
	f := folderOf(t)
	var names []string
	for range 5 {
		p := folderStart(t, "write", f)
		names = append(names, p.line(t, "wrote"))
		p.kill(t)
	}
	folderAge(t, f)
	if n := folderBoth(t, "sweep", "finished", f); n > len(names) {
		t.Errorf("both together finished %d of %d", n, len(names))
	}
	_, err := sweep(f) // for streams that both processes left to each other
	must(t, err)
	for _, name := range names {
		folderCheck(t, f, name)
	}
	folderOnly(t, f, names...)
}

// TestFolderSweepLeftovers checks the files that a process may leave when it is killed between two steps.
func TestFolderSweepLeftovers(t *testing.T) {
	stream := func(t *testing.T, f *Folder) (name, path string) {
		p := folderStart(t, "write", f)
		name = p.line(t, "wrote")
		p.kill(t)
		folderAge(t, f)
		return name, strings.TrimSuffix(f.path(name), ".et") + ".iet"
	}
	keep := func(t *testing.T, path string) []byte {
		b := tracetest.ReadFile(t, path)
		return b
	}
	t.Run("stream beside its trace", func(t *testing.T) {
		f := folderOf(t)
		name, path := stream(t, f)
		_, err := recorder.Recover(path, "") // truncates the stream after its last complete entry
		must(t, err)
		iet := keep(t, path)
		_, err = sweep(f)
		must(t, err)
		must(t, os.WriteFile(path, iet, 0o600))
		if done, err := sweep(f); len(done) != 0 || err != nil {
			t.Errorf("sweep: %v, %v", done, err)
		}
		folderOnly(t, f, name)
	})
	t.Run("stream beside another trace", func(t *testing.T) {
		f := folderOf(t)
		name, path := stream(t, f)
		_, err := recorder.Recover(path, "")
		must(t, err)
		iet := keep(t, path)
		_, err = sweep(f)
		must(t, err)
		must(t, os.WriteFile(path, iet[:len(iet)*2/3], 0o600))
		if done, err := sweep(f); len(done) != 0 || !errors.Is(err, deadtrace.ErrOtherEntries) {
			t.Errorf("sweep: %v, %v, want deadtrace.ErrOtherEntries", done, err)
		}
		folderOnly(t, f, name, filepath.Base(path))
	})
	t.Run("crash buffer alone", func(t *testing.T) {
		f := folderOf(t)
		name, path := stream(t, f)
		if _, err := os.Lstat(path + ".buffer"); err != nil {
			t.Skip("there are no crash buffers here")
		}
		must(t, os.Remove(path))
		_, err := sweep(f)
		must(t, err)
		if _, err := os.Lstat(path + ".buffer"); err == nil {
			t.Error("the crash buffer stays")
		}
		for _, n := range folderNames(t, f) {
			expect.Equal(t, n, name, "n")
		}
	})
	t.Run("nothing written", func(t *testing.T) {
		for _, text := range []string{"", "ENTR"} {
			f := folderOf(t)
			must(t, os.WriteFile(f.path("20261120T212712.021345Z-h-1-0001-c.iet"), []byte(text), 0o600))
			if done, err := sweep(f); len(done) != 0 || err != nil {
				t.Errorf("sweep: %v, %v", done, err)
			}
			folderOnly(t, f)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		f := folderOf(t)
		name, path := stream(t, f)
		_, err := recorder.Recover(path, "")
		must(t, err)
		iet := keep(t, path)
		for i := range 20 {
			iet[len(iet)/2+i] = 0xff
		}
		must(t, os.WriteFile(path, iet, 0o600))
		for _, want := range [][]string{{name}, nil} {
			if done, err := sweep(f); err != nil || !slices.Equal(done, want) {
				t.Errorf("sweep: %v, %v, want %v", done, err, want)
			}
			folderOnly(t, f, name, filepath.Base(path)+".broken")
		}
		r, err := recorder.Inspect(f.path(name))
		if err != nil || r.Reason != mapping.CutClean || r.Entries < 10 || r.Entries > 100 {
			t.Errorf("what was before the damage is %+v, %v", r, err)
		}
	})
	t.Run("no trace at all", func(t *testing.T) {
		f := folderOf(t)
		const bad = "20261120T212712.021345Z-h-1-0001-c.iet"
		must(t, os.WriteFile(f.path(bad), []byte("this is no trace at all"), 0o600))
		name, _ := stream(t, f)
		done, err := sweep(f)
		if err == nil || !slices.Equal(done, []string{name}) {
			t.Errorf("sweep: %v, %v, want an error and %s", done, err, name)
		}
		folderOnly(t, f, bad, name)
	})
	t.Run("temporary files", func(t *testing.T) {
		f := folderOf(t)
		const name = "20261120T212712.021345Z-h-1-0001-a.tmp-b"
		for _, s := range []string{".et", ".iet", ".iet.buffer", ".iet.broken", ".20261120T212712.021Z.et"} {
			must(t, os.WriteFile(f.path("."+name+s+".tmp-123"), nil, 0o600))
		}
		folderAge(t, f)
		must(t, os.WriteFile(f.path("."+name+".et.tmp-new"), nil, 0o600)) // a new file, which its process may not have locked yet
		living, err := osfile.CreateTemp(f.path(name + ".et"))
		must(t, err)
		defer living.Discard()
		long := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(living.Name(), long, long))
		_, err = sweep(f)
		must(t, err)
		folderOnly(t, f, "."+name+".et.tmp-new", filepath.Base(living.Name()))
	})
}
