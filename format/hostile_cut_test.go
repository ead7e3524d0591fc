package format

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// small returns the root and n entries, which are short and differ from each other.
func small(n int) []fakeEntry {
	out := []fakeEntry{{TraceEntry: *Root()}}
	for i := 1; i <= n; i++ {
		e := TraceEntry{Parent: uint32((i - 1) / 3), Metadata: Metadata{Name: fmt.Sprintf("e%d", i), Level: Level(i % numLevels)}}
		switch i % 8 {
		case 1:
			e.Message = Some(strings.Repeat("m", i))
		case 2:
			e.Metadata.ModulePath, e.Metadata.Line = Some("m"), Some(uint32(i*1000))
		case 3:
			e.Attributes = []Attribute{{"a", U64Value(uint64(i) << 20)}, {"b", BoolValue(true)}}
		case 4:
			e.Metadata.File, e.Metadata.Target = Some(""), "t"
		case 5:
			e.Attributes = []Attribute{{"f", FloatValue(float64(i))}, {"s", StringValue("\x00\x00")}, {"u", U128Value(1, uint64(i))}}
		case 6:
			e.Message, e.Attributes = Some(""), []Attribute{{"", BytesValue(nil)}}
		case 7:
			e.Metadata.Name = strings.Repeat("long ", 60) // its length needs more than one byte
		}
		out = append(out, fakeEntry{TraceEntry: e})
	}
	return out
}

// wholeAt returns the number of entries that are complete in the first size bytes, and the offset of their
// end. Without entries, this is the end of the magic.
func (t *fakeTrace) wholeAt(size int) (n, end int) {
	end = wire.MagicSize
	for n < len(t.ends) && t.ends[n] <= size {
		end = t.ends[n]
		n++
	}
	return n, end
}

func TestCutAtEveryByteReader(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		t.Parallel()
		tr := fakeFile{Version: v, Format: sf, Entries: small(hosttest.Times(20, 60))}.build()
		want := tr.rawStrings()
		for size := range len(tr.b) + 1 {
			cut := tr.b[:size:size]
			raws, err := drain(cut)
			n, _ := tr.wholeAt(size)
			expect.MustEqual(t, sameStrings(raws, want[:n]), "", "cut at %d", size)
			expect.MustEqual(t, tr.cutError(err, size), "", "cut at %d", size)
			// The entries must be the same if the bytes arrive in smaller pieces.
			slow, serr := drainReader(iotest.HalfReader(iotest.DataErrReader(bytes.NewReader(cut))), nil)
			if diff := sameStrings(slow, raws); diff != "" || fmt.Sprint(serr) != fmt.Sprint(err) {
				t.Fatalf("cut at %d: in pieces %s, error %v, want %v", size, diff, serr, err)
			}
		}
	})
}

// cutError checks err, the error of reading only the first size bytes. It returns a description of what is wrong
// with err, or "".
func (t *fakeTrace) cutError(err error, size int) string {
	n, end := t.wholeAt(size)
	if size == len(t.b) || t.Format != ET && size == end && size >= wire.MagicSize {
		if err != nil {
			return fmt.Sprintf("%v, want no error at the end of an entry", err)
		}
		return ""
	}
	e, ok := errors.AsType[*TruncatedError](err)
	if !ok || !errors.Is(err, ErrTruncated) || !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Sprintf("%v (%T), want a *TruncatedError", err, err)
	}
	switch {
	case size < wire.MagicSize:
		if e.Entry != noEntry || e.Offset != 0 {
			return fmt.Sprintf("%v, want the magic", err)
		}
	case t.Format == ET && size < t.at["data"]:
		if e.Entry != noEntry || e.Offset > int64(size) {
			return fmt.Sprintf("%v, want a place in the tables", err)
		}
	case e.Entry != int64(n) || e.Offset != int64(t.starts[n]):
		return fmt.Sprintf("%v, want entry %d at offset %d", err, n, t.starts[n])
	}
	return ""
}

func TestCutAtEveryByteInspect(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		t.Parallel()
		tr := fakeFile{Version: v, Format: sf, Entries: small(hosttest.Times(20, 60))}.build()
		name := writeFile(t, "x."+sf.String(), tr.b)
		seen := make(map[string]int)
		for size := len(tr.b); size >= 0; size-- {
			must(t, os.Truncate(name, int64(size)))
			complain := func(what, wrong string) { // report the first, and count the others
				if wrong == "" {
					return
				}
				seen[what]++
				if seen[what] == 1 {
					t.Errorf("cut at %d: %s: %s", size, what, wrong)
				}
			}
			inspectCut(tr, name, size, complain)
		}
		for what, n := range seen {
			t.Errorf("%s: wrong for %d cuts of %d", what, n, len(tr.b)+1)
		}
	})
}

