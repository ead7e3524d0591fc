//go:build !race

package parquet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	meta "github.com/parquet-go/parquet-go/format"
	"golang.org/x/sys/unix"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// maxMemory is how much memory a process may need to decode a hostile table.
const maxMemory = 256 << 20

// A chunk is a column of a crafted table, with its pages.
type chunk struct {
	name  string
	kind  meta.Type
	opt   bool
	codec meta.CompressionCodec
	pages []page
	path  []meta.SchemaElement // replaces the schema that name, kind and opt describe
}

type page struct {
	head any // a meta.PageHeader, or the bytes of an encoded one
	body []byte
}

func encoded(v any) []byte {
	b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
	if err != nil {
		panic(err)
	}
	return b
}

// craft returns a table of one row group with rows rows. If chunks does not have the required columns id, parent
// and name, craft adds intact ones.
func craft(rows int64, chunks ...chunk) []byte {
	for _, name := range []string{"id", "parent", "name"} {
		found := false
		for _, c := range chunks {
			found = found || c.name == name
		}
		if !found {
			c := chunk{name: name, kind: meta.Int64}
			if name == "name" {
				c.kind = meta.ByteArray
			}
			for i := range rows {
				c.pages = append(c.pages, plain(1, binary.LittleEndian.AppendUint64(nil, uint64(i))))
				if name == "name" {
					c.pages[i].body = []byte("\x04\x00\x00\x00name")
				}
			}
			chunks = append(chunks, c)
		}
	}
	file := []byte("PAR1")
	m := meta.FileMetaData{Version: 1, NumRows: rows, Schema: []meta.SchemaElement{{Name: "root"}}}
	columns := int32(0)
	g := meta.RowGroup{NumRows: rows}
	for _, c := range chunks {
		from := len(file)
		for _, p := range c.pages {
			head, ok := p.head.([]byte)
			if h, is := p.head.(meta.PageHeader); is {
				if h.CompressedPageSize = int32(len(p.body)); h.UncompressedPageSize == 0 {
					h.UncompressedPageSize = h.CompressedPageSize
				}
				head, ok = encoded(&h), true
			}
			if !ok {
				panic("a page has no head")
			}
			file = append(append(file, head...), p.body...)
		}
		repetition := meta.Required
		if c.opt {
			repetition = meta.Optional
		}
		if c.path == nil {
			c.path = []meta.SchemaElement{{Type: thrift.New(c.kind), Name: c.name, RepetitionType: thrift.New(repetition)}}
		}
		if c.name != "value" {
			columns++
		}
		m.Schema = append(m.Schema, c.path...)
		g.Columns = append(g.Columns, meta.ColumnChunk{MetaData: meta.ColumnMetaData{
			Type: c.kind, Codec: c.codec, NumValues: 1 << 31, PathInSchema: []string{c.name}, DataPageOffset: int64(from), TotalCompressedSize: int64(len(file) - from),
		}})
	}
	m.Schema[0].NumChildren = thrift.New(columns)
	m.RowGroups = []meta.RowGroup{g}
	return footed(file, encoded(&m))
}

// footed appends the footer, its size and the magic to file.
func footed(file, footer []byte) []byte {
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
}

// data returns a page of n values.
func data(n int32, enc meta.Encoding, body []byte) page {
	return page{head: meta.PageHeader{Type: meta.DataPage, DataPageHeader: thrift.New(meta.DataPageHeader{NumValues: n, Encoding: enc, DefinitionLevelEncoding: meta.RLE, RepetitionLevelEncoding: meta.RLE})}, body: body}
}

func plain(n int32, body []byte) page { return data(n, meta.Plain, body) }

// sized returns p with a header that claims size bytes for the body.
func sized(p page, size int32) page {
	h := p.head.(meta.PageHeader)
	h.UncompressedPageSize = size
	p.head = h
	return p
}

