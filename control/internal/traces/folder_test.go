package traces

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/file/retain"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// sweep recovers the folder like a starting process, and returns the names of the traces that it has
// finished.
func sweep(f *Folder) (finished []string, err error) {
	rerr := f.Recover(func(error) {}, func(r *Result, e error) {
		err = errors.Join(err, e)
		if r != nil && r.Output != "" {
			finished = append(finished, filepath.Base(r.Output))
		}
	})
	slices.Sort(finished)
	return finished, errors.Join(rerr, err)
}

var must = expect.Must

func folderOf(t testing.TB) *Folder {
	t.Helper()
	f, err := Open(hosttest.Path(t, "traces"))
	must(t, err)
	return f
}

// folderPut writes a finished trace whose name and modification time are the time at.
func folderPut(t testing.TB, f *Folder, at time.Time, seq, size int, manual bool) string {
	t.Helper()
	n := traceName{time: at.UTC().Truncate(time.Microsecond), host: "h", pid: 7, seq: uint64(seq), manual: manual, config: "c"}
	must(t, os.WriteFile(f.path(n.String()), make([]byte, size), 0o600))
	must(t, os.Chtimes(f.path(n.String()), at, at))
	return n.String()
}

func folderNames(t testing.TB, f *Folder) []string {
	t.Helper()
	files, err := f.List()
	must(t, err)
	var names []string
	for _, file := range files {
		names = append(names, file.Name)
	}
	return names
}

var folderDay = time.Date(2026, 11, 20, 21, 27, 12, 21_345_000, time.UTC)

// TestFolderChild is no test of its own: other tests run it as a child process.
func TestFolderChild(t *testing.T) {
	do := os.Getenv("ENTRACE_FOLDER_CHILD")
	if do == "" {
		t.Skip("this is for other tests")
	}
	f, err := Open(".")
	must(t, err)
	switch do {
	case "write": // waits to be killed
		name := f.NewName(time.Now(), "deep", true)
		r := tracetest.CreateAt(t, f.path(name), nil)
		for range 100 {
			_, err := r.Append(&format.TraceEntry{Message: format.Some("m"), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo}})
			must(t, err)
		}
		tmp, err := osfile.CreateTemp(f.path(name))
		must(t, err)
		fmt.Println("wrote", name)
		_, _ = io.Copy(io.Discard, os.Stdin)
		runtime.KeepAlive(tmp)
		runtime.KeepAlive(r)
	case "trim":
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		n, err := f.Trim(retain.Keep{Files: 50}, folderDay)
		must(t, err)
		fmt.Println("removed", n)
	case "sweep":
		fmt.Println("ready")
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		done, err := sweep(f)
		must(t, err)
		fmt.Println("finished", len(done))
	}
}

type folderProcess struct {
	*exec.Cmd

	in  io.WriteCloser
	out *bufio.Reader
}

func folderStart(t *testing.T, do string, f *Folder) *folderProcess {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	p := &folderProcess{Cmd: exec.Command(program, "-test.run=^TestFolderChild$")}
	p.Env = append(os.Environ(), "ENTRACE_FOLDER_CHILD="+do)
	p.Dir = f.dir
	p.Stderr = os.Stderr
	p.in, err = p.StdinPipe()
	must(t, err)
	out, err := p.StdoutPipe()
	must(t, err)
	p.out = bufio.NewReader(out)
	must(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// line reads the next line of output, which must begin with word, and returns the rest.
func (p *folderProcess) line(t *testing.T, word string) string {
	t.Helper()
	text, err := p.out.ReadString('\n')
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), word)
	if !ok {
		more, _ := io.ReadAll(p.out)
		t.Fatalf("the child says %q, %v, want %s\n%s", text, err, word, more)
	}
	return strings.TrimSpace(rest)
}

func (p *folderProcess) kill(t *testing.T) {
	t.Helper()
	must(t, p.Process.Kill())
	_ = p.Wait()
}

// folderBoth runs two child processes that do the same at the same time. It returns the sum of the numbers
// that they print.
func folderBoth(t *testing.T, do, word string, f *Folder) (sum int) {
	t.Helper()
	two := []*folderProcess{folderStart(t, do, f), folderStart(t, do, f)}
	for _, p := range two {
		p.line(t, "ready")
	}
	for _, p := range two {
		_, err := io.WriteString(p.in, "go\n")
		must(t, err)
	}
	for _, p := range two {
		var n int
		_, err := fmt.Sscan(p.line(t, word), &n)
		must(t, err)
		sum += n
		_, _ = io.Copy(io.Discard, p.out)
		must(t, p.Wait())
	}
	return sum
}

