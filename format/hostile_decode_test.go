package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// entryLengths are the length fields of the entry that rich returns.
func entryLengths(v Version) []string {
	fields := []string{
		"message.len", "name.len", "target.len", "module_path.len", "file.len",
		"attr[0].name.len", "attr[0].value.len", "attr[1].value.len",
	}
	if v == V1 {
		return append(fields, "attributes.len")
	}
	return append(fields, "attr_names.len", "attr_values.len")
}

// wantLength fails the test unless err is a lengthError with the given claimed length and an offset in [from, to].
func wantLength(t *testing.T, what string, err error, from, to int, claimed uint64) {
	t.Helper()
	l, ok := errors.AsType[*lengthError](err)
	if !ok {
		t.Errorf("%s: error %v (%T), want a *lengthError within", what, err, err)
		return
	}
	expect.Equal(t, l.Claimed, claimed, "%s: %v: claims", what, err)
	if at, ok := errorOffset(err); !ok || at < int64(from) || at > int64(to) {
		t.Errorf("%s: %v: offset %d, want one in [%d, %d]", what, err, at, from, to)
	}
}

// wantBounded fails the test if f allocates more memory than it may for a hostile file of fileSize bytes. The
// limit leaves room for several buffers, because some code reads the file more than once.
func wantBounded(t *testing.T, what string, fileSize int, f func()) {
	t.Helper()
	if got, limit := allocated(f), uint64(4*fileSize+3<<19); got > limit {
		t.Errorf("%s allocates %d bytes for a file of %d, want at most %d", what, got, fileSize, limit)
	}
}

func TestLengthClaims(t *testing.T) {
	for _, v := range hostileVersions {
		for _, field := range entryLengths(v) {
			for _, claim := range hugeLengths {
				t.Run(fmt.Sprintf("v%d/%s/%s", v, field, claim.name), func(t *testing.T) {
					wrong := wire.AppendUint(nil, claim.n)
					e := fakeEntry{TraceEntry: rich(0, "n"), Instead: map[string][]byte{field: wrong}}
					l := e.layout(v)
					wantBounded(t, "DecodeTraceEntry", len(l.b), func() {
						_, err := DecodeTraceEntry(l.b, v, new(TraceEntry))
						wantLength(t, "DecodeTraceEntry", err, 0, l.at[field]+9, claim.n)
					})
					for _, sf := range hostileFormats {
						lengthInFile(t, oneWrong(v, sf, field, wrong), field, claim.n)
					}
				})
			}
		}
	}
}

// lengthInFile reads, in every way, a trace in which a field of entry 1 claims a wrong length.
func lengthInFile(t *testing.T, tr *fakeTrace, field string, claimed uint64) {
	t.Helper()
	name := writeFile(t, "x."+tr.Format.String(), tr.b)
	from, to := tr.starts[1], tr.in(1, field)+9
	check := func(what string, err error) {
		t.Helper()
		wantLength(t, tr.Format.String()+": "+what, err, from, to, claimed)
	}
	wantBounded(t, "Reader", len(tr.b), func() {
		raws, err := drain(tr.b)
		check("Reader", err)
		expect.Equal(t, len(raws), 1, "entries that Reader gives")
	})
	for _, lenient := range []bool{false, true} {
		wantBounded(t, "Open", len(tr.b), func() {
			f, err := Open(name, &OpenOptions{Lenient: lenient})
			if err != nil {
				check("Open", err)
				if lenient || errors.Is(err, ErrTruncated) {
					t.Errorf("Open: %v, want the entries before", err)
				}
				return
			}
			defer f.Close()
			if tr.Format != ET {
				check("Damage", f.Damage())
				expect.Equal(t, f.Len(), 1, "entries")
				return
			}
			_, err = f.Entry(1)
			check("Entry", err)
			_, _, err = f.Attribute(1, "h")
			if err == nil {
				t.Error("Attribute gives no error")
			}
			expect.Is(t, expect.Err(f.Entry(2)), nil, "the entry behind")
		})
	}
	wantBounded(t, "Verify", len(tr.b), func() {
		_, found := problems(t, name)
		if len(found) == 0 {
			t.Error("Verify finds nothing")
		}
		for _, err := range found {
			check("Verify", err)
		}
	})
	wantBounded(t, "Follow", len(tr.b), func() {
		n, err := followAll(t, name)
		if n != 1 || err == nil {
			t.Errorf("Follow gives %d entries, error %v, want 1 and an error", n, err)
		}
		if claimed > DefaultMaxEntrySize {
			check("Follow", err) // for a smaller length the file could still grow
		}
	})
	if tr.Format == ET {
		return // see TestDamagedETKeepsPrefix
	}
	wantBounded(t, "Recover", len(tr.b), func() {
		out := filepath.Join(t.TempDir(), "out.et")
		if r, err := Recover(name, out); err != nil || r.Entries != 1 {
			t.Errorf("Recover: %+v, %v, want 1 entry", r, err)
		}
	})
}

