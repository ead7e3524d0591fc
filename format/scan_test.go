package format

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/wire"
)

// A scanned is what Scan or Walk gave: entries in order, and how it ended.
type scanned struct {
	entries []ScanEntry
	err     error
}

func cloneOptional(o Optional[string]) Optional[string] {
	o.Value = strings.Clone(o.Value)
	return o
}

// cloneScanEntry returns what stays of e when the batch is gone.
func cloneScanEntry(e *ScanEntry) ScanEntry {
	c := *e
	m := &c.Metadata
	c.Message, m.ModulePath, m.File = cloneOptional(c.Message), cloneOptional(m.ModulePath), cloneOptional(m.File)
	m.Name, m.Target = strings.Clone(m.Name), strings.Clone(m.Target)
	c.Values = slices.Clone(c.Values)
	for i := range c.Values {
		c.Values[i].Value = c.Values[i].Value.clone()
	}
	return c
}

func sameScanEntry(a, b *ScanEntry) bool {
	return a.ID == b.ID && a.Parent == b.Parent && a.Level == b.Level && a.Message == b.Message && a.Metadata == b.Metadata &&
		slices.EqualFunc(a.Values, b.Values, func(x, y Optional[Value]) bool { return x.Valid == y.Valid && x.Value.Equal(y.Value) })
}

// walked is what Scan with o has to give.
func walked(f *File, o *ScanOptions) (s scanned) {
	stop := errors.New("stop")
	s.err = f.Walk(o.From, func(id uint32, e *TraceEntry) error {
		if o.To > 0 && id >= o.To {
			return stop
		}
		row := ScanEntry{ID: id, Parent: e.Parent, Level: e.Metadata.Level}
		if o.Message {
			row.Message = e.Message
		}
		if o.Metadata {
			row.Metadata = e.Metadata
		}
		for _, name := range o.Attributes {
			v, ok := e.Attribute(name)
			row.Values = append(row.Values, Optional[Value]{v, ok})
		}
		s.entries = append(s.entries, cloneScanEntry(&row))
		return nil
	})
	if o.To > 0 && int64(len(s.entries)) >= int64(o.To)-int64(o.From) {
		s.err = nil // what is wrong behind To is no matter
	}
	if errors.Is(s.err, stop) {
		s.err = nil
	}
	return s
}

// scan is what Scan gives, in the order of the file.
func scanAll(t testing.TB, f *File, o *ScanOptions) (s scanned) {
	t.Helper()
	var mu sync.Mutex
	running := 0
	s.err = f.Scan(context.Background(), o, func(b *ScanBatch) error {
		mu.Lock()
		defer mu.Unlock()
		if running++; running > 1 && !o.Concurrent {
			t.Error("fn is called at the same time")
		}
		if len(b.Entries) == 0 {
			t.Error("a batch of nothing")
		}
		for i := range b.Entries {
			if i > 0 && b.Entries[i].ID != b.Entries[i-1].ID+1 {
				t.Errorf("entry %d comes behind %d in a batch", b.Entries[i].ID, b.Entries[i-1].ID)
			}
			s.entries = append(s.entries, cloneScanEntry(&b.Entries[i]))
		}
		if o.Workers > 0 && b.Worker >= o.Workers || b.Worker < 0 {
			t.Errorf("worker %d of %d", b.Worker, o.Workers)
		}
		running--
		return nil
	})
	if o.Concurrent {
		slices.SortFunc(s.entries, func(a, b ScanEntry) int { return int(int64(a.ID) - int64(b.ID)) })
	}
	return s
}

