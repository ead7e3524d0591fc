package recorder_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// rotated returns the finished files of a folder, in the order in which they were made.
func rotated(t testing.TB, dir string) []string {
	t.Helper()
	var ets []string
	for _, name := range dirNames(t, dir) {
		if strings.HasPrefix(name, "app.2") && strings.HasSuffix(name, ".et") {
			ets = append(ets, filepath.Join(dir, name))
		}
	}
	return append(ets, filepath.Join(dir, "app.et"))
}

func logRecord(n int) *format.TraceEntry {
	return &format.TraceEntry{
		Message: format.Some(fmt.Sprintf("record %08d", n)), Metadata: format.Metadata{Name: "event", Level: format.LevelInfo},
		Attributes: tracetest.Attributes(format.AttrTime, uint64(n+1), "n", n),
	}
}

// TestRotate records from several goroutines into files of a few kilobytes, with several durabilities.
// Every record is in one of the files, each file can be read alone, and no file is much larger than
// MaxFileSize.
func TestRotate(t *testing.T) {
	const writers, each, maxSize = 4, 2000, 64 << 10
	for _, d := range []recorder.Durability{recorder.DurabilityProcess, recorder.DurabilityWriteThrough} {
		t.Run(d.String(), func(t *testing.T) {
			dir := t.TempDir()
			rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{Durability: d, MaxFileSize: maxSize})
			res, err := rec.Resource(named("resource"))
			must(t, err)
			var wg sync.WaitGroup
			for w := range writers {
				wg.Go(func() {
					s := span(fmt.Sprint("span ", w), byte(w+1), 0)
					s.Open, s.Wait, s.Resource = true, false, res
					expect.OK(t, tracetest.WriteSpan(rec, s))
					for i := range each {
						expect.OK(t, rec.Log(s.Ref, logRecord(w*each+i)))
					}
					expect.OK(t, tracetest.EndSpan(rec, s.Ref, nil, named(format.NameSpanEnd)))
				})
			}
			wg.Wait()
			must(t, rec.Flush(context.Background()))
			st := rec.Stats()
			if e := st.Entries; e.Offered != e.Written || e.Dropped.Total() != 0 || e.Waiting != 0 {
				t.Errorf("the account is %+v", e)
			}
			if s := st.Spans; s.Offered != writers || s.Written != writers {
				t.Errorf("the account of spans is %+v", s)
			}
			must(t, rec.Close(t.Context()))
			seen, begun := make(map[int64]int), 0
			names := rotated(t, dir)
			if len(names) < 4 || len(names) != st.Files+1 {
				t.Fatalf("%d files, the account says %d: %v", len(names), st.Files+1, dirNames(t, dir))
			}
			for i, name := range names {
				expect.OK(t, expect.Err(recorder.Verify(name, func(problem error) { t.Errorf("%s: %v", name, problem) })))
				f := tracetest.Open(t, name)
				end, err := f.Entry(uint32(f.Len() - 1))
				must(t, err)
				if more, last := end.IsRotated(), i == len(names)-1; more == last { // app.et is the last file
					t.Errorf("%s says that another follows: %t", name, more)
				}
				if f.WholeSize() > 2*maxSize {
					t.Errorf("%s has %d bytes", name, f.WholeSize())
				}
				v := tracetest.View(t, f)
				for id := range uint32(f.Len()) {
					e, err := f.Entry(id)
					must(t, err)
					if n, ok := e.Attribute("n"); ok {
						k, _ := n.I64()
						seen[k]++
						up, err := v.Entry(v.Parent(rowOf(t, v, id)))
						must(t, err)
						expect.MustEqual(t, up.Metadata.Name, fmt.Sprint("span ", k/each), "%s: record %d is below", name, k)
					}
					if v.Role(rowOf(t, v, id)) == view.RoleSpan {
						if before, _ := e.Attribute(mapping.AttrContinued); !before.Bool() {
							begun++
						}
					}
				}
			}
			expect.Equal(t, begun, writers, "spans began")
			for i := range int64(writers * each) {
				expect.MustEqual(t, seen[i], 1, "times that record %d is there", i)
			}
		})
	}
}