func TestLengthClaimsOfFrames(t *testing.T) {
	for _, v := range hostileVersions {
		for _, claim := range hugeLengths {
			t.Run(fmt.Sprintf("v%d/%s", v, claim.name), func(t *testing.T) {
				tr := fakeFile{
					Version: v, Format: IETPrefix, Entries: fakes(2),
					Instead: map[string][]byte{"frame[1]": binary.LittleEndian.AppendUint64(nil, claim.n)},
				}.build()
				tr.raws[1].at["frame"] = -prefixSize
				lengthInFile(t, tr, "frame", claim.n)
			})
		}
	}
}

func TestLengthClaimsOfTables(t *testing.T) {
	for _, v := range hostileVersions {
		for _, field := range []string{"offsets.len", "pool.len", "pool[0].len", "pool[2].len"} {
			for _, claim := range hugeLengths {
				t.Run(fmt.Sprintf("v%d/%s/%s", v, field, claim.name), func(t *testing.T) {
					tr := fakeFile{
						Version: v, Format: ET, Entries: fakes(4),
						Instead: map[string][]byte{field: wire.AppendUint(nil, claim.n)},
					}.build()
					name := writeFile(t, "x.et", tr.b)
					wantBounded(t, "Reader", len(tr.b), func() {
						// The end of a stream is not known, so a Reader cannot compare a length with it.
						_, err := NewReader(strings.NewReader(string(tr.b)), nil)
						if at, ok := errorOffset(err); !ok || at < wire.MagicSize || at > int64(len(tr.b)) {
							t.Errorf("NewReader: %v, offset %d, want damage with an offset", err, at)
						}
					})
					for _, lenient := range []bool{false, true} {
						wantBounded(t, "Open", len(tr.b), func() {
							f, err := Open(name, &OpenOptions{Lenient: lenient})
							if err == nil {
								err = f.Damage()
								defer f.Close()
							} else if lenient {
								t.Errorf("Open is not lenient: %v", err)
							}
							wantLength(t, "Open", err, wire.MagicSize, tr.at[field]+9, claim.n)
						})
					}
					wantBounded(t, "Verify", len(tr.b), func() {
						if _, found := problems(t, name); len(found) == 0 {
							t.Error("Verify finds nothing")
						}
					})
				})
			}
		}
	}
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

func TestBadParents(t *testing.T) {
	cases := []struct {
		name   string
		entry  int
		parent uint32
	}{
		{"self", 3, 3},
		{"forward", 3, 4},
		{"past the end", 3, 200},
		{"largest", 3, 1<<32 - 1},
		{"root below another", 0, 1},
		{"root below the largest", 0, 1<<32 - 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
				es := fakes(6)
				es[c.entry].Instead = map[string][]byte{"parent": wire.AppendUint(nil, uint64(c.parent))}
				tr := fakeFile{Version: v, Format: sf, Entries: es}.build()
				id, at := int64(c.entry), tr.in(c.entry, "parent")
				name := writeFile(t, "x."+sf.String(), tr.b)

				raws, err := drain(tr.b)
				wantCorrupt(t, "Reader", err, id, at, errBadParent)
				if diff := sameStrings(raws, tr.rawStrings()[:c.entry]); diff != "" {
					t.Errorf("Reader keeps the wrong prefix: %s", diff)
				}
				n, err := followAll(t, name)
				wantCorrupt(t, "Follow", err, id, at, errBadParent)
				expect.Equal(t, n, c.entry, "entries that Follow gives")
				if sf == ET { // the pool of an ET holds its tree
					f, err := Open(name, nil)
					must(t, err)
					defer f.Close()
					_, err = f.Entry(uint32(id))
					wantCorrupt(t, "Entry", err, id, at, errBadParent)
				} else {
					_, err := Open(name, nil)
					wantCorrupt(t, "Open", err, id, at, errBadParent)
					f, err := Open(name, &OpenOptions{Lenient: true})
					must(t, err)
					defer f.Close()
					wantCorrupt(t, "Damage", f.Damage(), id, at, errBadParent)
					if f.Len() != c.entry || f.WholeSize() != int64(tr.starts[c.entry]) {
						t.Errorf("Open keeps %d entries, %d bytes, want %d and %d", f.Len(), f.WholeSize(), c.entry, tr.starts[c.entry])
					}
					r, err := Recover(name, filepath.Join(t.TempDir(), "out.et"))
					if err != nil || r.Entries != c.entry || r.Reason != mapping.CutCorrupt {
						t.Errorf("Recover: %+v, %v, want %d entries", r, err, c.entry)
					}
				}
				if _, found := problems(t, name); !hasProblem(found, id, errBadParent) {
					t.Errorf("Verify does not find it:%s", lines(found))
				}
			})
		})
	}
}

