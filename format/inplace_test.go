package format

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
)

// rawFill returns what encodes an entry for LogRaw in the version of r, and how
// much room it wants.
func rawFill(r *Recorder, e *TraceEntry) (size int, fill func(b []byte) (n, attributes int)) {
	whole := AppendTraceEntry(nil, r.version, e)[1:] // the parent is 0
	before := *e
	before.Attributes = nil
	head := len(AppendTraceEntry(nil, r.version, &before)) - 2
	if r.version.hasAttrColumns() {
		head-- // there are two counts
	}
	return len(whole), func(b []byte) (int, int) { return copy(b, whole), head }
}

// TestLogRaw records with and without a span, in each durability and version.
func TestLogRaw(t *testing.T) {
	for _, v := range []Version{V1, V2} {
		allDurabilities(t, func(t *testing.T, d Durability) {
			r, _ := faultRecorder(t, RecorderOptions{Durability: d, Version: v})
			must(t, r.WriteSpan(faultSpan("span", 1, 0)))
			ref, unknown := faultRef(1), faultRef(2)
			for i, to := range []*SpanRef{{}, &ref, &unknown, {}} {
				e := faultEntry(fmt.Sprint("record ", i))
				e.Attributes = append(e.Attributes, Attribute{"z", StringValue(strings.Repeat("x", i*7))})
				size, fill := rawFill(r, e)
				must(t, r.LogRaw(to, int64(i+2), size, fill))
			}
			must(t, r.Flush())
			balanced(t, r.Stats())
			must(t, r.Close(context.Background()))
			f, err := Open(r.Path(), nil)
			must(t, err)
			defer f.Close()
			span := uint32(0)
			for id := range uint32(f.Len()) {
				e, err := f.Entry(id)
				must(t, err)
				parent, marks := uint32(0), 0
				switch e.Metadata.Name {
				case "span":
					span = id
					continue
				case "record 1":
					parent = span
				case "record 2":
					marks = 2
				case "record 0", "record 3":
				default:
					continue
				}
				if e.Parent != parent || len(e.Attributes) != 2+marks || e.Message.Value != "m" {
					t.Errorf("version %d: %s is below %d, want %d, and has %d attributes", v, e.Metadata.Name, e.Parent, parent, len(e.Attributes))
				}
			}
			if f.Len() != 1+1+4+1 {
				t.Errorf("version %d: %d entries", v, f.Len())
			}
		})
	}
}

// TestLogRawLarge: what is too large for a segment, or for an entry, goes the way
// that others go.
func TestLogRawLarge(t *testing.T) {
	r, _ := faultRecorder(t, RecorderOptions{MaxEntrySize: 200_000})
	for _, n := range []int{segment.MaxRecord - 200, segment.MaxRecord, 150_000, 300_000} {
		e := faultEntry("large")
		e.Attributes = append(e.Attributes, Attribute{"x", StringValue(strings.Repeat("x", n))})
		size, fill := rawFill(r, e)
		must(t, r.LogRaw(&SpanRef{}, 1, size, fill))
	}
	must(t, r.Close(context.Background()))
	if got, want := faultNames(t, r.Path()), []string{"large", "large", "large", "large", NameEnd}; !slices.Equal(got, want) {
		t.Errorf("the file has %q, want %q", got, want)
	}
}

// TestLogRawPanics: a panic of the caller's goes through, leaves nothing, and no
// lock is held any more.
func TestLogRawPanics(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		r, _ := faultRecorder(t, RecorderOptions{Durability: d})
		size, fill := rawFill(r, faultEntry("whole"))
		for range 2 * len(r.stripes) {
			func() {
				defer func() {
					if p := recover(); p != "mine" {
						t.Errorf("recovered %v", p)
					}
				}()
				_ = r.LogRaw(&SpanRef{}, 1, size, func(b []byte) (int, int) {
					fill(b)
					panic("mine")
				})
			}()
			must(t, r.LogRaw(&SpanRef{}, 1, size, fill))
		}
		n := 2 * len(r.stripes)
		must(t, r.Close(context.Background()))
		if got := faultNames(t, r.Path()); len(got) != n+1 {
			t.Errorf("%d entries are in the file, want %d", len(got), n+1)
		}
		balanced(t, r.Stats())
	})
}

