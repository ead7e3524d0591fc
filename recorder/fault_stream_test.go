package recorder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A faultyStream is a file whose calls fail as a test requests.
type faultyStream struct {
	*os.File

	mu sync.Mutex

	onWrite  func(call int, b []byte) (n int, err error) // called before each write; only n bytes of b are written
	truncate error
	sync     error
	calls    int
	reads    int // number of calls of ReadAt
}

// fail sets the failures of later calls, and restarts the count of writes.
func (f *faultyStream) fail(write func(call int, b []byte) (int, error), truncate, sync error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onWrite, f.truncate, f.sync, f.calls = write, truncate, sync, 0
}

// breakWrites makes all later writes fail with err.
func (f *faultyStream) breakWrites(err error) {
	f.fail(func(int, []byte) (int, error) { return 0, err }, nil, nil)
}

// mend lets all calls succeed again.
func (f *faultyStream) mend() { f.fail(nil, nil, nil) }

func (f *faultyStream) Write(b []byte) (int, error) {
	f.mu.Lock()
	f.calls++
	call, write := f.calls, f.onWrite
	f.mu.Unlock()
	n, err := len(b), error(nil)
	if write != nil {
		n, err = write(call, b)
	}
	m, werr := f.File.Write(b[:n])
	return m, errors.Join(err, werr)
}

func (f *faultyStream) ReadAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	return f.File.ReadAt(b, at)
}

func (f *faultyStream) Truncate(size int64) error {
	f.mu.Lock()
	err := f.truncate
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *faultyStream) Sync() error {
	f.mu.Lock()
	err := f.sync
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.File.Sync()
}

var must = expect.Must

// faultRecorder returns a recorder that writes to a faultyStream.
func faultRecorder(t *testing.T, o Options) (*Recorder, *faultyStream) {
	t.Helper()
	return faultRecorderIn(t, t.TempDir(), o)
}

func faultRecorderIn(t *testing.T, dir string, o Options) (*Recorder, *faultyStream) {
	t.Helper()
	r, err := Create(filepath.Join(dir, "app.et"), &o)
	must(t, err)
	t.Cleanup(func() { _ = r.Close(context.Background()) }) // may return an error that the test has caused
	var f *faultyStream
	must(t, onWriter(r, func(w *writer) {
		f = &faultyStream{File: w.file.f}
		w.file.w = f
	}))
	return r, f
}

// onWriter runs fn on the goroutine that writes the file.
func onWriter(r *Recorder, fn func(w *writer)) error {
	return r.target.(*writer).ask(context.Background(), func(w *writer) error {
		fn(w)
		return nil
	})
}

func faultEntry(name string) *format.TraceEntry {
	return &format.TraceEntry{
		Message: format.Some("m"), Metadata: format.Metadata{Name: name, Level: format.LevelInfo},
		Attributes: []format.Attribute{{Name: format.AttrTime, Value: format.U64Value(1)}},
	}
}

// logNamed records a log record.
func logNamed(r *Recorder, name string) error { return r.Log(format.SpanRef{}, faultEntry(name)) }

// writeNamed records a log record and writes it to the file.
func writeNamed(t testing.TB, r *Recorder, name string) {
	t.Helper()
	must(t, logNamed(r, name))
	must(t, r.Flush(t.Context()))
}

func faultRef(id byte) format.SpanRef {
	return format.SpanRef{TraceID: [16]byte{15: 1}, SpanID: [8]byte{7: id}}
}

func faultSpan(name string, id, parent byte) *testSpan {
	s := &testSpan{Entry: *faultEntry(name), Span: Span{Ref: faultRef(id), Time: 1}}
	s.Entry.Message = format.Optional[string]{}
	s.Entry.Attributes = append(s.Entry.Attributes, format.Attribute{Name: format.AttrSpanID, Value: format.StringValue(fmt.Sprintf("%016x", id))})
	if parent != 0 {
		s.Parent = faultRef(parent)
	}
	return s
}

// Balanced reports an error of the test if the counts do not add up.
func Balanced(t *testing.T, st Stats) {
	t.Helper()
	for what, c := range map[string]Counts{"entries": st.Entries, "spans": st.Spans} {
		if c.Offered != c.Written+c.Waiting+c.Dropped.Total() {
			t.Errorf("the account of %s is %+v", what, c)
		}
	}
}