func TestLongNumbers(t *testing.T) {
	long := func(n uint64, tag byte) []byte {
		b := append([]byte{tag}, binary.LittleEndian.AppendUint64(nil, n)...)
		return append(b, make([]byte, 8)...)[:1+2<<(tag-wire.Tag16)]
	}
	numbers := []struct {
		field string
		n     uint64
		bits  int
	}{
		{"parent", 0, 32},
		{"message.len", 9, 64},
		{"name.len", 5, 64},
		{"target.len", 6, 64},
		{"level", 2, 32},
		{"module_path.len", 9, 64},
		{"file.len", 7, 64},
		{"line", 70000, 32},
		{"attr[0].name.len", 1, 64},
		{"attr[0].kind", 0, 32},
		{"attr[0].value.len", 4, 64},
		{"attr[1].value.len", 3, 64},
		{"attr[4].value", 7, 64},
		{"attr[5].value", 14, 64},
		{"attr[6].value", 7, 128},
		{"attr[7].value", 7, 128},
	}
	for _, v := range hostileVersions {
		all := append(slices.Clone(numbers), struct {
			field string
			n     uint64
			bits  int
		}{"attributes.len", 8, 64})
		if v == V2 {
			all[len(all)-1].field = "attr_names.len"
			all = append(all, all[len(all)-1])
			all[len(all)-1].field = "attr_values.len"
		}
		for _, n := range all {
			for _, tag := range []byte{wire.Tag16, wire.Tag32, wire.Tag64, wire.Tag128, 255} {
				if tag <= wire.Tag32 && n.n >= 1<<16 {
					continue // the number needs this form
				}
				t.Run(fmt.Sprintf("v%d/%s/%d", v, n.field, tag), func(t *testing.T) {
					wrong := []byte{255}
					if tag <= wire.Tag128 {
						wrong = long(n.n, tag)
					}
					fits := tag <= wire.Tag32 || tag == wire.Tag64 && n.bits >= 64 || tag == wire.Tag128 && n.bits == 128
					for _, sf := range hostileFormats {
						longNumber(t, oneWrong(v, sf, n.field, wrong), n.field, fits)
					}
				})
			}
		}
	}
}

func longNumber(t *testing.T, tr *fakeTrace, field string, fits bool) {
	t.Helper()
	name := writeFile(t, "x."+tr.Format.String(), tr.b)
	raws, err := drain(tr.b)
	_, found := problems(t, name)
	if !fits {
		wantCorrupt(t, "Reader", err, 1, tr.in(1, field), errBadNumber)
		if !hasProblem(found, 1, errBadNumber) {
			t.Errorf("Verify does not find it:%s", lines(found))
		}
		return
	}
	if diff := sameStrings(raws, tr.rawStrings()); diff != "" || err != nil {
		t.Errorf("Reader: %s, error %v", diff, err)
	}
	if len(found) != 1 || !hasProblem(found, 1, errNotShortest) {
		t.Errorf("Verify finds%s\n\twant %v in entry 1 alone", lines(found), errNotShortest)
	}
	f, err := Open(name, nil)
	must(t, err)
	defer f.Close()
	e, err := f.Entry(1)
	must(t, err)
	// Only the long number and the bytes of its value may differ from the right entry.
	right := rich(0, "wrong")
	if e.Message != right.Message || e.Metadata != right.Metadata || len(e.Attributes) != len(right.Attributes) {
		t.Errorf("Entry is %+v, want %+v", e, right)
	}
}

