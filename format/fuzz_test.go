package format

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// maxFuzzSize limits the input, so that one run of a fuzz target is short.
const maxFuzzSize = 64 << 10

// fuzzFiles returns small traces of every kind, valid and damaged, and the traces in
// testdata that are not too large.
func fuzzFiles(f *testing.F) [][]byte {
	f.Helper()
	var out [][]byte
	for _, v := range hostileVersions {
		for _, sf := range hostileFormats {
			good := fakeFile{Version: v, Format: sf, Entries: fakes(4)}.build()
			out = append(out, good.b, good.b[:good.ends[2]+3], good.b[:wire.MagicSize], spansFile(v, sf))
		}
	}
	for _, x := range fuzzDamages(f) {
		out = append(out, x.b)
	}
	names, err := filepath.Glob("testdata/*.*et*")
	must(f, err)
	for _, name := range names {
		b, err := os.ReadFile(name)
		must(f, err)
		if len(b) <= maxFuzzSize {
			out = append(out, b)
		}
	}
	return out
}

// fuzzDamages returns the first damage of each line in testdata/damage.txt, in a trace of one kind.
func fuzzDamages(f *testing.F) (out []*damaged) {
	f.Helper()
	text, err := os.ReadFile("testdata/damage.txt")
	must(f, err)
	for line := range strings.Lines(string(text)) {
		line, isDamage := strings.CutPrefix(strings.TrimSpace(line), "> ")
		for k := 0; isDamage && k < 6; k++ {
			kind := len(out) + k
			if x := parseDamages(line)[0].apply(hostileVersions[kind%2], hostileFormats[kind%3]); x != nil {
				out = append(out, x)
				break
			}
		}
	}
	return out
}

// spansFile returns a trace with spans, their ends and log records. The spans name their parents by id, and some
// of them form a cycle.
func spansFile(v Version, sf StorageFormat) []byte {
	below := func(e *TraceEntry, id int) TraceEntry {
		e.Attributes = append(e.Attributes, Attribute{AttrParentSpanID, hexID(id, 8)})
		SortAttributes(e.Attributes)
		return *e
	}
	end := TraceEntry{Parent: 1, Metadata: Metadata{Name: NameSpanEnd}, Attributes: []Attribute{
		{AttrDuration, U64Value(5)}, {mapping.AttrJSON, StringValue(`["a"]`)}, {AttrSpanID, hexID(1, 8)},
	}}
	log := *logEntry(0)
	log.Attributes = []Attribute{{AttrSpanID, hexID(3, 8)}, {AttrTraceID, hexID(1, 16)}}
	link := TraceEntry{Parent: 2, Metadata: Metadata{Name: mapping.NameLink}, Attributes: []Attribute{{mapping.AttrLinkTraceID, hexID(7, 16)}}}
	es := []fakeEntry{{TraceEntry: *Root()}}
	for _, e := range []TraceEntry{below(spanEntry(0, 1), 3), *spanEntry(1, 2), below(spanEntry(2, 3), 9), end, log, link, below(spanEntry(0, 9), 1)} {
		es = append(es, fakeEntry{TraceEntry: e})
	}
	return fakeFile{Version: v, Format: sf, Entries: es}.build().b
}