func inspectCut(tr *fakeTrace, name string, size int, complain func(what, wrong string)) {
	n, end := tr.wholeAt(size)
	r, err := Inspect(name)
	f, oerr := Open(name, nil)
	if f != nil {
		defer f.Close()
	}
	if size < wire.MagicSize {
		complain("Inspect of a part of the magic", tr.cutError(err, size))
		complain("Open of a part of the magic", tr.cutError(oerr, size))
		return
	}
	if err != nil {
		complain("Inspect", err.Error())
	} else {
		complain("Damage of Inspect", tr.cutError(r.Damage, size))
		reason := mapping.CutTorn
		if size == len(tr.b) || tr.Format != ET && size == end {
			reason = mapping.CutClean
		} else if tr.Format != ET && wire.IsZero(tr.b[end:size]) {
			reason = mapping.CutZeroTail // the first bytes of the incomplete entry can also be zeros
		}
		if r.Entries != n || n > 0 && r.GoodBytes != int64(end) || r.Size != int64(size) || r.Reason != reason {
			complain("Report", fmt.Sprintf("%+v, want %d entries, %d bytes, %s", r, n, end, reason))
		}
	}
	if oerr != nil {
		// Only an ET may be refused, because no writer leaves an incomplete ET. The error must still say that the
		// file is truncated, not that it is damaged.
		if tr.Format != ET || !errors.Is(oerr, ErrTruncated) {
			complain("Open", oerr.Error())
		}
		return
	}
	complain("Damage of Open", tr.cutError(f.Damage(), size))
	if f.Len() != n {
		complain("Len", fmt.Sprintf("%d entries, want %d", f.Len(), n))
	}
}

func TestCutAtEveryByteFollow(t *testing.T) {
	for _, v := range hostileVersions {
		tr := fakeFile{Version: v, Format: ET, Entries: small(10)}.build()
		dir := t.TempDir()
		for size := wire.MagicSize; size < len(tr.b); size++ {
			name := writeFile(t, filepath.Join(dir, "x.et"), tr.b[:size])
			if raws, err := followed(name); err == nil {
				t.Fatalf("v%d: Follow of an ET cut at %d gives %d entries and io.EOF, a clean end", v, size, len(raws))
			}
		}
	}
}

// TestCutAtEveryByteRecover cuts a file of few entries at every byte if ENTRACE_SOAK is set, else around the ends of its
// entries and at one byte of seven, because every Recover syncs, which is slow. It cuts a file of many entries only around
// their ends.
func TestCutAtEveryByteRecover(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		t.Parallel()
		for _, n := range []int{7, 60} {
			tr := fakeFile{Version: v, Format: sf, Entries: small(n)}.build()
			for size := wire.MagicSize; size <= len(tr.b); size++ {
				n, end := tr.wholeAt(size)
				near := size-end <= 1 || n < len(tr.ends) && size == tr.ends[n]-1
				if len(tr.ends) > 10 && (!near || n%4 != 0) || !near && size%hosttest.Times(7, 1) != 0 {
					continue
				}
				dir := hosttest.MemoryDir(t)
				name := writeFile(t, filepath.Join(dir, "x.iet"), tr.b[:size])
				if sf == ET {
					name = writeFile(t, filepath.Join(dir, "x.et"), tr.b[:size])
				}
				wantRecovered(t, name, filepath.Join(dir, "out.et"), tr.rawStrings()[:n])
				wantRecovered(t, name, "", tr.rawStrings()[:n])
				if t.Failed() {
					t.Fatalf("the cut was at %d of %d bytes", size, len(tr.b))
				}
			}
		}
	})
}

// TestCutBySourceError checks that bytes that a source returns together with an error are read.
func TestCutBySourceError(t *testing.T) {
	boom := errors.New("connection reset")
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		tr := fakeFile{Version: v, Format: sf, Entries: small(20)}.build()
		src := iotest.DataErrReader(io.MultiReader(bytes.NewReader(tr.b[:tr.ends[9]+3]), iotest.ErrReader(boom)))
		raws, err := drainReader(src, nil)
		if diff := sameStrings(raws, tr.rawStrings()[:10]); diff != "" || !errors.Is(err, boom) {
			t.Errorf("%s, error %v; want the 10 whole entries, then %v", diff, err, boom)
		}
	})
}

func TestFlipBits(t *testing.T) {
	eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
		t.Parallel()
		tr := fakeFile{Version: v, Format: sf, Entries: small(30)}.build()
		rnd := rand.New(rand.NewPCG(uint64(v), uint64(sf)))
		dir := hosttest.MemoryDir(t)
		name := filepath.Join(dir, "x."+sf.String())
		for i := range hosttest.InCI(200, 1200) {
			b := bytes.Clone(tr.b)
			for range 1 + i%3 {
				bit := rnd.IntN(8 * len(b))
				b[bit/8] ^= 1 << (bit % 8)
			}
			writeFile(t, name, b)
			checkAnyFile(t, name, b)
			if t.Failed() {
				t.Fatalf("flip %d", i)
			}
		}
	})
}

