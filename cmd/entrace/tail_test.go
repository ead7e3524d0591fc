package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/file/osfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
	"github.com/entrace-go/entrace/recorder"
)

// say records n log records, numbered from first on, and flushes after each.
func say(t *testing.T, rec *recorder.Recorder, first, n int) {
	t.Helper()
	for i := first; i < first+n; i++ {
		for _, l := range []format.Level{format.LevelInfo, format.LevelError} {
			must(t, rec.Log(format.SpanRef{}, level(l, logged(fmt.Sprintf("%s %d.", l, i)))))
		}
		must(t, rec.Flush(t.Context()))
	}
}

// TestTailWaitsForFile checks that tail says that it waits for the file, and prints the entries of the file
// when it exists.
func TestTailWaitsForFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.et")
	tail := start(t, "tail", "-f", name)
	tail.await(&tail.errs, "waiting for "+name+"\n")
	must(t, traceOf("sample", name).Close(t.Context()))
	tail.await(&tail.out, "cart loaded")
	tail.exit(exitFine)
}

// TestTailWaitsForFirstBytes checks that tail waits for the first bytes of an empty file, because a program
// can be about to write them.
func TestTailWaitsForFirstBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	whole := read(t, filepath.Join("..", "..", "format", "testdata", "v1.iet"))
	name := filepath.Join(dir, "app.iet")
	f, err := osfile.CreateAppend(name)
	must(t, err)
	if err := osfile.Lock(f, true); errors.Is(err, osfile.ErrNoLocks) {
		t.Skip(err)
	} else {
		must(t, err)
	}
	for _, q := range []string{"", "{}"} {
		must(t, f.Truncate(0))
		args := []string{"tail", "-f", "-n", "-1", name}
		if q != "" {
			args = append(args, "-q", q)
		}
		tail := start(t, args...)
		time.Sleep(100 * time.Millisecond) // so that tail sees the empty file; otherwise the test proves less
		_, err = f.Write(whole)
		must(t, err)
		tail.await(&tail.out, "\n")
		tail.stop()
	}
	must(t, f.Close())
}

// TestTailFollowsWriterWithoutLock checks that tail -f waits for the next entry if the writer holds no lock.
func TestTailFollowsWriterWithoutLock(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.iet")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	w, err := format.NewWriter(f, format.V2, format.IET, nil)
	must(t, err)
	write := func(e *format.TraceEntry) {
		_, err := w.Write(e)
		must(t, errors.Join(err, w.Flush()))
	}
	write(named("root"))
	write(logged("before"))
	for _, q := range []string{"", "{}"} {
		tail := start(t, "tail", "-f", "-n", "1", "-q", q, name)
		tail.await(&tail.out, "before")
		write(logged("with -q '" + q + "'"))
		tail.await(&tail.out, "with -q '"+q+"'")
		tail.stop()
		tail.exit(exitFine)
		write(logged("before"))
	}
}

// TestTailRowsOfFileThatEndsWhileItIsOpened checks that tail reads the rows from the ET if the program ends
// while tail opens the file.
func TestTailRowsOfFileThatEndsWhileItIsOpened(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.et")
	rec := traceOf("sample", name)
	var out, errs strings.Builder
	c := &console{out: &out, err: &errs}
	o := tailOptions{follow: true, lines: -1, rowFlags: rowFlags{time: timeLocal, selection: selection{query: "{}"}}}
	end := sync.OnceValue(func() error { return rec.Close(t.Context()) })
	tail := newTailer(c, name, o)
	defer tail.close()
	must(t, tail.follow(duringOpen{t.Context(), end}))
	must(t, end())
	if got := strings.Count(out.String(), "cart loaded"); got != 1 {
		t.Errorf("got the log record %d times, want it once:\n%s%s", got, &out, &errs)
	}
}

// A duringOpen is a context that calls end when the code that opens a file asks whether it is done.
type duringOpen struct {
	context.Context

	end func() error
}

func (c duringOpen) Err() error { return errors.Join(c.end(), c.Context.Err()) }

// TestTailFollowsRotation follows a recording, and also the rows that a query selects, from file to file.
// Each row is printed once.
func TestTailFollowsRotation(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.et")
	rec := traceOf("rotated", name, "0")
	say(t, rec, 0, 5)
	all := start(t, "tail", "-f", "-n", "-1", name)
	errs := start(t, "tail", "-f", "-n", "2", "-q", "level = error", name)
	all.await(&all.out, "ERROR 4.")
	errs.await(&errs.out, "ERROR 4.")
	for i := 5; i < 40; i++ { // tail sees each file before it is removed
		say(t, rec, i, 1)
		all.await(&all.out, fmt.Sprintf("ERROR %d.", i))
		errs.await(&errs.out, fmt.Sprintf("ERROR %d.", i))
	}
	if n := rec.Stats().Files; n < 2 {
		t.Errorf("%d files were finished", n)
	}
	must(t, rec.Close(t.Context()))
	all.exit(exitFine)
	errs.exit(exitFine)
	for i := range 40 {
		for _, level := range []string{"INFO", "ERROR"} {
			text, selected := fmt.Sprintf(" %s %d.\n", level, i), 0
			if level == "ERROR" && i >= 3 {
				selected = 1
			}
			expect.Equal(t, strings.Count(all.out.String(), text), 1, "times that %q comes\n%s", text, &all.out)
			expect.Equal(t, strings.Count(errs.out.String(), text), selected, "times that with -q %q comes\n%s", text, &errs.out)
		}
	}
}

