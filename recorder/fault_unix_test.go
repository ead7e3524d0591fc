//go:build unix

package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

const limitEnv = "ENTRACE_TEST_LIMIT"

// TestFileSizeLimit makes writes fail after each number of bytes of some entries, like a full disk. The
// file ends at the end of an entry, and recording continues when there is room again.
func TestFileSizeLimit(t *testing.T) {
	if limit := os.Getenv(limitEnv); limit != "" {
		n, err := strconv.ParseInt(limit, 10, 64)
		must(t, err)
		recordLimited(t, n)
		return
	}
	if testing.Short() {
		t.Skip("starts a process for each byte")
	}
	exe, err := os.Executable()
	must(t, err)
	const header = 23
	for limit := header; limit < header+60; limit++ {
		cmd := exec.Command(exe, "-test.run=^TestFileSizeLimit$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", limitEnv, limit), pathEnv+"="+hosttest.Path(t, "app.et"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("limit %d: %v\n%s", limit, err, out)
		}
	}
}

// recordLimited is the test in a process of its own, because the limit is for the whole process.
func recordLimited(t *testing.T, limit int64) {
	signal.Ignore(syscall.SIGXFSZ)
	path := os.Getenv(pathEnv)
	rec := tracetest.CreateAt(t, path, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	restore := hosttest.LimitFiles(t, limit)

	// Write a span with two events in one record, and then a log record.
	parent := span("parent", 1, 0)
	parent.Children = []format.TraceEntry{*named("event"), *named("event")}
	serr := tracetest.WriteSpan(rec, parent)
	lerr := rec.Log(parent.Ref, tracetest.Log("m"))
	if serr == nil && lerr == nil {
		t.Error("nothing failed")
	}
	if rec.Err() == nil || !errors.Is(rec.Err(), syscall.EFBIG) {
		t.Errorf("Err is %v, want EFBIG", rec.Err())
	}
	st := rec.Stats()
	if e := st.Entries; e.Offered != 5 || e.Offered != e.Written+e.Waiting {
		t.Errorf("the account is %+v", e)
	}
	f, err := recorder.Open(rec.StreamPath(), nil)
	must(t, err)
	if f.Damage() != nil || uint64(f.Len()) != st.Entries.Written || f.Size() != st.Bytes {
		t.Errorf("the file has %d entries in %d bytes, %v; the account is %+v", f.Len(), f.Size(), f.Damage(), st)
	}
	must(t, f.Close())

	restore()
	must(t, tracetest.WriteSpan(rec, span("child", 2, 1)))
	must(t, rec.Close(t.Context())) // nothing is lost
	expect.OK(t, expect.Err(recorder.Verify(path, func(problem error) { t.Error(problem) })))
	g := tracetest.Open(t, path)
	expect.Equal(t, g.Len(), 7, "entries at the end") // also the entries that had to wait for room
	end, err := g.Entry(uint32(g.Len() - 1))
	must(t, err)
	if dropped, _ := end.Attribute("dropped.io"); !dropped.Equal(format.U64Value(st.Entries.Dropped.IO)) {
		t.Errorf("the last entry says %s were dropped, want %d", dropped.AppendDecimal(nil), st.Entries.Dropped.IO)
	}
}

// limited runs this test in another process, which sets the given limit.
func limited(t *testing.T, limit, path string) (output string, err error) {
	t.Helper()
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.Command(exe, "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), limitEnv+"="+limit, pathEnv+"="+path)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestErrorIsLogged checks that OnError can log through the recorder that failed.
func TestErrorIsLogged(t *testing.T) {
	if s := os.Getenv(limitEnv); s != "" {
		signal.Ignore(syscall.SIGXFSZ)
		for _, d := range durabilities {
			var log *slog.Logger
			var told atomic.Int32
			rec, err := recorder.Create(os.Getenv(pathEnv)+d.String(), &recorder.Options{Durability: d, OnError: func(err error) {
				if strings.Contains(err.Error(), "journal") {
					return // the limit also applies to the file of the journal
				}
				told.Add(1)
				log.Error("recording fails", "error", err)
			}})
			must(t, err)
			log = slog.New(slogadapter.New(rec, nil))
			var old unix.Rlimit
			must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 40, Max: old.Max}))
			for range 10 {
				log.Info("x")
				_ = rec.Flush(context.Background()) // it fails as intended
			}
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
			eventually(t, d.String()+": OnError is told once in each episode", func() bool { return told.Load() == 1 })
			log.Info("y")
			must(t, rec.Flush(context.Background()))
			recorder.Balanced(t, rec.Stats())
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 40, Max: old.Max}))
			log.Info("z")
			_ = rec.Flush(context.Background()) // it fails as intended
			must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
			eventually(t, d.String()+": OnError is told once in each episode", func() bool { return told.Load() == 2 })
			_ = rec.Close(context.Background()) // returns the error of the last Flush
		}
		return
	}
	if out, err := limited(t, "40", hosttest.Path(t, "app")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFullDiskAtFinalize makes the disk full after various numbers of bytes of the ET. Each time, only the
// IET remains.
func TestFullDiskAtFinalize(t *testing.T) {
	if s := os.Getenv(limitEnv); s != "" {
		signal.Ignore(syscall.SIGXFSZ)
		step, err := strconv.Atoi(s)
		must(t, err)
		dir := filepath.Dir(os.Getenv(pathEnv))
		iet := filepath.Join(dir, "app.iet")
		whole := readFile(t, iet)
		et := filepath.Join(dir, "app.et")
		for n := 0; ; n += step {
			restore := hosttest.LimitFiles(t, int64(n))
			err := format.Finalize(t.Context(), iet, et, &format.FinalizeOptions{RemoveSource: true})
			restore()
			if err == nil {
				return
			}
			if step, ok := errors.AsType[*format.FinalizeError](err); !ok || step.Step != "write" || !errors.Is(err, syscall.EFBIG) {
				t.Errorf("%d bytes: %v", n, err)
			}
			if names := dirNames(t, dir); len(names) != 1 || !bytes.Equal(readFile(t, iet), whole) {
				t.Fatalf("%d bytes: the folder has %q", n, names)
			}
		}
	}
	dir := t.TempDir()
	deadStream(t, filepath.Join(dir, "app.iet"))
	if out, err := limited(t, "1", filepath.Join(dir, "app.et")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	wantWholeET(t, filepath.Join(dir, "app.et"))
}

func wantWholeET(t *testing.T, name string) {
	t.Helper()
	f := tracetest.Open(t, name)
	expect.Equal(t, tracetest.Outline(t, f), "root(whole)", "%s has", name)
	must(t, f.Close()) // not only at the end of the test: some callers unmount the disk
}