// TestRotateContinues checks what the next file repeats: resources, nested open spans, and an open span
// whose parent has ended.
func TestRotateContinues(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		dir := t.TempDir()
		rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{Version: v, MaxFileEntries: 30})
		res, err := rec.Resource(named("resource"))
		must(t, err)
		start := func(name string, id, parent byte) {
			s := span(name, id, parent)
			s.Open, s.Wait, s.Resource = true, false, res
			must(t, tracetest.WriteSpan(rec, s))
		}
		start("root", 1, 0)
		start("child", 2, 1)
		start("ended", 3, 1)
		start("orphan", 4, 3)
		must(t, tracetest.EndSpan(rec, spanRef(1, 3), nil, named(format.NameSpanEnd)))
		for i := range 40 {
			must(t, rec.Log(spanRef(1, 2), logRecord(i)))
			must(t, rec.Flush(context.Background()))
		}
		must(t, rec.Log(spanRef(1, 3), logRecord(100)))
		must(t, tracetest.EndSpan(rec, spanRef(1, 4), nil, named(format.NameSpanEnd)))
		must(t, rec.Close(t.Context()))
		names := rotated(t, dir)
		expect.MustLen(t, names, 2, "the files")
		f := tracetest.Open(t, names[1])
		got := tracetest.Outline(t, f)
		got = strings.ReplaceAll(got, " event", "")
		if want := "root(resource(root(child(event)) orphan(span end)) entrace.end)"; got != want && got != "root(resource(root(child(event)) orphan(span end) event) entrace.end)" {
			t.Errorf("version %d: the second file is\n%s, want\n%s", v, got, want)
		}
		for id := range uint32(f.Len()) {
			e, err := f.Entry(id)
			must(t, err)
			if e.Metadata.Name != "orphan" {
				continue
			}
			if p, _ := e.Attribute(format.AttrParentSpanID); p.Text() != "0000000000000003" {
				t.Errorf("the parent of orphan is %q", p.Text())
			}
			if tr, _ := e.Attribute(format.AttrTraceID); len(tr.Text()) != 32 {
				t.Errorf("the trace of orphan is %q", tr.Text())
			}
		}
	}
}

// TestKeepFiles checks that the recorder removes its oldest files, and no files that belong to others.
func TestKeepFiles(t *testing.T) {
	dir := t.TempDir()
	for _, other := range []string{"app.20200101T000000.000Z.txt", "app.notes.et", "application.20200101T000000.000Z.et"} {
		must(t, os.WriteFile(filepath.Join(dir, other), nil, 0o600))
	}
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{MaxFileEntries: 20, KeepFiles: 3})
	for i := range 200 {
		must(t, rec.Log(format.SpanRef{}, logRecord(i)))
	}
	must(t, rec.Close(t.Context()))
	if names := rotated(t, dir); len(names) != 4 {
		t.Errorf("files are %v", dirNames(t, dir))
	}
	expect.Len(t, dirNames(t, dir), 7, "files")
	f := tracetest.Open(t, filepath.Join(dir, "app.et"))
	e, err := f.Entry(uint32(f.Len() - 2))
	must(t, err)
	expect.Equal(t, e.Message.Value, "record 00000199", "the last record")
}

// TestKeepFilesWhenTheClockWasSet checks that files with a time one day in the future or in the past are
// removed before new files.
func TestKeepFilesWhenTheClockWasSet(t *testing.T) {
	for name, ahead := range map[string]time.Duration{"set back a day": 24 * time.Hour, "set forward a day": -24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i := range 5 {
				at := time.Now().Add(ahead + time.Duration(i)*time.Minute)
				old := filepath.Join(dir, "app."+at.UTC().Format("20060102T150405.000Z")+".et")
				must(t, os.WriteFile(old, []byte("before the clock was set"), 0o600))
				must(t, os.Chtimes(old, at, at))
			}
			rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{MaxFileEntries: 20, KeepFiles: 5})
			const records = 400
			for i := range records {
				must(t, rec.Log(format.SpanRef{}, logRecord(i)))
				if i%20 == 0 {
					must(t, rec.Flush(context.Background()))
				}
			}
			must(t, rec.Close(t.Context()))
			n := rec.Stats().Files
			if n < 8 {
				t.Fatalf("%d files were finished, too few to tell", n)
			}
			var kept []int
			for _, name := range rotated(t, dir) {
				f, err := recorder.Open(name, nil)
				if err != nil {
					t.Errorf("%s is still there", name)
					continue
				}
				must(t, f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
					k := 0
					if e.Message.Valid {
						_, err := fmt.Sscanf(e.Message.Value, "record %d", &k)
						must(t, err)
						kept = append(kept, k)
					}
					return nil
				}))
				must(t, f.Close())
			}
			slices.Sort(kept)
			// All of the last records remain, without a gap.
			if len(kept) < 5*15 || kept[len(kept)-1] != records-1 || kept[0] != records-len(kept) {
				t.Errorf("%d records are left: %v", len(kept), kept)
			}
		})
	}
}

