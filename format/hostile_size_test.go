package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/wire"
)

// fabricate writes a trace of the root and n entries that entry makes.
func fabricate(t testing.TB, v Version, f StorageFormat, n int, entry func(id int) *TraceEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, v, f, &WriterOptions{TempDir: t.TempDir()})
	if err == nil {
		_, err = w.Write(Root())
	}
	for id := 1; id <= n && err == nil; id++ {
		_, err = w.Write(entry(id))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func plainEntry(parent int) *TraceEntry {
	return &TraceEntry{Parent: uint32(parent), Metadata: Metadata{Name: "n"}}
}

func hexID(n, size int) Value {
	id := make([]byte, 16)
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return StringValue(string(wire.AppendHex(nil, id[16-size:])))
}

// spanEntry is a span with id id, whose trace is that of all.
func spanEntry(parent, id int) *TraceEntry {
	return &TraceEntry{
		Parent: uint32(parent), Metadata: Metadata{Name: "s"},
		Attributes: []Attribute{{AttrSpanID, hexID(id, 8)}, {AttrTime, U64Value(uint64(id))}, {AttrTraceID, hexID(1, 16)}},
	}
}

func logEntry(parent int) *TraceEntry {
	return &TraceEntry{Parent: uint32(parent), Message: Some("m"), Metadata: Metadata{Name: "event"}}
}

func openBytes(t testing.TB, b []byte) *File {
	t.Helper()
	f, err := Open(writeFile(t, "x", b), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

const million = 1_000_000

// A tree of any shape is opened, viewed and walked without recursion: the stack
// is not allowed to grow beyond a megabyte, at which the test would crash.
func TestDeepAndWide(t *testing.T) {
	n := million
	if testing.Short() || raceEnabled {
		n /= 20
	}
	shapes := []struct {
		name  string
		entry func(id int) *TraceEntry
		depth int
	}{
		{"deep", func(id int) *TraceEntry { return plainEntry(id - 1) }, n},
		{"wide", func(int) *TraceEntry { return plainEntry(0) }, 1},
		{"deep spans", func(id int) *TraceEntry { return spanEntry(id-1, id) }, n},
		{"wide spans, latest first", func(id int) *TraceEntry {
			e := spanEntry(0, id)
			e.Attributes[1].Value = U64Value(uint64(n - id))
			return e
		}, 1},
		{"deep logs", func(id int) *TraceEntry { return logEntry(id - 1) }, n},
		{"a chain backwards", func(id int) *TraceEntry { // by parent_span_id alone, each below the next
			e := spanEntry(0, id)
			e.Attributes = append(e.Attributes, Attribute{AttrParentSpanID, hexID(id+1, 8)})
			return e
		}, n},
	}
	defer debug.SetMaxStack(debug.SetMaxStack(1 << 20))
	for i, shape := range shapes {
		t.Run(shape.name, func(t *testing.T) {
			b := fabricate(t, V1, []StorageFormat{IET, ET}[i%2], n, shape.entry)
			done := make(chan struct{})
			go func() { // a new stack
				defer close(done)
				walkShape(t, b, n, shape.depth)
			}()
			<-done
		})
	}
}

func walkShape(t *testing.T, b []byte, n, depth int) {
	f, err := Open(writeFile(t, "x", b), nil)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	v, err := NewView(f)
	if err != nil {
		t.Error(err)
		return
	}
	count, deepest, last := 0, 0, uint32(0)
	if err := v.Walk(0, func(id uint32, depth int, _ bool) error {
		count, deepest, last = count+1, max(deepest, depth), id
		return nil
	}); err != nil {
		t.Error(err)
	}
	if count != n+1 || deepest != depth {
		t.Errorf("Walk comes by %d entries and is %d deep, want %d and %d", count, deepest, n+1, depth)
	}
	if _, err := v.Entry(last); err != nil {
		t.Error(err)
	}
	if _, err := Inspect(f.Name()); err != nil {
		t.Error(err)
	}
	if _, err := Verify(f.Name(), func(problem error) { t.Error(problem) }); err != nil {
		t.Error(err)
	}
}

// wantLinear complains when work on input of four times the size takes sixteen times
// as long, or nearly so, not once but always: what leaves the cache takes up to
// twice as long. What takes no time is not measured.
func wantLinear(t *testing.T, what string, n int, prepare func(n int) (work func())) {
	t.Helper()
	const tooShort, limit = 40 * time.Millisecond, 11
	once, again := prepare(n), prepare(4*n)
	var ratios []string
	for range 4 {
		small, large := stopwatch(once), stopwatch(again)
		ratio := float64(large) / float64(small)
		if large < tooShort || ratio < limit {
			return
		}
		ratios = append(ratios, fmt.Sprintf("%v for %d, %v for %d: %.1f", small, n, large, 4*n, ratio))
	}
	t.Errorf("%s is quadratic: %s", what, strings.Join(ratios, "; "))
}

func stopwatch(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// Input against which a simple way of doing things takes quadratic time.
func TestNothingIsQuadratic(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures time")
	}
	t.Run("cycles of parent span ids", func(t *testing.T) {
		// Spans y_1 … y_n, every second entry of a chain, want to be below the
		// end of a chain that hangs below y_n: n cycles, each with that chain.
		wantLinear(t, "NewView", 5000, func(n int) func() {
			b := fabricate(t, V1, IET, 3*n, func(id int) *TraceEntry {
				e := spanEntry(id-1, id)
				if id < 2*n && id%2 == 1 {
					e.Attributes = append(e.Attributes, Attribute{AttrParentSpanID, hexID(3*n, 8)})
				}
				return e
			})
			f := openBytes(t, b)
			return func() {
				if _, err := NewView(f); err != nil {
					t.Error(err)
				}
			}
		})
	})
	t.Run("a chain of logs", func(t *testing.T) {
		wantLinear(t, "View.Entry of all entries", 6000, func(n int) func() {
			f := openBytes(t, fabricate(t, V1, IET, n, func(id int) *TraceEntry { return logEntry(id - 1) }))
			v, err := NewView(f)
			if err != nil {
				t.Fatal(err)
			}
			return func() {
				for id := range uint32(f.Len()) {
					if _, err := v.Entry(id); err != nil {
						t.Error(err)
					}
				}
			}
		})
	})
	t.Run("attributes of a span and its end", func(t *testing.T) {
		wantLinear(t, "View.Entry", 5000, func(n int) func() {
			b := fabricate(t, V1, IET, 2, func(id int) *TraceEntry {
				e := spanEntry(id-1, 1)
				if id == 2 {
					e.Metadata.Name = NameSpanEnd
					e.Attributes = e.Attributes[:1]
				}
				for i := range n {
					e.Attributes = append(e.Attributes, Attribute{fmt.Sprintf("%d.%06d", id, i), BoolValue(true)})
				}
				return e
			})
			f := openBytes(t, b)
			v, err := NewView(f)
			if err != nil || v.Role(2) != RoleSpanEnd {
				t.Fatal(err, v.Role(2))
			}
			return func() {
				if e, err := v.Entry(1); err != nil || len(e.Attributes) != 2*n+3 {
					t.Error(err, len(e.Attributes))
				}
			}
		})
	})
	t.Run("one attribute name", func(t *testing.T) {
		wantLinear(t, "Verify", 15000, func(n int) func() {
			e := &TraceEntry{Metadata: Metadata{Name: "n"}}
			for range n {
				e.Attributes = append(e.Attributes, Attribute{"same", BoolValue(true)})
			}
			name := writeFile(t, "x.iet", fabricate(t, V2, IET, 1, func(int) *TraceEntry { return e }))
			return func() {
				if _, err := Verify(name, func(error) {}); err != nil {
					t.Error(err)
				}
			}
		})
	})
	t.Run("runs of zeros", func(t *testing.T) {
		wantLinear(t, "Reader", 200_000, func(n int) func() {
			b := AppendTraceEntry(AppendMagic(nil, V2, IET), V2, Root())
			for i := range n {
				b = AppendTraceEntry(append(b, make([]byte, i%40)...), V2, plainEntry(i))
			}
			return func() {
				if _, err := drain(b); err == nil {
					t.Error("no error, although entries are torn")
				}
			}
		})
	})
	t.Run("a pool of wrong claims", func(t *testing.T) {
		wantLinear(t, "Open", 300_000, func(n int) func() {
			b := wire.AppendUint(AppendMagic(nil, V2, ET), uint64(n))
			var data []byte
			for range n {
				b = wire.AppendUint(b, uint64(len(data)))
				data = AppendTraceEntry(data, V2, plainEntry(0))
			}
			b = wire.AppendUint(b, uint64(n))
			for range n { // every entry claims all as its children
				b = wire.AppendUint(b, uint64(n-1))
			}
			name := writeFile(t, "x.et", append(b, data...))
			return func() {
				f, err := Open(name, &OpenOptions{Lenient: true})
				if err != nil {
					t.Error(err)
					return
				}
				defer f.Close()
			}
		})
	})
}

// A counter counts what is read from it.
type counter struct {
	r     io.Reader
	bytes int64
	calls int
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.bytes += int64(n)
	c.calls++
	return n, err
}

// Counted work: a Reader reads every byte once, in large pieces, however the
// entries lie.
func TestReadsOnce(t *testing.T) {
	many := &TraceEntry{Metadata: Metadata{Name: "n"}}
	for i := range 60_000 {
		many.Attributes = append(many.Attributes, Attribute{fmt.Sprintf("%06d", i), StringValue("0123456789")})
	}
	for _, v := range hostileVersions {
		for _, sf := range hostileFormats {
			for what, b := range map[string][]byte{
				"small entries":   fabricate(t, v, sf, 100_000, plainEntry0),
				"many attributes": fabricate(t, v, sf, 2, func(int) *TraceEntry { return many }),
			} {
				c := &counter{r: bytes.NewReader(b)}
				var raws int
				got := allocated(func() {
					r, err := NewReader(c, nil)
					for err == nil {
						_, err = r.Next()
						raws++
					}
				})
				if c.bytes != int64(len(b)) || c.calls > 3+len(b)/(readSize/4) {
					t.Errorf("%s, %v, v%d: %d bytes of %d are read in %d calls", what, sf, v, c.bytes, len(b), c.calls)
				}
				if limit := uint64(24*len(b) + 1<<20); what == "many attributes" && got > limit {
					t.Errorf("%s, %v, v%d: %d bytes are allocated for %d", what, sf, v, got, len(b))
				}
			}
		}
	}
}

func plainEntry0(int) *TraceEntry { return plainEntry(0) }

// Counted work: Follow reads anew when it knows too little of an entry, but must
// not do so for every attribute of one that is larger than its buffer.
func TestFollowLargeEntry(t *testing.T) {
	for _, v := range hostileVersions {
		e := &TraceEntry{Metadata: Metadata{Name: "n"}}
		for i := range 15_500 { // 290 KB
			e.Attributes = append(e.Attributes, Attribute{fmt.Sprintf("%06d", i), StringValue("0123456789")})
		}
		b := fabricate(t, v, IET, 1, func(int) *TraceEntry { return e })
		fl, err := Follow(writeFile(t, "x.iet", b), &FollowOptions{Poll: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		got := allocated(func() {
			for range 2 {
				if _, _, err := fl.Next(ctx); err != nil {
					t.Errorf("v%d: %v", v, err)
				}
			}
		})
		cancel()
		if err := fl.Close(); err != nil {
			t.Error(err)
		}
		if limit := uint64(16*len(b) + 1<<20); got > limit {
			t.Errorf("v%d: Follow allocates %d MiB for a file of %d KiB: it reads it again for every attribute", v, got>>20, len(b)>>10)
		}
	}
}

// heap returns what is in use after everything else was collected.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// peakHeap returns the most bytes that are in use, or not collected yet, while f
// runs, as far as a look at them every millisecond shows.
func peakHeap(f func()) uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	var peak uint64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(sample)
			peak = max(peak, sample[0].Value.Uint64())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	f()
	close(stop)
	<-done
	return peak
}

func TestMemoryIsBounded(t *testing.T) {
	size := 20 << 20
	if testing.Short() || raceEnabled {
		size >>= 3
	}
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		// Nothing but a parent: one byte is not zero, so that it is an entry.
		e := &TraceEntry{Parent: 1}
		n := size / len(AppendTraceEntry(nil, v, e))
		b := fabricate(t, v, sf, n, func(id int) *TraceEntry {
			if id == 1 {
				return plainEntry(0)
			}
			return e
		})
		dir := t.TempDir()
		name := writeFile(t, filepath.Join(dir, "x"), b)
		limit := 8 * uint64(len(b))

		got := allocated(func() {
			r, err := NewReader(bytes.NewReader(b), nil)
			for err == nil {
				_, err = r.Next()
			}
			if r.ID() != int64(n) {
				t.Errorf("Reader gives %d entries, want %d", r.ID()+1, n+1)
			}
		})
		small := uint64(1 << 20)
		if sf == ET {
			small += 8 * 8 * uint64(n+1) // its offsets, and what they grew from
		}
		if got > small {
			t.Errorf("Reader allocates %d bytes for %d", got, len(b))
		}
		size := len(b)
		b = nil

		before := heap()
		var f *File
		var view *View
		var err error
		peak := peakHeap(func() { f, err = Open(name, nil) })
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		open := heap() - before
		if want := uint64(20*(n+2)) * 5 / 4; open > want {
			t.Errorf("a File keeps %d bytes, %.1f an entry, want 20", open, float64(open)/float64(n+1))
		}
		if peak -= before; peak > limit {
			t.Errorf("Open takes %d bytes at its peak, %.1f times the file", peak, float64(peak)/float64(size))
		}
		viewPeak := peakHeap(func() { view, err = NewView(f) }) - before
		if err != nil {
			t.Fatal(err)
		}
		used := heap() - before
		if used > limit {
			t.Errorf("File and View keep %d bytes, %.1f times the file", used, float64(used)/float64(size))
		}
		runtime.KeepAlive(view)
		times := func(n uint64) float64 { return float64(n) / float64(size) }
		t.Logf("%d entries, %d bytes: peak of Open %.1f times that, of NewView %.1f; both keep %.1f",
			n+1, size, times(peak), times(viewPeak), times(used))
	})
}

// A limit that is set is kept, and one that is not is that of the package.
func TestMaxEntrySize(t *testing.T) {
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		es := small(2)
		es[2].Message = Some(strings.Repeat("x", 5000))
		tr := fakeFile{Version: v, Format: sf, Entries: es}.build()
		for _, limit := range []int{100, 4000, len(tr.raws[2].b) - 1} {
			raws, err := drainReader(bytes.NewReader(tr.b), &ReaderOptions{MaxEntrySize: limit})
			_, oerr := Open(writeFile(t, "x", tr.b), &OpenOptions{ReaderOptions: ReaderOptions{MaxEntrySize: limit}})
			for what, err := range map[string]error{"Reader": err, "Open": oerr} {
				l, ok := errors.AsType[*LengthError](err)
				if at, _ := errorOffset(err); !ok || l.Claimed <= l.Remaining || at < int64(tr.starts[2]) || at > int64(tr.ends[2]) {
					t.Errorf("%s of an entry of %d bytes with a limit of %d: %v (%T), want a *LengthError", what, len(tr.raws[2].b), limit, err, err)
				}
			}
			if len(raws) != 2 {
				t.Errorf("Reader with a limit of %d gives %d entries, want 2", limit, len(raws))
			}
		}
		for _, limit := range []int{len(tr.raws[2].b), 0, -1, math.MaxInt} {
			if raws, err := drainReader(bytes.NewReader(tr.b), &ReaderOptions{MaxEntrySize: limit}); err != nil || len(raws) != 3 {
				t.Errorf("Reader with a limit of %d gives %d entries, %v, want 3", limit, len(raws), err)
			}
		}
	})
}

// A trace that has no entries has a view that has none.
func TestEmptyView(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		view, err := NewView(openBytes(t, fakeFile{Version: v, Format: sf}.build().b))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("Walk of an empty trace panics: %v", r)
			}
		}()
		if err := view.Walk(0, func(uint32, int, bool) error { return nil }); err != nil {
			t.Logf("Walk: %v", err)
		}
	})
}