func TestLongNumbersInTables(t *testing.T) {
	for _, v := range hostileVersions {
		for _, c := range []struct {
			field string
			n     uint64
			bits  int
		}{{"offsets.len", 5, 64}, {"offsets[0]", 0, 64}, {"pool.len", 5, 64}, {"pool[0].len", 2, 64}, {"pool[0][0]", 1, 32}} {
			for _, tag := range []byte{wire.Tag16, wire.Tag64, wire.Tag128, 255} {
				t.Run(fmt.Sprintf("v%d/%s/%d", v, c.field, tag), func(t *testing.T) {
					long := append([]byte{tag}, binary.LittleEndian.AppendUint64(nil, c.n)...)
					long = append(long, make([]byte, 8)...)[:min(17, 1+2<<(tag-wire.Tag16))]
					tr := fakeFile{Version: v, Format: ET, Entries: fakes(4), Instead: map[string][]byte{c.field: long}}.build()
					name := writeFile(t, "x.et", tr.b)
					raws, err := drain(tr.b)
					f, oerr := Open(name, nil)
					if tag > wire.Tag64 || tag == wire.Tag64 && c.bits < 64 {
						for what, err := range map[string]error{"Reader": err, "Open": oerr} {
							wantCorrupt(t, what, err, noEntry, tr.at[c.field], errBadNumber)
						}
						return
					}
					must(t, oerr)
					defer f.Close()
					if diff := sameStrings(raws, tr.rawStrings()); diff != "" || err != nil || f.Len() != 5 {
						t.Errorf("Reader: %s, error %v; File has %d entries, want 5", diff, err, f.Len())
					}
					if _, found := problems(t, name); len(found) == 0 {
						t.Error("Verify does not flag it: a round trip over IET gives another file")
					}
				})
			}
		}
	}
}

func TestBadTags(t *testing.T) {
	cases := []struct {
		field string
		tag   []byte
		err   error
	}{
		{"message?", []byte{2}, errBadOption},
		{"module_path?", []byte{250}, errBadOption},
		{"file?", []byte{255}, errBadOption},
		{"line?", []byte{3}, errBadOption},
		{"level", []byte{5}, errBadLevel},
		{"level", []byte{250}, errBadLevel},
		{"level", wire.AppendUint(nil, 1<<16), errBadLevel},
		{"level", wire.AppendUint(nil, 256), errBadLevel}, // in a byte it would be 0
		{"attr[0].kind", []byte{8}, errBadKind},
		{"attr[0].kind", []byte{250}, errBadKind},
		{"attr[0].kind", wire.AppendUint(nil, 256), errBadKind},
		{"attr[7].kind", wire.AppendUint(nil, 1<<31), errBadKind},
		{"attr[2].value", []byte{2}, errBadBool},
		{"attr[2].value", []byte{255}, errBadBool},
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s/% x", c.field, c.tag), func(t *testing.T) {
			eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
				tr := oneWrong(v, sf, c.field, c.tag)
				at := tr.in(1, c.field)
				name := writeFile(t, "x."+sf.String(), tr.b)
				_, err := DecodeTraceEntry(tr.raws[1].b, v, new(TraceEntry))
				wantCorrupt(t, "DecodeTraceEntry", err, noEntry, tr.raws[1].at[c.field], c.err)
				raws, err := drain(tr.b)
				wantCorrupt(t, "Reader", err, 1, at, c.err)
				expect.Equal(t, len(raws), 1, "entries that Reader gives")
				_, err = followAll(t, name)
				wantCorrupt(t, "Follow", err, 1, at, c.err)
				if _, found := problems(t, name); len(found) != 1 {
					t.Errorf("Verify finds%s\n\twant one", lines(found))
				} else {
					wantCorrupt(t, "Verify", found[0], 1, at, c.err)
				}
				f, err := Open(name, &OpenOptions{Lenient: true})
				must(t, err)
				defer f.Close()
				if sf != ET {
					wantCorrupt(t, "Damage", f.Damage(), 1, at, c.err)
					return
				}
				_, err = f.Entry(1)
				wantCorrupt(t, "Entry", err, 1, at, c.err)
				_, _, err = f.Attribute(1, "h")
				if c.field != "attr[7].kind" {
					wantCorrupt(t, "Attribute", err, 1, at, c.err)
				}
			})
		})
	}
}