// TestRotateByAge checks that a new file begins although nothing is recorded.
func TestRotateByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{MaxFileAge: time.Hour})
		for i := range 100 {
			must(t, rec.Log(format.SpanRef{}, logRecord(i)))
		}
		time.Sleep(61 * time.Minute)
		synctest.Wait()
		expect.Equal(t, rec.Stats().Files, 1, "files finished")
		time.Sleep(3 * time.Hour) // no new file begins while the file is empty
		synctest.Wait()
		expect.Equal(t, rec.Stats().Files, 1, "files finished")
		must(t, rec.Close(t.Context()))
	})
}

// TestNoRoomForNext checks that the recorder continues in the old file if it cannot make a new one.
func TestNoRoomForNext(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root may write to every folder: the rest is looked at alone")
	}
	dir := t.TempDir()
	var mu sync.Mutex
	var told []error
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{
		MaxFileEntries: 20, Durability: recorder.DurabilityWriteThrough, OnError: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, err)
		},
	})
	aside := filepath.Join(dir, "gone")
	must(t, os.Rename(dir, dir+"x")) // nobody can make a file in dir now
	for i := range 100 {
		must(t, rec.Log(format.SpanRef{}, logRecord(i)))
	}
	must(t, os.Rename(dir+"x", dir))
	eventually(t, "it tells of that", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return slices.ContainsFunc(told, func(err error) bool { return errors.Is(err, recorder.ErrUnlinked) })
	})
	must(t, errors.Join(os.RemoveAll(aside)))
	if err := rec.Close(context.Background()); err != nil && !errors.Is(err, recorder.ErrUnlinked) {
		t.Error(err)
	}
	expect.Equal(t, tracetest.Open(t, filepath.Join(dir, "app.et")).Len(), 102, "entries")
}

// TestRotateStranger gives the name of the growing file to a file of another program. A rotation does not
// move that file.
func TestRotateStranger(t *testing.T) {
	for _, name := range []string{"app.et", "app.iet"} {
		dir := t.TempDir()
		rec := tracetest.CreateAt(t, filepath.Join(dir, name), &recorder.Options{MaxFileEntries: 32, KeepFiles: 1})
		must(t, os.Rename(rec.StreamPath(), hosttest.Path(t, "elsewhere")))
		must(t, os.WriteFile(rec.StreamPath(), []byte("a stranger's"), 0o600))
		for i := range 100 {
			must(t, rec.Log(format.SpanRef{}, logRecord(i)))
			must(t, rec.Flush(context.Background()))
		}
		if b, err := os.ReadFile(rec.StreamPath()); string(b) != "a stranger's" {
			t.Errorf("%s: the file has %.20q, %v", name, b, err)
		}
		expect.Is(t, rec.Err(), recorder.ErrUnlinked, "%s: Err", name)
		_ = rec.Close(context.Background()) // returns the error of Err
		found := false
		for _, n := range dirNames(t, dir) {
			b := readFile(t, filepath.Join(dir, n))
			found = found || string(b) == "a stranger's"
		}
		if !found {
			t.Errorf("%s: the other file is gone: %v", name, dirNames(t, dir))
		}
	}
}

func renameAway(dir string) error { return os.Rename(dir, dir+"-away") }
func renameBack(dir string) error { return os.Rename(dir+"-away", dir) }

