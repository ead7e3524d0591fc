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
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A FaultyStream is a file whose calls fail as a test requests.
type FaultyStream struct {
	*os.File

	mu sync.Mutex

	onWrite  func(call int, b []byte) (n int, err error) // called before each write; only n bytes of b are written
	truncate error
	sync     error
	calls    int
	reads    int // number of calls of ReadAt
}

// Fail sets the failures of later calls, and restarts the count of writes.
func (f *FaultyStream) Fail(write func(call int, b []byte) (int, error), truncate, sync error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onWrite, f.truncate, f.sync, f.calls = write, truncate, sync, 0
}

// breakWrites makes all later writes fail with err.
func (f *FaultyStream) breakWrites(err error) {
	f.Fail(func(int, []byte) (int, error) { return 0, err }, nil, nil)
}

// Mend lets all calls succeed again.
func (f *FaultyStream) Mend() { f.Fail(nil, nil, nil) }

// Writes returns the number of writes since the last call of Fail.
func (f *FaultyStream) Writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *FaultyStream) Write(b []byte) (int, error) {
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

func (f *FaultyStream) ReadAt(b []byte, at int64) (int, error) {
	f.mu.Lock()
	f.reads++
	f.mu.Unlock()
	return f.File.ReadAt(b, at)
}

func (f *FaultyStream) Truncate(size int64) error {
	f.mu.Lock()
	err := f.truncate
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *FaultyStream) Sync() error {
	f.mu.Lock()
	err := f.sync
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.File.Sync()
}

var must = expect.Must

// faultRecorder returns a recorder that writes to a FaultyStream.
func faultRecorder(t *testing.T, o Options) (*Recorder, *FaultyStream) {
	t.Helper()
	return faultRecorderIn(t, t.TempDir(), o)
}

func faultRecorderIn(t *testing.T, dir string, o Options) (*Recorder, *FaultyStream) {
	t.Helper()
	r, err := Create(filepath.Join(dir, "app.et"), &o)
	must(t, err)
	t.Cleanup(func() { _ = r.Close(context.Background()) }) // may return an error that the test has caused
	return r, FailDisk(r)
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

func allDurabilities(t *testing.T, fn func(t *testing.T, d Durability)) {
	for d := range DurabilityNone {
		t.Run(d.String(), func(t *testing.T) { fn(t, d) })
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

// TestClockGoesBack checks that the entries of one caller remain in order if the clock is set back, and
// that files that are finished at the same time get different names.
func TestClockGoesBack(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		r, err := Create(hosttest.Path(t, "app.iet"), &Options{Durability: d})
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
			r, err := Create(hosttest.Path(t, "app.et"), &Options{Durability: d, MaxFileEntries: 20})
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