// TestLogRawClosed: what comes after Close is refused and counted.
func TestLogRawClosed(t *testing.T) {
	allDurabilities(t, func(t *testing.T, d Durability) {
		r, _ := faultRecorder(t, RecorderOptions{Durability: d})
		must(t, r.Close(context.Background()))
		size, fill := rawFill(r, faultEntry("late"))
		if err := r.LogRaw(&SpanRef{}, 1, size, fill); !errors.Is(err, ErrClosed) {
			t.Errorf("LogRaw: %v", err)
		}
		if st := r.Stats(); st.Entries.Dropped.Total() != 1 {
			t.Errorf("%+v", st.Entries)
		}
		balanced(t, r.Stats())
	})
}

// TestLogRawWithoutBuffer: when the pages of the crash buffer go away under a
// record, it is written to the file.
func TestLogRawWithoutBuffer(t *testing.T) {
	if !segment.Supported {
		t.Skip("there is no crash buffer here")
	}
	r, _ := faultRecorder(t, RecorderOptions{OnError: func(error) {}})
	size, fill := rawFill(r, faultEntry("before"))
	must(t, r.LogRaw(&SpanRef{}, 1, size, fill))
	must(t, r.Flush())
	must(t, os.Truncate(r.bufferName(), 0))
	size, fill = rawFill(r, faultEntry("after"))
	for range 3 {
		must(t, r.LogRaw(&SpanRef{}, 1, size, fill))
	}
	if d, err := r.Durability(); d != DurabilityWriteThrough || err == nil {
		t.Errorf("the durability is %v, %v", d, err)
	}
	balanced(t, r.Stats())
	_ = r.Close(context.Background()) // it tells of the buffer
	if got, want := faultNames(t, r.Path()), []string{"before", "after", "after", "after", NameEnd}; !slices.Equal(got, want) {
		t.Errorf("the file has %q, want %q", got, want)
	}
}

// TestLogRawAllocates nothing.
func TestLogRawAllocates(t *testing.T) {
	r, _ := faultRecorder(t, RecorderOptions{})
	size, fill := rawFill(r, faultEntry("x"))
	ref := faultRef(1)
	for range 100 {
		must(t, r.LogRaw(&ref, 1, size, fill))
	}
	if n := testing.AllocsPerRun(2000, func() { _ = r.LogRaw(&ref, 1, size, fill) }); n >= 1 {
		t.Errorf("a record takes %v allocations", n)
	}
}

// TestTimerRests: a recorder that waits, for its file to be old enough or for a
// disk that is full, does not keep a processor busy.
func TestTimerRests(t *testing.T) {
	t.Run("age", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, _ := faultRecorder(t, RecorderOptions{MaxFileAge: 10 * time.Millisecond})
			must(t, r.Log(SpanRef{}, faultEntry("one")))
			wantRest(t, r)
			must(t, r.Close(context.Background()))
		})
	})
	t.Run("full disk", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, f := faultRecorder(t, RecorderOptions{MaxWaitingAge: 200 * time.Millisecond})
			s := faultSpan("span", 2, 9)
			s.Wait = true
			must(t, r.WriteSpan(s))
			must(t, r.Flush())
			f.fail(func(int, []byte) (int, error) { return 0, syscall.ENOSPC }, nil, nil)
			must(t, r.Log(SpanRef{}, faultEntry("one")))
			wantRest(t, r)
			f.fail(nil, nil, nil)
			_ = r.Close(context.Background()) // it tells of the disk
		})
	})
}

func wantRest(t *testing.T, r *Recorder) {
	t.Helper()
	time.Sleep(time.Second)
	synctest.Wait()
	before := r.drains.Load()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if n := r.drains.Load() - before; n > 110 {
		t.Errorf("it drained %d times in ten seconds", n)
	}
}