// TestSpansThatNeverEnd leaks open spans that are together larger than a file. The next files repeat only
// some of them, and mostly hold new records. A span that a new file does not repeat is still complete if it
// ends later.
func TestSpansThatNeverEnd(t *testing.T) {
	const leaked, maxSize = 15_000, 10 << 20 / 4
	var told atomic.Int64
	dir := t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "app.et"), &recorder.Options{
		MaxFileSize: maxSize, KeepFiles: 100, MaxBlock: time.Minute,
		OnError: func(err error) {
			if !strings.Contains(err.Error(), "open spans are only in") {
				t.Error(err)
			}
			told.Add(1)
		},
	})
	res, err := rec.Resource(named("resource"))
	must(t, err)
	ref := func(i int) (r format.SpanRef) {
		binary.BigEndian.PutUint64(r.TraceID[:], uint64(i/100+1))
		binary.BigEndian.PutUint64(r.SpanID[:], uint64(i+1))
		return r
	}
	size := int64(0)
	const overhead = 160 // estimate of the bytes for ids, times and a copy of a name
	for i := range leaked {
		s := &tracetest.Span{Entry: *named(fmt.Sprint("leaked ", i)), Span: recorder.Span{Ref: ref(i), Resource: res, Time: int64(i + 1), Open: true}}
		if i%100 > 0 {
			s.Parent = ref(i - i%100)
		}
		s.Entry.Attributes = tracetest.Attributes(
			format.AttrSpanID, fmt.Sprintf("%016x", i+1),
			format.AttrTime, uint64(i+1),
			"url", strings.Repeat("u", 150),
		)
		must(t, tracetest.WriteSpan(rec, s))
		size += 150 + overhead
	}
	for i := 0; rec.Stats().Files < 3; i++ {
		e := logRecord(i)
		e.Add("pad", format.StringValue(strings.Repeat("p", 1000)))
		must(t, rec.Log(format.SpanRef{}, e))
		if i%100 == 0 {
			must(t, rec.Flush(t.Context()))
		}
		size += 1000 + overhead
	}
	if n := told.Load(); n == 0 {
		t.Error("OnError was not told how many spans stay behind")
	}
	// Record below spans that the last file does not repeat.
	must(t, rec.Log(ref(4), named("log of 4")))
	child := &tracetest.Span{Entry: *named("child of 5"), Span: recorder.Span{Ref: ref(leaked), Parent: ref(5), Resource: res, Time: 7, Wait: true}}
	child.Ref.TraceID = ref(5).TraceID
	must(t, tracetest.WriteSpan(rec, child))
	for i := range leaked {
		e := named(format.NameSpanEnd)
		e.Attributes = tracetest.Attributes(
			format.AttrSpanID, fmt.Sprintf("%016x", i+1),
			format.AttrDuration, uint64(5),
		)
		must(t, tracetest.EndSpan(rec, ref(i), nil, e))
		size += 2 * overhead
	}
	must(t, rec.Close(t.Context()))
	st := rec.Stats()
	if st.Entries.Dropped.Total() != 0 || st.Entries.Waiting != 0 || st.Entries.Offered != st.Entries.Written || st.Spans.Written != leaked+1 {
		t.Errorf("the account is %+v", st)
	}
	names := append(rotated(t, dir), rec.Path())
	slices.Sort(names)
	names = slices.Compact(names)
	if most := size/(maxSize*3/4) + 2; int64(len(names)) > most {
		t.Errorf("there are %d files of %d bytes, want at most %d", len(names), size, most)
	}
	ended := func(names ...string) (n int) {
		v := tracetest.OpenView(t, names...)
		whole := make(map[string]int)
		for r := range v.Rows() {
			if v.Role(r) != view.RoleSpan {
				continue
			}
			name := v.Name(r)
			if k, ok := strings.CutPrefix(name, "leaked "); ok {
				i, err := strconv.Atoi(k)
				must(t, err)
				d, _ := v.Duration(r)
				if start, _ := v.Start(r); d == 5 && start == int64(i+1) {
					whole[name]++
				}
			}
		}
		for name, k := range whole {
			expect.MustEqual(t, k, 1, "times that %s is there", name)
		}
		return len(whole)
	}
	expect.Equal(t, ended(names...), leaked, "spans that have ended in the folder")
	expect.Equal(t, ended(names[1:]...), leaked, "spans that have ended in all files but the first")
}
