package format

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/file/mapfile"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// plainTables reads the tables of the ET b in a simple way, one number after the other. It returns the same errors
// as File.header.
func plainTables(v Version, b []byte) (offsets []uint64, parents []uint32, data int, longer bool, err error) {
	d := decoder{version: v, maxSize: math.MaxInt}
	d.reset(b, 0, noEntry)
	d.off = wire.MagicSize
	n := d.Len("offsets", v.minEntrySize()+2)
	for i := range n {
		at := d.off
		o := d.Uint("offsets", 64)
		if i == 0 && o != 0 || i > 0 && o <= offsets[i-1] {
			return nil, nil, 0, false, firstError(&d, at, int64(i), "offsets", errBadOffset)
		}
		offsets = append(offsets, o)
	}
	at := d.off
	if m := d.Len("pool", 1); m != n || d.failed() {
		return nil, nil, 0, false, firstError(&d, at, noEntry, "pool", errBadPool)
	}
	parents = make([]uint32, n)
	has := make([]bool, n)
	kids := 0
	for i := range n {
		at := d.off
		count := d.Len("pool", 1)
		if d.failed() || count > n-1-kids {
			return nil, nil, 0, false, firstError(&d, at, int64(i), "pool", errBadPool)
		}
		last := uint64(0)
		for k := range count {
			at := d.off
			id := d.Uint("pool", 32)
			if d.failed() || id <= uint64(i) || id >= uint64(n) || has[id] || k > 0 && id <= last {
				return nil, nil, 0, false, firstError(&d, at, int64(i), "pool", errBadPool)
			}
			parents[id], has[id], last = uint32(i), true, id
			kids++
		}
	}
	if n > 0 && kids != n-1 {
		err = &CorruptError{Offset: int64(d.off), Entry: noEntry, Field: "pool", Err: errBadPool}
	}
	return offsets, parents, d.off, d.longer, err
}

// wantTables fails the test unless File.header and plainTables read the same from b.
func wantTables(t *testing.T, what string, v Version, b []byte) {
	t.Helper()
	offsets, parents, data, longer, want := plainTables(v, b)
	f := &File{version: v, maxSize: DefaultMaxEntrySize}
	f.offsets.Store(new(positions))
	pool, err := f.header(b, int64(len(b)), true)
	if want != nil {
		if fmt.Sprintf("%T %v", err, err) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
		return
	}
	if err != nil && int64(data) != f.data {
		t.Errorf("%s: error %v, want none in the tables", what, err)
		return
	}
	n := len(offsets)
	if len(pool) != n || !slices.Equal(pool, parents) || f.data != int64(data) || f.longer != longer {
		t.Errorf("%s: parents %v, data at %d, longer %t; want %v, %d, %t", what, pool, f.data, f.longer, parents, data, longer)
	}
	if got := allOffsets(f); err == nil && (len(got) != n+1 || !slices.Equal(got[:n], offsets)) {
		t.Errorf("%s: offsets %v, want %v", what, got, offsets)
	}
}

// allOffsets returns the offsets of all entries, and the end of the last.
func allOffsets(f *File) []uint64 {
	p := f.offsets.Load()
	all := make([]uint64, p.len())
	for i := range all {
		all[i] = p.at(i)
	}
	return all
}