// faultNames returns the names of the entries of a file, except the root. The file must not be damaged.
func faultNames(t *testing.T, name string) (names []string) {
	t.Helper()
	f, err := Open(name, nil)
	must(t, err)
	defer f.Close()
	expect.Is(t, f.Damage(), nil, "%s", name)
	must(t, f.Walk(1, func(_ uint32, e *format.TraceEntry) error {
		names = append(names, strings.Clone(e.Metadata.Name))
		return nil
	}))
	return names
}

// onEntryEnd checks that the growing file ends at the end of an entry, and that its size and number of
// entries are those in Stats. It tries this several times, because the writer may write between the two.
func onEntryEnd(t *testing.T, r *Recorder, what string) {
	t.Helper()
	for try := 1; ; try++ {
		st := r.Stats()
		f, err := Open(r.StreamPath(), nil)
		must(t, err)
		if f.Damage() == nil && f.Size() == st.Bytes && uint64(f.Len()) == st.Entries.Written {
			must(t, f.Close())
			return
		}
		if try == 200 {
			t.Errorf("%s: the file has %d entries in %d bytes, %v; the account is %+v", what, f.Len(), f.Size(), f.Damage(), st)
			must(t, f.Close())
			return
		}
		must(t, f.Close())
		time.Sleep(5 * time.Millisecond)
	}
}

func allDurabilities(t *testing.T, fn func(t *testing.T, d Durability)) {
	for d := range DurabilityNone {
		t.Run(d.String(), func(t *testing.T) { fn(t, d) })
	}
}

// waitsForFile reports whether calls wait until the file is written, so that they return errors of the
// file.
func waitsForFile(d Durability) bool { return d == DurabilityWriteThrough || d == DurabilityPower }

// TestErrorAtEveryWrite makes the kth write fail, alone or together with the next two.
func TestErrorAtEveryWrite(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO} {
			for k := 1; k <= 8; k++ {
				for _, times := range []int{1, 3} {
					errorAtWrite(t, d, errno, k, times)
				}
			}
		}
	})
}

func errorAtWrite(t *testing.T, d Durability, errno error, k, times int) {
	t.Helper()
	what := fmt.Sprintf("%v at write %d, %d times", errno, k, times)
	var mu sync.Mutex
	var told []error
	r, f := faultRecorder(t, Options{Durability: d, OnError: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}})
	f.fail(func(call int, b []byte) (int, error) {
		if call >= k && call < k+times {
			return 0, errno
		}
		return len(b), nil
	}, nil, nil)
	var want []string
	refused := 0
	for i := range 12 {
		name := fmt.Sprint("e", i)
		var err error
		switch i % 4 {
		case 0:
			s := faultSpan(name, byte(i+1), 0)
			s.Open = true
			err = writeSpan(r, s)
		case 3:
			err = endSpan(r, faultRef(byte(i-2)), faultEntry(name))
			if errors.Is(err, errNotOpen) { // the start of the span was refused
				err = nil
				continue
			}
		default:
			err = r.Log(faultRef(byte(i-i%4+1)), faultEntry(name))
		}
		want = append(want, name) // the record of a refused call may still be written later
		if err != nil {
			refused++
			expect.Is(t, err, errno, "%s: %s was refused as", what, name)
		}
		_ = r.Flush(context.Background()) // fails if the write fails
		onEntryEnd(t, r, what)
		Balanced(t, r.Stats())
	}
	st := r.Stats()
	if waitsForFile(d) != (refused > 0) || st.Entries.Dropped.Total() > 0 {
		t.Errorf("%s: %d were refused, %+v", what, refused, st.Entries)
	}
	expect.Is(t, r.Err(), errno, "%s: Err", what)
	expect.Is(t, r.Close(context.Background()), errno, "%s: Close", what)
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 1 || !errors.Is(told[0], errno) {
		t.Errorf("%s: OnError was told %v", what, told)
	}
	got := faultNames(t, r.Path())
	slices.Sort(got)
	want = append(want, mapping.NameEnd)
	slices.Sort(want)
	expect.Slice(t, got, want, "%s: the file has", what)
}