func TestOpenFolder(t *testing.T) {
	base := t.TempDir()
	file := filepath.Join(base, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	must(t, os.Mkdir(filepath.Join(base, "there"), 0o755))
	links := os.Symlink(filepath.Join(base, "there"), filepath.Join(base, "link")) == nil &&
		os.Symlink(filepath.Join(base, "nowhere"), filepath.Join(base, "dangling")) == nil
	for _, c := range []struct {
		dir  string
		ok   bool
		link bool
	}{
		{dir: filepath.Join(base, "a", "b", "c"), ok: true},
		{dir: filepath.Join(base, "there"), ok: true},
		{dir: filepath.Join(base, "link"), ok: true, link: true},
		{dir: filepath.Join(base, "dangling"), link: true},
		{dir: file},
		{dir: filepath.Join(file, "below")},
		{dir: ""},
	} {
		// Under Wine, the target of a dangling link is created.
		if c.link && (!links || !c.ok && runtime.GOOS == "windows") {
			continue
		}
		f, err := Open(c.dir)
		if (err == nil) != c.ok {
			t.Errorf("Open(%q): %v, want ok %v", c.dir, err, c.ok)
		}
		if err == nil && !filepath.IsAbs(f.dir) {
			t.Errorf("Open(%q) is at %q", c.dir, f.dir)
		}
	}
	if runtime.GOOS == "windows" {
		return
	}
	for dir, want := range map[string]fs.FileMode{"a/b/c": 0o700, "there": 0o755} {
		fi, err := os.Stat(filepath.Join(base, dir))
		must(t, err)
		expect.Equal(t, fi.Mode().Perm(), want, "%s has the mode", dir)
	}
}

// folderForeign fills f with files that are not traces. The returned function checks that they have not
// changed.
func folderForeign(t *testing.T, f *Folder) func() {
	t.Helper()
	const name = "20261120T212712.021345Z-h-1-000%d-c%s"
	outside := hosttest.Path(t, "outside.et")
	must(t, os.WriteFile(outside, []byte("outside"), 0o600))
	long := time.Now().Add(-time.Hour)
	put := func(name string) {
		must(t, os.WriteFile(f.path(name), nil, 0o600))
		must(t, os.Chtimes(f.path(name), long, long))
	}
	for _, s := range []string{
		"notes.txt", "x.et", "x.iet", "x.iet.buffer", ".x.et.tmp-123", ".hidden", "2026.et", ".tmp-1",
		fmt.Sprintf(name, 1, ".txt"), "." + fmt.Sprintf(name, 1, ".txt.tmp-1"), fmt.Sprintf(name, 1, ".et.bak"), fmt.Sprintf(name, 1, ".et.tmp-1"),
	} {
		put(s)
	}
	must(t, os.Mkdir(f.path(fmt.Sprintf(name, 2, ".et")), 0o700))
	must(t, os.Mkdir(f.path(fmt.Sprintf(name, 3, ".iet")), 0o700))
	must(t, os.Mkdir(f.path("."+fmt.Sprintf(name, 3, ".et.tmp-1")), 0o700))
	_ = os.Symlink(outside, f.path(fmt.Sprintf(name, 4, ".et")))
	_ = os.Symlink(outside, f.path(fmt.Sprintf(name, 5, ".iet")))
	_ = os.Symlink(outside, f.path("."+fmt.Sprintf(name, 5, ".et.tmp-1")))
	if mkfifo, err := exec.LookPath("mkfifo"); err == nil {
		must(t, exec.Command(mkfifo, f.path(fmt.Sprintf(name, 6, ".et")), f.path(fmt.Sprintf(name, 7, ".iet")),
			f.path("."+fmt.Sprintf(name, 6, ".et.tmp-1"))).Run())
	}
	look := func() map[string]string {
		all := make(map[string]string)
		list, err := os.ReadDir(f.dir)
		must(t, err)
		for _, e := range list {
			fi, err := e.Info()
			must(t, err)
			all[e.Name()] = fmt.Sprint(fi.Mode(), fi.Size(), fi.ModTime())
		}
		text := tracetest.ReadFile(t, outside)
		all[outside] = string(text)
		return all
	}
	was := look()
	return func() {
		t.Helper()
		if now := look(); !maps.Equal(was, now) {
			t.Errorf("the folder has\n%v\nand had\n%v", now, was)
		}
	}
}

func TestFolderLeavesOthersAlone(t *testing.T) {
	f := folderOf(t)
	same := folderForeign(t, f)
	expect.Len(t, folderNames(t, f), 0, "list has")
	if n, err := f.Trim(retain.Keep{Files: 1, Bytes: 1, Age: 1}, time.Now()); n != 0 || err != nil {
		t.Errorf("trim: %d, %v", n, err)
	}
	if done, err := sweep(f); len(done) != 0 || err != nil {
		t.Errorf("sweep: %v, %v", done, err)
	}
	list, err := os.ReadDir(f.dir)
	must(t, err)
	for _, e := range list {
		if file, _, err := f.OpenFile(e.Name()); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open(%q): %v, want ErrNotExist", e.Name(), err)
			_ = file.Close()
		}
	}
	same()
}

