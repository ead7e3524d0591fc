package format

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// fabricate writes a trace of the root and n entries that the func entry returns.
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
	must(t, err)
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

// spanEntry returns a span with the given id. All spans have the same trace id.
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
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// wantLinear fails the test if work on four times the input takes at least eleven times as long in each of four
// attempts. Quadratic work takes sixteen times as long. Linear work may take more than four times as long, because
// input that does not fit into the CPU cache takes up to twice the time. Very short work is not measured.
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

// TestNothingIsQuadratic uses input for which naive algorithms take quadratic time.
func TestNothingIsQuadratic(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("measures time")
	}
	t.Run("one attribute name", func(t *testing.T) {
		wantLinear(t, "Verify", 15000, func(n int) func() {
			e := &TraceEntry{Metadata: Metadata{Name: "n"}}
			for range n {
				e.Attributes = append(e.Attributes, Attribute{"same", BoolValue(true)})
			}
			name := writeFile(t, "x.iet", fabricate(t, V2, IET, 1, func(int) *TraceEntry { return e }))
			return func() {
				expect.OK(t, expect.Err(Verify(name, func(error) {})))
			}
		})
	})
	t.Run("runs of zeros", func(t *testing.T) {
		wantLinear(t, "Reader", 200_000, func(n int) func() {
			b := AppendTraceEntry(wire.AppendMagic(nil, V2, IET), V2, Root())
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
			b := wire.AppendUint(wire.AppendMagic(nil, V2, ET), uint64(n))
			var data []byte
			for range n {
				b = wire.AppendUint(b, uint64(len(data)))
				data = AppendTraceEntry(data, V2, plainEntry(0))
			}
			b = wire.AppendUint(b, uint64(n))
			for range n { // every entry claims all entries as its children
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

// A counter counts the bytes and calls of Read.
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

// TestReadsOnce checks that a Reader reads every byte once and in large pieces, for
// entries of any size.
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

// TestFollowLargeEntry checks how often Follow reads an entry that is larger than its buffer. Follow may read the
// entry again when it has only a part of it, but not for every attribute.
func TestFollowLargeEntry(t *testing.T) {
	for _, v := range hostileVersions {
		e := &TraceEntry{Metadata: Metadata{Name: "n"}}
		for i := range 15_500 { // 290 KB
			e.Attributes = append(e.Attributes, Attribute{fmt.Sprintf("%06d", i), StringValue("0123456789")})
		}
		b := fabricate(t, v, IET, 1, func(int) *TraceEntry { return e })
		fl, err := Follow(writeFile(t, "x.iet", b), &FollowOptions{Poll: time.Millisecond})
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		got := allocated(func() {
			for range 2 {
				if _, _, err := fl.Next(ctx); err != nil {
					t.Errorf("v%d: %v", v, err)
				}
			}
		})
		cancel()
		must(t, fl.Close())
		if limit := uint64(16*len(b) + 1<<20); got > limit {
			t.Errorf("v%d: Follow allocates %d MiB for a file of %d KiB: it reads it again for every attribute", v, got>>20, len(b)>>10)
		}
	}
}

// heap returns the bytes in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// peakHeap returns the maximum size of the heap, including garbage, while f runs. It samples the heap every
// millisecond.
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
	const size = 3 << 20
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		// The entry has no content except a parent that is not 0: a zero entry would not count.
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
			small += 8 * 8 * uint64(n+1) // the offsets, and the smaller slices that were replaced while they grew
		}
		if got > small {
			t.Errorf("Reader allocates %d bytes for %d", got, len(b))
		}
		size := len(b)
		b = nil

		before := heap()
		var f *File
		var err error
		peak := peakHeap(func() { f, err = Open(name, nil) })
		must(t, err)
		defer f.Close()
		open := heap() - before
		if want := uint64(3*(n+2)) * 5 / 4; open > want {
			t.Errorf("a File keeps %d bytes, %.1f an entry, want 3", open, float64(open)/float64(n+1))
		}
		peak -= before
		if peak > limit {
			t.Errorf("Open takes %d bytes at its peak, %.1f times the file", peak, float64(peak)/float64(size))
		}
		runtime.KeepAlive(f)
	})
}

// TestLengthOfSparseEntry checks that MaxEntrySize also limits an entry of a sparse file, which looks large but
// has little data.
func TestLengthOfSparseEntry(t *testing.T) {
	for _, v := range hostileVersions {
		tr := fakeFile{Version: v, Format: ET, Entries: fakes(2)}.build()
		name := writeFile(t, "x.et", tr.b)
		const size = 64 << 20
		must(t, os.Truncate(name, size))
		limits := ReaderOptions{MaxEntrySize: 1 << 20}
		expect.Is(t, expect.Err(Open(name, &OpenOptions{ReaderOptions: limits})), errTrailingBytes, "v%d: Open", v)
		f, err := Open(name, &OpenOptions{ReaderOptions: limits, Lenient: true})
		must(t, err)
		defer f.Close()
		if got := allocated(func() { _, err = f.Entry(2) }); got > 8<<20 {
			t.Errorf("v%d: Entry of an entry of %d bytes with MaxEntrySize %d allocates %d, error %v", v, size, limits.MaxEntrySize, got, err)
		}
		if got := allocated(func() { err = f.Walk(2, func(uint32, *TraceEntry) error { return nil }) }); got > 8<<20 {
			t.Errorf("v%d: Walk over an entry of %d bytes with MaxEntrySize %d allocates %d, error %v", v, size, limits.MaxEntrySize, got, err)
		}
	}
}

// TestMaxEntrySize checks that a limit in the options holds, and otherwise the default limit.
func TestMaxEntrySize(t *testing.T) {
	streams(t, func(t *testing.T, v Version, sf StorageFormat) {
		es := small(2)
		es[2].Message = Some(strings.Repeat("x", 5000))
		tr := fakeFile{Version: v, Format: sf, Entries: es}.build()
		for _, limit := range []int{100, 4000, len(tr.raws[2].b) - 1} {
			raws, err := drainReader(bytes.NewReader(tr.b), &ReaderOptions{MaxEntrySize: limit})
			_, oerr := Open(writeFile(t, "x", tr.b), &OpenOptions{ReaderOptions: ReaderOptions{MaxEntrySize: limit}})
			for what, err := range map[string]error{"Reader": err, "Open": oerr} {
				l, ok := errors.AsType[*lengthError](err)
				if at, _ := errorOffset(err); !ok || l.Claimed <= l.Remaining || at < int64(tr.starts[2]) || at > int64(tr.ends[2]) {
					t.Errorf("%s of an entry of %d bytes with a limit of %d: %v (%T), want a *lengthError", what, len(tr.raws[2].b), limit, err, err)
				}
			}
			expect.Equal(t, len(raws), 2, "entries that Reader with a limit of %d gives", limit)
		}
		for _, limit := range []int{len(tr.raws[2].b), 0, -1, math.MaxInt} {
			if raws, err := drainReader(bytes.NewReader(tr.b), &ReaderOptions{MaxEntrySize: limit}); err != nil || len(raws) != 3 {
				t.Errorf("Reader with a limit of %d gives %d entries, %v, want 3", limit, len(raws), err)
			}
		}
	})
}