// TestChildOfRefused checks that a span is written later although its call failed, and that its child spans
// are written below it.
func TestChildOfRefused(t *testing.T) {
	r, f := faultRecorder(t, Options{Durability: DurabilityWriteThrough})
	res, err := r.Resource(faultEntry(format.NameResource))
	must(t, err)
	f.breakWrites(syscall.ENOSPC)
	lost := faultSpan("lost", 1, 0)
	lost.Open, lost.Resource = true, res
	expect.Is(t, writeSpan(r, lost), syscall.ENOSPC, "WriteSpan")
	f.mend()
	child := faultSpan("child", 2, 1)
	child.Resource = res
	must(t, writeSpan(r, child))
	must(t, r.Log(faultRef(1), faultEntry("log")))
	_ = r.Close(context.Background()) // returns the error of the failed write
	g, err := Open(r.Path(), nil)
	must(t, err)
	defer g.Close()
	for id, parent := range map[uint32]uint32{2: 1, 3: 2, 4: 2} {
		e, err := g.Entry(id)
		must(t, err)
		expect.Equal(t, e.Parent, parent, "%s is below", e.Metadata.Name)
	}
}

// TestShortWriteAtEveryByte ends a write after each possible number of bytes.
func TestShortWriteAtEveryByte(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		for n := 0; ; n++ {
			what := fmt.Sprintf("%v, %d bytes", d, n)
			r, f := faultRecorderIn(t, hosttest.MemoryDir(t), Options{Durability: d})
			writeNamed(t, r, "before")
			var size atomic.Int64
			f.fail(func(call int, b []byte) (int, error) {
				if call > 1 {
					return 0, syscall.ENOSPC
				}
				size.Store(int64(len(b)))
				return min(n, len(b)), syscall.ENOSPC
			}, nil, nil)
			s := faultSpan("span", 1, 0)
			s.Children = []format.TraceEntry{*faultEntry("event 1"), *faultEntry("event 2")}
			err := errors.Join(writeSpan(r, s), r.Flush(context.Background()))
			if !errors.Is(err, syscall.ENOSPC) && int64(n) < size.Load() {
				t.Errorf("%s: %v", what, err)
			}
			onEntryEnd(t, r, what)
			Balanced(t, r.Stats())
			f.mend()
			must(t, r.Log(faultRef(1), faultEntry("after")))
			must(t, r.Flush(context.Background()))
			onEntryEnd(t, r, what)
			_ = r.Close(context.Background()) // returns the error of the short write
			want := []string{"before", "span", "event 1", "event 2", "after", mapping.NameEnd}
			if got := faultNames(t, r.Path()); !slices.Equal(got, want) {
				t.Fatalf("%s: the file has %q, want %q", what, got, want)
			}
			if int64(n) >= size.Load() {
				return
			}
		}
	})
}

// TestTruncateFails makes a write and the following truncate fail, so that a part of an entry remains in
// the file. The recorder writes nothing after that part, and recovery cuts it off.
func TestTruncateFails(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		r, f := faultRecorder(t, Options{Durability: d})
		writeNamed(t, r, "before")
		f.fail(func(int, []byte) (int, error) { return 7, syscall.EIO }, syscall.EROFS, nil)
		err := errors.Join(logNamed(r, "torn"), r.Flush(context.Background()))
		if !errors.Is(err, syscall.EIO) || !errors.Is(err, syscall.EROFS) {
			t.Errorf("the error is %v", err)
		}
		f.mend()
		want := []string{"before"}
		if d == DurabilityProcess {
			want = append(want, "torn")
		}
		refused := 0
		for i := range 300 { // more than the journal holds
			e := faultEntry(fmt.Sprint("e", i))
			e.Message = format.Some(strings.Repeat("x", 30000))
			if err := r.Log(format.SpanRef{}, e); err != nil {
				refused++
				expect.Is(t, err, syscall.EIO, "entry %d", i)
			} else if d == DurabilityProcess {
				want = append(want, e.Metadata.Name)
			}
		}
		expect.Is(t, expect.Err(r.Append(faultEntry("append"))), syscall.EIO, "Append")
		expect.Is(t, r.Sync(context.Background()), syscall.EIO, "Sync")
		st := r.Stats()
		Balanced(t, st)
		if f.calls > 0 || r.Err() == nil || !waitsForFile(d) && st.Entries.Dropped.IO < uint64(refused) || refused == 0 {
			t.Errorf("%d writes, Err %v, %d refused; %+v", f.calls, r.Err(), refused, st.Entries)
		}
		expect.Is(t, r.Close(context.Background()), syscall.EIO, "Close")
		_, err = Recover(r.Path(), "")
		must(t, err)
		got := slices.DeleteFunc(faultNames(t, r.Path()), func(s string) bool { return s == mapping.NameEnd || s == mapping.NameRecovered })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("after recovery the file has %d entries, want %d; the first are %q", len(got), len(want), got[:min(4, len(got))])
		}
	})
}