// FuzzDecodeTraceEntry decodes an entry, encodes it, and decodes it again. Both entries
// must be equal. If the input was in shortest form, the encoded bytes must be the same.
func FuzzDecodeTraceEntry(f *testing.F) {
	for _, v := range hostileVersions {
		for _, e := range fakes(4) {
			f.Add(e.layout(v).b, byte(v))
		}
		for _, e := range small(9) {
			f.Add(e.layout(v).b, byte(v))
		}
	}
	for _, x := range fuzzDamages(f) {
		if x.entry >= 0 {
			f.Add(x.raws[x.entry].b, byte(x.Version))
		}
	}
	f.Add(fakes(1)[1].layout(V1).b, byte(3)) // an unknown version
	f.Fuzz(func(t *testing.T, b []byte, version byte) {
		v := Version(version)
		var e TraceEntry
		n, err := DecodeTraceEntry(b, v, &e)
		if err != nil {
			expect.Equal(t, n, 0, "bytes taken in spite of %v", err)
			if ok := errors.Is(err, ErrUnsupported); ok != (v.Check() != nil) {
				t.Errorf("version %d: %v", v, err)
			} else if at, typed := errorOffset(err); !ok && (!typed || at < 0 || at > int64(len(b))) {
				t.Errorf("%v: offset %d of %d bytes", err, at, len(b))
			}
			return
		}
		if n <= 0 || n > len(b) {
			t.Fatalf("%d bytes of %d are taken", n, len(b))
		}
		// The bytes of the entry alone decode to the same entry, and no prefix of them decodes.
		for size := range min(n, 300) {
			expect.MustIs(t, expect.Err(DecodeTraceEntry(b[:size], v, new(TraceEntry))), ErrTruncated, "%d of %d bytes", size, n)
		}
		// If SkipEntry accepts the entry, it finds the same size and parent as the decoder.
		if parent, size, ok := wire.SkipEntry(b, v.hasColumns()); ok && (size != n || parent != e.Parent) {
			t.Errorf("SkipEntry: %d bytes, parent %d; want %d and %d", size, parent, n, e.Parent)
		}
		d := decoder{version: v, maxSize: DefaultMaxEntrySize}
		for i := range e.Attributes {
			want, _ := e.Attribute(e.Attributes[i].Name)
			at, ok := wire.FindAttribute(b[:n], v.hasColumns(), e.Attributes[i].Name)
			if !ok {
				continue
			}
			d.reset(b[:n], 0, noEntry)
			var got Value
			if at != wire.Nowhere {
				d.off = at
				d.value("", &got)
			}
			if at == wire.Nowhere || d.Err() != nil || !got.Equal(want) {
				t.Errorf("attribute %q is %v at %d, want %v", e.Attributes[i].Name, got, at, want)
			}
			if i > 20 {
				break
			}
		}
		if at, ok := wire.FindAttribute(b[:n], v.hasColumns(), "\x00none"); ok && at != wire.Nowhere {
			if _, ok := e.Attribute("\x00none"); !ok {
				t.Errorf("an attribute that is not there is at %d", at)
			}
		}
		if v == V2 && !isSorted(e.Attributes) {
			return // AppendTraceEntry panics, as documented
		}
		again := AppendTraceEntry(nil, v, &e)
		var e2 TraceEntry
		n2, err := DecodeTraceEntry(again, v, &e2)
		if err != nil || n2 != len(again) || !sameEntry(&e, &e2) {
			t.Errorf("encoded again: %d of %d bytes, %v: %+v, want %+v", n2, len(again), err, e2, e)
		}
		d.reset(b, 0, noEntry)
		d.traceEntry(&e2)
		if same := bytes.Equal(again, b[:n]); same == d.longer || len(again) > n {
			t.Errorf("encoded again % x, was % x; numbers longer than need be: %v", again, b[:n], d.longer)
		}
		if clone := e.Clone(); !sameEntry(&e, clone) {
			t.Errorf("Clone gives %+v of %+v", clone, e)
		}
	})
}

func sameEntry(a, b *TraceEntry) bool {
	return a.Parent == b.Parent && a.Message == b.Message && a.Metadata == b.Metadata &&
		slices.EqualFunc(a.Attributes, b.Attributes, func(x, y Attribute) bool { return x.Name == y.Name && x.Value.Equal(y.Value) })
}

// FuzzReader checks that a Reader and a File agree about any bytes. See checkAnyFile.
func FuzzReader(f *testing.F) {
	for _, b := range fuzzFiles(f) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > maxFuzzSize {
			return
		}
		checkAnyFile(t, writeFile(t, "x", b), b)
	})
}

// fuzzET runs fn on the bytes after the magic of ETs.
func fuzzET(f *testing.F, fn func(t *testing.T, v Version, body []byte)) {
	for _, b := range fuzzFiles(f) {
		if len(b) > wire.MagicSize && StorageFormat(b[9]) == ET {
			f.Add(b[wire.MagicSize:], b[8] == byte(V2))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, second bool) {
		if len(body) > maxFuzzSize {
			return
		}
		v := V1
		if second {
			v = V2
		}
		fn(t, v, body)
	})
}

// FuzzOpen checks the header of an ET. The test adds the magic, so that every input
// reaches the header.
func FuzzOpen(f *testing.F) {
	fuzzET(f, func(t *testing.T, v Version, body []byte) {
		b := append(wire.AppendMagic(nil, v, ET), body...)
		name := writeFile(t, "x.et", b)
		checkAnyFile(t, name, b)
		file, err := Open(name, nil)
		if err != nil {
			return
		}
		defer file.Close()
		// Without Lenient, Open accepts only a valid header: offsets ascend, the pool is a tree.
		at := file.offsets.Load().at
		for i := range file.Len() {
			if at(i) >= at(i+1) || file.data+int64(at(i+1)) > file.Size() {
				t.Errorf("entry %d lies at %d to %d of %d", i, at(i), at(i+1), file.Size())
			}
			if p := file.Parent(uint32(i)); i > 0 && int(p) >= i {
				t.Errorf("parent of %d is %d", i, p)
			}
		}
	})
}