func TestFolderList(t *testing.T) {
	f := folderOf(t)
	b := folderPut(t, f, folderDay.Add(time.Second), 2, 20, true)
	a := folderPut(t, f, folderDay, 9, 10, false)
	files, err := f.List()
	must(t, err)
	want := []File{
		{Name: a, Size: 10, Time: folderDay, Config: "c"},
		{Name: b, Size: 20, Time: folderDay.Add(time.Second), Manual: true, Config: "c"},
	}
	for i := range files {
		if !files[i].modified.Equal(want[i].Time) {
			t.Errorf("%s was changed at %v, want %v", files[i].Name, files[i].modified, want[i].Time)
		}
		files[i].modified = time.Time{}
	}
	expect.Slice(t, files, want, "list has")
	must(t, os.RemoveAll(f.dir))
	expect.Is(t, expect.Err(f.List()), fs.ErrNotExist, "without the folder")
}

// TestFolderTrim trims the traces a to f, which have 10 bytes each. Each trace is an hour younger than the previous
// trace. A trace with an upper case letter was requested manually.
func TestFolderTrim(t *testing.T) {
	for _, c := range []struct {
		traces string
		k      retain.Keep
		want   string
	}{
		{"abcdef", retain.Keep{}, "abcdef"},
		{"abcdef", retain.Keep{Files: 6}, "abcdef"},
		{"abcdef", retain.Keep{Files: 2}, "ef"},
		{"AbCdef", retain.Keep{Files: 3}, "ACf"},
		{"ABCDEf", retain.Keep{Files: 2}, "Ef"},
		{"ABCDEF", retain.Keep{Files: 2}, "EF"},
		{"abcdeF", retain.Keep{Files: 2}, "eF"},
		{"abcdef", retain.Keep{Bytes: 60}, "abcdef"},
		{"abcdef", retain.Keep{Bytes: 59}, "bcdef"},
		{"abcdef", retain.Keep{Bytes: 1}, "f"},
		{"f", retain.Keep{Bytes: 1, Files: 1}, "f"},
		{"aBcdef", retain.Keep{Bytes: 25}, "Bf"},
		{"abcdef", retain.Keep{Age: 2 * time.Hour}, "def"},
		{"ABcDef", retain.Keep{Age: 2 * time.Hour}, "Def"},
		{"abcdef", retain.Keep{Age: time.Nanosecond}, "f"},
		{"abc", retain.Keep{Age: time.Nanosecond}, "c"},
		{"aBcdef", retain.Keep{Age: 10 * time.Hour, Files: 4, Bytes: 35}, "Bef"},
		{"Abcdef", retain.Keep{Age: 4*time.Hour + 1, Files: 3}, "def"},
		{"", retain.Keep{Files: 1, Age: 1, Bytes: 1}, ""},
	} {
		f := folderOf(t)
		for _, r := range c.traces {
			i := int(r|0x20) - 'a'
			folderPut(t, f, folderDay.Add(time.Duration(i)*time.Hour), i+1, 10, r < 'a')
		}
		n, err := f.Trim(c.k, folderDay.Add(5*time.Hour))
		must(t, err)
		var got strings.Builder
		files, err := f.List()
		must(t, err)
		for _, file := range files {
			r := rune('a' + int(file.Time.Sub(folderDay)/time.Hour))
			if file.Manual {
				r &^= 0x20
			}
			got.WriteString(string(r))
		}
		if got.String() != c.want || n != len(c.traces)-len(c.want) {
			t.Errorf("trim of %q to %+v keeps %q and says %d, want %q", c.traces, c.k, got.String(), n, c.want)
		}
	}
}