func TestNamesAndValuesDiffer(t *testing.T) {
	t.Run("count", func(t *testing.T) {
		for _, n := range []uint64{0, 1, 7} {
			for _, sf := range hostileFormats {
				tr := oneWrong(V2, sf, "attr_values.len", wire.AppendUint(nil, n))
				_, err := drain(tr.b)
				wantCorrupt(t, "Reader", err, 1, tr.in(1, "attr_values.len"), errAttrMismatch)
				name := writeFile(t, "x", tr.b)
				if _, found := problems(t, name); !hasProblem(found, 1, errAttrMismatch) {
					t.Errorf("Verify does not find it:%s", lines(found))
				}
			}
		}
	})
	unsorted := []string{"z", "b", "m", "a", "y"}
	double := []string{"a", "b", "b", "b", "c"}
	for _, c := range []struct {
		name  string
		names []string
		flag  error
	}{{"unsorted", unsorted, errUnsorted}, {"duplicate", double, errDuplicate}} {
		t.Run(c.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
				es := fakes(3)
				e := &es[2].TraceEntry
				e.Attributes = nil
				for i, name := range c.names {
					e.Attributes = append(e.Attributes, Attribute{name, U64Value(uint64(i))})
				}
				tr := fakeFile{Version: v, Format: sf, Entries: es}.build()
				name := writeFile(t, "x", tr.b)
				_, found := problems(t, name)
				if v == V2 && !hasProblem(found, 2, c.flag) || v == V1 && len(found) > 0 {
					t.Errorf("Verify finds%s", lines(found))
				}
				f, err := Open(name, nil)
				must(t, err)
				defer f.Close()
				got, err := f.Entry(2)
				must(t, err)
				for _, name := range c.names {
					want := U64Value(uint64(slices.Index(c.names, name)))
					if val, ok := got.Attribute(name); !ok || !val.Equal(want) {
						t.Errorf("TraceEntry.Attribute(%q) = %v, %v", name, val, ok)
					}
					if val, ok, err := f.Attribute(2, name); err != nil || !ok || !val.Equal(want) {
						t.Errorf("File.Attribute(%q) = %v, %v, %v", name, val, ok, err)
					}
				}
				if _, ok, err := f.Attribute(2, "no such"); ok || err != nil {
					t.Errorf("File.Attribute of no attribute: %v, %v", ok, err)
				}
			})
		})
	}
}

func TestInvalidUTF8(t *testing.T) {
	bad := []string{"\xff", "a\xc3", "\xed\xa0\x80 surrogate", "over\xc0\xaflong", "\xf4\x90\x80\x80"}
	fields := []struct {
		name string
		in   string // the Field of the problem that Verify reports
		set  func(e *TraceEntry, s string)
		get  func(e *TraceEntry) string
	}{
		{"message", "message", func(e *TraceEntry, s string) { e.Message = Some(s) }, func(e *TraceEntry) string { return e.Message.Value }},
		{"name", "name", func(e *TraceEntry, s string) { e.Metadata.Name = s }, func(e *TraceEntry) string { return e.Metadata.Name }},
		{"target", "target", func(e *TraceEntry, s string) { e.Metadata.Target = s }, func(e *TraceEntry) string { return e.Metadata.Target }},
		{
			"module path", "module_path",
			func(e *TraceEntry, s string) { e.Metadata.ModulePath = Some(s) }, func(e *TraceEntry) string { return e.Metadata.ModulePath.Value },
		},
		{"file", "file", func(e *TraceEntry, s string) { e.Metadata.File = Some(s) }, func(e *TraceEntry) string { return e.Metadata.File.Value }},
		{
			"attribute name", "attributes[0]",
			func(e *TraceEntry, s string) { e.Attributes = []Attribute{{s, BoolValue(true)}} },
			func(e *TraceEntry) string { return e.Attributes[0].Name },
		},
		{
			"attribute value", "attributes[0]",
			func(e *TraceEntry, s string) { e.Attributes = []Attribute{{"k", StringValue(s)}} },
			func(e *TraceEntry) string { return e.Attributes[0].Value.Text() },
		},
	}
	for _, field := range fields {
		t.Run(field.name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, v Version, sf StorageFormat) {
				es := fakes(2 * len(bad))
				for i, s := range bad {
					if utf8.ValidString(s) {
						t.Fatalf("%q is valid", s)
					}
					field.set(&es[1+2*i].TraceEntry, s)
				}
				tr := fakeFile{Version: v, Format: sf, Entries: es}.build()
				raws, err := drain(tr.b)
				if diff := sameStrings(raws, tr.rawStrings()); diff != "" || err != nil {
					t.Errorf("Reader: %s, %v", diff, err)
				}
				name := writeFile(t, "x", tr.b)
				f, err := Open(name, nil)
				must(t, err)
				defer f.Close()
				_, found := problems(t, name)
				if len(found) != len(bad) {
					t.Errorf("Verify finds%s\n\twant %d", lines(found), len(bad))
				}
				for i, s := range bad {
					id := uint32(1 + 2*i)
					e, err := f.Entry(id)
					if err != nil || field.get(e) != s {
						t.Errorf("Entry: %v, text %q, want %q", err, field.get(e), s)
					}
					if !hasProblem(found, int64(id), errNotUTF8) {
						t.Errorf("Verify does not find entry %d", id)
					}
				}
				for _, err := range found {
					if c, ok := errors.AsType[*CorruptError](err); !ok || c.Field != field.in {
						t.Errorf("Verify names the field of %v, want %q", err, field.in)
					}
				}
				out := filepath.Join(t.TempDir(), "out.iet")
				if r, err := Recover(name, out); err != nil || r.Entries != len(es) {
					t.Errorf("Recover: %+v, %v, want all entries", r, err)
				}
			})
		})
	}
}

