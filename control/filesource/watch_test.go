package filesource

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a call of a watch may take on a loaded machine.
const patience = time.Minute

// A recorder collects the calls of a watch.
type recorder struct {
	t     *testing.T
	calls chan string // the ID of the configuration, or the first line of the error
	busy  atomic.Int32
}

func newRecorder(t *testing.T) *recorder { return &recorder{t: t, calls: make(chan string, 1000)} }

func (r *recorder) f(c *control.Config, err error) {
	if r.busy.Add(1) != 1 {
		r.t.Error("two calls at once")
	}
	defer r.busy.Add(-1)
	if (c == nil) == (err == nil) {
		r.t.Errorf("called with %v and %v, want one of them", c, err)
	}
	if err != nil {
		r.calls <- "error: " + lines(err)[0]
		return
	}
	r.calls <- c.ID
}

// want waits for the next call.
func (r *recorder) want(want string) {
	r.t.Helper()
	select {
	case got := <-r.calls:
		if !strings.Contains(got, want) {
			r.t.Errorf("got %q, want %q", got, want)
		}
	case <-time.After(patience):
		r.t.Fatalf("not called, want %q", want)
	}
}

func (r *recorder) wantNone() {
	r.t.Helper()
	select {
	case got := <-r.calls:
		r.t.Errorf("called with %q, want no call", got)
	default:
	}
}

func config(id string) string { return "id: " + id + "\ndir: /t\n" }

func write(t *testing.T, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

// replace renames a new file to the name, as editors do.
func replace(t *testing.T, name, text string) {
	t.Helper()
	write(t, name+"~new", text)
	// Windows does not rename over a file that the watcher is reading.
	must(t, osfile.RenameOver(name+"~new", name))
}

func symlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Skip(err)
	}
}

// watch watches the file name until the test ends.
func watch(t *testing.T, name string) *recorder {
	t.Helper()
	s := New(name, &Options{Poll: 5 * time.Millisecond, Debounce: 2 * time.Millisecond})
	if _, err := s.Config(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	r := newRecorder(t)
	stop, err := s.Watch(r.f)
	must(t, err)
	t.Cleanup(stop)
	return r
}

func TestWatch(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	write(t, file, config("a"))
	r := watch(t, file)
	replace(t, file, config("b"))
	r.want("b")
	replace(t, file, config("b")) // no change
	time.Sleep(50 * time.Millisecond)
	replace(t, file, config("c")+"kep: 1\n")
	r.want("control.yaml:3:1: unknown key")
	replace(t, file, config("c"))
	r.want("c")
	must(t, os.Remove(file))
	r.want("error: read configuration: ")
	replace(t, file, config("c"))
	r.want("c")
	must(t, os.Rename(file, file+".old"))
	r.want("error: read configuration: ")
	must(t, os.Mkdir(file, 0o700))
	r.want("error: read configuration: ")
	must(t, os.Remove(file))
	r.want("error: read configuration: ")
	replace(t, file, config("d"))
	r.want("d")
	r.wantNone()
}

// TestWatchRewrites checks that the last of many changes is reported. A file that is not replaced but
// rewritten may also be read half-written.
func TestWatchRewrites(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, file, text string){"in place": write, "replaced": replace} {
		t.Run(name, func(t *testing.T) {
			file := hosttest.Path(t, "control.yaml")
			write(t, file, config("a"))
			r := watch(t, file)
			for i := range 100 {
				put(t, file, config(fmt.Sprintf("n%d", i)))
			}
			for last := ""; last != "n99"; {
				select {
				case last = <-r.calls:
				case <-time.After(patience):
					t.Fatalf("the last call was %q, want n99", last)
				}
			}
			if name == "replaced" {
				r.wantNone()
			}
		})
	}
}

// TestWatchKubernetes replaces a folder through symbolic links, as Kubernetes does for mounted config maps.
func TestWatchKubernetes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a rename cannot replace a link to a folder")
	}
	dir := t.TempDir()
	put := func(version, text string) {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "control.yaml"), text)
		symlink(t, version, filepath.Join(dir, "..data_tmp"))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	put("..2026_1", config("one"))
	file := filepath.Join(dir, "control.yaml")
	symlink(t, filepath.Join("..data", "control.yaml"), file)
	r := watch(t, file)
	put("..2026_2", config("two"))
	r.want("two")
	must(t, os.RemoveAll(filepath.Join(dir, "..2026_1")))
	put("..2026_3", config("three"))
	r.want("three")
	r.wantNone()
}

// TestWatchFolder removes the folder of the file, and makes a new one.
func TestWatchFolder(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the folder of a file that is being read cannot be renamed")
	}
	dir := hosttest.Path(t, "conf")
	file := filepath.Join(dir, "control.yaml")
	// The folder does not exist at first.
	r := watch(t, file)
	for i := range 3 {
		must(t, os.Mkdir(dir, 0o700))
		replace(t, file, config(fmt.Sprintf("n%d", i)))
		r.want(fmt.Sprintf("n%d", i))
		if i == 1 {
			must(t, os.RemoveAll(dir))
		} else if err := os.Rename(dir, dir+fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		r.want("error: read configuration: ")
	}
}