// mapOf returns the chunks of the map attributes_string with the values text, compressed by zstd. Each page has one
// row.
func mapOf(rows int, size int32, text []byte) []chunk {
	one := []byte{2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 2, 1} // the levels of a row with one attribute
	key := plain(1, append(one, 1, 0, 0, 0, 'k'))
	leaf := func(name string) meta.SchemaElement {
		return meta.SchemaElement{Type: thrift.New(meta.ByteArray), Name: name, RepetitionType: thrift.New(meta.Required)}
	}
	return []chunk{{
		name: "key", kind: meta.ByteArray, pages: slices.Repeat([]page{key}, rows),
		path: []meta.SchemaElement{
			{Name: "attributes_string", NumChildren: thrift.New(int32(1)), RepetitionType: thrift.New(meta.Required)},
			{Name: "key_value", NumChildren: thrift.New(int32(2)), RepetitionType: thrift.New(meta.Repeated)},
			leaf("key"),
		},
	}, {
		name: "value", kind: meta.ByteArray, codec: meta.Zstd, pages: slices.Repeat([]page{sized(plain(1, text), size)}, rows), path: []meta.SchemaElement{leaf("value")},
	}}
}

// zstdBomb returns a frame of zstd with the bytes first and n blocks of 128 KiB of zeros. If claim is not 0, the
// frame claims to have claim bytes.
func zstdBomb(n int, claim uint64, first ...byte) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3}
	if claim > 0 {
		b = binary.LittleEndian.AppendUint64([]byte{0x28, 0xb5, 0x2f, 0xfd, 3 << 6, 7 << 3}, claim)
	}
	b = append(append(b, byte(len(first))<<3, 0, 0), first...)
	for i := range n {
		head := uint32(128<<10)<<3 | 1<<1
		if i == n-1 {
			head |= 1
		}
		b = append(b, byte(head), byte(head>>8), byte(head>>16), 0)
	}
	return b
}

// A repeatedRow has a text that is once in a dictionary, for all rows.
type repeatedRow struct {
	ID      int64  `parquet:"id,delta"`
	Parent  int64  `parquet:"parent,dict"`
	Name    string `parquet:"name,dict"`
	Message string `parquet:"message,dict"`
}

// A manyRow needs nearly no space if there are many.
type manyRow struct {
	ID     int64  `parquet:"id,delta"`
	Parent int64  `parquet:"parent,dict"`
	Name   string `parquet:"name,dict"`
}

// A hostileTable is a table that claims much, or has much content, for its size.
type hostileTable struct {
	name  string
	table []byte
	want  string // a part of the expected error; "": no error
}

