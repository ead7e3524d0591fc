package control_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/control"
)

func init() {
	children["small disk"] = func(dir string) error { return fullDisk(dir, "1m", false) }
	children["full disk"] = func(dir string) error { return fullDisk(dir, "1m", true) }
	children["tight disk"] = func(dir string) error { return fullDisk(dir, "6m", false) }
	children["limit"] = limited
}

// fullDisk records to a disk that is smaller than the ring, and later makes the disk larger. If full is
// set, the disk is full at the start.
func fullDisk(dir, room string, full bool) error {
	size := func(flags uintptr, text string) error { return unix.Mount("tmpfs", dir, "tmpfs", flags, "size="+text) }
	if err := size(0, room); err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if full {
		if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the disk is not full: %w", err)
		}
	}
	var told []string
	r, err := recordingTold(dir, 16<<20, &told)
	if err != nil {
		return err
	}
	text := strings.Repeat("x", 1000)
	for range 20_000 {
		r.log.Info(text)
	}
	// The snapshot may be written, unfinished, or failed.
	var denied *control.DeniedError
	trace, err := r.ctl.Start(context.Background(), api("asked"))
	if err != nil && (!errors.As(err, &denied) || denied.Verdict != control.VerdictFailed) {
		return fmt.Errorf("the snapshot on a full disk: %w", err)
	}
	failed := denied != nil || trace.Verdict() != control.VerdictStarted
	if denied == nil && failed {
		if _, err := os.Stat(trace.Path()); trace.Verdict() != control.VerdictUnfinished || filepath.Ext(trace.Path()) != ".iet" || err != nil {
			return fmt.Errorf("the snapshot on a full disk is %v, %s: %w", trace.Verdict(), trace.Path(), err)
		}
	}
	if err := size(unix.MS_REMOUNT, "256m"); err != nil {
		return err
	}
	r.log.Info("after")
	if err := r.snapshots(2); err != nil {
		return fmt.Errorf("snapshots when there is room: %w", err)
	}
	if n := r.ctl.Stats().Ring.Entries; n == 0 {
		return errors.New("the ring is empty")
	}
	if err := r.end(); err != nil {
		return err
	}
	fmt.Printf("the first snapshot failed: %t; told: %q\n", failed, told)
	ring, snapshots := 0, 0
	for _, text := range told {
		switch {
		case strings.Contains(text, "ring"):
			ring++
		case strings.Contains(text, "trace asked:"):
			snapshots++
		default:
			return fmt.Errorf("it is told %q", text)
		}
	}
	if full && ring != 1 || ring > 1 || snapshots > 1 || failed != (snapshots == 1) {
		return fmt.Errorf("of the ring it is told %d times, of snapshots %d times, of which one failed: %t: %q", ring, snapshots, failed, told)
	}
	if full {
		if err := os.Remove(ballast); err != nil {
			return err
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	good := 0
	for _, e := range names {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return err
		}
		// The disk disappears with the process, so copy its files.
		if err := os.WriteFile(filepath.Join(os.Getenv(outEnv), e.Name()), data, 0o600); err != nil {
			return err
		}
		good++
	}
	want := 3 // an unfinished trace was finished when there was room
	if denied != nil {
		want--
	}
	if good != want {
		return fmt.Errorf("there is %v in the end", names)
	}
	return nil
}

const outEnv = "ENTRACE_TEST_OUT"

// TestRingOnFullDisk runs fullDisk as a child process, with several sizes of the disk.
func TestRingOnFullDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("it fills disks for half a minute")
	}
	for _, what := range []string{"small disk", "full disk", "tight disk"} {
		t.Run(what, func(t *testing.T) {
			exe, err := os.Executable()
			must(t, err)
			args := []string{"-m"}
			if os.Geteuid() != 0 {
				args = []string{"-U", "-r", "-m"}
			}
			if out, err := exec.CommandContext(t.Context(), "unshare", append(args, "true")...).CombinedOutput(); err != nil {
				if os.Getenv(ciEnv) != "" && os.Geteuid() == 0 {
					t.Fatalf("unshare: %v: %s", err, out)
				}
				t.Skipf("no disk can be mounted: %v: %s", err, out)
			}
			dir, out := t.TempDir(), t.TempDir()
			cmd := exec.CommandContext(t.Context(), "unshare", append(args, exe)...)
			cmd.Env = append(os.Environ(), childEnv+"="+what, dirEnv+"="+dir, outEnv+"="+out)
			text, err := cmd.CombinedOutput()
			t.Logf("%s", text)
			must(t, err)
			files := traceFiles(t, out)
			if len(files) < 2 {
				t.Fatalf("the traces are %q", files)
			}
			for _, name := range files[len(files)-2:] {
				if w := everyLink(t, name); w.messages()["after"] != 1 {
					t.Errorf("%s does not have what was recorded last", w.name)
				}
			}
			onlyTraces(t, out)
		})
	}
}

// recordingTold begins a recording with a ring of the given size in bytes, 0 for the default. It appends
// reported errors to told. The test may read told after the end of the recording.
func recordingTold(dir string, bytes int64, told *[]string) (*recording, error) {
	var mu sync.Mutex
	cfg := persistent(dir, control.TraceConfig{Name: "asked", Providers: control.Spans | control.Logs, On: onAPI("asked")})
	if bytes != 0 {
		cfg.Ring.Bytes = bytes
	}
	ctl, err := control.New(&control.Options{Config: cfg, OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		*told = append(*told, err.Error())
	}})
	if err != nil {
		return nil, err
	}
	return recordingOf(ctl)
}

// limited records while the size of files is limited. The limit has the effect of a full disk, but needs no rights.
// After 98 of the long records some 4,000 bytes are left: room for the last entry, which has the number of lost
// records, for any length of the host's name and of the paths.
func limited(dir string) error {
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 804_000, Max: unix.RLIM_INFINITY}); err != nil {
		return err
	}
	var told []string
	r, err := recordingTold(dir, 0, &told)
	if err != nil {
		return err
	}
	r.log.Info("small")
	if err := r.snapshots(1); err != nil {
		return err
	}
	for range 1000 {
		r.log.Info(strings.Repeat("x", 8000))
	}
	trace, err := r.ctl.Start(context.Background(), api("asked"))
	if err != nil || !errors.Is(trace.Err(), syscall.EFBIG) { // the trace may be finished or unfinished
		return fmt.Errorf("a snapshot that is too large: %w, %w", trace.Err(), err)
	}
	if fi, err := os.Stat(trace.Path()); err != nil || fi.Size() < 50_000 {
		return fmt.Errorf("of a snapshot that is too large there is %v: %w", fi, err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
		return err
	}
	if err := errors.Join(r.snapshots(1), r.end()); err != nil {
		return err
	}
	if len(told) != 2 || !strings.Contains(told[0], "the ring has no file") || !strings.Contains(told[1], "trace asked:") {
		return fmt.Errorf("it is told %q", told)
	}
	return nil
}

// TestRingLimit runs limited as a child process.
func TestRingLimit(t *testing.T) {
	files := threeTraces(t, "limit")
	// The second trace has the number of records that did not fit.
	for i, want := range []int{0, 1000 - droppedIn(t, files[1]), 1000} {
		w := everyLink(t, files[i])
		if got := w.messages()[strings.Repeat("x", 8000)]; i == 1 && (got < 50 || got > 99) || got != want || w.messages()["small"] != 1 {
			t.Errorf("%s has %d records, want %d", w.name, got, want)
		}
	}
}