// FuzzRecover checks that Recover saves exactly the entries that Inspect counts as complete, that
// the result has no damage, and that a second Recover changes nothing.
func FuzzRecover(f *testing.F) {
	for i, b := range fuzzFiles(f) {
		f.Add(b, i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, b []byte, toET bool) {
		if len(b) > maxFuzzSize {
			return
		}
		dir := t.TempDir()
		base := "x.iet"
		if len(b) > 9 && StorageFormat(b[9]) == ET {
			base = "x.et"
		}
		name := writeFile(t, filepath.Join(dir, base), b)
		r, err := Inspect(name)
		if err != nil {
			// Recover does not change a file that is not a trace.
			if _, rerr := Recover(name, ""); rerr == nil {
				t.Errorf("Recover gives no error, Inspect: %v", err)
			}
			if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, b) {
				t.Errorf("what is no trace was changed: %v", err)
			}
			if _, _, merr := parseMagic(b); merr == nil {
				t.Errorf("Inspect of what has a magic: %v", err)
			}
			return
		}
		if r.Size != int64(len(b)) || r.GoodBytes < wire.MagicSize || r.GoodBytes > r.Size || (r.Reason == mapping.CutClean) != (r.Damage == nil) {
			t.Errorf("Inspect: %+v", r)
		}
		if r.Reason == mapping.CutClean && r.GoodBytes != r.Size {
			t.Errorf("Inspect: clean, but %d of %d bytes are whole", r.GoodBytes, r.Size)
		}
		raws, _ := drain(b)
		if r.Entries > len(raws) && r.Format != ET {
			t.Errorf("Inspect finds %d entries, a Reader %d", r.Entries, len(raws))
		}
		out := filepath.Join(dir, "out.iet")
		if toET {
			out = filepath.Join(dir, "out.et")
		}
		made, err := Recover(name, out)
		if err != nil {
			t.Fatalf("Recover: %v; Inspect: %+v", err, r)
		}
		if made.Entries > r.Entries || toET && made.Entries < r.Entries {
			t.Errorf("Recover finds %d entries, Inspect %d", made.Entries, r.Entries)
		}
		if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, b) {
			t.Errorf("Recover to another file changed the source: %v", err)
		}
		cut := r.Format == ET && r.Damage != nil || r.Reason == mapping.CutCorrupt
		wantWhole(t, out, made.Entries, raws, cut)
		if _, err := Recover(name, ""); err != nil {
			t.Fatalf("Recover in place: %v; Inspect: %+v", err, r)
		}
		wantWhole(t, name, r.Entries, raws, cut)
		now, err := os.ReadFile(name)
		must(t, err)
		if again, err := Recover(name, ""); err != nil || again.Broken != "" || again.Reason != mapping.CutClean {
			t.Errorf("Recover again: %+v, %v", again, err)
		}
		if then, err := os.ReadFile(name); err != nil || !bytes.Equal(now, then) {
			t.Errorf("Recover again changed the file: %v", err)
		}
		if r.Reason == mapping.CutCorrupt {
			if kept, err := os.ReadFile(name + ".broken"); err != nil || !bytes.Equal(kept, b) {
				t.Errorf("the corrupt original was not kept: %v", err)
			}
		}
	})
}

// wantWhole fails the test unless the file name is undamaged and has n entries, which are the first n of raws. If
// cut is true, the file must have one more entry, which says that the file was cut.
func wantWhole(t *testing.T, name string, n int, raws []string, cut bool) {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	got, err := drain(b)
	all := n
	if cut && len(got) == n+1 && strings.Contains(got[n], mapping.NameRecovered) {
		all++
	}
	if err != nil || len(got) != all {
		t.Errorf("what Recover made has %d entries, %v, want %d", len(got), err, all)
	}
	if m := min(n, len(raws), len(got)); sameStrings(got[:m], raws[:m]) != "" {
		t.Error("what Recover made has other entries")
	}
	f, err := Open(name, nil)
	if err != nil {
		t.Errorf("what Recover made: %v", err)
		return
	}
	defer f.Close()
	if f.Len() != all || f.Damage() != nil {
		t.Errorf("what Recover made has %d entries, %v, want %d", f.Len(), f.Damage(), all)
	}
}