// checkAnyFile checks properties that must hold for a file of any bytes.
func checkAnyFile(t testing.TB, name string, b []byte) {
	t.Helper()
	inRange := func(what string, err error) {
		t.Helper()
		if at, ok := errorOffset(err); ok && (at < 0 || at > int64(len(b))) {
			t.Errorf("%s: %v: offset %d of a file of %d bytes", what, err, at, len(b))
		}
	}
	raws, parents, rerr := drainParents(t, b)
	inRange("Reader", rerr)

	f, err := Open(name, &OpenOptions{Lenient: true})
	if err != nil {
		inRange("Open", err)
		if rerr == nil {
			t.Errorf("Open: %v, but a Reader reads it all", err)
		}
		return
	}
	defer f.Close()
	inRange("Damage", f.Damage())
	if f.WholeSize() > f.Size() || f.WholeSize() < 0 {
		t.Errorf("%d of %d bytes are whole", f.WholeSize(), f.Size())
	}
	if f.Format() != ET || f.Damage() != nil {
		// The index skips attributes, but must agree with a full decoder. Only zeros before damage are an
		// exception: the index may count them as damage.
		for len(raws) > f.Len() && rerr != nil && wire.IsZero([]byte(raws[len(raws)-1])) {
			raws, rerr = raws[:len(raws)-1], f.Damage()
		}
		if f.Len() != len(raws) {
			t.Errorf("File has %d entries, %v; Reader %d, %v", f.Len(), f.Damage(), len(raws), rerr)
		}
		if f.Format() != ET && fmt.Sprint(f.Damage()) != fmt.Sprint(rerr) {
			t.Errorf("Damage is %v, Reader's error %v", f.Damage(), rerr)
		}
		for i := range min(f.Len(), len(raws)) {
			raw, err := f.appendRaw(nil, uint32(i))
			if err != nil || string(raw) != raws[i] {
				t.Errorf("entry %d of File differs from that of Reader, %v", i, err)
			}
			expect.Equal(t, f.Parent(uint32(i)), parents[i], "parent of %d", i)
			expect.Is(t, expect.Err(f.Entry(uint32(i))), nil, "entry %d", i)
		}
	}
	kids := 0
	for id := range uint32(f.Len()) {
		for _, kid := range f.Children(id) {
			kids++
			if kid <= id || f.Parent(kid) != id {
				t.Errorf("%d is a child of %d, its parent is %d", kid, id, f.Parent(kid))
			}
		}
		e, err := f.Entry(id)
		inRange("Entry", err)
		if err != nil {
			continue
		}
		for _, a := range append(e.Attributes, Attribute{Name: "none"}) {
			want, has := e.Attribute(a.Name)
			if got, ok, err := f.Attribute(id, a.Name); err != nil || ok != has || !got.Equal(want) {
				t.Errorf("Attribute(%d, %q) = %v, %v, %v; Entry says %v, %v", id, a.Name, got, ok, err, want, has)
			}
		}
	}
	if f.Len() > 0 && kids != f.Len()-1 {
		t.Errorf("%d children of %d entries", kids, f.Len())
	}
	_, err = Verify(name, func(problem error) { inRange("Verify", problem) })
	inRange("Verify", err)
}

// drainParents does the same as drain. It also returns the parents, and decodes each encoding separately.
func drainParents(t testing.TB, b []byte) (raws []string, parents []uint32, err error) {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), nil)
	if err != nil {
		return nil, nil, err
	}
	var again TraceEntry
	last := r.Offset()
	for {
		e, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, ErrTruncated) {
				err = nil
			}
			expect.Equal(t, r.Offset(), last, "after %v the offset", err)
			return raws, parents, err
		}
		raw := r.Raw()
		n, derr := DecodeTraceEntry(raw, r.Version(), &again)
		if derr != nil || n != len(raw) || again.Parent != e.Parent || len(again.Attributes) != len(e.Attributes) {
			t.Errorf("entry %d: its %d raw bytes decode to %d, %v", r.ID(), len(raw), n, derr)
		}
		if r.Offset() < last+int64(len(raw)) || r.Offset() > int64(len(b)) || !bytes.HasSuffix(b[:r.Offset()], raw) {
			t.Errorf("entry %d: raw bytes are not before offset %d", r.ID(), r.Offset())
		}
		last = r.Offset()
		raws, parents = append(raws, string(raw)), append(parents, e.Parent)
	}
}
