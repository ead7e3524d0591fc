package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// memoryRoot makes the package use a new folder in tmpfs as shared memory. It returns the folder in it for
// journals.
func memoryRoot(t *testing.T) (own string) {
	t.Helper()
	if !osfile.OnTmpfs("/dev/shm") {
		t.Skip("no shared memory")
	}
	root, err := os.MkdirTemp("/dev/shm", "entrace-test-") //nolint:usetesting // it has to be in tmpfs
	must(t, err)
	sharedMemory = func() string { return root }
	t.Cleanup(func() {
		sharedMemory = osfile.SharedMemory
		_ = os.RemoveAll(root)
	})
	return filepath.Join(root, "entrace-"+strconv.Itoa(os.Geteuid()))
}

var small = Options{Segments: 2, Extra: 2, MaxWait: time.Second}

var names = hosttest.Names

// TestJournalIsInSharedMemory checks the files of a journal in shared memory, and that nothing remains of them.
func TestJournalIsInSharedMemory(t *testing.T) {
	own := memoryRoot(t)
	beside := hosttest.Path(t, "j")
	j, err := Create(Place{Beside: beside}, small)
	must(t, err)
	if filepath.Dir(j.Name()) != own || j.Medium() != Mapped || !j.HasName() {
		t.Errorf("it is %s, %v, has a name: %t", j.Name(), j.Medium(), j.HasName())
	}
	for _, name := range []string{beside, j.Name()} {
		if fi, err := os.Stat(name); err != nil || fi.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}
	if fi, err := os.Stat(own); err != nil || fi.Mode() != 0o700|fs.ModeDir {
		t.Errorf("%s: %v, %v", own, fi, err)
	}
	d, err := OpenDead(beside, false)
	if err != nil || d.Name() != j.Name() || !d.HasName() {
		t.Fatalf("%v, %v", d, err)
	}
	must(t, errors.Join(d.Close(), j.Remove()))
	if left := append(names(t, own), names(t, filepath.Dir(beside))...); len(left) > 0 {
		t.Errorf("%q are left", left)
	}
}

// TestSquatters creates what another user may create at the path of the folder for journals. The journal must then
// be beside the trace, and the other user's files must not change.
func TestSquatters(t *testing.T) {
	theirs := t.TempDir()
	for name, squat := range map[string]func(own string) error{
		"link":        func(own string) error { return os.Symlink(theirs, own) },
		"dangling":    func(own string) error { return os.Symlink(filepath.Join(theirs, "none"), own) },
		"open folder": func(own string) error { return errors.Join(os.Mkdir(own, 0o700), os.Chmod(own, 0o777)) },
		"file":        func(own string) error { return os.WriteFile(own, []byte("x"), 0o600) },
		"pipe":        func(own string) error { return syscall.Mkfifo(own, 0o600) },
		"folder of another user": func(own string) error {
			if os.Geteuid() != 0 {
				t.Log("only root can give a folder away")
				return os.Symlink(theirs, own)
			}
			return errors.Join(os.Mkdir(own, 0o700), os.Chown(own, 65534, 65534))
		},
	} {
		t.Run(name, func(t *testing.T) {
			own := memoryRoot(t)
			must(t, squat(own))
			was, _ := os.Lstat(own)
			beside := hosttest.Path(t, "j")
			j, err := Create(Place{Beside: beside}, small)
			must(t, err)
			if j.Name() != beside || j.Medium() != MediumOf(filepath.Dir(beside)) {
				t.Errorf("it is %s, %v", j.Name(), j.Medium())
			}
			now, err := os.Lstat(own)
			if err != nil || now.Mode() != was.Mode() || now.ModTime() != was.ModTime() {
				t.Errorf("was %v, is %v, %v", was, now, err)
			}
			if n := names(t, theirs); len(n) > 0 {
				t.Errorf("%q are in their folder", n)
			}
			must(t, j.Remove())
		})
	}
}

