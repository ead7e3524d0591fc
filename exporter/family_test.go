package exporter_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/text/notice"
	"github.com/entrace-go/entrace/recorder"
)

// leftover makes the files base.iet and base.iet.buffer for each base, as a killed program leaves
// them. The last record is only in the buffer.
func leftover(t *testing.T, bases ...string) {
	t.Helper()
	const words = "the last words"
	var iet, buffer []byte
	// Repeat if the recorder has already written the record to the file.
	for iet == nil || bytes.Contains(iet, []byte(words)) {
		dir := t.TempDir()
		rec, err := recorder.Create(filepath.Join(dir, "app.et"), &recorder.Options{BufferDir: dir})
		must(t, err)
		if d, err := rec.Durability(); d != recorder.DurabilityProcess {
			t.Skip("no crash buffer here:", err)
		}
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(words)}))
		// Copy the buffer before the file: a later copy may say that its records are in the file
		// already.
		buffer = read(t, filepath.Join(dir, "app.iet.buffer"))
		iet = read(t, filepath.Join(dir, "app.iet"))
		must(t, rec.Close(t.Context()))
	}
	for _, base := range bases {
		must(t, os.WriteFile(base+".iet", iet, 0o600))
		must(t, os.WriteFile(base+".iet.buffer", buffer, 0o600))
	}
}

// said collects the messages on the console.
func said(t *testing.T) func() string {
	t.Helper()
	var mu sync.Mutex
	var b strings.Builder
	notice.SetConsole(textHandler(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return b.Write(p)
	}))
	before := notice.SetErrorHandler(nil)
	t.Cleanup(func() { notice.SetConsole(nil); notice.SetErrorHandler(before) })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return b.String()
	}
}

// TestDeadSiblings: a start finishes the files of dead processes of the same service, and no
// other files. Two concurrent starts finish each file once.
func TestDeadSiblings(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", "")
	leftover(t, "shop-1", "shop-2", "shop-3", "shop-x", "stock-4")
	must(t, os.WriteFile("shop-2.et", read(t, "shop-2.iet"), 0o600)) // the file of an earlier process with the same id
	lives, err := osfile.OpenWrite("shop-3.iet")
	must(t, err)
	defer lives.Close()
	must(t, osfile.Lock(lives, true))
	told := said(t)
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			e, err := exporter.New(exporter.WithPath(fmt.Sprintf("{service}-%d.et", 1000+i)))
			if err == nil {
				err = e.Shutdown(t.Context())
			}
			expect.OK(t, err)
		})
	}
	both.Wait()
	e, err := exporter.New()
	must(t, err)
	finished := func(name string) int {
		return strings.Count(told(), name+": finished, 3 entries (1 from the crash buffer)")
	}
	for range 3000 { // a process that shuts down early leaves unfinished files to the next start
		if finished("shop-1.et") > 0 && finished("shop-2.et") > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	must(t, e.Shutdown(t.Context()))
	var got []string
	for _, name := range hosttest.Names(t, ".") {
		if name != fmt.Sprintf("shop-%d.et", os.Getpid()) && !regexp.MustCompile(`^shop-\d{4,}\.et$`).MatchString(name) {
			got = append(got, regexp.MustCompile(`\.\d{8}T\d{6}\.\d{3}Z`).ReplaceAllString(name, ".TIME"))
		}
	}
	want := []string{"shop-1.et", "shop-2.TIME.et", "shop-2.et", "shop-3.iet", "shop-3.iet.buffer", "shop-x.iet", "shop-x.iet.buffer", "stock-4.iet", "stock-4.iet.buffer"}
	if !slices.Equal(got, want) {
		t.Errorf("there is %q, want %q", got, want)
	}
	for _, name := range []string{"shop-1.et", "shop-2.et"} {
		f, err := format.Open(name, nil)
		must(t, err)
		if last, err := f.Entry(uint32(f.Len() - 2)); err != nil || last.Message.Value != "the last words" {
			t.Errorf("before the entry of the recovery %s has %v, %v", name, last, err)
		}
		must(t, f.Close())
		if n := finished(name); n != 1 {
			t.Errorf("that %s is finished was told %d times:\n%s", name, n, told())
		}
	}
}

var read = tracetest.ReadFile

// TestKeepsBounds: a start removes the oldest finished files of its service until the bounds are
// met. The default bounds are 50 files and 2 GiB.
func TestKeepsBounds(t *testing.T) {
	for _, tt := range []struct {
		files, size string
		each        int64 // size of each old file; the files are sparse
		there       int
		left        int
	}{
		{"", "", 4096, 60, 50},
		{"", "", 300 << 20, 10, 6},
		{"3", "", 4096, 10, 3},
		{"0", "40KiB", 4096, 20, 10},
		{"0", "0", 4096, 120, 120},
	} {
		t.Run(fmt.Sprint(tt.files, tt.size, tt.there), func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("OTEL_SERVICE_NAME", "shop")
			t.Setenv("OTEL_EXPORTER_ENTRACE_KEEP", tt.files)
			t.Setenv("OTEL_EXPORTER_ENTRACE_KEEP_BYTES", tt.size)
			now := time.Now()
			hole := func(name string, age time.Duration) {
				must(t, os.WriteFile(name, wire.AppendMagic(nil, format.V1, format.ET), 0o600))
				must(t, os.Truncate(name, tt.each))
				must(t, os.Chtimes(name, now.Add(-age), now.Add(-age)))
			}
			for i := range tt.there {
				hole(fmt.Sprintf("shop-%d.et", 100+i), time.Duration(i+1)*time.Minute)
			}
			others := []string{"shop.et", "shop-12x.et", "stock-1.et", "shop-7.txt", "shop-a.20260101T000000.000Z.et"}
			for _, name := range others {
				hole(name, 1000*time.Hour)
			}
			told := said(t)
			e, err := exporter.New()
			must(t, err)
			must(t, e.Shutdown(t.Context()))
			var left []string
			for _, name := range hosttest.Names(t, ".") {
				if i := slices.Index(others, name); i >= 0 {
					others = slices.Delete(others, i, i+1)
				} else if name != fmt.Sprintf("shop-%d.et", os.Getpid()) {
					left = append(left, name)
				}
			}
			if len(left) != tt.left || left[len(left)-1] != fmt.Sprintf("shop-%d.et", 100+tt.left-1) || len(others) > 0 {
				t.Errorf("%d are left, want the newest %d; gone are %q: %q", len(left), tt.left, others, left)
			}
			if want := tt.left < tt.there; strings.Contains(told(), "entrace: removed to make room: shop-") != want {
				t.Errorf("it was told %q", told())
			}
		})
	}
}

