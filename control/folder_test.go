package control_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
)

// manual reports whether the name of a trace says that it was requested manually.
func manual(path string) bool {
	return strings.HasSuffix(strings.Split(filepath.Base(path), "-")[3], "m")
}

// TestFolderLimits makes many small traces in a folder with limits.
func TestFolderLimits(t *testing.T) {
	const most, byHand = 20, 8
	n := hosttest.Times(200, 10_000)
	dir := t.TempDir()
	cfg := base(dir, control.Logs, control.TraceConfig{Name: "small-one", Providers: control.Logs, On: onAPI("")})
	cfg.Keep.Files = most
	r := rigOf(t, cfg)
	r.log.Info("small")
	var names []string
	for i := range n {
		q := api("small")
		q.Manual = i%(n/byHand) == 5
		names = append(names, filepath.Base(r.start(q).Path()))
		if got := len(traceFiles(t, dir)); i%10 == 0 && got > most {
			t.Fatalf("%d files after %d traces, want %d at most", got, i+1, most)
		}
	}
	if !slices.IsSorted(names) {
		t.Error("the names do not sort by time")
	}
	files := traceFiles(t, dir)
	hand := 0
	for i, name := range files {
		if manual(name) {
			hand++
			continue
		}
		// The others are the latest ones.
		if want := names[n-(len(files)-i)]; filepath.Base(name) != want {
			t.Errorf("%s is left, want %s", filepath.Base(name), want)
		}
	}
	if len(files) != most || hand != byHand {
		t.Errorf("%d files are left, %d of them by hand; want %d and %d", len(files), hand, most, byHand)
	}
	everyLink(t, files[0])
	everyLink(t, files[len(files)-1])

	// Traces that were requested manually are removed if there are more than the limit, the oldest first.
	fewer := *cfg
	fewer.Keep.Files = 3
	must(t, r.ctl.SetConfig(&fewer))
	q := api("small")
	q.Manual = true
	last := r.start(q)
	left := traceFiles(t, dir)
	if len(left) != 3 || !manual(left[0]) || !manual(left[1]) || left[2] != mustResolve(t, last.Path()) {
		t.Errorf("%q are left", left)
	}
	r.end()
	onlyTraces(t, dir)
	r.quiet()
}

// mustResolve returns path with its folder resolved, as the control names it.
func mustResolve(t *testing.T, path string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	must(t, err)
	return filepath.Join(dir, filepath.Base(path))
}

// old writes a trace whose name and modification time are the time at.
func old(t *testing.T, dir string, at time.Time, seq string, size int) string {
	t.Helper()
	name := filepath.Join(dir, fmt.Sprintf("%s-host-1-%s-old.et", at.UTC().Format("20060102T150405.000000Z"), seq))
	rec := tracetest.CreateAt(t, name, nil)
	_, err := inside.Of(rec).AppendAnchor(&format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace}, Message: format.Some(strings.Repeat("z", size))})
	must(t, err)
	must(t, rec.Close(t.Context()))
	must(t, os.Chtimes(name, at, at))
	return name
}

// TestFolderBytesAndAge checks the limits for bytes and age when a control starts.
func TestFolderBytesAndAge(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	tests := []struct {
		name string
		keep control.Keep
		left []string // the sequence numbers of the traces that are left
	}{
		{"none", control.Keep{}, []string{"0001", "0002m", "0003", "0004m", "0005"}},
		{"age", control.Keep{Age: 150 * time.Minute}, []string{"0004m", "0005"}},
		{"bytes", control.Keep{Bytes: 3*20_000 + 5000}, []string{"0002m", "0004m", "0005"}},
		{"few bytes", control.Keep{Bytes: 30_000}, []string{"0005"}},
		{"files", control.Keep{Files: 4}, []string{"0002m", "0003", "0004m", "0005"}},
		{"all", control.Keep{Age: 270 * time.Minute, Files: 3, Bytes: 1 << 30}, []string{"0002m", "0004m", "0005"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for i, seq := range []string{"0001", "0002m", "0003", "0004m", "0005"} {
				old(t, dir, ago(time.Duration(5-i)*time.Hour), seq, 20_000)
			}
			other := filepath.Join(dir, "20000101-notes.et") // not a trace by its name
			must(t, os.WriteFile(other, []byte("x"), 0o600))
			cfg := base(dir, control.Logs)
			cfg.Keep = tt.keep
			r := rigOf(t, cfg)
			r.end()
			var left []string
			for _, name := range traceFiles(t, dir) {
				if name != other {
					left = append(left, strings.Split(filepath.Base(name), "-")[3])
				}
			}
			if !slices.Equal(left, tt.left) {
				t.Errorf("%q are left, want %q", left, tt.left)
			}
			expect.OK(t, expect.Err(os.Stat(other)))
			r.quiet()
		})
	}
}

// TestFolderNothingYet starts a control in a folder with the file of a process that died before the trace
// had an entry. No trace is made of this file.
func TestFolderNothingYet(t *testing.T) {
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, hosttest.Path(t, "20261120T212712.021345Z-host-1-0001-x.et"), &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	data := tracetest.ReadFile(t, rec.StreamPath())
	must(t, os.WriteFile(filepath.Join(dir, filepath.Base(rec.StreamPath())), data, 0o600))
	must(t, rec.Close(t.Context()))
	r := rigOf(t, base(dir, control.Logs))
	r.end()
	r.quiet()
	for _, name := range traceFiles(t, dir) {
		everyLink(t, name)
	}
	onlyTraces(t, dir)
}
