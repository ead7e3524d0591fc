package recorder_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

const rightsEnv = "ENTRACE_RIGHTS_CHILD"

const nobody = 65534

// lossOfRights has functions by which a program of root loses the access to the folder of its trace.
var lossOfRights = map[string]func(dir string) error{
	"setuid": func(string) error {
		return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
	},
	"chroot":  func(dir string) error { return syscall.Chroot(filepath.Join(filepath.Dir(dir), "root")) },
	"unmount": func(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) },
}

// TestProgramGivesUpRights starts programs of root that lose the access to the folder of their trace, record on, and
// then close the recorder or are killed. Recovery finds each acknowledged record exactly once.
func TestProgramGivesUpRights(t *testing.T) {
	if s := os.Getenv(rightsEnv); s != "" {
		v, err := url.ParseQuery(s)
		must(t, err)
		synctest.Test(t, func(t *testing.T) { giveUpRights(t, v) })
		return
	}
	for _, x := range []struct {
		how, end string
		mode     os.FileMode // of the folder
		flags    uintptr     // namespaces of the program
		closes   bool        // Close finishes the file
		refuses  bool        // later calls fail, and what was recorded before is lost
		below    string      // the trace is in this folder of the folder
		ring     bool        // the program records to a ring, which has no records after Close
	}{
		{how: "setuid", mode: 0o755, end: "close"},
		{how: "setuid", mode: 0o755, end: "kill"},
		{how: "setuid", mode: 0o700, end: "close"},
		{how: "setuid", mode: 0o777, end: "close", closes: true},
		{how: "setuid", mode: 0o777, end: "kill"},
		{how: "setuid", mode: 0o777 | os.ModeSticky, end: "close"}, // the ET is made, but the IET cannot be removed
		{how: "setuid", mode: 0o777 | os.ModeSticky, end: "kill"},
		{how: "setuid", mode: 0o755, end: "kill", flags: syscall.CLONE_NEWUSER},
		{how: "chroot", mode: 0o755, end: "close"},
		{how: "chroot", mode: 0o755, end: "kill"},
		{how: "unmount", mode: 0o755, end: "close", flags: syscall.CLONE_NEWNS, closes: true},
		{how: "unmount", mode: 0o755, end: "kill", flags: syscall.CLONE_NEWNS},
		{how: "unmount", mode: 0o755, end: "kill", flags: syscall.CLONE_NEWNS, below: "below", refuses: true},
		{how: "setuid", mode: 0o755, end: "close", ring: true},
		{how: "setuid", mode: 0o777, end: "kill", ring: true},
		{how: "chroot", mode: 0o755, end: "close", ring: true, closes: true},
		{how: "chroot", mode: 0o755, end: "kill", ring: true},
	} {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			if os.Geteuid() != 0 {
				if os.Getenv("ENTRACE_CI") != "" {
					t.Fatal("needs root")
				}
				t.Skip("needs root")
			}
			top := t.TempDir()
			must(t, os.Chmod(filepath.Dir(top), 0o755))
			dir := filepath.Join(top, "traces")
			must(t, errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, x.mode), os.Mkdir(filepath.Join(top, "root"), 0o755)))
			journals, err := os.MkdirTemp("/dev/shm", "entrace-test-") //nolint:usetesting // it has to be in tmpfs
			must(t, err)
			defer os.RemoveAll(journals)
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestProgramGivesUpRights$")
			cmd.Env = append(os.Environ(), rightsEnv+"="+url.Values{"dir": {dir}, "below": {x.below}, "journals": {journals}, "how": {x.how}, "end": {x.end}, "ring": {fmt.Sprint(x.ring)}}.Encode())
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: x.flags}
			if x.flags == syscall.CLONE_NEWUSER {
				cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{Size: 1}, {ContainerID: nobody, HostID: nobody, Size: 1}}
				cmd.SysProcAttr.GidMappings, cmd.SysProcAttr.GidMappingsEnableSetgroups = cmd.SysProcAttr.UidMappings, true
			}
			out, err := cmd.CombinedOutput()
			if killed := cmd.ProcessState != nil && cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL; killed != (x.end == "kill") || err != nil && !killed {
				t.Fatalf("%v\n%s", err, out)
			}
			var acked []string
			closed, refused := "", 0
			for line := range strings.Lines(string(out)) {
				name, result, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
				switch {
				case name == "close":
					closed = result
				case strings.HasPrefix(name, "record") && result == "<nil>":
					acked = append(acked, name)
				case strings.HasPrefix(name, "record"):
					refused++
				}
			}
			if (closed == "<nil>") != x.closes || (refused > 0) != x.refuses {
				t.Errorf("%d calls failed:\n%s", refused, out)
			}
			if x.refuses {
				return
			}
			if x.ring {
				d, err := ring.Open(filepath.Join(dir, "app.ring"))
				must(t, err)
				rec := tracetest.CreateAt(t, filepath.Join(dir, "ring.et"), nil)
				must(t, d.Snapshot(ring.SnapshotOptions{Providers: ^record.Providers(0)}).Copy(rec))
				must(t, errors.Join(d.Remove(), rec.Close(t.Context())))
				if x.end == "close" {
					acked = nil
				}
			}
			must(t, recorder.RecoverFolder(t.Context(), dir, func(_ *recorder.Report, err error) {
				if err != nil {
					t.Error(err)
				}
			}))
			var found []string
			for _, name := range dirNames(t, dir) {
				if filepath.Ext(name) != ".et" {
					t.Errorf("%s is left", name)
					continue
				}
				found = append(found, entryNames(t, filepath.Join(dir, name))...)
			}
			slices.Sort(found)
			if slices.Sort(acked); !slices.Equal(found, acked) {
				t.Errorf("found %q\nwant  %q\n%s", found, acked, out)
			}
		})
	}
}

// giveUpRights is the program that TestProgramGivesUpRights starts. It prints the result of each call.
func giveUpRights(t *testing.T, v url.Values) {
	dir, how := v.Get("dir"), v.Get("how")
	o := &recorder.Options{BufferDir: v.Get("journals"), MaxFileEntries: 20}
	if how == "unmount" {
		o.MaxFileEntries = 0
		must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, ""))
	}
	path := filepath.Join(dir, v.Get("below"), "app.et")
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	var rec *recorder.Recorder
	if v.Get("ring") == "true" {
		g, err := ring.New(&ring.Options{Path: filepath.Join(dir, "app.ring"), Dir: v.Get("journals")})
		must(t, err)
		g.SetBuffered(1 << record.ProviderLogs)
		rec = g.Recorder()
	} else {
		rec = tracetest.CreateAt(t, path, o)
	}
	n := 0
	write := func() {
		for range 15 {
			name := fmt.Sprintf("record%03d", n)
			fmt.Printf("%s: %v\n", name, logNamed(rec, name))
			n++
		}
	}
	for range 2 {
		write()
		must(t, rec.Flush(t.Context()))
	}
	must(t, lossOfRights[how](dir))
	for range 4 { // the recorder checks its files once a second
		write()
		time.Sleep(time.Second)
	}
	synctest.Wait()
	write() // these records are still in the journal
	if v.Get("end") == "kill" {
		must(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
		select {}
	}
	fmt.Printf("close: %v\n", rec.Close(t.Context()))
}
