//go:build unix

package recorder_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
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
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", limitEnv, limit), pathEnv+"="+filepath.Join(t.TempDir(), "app.et"))
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
	if err := rec.Close(t.Context()); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("Close does not tell of the loss: %v", err)
	}
	expect.OK(t, expect.Err(recorder.Verify(path, func(problem error) { t.Error(problem) })))
	g := tracetest.Open(t, path)
	expect.Equal(t, g.Len(), 7, "entries at the end") // also the entries that had to wait for room
	end, err := g.Entry(uint32(g.Len() - 1))
	must(t, err)
	if dropped, _ := end.Attribute("dropped.io"); !dropped.Equal(format.U64Value(st.Entries.Dropped.IO)) {
		t.Errorf("the last entry says %s were dropped, want %d", dropped.AppendDecimal(nil), st.Entries.Dropped.IO)
	}
}
