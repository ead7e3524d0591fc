package control_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/control/httpapi"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// droppedIn returns the number of dropped entries in the last entry of a trace.
func droppedIn(t *testing.T, name string) int {
	t.Helper()
	f := tracetest.OpenFile(t, name)
	e, err := f.Entry(uint32(f.Len() - 1))
	must(t, err)
	v, ok := e.Attribute("dropped")
	if n, isNumber := v.U64(); ok && isNumber && e.Metadata.Name == mapping.NameEnd {
		return int(n)
	}
	t.Errorf("%s does not say what was dropped", name)
	return 0
}

// deepTrace returns a configuration with the stream deep and the snapshot asked.
func deepTrace(dir string) *control.Config {
	return base(dir, control.Spans|control.Logs,
		control.TraceConfig{Name: "deep", Mode: control.ModeStream, Providers: control.Spans | control.Logs, On: onAPI("deep")},
		control.TraceConfig{Name: "asked", Providers: control.Spans | control.Logs, On: onAPI("asked")})
}

const deepRecords = 3000

// deepStream starts a stream, records to it, and waits until all records are in its IET.
func deepStream(t *testing.T, r *rig) *control.Trace {
	t.Helper()
	tr, err := r.ctl.Start(t.Context(), api("deep"))
	must(t, err)
	text := strings.Repeat("x", 100)
	for i := range deepRecords {
		r.log.Info(text, "i", i)
	}
	iet := strings.TrimSuffix(tr.Path(), ".et") + ".iet"
	eventually(t, iet+" has the records", func() bool {
		fi, err := os.Stat(iet)
		return err == nil && fi.Size() > deepRecords*200 && countText(t, iet, text) == deepRecords
	})
	return tr
}

// countText returns how many entries of a trace have the message text.
func countText(t *testing.T, name, text string) (n int) {
	t.Helper()
	f := tracetest.OpenFile(t, name)
	must(t, f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
		if e.Message.Value == text {
			n++
		}
		return nil
	}))
	return n
}

// TestStreamStaysWhenNoETCanBeMade limits the size of files, so that the ET of a stream cannot be made. The
// IET remains. The next trace, Recover or the next start makes the ET.
func TestStreamStaysWhenNoETCanBeMade(t *testing.T) {
	if !hosttest.Alone(t) {
		return
	}
	for _, how := range []string{"the next trace", "Recover", "the next start"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			r := rigOf(t, deepTrace(dir))
			tr := deepStream(t, r)
			et := tr.Path()
			iet := strings.TrimSuffix(et, ".et") + ".iet"
			fi, err := os.Stat(iet)
			must(t, err)
			restore := hosttest.LimitFiles(t, fi.Size()+4096) // the ET would be larger
			server := httptest.NewServer(httpapi.New(r.ctl, nil))
			t.Cleanup(server.Close)
			answer, err := http.Post(server.URL+"/stop/"+tr.ID, "", nil)
			must(t, err)
			restore()
			body, err := io.ReadAll(answer.Body)
			must(t, errors.Join(err, answer.Body.Close()))
			<-tr.Done()
			if tr.Verdict() != control.VerdictUnfinished || tr.Path() != iet || !errors.Is(tr.Err(), syscall.EFBIG) {
				t.Errorf("the trace is %s, %s, %v", tr.Verdict(), tr.Path(), tr.Err())
			}
			if text := string(body); answer.StatusCode != http.StatusOK || !strings.Contains(text, `"verdict": "unfinished"`) || !strings.Contains(text, `"`+filepath.Base(iet)+`"`) {
				t.Errorf("the answer is %d %s", answer.StatusCode, text)
			}
			expect.Equal(t, countText(t, iet, strings.Repeat("x", 100)), deepRecords, "records of the IET")
			if st := r.ctl.Stats(); st.Unfinished != 1 || st.Lost != 0 || st.Kept != 0 {
				t.Errorf("it counts %+v", st)
			}
			switch how {
			case "the next trace":
				_, err := r.ctl.Start(t.Context(), api("asked"))
				must(t, err)
				if st := r.ctl.Stats(); tr.Verdict() != control.VerdictStarted || tr.Path() != et || st.Unfinished != 0 || st.Kept != 2 {
					t.Errorf("then the trace is %s, %s; %+v", tr.Verdict(), tr.Path(), st)
				}
			case "Recover":
				_, finished, err := recovered(dir)
				if err != nil || len(finished) != 1 || finished[0] != filepath.Base(et) {
					t.Errorf("Recover has finished %q: %v", finished, err)
				}
			case "the next start":
				rigOf(t, deepTrace(dir)).end()
			}
			expect.Equal(t, countText(t, et, strings.Repeat("x", 100)), deepRecords, "records of the ET")
			if _, err := os.Stat(iet); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the IET is still there: %v", err)
			}
		})
	}
}