// TestForeignJournalIsNotRead changes the journal that the file beside a trace names, so that it is not a plain
// file of the same owner.
func TestForeignJournalIsNotRead(t *testing.T) {
	memoryRoot(t)
	dir := t.TempDir()
	for name, change := range map[string]func(t *testing.T, journal string){
		"link": func(t *testing.T, name string) {
			must(t, errors.Join(os.Rename(name, name+"x"), os.Symlink(name+"x", name)))
		},
		"two names": func(t *testing.T, name string) {
			must(t, os.Link(name, name+"y"))
		},
		"pipe": func(t *testing.T, name string) {
			must(t, errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600)))
		},
		"another owner": func(t *testing.T, name string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			must(t, os.Chown(name, 65534, 65534))
		},
	} {
		t.Run(name, func(t *testing.T) {
			beside := filepath.Join(dir, name)
			j, err := Create(Place{Beside: beside}, small)
			must(t, err)
			must(t, j.Close())
			change(t, j.Name())
			if d, err := OpenDead(beside, true); err == nil {
				t.Errorf("it opened %s", d.Name())
			}
		})
	}
}

// TestLostJournalsAreSwept leaves journals of dead processes, some of them without a trace. The next Create must
// remove a journal if its trace has been missing for long enough, and only then.
func TestLostJournalsAreSwept(t *testing.T) {
	own := memoryRoot(t)
	leave := func(remove, old bool) string {
		beside := hosttest.Path(t, "j")
		j, err := Create(Place{Beside: beside}, small)
		if err == nil {
			err = j.Close()
		}
		if err == nil && remove {
			err = os.Remove(beside)
		}
		if old {
			then := time.Now().Add(-2 * keepFor)
			err = errors.Join(err, os.Chtimes(j.Name(), then, then))
		}
		must(t, err)
		return filepath.Base(j.Name())
	}
	kept, young, lost := leave(false, true), leave(true, false), leave(true, true)
	moved := hosttest.Path(t, "moved")
	j, err := Create(Place{Beside: moved}, small)
	must(t, err)
	must(t, j.Close())
	d, err := OpenDead(moved, true)
	must(t, err)
	then := time.Now().Add(-2 * keepFor)
	must(t, errors.Join(d.Rename(moved+".iet.buffer"), d.Close(), os.Chtimes(j.Name(), then, then)))
	const begun = "ABCDEFGHIJKLMNOPQRSTUVWXYZ.buffer"
	for _, name := range []string{begun, "app.iet.buffer"} { // app.iet.buffer may name a journal elsewhere
		name = filepath.Join(own, name)
		must(t, errors.Join(os.WriteFile(name, make([]byte, headerSize), 0o600), os.Chtimes(name, then, then)))
	}
	again := func() {
		t.Helper()
		j, err := Create(Place{Beside: hosttest.Path(t, "j")}, small)
		if err == nil {
			err = j.Remove()
		}
		must(t, err)
	}
	again()
	if have := strings.Join(names(t, own), " "); !strings.Contains(have, lost) || strings.Contains(have, begun) {
		t.Errorf("at first there are %s", have) // the first sweep only notes when it found the loss
	}
	for _, name := range []string{lost, kept} {
		f, err := os.OpenFile(filepath.Join(own, name), os.O_RDWR, 0)
		must(t, err)
		expect.Equal(t, readLost(f) != 0, name == lost, "%s was found to be lost", name)
		must(t, errors.Join(noteLost(f, then.Unix()), f.Close(), os.Chtimes(f.Name(), then, then)))
	}
	last, err := Create(Place{Beside: hosttest.Path(t, "j")}, small)
	must(t, err)
	defer last.Remove()
	have := strings.Join(names(t, own), " ")
	for name, want := range map[string]bool{kept: true, young: true, lost: false, begun: false, "app.iet.buffer": true, filepath.Base(j.Name()): true, filepath.Base(last.Name()): true} {
		expect.Equal(t, strings.Contains(have, name), want, "whether %s is there", name)
	}
}