// TestNewFileAfterFailedSync checks that a new file begins after a failed sync, because another sync of the
// same file would not bring lost data back. Calls succeed in the new file. If its syncs fail as well, the
// recorder does not begin another file for a while.
func TestNewFileAfterFailedSync(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		r, f := faultRecorder(t, Options{Durability: d})
		must(t, r.Sync(context.Background()))
		fail := func(name string) {
			f.fail(nil, nil, syscall.EIO)
			err := errors.Join(logNamed(r, name), r.Sync(context.Background()))
			expect.Is(t, err, syscall.EIO, "Sync")
		}
		fail("x")
		must(t, r.Sync(context.Background()))
		writeNamed(t, r, "y")
		must(t, onWriter(r, func(w *writer) {
			f = &faultyStream{File: w.file.f}
			w.file.w = f
		}))
		fail("z")
		f.mend()
		expect.Is(t, r.Sync(context.Background()), syscall.EIO, "Sync soon after the new file")
		Balanced(t, r.Stats())
		expect.Equal(t, r.Stats().Files, 1, "files rotated out")
		expect.Is(t, r.Close(context.Background()), syscall.EIO, "Close")
		expect.Slice(t, faultNames(t, r.Path()), []string{"y", "z", mapping.NameEnd}, "the file has")
	})
}

// TestTraceIsFull records until the ids of entries exceed 32 bits.
func TestTraceIsFull(t *testing.T) {
	for _, rotates := range []bool{false, true} {
		t.Run(fmt.Sprint("rotates ", rotates), func(t *testing.T) {
			o := Options{Durability: DurabilityWriteThrough}
			if rotates {
				o.MaxFileSize = 1 << 40
			}
			r, err := Create(filepath.Join(t.TempDir(), "app.iet"), &o)
			must(t, err)
			next := uint64(1<<32 - 3)
			if rotates {
				next = fullAt - 1
			}
			must(t, onWriter(r, func(w *writer) { w.placer.Resume(next, w.file.n, 0) }))
			for range 6 {
				must(t, logNamed(r, "x"))
			}
			st := r.Stats()
			refused := int(st.Entries.Dropped.Full)
			Balanced(t, st)
			switch {
			case !rotates && (refused != 3 || st.Entries.Dropped.Full != 3 || st.Files != 0):
				t.Errorf("%d were refused; %+v", refused, st)
			case rotates && (refused != 0 || st.Entries.Dropped.Total() != 0 || st.Files != 1):
				t.Errorf("%d were refused; %+v", refused, st)
			}
			if err := r.Close(context.Background()); !rotates != errors.Is(err, format.ErrFull) {
				t.Errorf("Close: %v", err)
			}
			names, err := deadtrace.Archived(r.stream)
			must(t, err)
			n := 0
			for _, name := range append(names, r.stream) {
				n += len(slices.DeleteFunc(faultNames(t, name), func(s string) bool { return s == mapping.NameEnd }))
			}
			expect.Equal(t, n, 6-refused, "entries in the files, %d were refused", refused)
		})
	}
}