// wantScan complains unless Scan gives what Walk gives, the error too.
func wantScan(t testing.TB, what string, f *File, o *ScanOptions) {
	t.Helper()
	want, got := walked(f, o), scanAll(t, f, o)
	if g, w := fmt.Sprintf("%T %v", got.err, got.err), fmt.Sprintf("%T %v", want.err, want.err); g != w {
		t.Errorf("%s, %+v: Scan ends with %s, Walk with %s", what, *o, g, w)
	}
	if o.Concurrent && len(got.entries) > len(want.entries) {
		got.entries = got.entries[:len(want.entries)] // some behind the damage
	}
	if len(got.entries) != len(want.entries) {
		t.Errorf("%s, %+v: Scan gives %d entries, Walk %d", what, *o, len(got.entries), len(want.entries))
	}
	for i := range min(len(got.entries), len(want.entries)) {
		if !sameScanEntry(&got.entries[i], &want.entries[i]) {
			t.Errorf("%s, %+v:\n got %+v\nwant %+v", what, *o, got.entries[i], want.entries[i])
			return
		}
	}
}

// scanOptions are ways to scan a file whose attributes have names like these.
func scanOptions(names ...string) []ScanOptions {
	twice := append([]string{"", "no such name"}, names...)
	twice = append(twice, names...)
	return []ScanOptions{
		{},
		{Workers: 1, Message: true, Attributes: names[:1]},
		{Workers: 3, Attributes: twice},
		{Workers: 2, Metadata: true, Message: true, Attributes: names, Concurrent: true},
		{Workers: 5, Metadata: true, Attributes: names[len(names)-1:]},
	}
}

// attributeNames returns some of the names in f.
func attributeNames(f *File) []string {
	names := []string{"a"}
	_ = f.Walk(0, func(_ uint32, e *TraceEntry) error { // the damage is no matter here
		for i := range e.Attributes {
			if name := e.Attributes[i].Name; len(names) < 30 && !slices.Contains(names, name) {
				names = append(names, strings.Clone(name))
			}
		}
		return nil
	})
	return names
}

func TestScanFixtures(t *testing.T) {
	files, err := filepath.Glob("testdata/*.*et*")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		f, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range scanOptions(attributeNames(f)...) {
			wantScan(t, name, f, &o)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// randomEntry has texts and numbers around every change of their encodings.
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

func TestScanGenerated(t *testing.T) {
	n := 1500
	if testing.Short() || raceEnabled {
		n = 600
	}
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		r := rand.New(rand.NewPCG(uint64(v), uint64(sf)))
		b := fabricate(t, v, sf, n, func(id int) *TraceEntry {
			e := randomEntry(r, uint32(r.IntN(id)))
			if id == n/2 { // larger than a batch
				e.Message = Some(strings.Repeat("large", scanSize))
			}
			return &e
		})
		f := openBytes(t, b)
		for _, o := range scanOptions("http.method", "a", "", "abcdefgh", "xbcdefgh", strings.Repeat("n", 250), strings.Repeat("n", 251), strings.Repeat("n", 70_000)) {
			wantScan(t, "generated", f, &o)
		}
		for _, o := range []ScanOptions{
			{From: 3},
			{From: 3, To: 4},
			{To: 300},
			{From: 255, To: 513},
			{From: uint32(n)},
			{From: uint32(n) + 1},
			{From: 9, To: 9},
			{From: math.MaxUint32, To: math.MaxUint32},
			{From: 7, To: 2},
			{To: math.MaxUint32},
		} {
			o.Workers = 4
			if o.To > 0 && o.To <= o.From || int64(o.From) > int64(n) {
				if got := scanAll(t, f, &o); len(got.entries) > 0 || got.err != nil {
					t.Errorf("%+v: %d entries, %v, want none", o, len(got.entries), got.err)
				}
				continue
			}
			wantScan(t, "a part", f, &o)
		}
	})
}