func TestFolderTrimError(t *testing.T) {
	f := folderOf(t)
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("nothing keeps this user from removing files")
	}
	folderPut(t, f, folderDay, 1, 10, false)
	folderPut(t, f, folderDay, 2, 10, false)
	must(t, os.Chmod(f.dir, 0o500))
	defer os.Chmod(f.dir, 0o700)
	if n, err := f.Trim(retain.Keep{Files: 1}, folderDay); n != 0 || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("trim: %d, %v, want ErrPermission", n, err)
	}
}

// TestFolderTrimMany trims 1,000 files, with one process and with two at once.
func TestFolderTrimMany(t *testing.T) {
	for _, processes := range []int{1, 2} {
		f := folderOf(t)
		for i := range 1000 {
			folderPut(t, f, folderDay.Add(-time.Duration(i)*time.Second), i+1, 1, i%100 == 99)
		}
		same := folderForeign2(t, f)
		removed := 0
		if processes == 2 {
			removed = folderBoth(t, "trim", "removed", f)
		} else {
			var err error
			removed, err = f.Trim(retain.Keep{Files: 50}, folderDay)
			must(t, err)
		}
		files, err := f.List()
		must(t, err)
		manual := 0
		for _, file := range files {
			if file.Manual {
				manual++
			}
		}
		if runtime.GOOS == "windows" && processes == 2 {
			removed = min(removed, 950) // on Windows, both processes may succeed in removing the same file
		}
		if removed != 950 || len(files) != 50 || manual != 10 || files[49].Time != folderDay {
			t.Errorf("%d processes: removed %d, there are %d, %d of them by hand; want 950, 50, 10", processes, removed, len(files), manual)
		}
		same()
	}
}

// folderForeign2 writes a file that is not a trace. The returned function checks that it has not changed.
func folderForeign2(t *testing.T, f *Folder) func() {
	must(t, os.WriteFile(f.path("other.et"), []byte("x"), 0o600))
	return func() {
		if text, err := os.ReadFile(f.path("other.et")); err != nil || string(text) != "x" {
			t.Errorf("other.et has %q, %v", text, err)
		}
	}
}

func TestFolderOpen(t *testing.T) {
	f := folderOf(t)
	name := folderPut(t, f, folderDay, 1, 5, false)
	file, fi, err := f.OpenFile(name)
	must(t, err)
	b, err := io.ReadAll(file)
	if err != nil || len(b) != 5 || fi.Size() != 5 {
		t.Errorf("the file has %d bytes, %v, and its size is %d, want 5", len(b), err, fi.Size())
	}
	must(t, file.Close())
	must(t, os.WriteFile(filepath.Join(filepath.Dir(f.dir), name), []byte("above"), 0o600))
	for _, s := range []string{
		"", ".", "..", "/", "../" + name, "./" + name, name + "/", "x/../" + name, f.path(name), strings.TrimSuffix(name, ".et") + ".iet",
		strings.Replace(name, "0001", "0002", 1), "other.et", name + "\x00", strings.ToLower(name),
	} {
		if file, _, err := f.OpenFile(s); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("open(%q): %v, want ErrNotExist", s, err)
			_ = file.Close()
		}
	}
}

// TestFolderTrimByAgeWhenTheClockIsSet checks that traces of this process do not get older if the clock is
// set forward, and that Trim removes no trace because of its age if the clock is set back.
func TestFolderTrimByAgeWhenTheClockIsSet(t *testing.T) {
	f := folderOf(t)
	now := time.Now()
	stranger := folderPut(t, f, now, 1, 10, false)
	own := folderPut(t, f, now.Add(time.Second), 2, 10, false)
	last := folderPut(t, f, now.Add(2*time.Second), 3, 10, false)
	f.ended.Add(own)
	f.ended.Add(last)
	k := retain.Keep{Age: time.Hour}
	if n, err := f.Trim(k, now.Add(-24*time.Hour), last); n != 0 || err != nil { // set back
		t.Errorf("with the clock set back trim has removed %d: %v", n, err)
	}
	if n, err := f.Trim(k, now.Add(24*time.Hour), last); n != 1 || err != nil { // set forward
		t.Errorf("with the clock set forward trim has removed %d: %v", n, err)
	}
	if got := folderNames(t, f); !slices.Equal(got, []string{own, last}) {
		t.Errorf("there are %q, want all but %s", got, stranger)
	}
}
