package control_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

func wantFile(t *testing.T, name string, want bool) {
	t.Helper()
	_, err := os.Stat(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	expect.Equal(t, err == nil, want, "%s is there", filepath.Base(name))
}

// TestKeepNewTracesWhenTheClockWasSet checks that new traces remain, and that older traces are removed
// although their times are a day in the future or in the past.
func TestKeepNewTracesWhenTheClockWasSet(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"set back a day": 24 * time.Hour, "set forward a day": -24 * time.Hour} {
		for bound, keep := range map[string]control.Keep{"files": {Files: 3}, "bytes": {Bytes: 45_000}} {
			t.Run(name+", "+bound, func(t *testing.T) {
				dir := t.TempDir()
				var before []string
				for i := range 3 {
					before = append(before, old(t, dir, time.Now().Add(ahead+time.Duration(i)*time.Minute), fmt.Sprintf("%04d", i+1), 20_000))
				}
				cfg := base(dir, control.Logs, control.TraceConfig{Name: "asked", Providers: control.Logs, On: onAPI("asked")})
				cfg.Keep = keep
				r := rigOf(t, cfg)
				r.log.Info(strings.Repeat("x", 20_000))
				var made []string
				for i := range 5 {
					tr, err := r.ctl.Start(t.Context(), api("asked"))
					must(t, err)
					made = append(made, tr.Path())
					want := append(slices.Clone(before), made...)
					if bound == "files" {
						want = want[len(want)-3:]
					} else {
						want = want[len(want)-2:] // each trace has about 20,000 bytes
					}
					slices.Sort(want)
					if got := traceFiles(t, dir); !slices.Equal(got, want) {
						t.Fatalf("after %d traces there are %q, want %q", i+1, got, want)
					}
				}
				r.quiet()
			})
		}
	}
}

// TestKeepALongStream checks that the age of a stream counts from its end.
func TestKeepALongStream(t *testing.T) {
	dir := t.TempDir()
	cfg := deepTrace(dir)
	cfg.Keep.Files = 3
	r := rigOf(t, cfg)
	deep, err := r.ctl.Start(t.Context(), api("deep"))
	must(t, err)
	var last *control.Trace
	for range 4 {
		r.log.Info("x")
		last, err = r.ctl.Start(t.Context(), api("asked"))
		must(t, err)
	}
	r.stop(api("deep"))
	wantFile(t, deep.Path(), true)
	wantFile(t, last.Path(), true)
	expect.Equal(t, len(traceFiles(t, dir)), 3, "traces")
	_, err = r.ctl.Start(t.Context(), api("asked"))
	must(t, err)
	wantFile(t, deep.Path(), true) // the stream ended last
	r.quiet()
}

// deadRing writes to dir the ring of a dead process. All its records have the time at.
func deadRing(t *testing.T, dir string, v format.Version, at time.Time, records int) (name string) {
	t.Helper()
	from := hosttest.Path(t, "x.ring")
	g, err := ring.New(&ring.Options{Path: from, Dir: filepath.Dir(from), Bytes: 4 << 20, Version: v})
	must(t, err)
	g.SetBuffered(record.Providers(control.Logs))
	for range records {
		b := g.Recorder().Batch()
		b.Log(format.SpanRef{}, at.UnixNano())
		inside.OfBatch(b).SetProvider(record.ProviderLogs)
		b.Entry(&format.TraceEntry{Message: format.Some("why it died"), Metadata: format.Metadata{Name: "event", Level: format.LevelError}})
		must(t, b.Write())
	}
	name = filepath.Join(dir, "ring-h-1-"+at.UTC().Format("20060102T150405.000000Z")+".ring")
	copyFile(t, from, name)
	must(t, g.Close())
	return name
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b := tracetest.ReadFile(t, from)
	must(t, os.WriteFile(to, b, 0o600))
}

// deadStream writes to dir the files of a dead stream, whose records are all in the journal. It returns the
// path of the trace that recovery will make.
func deadStream(t *testing.T, dir string, at time.Time, records int) (et string) {
	t.Helper()
	name := at.UTC().Format("20060102T150405.000000Z") + "-host-7-0001-deep"
	from := hosttest.Path(t, name)
	rec := tracetest.CreateAt(t, from+".et", &recorder.Options{BufferDir: filepath.Dir(from)})
	for range records {
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("why it died"), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo}}))
	}
	for _, ext := range []string{".iet.buffer", ".iet"} {
		copyFile(t, from+ext, filepath.Join(dir, name+ext))
	}
	must(t, rec.Close(t.Context()))
	return filepath.Join(dir, name+".et")
}

// TestKeepWhatWasRecovered checks that New does not remove the traces that it recovers, even if they are
// older than others.
func TestKeepWhatWasRecovered(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	deadRing(t, dir, format.V1, now.Add(-48*time.Hour), 7)
	stream := deadStream(t, dir, now.Add(-47*time.Hour), 7)
	for i := range 3 {
		old(t, dir, now.Add(-time.Duration(3-i)*time.Hour), fmt.Sprintf("%04d", i+1), 100)
	}
	cfg := base(dir, control.Logs)
	cfg.Keep = control.Keep{Files: 2, Age: 24 * time.Hour}
	rigOf(t, cfg).quiet()
	crashes := crashTraces(t, dir)
	if len(crashes) != 1 || countText(t, crashes[0], "why it died") != 7 {
		t.Errorf("the traces of crashes are %q", crashes)
	}
	wantFile(t, stream, true)
	if n := len(traceFiles(t, dir)); n != 2 {
		t.Errorf("there are %d traces, want those two", n)
	}
}

