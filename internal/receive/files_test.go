package receive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otlp/codec"
	"github.com/entrace-go/entrace/internal/receive"
)

// record takes requests of protobuf into the files of a folder, and returns what was done and
// failed with each, and the entries of all files in the end.
func record(t *testing.T, o receive.FilesOptions, signal receive.Signal, requests ...[]byte) (done []receive.Result, errs []error, files map[string][]format.TraceEntry) {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	f, err := receive.NewFiles(o)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	files := make(map[string][]format.TraceEntry)
	for _, path := range paths {
		tr, err := format.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tr.Len() {
			e, err := tr.Entry(uint32(i))
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(path)] = append(files[filepath.Base(path)], *e.Clone())
		}
		_ = tr.Close()
	}
	return files
}

// names returns what the entries are named, and say.
func names(entries []format.TraceEntry) (list []string) {
	for i := range entries {
		list = append(list, entries[i].Message.Value, entries[i].Metadata.Name)
	}
	return list
}

func TestGoodPartsOfARequestAreKept(t *testing.T) {
	late := uint64(1) << 63 // after 2262, where 64 bits with a sign end
	for _, tt := range []struct {
		name    string
		signal  receive.Signal
		request []byte
		taken   int
		refused int
		damaged bool
	}{
		{"a span without ids", receive.Traces, request("s", span(1, 0, "good"), message(5, "bad"), span(2, 1, "good")), 2, 1, false},
		{"a span with an id of zero", receive.Traces, request("s", message(1, id(16, 0), 2, id(8, 1)), span(1, 0, "good")), 1, 1, false},
		{"a span with a short id", receive.Traces, request("s", message(1, id(15, 1), 2, id(8, 1)), span(1, 0, "good")), 1, 1, false},
		{"only spans without ids", receive.Traces, request("s", message(5, "bad")), 0, 1, false},
		{"a span that is its own parent", receive.Traces, request("s", span(1, 1, "good")), 1, 0, false},
		{"a circle of parents", receive.Traces, request("s", span(1, 2, "good"), span(2, 3, "good"), span(3, 1, "good")), 3, 0, false},
		{"a span twice", receive.Traces, request("s", span(1, 0, "good"), span(1, 0, "good")), 2, 0, false},
		{"no times", receive.Traces, request("s", message(1, id(16, 1), 2, id(8, 1), 5, "good")), 1, 0, false},
		{"an end before the start", receive.Traces, request("s", span(1, 0, "good", 8, uint64(5))), 1, 0, false},
		{"times after 2262", receive.Traces, request("s", span(1, 0, "good", 7, late, 8, late+5)), 1, 0, false},
		{"a name that is not UTF-8", receive.Traces, request("s", span(1, 0, "good\xff", 9, text("k\xff", "\xfe"))), 1, 0, false},
		{"a damaged span", receive.Traces, request("s", span(1, 0, "good"), []byte{255}, span(2, 0, "lost")), 1, 0, true},
		{"a log record without anything", receive.Logs, request("s", logRecord("good"), nil), 2, 0, false},
		{"only log records without anything", receive.Logs, request("s", nil, nil), 2, 0, false},
		{"a log record with half an id", receive.Logs, request("s", logRecord("good", 9, id(16, 1))), 1, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done, errs, files := record(t, receive.FilesOptions{}, tt.signal, tt.request)
			_, damaged := errs[0].(*receive.DamageError) //nolint:errorlint // it is never wrapped
			if done[0].Taken != tt.taken || done[0].Refused != tt.refused || damaged != tt.damaged || errs[0] != nil && !damaged {
				t.Errorf("got %+v, %v; want %d taken, %d refused, damaged %v", done[0], errs[0], tt.taken, tt.refused, tt.damaged)
			}
			good := 0
			for _, entries := range files {
				good += strings.Count(strings.Join(names(entries), "\n"), "good")
			}
			if want := bytes.Count(tt.request, []byte("good")); good != want {
				t.Errorf("the file has %d good ones, want %d: %v", good, want, files)
			}
		})
	}
}