// TestWatchTimes has a fake clock. It checks that a change is found by polling and reported after Debounce.
func TestWatchTimes(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	write(t, file, config("a"))
	synctest.Test(t, func(t *testing.T) {
		s := New(file, nil)
		r := newRecorder(t)
		stop, err := s.Watch(r.f)
		must(t, err)
		defer stop()
		synctest.Wait()
		write(t, file, "id: b\n") // the writer has not finished
		time.Sleep(2*time.Second + 100*time.Millisecond)
		synctest.Wait()
		r.wantNone()
		write(t, file, config("b"))
		time.Sleep(300 * time.Millisecond)
		synctest.Wait()
		r.want("b")
		// A change that is undone before the next poll is not reported.
		write(t, file, config("c"))
		time.Sleep(time.Second)
		write(t, file, config("b"))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.wantNone()
		// An invalid file is reported once, and again when its content changes.
		for _, text := range []string{"- a", "-  a"} {
			write(t, file, text)
			time.Sleep(time.Minute)
			synctest.Wait()
			r.want("must be a mapping, found a list")
			r.wantNone()
		}
		must(t, os.Remove(file))
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want("read configuration")
		r.wantNone()
	})
}

// TestWatchDebounce changes the file all the time. The change is reported nevertheless.
func TestWatchDebounce(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	write(t, file, config("a"))
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t)
		stop, err := New(file, nil).Watch(r.f)
		must(t, err)
		defer stop()
		synctest.Wait()
		began := time.Now()
		for i := 0; len(r.calls) == 0; i++ {
			write(t, file, config(fmt.Sprint("n", i)))
			time.Sleep(90 * time.Millisecond)
			synctest.Wait()
		}
		if got, least, most := time.Since(began), 3900*time.Millisecond, 4100*time.Millisecond; got < least || got > most {
			t.Errorf("with changes all the time the file is reported after %v, want two seconds to be seen and ten times 200 ms", got)
		}
	})
}

// TestWatchFromConfig changes the file before Watch. A source reports the change if Config was called
// before it.
func TestWatchFromConfig(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	write(t, file, config("a"))
	synctest.Test(t, func(t *testing.T) {
		fresh, s := New(file, nil), New(file, nil)
		if c, err := s.Config(); err != nil || c.ID != "a" {
			t.Fatalf("got %v, %v", c, err)
		}
		write(t, file, config("b"))
		r, none := newRecorder(t), newRecorder(t)
		stop, err := s.Watch(r.f)
		must(t, err)
		defer stop()
		stopFresh, err := fresh.Watch(none.f)
		must(t, err)
		defer stopFresh()
		time.Sleep(time.Second)
		synctest.Wait()
		r.want("b")
		none.wantNone()
		// If other code calls Config after a change, the watch still reports the change.
		write(t, file, config("c"))
		if c, err := s.Config(); err != nil || c.ID != "c" {
			t.Fatalf("got %v, %v", c, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want("c")
		none.want("c")
	})
}

// TestWatchStop calls stop while a call of the function runs. stop waits for it.
func TestWatchStop(t *testing.T) {
	file := hosttest.Path(t, "control.yaml")
	write(t, file, config("a"))
	s := New(file, &Options{Poll: 5 * time.Millisecond, Debounce: time.Millisecond})
	must(t, expect.Err(s.Config()))
	entered, leave := make(chan struct{}), make(chan struct{})
	var calls, returned atomic.Int32
	stop, err := s.Watch(func(*control.Config, error) {
		if calls.Add(1) == 1 {
			close(entered)
		}
		<-leave
		returned.Add(1)
	})
	must(t, err)
	replace(t, file, config("b"))
	<-entered
	replace(t, file, config("c"))
	var stops sync.WaitGroup
	for range 3 {
		stops.Go(func() {
			stop()
			if got, want := returned.Load(), calls.Load(); got != want {
				t.Errorf("stop returned when %d of %d calls had", got, want)
			}
		})
	}
	time.Sleep(10 * time.Millisecond) // a stop that does not wait would return in this time
	close(leave)
	stops.Wait()
	before := calls.Load()
	replace(t, file, config("d"))
	time.Sleep(20 * time.Millisecond)
	if got := calls.Load(); got != before {
		t.Errorf("%d calls after stop, want none", got-before)
	}
}

func TestWatchConcurrentSafe(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no file is replaced while somebody reads it, and here somebody always does")
	}
	file := hosttest.Path(t, "control.yaml")
	write(t, file, config("a"))
	s := New(file, &Options{Poll: time.Millisecond, Debounce: time.Millisecond})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 5 {
				r := newRecorder(t)
				stop, err := s.Watch(r.f)
				expect.OK(t, err)
				for range 10 {
					expect.OK(t, expect.Err(s.Config()))
				}
				stop()
			}
		})
	}
	for i := range 50 {
		replace(t, file, config(fmt.Sprint("n", i)))
	}
	all.Wait()
}