func hostileTables(t *testing.T) []hostileTable {
	many := make([]manyRow, 3<<18)
	for i := range many {
		many[i].ID = int64(2*i + 1)
	}
	attributes := make(map[string]string)
	for i := range 600_000 {
		attributes[fmt.Sprint(i)] = fmt.Sprintf("%060d", i)
	}
	long := make([]repeatedRow, 15000)
	text := strings.Repeat("a", 64<<10)
	for i := range long {
		long[i] = repeatedRow{ID: int64(i + 1), Name: "n", Message: text}
	}
	uvarint := func(n ...uint64) (b []byte) {
		for _, n := range n {
			b = binary.AppendUvarint(b, n)
		}
		return b
	}
	prefixed := func(b []byte) []byte { return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...) }
	id := func(pages ...page) []byte { return craft(1, chunk{name: "id", kind: meta.Int64, pages: pages}) }
	name := func(pages ...page) []byte { return craft(1, chunk{name: "name", kind: meta.ByteArray, pages: pages}) }
	optional := func(pages ...page) []byte {
		return craft(1, chunk{name: "message", kind: meta.ByteArray, opt: true, pages: pages})
	}
	packed := func(codec meta.CompressionCodec, size int32, body []byte) []byte {
		return craft(1, chunk{name: "target", kind: meta.ByteArray, codec: codec, pages: []page{sized(plain(1, body), size)}})
	}
	// Columns with a large page each: first all in the same row, then each in another row.
	var wide, turns []chunk
	large, small := sized(plain(1, zstdBomb(480, 0)), 60<<20), sized(plain(1, zstdBomb(1, 0)), 128<<10)
	for i, name := range []string{"role", "message", "target", "module_path", "file", "service", "trace_id", "span_id", "kind"} {
		wide = append(wide, chunk{name: name, kind: meta.ByteArray, codec: meta.Zstd, pages: []page{large}})
		turns = append(turns, chunk{name: name, kind: meta.ByteArray, codec: meta.Zstd, pages: slices.Repeat([]page{small}, 9)})
		turns[i].pages[i] = large
	}
	dictionary := page{head: meta.PageHeader{Type: meta.DictionaryPage, DictionaryPageHeader: thrift.New(meta.DictionaryPageHeader{NumValues: 1})}, body: []byte("\x01\x00\x00\x00a")}
	inDict := func(n int32, width byte, runs ...uint64) []byte {
		return name(dictionary, data(n, meta.RLEDictionary, append([]byte{width}, uvarint(runs...)...)))
	}
	deltas := uvarint(128, 4, 1<<31-1, 0)
	nested := bytes.Repeat([]byte{0x1c}, 32<<20)                                                                              // structures that nest 32 Mi levels deep
	statistics := append([]byte("\x15\x00\x15\x00\x15\x00\x2c\x15\x02\x15\x00\x15\x00\x15\x00\x1c\x18"), uvarint(1<<31-1)...) // its statistics claim 2 GiB
	const (
		footer, header  = "the metadata is invalid", "the header of a page is damaged"
		runs, diffs     = "the run-length encoding is damaged", "the delta encoding is damaged"
		notSo, tooLarge = "the page is not as long as its header says", "the pages are too large"
	)
	return []hostileTable{
		{"rows", compressed(t, &pq.Zstd, many...), "more rows than a file of this size"},
		{"attributes", compressed(t, &pq.Zstd, plainRow{ID: 1, Text: attributes}), "entry too large"},
		{"texts of a dictionary", compressed(t, &pq.Zstd, long...), "more text than a file of this size"},
		{"nine pages of a map of 40 MiB each", craft(9, mapOf(9, 40<<20+16, zstdBomb(320, 0, 2, 0, 0, 0, 2, 0, 2, 0, 0, 0, 2, 1, 0, 0, 0x80, 2))...), "more text than a file of this size"},
		{"a run of levels", optional(plain(1, prefixed(uvarint(1<<31, 1)))), runs},
		{"packed levels", optional(plain(1, prefixed(uvarint(1<<30|1, 1)))), runs},
		{"levels of many values", optional(plain(1<<30, prefixed(uvarint(1<<31, 1)))), tooLarge},
		{"a run of a dictionary", inDict(1, 1, 1<<32-2, 0), runs},
		{"a packed run of a dictionary", inDict(1, 32, 1<<32-1, 0), runs},
		{"many values of no bits", inDict(1<<31-1, 0), tooLarge},
		{"deltas", id(data(1, meta.DeltaBinaryPacked, deltas)), diffs},
		{"wide deltas", id(data(2, meta.DeltaBinaryPacked, append(uvarint(128, 4, 2, 0, 0), 255, 255, 255, 255))), diffs},
		{"lengths", name(data(1, meta.DeltaLengthByteArray, deltas)), diffs},
		{"prefixes", name(data(1, meta.DeltaByteArray, deltas)), diffs},
		{"lengths behind prefixes", name(data(1, meta.DeltaByteArray, append(uvarint(128, 4, 1, 0), deltas...))), diffs},
		{"many plain values", id(plain(1<<31-1, make([]byte, 8))), tooLarge},
		{"a page of 128 MiB", packed(meta.Zstd, 128<<20, zstdBomb(1024, 0)), ""},
		{"a page of 60 MiB in nine columns", craft(1, wide...), tooLarge},
		{"a page of 60 MiB in each of nine columns in turn", craft(9, turns...), tooLarge},
		{"a page of 12 GiB that claims one MiB", packed(meta.Zstd, 1<<20, zstdBomb(100_000, 0)), "decompressed size exceeds configured limit"},
		{"a page whose frame claims a terabyte", packed(meta.Zstd, 128<<10, zstdBomb(1, 1<<40)), "decompressed size exceeds configured limit"},
		{"a page that claims more than Snappy has", packed(meta.Snappy, 16<<20, append(uvarint(1<<31), make([]byte, 1<<20)...)), notSo},
		{"statistics of a page", id(page{head: statistics}), header},
		{"a page that nests", id(page{head: nested}), header},
		{"a footer that nests", footed([]byte("PAR1"), nested), footer},
		{"a schema of 2^31 elements", footed([]byte("PAR1"), append([]byte{0x29, 0xfc}, uvarint(1<<31-1)...)), footer},
		{"a schema of many small elements", footed([]byte("PAR1"), append(append([]byte{0x29, 0xfc}, uvarint(16<<20)...), make([]byte, 16<<20)...)), footer},
		{"2^31 row groups", footed([]byte("PAR1"), append([]byte{0x49, 0xfc}, uvarint(1<<31-1)...)), footer},
		{"a row group of many small columns", footed([]byte("PAR1"), append(append([]byte{0x49, 0x1c, 0x19, 0xfc}, uvarint(16<<20)...), make([]byte, 16<<20)...)), footer},
		{"a footer of 200 MiB", footed([]byte("PAR1"), make([]byte, 200<<20)), "longer than the file, or than 128 MiB"},
	}
}

