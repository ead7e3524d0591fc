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
	"github.com/entrace-go/entrace/internal/testkit/expect"
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
	"chroot":  syscall.Chroot,
	"jail":    func(string) error { return syscall.Chroot("/proc") }, // another device
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
		how, end, name string      // a name that ends in .ring is a ring, which has no records after its end
		mode           os.FileMode // of the folder
		flags          uintptr     // namespaces of the program
		says           string      // a part of the program's output
	}{
		{how: "setuid", mode: 0o755, end: "close", name: "app.et", says: "finalize"},
		{how: "setuid", mode: 0o755, end: "kill", name: "app.et"},
		{how: "setuid", mode: 0o700, end: "close", name: "app.et", says: "finalize"},
		{how: "setuid", mode: 0o777, end: "kill", name: "app.et"},
		{how: "setuid", mode: 0o777 | os.ModeSticky, end: "close", name: "app.et", says: "remove"}, // both files stay
		{how: "setuid", mode: 0o777 | os.ModeSticky, end: "kill", name: "app.et"},
		{how: "setuid", mode: 0o755, end: "kill", name: "app.et", flags: syscall.CLONE_NEWUSER},
		{how: "setuid", mode: 0o755, end: "close", name: "app.ring", says: "close: remove"},
		{how: "setuid", mode: 0o777, end: "kill", name: "app.ring"},
		{how: "chroot", mode: 0o755, end: "close", name: "app.et", says: "close: "},
		{how: "chroot", mode: 0o755, end: "kill", name: "app.et"},
		{how: "chroot", mode: 0o755, end: "close", name: "app.ring"},
		{how: "chroot", mode: 0o755, end: "kill", name: "app.ring"},
		{how: "jail", mode: 0o755, end: "close", name: "app.et", says: "record104 is acknowledged"},
		{how: "jail", mode: 0o755, end: "kill", name: "app.et", says: "record104 is acknowledged"},
		{how: "unmount", mode: 0o755, end: "close", name: "app.et", flags: syscall.CLONE_NEWNS, says: "close: <nil>"},
		{how: "unmount", mode: 0o755, end: "kill", name: "app.et", flags: syscall.CLONE_NEWNS},
		{how: "unmount", mode: 0o755, end: "kill", name: "below/app.et", flags: syscall.CLONE_NEWNS, says: recorder.ErrUnlinked.Error()},
	} {
		t.Run(fmt.Sprintf("%+v", x), func(t *testing.T) {
			if os.Geteuid() != 0 {
				if os.Getenv("ENTRACE_CI") != "" {
					t.Fatal("needs root")
				}
				t.Skip("needs root")
			}
			top := t.TempDir()
			dir := filepath.Join(top, "traces")
			must(t, errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Mkdir(dir, 0o700), os.Chmod(dir, x.mode)))
			journals, err := os.MkdirTemp("/dev/shm", "entrace-test-") //nolint:usetesting // it has to be in tmpfs
			must(t, err)
			defer os.RemoveAll(journals)
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestProgramGivesUpRights$")
			cmd.Env = append(os.Environ(), rightsEnv+"="+url.Values{"dir": {dir}, "name": {x.name}, "journals": {journals}, "how": {x.how}, "end": {x.end}}.Encode())
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: x.flags}
			if x.flags == syscall.CLONE_NEWUSER {
				ids := []syscall.SysProcIDMap{{Size: 1}, {ContainerID: nobody, HostID: nobody, Size: 1}}
				cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings, cmd.SysProcAttr.GidMappingsEnableSetgroups = ids, ids, true
			}
			out, err := cmd.CombinedOutput()
			if (err == nil) != (x.end == "close") || err != nil && err.Error() != "signal: killed" || !strings.Contains(string(out), x.says) {
				t.Fatalf("%v\n%s", err, out)
			}
			var acked, found []string
			for line := range strings.Lines(string(out)) {
				if name, ok := strings.CutSuffix(line, " is acknowledged\n"); ok {
					acked = append(acked, name)
				}
			}
			switch {
			case strings.HasSuffix(x.name, ".ring"):
				d, err := ring.Open(filepath.Join(dir, x.name))
				must(t, err)
				rec := tracetest.CreateAt(t, filepath.Join(dir, "ring.et"), nil)
				must(t, d.Snapshot(ring.SnapshotOptions{Providers: ^record.Providers(0)}).Copy(rec))
				must(t, errors.Join(d.Remove(), rec.Close(t.Context())))
				if x.end == "close" {
					acked = nil
				}
			case x.name != "app.et":
				acked = nil // the earlier records are lost with their tmpfs
			}
			must(t, recorder.RecoverFolder(t.Context(), dir, func(_ *recorder.Report, err error) { must(t, err) }))
			for _, name := range dirNames(t, dir) {
				found = append(found, entryNames(t, filepath.Join(dir, name))...) // only traces are left
			}
			slices.Sort(found)
			expect.Slice(t, found, acked, "found\n%s", out)
		})
	}
}

// giveUpRights is the program that TestProgramGivesUpRights starts. It prints which records are acknowledged.
func giveUpRights(t *testing.T, v url.Values) {
	dir, how := v.Get("dir"), v.Get("how")
	path, o := filepath.Join(dir, v.Get("name")), &recorder.Options{BufferDir: v.Get("journals"), MaxFileEntries: 20}
	if how == "unmount" {
		must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, ""))
		o.MaxFileEntries = 0
	}
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	var rec *recorder.Recorder
	if strings.HasSuffix(path, ".ring") {
		g, err := ring.New(&ring.Options{Path: path, Dir: o.BufferDir})
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
			if err := logNamed(rec, name); err != nil {
				fmt.Println(err)
			} else {
				fmt.Println(name, "is acknowledged")
			}
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
	fmt.Println("close:", rec.Close(t.Context()))
}
