package recorder_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

const disksEnv = "ENTRACE_TEST_DISKS"

// inNamespace runs the test again in a child process that may mount disks. In the child it returns true and
// the folder for mounts, which is removed when the child ends. In the parent it returns false after the
// child has ended.
func inNamespace(t *testing.T) (dir string, here bool) {
	t.Helper()
	if dir := os.Getenv(disksEnv); dir != "" {
		return dir, true
	}
	if os.Getenv(soakEnv) == "" {
		t.Skip("mounts disks: set " + soakEnv + " and be root")
	}
	if os.Geteuid() != 0 {
		t.Fatal("needs root")
	}
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command("unshare", "-m", exe, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), disksEnv+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	must(t, err)
	return "", false
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// A disk is an ext4 file system whose content is the file image. It is mounted at root.
type disk struct{ image, root string }

func newDisk(t *testing.T, dir string, megabytes int64) *disk {
	t.Helper()
	d := &disk{filepath.Join(dir, "image"), filepath.Join(dir, "root")}
	f, err := os.Create(d.image)
	must(t, err)
	must(t, f.Truncate(megabytes<<20))
	must(t, f.Close())
	command(t, "mkfs.ext4", "-q", "-F", d.image)
	d.mount(t)
	return d
}

func (d *disk) mount(t *testing.T) {
	t.Helper()
	must(t, os.MkdirAll(d.root, 0o700))
	// With these options, the system writes nothing to the image until a test asks for it.
	command(t, "mount", "-o", "loop,commit=300,noauto_da_alloc", d.image, d.root)
}

func (d *disk) unmount(t *testing.T) {
	t.Helper()
	command(t, "umount", d.root)
}

// cut returns a copy of the disk. Its content is as after a loss of power at this moment.
func (d *disk) cut(t *testing.T, dir string) *disk {
	t.Helper()
	must(t, os.MkdirAll(dir, 0o700))
	c := &disk{filepath.Join(dir, "image"), filepath.Join(dir, "root")}
	command(t, "cp", "--sparse=always", d.image, c.image)
	c.mount(t)
	return c
}

// writeBack makes the system write its pending data to the image.
func (d *disk) writeBack(t *testing.T) {
	t.Helper()
	f, err := os.Open(d.root)
	must(t, err)
	defer f.Close()
	must(t, unix.Syncfs(int(f.Fd())))
}

// TestPowerCut records to a disk that loses power. The records before a Sync are in the file, and with
// DurabilityPower all acknowledged records are.
func TestPowerCut(t *testing.T) {
	dir, here := inNamespace(t)
	if !here {
		return
	}
	for _, d := range durabilities {
		for _, rotate := range []uint32{0, 100} {
			for _, back := range []int{-1, 0, 5, 90} { // the record before which all data is written back
				for _, sync := range []bool{false, true} {
					t.Run(fmt.Sprintf("%v/rotate %d/written back %d/sync %t", d, rotate, back, sync), func(t *testing.T) {
						powerCut(t, filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "_")), d, rotate, back, sync)
					})
				}
			}
		}
	}
}

func powerCut(t *testing.T, dir string, d recorder.Durability, rotate uint32, back int, sync bool) {
	must(t, os.MkdirAll(dir, 0o700))
	defer os.RemoveAll(dir)
	a := newDisk(t, dir, 48)
	defer a.unmount(t)
	path := filepath.Join(a.root, "app.et")
	rec := tracetest.CreateAt(t, path, &recorder.Options{Durability: d, MaxFileEntries: rotate})
	safe := 0
	const n = 230
	for i := range n {
		if i == back {
			a.writeBack(t)
		}
		e := named(fmt.Sprint("0.0.", i))
		e.Message = format.Some(strings.Repeat("m", 100))
		must(t, rec.Log(format.SpanRef{}, e))
		if i%10 == 0 {
			must(t, rec.Flush(context.Background()))
		}
		if sync && (i == 130 || i == 199) {
			must(t, rec.Sync(context.Background()))
			safe = i + 1
		}
	}
	if d == recorder.DurabilityPower {
		safe = n
	}
	b := a.cut(t, filepath.Join(dir, "cut"))
	defer b.unmount(t)
	must(t, rec.Close(context.Background()))
	again := tracetest.CreateAt(t, filepath.Join(b.root, "app.et"), nil)
	must(t, again.Close(context.Background()))
	units := collect(t, b.root)
	most := 0
	for name := range units {
		var i int
		_, err := fmt.Sscanf(name, "0.0.%d", &i)
		must(t, err)
		most = max(most, i+1)
	}
	missing := 0
	for i := range most {
		if len(units[fmt.Sprint("0.0.", i)]) == 0 {
			missing++
			if i < safe {
				t.Errorf("entry %d is lost, %d were safe", i, safe)
				break
			}
		}
	}
	if most < safe {
		t.Errorf("%d entries are there, %d were safe", most, safe)
	}
	t.Logf("%d safe, %d there, %d missing between", safe, most, missing)
}

