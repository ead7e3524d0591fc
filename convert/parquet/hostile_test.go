package parquet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	meta "github.com/parquet-go/parquet-go/format"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// TestCut truncates a table at many offsets. Without the footer, nothing can be read.
func TestCut(t *testing.T) {
	table := converter.Bytes(t, viewOf(t, format.V1, everything()[:5]...))
	for n := 0; n < len(table); n += 1 + n/100 {
		_, err := converter.Back(t.Context(), t, bytes.NewReader(table[:n]), format.V1)
		if _, ok := errors.AsType[*input.Error](err); !ok || n > 0 && !errors.Is(err, format.ErrTruncated) {
			t.Fatalf("%d bytes of %d: %v, want it to be cut off", n, len(table), err)
		}
	}
}

// TestFlip changes every third byte. Changes of pages, and of positions of pages, must be detected, also if the
// library panics.
func TestFlip(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	table := converter.Bytes(t, viewOf(t, format.V1, everything()[:5]...))
	refused := 0
	for i := 0; i < len(table); i += 3 {
		broken := bytes.Clone(table)
		broken[i] ^= 1 << (i % 8)
		if _, err := converter.Back(t.Context(), t, bytes.NewReader(broken), format.V1); err != nil {
			if _, ok := errors.AsType[*input.Error](err); !ok {
				t.Errorf("byte %d: %v has no place", i, err)
			}
			refused++
		}
	}
	// The other changes are in data that is not read: statistics, and the index of pages.
	if refused < len(table)/12 {
		t.Errorf("%d of %d changes were refused; the checksums see more", refused, len(table)/3)
	}
}

// foreign writes a table of the given rows.
func foreign[T any](t testing.TB, rows ...T) []byte {
	t.Helper()
	return compressed(t, &pq.Snappy, rows...)
}

func compressed[T any](t testing.TB, c compress.Codec, rows ...T) []byte {
	t.Helper()
	var b bytes.Buffer
	converttest.Must(t, pq.Write(&b, rows, pq.Compression(c)))
	return b.Bytes()
}

type plainRow struct {
	ID     int64             `parquet:"id,plain"`
	Parent int64             `parquet:"parent,plain"`
	Name   string            `parquet:"name,plain"`
	Level  *string           `parquet:"level,plain"`
	Line   int32             `parquet:"line,plain"`
	Time   *int64            `parquet:"time_unix_nano,plain"`
	SpanID *string           `parquet:"span_id,plain"`
	Text   map[string]string `parquet:"attributes_string" parquet-key:"key,plain" parquet-value:"value,plain"`
	Order  *string           `parquet:"attribute_order,plain"`
}

const rootDump = `{"id":0,"parent":0,"message":null,"name":"root","target":"","level":"TRACE","module_path":null,"file":null,"line":null,"attributes":[]}` + "\n"