// TestSnapshotStaysWhenNoETCanBeMade limits the size of files, so that the ET of a snapshot cannot be made.
// The IET remains, and Recover makes the ET.
func TestSnapshotStaysWhenNoETCanBeMade(t *testing.T) {
	if !hosttest.Alone(t) {
		return
	}
	dir := t.TempDir()
	r := rigOf(t, deepTrace(dir))
	text := strings.Repeat("x", 100)
	for range 1000 {
		r.log.Info(text)
	}
	first, err := r.ctl.Start(t.Context(), api("asked"))
	must(t, err)
	fi, err := os.Stat(first.Path())
	must(t, err)
	restore := hosttest.LimitFiles(t, fi.Size()-4000) // enough for the entries, but not for the tables of the ET
	tr, err := r.ctl.Start(t.Context(), api("asked"))
	restore()
	must(t, err)
	if tr.Verdict() != control.VerdictUnfinished || filepath.Ext(tr.Path()) != ".iet" || !errors.Is(tr.Err(), syscall.EFBIG) {
		t.Errorf("the trace is %s, %s, %v", tr.Verdict(), tr.Path(), tr.Err())
	}
	expect.Equal(t, countText(t, tr.Path(), text), 1000, "records of the IET")
	_, finished, err := recovered(dir)
	if err != nil || len(finished) != 1 || countText(t, filepath.Join(dir, finished[0]), text) != 1000 {
		t.Errorf("Recover has finished %q: %v", finished, err)
	}
}

// TestPassingErrorSpoilsNoStream makes writes fail for some time while a stream runs. The trace is finished
// and has the number of lost records, and older traces are removed as usual.
func TestPassingErrorSpoilsNoStream(t *testing.T) {
	if !hosttest.Alone(t) {
		return
	}
	dir := t.TempDir()
	cfg := deepTrace(dir)
	cfg.Keep.Files = 1
	r := rigOf(t, cfg)
	before, err := r.ctl.Start(t.Context(), api("asked"))
	must(t, err)
	tr := deepStream(t, r)
	fi, err := os.Stat(strings.TrimSuffix(tr.Path(), ".et") + ".iet")
	must(t, err)
	restore := hosttest.LimitFiles(t, fi.Size())
	const large = 120 // more than the journal has room for
	for range large {
		r.log.Info(strings.Repeat("y", 50_000))
	}
	restore()
	tries := 0
	eventually(t, "the writer writes again", func() bool {
		r.log.Info("room again")
		tries++
		return countText(t, strings.TrimSuffix(tr.Path(), ".et")+".iet", "room again") > 0
	})
	if !r.stop(api("deep")) {
		t.Error("there was nothing to stop")
	}
	if tr.Verdict() != control.VerdictStarted || !errors.Is(tr.Err(), syscall.EFBIG) {
		t.Errorf("the trace is %s, %v", tr.Verdict(), tr.Err())
	}
	expect.Equal(t, countText(t, tr.Path(), strings.Repeat("x", 100)), deepRecords, "records there")
	there, dropped := countText(t, tr.Path(), strings.Repeat("y", 50_000)), droppedIn(t, tr.Path())
	behind := countText(t, tr.Path(), "room again")
	if dropped == 0 || behind == 0 || there+behind+dropped != large+tries {
		t.Errorf("%d of %d, and %d of %d behind them, are there, %d are dropped", there, large, behind, tries, dropped)
	}
	if _, err := os.Stat(before.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the older trace is still there: %v", err)
	}
	if st := r.ctl.Stats(); st.Kept != 2 || st.Lost != 0 {
		t.Errorf("it counts %+v", st)
	}
}

// TestRingStaysWhenTheDiskIsFull recovers a ring without enough room for its trace, and then again with
// room.
func TestRingStaysWhenTheDiskIsFull(t *testing.T) {
	if !hosttest.Alone(t) {
		return
	}
	const records = 2000
	at := time.Now().Add(-time.Hour)
	whole := t.TempDir()
	deadRing(t, whole, format.V1, at, records)
	crashes, _, err := recovered(whole)
	must(t, err)
	fi, err := os.Stat(crashes[0].Output)
	must(t, err)
	for _, size := range []int64{10, fi.Size() / 3, fi.Size() - 1} { // the limit is within the root, the records, the ET
		dir := t.TempDir()
		ring := deadRing(t, dir, format.V1, at, records)
		restore := hosttest.LimitFiles(t, size)
		crashes, _, err := recovered(dir)
		restore()
		if err != nil || len(crashes) != 1 || crashes[0].Output != "" || !errors.Is(crashes[0].Err, syscall.EFBIG) {
			t.Errorf("recovered are %+v, %v", crashes, err)
		}
		wantFile(t, ring, true)
		expect.Len(t, traceFiles(t, dir), 0, "the traces")
		crashes, _, err = recovered(dir)
		must(t, err)
		if len(crashes) != 1 || crashes[0].Err != nil || countText(t, crashes[0].Output, "why it died") != records {
			t.Errorf("then recovered are %+v", crashes)
		}
		wantFile(t, ring, false)
		onlyTraces(t, dir)
	}
}