// TestPowerCutDuringFinalize kills Finalize at each of its system calls, and cuts the power then. The IET
// or the ET must be complete.
func TestPowerCutDuringFinalize(t *testing.T) {
	dir, here := inNamespace(t)
	if !here {
		return
	}
	needStrace(t)
	a := newDisk(t, dir, 16)
	defer a.unmount(t)
	killAtEveryCall(t, changing[:8], func(t *testing.T) *crashRun {
		sub := filepath.Join(a.root, strings.ReplaceAll(filepath.Base(t.TempDir()), "/", "_"))
		must(t, os.RemoveAll(sub))
		must(t, os.MkdirAll(sub, 0o700))
		deadStream(t, filepath.Join(sub, "app.iet"))
		a.writeBack(t)
		return &crashRun{path: filepath.Join(sub, "app.et"), goroutines: 1, end: "finalize"}
	}, func(t *testing.T, c *crashRun) {
		b := a.cut(t, filepath.Join(dir, "cut"))
		defer b.unmount(t)
		sub := filepath.Join(b.root, filepath.Base(filepath.Dir(c.path)))
		if _, err := os.Stat(filepath.Join(sub, "app.et")); err == nil {
			wantWhole(t, filepath.Join(sub, "app.et"))
		} else {
			wantOneWhole(t, sub)
		}
		rec := tracetest.CreateAt(t, filepath.Join(sub, "app.et"), nil)
		must(t, rec.Close(context.Background()))
		wantOneWhole(t, sub)
	})
}

// TestFullDisk fills a small file system while a program records, and later makes room again. No
// acknowledged record is lost.
func TestFullDisk(t *testing.T) {
	dir, here := inNamespace(t)
	if !here {
		return
	}
	for _, kind := range []string{"tmpfs", "ext4"} {
		for _, d := range durabilities {
			t.Run(fmt.Sprint(kind, " ", d), func(t *testing.T) {
				root := filepath.Join(dir, kind+d.String())
				must(t, os.MkdirAll(root, 0o700))
				if kind == "tmpfs" {
					command(t, "mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", root)
					defer command(t, "umount", root)
				} else {
					small := newDisk(t, root, 32)
					defer small.unmount(t)
					root = small.root
				}
				fullDisk(t, root, d)
			})
		}
	}
}

func fullDisk(t *testing.T, root string, d recorder.Durability) {
	// The record of a call that waits for the file may be written later although the call has failed.
	waits := d == recorder.DurabilityWriteThrough || d == recorder.DurabilityPower
	var told atomic.Int64
	rec := tracetest.CreateAt(t, filepath.Join(root, "app.et"), &recorder.Options{Durability: d, OnError: func(error) { told.Add(1) }})
	ballast := filepath.Join(root, "ballast")
	fill(t, ballast)
	var want []string
	refused := 0
	for i := range 400 {
		if i == 300 {
			must(t, os.Remove(ballast))
			time.Sleep(500 * time.Millisecond) // the recorder tries again in this time
		}
		e := named(fmt.Sprint("e", i))
		e.Message = format.Some(strings.Repeat("x", 20_000))
		if err := rec.Log(format.SpanRef{}, e); err == nil {
			want = append(want, e.Metadata.Name)
		} else {
			refused++
			if !errors.Is(err, syscall.ENOSPC) && (!waits || !errors.Is(err, recorder.ErrOverflow)) {
				t.Errorf("entry %d: %v", i, err)
			}
		}
	}
	if i := len(want); i < 50 || want[i-1] != "e399" {
		t.Errorf("%d were taken", i)
	}
	must(t, rec.Flush(context.Background()))
	st := rec.Stats().Entries
	if st.Offered != st.Written+st.Waiting+st.Dropped.Total() || refused == 0 ||
		st.Dropped.IO > uint64(refused) || !waits && st.Dropped.IO != uint64(refused) {
		t.Errorf("%d were refused; %+v", refused, st)
	}
	eventually(t, "OnError is told", func() bool { return told.Load() > 0 })
	expect.Is(t, rec.Close(context.Background()), syscall.ENOSPC, "Close")
	var got []string
	f := tracetest.Open(t, filepath.Join(root, "app.et"))
	must(t, f.Walk(1, func(_ uint32, e *format.TraceEntry) error {
		if e.Metadata.Name != mapping.NameEnd {
			got = append(got, strings.Clone(e.Metadata.Name))
		}
		return nil
	}))
	must(t, f.Close())
	if n := st.Written - 1; uint64(len(got)) != n { // 1 for the root
		t.Errorf("%d entries are there, want %d", len(got), n)
	}
	if waits {
		got = slices.DeleteFunc(got, func(name string) bool { return !slices.Contains(want, name) })
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d acknowledged entries are there, want %d", len(got), len(want))
	}
}

// fill writes to the file name until the disk is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	b := make([]byte, 1<<20)
	for len(b) > 0 {
		if _, err := f.Write(b); err != nil {
			b = b[:len(b)/2]
		}
	}
	must(t, f.Close())
}

// TestCreateOnFullDisk creates a recorder on a disk without room for a journal. The recorder then has
// DurabilityWriteThrough, and calls OnError.
func TestCreateOnFullDisk(t *testing.T) {
	dir, here := inNamespace(t)
	if !here {
		return
	}
	command(t, "mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", dir)
	defer command(t, "umount", dir)
	told := make(chan error, 10)
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{OnError: func(err error) { told <- err }})
	if d, why := rec.Durability(); d != recorder.DurabilityWriteThrough || !errors.Is(why, syscall.ENOSPC) {
		t.Errorf("Durability is %v, %v", d, why)
	}
	expect.Is(t, <-told, syscall.ENOSPC, "OnError was told")
	must(t, logNamed(rec, "x"))
	f, err := recorder.Open(rec.StreamPath(), nil)
	must(t, err)
	expect.Equal(t, f.Len(), 2, "entries in the file")
	must(t, f.Close())
	must(t, rec.Close(context.Background()))
	expect.Slice(t, dirNames(t, dir), []string{"app.et"}, "the folder has")
}