// TestForeign decodes tables of other programs.
func TestForeign(t *testing.T) {
	ptr := func(s string) *string { return &s }
	var n int64 = 5
	for _, x := range []struct {
		name  string
		table []byte
		want  string // a part of the error
		unit  string // the unit in the error
		dump  string
	}{
		{name: "other columns", table: foreign(t, struct {
			A int64 `parquet:"a"`
		}{1}), want: "not a table that entrace wrote"},
		{name: "no name", table: foreign(t, struct {
			ID     int64 `parquet:"id"`
			Parent int64 `parquet:"parent"`
		}{1, 0}), want: "not a table that entrace wrote"},
		{name: "another type", table: foreign(t, struct {
			ID     string `parquet:"id"`
			Parent int64  `parquet:"parent"`
			Name   string `parquet:"name"`
		}{"1", 0, "n"}), want: "not a table that entrace wrote"},
		{name: "no rows", table: foreign[plainRow](t), dump: rootDump},
		{name: "no order", table: foreign(t, plainRow{ID: 7, Name: "n", Time: &n, SpanID: ptr("00000000000000aa"), Text: map[string]string{"k": "v"}}), dump: rootDump +
			`{"id":1,"parent":0,"message":null,"name":"n","target":"","level":"INFO","module_path":null,"file":null,"line":0,` +
			`"attributes":[["span_id",{"String":"00000000000000aa"}],["time_unix_nano",{"U64":5}],["k",{"String":"v"}]]}` + "\n"},
		{name: "twice the id", table: foreign(t, plainRow{ID: 7}, plainRow{ID: 7}), want: "larger than the id of the previous row", unit: "row group 0, row 1"},
		{name: "negative id", table: foreign(t, plainRow{ID: -7}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "large id", table: foreign(t, plainRow{ID: 1 << 32}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "negative line", table: foreign(t, plainRow{Line: -1}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "a level", table: foreign(t, plainRow{Level: ptr("loud")}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "an order of nothing", table: foreign(t, plainRow{Order: ptr("s")}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "an order of less", table: foreign(t, plainRow{Order: ptr(""), Text: map[string]string{"k": "v"}}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "an order of letters", table: foreign(t, plainRow{Order: ptr("?")}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "an order of null", table: foreign(t, plainRow{Order: ptr("D")}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "an order of rest", table: foreign(t, plainRow{Order: ptr("+")}), want: "invalid value", unit: "row group 0, row 0"},
		{name: "a text", table: []byte("PAR2 is another file"), want: "not a Parquet file"},
		{name: "encrypted", table: []byte("PARE is another file"), want: "unsupported"},
		{name: "a long footer", table: []byte("PAR1\x00\x00\x00\xff\xff\xff\xffPAR1"), want: "corrupt"},
		{name: "an empty footer", table: []byte("PAR1\x00\x00\x00\x00PAR1"), want: "corrupt"},
	} {
		out, err := converter.Back(t.Context(), t, bytes.NewReader(x.table), format.V1)
		e, _ := errors.AsType[*input.Error](err)
		switch {
		case x.want == "" && err != nil, x.want != "" && (e == nil || !strings.Contains(err.Error(), x.want) || e.Unit != x.unit):
			t.Errorf("%s: %v, want %q in %q", x.name, err, x.want, x.unit)
		case err == nil:
			expect.Equal(t, dump(t, out), x.dump, "%s", x.name)
		}
	}
}

type deltaRow struct {
	ID     int64             `parquet:"id,delta"`
	Parent int32             `parquet:"parent,delta"`
	Name   string            `parquet:"name,delta"`
	Target string            `parquet:"target,delta"`
	Text   map[string]string `parquet:"attributes_string" parquet-key:"key,delta" parquet-value:"value,delta"`
	Bool   map[string]bool   `parquet:"attributes_bool" parquet-key:"key,dict" parquet-value:"value"`
}

// TestEncodings decodes encodings that we do not write, in both versions of pages, with several pages per column.
func TestEncodings(t *testing.T) {
	const n = 2000
	var rows []deltaRow
	want := []string{strings.TrimSpace(rootDump)}
	for i := range int64(n) {
		r := deltaRow{ID: i*i + 1, Parent: int32(max(i-3, 0)*max(i-3, 0) + 1), Name: strings.Repeat("common", int(i%5)) + fmt.Sprint(i%37), Target: fmt.Sprint("t", i%3)}
		e := &format.TraceEntry{Parent: uint32(max(i-3, 0) + 1), Metadata: format.Metadata{Name: r.Name, Target: r.Target, Level: format.LevelInfo}}
		if i < 1 {
			r.Parent, e.Parent = 0, 0
		}
		if i%4 > 0 {
			r.Text = map[string]string{"k": fmt.Sprint(i)}
			e.Attributes = append(e.Attributes, tracetest.Attributes("k", fmt.Sprint(i))...)
		}
		if i%7 > 3 {
			r.Bool = map[string]bool{"b": i%2 > 0}
			e.Attributes = append(e.Attributes, tracetest.Attributes("b", i%2 > 0)...)
		}
		rows = append(rows, r)
		want = append(want, string(entryjson.Append(nil, i+1, e)))
	}
	for _, version := range []int{1, 2} {
		for _, c := range []compress.Codec{&pq.Uncompressed, &pq.Snappy, &pq.Zstd, &pq.Gzip} {
			var b bytes.Buffer
			converttest.Must(t, pq.Write(&b, rows, pq.Compression(c), pq.DataPageVersion(version), pq.PageBufferSize(2000), pq.MaxRowsPerRowGroup(700)))
			out, err := converter.Back(t.Context(), t, bytes.NewReader(b.Bytes()), format.V1)
			if err != nil {
				t.Errorf("version %d, %v: %v", version, c, err)
				continue
			}
			got := strings.Split(strings.TrimSpace(dump(t, out)), "\n")
			for i := range want {
				if i >= len(got) || got[i] != want[i] {
					t.Errorf("version %d, %v: entry %d of %d is\n%s\nwant\n%s", version, c, i, len(got), got[min(i, len(got)-1)], want[i])
					break
				}
			}
		}
	}
}

// TestOrphans removes rows, as a query does. The children of a missing row must be below the root.
func TestOrphans(t *testing.T) {
	out, err := converter.Back(t.Context(), t, bytes.NewReader(foreign(t,
		plainRow{ID: 3, Parent: 1, Name: "a"}, plainRow{ID: 5, Parent: 3, Name: "b"}, plainRow{ID: 9, Parent: 5, Name: "c"}, plainRow{ID: 10, Parent: 12, Name: "d"})), format.V1)
	converttest.Must(t, err)
	r, err := format.NewReader(bytes.NewReader(out), nil)
	converttest.Must(t, err)
	for id, want := range []uint32{0, 0, 1, 2, 0} {
		e, err := r.Next()
		converttest.Must(t, err)
		expect.Equal(t, e.Parent, want, "entry %d is below", id)
	}
}

// TestLimits decodes small files whose footers claim to be large.
func TestLimits(t *testing.T) {
	table := foreign(t, plainRow{ID: 1, Name: "n"})
	size := binary.LittleEndian.Uint32(table[len(table)-8:])
	data, footer := table[:len(table)-8-int(size)], table[len(table)-8-int(size):len(table)-8]
	var tables [][]byte
	for i := range footer {
		for _, claim := range []uint64{1 << 28, 1<<31 - 1, 1<<32 - 1, 1<<40 - 1} {
			// Replace each byte by a larger number. So every size, count and offset is once too large.
			b := append(bytes.Clone(footer[:i]), binary.AppendUvarint(nil, claim<<1)...)
			tables = append(tables, footed(data, append(b, footer[i+1:]...)))
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for _, b := range tables {
		_, _ = converter.Back(t.Context(), t, bytes.NewReader(b), format.V1)
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / uint64(len(tables)); each > 2<<20 {
		t.Errorf("%d bytes were allocated for each of the files of %d bytes, want 2 MiB at most", each, len(table))
	}
}

// footed returns a file of data and a footer.
func footed(data, footer []byte) []byte {
	file := append(bytes.Clone(data), footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
}

// A repeatedRow has a text that is once in a dictionary, for all rows.
type repeatedRow struct {
	ID      int64  `parquet:"id,delta"`
	Parent  int64  `parquet:"parent,dict"`
	Name    string `parquet:"name,dict"`
	Message string `parquet:"message,dict"`
}

// TestHostile decodes tables that have, or claim to have, much more content than their size allows.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, and starts no goroutine")
	}
	long := make([]repeatedRow, 15000)
	text := strings.Repeat("a", 64<<10)
	for i := range long {
		long[i] = repeatedRow{ID: int64(i + 1), Name: "n", Message: text}
	}
	attributes := make(map[string]string)
	for i := range 600_000 {
		attributes[fmt.Sprint(i)] = fmt.Sprintf("%060d", i)
	}
	changed := func(change func(g *meta.RowGroup)) []byte {
		table := foreign(t, plainRow{ID: 1})
		end := len(table) - 8 - int(binary.LittleEndian.Uint32(table[len(table)-8:]))
		var m meta.FileMetaData
		converttest.Must(t, thrift.Unmarshal(new(thrift.CompactProtocol), table[end:len(table)-8], &m))
		change(&m.RowGroups[0])
		b, err := thrift.Marshal(new(thrift.CompactProtocol), &m)
		converttest.Must(t, err)
		return footed(table[:end], b)
	}
	footer := func(head string, items uint64, rest ...byte) []byte {
		return footed([]byte("PAR1"), append(binary.AppendUvarint([]byte(head), items), rest...))
	}
	const claims = "claims too many columns, or more items than it has bytes"
	for name, x := range map[string]struct {
		table []byte
		want  string // a part of the error
	}{
		"rows":                           {changed(func(g *meta.RowGroup) { g.NumRows = 1 << 20 }), "more rows than a file of this size"},
		"values behind the data":         {changed(func(g *meta.RowGroup) { g.Columns[2].MetaData.TotalCompressedSize = 1 << 40 }), `column "name": corrupt: the values are outside of the data`},
		"values before the data":         {changed(func(g *meta.RowGroup) { g.Columns[2].MetaData.DataPageOffset = -5 }), `column "name": corrupt: the values are outside of the data`},
		"attributes":                     {compressed(t, &pq.Zstd, plainRow{ID: 1, Text: attributes}), "entry too large"},
		"texts of a dictionary":          {compressed(t, &pq.Zstd, long...), "more text than a file of this size"},
		"a footer that nests":            {footed([]byte("PAR1"), bytes.Repeat([]byte{0x1c}, 32<<20)), "nests too deep"},
		"2^31 row groups":                {footer("\x49\xfc", 1<<31-1), claims},
		"a schema of 2^31 elements":      {footer("\x29\xfc", 1<<31-1), claims},
		"a schema of many small columns": {footer("\x29\xfc", 2000, make([]byte, 2000)...), claims},
	} {
		_, err := converter.Back(t.Context(), t, bytes.NewReader(x.table), format.V1)
		if e, _ := errors.AsType[*input.Error](err); e == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want %q with a place", name, err, x.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(converter.Bytes(f, viewOf(f, format.V1, everything()[:5]...)))
	f.Add(converter.Bytes(f, viewOf(f, format.V2, spans(20)...)))
	f.Add(foreign(f, plainRow{ID: 7, Name: "n", Text: map[string]string{"k": "v"}}))
	names, _ := filepath.Glob(filepath.Join("testdata", "*.parquet"))
	for _, name := range names {
		b := tracetest.ReadFile(f, name)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		out, err := converter.Back(t.Context(), t, bytes.NewReader(b), format.V1)
		if err != nil {
			if _, ok := errors.AsType[*input.Error](err); !ok {
				t.Fatalf("%v is no *input.Error", err)
			}
		}
		if len(out) <= wire.MagicSize {
			return
		}
		name := filepath.Join(t.TempDir(), "trace.iet")
		converttest.Must(t, os.WriteFile(name, out, 0o600))
		again, err := converter.Back(t.Context(), t, bytes.NewReader(converter.Bytes(t, converttest.Open(t, name))), format.V1)
		converttest.Must(t, err)
		if v := converttest.Open(t, name); v.Len() > 0 && !bytes.Equal(again, out) && !folds(v) {
			t.Errorf("there and back again it is\n%s\nand was\n%s", dump(t, again), dump(t, out))
		}
	})
}

// folds reports whether ends of spans make the rows of v fewer than its entries.
func folds(v *view.View) bool { return v.Len() < v.Entries(0) }