func TestNothingMakesNoFile(t *testing.T) {
	empty := message(1, message(1, resource("s"), 2, message(1, message(1, "scope"))))
	_, errs, files := record(t, receive.FilesOptions{}, receive.Traces, nil, empty, request("s"), request("s", message(5, "bad")))
	for i, err := range errs {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if len(files) != 0 {
		t.Errorf("got files %v", files)
	}
}

func TestRequestMayNameMoreServicesThanThereMayBeOpenFiles(t *testing.T) {
	var b []byte
	for i := range 20 {
		b = append(b, request(fmt.Sprint("s", i), span(i+1, 0, "a"))...)
	}
	done, errs, files := record(t, receive.FilesOptions{MaxOpen: 4}, receive.Traces, b)
	if errs[0] != nil || done[0].Taken != 20 || len(files) != 20 {
		t.Errorf("got %+v, %v, %d files", done[0], errs[0], len(files))
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
		signal  receive.Signal
		request []byte
		refused error
	}{
		{"empty resources", receive.Traces, bytes.Repeat([]byte{10, 0}, size/2), nil},
		{"empty scopes", receive.Traces, message(1, bytes.Repeat([]byte{18, 0}, size/2)), nil},
		{"empty spans", receive.Traces, message(1, message(2, bytes.Repeat([]byte{18, 0}, size/2))), nil},
		{"empty log records", receive.Logs, message(1, message(2, bytes.Repeat([]byte{18, 0}, size/2))), receive.ErrTooMany},
		{"a large resource", receive.Logs, message(1, message(1, message(1, message(1, "k", 2, huge)), 2, message(2, logRecord("a")))), nil},
		{"a large scope of many records", receive.Logs, message(1, message(2, append(message(1, huge), bytes.Repeat(message(2, logRecord("a")), 1000)...))), nil},
		{"deep values", receive.Logs, request("s", message(5, deep)), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := receive.NewFiles(receive.FilesOptions{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close(context.Background())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = f.Take(t.Context(), tt.signal, codec.Protobuf, tt.request)
			runtime.ReadMemStats(&after)
			if err != tt.refused { //nolint:errorlint // it is never wrapped
				t.Errorf("got %v, want %v", err, tt.refused)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 400<<20 {
				t.Errorf("the request took %d MiB", got>>20)
			}
		})
	}
}

func TestIdleFilesAreFinished(t *testing.T) {
	finished := make(chan string, 1)
	dir := t.TempDir()
	f, err := receive.NewFiles(receive.FilesOptions{Dir: dir, Idle: 50 * time.Millisecond, OnDone: func(path string, _ uint64, _ int64, err error) {
		if err != nil {
			t.Error(err)
		}
		finished <- path
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close(context.Background())
	if _, err := f.Take(t.Context(), receive.Traces, codec.Protobuf, request("shop", span(1, 0, "a"))); err != nil {
		t.Fatal(err)
	}
	if path := <-finished; !strings.HasPrefix(filepath.Base(path), "shop-") || filepath.Ext(path) != ".et" {
		t.Errorf("got %s", path)
	}
}

func TestFullFolderRefusesBeforeAnythingIsTaken(t *testing.T) {
	for _, tt := range []struct {
		name string
		o    receive.FilesOptions
	}{
		{"files", receive.FilesOptions{MaxFiles: 1}},
		{"bytes", receive.FilesOptions{MaxBytes: 10}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			done, errs, files := record(t, tt.o, receive.Traces, request("a", span(1, 0, "a")), request("b", span(1, 0, "b")))
			if errs[0] != nil || done[0].Taken != 1 {
				t.Errorf("first: got %+v, %v", done[0], errs[0])
			}
			if !errors.Is(errs[1], receive.ErrFull) || done[1] != (receive.Result{}) {
				t.Errorf("second: got %+v, %v", done[1], errs[1])
			}
			if len(files) != 1 {
				t.Errorf("got files %v", files)
			}
		})
	}
}

// TestFileThatCannotBeMadeIsNoFaultOfTheSender: it may come again, when there is a folder.
func TestFileThatCannotBeMadeIsNoFaultOfTheSender(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "traces")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := receive.NewFiles(receive.FilesOptions{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close(context.Background())
	b := request("a", span(1, 0, "a"))
	for _, change := range []func() error{func() error { return os.Remove(dir) }, func() error { return os.Mkdir(dir, 0o700) }} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		_, serr := os.Stat(dir)
		done, err := f.Take(t.Context(), receive.Traces, codec.Protobuf, b)
		if gone := serr != nil; errors.Is(err, receive.ErrFull) != gone || (done.Taken == 1) == gone {
			t.Errorf("the folder is there: %t; got %+v, %v", !gone, done, err)
		}
	}
}

func TestOldestFilesMakeRoom(t *testing.T) {
	var requests [][]byte
	for i := range 6 {
		requests = append(requests, request(fmt.Sprint("s", i), span(1, 0, strings.Repeat("a", 4<<10))))
	}
	_, errs, files := record(t, receive.FilesOptions{MaxOpen: 1, KeepBytes: 16 << 10}, receive.Traces, requests...)
	for i, err := range errs {
		if err != nil {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if len(files) == 0 || len(files) > 3 {
		t.Errorf("got %d files", len(files))
	}
}
