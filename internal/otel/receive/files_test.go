package receive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/tracename"
	"github.com/entrace-go/entrace/internal/otel/codec"
	"github.com/entrace-go/entrace/internal/otel/receive"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/redact"
)

var must = expect.Must

// newFiles returns Files that are closed when the test ends. If o names no folder, they are in a new one.
func newFiles(t testing.TB, o receive.FolderOptions) *receive.Files {
	t.Helper()
	if o.Dir == "" {
		o.Dir = hosttest.TraceDir(t)
	}
	f, err := receive.ToFolder(o)
	must(t, err)
	t.Cleanup(func() { f.Close(context.Background()) })
	return f
}

// take passes a request to f, which must accept it.
func take(t testing.TB, f *receive.Files, signal codec.Signal, b []byte) {
	t.Helper()
	_, err := f.Take(t.Context(), signal, codec.Protobuf, b)
	must(t, err)
}

// record passes requests in protobuf to Files. It returns the result and the error of each request, and at the end
// the entries of all files.
func record(t *testing.T, o receive.FolderOptions, signal codec.Signal, requests ...[]byte) (done []receive.Result, errs []error, files map[string][]format.TraceEntry) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	f := newFiles(t, o)
	for _, b := range requests {
		d, err := f.Take(t.Context(), signal, codec.Protobuf, b)
		done, errs = append(done, d), append(errs, err)
	}
	f.Close(context.Background())
	return done, errs, readAll(t, o.Dir)
}

func readAll(t *testing.T, dir string) map[string][]format.TraceEntry {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.et"))
	must(t, err)
	files := make(map[string][]format.TraceEntry)
	for _, path := range paths {
		tr, err := format.Open(path, nil)
		must(t, err)
		for i := range tr.Len() {
			e, err := tr.Entry(uint32(i))
			must(t, err)
			files[filepath.Base(path)] = append(files[filepath.Base(path)], *e.Clone())
		}
		_ = tr.Close()
	}
	return files
}

// names returns the messages and the names of the entries.
func names(entries []format.TraceEntry) (list []string) {
	for i := range entries {
		list = append(list, entries[i].Message.Value, entries[i].Metadata.Name)
	}
	return list
}

func TestGoodPartsOfARequestAreKept(t *testing.T) {
	late := uint64(1) << 63 // a time after 2262, which does not fit into an int64
	for _, tt := range []struct {
		name    string
		signal  codec.Signal
		request []byte
		taken   int
		refused int
		damaged bool
	}{
		{"a span without ids", codec.Spans, request("s", span(1, 0, "good"), message(5, "bad"), span(2, 1, "good")), 2, 1, false},
		{"a span with an id of zero", codec.Spans, request("s", message(1, id(16, 0), 2, id(8, 1)), span(1, 0, "good")), 1, 1, false},
		{"a span with a short id", codec.Spans, request("s", message(1, id(15, 1), 2, id(8, 1)), span(1, 0, "good")), 1, 1, false},
		{"only spans without ids", codec.Spans, request("s", message(5, "bad")), 0, 1, false},
		{"a span that is its own parent", codec.Spans, request("s", span(1, 1, "good")), 1, 0, false},
		{"a circle of parents", codec.Spans, request("s", span(1, 2, "good"), span(2, 3, "good"), span(3, 1, "good")), 3, 0, false},
		{"a span twice", codec.Spans, request("s", span(1, 0, "good"), span(1, 0, "good")), 2, 0, false},
		{"no times", codec.Spans, request("s", message(1, id(16, 1), 2, id(8, 1), 5, "good")), 1, 0, false},
		{"an end before the start", codec.Spans, request("s", span(1, 0, "good", 8, uint64(5))), 1, 0, false},
		{"times after 2262", codec.Spans, request("s", span(1, 0, "good", 7, late, 8, late+5)), 1, 0, false},
		{"a name that is not UTF-8", codec.Spans, request("s", span(1, 0, "good\xff", 9, text("k\xff", "\xfe"))), 1, 0, false},
		{"a damaged span", codec.Spans, request("s", span(1, 0, "good"), []byte{255}, span(2, 0, "lost")), 1, 0, true},
		{"a request that is cut", codec.Spans, cut(request("s", span(1, 0, "good"), span(2, 0, "lost"))), 1, 0, true},
		{"a request of two resources that is cut", codec.Spans, cut(append(request("s", span(1, 0, "good")), request("t", span(2, 0, "good"), span(3, 0, "lost"))...)), 2, 0, true},
		{"a request of log records that is cut", codec.Logs, cut(request("s", logRecord("good"), logRecord("lost", 2, 9))), 1, 0, true},
		{"a log record without anything", codec.Logs, request("s", logRecord("good"), nil), 2, 0, false},
		{"only log records without anything", codec.Logs, request("s", nil, nil), 2, 0, false},
		{"a log record with half an id", codec.Logs, request("s", logRecord("good", 9, id(16, 1))), 1, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done, errs, files := record(t, receive.FolderOptions{}, tt.signal, tt.request)
			_, damaged := errs[0].(*receive.DamageError) //nolint:errorlint // it is never wrapped
			if done[0].Taken != tt.taken || done[0].Refused != tt.refused || damaged != tt.damaged || errs[0] != nil && !damaged {
				t.Errorf("got %+v, %v; want %d taken, %d refused, damaged %v", done[0], errs[0], tt.taken, tt.refused, tt.damaged)
			}
			good := 0
			for _, entries := range files {
				good += strings.Count(strings.Join(names(entries), "\n"), "good")
			}
			expect.Equal(t, good, bytes.Count(tt.request, []byte("good")), "good ones in %v", files)
		})
	}
}