// TestHostileTablesNeedLittleMemory decodes each hostile table in a child process, whose address space may grow by
// 256 MiB.
func TestHostileTablesNeedLittleMemory(t *testing.T) {
	if name := os.Getenv("ENTRACE_HOSTILE_TABLE"); name != "" {
		readLimited(t, name, os.Getenv("ENTRACE_HOSTILE_ERROR"))
		return
	}
	for _, x := range hostileTables(t) {
		t.Run(x.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "hostile.parquet")
			converttest.Must(t, os.WriteFile(name, x.table, 0o600))
			var out []byte
			var err error
			// The runtime maps a varying amount of memory besides the heap. On a busy machine it once left too
			// little.
			for range 3 {
				child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHostileTablesNeedLittleMemory$", "-test.v")
				// A user with so little memory also sets GOMEMLIMIT.
				child.Env = append(os.Environ(), "GOMEMLIMIT=192MiB", "ENTRACE_HOSTILE_TABLE="+name, "ENTRACE_HOSTILE_ERROR="+x.want)
				if out, err = child.CombinedOutput(); err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("%d bytes: %v: %s", len(x.table), err, out[:min(len(out), 4000)])
			}
			t.Logf("%d bytes: %s", len(x.table), out)
		})
	}
}

// readLimited decodes a table, and checks the error and the memory that the process needed.
func readLimited(t *testing.T, name, want string) {
	size := status(t, "VmSize")
	converttest.Must(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: size + maxMemory, Max: size + maxMemory}))
	f, err := os.Open(name)
	converttest.Must(t, err)
	defer f.Close()
	w, err := format.NewWriter(io.Discard, format.V1, format.IET, nil)
	converttest.Must(t, err)
	err = parquet.Decode(t.Context(), f, w)
	if e, _ := errors.AsType[*input.Error](err); want == "" && err != nil || want != "" && (e == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("Decode: %v, want %q with a place", err, want)
	}
	converttest.Must(t, w.Close())
	peak := status(t, "VmHWM")
	t.Logf("%d MiB, %d entries, %v", peak>>20, w.Len(), err)
	if peak > maxMemory {
		t.Errorf("%d bytes were in memory, want %d at most", peak, maxMemory)
	}
}

// status returns the value in bytes of a line in /proc/self/status.
func status(t *testing.T, key string) uint64 {
	t.Helper()
	b := tracetest.ReadFile(t, "/proc/self/status")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, key+":"); ok {
			n, err := strconv.ParseUint(strings.Fields(rest)[0], 10, 64)
			converttest.Must(t, err)
			return n << 10
		}
	}
	t.Fatal("there is no ", key)
	return 0
}