// TestTablesDamaged replaces each number in the tables with various wrong bytes, one number at a time.
func TestTablesDamaged(t *testing.T) {
	for _, v := range hostileVersions {
		good := fakeFile{Version: v, Format: ET, Entries: fakes(9)}.build()
		for field := range good.at {
			if !strings.HasPrefix(field, "offsets") && !strings.HasPrefix(field, "pool") {
				continue
			}
			for _, wrong := range [][]byte{
				{},
				{0},
				{1},
				{2},
				{3},
				{4},
				{8},
				{9},
				{10},
				{11},
				{249},
				{250},
				{251},
				{252},
				{253},
				{254},
				{255},
				{wire.Tag16, 0, 0},
				{wire.Tag16, 1, 0},
				{wire.Tag16, 9, 0},
				{wire.Tag16, 251, 0},
				{wire.Tag16, 255, 255},
				{wire.Tag32, 0, 0, 0, 0},
				{wire.Tag32, 1, 0, 0, 0},
				{wire.Tag32, 3, 0, 0, 0},
				{wire.Tag32, 0, 0, 1, 0},
				{wire.Tag32, 255, 255, 255, 255},
				{wire.Tag64, 0, 0, 0, 0, 0, 0, 0, 0},
				{wire.Tag64, 2, 0, 0, 0, 0, 0, 0, 0},
				{wire.Tag64, 0, 0, 0, 0, 1, 0, 0, 0},
				{wire.Tag64, 255, 255, 255, 255, 255, 255, 255, 255},
				{wire.Tag128, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			} {
				b := fakeFile{Version: v, Format: ET, Entries: fakes(9), Instead: map[string][]byte{field: wrong}}.build().b
				wantTables(t, fmt.Sprintf("v%d, %s is % x", v, field, wrong), v, b)
			}
		}
		for size := wire.MagicSize; size < len(good.b); size++ {
			wantTables(t, fmt.Sprintf("v%d, %d bytes", v, size), v, good.b[:size])
		}
	}
}

// TestTablesLarge reads tables with numbers of every size. Some tables are larger than the memory that is
// allocated for them at first.
func TestTablesLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{2, 250, 251, 252, 300, 70_000, 1 << 20, 1<<20 + 1} {
		if (testing.Short() || raceEnabled) && n > 100_000 {
			continue
		}
		tab := table{parents: make([]uint32, n)}
		var offsets []uint64
		size := 11 + r.Uint64N(40)
		for i := range n {
			offsets = append(offsets, uint64(i)*size)
			if i > 0 {
				tab.parents[i] = uint32(r.IntN(i))
			}
		}
		for i := n / 2; i < n; i++ { // the last offsets are so large that they need nine bytes
			offsets[i] += 1<<32 - 50*size
		}
		for _, o := range offsets {
			tab.offsets.add(o)
		}
		tab.offsets.add(offsets[n-1] + size)
		var b bytes.Buffer
		must(t, writeTables(&b, V2, &tab))
		data := b.Len()
		b.Write(make([]byte, 12*n)) // long enough for the number of entries, but not for the largest offsets
		wantTables(t, fmt.Sprint(n, " entries"), V2, b.Bytes())
		f := &File{version: V2, maxSize: DefaultMaxEntrySize}
		f.offsets.Store(new(positions))
		pool, err := f.header(b.Bytes(), int64(b.Len()), true)
		if !errors.Is(err, errBadOffset) || f.data != int64(data) || !slices.Equal(pool, tab.parents) || !slices.Equal(allOffsets(f)[:n], offsets) {
			t.Errorf("%d entries: %v, data at %d, want %v at %d", n, err, f.data, errBadOffset, data)
		}
	}
}

// TestChildrenAsInPool checks that Children, which uses the parents of the entries, agrees with the pool.
func TestChildrenAsInPool(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := fakeFile{Version: v, Format: sf, Entries: fakes(300)}.build()
		f := openBytes(t, tr.b)
		want := make([][]uint32, 301)
		for i := uint32(1); i <= 300; i++ {
			p := tr.Entries[i].Parent
			want[p] = append(want[p], i)
		}
		done := make(chan struct{})
		go func() { // concurrently with the calls below
			defer close(done)
			for id := range want {
				f.Children(uint32(id))
			}
		}()
		for id := range want {
			expect.Slice(t, f.Children(uint32(id)), want[id], "children of %d", id)
		}
		<-done
		expect.Len(t, f.Children(301), 0, "children of what is not there")
	})
}

// TestTableGrows checks that a table grows with the number of entries that were found. A sparse file, whose size
// suggests many entries, must not make it allocate more.
func TestTableGrows(t *testing.T) {
	tab := newTable()
	for i := range 100_000 {
		if tab.offsets.len() == cap(tab.offsets.deltas) {
			tab.grow(math.MaxInt64 - 1<<40)
			if most := 4*i + 1024; cap(tab.parents) > most+most/4+64 {
				t.Fatalf("room for %d after %d entries", cap(tab.parents), i)
			}
		}
		tab.parents = append(tab.parents, 0)
		tab.offsets.add(uint64(i+1) * 10)
	}
	tab.grow(1000)
	if cap(tab.parents) > 100_000*17/8 {
		t.Errorf("room for %d of about 100100 entries", cap(tab.parents))
	}
}