// TestDiskStands checks that calls wait no longer than MaxBlock while a write does not return, and that
// refused records are counted.
func TestDiskStands(t *testing.T) {
	r, f := faultRecorder(t, Options{MaxBlock: 10 * time.Millisecond})
	resume := hang(t, f)
	watchdog := time.AfterFunc(20*time.Second, func() {
		t.Error("a call waits for the disk for longer than MaxBlock")
		resume()
	})
	defer watchdog.Stop()
	var wg sync.WaitGroup
	var taken, refused atomic.Uint64
	for g := range 64 {
		wg.Go(func() {
			for i := range 12 {
				e := faultEntry(fmt.Sprint(g, " ", i))
				e.Message = format.Some(strings.Repeat("x", 20000))
				switch err := r.Log(format.SpanRef{}, e); {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, ErrOverflow):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	resume()
	st := r.Stats()
	Balanced(t, st)
	if refused.Load() == 0 || st.Entries.Dropped.Overflow != refused.Load() || taken.Load()+refused.Load() != 64*12 {
		t.Errorf("%d taken, %d refused; %+v", taken.Load(), refused.Load(), st.Entries)
	}
	_ = r.Close(context.Background()) // returns the error of the refused records
	if n := len(faultNames(t, r.Path())); uint64(n) != taken.Load()+1 {
		t.Errorf("%d entries are in the file, want %d", n, taken.Load()+1)
	}
}

// TestLargeParentSurvivesFullDisk records a span that is larger than a segment of the journal, and a span
// that waits for it. A failed write loses neither of them.
func TestLargeParentSurvivesFullDisk(t *testing.T) {
	r, f := faultRecorder(t, Options{})
	child := faultSpan("child", 2, 1)
	child.Wait = true
	must(t, writeSpan(r, child))
	must(t, r.Flush(context.Background()))
	f.breakWrites(syscall.ENOSPC)
	parent := faultSpan("parent", 1, 0)
	parent.Entry.Attributes = append(parent.Entry.Attributes, format.Attribute{Name: "x", Value: format.StringValue(strings.Repeat("x", 100_000))})
	must(t, writeSpan(r, parent))
	expect.Is(t, r.Flush(context.Background()), syscall.ENOSPC, "Flush")
	f.mend()
	Balanced(t, r.Stats())
	_ = r.Close(context.Background()) // returns the error of the failed write
	expect.Slice(t, faultNames(t, r.Path()), []string{"parent", "child", mapping.NameEnd}, "the file has")
}

// TestWaitingAgeEverywhere checks that a span waits no longer than MaxWaitingAge, even if the program
// records nothing else, and that the timer stops when no span waits.
func TestWaitingAgeEverywhere(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		synctest.Test(t, func(t *testing.T) {
			r, _ := faultRecorder(t, Options{Durability: d, MaxWaitingAge: 10 * time.Second})
			s := faultSpan("span", 2, 9)
			s.Wait = true
			must(t, writeSpan(r, s))
			time.Sleep(30 * time.Second)
			synctest.Wait()
			expect.Equal(t, r.Stats().Spans.Waiting, 0, "spans wait")
			must(t, r.Close(context.Background()))
		})
	})
}

// TestAgeInQuietProgram checks that a new file begins after MaxFileAge although nothing is recorded.
func TestAgeInQuietProgram(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		synctest.Test(t, func(t *testing.T) {
			r, _ := faultRecorder(t, Options{Durability: d, MaxFileAge: 10 * time.Second})
			for range 20 {
				must(t, logNamed(r, "x"))
			}
			time.Sleep(15 * time.Second)
			synctest.Wait()
			expect.Equal(t, r.Stats().Files, 1, "files rotated out")
			must(t, r.Close(context.Background()))
		})
	})
}

// TestClockGoesBack checks that the entries of one caller remain in order if the clock is set back, and
// that files that are finished at the same time get different names.
func TestClockGoesBack(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		r, err := Create(filepath.Join(t.TempDir(), "app.iet"), &Options{Durability: d})
		must(t, err)
		now := time.Now().UnixNano()
		var want []string
		b := r.Batch()
		for i, off := range []int64{0, 0, -int64(time.Hour), int64(time.Hour), 0, -now, -2 * now, now, 5, 4, 3} {
			name := fmt.Sprint("e", i)
			b.Log(format.SpanRef{}, now+off)
			b.Entry(faultEntry(name))
			must(t, b.Write())
			want = append(want, name)
		}
		must(t, r.Close(context.Background()))
		if got := faultNames(t, r.Path()); !slices.Equal(got, append(want, mapping.NameEnd)) && !raceEnabled {
			t.Errorf("%v: the order is %q", d, got)
		}
		synctest.Test(t, func(t *testing.T) { // here the time does not advance
			r, err := Create(filepath.Join(t.TempDir(), "app.et"), &Options{Durability: d, MaxFileEntries: 20})
			must(t, err)
			for i := range 200 {
				writeNamed(t, r, fmt.Sprint(i))
			}
			must(t, r.Close(context.Background()))
			names, err := deadtrace.Archived(r.stream)
			must(t, err)
			found := make(map[string]bool)
			for _, name := range append(names, r.Path()) {
				for _, n := range faultNames(t, name) {
					found[n] = true
				}
			}
			if len(names) < 8 || len(found) != 201 {
				t.Errorf("%v: %d files with %d names", d, len(names), len(found))
			}
		})
	})
}