// TestSecretsAreReplacedOnlyOnRequest checks that secrets are replaced only if there is a policy.
func TestSecretsAreReplacedOnlyOnRequest(t *testing.T) {
	const secret = "hunter2hunter2"
	spans := request("s", span(1, 0, "GET /?token="+secret, 9, text("db.password", secret), 9, text("note", "Bearer "+secret)))
	logs := request("s", logRecord("password="+secret))
	for policy, want := range map[*redact.Policy]bool{nil: true, redact.Default(): false} {
		dir := t.TempDir()
		for signal, b := range map[codec.Signal][]byte{codec.Spans: spans, codec.Logs: logs} {
			if done, errs, _ := record(t, receive.FolderOptions{Dir: dir, Redact: policy}, signal, b); errs[0] != nil || done[0].Taken != 1 {
				t.Errorf("got %+v, %v", done, errs)
			}
		}
		paths, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(paths) != 2 {
			t.Errorf("got %q, %v", paths, err)
		}
		for _, path := range paths {
			b, err := os.ReadFile(path)
			if found := bytes.Contains(b, []byte(secret)); err != nil || found != want {
				t.Errorf("with the policy %v the secret is in %s: %v, %v", policy, path, found, err)
			}
		}
	}
}

// TestSpansThatComeAgainAreRecordedOnce sends each request twice, like a sender that got no answer. Spans must be
// recorded once. Log records have no ids, so equal log records are recorded twice.
func TestSpansThatComeAgainAreRecordedOnce(t *testing.T) {
	spans, logs := request("s", span(1, 0, "good"), span(2, 1, "good")), request("s", logRecord("good"), logRecord("good"))
	for _, tt := range []struct {
		signal  codec.Signal
		request []byte
		want    int
	}{{codec.Spans, spans, 2}, {codec.Logs, logs, 4}, {codec.Spans, logs, 4}} {
		done, errs, files := record(t, receive.FolderOptions{}, tt.signal, tt.request, tt.request)
		if err := errors.Join(errs...); err != nil || done[0].Taken != 2 || done[1].Taken != 2 {
			t.Errorf("got %+v, %v; want 2 taken of each", done, err)
		}
		for name, entries := range files {
			expect.Equal(t, len(slices.DeleteFunc(names(entries), func(s string) bool { return s != "good" })), tt.want, "good ones of %s", name)
		}
	}
}

// cut returns a request without its last byte.
func cut(b []byte) []byte { return b[:len(b)-1] }

func TestNothingMakesNoFile(t *testing.T) {
	empty := message(1, message(1, resource("s"), 2, message(1, message(1, "scope"))))
	_, errs, files := record(t, receive.FolderOptions{}, codec.Spans, nil, empty, request("s"), request("s", message(5, "bad")))
	for i, err := range errs {
		expect.Is(t, err, nil, "request %d", i)
	}
	expect.Equal(t, len(files), 0, "files")
}