// randomEntry returns an entry with random texts and numbers. Their sizes are near the limits at which an encoding
// changes.
func randomEntry(r *rand.Rand, parent uint32) TraceEntry {
	text := func() string {
		sizes := []int{0, 1, 2, 7, 8, 9, 60, 249, 250, 251, 252, 255, 256, 300, 1000}
		n := sizes[r.IntN(len(sizes))]
		if r.IntN(200) == 0 {
			n = []int{1<<16 - 1, 1 << 16, 1<<16 + 1}[r.IntN(3)]
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.IntN(256))
		}
		return string(b)
	}
	optional := func() Optional[string] {
		if r.IntN(2) == 0 {
			return Optional[string]{}
		}
		return Some(text())
	}
	number := func() uint64 {
		n := r.Uint64() >> r.IntN(64)
		return []uint64{n, n, 0, 250, 251, math.MaxUint16, math.MaxUint16 + 1, math.MaxUint32, math.MaxUint32 + 1, math.MaxUint64}[r.IntN(10)]
	}
	e := TraceEntry{
		Parent: parent, Message: optional(),
		Metadata: Metadata{Name: text(), Target: text(), Level: Level(r.IntN(numLevels)), ModulePath: optional(), File: optional()},
	}
	if r.IntN(2) == 0 {
		e.Metadata.Line = Some(uint32(number()))
	}
	names := []string{"", "a", "b", "abcdefg", "abcdefgh", "abcdefghi", "xbcdefgh", "http.method", "http.status", strings.Repeat("n", 250), strings.Repeat("n", 251), strings.Repeat("n", 70_000)}
	n := r.IntN(12)
	if r.IntN(100) == 0 {
		n = 300
	}
	for range n {
		value := []Value{
			StringValue(text()), BytesValue([]byte(text())), BoolValue(r.IntN(2) == 0), FloatValue(r.NormFloat64()),
			U64Value(number()), I64Value(int64(number())), U128Value(number(), number()), I128Value(int64(number()), number()),
		}[r.IntN(numKinds)]
		k := len(names)
		if r.IntN(50) > 0 {
			k--
		}
		e.Attributes = append(e.Attributes, Attribute{names[r.IntN(k)], value})
	}
	return e
}

// TestPositions compares the compact list with a plain list, for gaps of every size.
func TestPositions(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 5))
	for _, most := range []uint64{1, 100, 3000, 1 << 17, 1 << 40} {
		var p positions
		var want []uint64
		off := uint64(0)
		for range 1000 {
			p.add(off)
			want = append(want, off)
			off += 1 + r.Uint64N(most)
		}
		for i, o := range want {
			expect.MustEqual(t, p.at(i), o, "gaps of up to %d: offset %d", most, i)
		}
		q := p
		q.cut(77)
		for _, o := range want[77:] {
			q.add(o)
		}
		if !q.equal(&p) || q.last() != want[999] {
			t.Errorf("gaps of up to %d: another list when it was cut and goes on", most)
		}
	}
}

// TestFinalizeSizes checks that Finalize makes the same ET from an IET and from an
// IETPrefix, for entries of all sizes.
func TestFinalizeSizes(t *testing.T) {
	for _, v := range hostileVersions {
		r := rand.New(rand.NewPCG(3, uint64(v)))
		var es []TraceEntry
		for i := range 400 {
			e := randomEntry(r, uint32(r.IntN(i+1)))
			if i == 100 || i == 101 || i == 399 {
				e.Message = Some(strings.Repeat("large", 3*copySize/10))
			}
			SortAttributes(e.Attributes)
			es = append(es, e)
		}
		entry := func(id int) *TraceEntry { return &es[id-1] }
		want := fabricate(t, v, ET, len(es), entry)
		for _, sf := range []StorageFormat{IET, IETPrefix} {
			b := fabricate(t, v, sf, len(es), entry)
			iet := writeFile(t, "x.iet", b)
			tab, err := scanEntries(bytes.NewReader(b), int64(len(b)), nil)
			must(t, err)
			index := func(skip, entries int) *entrybytes.Index {
				x := new(entrybytes.Index)
				for id := skip; id < entries; id++ {
					x.Add(int(tab.offsets.at(id+1)-tab.offsets.at(id)), uint32(id), tab.parents[id], false)
				}
				return x
			}
			for what, known := range map[string]*entrybytes.Index{
				"no index":            nil,
				"its index":           index(0, tab.len()),
				"an index of too few": index(0, 3),
				"an index of nothing": {},
				"an index with a gap": index(1, tab.len()),
			} {
				f, err := os.Open(iet)
				must(t, err)
				et := hosttest.Path(t, "x.et")
				last, total := int64(-1), int64(0)
				o := &FinalizeOptions{File: f, Progress: func(done, of int64) {
					if done < last {
						t.Errorf("%s: progress goes back from %d to %d", what, last, done)
					}
					last, total = done, of
				}}
				expect.Is(t, finalize(context.Background(), iet, et, o, known), nil, "v%d, %v, %s", v, sf, what)
				got, err := os.ReadFile(et)
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("v%d, %v, %s: another ET, %v", v, sf, what, err)
				}
				if total != 2*int64(len(b)) || last > total || last < total-int64(len(b))/2 {
					t.Errorf("%s: progress ends at %d of %d, want about %d", what, last, total, 2*len(b))
				}
				must(t, f.Close())
			}
		}
	}
}

