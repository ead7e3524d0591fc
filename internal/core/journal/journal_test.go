package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

var must = expect.Must

var media = []Medium{Heap, Mapped, Written}

func create(t *testing.T, o Options) *Journal {
	t.Helper()
	if o.Medium != Heap && o.Name == "" {
		o.Name = hosttest.Path(t, "j")
	}
	if o.Segments == 0 {
		o.Segments, o.Extra = 64, 64
	}
	if o.MaxWait == 0 {
		o.MaxWait = time.Second
	}
	j, err := New(o)
	must(t, err)
	j.tick = nil // the tests use times that CoarseClock would change
	t.Cleanup(func() {
		expect.OK(t, j.Remove())
	})
	return j
}

// record returns a record with the numbers g and n. Its other bytes, whose number is size, follow from g and n.
func record(g, n, size int, leaf bool) *Record {
	b := make([]byte, HeadSize+16+size)
	binary.LittleEndian.PutUint64(b[HeadSize:], uint64(g))
	binary.LittleEndian.PutUint64(b[HeadSize+8:], uint64(n))
	for i := range size {
		b[HeadSize+16+i] = byte(g + n + i)
	}
	spans := 0
	if !leaf {
		spans = 1
	}
	return &Record{Time: int64(n), Info: NewInfo(1+n%3, spans, uint32(g)), Data: b, Leaf: leaf}
}

func readAll(rd *Reader) {
	for e := rd.Next(); e != nil; {
		e = rd.Next()
	}
}

func check(t *testing.T, e *Entry) (g, n int) {
	t.Helper()
	g, n = int(binary.LittleEndian.Uint64(e.Data)), int(binary.LittleEndian.Uint64(e.Data[8:]))
	if e.Time != int64(n) || e.Info.User() != uint32(g) || e.Info.Entries() != 1+n%3 {
		t.Fatalf("record %d of %d: time %d, info %x", n, g, e.Time, e.Info)
	}
	for i, c := range e.Data[16:] {
		if c != byte(g+n+i) && c != 0 {
			t.Fatalf("record %d of %d: byte %d is %d", n, g, i, c)
		}
	}
	return g, n
}

// TestOrderWhileClockStandsStill appends records from many goroutines, one after the other: leaves, and a span in
// the middle. All records have the same time. They must be read in the order in which they were appended.
func TestOrderWhileClockStandsStill(t *testing.T) {
	j := create(t, Options{})
	j.tick = new(tick)
	const at, leaves = 1_767_323_045_000_000_000, 100
	for n := range leaves {
		r := record(0, n, 0, n != leaves/2)
		r.Time = at
		done := make(chan error)
		go func() {
			hint := j.NewHint()
			_, err := j.Append(r, &hint)
			done <- err
		}()
		must(t, <-done)
	}
	rd := j.NewReader()
	rd.Capture()
	for want := range leaves {
		e := rd.Next()
		if e == nil {
			t.Fatalf("%d records, want %d", want, leaves)
		}
		if got := int(binary.LittleEndian.Uint64(e.Data[8:])); got != want || e.Time != at+int64(want) {
			t.Errorf("record %d at %d ns comes when record %d is due", got, e.Time-at, want)
		}
	}
}

// TestTick checks which times a tick changes. After a wrong time, records must still get different times.
func TestTick(t *testing.T) {
	const (
		tooth = 16_000_000
		hour  = int64(time.Hour)
	)
	for name, test := range map[string]struct{ read, want []int64 }{
		"one reading":             {[]int64{5, 5, 5}, []int64{5, 6, 7}},
		"readings move":           {[]int64{5, 5, tooth, tooth}, []int64{5, 6, tooth, tooth + 1}},
		"a record comes late":     {[]int64{5, tooth, 5, tooth}, []int64{5, tooth, 5, tooth + 1}},
		"a record is tried twice": {[]int64{5, 5, 6, 5}, []int64{5, 6, 7, 8}},
		"a time of the future":    {[]int64{5, hour, 5, 5}, []int64{5, hour, 5, 6}},
		"the clock is set back":   {[]int64{hour, 5, 5}, []int64{hour, 5, 6}},
	} {
		c := new(tick)
		var got []int64
		for _, at := range test.read {
			got = append(got, c.next(at))
		}
		expect.Slice(t, got, test.want, "%s: %v became", name, test.read)
	}
}