// Every field of an entry in turn has every odd first byte. An ET opens in spite
// of it, and Scan must say of it what Walk says, however little it wants.
func TestScanDamaged(t *testing.T) {
	for _, v := range hostileVersions {
		for field := range (&fakeEntry{TraceEntry: rich(0, "wrong")}).layout(v).at {
			for _, wrong := range [][]byte{
				{},
				{0},
				{1},
				{2},
				{5},
				{7},
				{8},
				{250},
				{251},
				{252},
				{253},
				{254},
				{255},
				{wire.Tag16, 1, 0},
				{wire.Tag16, 250, 0},
				{wire.Tag16, 255, 255},
				{wire.Tag32, 1, 0, 0, 0},
				{wire.Tag32, 255, 255, 255, 255},
				{wire.Tag32, 0, 0, 1, 0},
				{wire.Tag64, 1, 0, 0, 0, 0, 0, 0, 0},
				{wire.Tag64, 255, 255, 255, 255, 255, 255, 255, 255},
				{wire.Tag64, 255, 255, 255, 255, 255, 255, 255, 127},
				{wire.Tag128, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
				{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			} {
				tr := oneWrong(v, ET, field, wrong)
				f := openBytes(t, tr.b)
				for _, o := range []ScanOptions{{Workers: 1}, {Attributes: []string{"h", "a", "d"}, Message: true, Metadata: true}} {
					wantScan(t, fmt.Sprintf("v%d, %s is % x", v, field, wrong), f, &o)
				}
				checkQuick(t, v, tr.raws[1].b)
			}
		}
	}
}

// checkQuick complains where quickEntry accepts what the decoder does not, or
// takes something else of it.
func checkQuick(t *testing.T, v Version, b []byte) {
	t.Helper()
	parent, size, ok := quickEntry(b, v)
	if !ok {
		return
	}
	var e TraceEntry
	n, err := DecodeTraceEntry(b, v, &e)
	if err != nil || n != size || parent != e.Parent {
		t.Errorf("v%d, % x: quickEntry takes %d bytes, parent %d; want %d, %d, %v", v, b, size, parent, n, e.Parent, err)
	}
}

// An entry with one attribute too many is as wrong for Scan as it is for Walk.
func TestScanTooManyAttributes(t *testing.T) {
	for _, v := range hostileVersions {
		for _, n := range []int{MaxAttributes, MaxAttributes + 1} {
			es := []fakeEntry{{TraceEntry: *Root()}, {TraceEntry: *plainEntry(0)}, {TraceEntry: *plainEntry(0)}}
			for range n {
				es[1].Attributes = append(es[1].Attributes, Attribute{"a", BoolValue(true)})
			}
			tr := fakeFile{Version: v, Format: ET, Entries: es}.build()
			wantScan(t, fmt.Sprint(n, " attributes"), openBytes(t, tr.b), &ScanOptions{Attributes: []string{"a", "b"}})
			checkQuick(t, v, tr.raws[1].b)
		}
	}
}

// What is usual is passed over quickly, and no prefix of it is.
func TestQuickEntry(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, v := range hostileVersions {
		for i := range 2000 {
			e := randomEntry(r, uint32(r.Uint64()>>(32+r.IntN(32))))
			if i == 0 {
				e = rich(3, "rich")
			}
			SortAttributes(e.Attributes)
			b := AppendTraceEntry(nil, v, &e)
			parent, size, ok := quickEntry(append(b, 1, 2, 3, 4, 5, 6)[:len(b)+i%7], v)
			usual := len(b) < 1<<16
			if ok && (size != len(b) || parent != e.Parent) || !ok && usual {
				t.Fatalf("v%d: %d of %d bytes, parent %d, %t, want parent %d of %+v", v, size, len(b), parent, ok, e.Parent, e)
			}
			for n := range min(len(b), 500) {
				if _, _, ok := quickEntry(b[:n], v); ok {
					t.Fatalf("v%d: %d of %d bytes are an entry", v, n, len(b))
				}
			}
		}
	}
}

// damagedAt is an ET of n entries, of which some are damaged.
func damagedAt(v Version, n int, bad ...int) *fakeTrace {
	es := small(n)
	for _, i := range bad {
		es[i].Instead = map[string][]byte{"level": {9}}
	}
	return fakeFile{Version: v, Format: ET, Entries: es}.build()
}

func TestScanDamageComesFirst(t *testing.T) {
	for _, v := range hostileVersions {
		for _, bad := range [][]int{{1}, {scanCount - 1}, {scanCount}, {700, 900, 901}, {2000}, {2990, 10}} {
			tr := damagedAt(v, 3000, bad...)
			f := openBytes(t, tr.b)
			first := slices.Min(bad)
			for _, o := range []ScanOptions{{Workers: 1}, {Workers: 4}, {Workers: 4, Concurrent: true}} {
				wantScan(t, fmt.Sprint("damaged ", bad), f, &o)
				err := f.Scan(t.Context(), &o, func(*ScanBatch) error { return nil })
				wantCorrupt(t, "Scan", err, int64(first), tr.in(first, "level"), ErrBadLevel)
			}
		}
	}
}

// The error that is first in the file is the one that Scan returns, and what is
// before it has come.
func TestScanFunctionFails(t *testing.T) {
	f := openBytes(t, damagedAt(V1, 5000, 4900).b)
	for _, o := range []ScanOptions{{Workers: 1}, {Workers: 4}, {Workers: 4, Concurrent: true}} {
		for range 20 {
			var mu sync.Mutex
			var came []uint32
			err := f.Scan(t.Context(), &o, func(b *ScanBatch) error {
				mu.Lock()
				defer mu.Unlock()
				first := b.Entries[0].ID
				came = append(came, first)
				if first >= 1500 {
					return fmt.Errorf("stop at %d", first)
				}
				return nil
			})
			if err == nil || err.Error() != "stop at 1536" {
				t.Fatalf("%+v: %v, want stop at 1536", o, err)
			}
			slices.Sort(came)
			for i := range 7 {
				if came[i] != uint32(i*scanCount) {
					t.Fatalf("%+v: batches at %v, want each up to 1536", o, came)
				}
			}
			if !o.Concurrent && len(came) != 7 {
				t.Fatalf("%+v: batches at %v, want none behind 1536", o, came)
			}
		}
	}
}

func TestScanContext(t *testing.T) {
	f := openBytes(t, damagedAt(V2, 5000).b)
	for _, o := range []ScanOptions{{Workers: 1}, {Workers: 4}, {Workers: 4, Concurrent: true}, {From: 9999}} {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		var mu sync.Mutex
		err := f.Scan(ctx, &o, func(*ScanBatch) error {
			mu.Lock()
			defer mu.Unlock()
			time.Sleep(5 * time.Millisecond) // the others have something ready, too
			cancel()
			calls++
			return nil
		})
		if o.From == 0 && (!errors.Is(err, context.Canceled) || calls > 4 || !o.Concurrent && calls != 1) {
			t.Errorf("%+v: %v after %d calls, want %v at once", o, err, calls, context.Canceled)
		}
		cancel()
		err = f.Scan(ctx, &o, func(*ScanBatch) error {
			t.Error("fn is called although the context is done")
			return nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%+v: %v, want %v", o, err, context.Canceled)
		}
	}
}

// However fn ends, no goroutine is left and none waits for ever.
func TestScanFunctionDoesNotReturn(t *testing.T) {
	f := openBytes(t, damagedAt(V1, 5000).b)
	before := runtime.NumGoroutine()
	func() {
		defer func() {
			if r := recover(); r != "panic of fn" {
				t.Errorf("recovered %v, want that of fn", r)
			}
		}()
		err := f.Scan(t.Context(), &ScanOptions{Workers: 1}, func(*ScanBatch) error { panic("panic of fn") })
		t.Errorf("Scan: %v, want the panic", err)
	}()
	for i := range 30 {
		o := ScanOptions{Workers: 4, Concurrent: i%2 > 0}
		done := make(chan error, 1)
		go func() {
			err := errScanFn // when this is the goroutine that ends
			defer func() { done <- err }()
			var calls atomic.Int32
			err = f.Scan(t.Context(), &o, func(*ScanBatch) error {
				if calls.Add(1) == 3 {
					runtime.Goexit()
				}
				return nil
			})
		}()
		if err := <-done; !errors.Is(err, errScanFn) {
			t.Errorf("%+v: %v, want %v", o, err, errScanFn)
		}
	}
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

func TestScanClosed(t *testing.T) {
	f := openBytes(t, damagedAt(V1, 3000).b)
	for _, concurrent := range []bool{false, true} {
		err := f.Scan(t.Context(), &ScanOptions{Concurrent: concurrent}, func(*ScanBatch) error {
			_ = f.Close() // must not hang; the second time it is closed already
			return nil
		})
		if !errors.Is(err, ErrClosed) {
			t.Errorf("Scan of a file that fn closes: %v, want %v", err, ErrClosed)
		}
	}
}

func TestScanTruncatedWhileMapped(t *testing.T) {
	notOnWindows(t)
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := pages(v, sf)
		for _, size := range []int{0, 1, 2 * os.Getpagesize(), tr.ends[30] - 5, len(tr.b) - 1} {
			name := writeFile(t, "x", tr.b)
			f, err := Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, int64(size)); err != nil {
				t.Fatal(err)
			}
			for _, o := range []ScanOptions{{}, {Message: true, Metadata: true, Attributes: []string{"text"}}} {
				err := f.Scan(t.Context(), &o, func(b *ScanBatch) error {
					for i := range b.Entries {
						if e := &b.Entries[i]; e.ID > 0 && len(o.Attributes) > 0 && !e.Values[0].Value.Equal(tr.Entries[e.ID].Attributes[0].Value) {
							t.Errorf("cut to %d: entry %d has other bytes", size, e.ID)
						}
					}
					return nil
				})
				if !errors.Is(err, ErrShrunk) {
					t.Errorf("cut to %d: %v, want %v", size, err, ErrShrunk)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// What fn is given does not lie in the map, whichever way it was decoded.
func TestScanCopies(t *testing.T) {
	notOnWindows(t)
	long := append([]byte{wire.Tag64}, binary.LittleEndian.AppendUint64(nil, 4)...) // the length of "text", which is not usual
	for _, v := range hostileVersions {
		for _, instead := range []map[string][]byte{nil, {"attr[0].value.len": long}, {"module_path.len": append([]byte{wire.Tag64}, 9, 0, 0, 0, 0, 0, 0, 0)}} {
			es := []fakeEntry{{TraceEntry: *Root()}, {TraceEntry: rich(0, "name")}}
			es[1].Instead = instead
			f := openBytes(t, fakeFile{Version: v, Format: IET, Entries: es}.build().b)
			o := &ScanOptions{Message: true, Metadata: true, Attributes: []string{"a", "b"}}
			err := f.Scan(t.Context(), o, func(b *ScanBatch) error {
				if err := os.Truncate(f.Name(), 0); err != nil {
					return err
				}
				e := &b.Entries[1]
				if e.Values[0].Value.Text() != "text" || string(e.Values[1].Value.Bytes()) != "\x01\x02\x03" || e.Message.Value != "a message" ||
					e.Metadata != rich(0, "name").Metadata {
					t.Errorf("v%d: %+v", v, e)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// The limit for an entry holds as it does for Walk.
func TestScanMaxEntrySize(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		es := small(600)
		es[300].Message = Some(strings.Repeat("x", 2*scanSize))
		f := openBytes(t, fakeFile{Version: v, Format: sf, Entries: es}.build().b)
		f.maxSize = scanSize + 1000
		for _, o := range []ScanOptions{{Workers: 1}, {Workers: 3, Message: true}} {
			wantScan(t, "a limit", f, &o)
			err := f.Scan(t.Context(), &o, func(*ScanBatch) error { return nil })
			wantCorrupt(t, "Scan", err, 300, -1, nil)
		}
	})
}

func TestScanAllocs(t *testing.T) {
	for _, v := range hostileVersions {
		var files [2]*File
		for i, n := range []int{1000, 20_000} {
			files[i] = openBytes(t, fabricate(t, v, IET, n, func(id int) *TraceEntry {
				e := rich(uint32(id-1), "entry")
				e.Attributes = append(e.Attributes, Attribute{"z", BoolValue(true)}) // a zero at the end could be a lost page
				return &e
			}))
		}
		o := &ScanOptions{Workers: 1, Message: true, Metadata: true, Attributes: []string{"a", "e", "h"}}
		ctx := t.Context()
		var got [2]float64
		for i, f := range files {
			got[i] = testing.AllocsPerRun(10, func() {
				if err := f.Scan(ctx, o, func(*ScanBatch) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		// Nothing for an entry or a batch, but what the buffers grew from.
		if got[1] > got[0]+5 || got[1] > 80 {
			t.Errorf("v%d: Scan allocates %v times for 1000 entries, %v for 20000", v, got[0], got[1])
		}
	}
}

// Huge claims and huge entries take no more memory than their bytes.
func TestScanMemory(t *testing.T) {
	for _, v := range hostileVersions {
		for _, field := range entryLengths(v) {
			for _, claim := range hugeLengths {
				f := openBytes(t, oneWrong(v, ET, field, wire.AppendUint(nil, claim.n)).b)
				o := &ScanOptions{Workers: 1, Message: true, Metadata: true, Attributes: []string{"a", "b"}}
				got := allocated(func() {
					if err := f.Scan(t.Context(), o, func(*ScanBatch) error { return nil }); err == nil {
						t.Errorf("v%d, %s claims %s: no error", v, field, claim.name)
					}
				})
				if got > 1<<20 {
					t.Errorf("v%d, %s claims %s: %d bytes are allocated", v, field, claim.name, got)
				}
			}
		}
	}
}

// FuzzScan checks that Scan gives what Walk gives, and that what quickEntry
// accepts the decoder accepts.
func FuzzScan(f *testing.F) {
	for i, b := range fuzzFiles(f) {
		f.Add(b, "a", uint8(i))
	}
	for _, v := range hostileVersions {
		for _, wrong := range [][]byte{{251}, {wire.Tag16, 1, 0}, {wire.Tag32, 1, 0, 0, 0}, {wire.Tag64, 1, 0, 0, 0, 0, 0, 0, 0}, {255}} {
			for _, field := range []string{"level", "attr[0].name.len", "attr[1].kind", "attr[4].value", "attr[6].value", "line"} {
				f.Add(oneWrong(v, ET, field, wrong).b, "e", uint8(3))
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, name string, how uint8) {
		if len(b) > maxFuzzSize {
			return
		}
		file := writeFile(t, "x", b)
		for _, lenient := range []bool{false, true} {
			f, err := Open(file, &OpenOptions{Lenient: lenient})
			if err != nil {
				continue
			}
			o := ScanOptions{
				Message: how&1 > 0, Metadata: how&2 > 0, Concurrent: how&4 > 0, Workers: int(how>>3&3) + 1,
				Attributes: append(attributeNames(f), name, name),
			}
			if how&32 > 0 {
				o.Attributes = []string{name}
			}
			if how&64 > 0 {
				o.From, o.To = uint32(how>>3), uint32(how)
			}
			if int64(o.From) <= int64(f.Len()) {
				wantScan(t, "fuzz", f, &o)
			}
			for id := range uint32(f.Len()) {
				if raw, err := f.AppendRaw(nil, id); err == nil {
					checkQuick(t, f.version, raw)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		for _, v := range hostileVersions {
			checkQuick(t, v, b)
		}
	})
}