func TestBadMagic(t *testing.T) {
	good := fakeFile{Version: V1, Format: IET, Entries: fakes(3)}.build()
	seen := make(map[string]string)
	check := func(t *testing.T, b []byte, want func(err error) bool) {
		t.Helper()
		name := writeFile(t, "x.iet", b)
		_, perr := NewReader(strings.NewReader(string(b)), nil)
		_, operr := Open(name, nil)
		_, lerr := Open(name, &OpenOptions{Lenient: true})
		_, ierr := Inspect(name)
		_, verr := Verify(name, func(error) {})
		_, rerr := Recover(name, filepath.Join(t.TempDir(), "out.et"))
		_, inerr := Recover(name, "")
		_, ferr := Follow(name, nil)
		for i, err := range []error{perr, operr, lerr, ierr, verr, rerr, inerr, ferr} {
			if err == nil || !want(err) {
				t.Errorf("way %d: error %v (%T)", i, err, err)
			}
		}
		if now, err := os.ReadFile(name); err != nil || string(now) != string(b) {
			t.Errorf("the file was changed: %v", err)
		}
		if was, dup := seen[perr.Error()]; dup {
			t.Errorf("%s and %s give the same message: %v", t.Name(), was, perr)
		}
		seen[perr.Error()] = t.Name()
	}
	for i := range 8 {
		for _, c := range []byte{0xff, 'e'} {
			t.Run(fmt.Sprintf("byte %d is %#x", i, c), func(t *testing.T) {
				b := slices.Clone(good.b)
				b[i] = c
				check(t, b, func(err error) bool {
					return errors.Is(err, ErrNotEntrace) && strings.Contains(err.Error(), fmt.Sprintf(": byte %d is %#02x,", i, c))
				})
			})
		}
	}
	for _, c := range []byte{0, 3, 250, 255} {
		t.Run(fmt.Sprintf("version %d", c), func(t *testing.T) {
			b := slices.Clone(good.b)
			b[8] = c
			check(t, b, func(err error) bool {
				return errors.Is(err, ErrUnsupported) && strings.Contains(err.Error(), fmt.Sprintf("disk version %d (byte 8)", c))
			})
		})
	}
	for c := 3; c <= 255; c++ {
		t.Run(fmt.Sprintf("format %d", c), func(t *testing.T) {
			b := slices.Clone(good.b)
			b[9] = byte(c)
			check(t, b, func(err error) bool {
				return errors.Is(err, ErrUnsupported) && strings.Contains(err.Error(), fmt.Sprintf("storage format %d (byte 9)", c))
			})
		})
	}
	for i := range wire.MagicSize {
		t.Run(fmt.Sprintf("only %d bytes", i), func(t *testing.T) {
			clear(seen) // the error must be the same for every size
			check(t, good.b[:i], func(err error) bool {
				e, ok := errors.AsType[*TruncatedError](err)
				return ok && e.Entry == noEntry && e.Offset == 0
			})
		})
	}
	for _, v := range []Version{0, 3, 255} {
		if _, err := DecodeTraceEntry(good.raws[1].b, v, new(TraceEntry)); err == nil {
			t.Errorf("DecodeTraceEntry of version %d gives no error", v)
		} else if !errors.Is(err, ErrUnsupported) {
			t.Errorf("DecodeTraceEntry of version %d: %v", v, err)
		}
	}
}