// TestRingStaysUnlessItsTraceIsOnDisk checks that recovery removes a ring only after it has made the trace,
// and that another file with the name of the trace is no obstacle.
func TestRingStaysUnlessItsTraceIsOnDisk(t *testing.T) {
	at := time.Now().Add(-time.Hour)
	crashName := at.UTC().Format("20060102T150405.000000Z") + "-_-0-0001-crash.et"
	t.Run("another file has the name", func(t *testing.T) {
		for _, other := range []func(name string){
			func(name string) { must(t, os.Mkdir(name, 0o700)) },
			func(name string) { must(t, os.WriteFile(name, []byte("mine"), 0o600)) },
			func(name string) { tracetest.Symlink(t, "nowhere", name) },
			func(name string) { copyFile(t, old(t, t.TempDir(), at, "0001", 100), name) },
		} {
			dir := t.TempDir()
			ring := deadRing(t, dir, format.V1, at, 7)
			other(filepath.Join(dir, crashName))
			crashes, _, err := recovered(dir)
			must(t, err)
			if len(crashes) != 1 || crashes[0].Err != nil || filepath.Base(crashes[0].Output) != strings.Replace(crashName, "-0001-", "-0002-", 1) ||
				countText(t, crashes[0].Output, "why it died") != 7 {
				t.Errorf("recovered are %+v", crashes)
			}
			wantFile(t, ring, false)
		}
	})
	t.Run("done already", func(t *testing.T) {
		dir := t.TempDir()
		ring := deadRing(t, dir, format.V1, at, 7)
		again := hosttest.Path(t, "ring")
		copyFile(t, ring, again)
		_, _, err := recovered(dir)
		must(t, err)
		copyFile(t, again, ring) // as if the recovery had been killed before it removed the ring
		crashes, _, err := recovered(dir)
		must(t, err)
		if len(crashes) != 1 || crashes[0].Err != nil || filepath.Base(crashes[0].Output) != crashName || len(traceFiles(t, dir)) != 1 {
			t.Errorf("recovered are %+v, the traces %q", crashes, traceFiles(t, dir))
		}
		wantFile(t, ring, false)
	})
	for _, v := range tracetest.BothVersions {
		t.Run(fmt.Sprintf("its head is lost, version %d", v), func(t *testing.T) {
			dir := t.TempDir()
			ring := deadRing(t, dir, v, at, 7)
			f, err := os.OpenFile(ring, os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt(make([]byte, 4096), 0)
			must(t, errors.Join(err, f.Close()))
			crashes, _, err := recovered(dir)
			must(t, err)
			if len(crashes) != 1 || crashes[0].Err == nil || crashes[0].Output != "" {
				t.Errorf("recovered are %+v", crashes)
			}
			wantFile(t, ring, true)
		})
		t.Run(fmt.Sprintf("what it says of itself is lost, version %d", v), func(t *testing.T) {
			dir := t.TempDir()
			ring := deadRing(t, dir, v, at, 7)
			f, err := os.OpenFile(ring, os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt(make([]byte, 4096-64), 64)
			must(t, errors.Join(err, f.Close()))
			crashes, _, err := recovered(dir)
			must(t, err)
			expect.MustLen(t, crashes, 1, "recovered")
			if c := crashes[0]; c.Err == nil && countText(t, c.Output, "why it died") != 7 {
				t.Errorf("recovered are %+v", crashes)
			}
			wantFile(t, ring, crashes[0].Err != nil)
		})
	}
}

// TestCrashBufferStaysIfItCannotBeRead damages the journal of a stream, which has all its records. Recovery renames
// the journal and does not remove it.
func TestCrashBufferStaysIfItCannotBeRead(t *testing.T) {
	for _, from := range []int64{0, 64} { // damage everything before the records, or only the checkpoints
		dir := t.TempDir()
		et := deadStream(t, dir, time.Now().Add(-time.Hour), 7)
		buffer := strings.TrimSuffix(et, ".et") + ".iet.buffer"
		f, err := os.OpenFile(buffer, os.O_RDWR, 0)
		must(t, err)
		_, err = f.WriteAt(make([]byte, 4096-from), from)
		must(t, errors.Join(err, f.Close()))
		want := tracetest.ReadFile(t, buffer)
		for range 2 {
			_, _, err = recovered(dir)
			must(t, err)
		}
		var got []byte
		names, err := filepath.Glob(strings.TrimSuffix(buffer, ".buffer") + ".*.buffer.broken") // the name has a time
		if len(names) == 1 {
			got, err = os.ReadFile(names[0])
		}
		if err != nil || string(got) != string(want) {
			t.Errorf("the crash buffer is gone: %v", err)
		}
	}
}