// TestSecondProcess: if another process already records to the path, the second process records to
// another path.
func TestSecondProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	leftover(t, "app")
	lives, err := osfile.OpenWrite("app.iet")
	must(t, err)
	defer lives.Close()
	must(t, osfile.Lock(lives, true))
	before := read(t, "app.iet")
	told := said(t)
	e, err := exporter.New(exporter.WithPath("app.et"))
	must(t, err)
	must(t, e.Shutdown(t.Context()))
	other := e.Recorder().Path()
	if !regexp.MustCompile(`/app\.[^/]+-` + fmt.Sprint(os.Getpid()) + `-[0-9a-f]{8}\.et$`).MatchString(filepath.ToSlash(other)) {
		t.Errorf("it recorded to %s", other)
	}
	if f, err := format.Open(other, nil); err != nil {
		t.Error(err)
	} else {
		must(t, f.Close())
	}
	if string(read(t, "app.iet")) != string(before) {
		t.Error("the file of the other process was changed")
	}
	for _, want := range []string{"level=WARN", "recording to " + filepath.Base(other) + " instead", "app.iet: " + format.ErrLocked.Error(), "put {pid} into OTEL_EXPORTER_ENTRACE_PATH"} {
		expect.Has(t, told(), want, "it said")
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func textHandler(f writerFunc) slog.Handler { return slog.NewTextHandler(f, nil) }

// finished makes a finished trace.
func finished(t *testing.T, base string) {
	t.Helper()
	rec := tracetest.CreateAt(t, base+".et", nil)
	must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("finished")}))
	must(t, rec.Close(t.Context()))
}

// started starts and ends a recording with default options.
func started(t *testing.T) {
	t.Helper()
	e, err := exporter.New()
	must(t, err)
	must(t, e.Shutdown(t.Context()))
}

// TestLivingDoNotCount: files of living processes do not count towards the bounds.
func TestLivingDoNotCount(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	t.Setenv("OTEL_EXPORTER_ENTRACE_KEEP", "5")
	t.Setenv("OTEL_EXPORTER_ENTRACE_KEEP_BYTES", "1MB")
	for i := range 4 {
		finished(t, fmt.Sprint("shop-", 10+i))
	}
	for i := range 5 {
		rec := tracetest.CreateAt(t, fmt.Sprintf("shop-%d.et", 100+i), nil)
		defer rec.Close(t.Context())
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some(strings.Repeat("x", 2<<20))}))
		must(t, rec.Flush(t.Context()))
	}
	told := said(t)
	started(t)
	if list, err := filepath.Glob("shop-1?.et"); err != nil || len(list) != 4 {
		t.Errorf("of four finished ones there are %q, %v\n%s", list, err, told())
	}
}

// TestOtherVersion: a file whose journal has the layout of a newer version is not finished, because
// only the newer version can read it.
func TestOtherVersion(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	leftover(t, "shop-1")
	b := read(t, "shop-1.iet.buffer")
	b[8]++ // the version of the journal's layout
	must(t, os.WriteFile("shop-1.iet.buffer", b, 0o600))
	told := said(t)
	started(t)
	for _, name := range []string{"shop-1.iet", "shop-1.iet.buffer"} {
		if _, err := os.Stat(name); err != nil {
			t.Errorf("%v\n%s", err, told())
		}
	}
}

// TestStrangersStay: without {service} in the path template, names do not show the service, so no
// file is removed. A date in a name does not count as a process id. Temporary files of dead
// processes of the service are removed.
func TestStrangersStay(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("OTEL_SERVICE_NAME", "shop")
	t.Setenv("OTEL_EXPORTER_ENTRACE_KEEP", "1")
	want := []string{"shop-20261010", "shop-20261011", "trace-1", "trace-2"}
	for _, base := range want {
		finished(t, base)
	}
	for _, name := range []string{".shop-1.et.tmp-123", ".shop-1.iet.tmp-ABC"} {
		must(t, os.WriteFile(name, []byte("half"), 0o600))
		old := time.Now().Add(-time.Hour)
		must(t, os.Chtimes(name, old, old))
	}
	said(t)
	for _, path := range []string{"trace-{pid}.et", "{service}-{pid}.et"} {
		t.Setenv("OTEL_EXPORTER_ENTRACE_PATH", path)
		started(t)
	}
	for _, base := range want {
		expect.OK(t, expect.Err(os.Stat(base+".et")))
	}
	if list, err := filepath.Glob(".*"); err != nil || len(list) > 0 {
		t.Errorf("there is %q, %v", list, err)
	}
}