func TestRequestMayNameMoreServicesThanThereMayBeOpenFiles(t *testing.T) {
	for services, want := range map[int]int{20: 20, 100: 65} { // above 64 files, the remaining services share one
		var b []byte
		for i := range services {
			b = append(b, request(fmt.Sprint("s", i), span(i+1, 0, "a"))...)
		}
		done, errs, files := record(t, receive.FolderOptions{MaxOpen: 4}, codec.Spans, b)
		if errs[0] != nil || done[0].Taken != services || len(files) != want {
			t.Errorf("got %+v, %v, %d files, want %d", done[0], errs[0], len(files), want)
		}
	}
}

func TestBombsTakeBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("requests of 16 MiB")
	}
	const size = 16 << 20
	deep := []byte(nil)
	for range 1 << 10 {
		deep = message(5, message(1, deep))
	}
	huge := message(1, strings.Repeat("x", 15<<20))
	for _, tt := range []struct {
		name    string
		signal  codec.Signal
		request []byte
		refused error
	}{
		{"empty resources", codec.Spans, bytes.Repeat([]byte{10, 0}, size/2), codec.ErrMany},
		{"empty scopes", codec.Spans, message(1, bytes.Repeat([]byte{18, 0}, size/2)), codec.ErrMany},
		{"empty spans", codec.Spans, message(1, message(2, bytes.Repeat([]byte{18, 0}, size/2))), codec.ErrMany},
		{"empty log records", codec.Logs, message(1, message(2, bytes.Repeat([]byte{18, 0}, size/2))), codec.ErrMany},
		{"a large resource", codec.Logs, message(1, message(1, message(1, message(1, "k", 2, huge)), 2, message(2, logRecord("a")))), nil},
		{"a large scope of many records", codec.Logs, message(1, message(2, append(message(1, huge), bytes.Repeat(message(2, logRecord("a")), 1000)...))), nil},
		{"deep values", codec.Logs, request("s", message(5, deep)), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFiles(t, receive.FolderOptions{})
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := f.Take(t.Context(), tt.signal, codec.Protobuf, tt.request)
			runtime.ReadMemStats(&after)
			expect.Is(t, err, tt.refused, "err")
			if got := after.TotalAlloc - before.TotalAlloc; got > 400<<20 {
				t.Errorf("the request took %d MiB", got>>20)
			}
		})
	}
}

// TestIdleFilesAreFinished has two services, but room for one open file. Both files must be finished when they are
// idle.
func TestIdleFilesAreFinished(t *testing.T) {
	finished := make(chan string, 2)
	dir := t.TempDir()
	f := newFiles(t, receive.FolderOptions{Dir: dir, Idle: 50 * time.Millisecond, MaxOpen: 1, OnDone: func(path string, _ uint64, _ int64, err error) {
		expect.OK(t, err)
		finished <- path
	}})
	for range 2 {
		b := append(request("shop", span(1, 0, "a")), request("till", span(1, 0, "a"))...)
		take(t, f, codec.Spans, b)
		paths := []string{filepath.Base(<-finished), filepath.Base(<-finished)}
		slices.Sort(paths)
		for i, service := range []string{"shop-", "till-"} {
			if !strings.HasPrefix(paths[i], service) || filepath.Ext(paths[i]) != ".et" {
				t.Errorf("got %q", paths)
			}
		}
	}
}

