package osfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
)

var must = expect.Must

func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestRenameNew tests RenameNew and renameLink, which do not replace another file.
func TestRenameNew(t *testing.T) {
	for name, rename := range map[string]func(from, to string) error{"system": RenameNew, "link": renameLink} {
		dir := t.TempDir()
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		must(t, os.WriteFile(a, []byte("a"), 0o600))
		must(t, os.WriteFile(b, []byte("b"), 0o600))
		expect.Is(t, rename(a, b), fs.ErrExist, "%s: to a name that is taken", name)
		if got, err := os.ReadFile(b); err != nil || string(got) != "b" {
			t.Errorf("%s: what was there is %q now, %v", name, got, err)
		}
		must(t, rename(a, filepath.Join(dir, "c")))
		if got := names(t, dir); len(got) != 2 || got[1] != "c" {
			t.Errorf("%s: the folder has %v, want b and c", name, got)
		}
		expect.Is(t, rename(a, filepath.Join(dir, "d")), fs.ErrNotExist, "%s: of a file that is not there", name)
	}
}

// TestRenameOver checks that an open file is replaced, and that a folder is not replaced.
func TestRenameOver(t *testing.T) {
	dir := t.TempDir()
	a, b, folder := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "folder")
	must(t, os.WriteFile(a, []byte("a"), 0o600))
	must(t, os.WriteFile(b, []byte("b"), 0o600))
	must(t, os.Mkdir(folder, 0o700))
	if err := RenameOver(a, folder); err == nil {
		t.Error("a folder was replaced")
	}
	f, err := OpenRead(b)
	must(t, err)
	defer f.Close()
	must(t, RenameOver(a, b))
	if got, err := os.ReadFile(b); err != nil || string(got) != "a" {
		t.Errorf("there is %q, %v", got, err)
	}
	if got, err := io.ReadAll(f); err != nil || string(got) != "b" {
		t.Errorf("who had it open reads %q, %v", got, err)
	}
	if fi, err := os.Stat(folder); err != nil || !fi.IsDir() {
		t.Errorf("the folder is gone: %v", err)
	}
}

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x")
	f, err := CreateAppend(name)
	must(t, err)
	defer f.Close()
	if Locked(name) {
		t.Error("Locked before Lock")
	}
	if h, pid := LockHolder(name); h != LockFree || pid != 0 {
		t.Errorf("LockHolder before Lock: %v, %d", h, pid)
	}
	must(t, Lock(f, true))
	if !Locked(name) {
		t.Error("not Locked after Lock")
	}
	h, pid := LockHolder(name)
	if h != LockHeld || pid != os.Getpid() && pid != 0 { // not all file systems show the process id
		t.Errorf("LockHolder after Lock: %v, %d, want %d", h, pid, os.Getpid())
	}
	if h, _ := LockHolder(name + "x"); h != LockUnknown {
		t.Errorf("LockHolder of a file that is not there: %v", h)
	}
	g, err := OpenWrite(name)
	must(t, err)
	defer g.Close()
	expect.Is(t, Lock(g, true), ErrLocked, "the second Lock")
	must(t, Unlock(f))
	must(t, Lock(g, false))
	must(t, Lock(f, false))
	if Locked(name) {
		t.Error("a shared lock counts as one that writes")
	}
}

func TestTemp(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "x")
	tmp, err := CreateTemp(name)
	must(t, err)
	tmp.Discard()
	expect.Len(t, names(t, dir), 0, "Discard leaves")
	for _, replace := range []bool{false, true} {
		tmp, err = CreateTemp(name)
		must(t, err)
		must(t, tmp.Commit(replace))
		tmp.Discard()
	}
	tmp, err = CreateTemp(name)
	must(t, err)
	expect.Is(t, tmp.Commit(false), fs.ErrExist, "Commit to a name that is taken")
	tmp.Discard()
	if got := names(t, dir); len(got) != 1 || got[0] != "x" {
		t.Errorf("the folder has %v, want x", got)
	}
}

// TestOpenFilesCanBeRenamedAndRemoved checks that a file can be renamed and removed while it is open several times.
func TestOpenFilesCanBeRenamedAndRemoved(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for name, create := range map[string]func(string) (*os.File, error){"CreateNew": CreateNew, "CreateAppend": CreateAppend} {
		f, err := create(from)
		must(t, err)
		must(t, Lock(f, true))
		r, err := OpenRead(from)
		must(t, err)
		w, err := OpenWrite(from)
		must(t, err)
		expect.Is(t, RenameNew(from, to), nil, "%s: rename an open file", name)
		if !SameFile(f, to) || SameFile(f, from) {
			t.Errorf("%s: SameFile does not follow the rename", name)
		}
		g, err := create(from)
		must(t, err)
		if SameFile(f, from) || SameFile(g, to) {
			t.Errorf("%s: SameFile takes one file for the other", name)
		}
		_, err = f.WriteString("old")
		must(t, err)
		_, err = g.WriteString("new")
		must(t, err)
		must(t, Remove(g, from))
		if got, err := os.ReadFile(to); err != nil || string(got) != "old" {
			t.Errorf("%s: the renamed file has %q, %v", name, got, err)
		}
		expect.Is(t, Remove(f, to), nil, "%s: remove an open file", name)
		for _, f := range []*os.File{f, g, r, w} {
			_ = f.Close() // it may already be closed
		}
		expect.Len(t, names(t, dir), 0, "%s: the folder has", name)
	}
}

// TestCreateAppendWritesAtTheEnd checks that writes go to the end of the file, whatever its offset.
func TestCreateAppendWritesAtTheEnd(t *testing.T) {
	f, err := CreateAppend(filepath.Join(t.TempDir(), "x"))
	must(t, err)
	defer f.Close()
	for range 2 {
		_, err = f.Seek(0, io.SeekStart)
		must(t, err)
		_, err = f.WriteString("ab")
		must(t, err)
	}
	b := make([]byte, 4)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "abab" {
		t.Errorf("the file has %q, %v", b, err)
	}
}

// TestSpool checks that a spool has no name, and that nothing remains after Close.
func TestSpool(t *testing.T) {
	dir := t.TempDir()
	s, err := CreateSpool(dir)
	must(t, err)
	_, err = s.Write([]byte("text"))
	must(t, err)
	if got := names(t, dir); len(got) != 0 && runtime.GOOS != "windows" { // wine shows a name until Close
		t.Errorf("before Close there is %v", got)
	}
	b := make([]byte, 4)
	if _, err := s.ReadAt(b, 0); err != nil || string(b) != "text" {
		t.Errorf("ReadAt: %q, %v", b, err)
	}
	must(t, s.Close())
	must(t, s.Close())
	expect.Len(t, names(t, dir), 0, "Close leaves")
}