// An onFirst is a writer that calls fn before the first write, and stop after the text last.
type onFirst struct {
	strings.Builder

	once sync.Once
	fn   func()
	last string
	stop func()
}

func (w *onFirst) Write(b []byte) (int, error) {
	w.once.Do(w.fn)
	if w.stop != nil && strings.Contains(string(b), w.last) {
		w.stop()
	}
	return w.Builder.Write(b)
}

// TestTailSlow checks that tail on a slow terminal prints every record once, even if the program begins several files
// and ends while tail prints the first one.
func TestTailSlow(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"app.et"}, {"."}, {"app.et", "-q", "{}"}, {".", "-q", "{}"}, {"app.et", "--time", "offset"}} {
		dir := t.TempDir()
		rec := traceOf("rotated", filepath.Join(dir, "app.et"), "0")
		say(t, rec, 0, 7)
		out := &onFirst{fn: func() {
			say(t, rec, 7, 50)
			must(t, rec.Close(t.Context()))
		}}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		if args[0] == "." { // tail waits for the next program: end it after the last record
			out.last, out.stop = "ERROR 56.", stop
		}
		errs := new(transcript)
		code := run(ctx, append([]string{"tail", "-f", "-n", "-1", filepath.Join(dir, args[0])}, args[1:]...), nil, out, errs)
		for i := range 57 {
			if n := strings.Count(out.String(), fmt.Sprintf(" ERROR %d.", i)); n != 1 || code != exitFine {
				t.Errorf("%q: record %d comes %d times, exit %d:\n%s%s", args, i, n, code, out.String(), errs)
			}
		}
	}
}

// TestTailEndsWithNextFileOfDeadProgram checks that tail prints the next file, and ends with its state, if the program
// had died before tail opened that file.
func TestTailEndsWithNextFileOfDeadProgram(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.et")
	rec := traceOf("rotated", name, "0")
	say(t, rec, 0, 7)
	stream := rec.StreamPath()
	out := &onFirst{fn: func() {
		say(t, rec, 7, 50)
		b := read(t, stream)
		must(t, rec.Close(t.Context()))
		must(t, os.Remove(name))
		must(t, os.WriteFile(stream, b, 0o600))
	}}
	errs := new(transcript)
	code := run(t.Context(), []string{"tail", "-f", "-n", "-1", name}, nil, out, errs)
	if code != exitData || !strings.Contains(errs.String(), stream+": killed") {
		t.Errorf("exit %d, it says %q", code, errs)
	}
	for i := range 57 {
		expect.Equal(t, strings.Count(out.String(), fmt.Sprintf(" ERROR %d.", i)), 1, "times that record %d comes", i)
	}
}

// TestTailSaysWhatWasRemoved checks that tail says so if files were removed before it read them.
func TestTailSaysWhatWasRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "app.et")
	rec := traceOf("rotated", name, "0")
	say(t, rec, 0, 7)
	var removed string
	out := &onFirst{fn: func() {
		say(t, rec, 7, 50)
		must(t, rec.Close(t.Context()))
		renamed, err := deadtrace.Archived(rec.StreamPath())
		must(t, err)
		for _, name := range renamed[:2] {
			must(t, os.Remove(name))
		}
		removed = renamed[2]
	}}
	errs := new(transcript)
	code := run(t.Context(), []string{"tail", "-f", "-n", "-1", name}, nil, out, errs)
	if want := "files before " + removed + " may have been removed before they were read\n"; code != exitFine || !strings.HasSuffix(errs.String(), want) {
		t.Errorf("exit %d, it says %q, want %q", code, errs, want)
	}
}

// TestViewSaysWhatItSkipped checks that view --follow says which files came between the file that it showed and the one
// that it shows now.
func TestViewSaysWhatItSkipped(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.et")
	rec := traceOf("rotated", name, "0")
	say(t, rec, 0, 2)
	errs := new(transcript)
	shown, err := openShown(t.Context(), &console{err: errs}, []string{name}, &viewOptions{follow: true}, nil)
	must(t, err)
	defer shown.close()
	say(t, rec, 2, 30)
	_, err = shown.reopen(t.Context())
	must(t, err)
	must(t, rec.Close(t.Context()))
	renamed, err := deadtrace.Archived(rec.StreamPath())
	must(t, err)
	var want strings.Builder
	for _, name := range renamed[1:] {
		fmt.Fprintf(&want, "entrace: %s is older than the file that the viewer shows now: 'entrace view %s' shows it\n", name, name)
	}
	if got := errs.String(); got != want.String() || strings.Count(got, "\n") != len(shown.notShown()) || want.String() == "" {
		t.Errorf("it says\n%s, want\n%s; notices %q", got, want.String(), shown.notShown())
	}
}

