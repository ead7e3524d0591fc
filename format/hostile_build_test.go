package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
)

// The hostile tests cover the rows of docs/faults.md about reading. They build traces field by field, so that one
// field can be wrong while all others are right.

var hostileVersions = []Version{V1, V2}

var hostileFormats = []StorageFormat{IET, IETPrefix, ET}

// eachKind runs f for every version in every storage format.
func eachKind(t *testing.T, f func(t *testing.T, v Version, sf StorageFormat)) {
	t.Helper()
	for _, v := range hostileVersions {
		for _, sf := range hostileFormats {
			t.Run(fmt.Sprintf("%v/v%d", sf, v), func(t *testing.T) { f(t, v, sf) })
		}
	}
}

// A layout is a sequence of encoded fields, with the offset of each field.
type layout struct {
	b       []byte
	at      map[string]int    // by field: the offset at which it begins
	instead map[string][]byte // by field: wrong bytes to write
}

func newLayout(instead map[string][]byte) *layout {
	return &layout{at: make(map[string]int), instead: instead}
}

// put writes a field: the bytes of l.instead if it has any for the field, otherwise the bytes right.
func (l *layout) put(field string, right ...byte) {
	l.at[field] = len(l.b)
	if wrong, ok := l.instead[field]; ok {
		right = wrong
	}
	l.b = append(l.b, right...)
}

func (l *layout) num(field string, n uint64) { l.put(field, wire.AppendUint(nil, n)...) }

// text writes a length as the field FIELD.len, and then the text as the field FIELD.
func (l *layout) text(field, s string) {
	l.num(field+".len", uint64(len(s)))
	l.put(field, []byte(s)...)
}

// optional writes a tag as the field FIELD?, and if there is a text, writes it as text does.
func (l *layout) optional(field string, s Optional[string]) {
	if !s.Valid {
		l.put(field+"?", 0)
		return
	}
	l.put(field+"?", 1)
	l.text(field, s.Value)
}

// A fakeEntry is an entry in which some fields have wrong bytes. The fields have the names of the layout: parent,
// message?, message.len, message, name.len, …, level, line?, line, attributes.len (version 1) or attr_names.len and
// attr_values.len, and for attribute i: attr[i].name.len, attr[i].name, attr[i].kind, attr[i].value.len,
// attr[i].value.
type fakeEntry struct {
	TraceEntry

	Instead map[string][]byte
}

func (f *fakeEntry) layout(v Version) *layout {
	l := newLayout(f.Instead)
	l.num("parent", uint64(f.Parent))
	l.optional("message", f.Message)
	l.text("name", f.Metadata.Name)
	l.text("target", f.Metadata.Target)
	l.num("level", uint64(f.Metadata.Level))
	l.optional("module_path", f.Metadata.ModulePath)
	l.optional("file", f.Metadata.File)
	if f.Metadata.Line.Valid {
		l.put("line?", 1)
		l.num("line", uint64(f.Metadata.Line.Value))
	} else {
		l.put("line?", 0)
	}
	name := func(i int) { l.text(fmt.Sprintf("attr[%d].name", i), f.Attributes[i].Name) }
	value := func(i int) {
		field, val := fmt.Sprintf("attr[%d].", i), f.Attributes[i].Value
		l.num(field+"kind", uint64(val.Kind()))
		switch val.Kind() {
		case KindString, KindBytes:
			l.text(field+"value", val.Text())
		default:
			l.put(field+"value", encodedValue(&val)[1:]...)
		}
	}
	n := uint64(len(f.Attributes))
	if v == V1 {
		l.num("attributes.len", n)
		for i := range f.Attributes {
			name(i)
			value(i)
		}
		return l
	}
	l.num("attr_names.len", n)
	for i := range f.Attributes {
		name(i)
	}
	l.num("attr_values.len", n)
	for i := range f.Attributes {
		value(i)
	}
	return l
}

// A fakeFile is a trace in which some fields have wrong bytes. An ET has the fields offsets.len, offsets[i],
// pool.len, pool[i].len and pool[i][j]. An IETPrefix has the fields frame[i].
type fakeFile struct {
	Version Version
	Format  StorageFormat
	Entries []fakeEntry
	Instead map[string][]byte
	Tail    []byte // bytes after the last entry
}

// A fakeTrace is the file that is built from a fakeFile.
type fakeTrace struct {
	fakeFile

	layout
	raws   []*layout // the encodings of the entries
	starts []int     // the offset at which each entry begins; in IETPrefix the offset of its frame
	bodies []int     // the offset at which the encoding of each entry begins
	ends   []int     // the offset at which each entry ends
}