// TestFinalizeShorterSource checks the error if the source becomes shorter after it was scanned.
func TestFinalizeShorterSource(t *testing.T) {
	for _, sf := range []StorageFormat{IET, IETPrefix} {
		b := fabricate(t, V1, sf, 50, func(id int) *TraceEntry { return plainEntry(id - 1) })
		tab, err := scanEntries(bytes.NewReader(b), int64(len(b)), nil)
		must(t, err)
		tab.prefixed = sf == IETPrefix
		err = writeET(io.Discard, V1, tab, bytes.NewReader(b[:len(b)-3]), func(int64) error { return nil })
		expect.Is(t, err, io.ErrUnexpectedEOF, "%v", sf)
	}
}

// TestSyncerKeepsError checks that stop returns the error of an earlier sync even if later syncs succeed.
func TestSyncerKeepsError(t *testing.T) {
	failed := errors.New("failed")
	var calls atomic.Int32
	s := newSyncer(func() error {
		if calls.Add(1) == 1 {
			return failed
		}
		return nil
	})
	s.wrote(syncSize - 1)
	for n := int64(syncSize); calls.Load() < 2; n += syncSize / 2 {
		s.wrote(n)
		time.Sleep(time.Millisecond)
	}
	expect.Is(t, s.stop(), failed, "stop")
	s = newSyncer(func() error { t.Error("sync of what is small"); return nil })
	s.wrote(syncSize - 1)
	must(t, s.stop())
}

// FuzzTables compares File.header with plainTables.
func FuzzTables(f *testing.F) {
	fuzzET(f, func(t *testing.T, v Version, body []byte) {
		wantTables(t, "fuzz", v, append(wire.AppendMagic(nil, v, ET), body...))
	})
}

// TestOpenWithoutMap opens an ET that is not mapped into memory. Open must then read only the tables, and the File
// must have the same entries.
func TestOpenWithoutMap(t *testing.T) {
	name := hosttest.Path(t, "x.et")
	w, err := os.Create(name)
	must(t, err)
	out, err := NewWriter(w, V1, ET, nil)
	must(t, err)
	const n = 60_000
	for i := range n {
		e := &TraceEntry{Parent: uint32(i / 2), Metadata: Metadata{Name: strings.Repeat("n", 400)}}
		_, err := out.Write(e)
		must(t, err)
	}
	must(t, errors.Join(out.Close(), w.Close()))
	mapped, err := Open(name, nil)
	must(t, err)
	image, err := os.ReadFile(name)
	must(t, err)
	open := func(image []byte) (*File, error) {
		in, err := os.Create(name + ".copy")
		must(t, err)
		src, err := mapfile.New(in) // an empty file is not mapped
		must(t, err)
		must(t, os.WriteFile(name+".copy", image, 0o600))
		src.Grow(int64(len(image)))
		f := &File{src: src, name: name, maxSize: DefaultMaxEntrySize}
		f.offsets.Store(new(positions))
		return f, f.index(&OpenOptions{})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := open(image)
	runtime.ReadMemStats(&after)
	must(t, err)
	defer f.Close()
	if took := after.TotalAlloc - before.TotalAlloc; took > uint64(f.Size())/3 {
		t.Errorf("opening a file of %d bytes takes %d", f.Size(), took)
	}
	if f.data != mapped.data || !slices.Equal(allOffsets(f), allOffsets(mapped)) {
		t.Error("the tables are others")
	}
	for _, id := range []uint32{0, n / 2, n - 1} {
		a, aerr := f.Entry(id)
		b, berr := mapped.Entry(id)
		if aerr != nil || berr != nil || !sameEntry(a, b) {
			t.Errorf("entry %d: %v, %v", id, aerr, berr)
		}
	}
	must(t, mapped.Close())
	cut, err := open(image[:len(image)-1])
	must(t, err)
	defer cut.Close()
	if cut.Len() != n-1 || !errors.Is(cut.Damage(), ErrTruncated) {
		t.Errorf("of the file that was cut there are %d entries, %v", cut.Len(), cut.Damage())
	}
}

func (p *positions) equal(q *positions) bool {
	if p.len() != q.len() {
		return false
	}
	for i := range p.deltas {
		if p.at(i) != q.at(i) {
			return false
		}
	}
	return true
}