// TestAppendAndRead appends from several goroutines while another goroutine reads, writes checkpoints and releases
// segments. Each record must be read once, and the spans and the leaves of a goroutine must keep their order.
func TestAppendAndRead(t *testing.T) {
	for _, m := range media {
		t.Run(m.String(), func(t *testing.T) {
			j := create(t, Options{Medium: m})
			const goroutines, each = 4, 8000
			var wg sync.WaitGroup
			for g := range goroutines {
				wg.Go(func() {
					hint := j.NewHint()
					rnd := rand.New(rand.NewPCG(uint64(g), 1))
					for n := 1; n <= each; n++ {
						size := rnd.IntN(300)
						if n%2000 == 0 {
							size = 200_000 + rnd.IntN(100_000) // a chain
						}
						r := record(g, n, size, n%4 != 0)
						for {
							if _, err := j.Append(r, &hint); err == nil {
								break
							} else if !errors.Is(err, ErrFull) {
								t.Error(err)
								return
							}
							time.Sleep(50 * time.Microsecond)
						}
					}
				})
			}
			done := make(chan bool)
			go func() { wg.Wait(); close(done) }()
			rd := j.NewReader()
			next := [goroutines][2]int{}
			total, entries := 0, 0
			read := func() {
				rd.Capture()
				for e := rd.Next(); e != nil; e = rd.Next() {
					g, n := check(t, e)
					kind := 0
					if n%4 == 0 {
						kind = 1
					}
					if n <= next[g][kind] && m == Heap && kind == 1 {
						t.Errorf("record %d of %d after %d", n, g, next[g][kind])
					}
					next[g][kind] = n
					total++
					entries += e.Info.Entries()
				}
				expect.OK(t, j.Checkpoint([]byte("checkpoint")))
				rd.Release()
			}
			for running := true; running; {
				select {
				case <-done:
					running = false
				case <-time.After(time.Millisecond):
				}
				read()
			}
			expect.Equal(t, total, goroutines*each, "records read")
			if n, spans := j.Appended(); n != uint64(entries) || spans != goroutines*each/4 {
				t.Errorf("Appended says %d entries and %d spans, want %d and %d", n, spans, entries, goroutines*each/4)
			}
			if _, _, err := rd.Lost(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestDeadHasWhatWasNotReleased reads the file of a journal as after a kill. It must have the records after the
// checkpoint, and no others.
func TestDeadHasWhatWasNotReleased(t *testing.T) {
	for _, m := range media[1:] {
		t.Run(m.String(), func(t *testing.T) {
			name := hosttest.Path(t, "j")
			j := create(t, Options{Medium: m, Name: name})
			rd := j.NewReader()
			hint := j.NewHint()
			for n := 1; n <= 3000; n++ {
				if n == 1501 {
					rd.Capture()
					readAll(rd)
					var b []byte
					for _, p := range rd.Positions(nil) {
						b = binary.LittleEndian.AppendUint64(b, p)
					}
					must(t, j.Checkpoint(b))
					rd.Release()
				}
				size := 100
				if n == 2000 {
					size = 500_000
				}
				must(t, expect.Err(j.Append(record(1, n, size, n%2 == 0), &hint)))
			}
			d := dead(t, name, func(b []byte) func(uint32) uint64 {
				return func(stream uint32) uint64 {
					if int(stream)*8 >= len(b) {
						return 0
					}
					return binary.LittleEndian.Uint64(b[stream*8:])
				}
			})
			expect.Equal(t, d.Damaged, 0, "segments damaged")
			mg := NewMerge(d.Shards())
			for i := range len(d.Checkpoint) / 8 {
				mg.Skip(i, binary.LittleEndian.Uint64(d.Checkpoint[8*i:]))
			}
			want := 1501
			for e := mg.Next(); e != nil; e = mg.Next() {
				if _, n := check(t, e); n != want {
					t.Fatalf("record %d, want %d", n, want)
				}
				want++
			}
			expect.Equal(t, want, 3001, "the number after the last record")
		})
	}
}

func dead(t *testing.T, name string, from func([]byte) func(uint32) uint64) *Dead {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	fi, err := f.Stat()
	must(t, err)
	d, err := ReadDead(f, fi.Size(), from)
	must(t, err)
	return d
}

func everything([]byte) func(uint32) uint64 { return func(uint32) uint64 { return 0 } }

// TestDeadAtEveryCut replaces the end of the last record by zeros, from each of its bytes on, as a power failure
// may do. Exactly the records before it must be readable.
func TestDeadAtEveryCut(t *testing.T) {
	name := hosttest.Path(t, "j")
	j := create(t, Options{Medium: Written, Name: name})
	hint := j.NewHint()
	for n := 1; n <= 3; n++ {
		must(t, expect.Err(j.Append(record(1, n, 100, false), &hint)))
	}
	whole, err := os.ReadFile(name)
	must(t, err)
	at := bytes.Index(whole, []byte{3, 0, 0, 0, 0, 0, 0, 0, 1}) // the time of the third record
	if at < 0 {
		t.Fatal("the third record is not in the file")
	}
	at -= 8
	for cut := at + 1; cut < at+HeadSize+116; cut++ {
		b := slices.Clone(whole)
		clear(b[cut : at+200])
		for n := at; n < cut && n < at+8; n++ {
			b[n] = whole[n]
		}
		d, err := ReadDead(bytes.NewReader(b), int64(len(b)), everything)
		must(t, err)
		n := 0
		d.Each(StreamSpans, func(_ uint64, e *Entry) {
			check(t, e)
			n++
		})
		if n != 2 && !bytes.Equal(b, whole) {
			t.Fatalf("cut at %d: %d records, want 2", cut-at, n)
		}
	}
}

// TestDeadWithFlippedBytes reads files with some wrong bytes. A record that is read must be intact.
func TestDeadWithFlippedBytes(t *testing.T) {
	name := hosttest.Path(t, "j")
	j := create(t, Options{Medium: Mapped, Name: name})
	hint := j.NewHint()
	for n := 1; n <= 1500; n++ {
		must(t, expect.Err(j.Append(record(1, n, n%200, n%3 == 0), &hint)))
	}
	whole, err := os.ReadFile(name)
	must(t, err)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		b := slices.Clone(whole)
		for range 1 + rnd.IntN(8) {
			b[headerSize+rnd.IntN(8*SegmentSize)] ^= byte(1 + rnd.IntN(255))
		}
		d, err := ReadDead(bytes.NewReader(b), int64(len(b)), everything)
		must(t, err)
		for m := NewMerge(d.Shards()); ; {
			e := m.Next()
			if e == nil {
				break
			}
			check(t, e)
		}
	}
}

// TestSharedBytesAreOncePerSegment appends records that share bytes. A segment must have these bytes only once.
func TestSharedBytesAreOncePerSegment(t *testing.T) {
	for _, m := range media {
		t.Run(m.String(), func(t *testing.T) {
			j := create(t, Options{Medium: m, Segments: 512, Extra: 512})
			var all []*Shared
			for i := range 6 {
				all = append(all, NewShared(bytes.Repeat([]byte{byte('a' + i)}, 300)))
			}
			hint := j.NewHint()
			const n = 5000
			for i := range n {
				r := record(1, i, 8, true)
				r.With, r.Split = all[i/3%len(all)], len(r.Data)
				tail := fmt.Appendf(nil, "tail %d", i)
				if i == 100 {
					tail = bytes.Repeat([]byte("x"), 150_000)
				}
				r.Data = append(append(r.Data, make([]byte, SharedSize)...), tail...)
				if i%2 == 0 {
					r.Data = slices.Clip(r.Data) // no capacity after its length
				}
				must(t, expect.Err(j.Append(r, &hint)))
			}
			rd := j.NewReader()
			rd.Capture()
			inline := 0
			for i := range n {
				e := rd.Next()
				if e == nil {
					t.Fatalf("there are %d records, want %d", i, n)
				}
				if binary.LittleEndian.Uint32(e.Data[24:]) == 0 {
					inline++
				}
				shared, rest, ok := e.Shared(24)
				if !ok || !bytes.Equal(shared, all[i/3%len(all)].Bytes()) {
					t.Fatalf("record %d has %q", i, shared)
				}
				if want := fmt.Sprintf("tail %d", i); i != 100 && string(bytes.TrimRight(rest, "\x00")) != want {
					t.Fatalf("record %d has %q behind it, want %q", i, rest, want)
				}
			}
			if inline > n/3+50 {
				t.Errorf("%d of %d records have the bytes in full", inline, n)
			}
		})
	}
}

// TestEvictOldest appends far more records than the journal has room for.
func TestEvictOldest(t *testing.T) {
	for _, m := range media {
		t.Run(m.String(), func(t *testing.T) {
			evicted := 0
			j := create(t, Options{Medium: m, Segments: 64, Extra: 2, Evict: func(_ *Journal, s *Segment) { evicted += int(s.Entries) }})
			hint := j.NewHint()
			for n := 1; n <= 60_000; n++ {
				size := 100
				if n%9000 == 0 {
					size = 300_000
				}
				expect.MustIs(t, expect.Err(j.Append(record(1, n, size, n%2 == 0), &hint)), nil, "%v", n)
			}
			if entries, _ := j.Appended(); evicted == 0 || uint64(evicted) >= entries {
				t.Errorf("%d of %d entries were evicted", evicted, entries)
			}
			expect.Is(t, expect.Err(j.Append(record(1, 1, 40*SegmentSize, true), &hint)), ErrTooLarge, "a record of more than half of the journal")
		})
	}
}

// TestFullWithoutEvict fills a journal that nobody reads.
func TestFullWithoutEvict(t *testing.T) {
	j := create(t, Options{Medium: Heap, Segments: 8, Extra: 8})
	hint := j.NewHint()
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = j.Append(record(1, n, 1000, false), &hint)
	}
	if !errors.Is(err, ErrFull) || n < 8*60 {
		t.Fatalf("after %d records: %v, want ErrFull after 8 segments", n, err)
	}
	rd := j.NewReader()
	rd.Capture()
	readAll(rd)
	rd.Release()
	expect.Is(t, expect.Err(j.Append(record(1, n, 1000, false), &hint)), nil, "after Release")
	j.CloseShards()
	expect.Is(t, expect.Err(j.Append(record(1, n, 1000, false), &hint)), ErrClosed, "after CloseShards")
}

// TestCheckpointWhileItGrows writes checkpoints while the journal gets more segments. It is for the race detector.
func TestCheckpointWhileItGrows(t *testing.T) {
	for _, m := range []Medium{Mapped, Written} {
		j := create(t, Options{Medium: m, Segments: 8 * growBy})
		full := make(chan error)
		go func() {
			hint := j.NewHint()
			var err error
			for n := 0; err == nil; n++ {
				_, err = j.Append(record(1, n, 60_000, false), &hint)
			}
			full <- err
		}()
		for appending := true; appending; {
			must(t, j.Checkpoint([]byte("a checkpoint")))
			select {
			case err := <-full:
				expect.Is(t, err, ErrFull, "%v", m)
				appending = false
			default:
			}
		}
	}
}

// TestJournalOfDefinitionsIsEmpty checks that a journal with definitions only has no records of entries, so that it
// needs no checkpoint.
func TestJournalOfDefinitionsIsEmpty(t *testing.T) {
	j := create(t, Options{Medium: Written})
	wantEmpty := func(want bool) {
		t.Helper()
		b, err := os.ReadFile(j.Name())
		must(t, err)
		if got, err := IsEmpty(bytes.NewReader(b), int64(len(b))); got != want || err != nil {
			t.Errorf("IsEmpty is %t, %v, want %t", got, err, want)
		}
	}
	for _, stream := range []uint32{StreamDefinitions, StreamLeft} {
		_, err := j.NewStream(stream).Append(1, NewInfo(0, 0, 0), []byte("a name"))
		must(t, err)
	}
	wantEmpty(true)
	hint := j.NewHint()
	_, err := j.Append(record(1, 1, 100, true), &hint)
	must(t, err)
	wantEmpty(false)
}

// TestSpanComesBeforeItsLeaf merges a leaf with an earlier time than the span to which it refers.
func TestSpanComesBeforeItsLeaf(t *testing.T) {
	j := create(t, Options{Medium: Heap})
	hint := j.NewHint()
	for _, r := range []*Record{record(1, 50, 0, false), record(2, 90, 0, false), record(3, 10, 0, true), record(4, 95, 0, true)} {
		must(t, expect.Err(j.Append(r, &hint)))
	}
	rd := j.NewReader()
	known := make(map[uint32]bool)
	rd.Needs = func(e *Entry) bool { return e.Info.User() == 3 && !known[2] }
	rd.Capture()
	var got []uint32
	for e := rd.Next(); e != nil; e = rd.Next() {
		known[e.Info.User()] = true
		got = append(got, e.Info.User())
	}
	expect.Slice(t, got, []uint32{1, 2, 3, 4}, "the order")
}

// TestAppendGivesUpOnABusyFile holds the locks of all shards, as if the disk did not respond.
func TestAppendGivesUpOnABusyFile(t *testing.T) {
	j := create(t, Options{Medium: Written, MaxWait: 20 * time.Millisecond})
	for i := range j.shards {
		j.shards[i].mu.Lock()
	}
	hint := j.NewHint()
	_, err := j.Append(record(1, 1, 0, true), &hint)
	expect.Is(t, err, ErrBusy, "err")
	for i := range j.shards {
		j.shards[i].mu.Unlock()
	}
}

// TestAnotherLayoutIsNamed reads a file of layout version 1.
func TestAnotherLayoutIsNamed(t *testing.T) {
	b := make([]byte, headerSize)
	copy(b, magic[:])
	b[8], b[14] = 1, 1
	_, err := ReadDead(bytes.NewReader(b), int64(len(b)), everything)
	if l, ok := errors.AsType[*LayoutError](err); !ok || l.Version != 1 {
		t.Errorf("got %v, want a LayoutError of version 1", err)
	}
	expect.Is(t, expect.Err(ReadDead(bytes.NewReader(b[:100]), 100, everything)), ErrNotJournal, "ReadDead")
}

// TestAppendAllocatesNothing counts the allocations of an append.
func TestAppendAllocatesNothing(t *testing.T) {
	for _, m := range media {
		j := create(t, Options{Medium: m, Segments: 64, Extra: 2, Evict: func(*Journal, *Segment) {}})
		hint := j.NewHint()
		r := record(1, 1, 100, true)
		if n := hosttest.Allocations(5000, func() {
			if _, err := j.Append(r, &hint); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations, want 0", m, n)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, m := range media {
		for _, size := range []int{56, 136} {
			b.Run(fmt.Sprintf("%v/%d", m, size+HeadSize+16), func(b *testing.B) {
				o := Options{Medium: m, Segments: 64, Extra: 2, Evict: func(*Journal, *Segment) {}}
				if m != Heap {
					o.Name = hosttest.Path(b, "j")
				}
				j, err := New(o)
				must(b, err)
				defer j.Remove()
				b.ReportAllocs()
				b.RunParallel(func(p *testing.PB) {
					hint := j.NewHint()
					r := record(1, 1, size, true)
					for p.Next() {
						if _, err := j.Append(r, &hint); err != nil {
							b.Error(err)
							return
						}
					}
				})
			})
		}
	}
}

// A badPage is a file with a page that cannot be read.
type badPage struct {
	io.ReaderAt

	at int64
}

func (b *badPage) ReadAt(to []byte, off int64) (int, error) {
	if off <= b.at && b.at < off+int64(len(to)) {
		return 0, syscall.EIO
	}
	return b.ReaderAt.ReadAt(to, off)
}

// TestUnreadableSegment checks that an unreadable page costs only the records of its segment.
func TestUnreadableSegment(t *testing.T) {
	name := hosttest.Path(t, "j")
	j, err := New(Options{Medium: Written, Name: name, Segments: 8, Extra: 2, MaxWait: time.Second})
	must(t, err)
	hint := j.NewHint()
	const n = 300 // records of 1000 bytes, which fill several segments
	for i := range n {
		must(t, expect.Err(j.Append(record(1, i, 1000, false), &hint)))
	}
	must(t, j.Close())
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	fi, err := f.Stat()
	must(t, err)
	count := func(r io.ReaderAt) (records, damaged int) {
		d, err := ReadDead(r, fi.Size(), func([]byte) func(uint32) uint64 { return func(uint32) uint64 { return 0 } })
		must(t, err)
		for m := NewMerge(d.Shards()); m.Next() != nil; {
			records++
		}
		return records, d.Damaged
	}
	all, damaged := count(f)
	if all != n || damaged != 0 {
		t.Fatalf("%d records, %d segments are damaged", all, damaged)
	}
	left, damaged := count(&badPage{f, headerSize + SegmentSize + 5000})
	if lost := all - left; damaged != 1 || lost < 1 || lost > SegmentSize/1000+1 {
		t.Errorf("%d records are lost, %d segments are damaged", lost, damaged)
	}
}

// TestHurry checks that an append waits for MaxWait, and after SetHurry only for about a millisecond.
func TestHurry(t *testing.T) {
	j, err := New(Options{Medium: Written, Name: hosttest.Path(t, "j"), Segments: 8, Extra: 2, MaxWait: 200 * time.Millisecond})
	must(t, err)
	defer j.Remove()
	for i := range j.shards {
		j.shards[i].mu.Lock() // as if a write in each shard did not return
	}
	hint := j.NewHint()
	took := func() time.Duration {
		start := time.Now()
		expect.Is(t, expect.Err(j.Append(record(1, 1, 100, true), &hint)), ErrBusy, "the error")
		return time.Since(start)
	}
	if d := took(); d < 200*time.Millisecond {
		t.Errorf("it gives up after %v", d)
	}
	j.SetHurry(true)
	if d := took(); d > 150*time.Millisecond {
		t.Errorf("it waits %v", d)
	}
	for i := range j.shards {
		j.shards[i].mu.Unlock()
	}
	expect.OK(t, expect.Err(j.Append(record(1, 1, 100, true), &hint)))
}