func (f fakeFile) build() *fakeTrace {
	t := &fakeTrace{fakeFile: f, layout: *newLayout(f.Instead)}
	for i, c := range wire.AppendMagic(nil, f.Version, f.Format) {
		t.put(fmt.Sprintf("magic[%d]", i), c)
	}
	n := len(f.Entries)
	pool := make([][]uint64, n)
	for i := range f.Entries {
		t.raws = append(t.raws, f.Entries[i].layout(f.Version))
		if p := f.Entries[i].Parent; i > 0 && int64(p) < int64(i) {
			pool[p] = append(pool[p], uint64(i))
		}
	}
	if f.Format == ET {
		t.num("offsets.len", uint64(n))
		off := 0
		for i, raw := range t.raws {
			t.num(fmt.Sprintf("offsets[%d]", i), uint64(off))
			off += len(raw.b)
		}
		t.num("pool.len", uint64(n))
		for i, kids := range pool {
			t.num(fmt.Sprintf("pool[%d].len", i), uint64(len(kids)))
			for j, kid := range kids {
				t.num(fmt.Sprintf("pool[%d][%d]", i, j), kid)
			}
		}
		t.at["data"] = len(t.b)
	}
	for i, raw := range t.raws {
		t.starts = append(t.starts, len(t.b))
		if f.Format == IETPrefix {
			t.put(fmt.Sprintf("frame[%d]", i), binary.LittleEndian.AppendUint64(nil, uint64(len(raw.b)))...)
		}
		t.bodies = append(t.bodies, len(t.b))
		t.put(fmt.Sprintf("entry[%d]", i), raw.b...)
		t.ends = append(t.ends, len(t.b))
	}
	t.put("tail", f.Tail...)
	return t
}

// rich returns an entry that has every field and every kind of value.
func rich(parent uint32, name string) TraceEntry {
	return TraceEntry{
		Parent: parent, Message: Some("a message"),
		Metadata: Metadata{
			Name: name, Target: "target", Level: LevelInfo,
			ModulePath: Some("a::module"), File: Some("main.go"), Line: Some[uint32](70000),
		},
		Attributes: []Attribute{
			{"a", StringValue("text")},
			{"b", BytesValue([]byte{1, 2, 3})},
			{"c", BoolValue(true)},
			{"d", FloatValue(1.5)},
			{"e", U64Value(1 << 40)},
			{"f", I64Value(-300)},
			{"g", U128Value(7, 8)},
			{"h", I128Value(-7, 8)},
		},
	}
}

// fakes returns the root and n entries that form a small tree.
func fakes(n int) []fakeEntry {
	out := []fakeEntry{{TraceEntry: *Root()}}
	for i := 1; i <= n; i++ {
		e := rich(uint32((i-1)/2), fmt.Sprintf("entry %d", i))
		if i%3 == 0 {
			e = TraceEntry{Parent: uint32(i / 3), Metadata: Metadata{Name: fmt.Sprintf("plain %d", i)}}
		}
		out = append(out, fakeEntry{TraceEntry: e})
	}
	return out
}

func writeFile(t testing.TB, name string, b []byte) string {
	t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(hosttest.MemoryDir(t), name)
	}
	must(t, os.WriteFile(name, b, 0o600))
	return name
}

// drain reads b to its end. It returns the encodings of the entries, and the error, or nil instead of EOF.
func drain(b []byte) (raws []string, err error) { return drainReader(bytes.NewReader(b), nil) }

func drainReader(src io.Reader, o *ReaderOptions) (raws []string, err error) {
	r, err := NewReader(src, o)
	if err != nil {
		return nil, err
	}
	for {
		if _, err := r.Next(); err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, ErrTruncated) {
				err = nil
			}
			return raws, err
		}
		raws = append(raws, string(r.Raw()))
	}
}

// problems returns the problems that Verify finds.
func problems(t testing.TB, name string) (found []error) {
	t.Helper()
	expect.OK(t, expect.Err(Verify(name, func(problem error) { found = append(found, problem) })))
	return found
}

// allocated returns the total number of bytes that f allocates, including freed bytes. The peak of f's memory
// cannot be higher.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// errorOffset returns the offset that err names.
func errorOffset(err error) (int64, bool) {
	if e, ok := errors.AsType[*CorruptError](err); ok {
		return e.Offset, true
	}
	if e, ok := errors.AsType[*TruncatedError](err); ok {
		return e.Offset, true
	}
	if !errors.Is(err, ErrNotEntrace) && !errors.Is(err, ErrUnsupported) {
		return 0, false
	}
	var at int64
	_, digits, _ := strings.Cut(err.Error(), "byte ")
	_, serr := fmt.Sscan(digits[:min(1, len(digits))], &at) // an offset of one digit is in the magic
	return at, serr == nil
}

// sameStrings describes the first difference between two lists of encodings. It returns "" if they are equal.
func sameStrings(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("entry %d differs", i)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d entries, want %d", len(got), len(want))
	}
	return ""
}

func (t *fakeTrace) rawStrings() []string {
	out := make([]string, len(t.raws))
	for i, raw := range t.raws {
		out[i] = string(raw.b)
	}
	return out
}

// encodedValue returns the encoding of a value.
func encodedValue(v *Value) []byte {
	var e wire.Encoder
	e.Begin()
	from := len(e.B)
	encodeValueAfterName(&e, v)
	return e.B[from+1:]
}

func encodeValueAfterName(e *wire.Encoder, v *Value) {
	e.Name("")
	encodeValue(e, v)
}

var must = expect.Must