// TestSpansWaitForNoOtherFile sends spans whose parent is in the file of another service. They must be written at
// once, or with the next request of their service, and not after the minute for which a recorder waits for a
// parent.
func TestSpansWaitForNoOtherFile(t *testing.T) {
	begun := make(map[string]string)
	f := newFiles(t, receive.FolderOptions{OnBegun: func(path, service string) { begun[service] = path }})
	// above waits for the entry with this name or message, and returns the name of its parent.
	above := func(name string) string {
		t.Helper()
		for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			tr, err := format.Open(begun["till"], nil)
			if err != nil {
				continue
			}
			list := make([]string, 0, tr.Len())
			up := ""
			err = tr.Walk(0, func(_ uint32, e *format.TraceEntry) error {
				list = append(list, strings.Clone(e.Metadata.Name))
				if e.Metadata.Name == name || e.Message.Value == name {
					up = list[e.Parent]
				}
				return nil
			})
			_ = tr.Close()
			if err == nil && up != "" {
				return up
			}
		}
		t.Fatalf("%s is not in the file", name)
		return ""
	}
	take(t, f, codec.Spans, request("shop", span(1, 0, "GET /")))
	take(t, f, codec.Spans, request("till", span(2, 1, "late child")))
	expect.Equal(t, above("late child"), "resource", "it is below")
	take(t, f, codec.Spans, request("till", span(5, 4, "grandchild"), span(4, 3, "early child")))
	take(t, f, codec.Logs, request("till", logRecord("hello", 9, id(16, 1), 10, id(8, 5))))
	take(t, f, codec.Spans, request("shop", span(3, 1, "pay")))
	take(t, f, codec.Spans, request("till", span(6, 0, "another")))
	for name, want := range map[string]string{"early child": "resource", "grandchild": "early child", "hello": "grandchild", "another": "resource"} {
		expect.Equal(t, above(name), want, "%s is below", name)
	}
	// With B3, both ends of a call have the same id. The work of the server must be below the server's span.
	take(t, f, codec.Spans, request("shop", span(7, 1, "call", 6, 3)))
	take(t, f, codec.Spans, request("till", span(8, 7, "work", 6, 1)))
	take(t, f, codec.Spans, request("till", span(7, 0, "serve", 6, 2)))
	expect.Equal(t, above("work"), "serve", "work is below")
}