// TestKilledBetweenRemovalsLeavesNothing stops at each point where a process that dies leaves a journal which no
// file names. The next Create in the folder must remove this journal.
func TestKilledBetweenRemovalsLeavesNothing(t *testing.T) {
	create := func(t *testing.T) (j *Journal, beside string) {
		t.Helper()
		beside = hosttest.Path(t, "j")
		j, err := Create(Place{Beside: beside}, small)
		must(t, err)
		must(t, expect.Err(j.NewStream(StreamParked).Append(1, NewInfo(1, 0, 0), []byte("text"))))
		return j, beside
	}
	for name, die := range map[string]func(t *testing.T, own string){
		"Create": func(t *testing.T, own string) {
			// After New, Create writes the file that names the journal.
			j, err := New(Options{Medium: Mapped, Name: filepath.Join(own, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.buffer"), Beside: hosttest.Path(t, "j"), Segments: 2})
			must(t, err)
			must(t, j.Close())
		},
		"Remove": func(t *testing.T, _ string) {
			j, _ := create(t)
			restore := keepJournal(t, j.Name())
			must(t, j.Remove())
			restore()
		},
		"Remove of a dead one": func(t *testing.T, _ string) {
			j, beside := create(t)
			must(t, j.Close())
			d, err := OpenDead(beside, true)
			must(t, err)
			restore := keepJournal(t, d.Name())
			must(t, d.Remove())
			restore()
		},
		"Replace": func(t *testing.T, _ string) {
			old, beside := create(t)
			j, err := Create(Place{Beside: beside, Replace: true}, small)
			must(t, err)
			restore := keepJournal(t, old.Name())
			must(t, j.Replace(old))
			restore()
			must(t, j.Remove())
		},
	} {
		t.Run(name, func(t *testing.T) {
			own := memoryRoot(t)
			must(t, os.Mkdir(own, 0o700))
			die(t, own)
			if left := names(t, own); len(left) != 1 {
				t.Fatalf("the process that died has left %q, want a journal", left)
			}
			j, _ := create(t)
			if left := names(t, own); len(left) != 1 || left[0] != filepath.Base(j.Name()) {
				t.Errorf("the next start leaves %q", left)
			}
			must(t, j.Remove())
		})
	}
}

// keepJournal gives the journal a second name. restore undoes the removal of the first name.
func keepJournal(t *testing.T, name string) (restore func()) {
	t.Helper()
	kept := filepath.Join(filepath.Dir(filepath.Dir(name)), "kept")
	must(t, os.Link(name, kept))
	return func() {
		must(t, os.Rename(kept, name))
	}
}

const namespaceEnv = "ENTRACE_JOURNAL_CHILD"

// inOwnMounts runs the test again in a child process with its own mounts, where /dev/shm has 8 MiB. It reports
// whether this process is that child.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(namespaceEnv) != "" {
		must(t, syscall.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=8m"))
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), namespaceEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 && os.Getenv("ENTRACE_CI") == "" {
		t.Skip("no namespaces:", err)
	}
	if err != nil || !bytes.Contains(out, []byte("--- PASS")) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestPrivateSharedMemoryIsNotUsed runs in a process with its own mounts. Its shared memory does not survive the
// process, so the journal must be beside the trace.
func TestPrivateSharedMemoryIsNotUsed(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	beside := hosttest.Path(t, "j")
	j, err := Create(Place{Beside: beside}, small)
	must(t, err)
	expect.Equal(t, j.Name(), beside, "the journal")
	must(t, j.Remove())
}

// TestSmallSharedMemory runs with a shared memory of 8 MiB. A journal may use half of it.
func TestSmallSharedMemory(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	sharedMemory = func() string { return "/dev/shm" } // even if the machine has several
	beside := hosttest.Path(t, "j")
	evict := func(*Journal, *Segment) {}
	for _, c := range []struct {
		o      Options
		memory bool
		got    int // expected number of segments
	}{
		{Options{Segments: 20}, true, 20},
		{Options{Segments: 200}, false, 200},
		{Options{Segments: 20, Evict: evict}, true, 20},
		{Options{Segments: 200, Evict: evict}, false, 200},
		{Options{Segments: 200, Extra: 10, Least: 40, Evict: evict}, true, 53}, // half of 8 MiB, less header and Extra
		{Options{Segments: 200, Extra: 10, Least: 60, Evict: evict}, false, 200},
	} {
		c.o.MaxWait = time.Second
		j, err := Create(Place{Beside: beside}, c.o)
		must(t, err)
		if got := j.Name() != beside; got != c.memory || j.Segments() != c.got {
			t.Errorf("a journal of %d segments has %d and is %s", c.o.Segments, j.Segments(), j.Name())
		}
		must(t, j.Remove())
	}
	expect.Is(t, os.WriteFile("/dev/shm/theirs", make([]byte, 9<<20), 0o600), syscall.ENOSPC, "os.WriteFile")
	j, err := Create(Place{Beside: beside}, small)
	if err != nil || j.Name() != beside {
		t.Fatalf("with the memory full: %v, %v", j, err)
	}
	must(t, j.Remove())
}

// TestJournalFollowsMemoryLimit sets a low memory limit. A journal with Evict must become smaller, whatever its
// medium, and any other journal must stop growing.
func TestJournalFollowsMemoryLimit(t *testing.T) {
	memoryRoot(t)
	memoryLimit = func() int64 { return 8 * 40 * SegmentSize }
	t.Cleanup(func() { memoryLimit = osfile.MemoryLimit })
	evict := func(*Journal, *Segment) {}
	for name, create := range map[string]func(o Options) (*Journal, error){
		"heap": New,
		"shared memory": func(o Options) (*Journal, error) {
			return Create(Place{Beside: hosttest.Path(t, "j")}, o)
		},
		"folder": func(o Options) (*Journal, error) {
			dir := t.TempDir()
			return Create(Place{Beside: filepath.Join(dir, "j"), Dir: dir}, o)
		},
	} {
		for _, test := range []struct{ least, want int }{{10, 30}, {50, 50}} {
			j, err := create(Options{Segments: 500, Extra: 10, Least: test.least, Evict: evict, MaxWait: time.Second})
			must(t, err)
			// In shared memory, the header also counts.
			if got := j.Segments(); got != test.want && (name != "shared memory" || got != test.want-1) {
				t.Errorf("%s: it has %d segments, want %d", name, got, test.want)
			}
			must(t, j.Remove())
		}
		j, err := create(Options{Segments: 500, Extra: 10, MaxWait: time.Second})
		must(t, err)
		s, n := j.NewStream(StreamParked), 0
		for ; err == nil && n < 500; n++ {
			_, err = s.Append(1, NewInfo(1, 0, 0), make([]byte, SegmentSize/2))
		}
		if want := growBy + 1; !errors.Is(err, ErrFull) || n != want {
			t.Errorf("%s: append %d: %v, want %v at %d", name, n, err, ErrFull, want)
		}
		must(t, j.Remove())
	}
}

// TestPointerOfAnother moves the small file of a journal away, and makes another journal there. The first journal
// then has no name, and must not remove the file of the other.
func TestPointerOfAnother(t *testing.T) {
	memoryRoot(t)
	beside := hosttest.Path(t, "j")
	a, err := Create(Place{Beside: beside}, small)
	must(t, err)
	must(t, os.Rename(beside, beside+".moved"))
	b, err := Create(Place{Beside: beside}, small)
	must(t, err)
	if a.HasName() || !b.HasName() {
		t.Errorf("the first has a name: %t, the second: %t", a.HasName(), b.HasName())
	}
	must(t, a.Remove())
	if !b.HasName() {
		t.Error("the first has removed the name of the second")
	}
	must(t, b.Remove())
}

// TestNoRoomToGrow checks that a journal that cannot grow returns ErrFull and can still be used.
func TestNoRoomToGrow(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "journal") //nolint:usetesting // it must be a tmpfs
	if err != nil {
		if os.Getenv("ENTRACE_CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	j, err := New(Options{Medium: Mapped, Name: filepath.Join(dir, "j"), Segments: growBy, Extra: growBy})
	must(t, err)
	whole := j.pool.f
	defer whole.Close()
	j.pool.f, err = os.Open(j.Name())
	must(t, err) // no space can be allocated in a file that is open for reading
	s, n := j.NewStream(StreamParked), 0
	for ; err == nil && n <= growBy; n++ {
		_, err = s.Append(1, NewInfo(1, 0, 0), make([]byte, SegmentSize/2))
	}
	if !errors.Is(err, ErrFull) || n != growBy+1 {
		t.Errorf("append %d: %v, want %d and %v", n, err, growBy+1, ErrFull)
	}
	if !j.HasName() {
		t.Error("it counts as lost")
	}
	must(t, j.Remove())
}

// TestJournalOfRemovedFolderGoesAfterAnHour checks that a journal is removed after an hour if the folder of its
// trace was removed. If the disk was unmounted or only a file was removed, the journal must stay.
func TestJournalOfRemovedFolderGoesAfterAnHour(t *testing.T) {
	own := memoryRoot(t)
	leave := func(remove func(dir string) error) string {
		dir := hosttest.Path(t, "traces")
		must(t, os.Mkdir(dir, 0o700))
		j, err := Create(Place{Beside: filepath.Join(dir, "j")}, small)
		must(t, err)
		_, err = j.NewStream(StreamParked).Append(1, NewInfo(1, 0, 0), []byte("text"))
		must(t, err)
		must(t, j.Close())
		must(t, remove(dir))
		f, err := os.OpenFile(j.Name(), os.O_RDWR, 0)
		must(t, err)
		must(t, errors.Join(noteLost(f, time.Now().Add(-2*keepGone).Unix()), f.Close()))
		return filepath.Base(j.Name())
	}
	gone := leave(os.RemoveAll)
	unmounted := leave(func(dir string) error { return os.RemoveAll(filepath.Dir(dir)) })
	fileAlone := leave(func(dir string) error { return os.Remove(filepath.Join(dir, "j")) })
	last, err := Create(Place{Beside: hosttest.Path(t, "j")}, small)
	must(t, err)
	defer last.Remove()
	have := strings.Join(names(t, own), " ")
	for name, want := range map[string]bool{gone: false, unmounted: true, fileAlone: true} {
		expect.Equal(t, strings.Contains(have, name), want, "whether %s is there", name)
	}
}

// TestDynamicUsers checks the range of users in systemd's documentation.
func TestDynamicUsers(t *testing.T) {
	for uid, want := range map[int]bool{0: false, 1000: false, 61183: false, 61184: true, 65519: true, 65520: false, 65534: false} {
		expect.Equal(t, isDynamicUser(uid), want, "whether user %d is a dynamic one", uid)
	}
}

// TestJournalOfAnotherUser replaces a journal by one with another owner, as if the process had become another user
// just before. A reader would not follow the file beside the trace to this journal, so the old one stays.
func TestJournalOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("ENTRACE_CI") != "" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
	own := memoryRoot(t)
	place := Place{Beside: hosttest.Path(t, "j")}
	old, err := Create(place, small)
	must(t, err)
	defer old.Remove()
	place.Replace = true
	j, err := Create(place, small)
	must(t, err)
	defer j.Remove()
	must(t, os.Chown(j.Name(), 65534, -1))
	expect.Is(t, j.Replace(old), ErrElsewhere, "Replace")
	d, err := OpenDead(place.Beside, false)
	must(t, err)
	defer d.Close()
	if d.Name() != old.Name() || !old.HasName() {
		t.Errorf("%s leads to %s, want %s in %s", place.Beside, d.Name(), old.Name(), own)
	}
}