// TestTailFollowEndsWhenProgramDies checks that tail -f prints the state of the file and ends when the
// program dies.
func TestTailFollowEndsWhenProgramDies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rec := traceOf("sample", filepath.Join(dir, "app.et"))
	b := read(t, filepath.Join(dir, "app.iet"))
	must(t, rec.Close(t.Context()))
	for i, args := range [][]string{{}, {"-q", "{}"}} {
		name := filepath.Join(dir, fmt.Sprint(i, ".iet"))
		must(t, os.WriteFile(name, b, 0o600))
		lock, err := os.OpenFile(name, os.O_RDWR, 0)
		must(t, err)
		defer lock.Close()
		must(t, osfile.Lock(lock, true))
		tail := start(t, append([]string{"tail", "-f", name}, args...)...)
		tail.await(&tail.out, "cart loaded")
		must(t, osfile.Unlock(lock))
		tail.exit(exitData)
		if got, want := tail.errs.String(), fmt.Sprintf("%s: killed; these spans were open: SELECT; 'entrace recover %s' finishes the file\n", name, name); !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s, want %s", args, got, want)
		}
	}
}

// TestTailFollowGoesOnWithNextProgram follows a folder in which the newest file belongs to a dead program.
// tail continues with the files of the next programs: one with the same name, and one with another name.
func TestTailFollowGoesOnWithNextProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live := filepath.Join(t.TempDir(), "live.iet")
	rec := traceOf("sample", live)
	must(t, os.WriteFile(filepath.Join(dir, "app.iet"), read(t, live), 0o600))
	must(t, rec.Close(t.Context()))
	tail := start(t, "tail", "-f", "-n", "0", dir)
	tail.await(&tail.errs, "app.iet: killed")
	expect.Equal(t, tail.out.String(), "", "-n 0 begins")
	for _, name := range []string{"app.et", "next.et"} {
		rec := traceOf("empty", filepath.Join(dir, name))
		for !strings.Contains(tail.out.String(), "of "+name) { // until this file is newer than the finished one
			must(t, rec.Log(format.SpanRef{}, logged("of "+name)))
			must(t, rec.Flush(t.Context()))
			select {
			case <-tail.done:
				t.Fatalf("tail ended before it printed the records of %s: %s", name, &tail.errs)
			case <-time.After(time.Millisecond):
			}
		}
		must(t, rec.Close(t.Context()))
	}
	tail.stop()
	tail.exit(exitFine)
}

// TestTailFollowGoesOnAtOnce checks that tail -f of a folder does not miss a program that begins, with the name of the
// dead one, while tail says that the program before it has died.
func TestTailFollowGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	live := filepath.Join(t.TempDir(), "live.iet")
	dead := traceOf("sample", live)
	must(t, os.WriteFile(filepath.Join(dir, "app.iet"), read(t, live), 0o600))
	must(t, dead.Close(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var next *recorder.Recorder
	errs := &onFirst{fn: func() {}, last: "app.iet: killed", stop: func() {
		next = traceOf("empty", filepath.Join(dir, "app.et"))
		go func() {
			for ctx.Err() == nil { // until this file is newer than the finished one
				_ = next.Log(format.SpanRef{}, logged("the next program"))
				_ = next.Flush(ctx)
				time.Sleep(time.Millisecond)
			}
		}()
	}}
	out := &onFirst{fn: func() {}, last: "the next program", stop: cancel}
	run(ctx, []string{"tail", "-f", "-n", "0", dir}, nil, out, errs)
	must(t, next.Close(t.Context()))
	if !strings.Contains(out.String(), "the next program") {
		t.Errorf("the record of the next program does not come: %q, %s", out, errs)
	}
}

// TestTailFollowOfLargeFile checks that tail -f continues after the last entries of a large file. It has not
// read the file from the beginning, and does not know the ids of these entries.
func TestTailFollowOfLargeFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "app.iet")
	rec := traceOf("empty", name)
	r := recording{rec}
	parent, filling := r.add(0, named("parent")), strings.Repeat("x", 1000)
	for range 17 << 10 {
		r.add(parent, logged(filling))
	}
	r.add(parent, logged("the last one"))
	must(t, rec.Flush(t.Context()))
	tail := start(t, "tail", "-f", "-n", "1", name)
	tail.await(&tail.out, "the last one")
	r.add(parent, logged("another one"))
	must(t, rec.Close(t.Context()))
	tail.exit(exitFine)
	if got := tail.out.String(); tail.errs.String() != "" || strings.Contains(got, "xxx") || !strings.Contains(got, "another one") {
		t.Errorf("%s\n%s", &tail.errs, got)
	}
}

// TestTailOrderWithinATick checks that among rows that end at the same time, a span comes after the rows
// below it.
func TestTailOrderWithinATick(t *testing.T) {
	t.Parallel()
	list := []happened{{1, 5, true}, {2, 5, false}, {3, 5, true}, {4, 5, false}, {5, 4, false}}
	slices.SortFunc(list, happened.compare)
	want := []happened{{5, 4, false}, {2, 5, false}, {4, 5, false}, {3, 5, true}, {1, 5, true}}
	expect.Slice(t, list, want, "list")
}