// TestServicesInTurnGoOnInTheirFiles has more services than there may be open files. They send three times, one after
// the other. Each must have one file, and only open files may have a journal.
func TestServicesInTurnGoOnInTheirFiles(t *testing.T) {
	const rounds, services, open = 3, 20, 8
	dir := t.TempDir()
	most, begun := 0, 0
	count := func() {
		list, err := os.ReadDir(dir)
		must(t, err)
		journals := 0
		for _, f := range list {
			if strings.HasSuffix(f.Name(), tracename.Journal) {
				journals++
			}
		}
		most = max(most, journals)
	}
	o := receive.FolderOptions{Dir: dir, MaxOpen: open, OnBegun: func(string, string) { begun++ }, OnError: func(_ string, err error) { t.Error(err) }}
	o.OnDone = func(path string, entries uint64, _ int64, err error) {
		if entries != rounds+3 || err != nil { // the other three are the root, the resource and the end
			t.Errorf("%s: %d entries, %v", path, entries, err)
		}
	}
	f := newFiles(t, o)
	for round := range rounds {
		for i := range services {
			// In later rounds the parent is in the file; in the first it never arrives.
			done, err := f.Take(t.Context(), codec.Spans, codec.Protobuf, request(fmt.Sprint("s", i), span(1+round, round, fmt.Sprint("span ", i, " ", round))))
			if err != nil || done.Taken != 1 {
				t.Fatalf("round %d, service %d: got %+v, %v", round, i, done, err)
			}
			count()
		}
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f.Close(context.Background())
	}()
	for over := false; !over; {
		select {
		case <-closed:
			over = true
		default:
			count()
		}
	}
	if most == 0 || most > open || begun != services {
		t.Errorf("there were %d journals in the folder, %d traces were begun", most, begun)
	}
	files := readAll(t, dir)
	found := make(map[string]int)
	for path, entries := range files {
		for _, name := range names(entries) {
			found[name]++
		}
		if last := &entries[len(entries)-1]; !last.IsEnd() {
			t.Errorf("%s ends with %q", path, last.Metadata.Name)
		}
	}
	for i := range services {
		for round := range rounds {
			if name := fmt.Sprint("span ", i, " ", round); found[name] != 1 {
				t.Errorf("%s is there %d times", name, found[name])
			}
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != services || len(files) != services {
		t.Errorf("%d files are left, %d of them ETs: %v", len(list), len(files), err)
	}
}

// TestSuspendedFilesHaveABound has more services than there may be unfinished files. The files that were idle
// longest must be finished.
func TestSuspendedFilesHaveABound(t *testing.T) {
	const suspended = 8
	t.Cleanup(receive.SetMaxSuspended(suspended))
	const most = 1 + suspended
	finished := make(chan struct{}, most+10)
	f := newFiles(t, receive.FolderOptions{MaxOpen: 1, OnDone: func(path string, _ uint64, _ int64, err error) {
		expect.Is(t, err, nil, "%s", path)
		finished <- struct{}{}
	}})
	for i := range most + 2 {
		take(t, f, codec.Spans, request(fmt.Sprint("s", i), span(1, 0, "a")))
		if i == most-1 && len(finished) > 0 {
			t.Errorf("%d files are finished too early", len(finished))
		}
	}
	<-finished
	<-finished
}

func TestFullFolderRefusesBeforeAnythingIsTaken(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    receive.FolderOptions
	}{
		{"files", receive.FolderOptions{MaxFiles: 1}},
		{"bytes", receive.FolderOptions{MaxBytes: 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done, errs, files := record(t, tt.o, codec.Spans, request("a", span(1, 0, "a")), request("b", span(1, 0, "b")))
			if errs[0] != nil || done[0].Taken != 1 {
				t.Errorf("first: got %+v, %v", done[0], errs[0])
			}
			if !errors.Is(errs[1], receive.ErrFull) || done[1] != (receive.Result{}) {
				t.Errorf("second: got %+v, %v", done[1], errs[1])
			}
			expect.Equal(t, len(files), 1, "files")
		})
	}
}

// TestFileThatCannotBeMadeIsNoFaultOfTheSender removes the folder. The sender must be able to try again when the
// folder exists again.
func TestFileThatCannotBeMadeIsNoFaultOfTheSender(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	must(t, os.Mkdir(dir, 0o700))
	f := newFiles(t, receive.FolderOptions{Dir: dir})
	b := request("a", span(1, 0, "a"))
	for _, change := range []func() error{func() error { return os.Remove(dir) }, func() error { return os.Mkdir(dir, 0o700) }} {
		must(t, change())
		_, serr := os.Stat(dir)
		done, err := f.Take(t.Context(), codec.Spans, codec.Protobuf, b)
		if gone := serr != nil; errors.Is(err, receive.ErrFull) != gone || (done.Taken == 1) == gone {
			t.Errorf("the folder is there: %t; got %+v, %v", !gone, done, err)
		}
	}
}

// TestSuspendedFilesMakeRoom fills a folder with suspended files. If a sender that found no room tries again,
// suspended files must be finished and the oldest traces removed.
func TestSuspendedFilesMakeRoom(t *testing.T) {
	f := newFiles(t, receive.FolderOptions{MaxOpen: 1, MaxBytes: 32 << 10, KeepBytes: 8 << 10})
	for i := range 20 {
		b := request(fmt.Sprint("s", i), span(1, 0, strings.Repeat("a", 4<<10)))
		tracetest.Eventually(t, fmt.Sprint("service ", i), func() bool {
			_, err := f.Take(t.Context(), codec.Spans, codec.Protobuf, b)
			if err != nil && !errors.Is(err, receive.ErrFull) {
				t.Fatalf("service %d: %v", i, err)
			}
			return err == nil
		})
	}
}

func TestOldestFilesMakeRoom(t *testing.T) {
	var requests [][]byte
	for i := range 6 {
		requests = append(requests, request(fmt.Sprint("s", i), span(1, 0, strings.Repeat("a", 4<<10))))
	}
	_, errs, files := record(t, receive.FolderOptions{MaxOpen: 1, KeepBytes: 16 << 10}, codec.Spans, requests...)
	for i, err := range errs {
		expect.Is(t, err, nil, "request %d", i)
	}
	if len(files) == 0 || len(files) > 3 {
		t.Errorf("got %d files", len(files))
	}
}

// TestDocumentsShareTheBoundOfARequest checks that the limit of records applies to all JSON documents of a request
// together.
func TestDocumentsShareTheBoundOfARequest(t *testing.T) {
	f := newFiles(t, receive.FolderOptions{})
	document := []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + strings.Repeat("{},", 1<<16) + `{}]}]}]}`)
	for n, want := range map[int]error{1: nil, 21: codec.ErrMany} {
		expect.Is(t, expect.Err(f.Take(t.Context(), codec.Logs, codec.JSON, bytes.Repeat(document, n))), want, "%d documents", n)
	}
}
