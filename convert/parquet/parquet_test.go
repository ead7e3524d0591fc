package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/entrace-go/entrace/convert/internal/converttest"
	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var converter = converttest.Format{Encode: parquet.Encode, Decode: parquet.Decode}

func TestConverter(t *testing.T) { converter.Run(t) }

// viewOf writes entries to a file and returns a view of it.
func viewOf(t testing.TB, v format.Version, entries ...*format.TraceEntry) *view.View {
	t.Helper()
	return converttest.Open(t, converttest.Write(t, v, entries...))
}

const traceID = "0102030405060708090a0b0c0d0e0f10"

// everything returns entries with everything that an entry can have.
func everything() []*format.TraceEntry {
	u, i := format.U64Value, format.I64Value
	return []*format.TraceEntry{
		format.Root(),
		{Message: format.Some("cart"), Metadata: format.Metadata{Name: "resource", Level: format.LevelInfo}, Attributes: tracetest.Attributes("service.name", "cart", "host", "h")},
		{Parent: 1, Metadata: format.Metadata{Name: "GET", Target: "lib", Level: format.LevelError, File: format.Some("a.go"), Line: format.Some[uint32](math.MaxUint32)}, Attributes: tracetest.Attributes(
			"trace_id", traceID, "span_id", "00000000000000aa", "time_unix_nano", u(1_700_000_000_000_000_001), "duration_nano", u(500),
			"otel.kind", "server", "otel.status_code", "ERROR", "http.status", i(500), "route", "/cart", "ratio", math.Copysign(0, -1))},
		{Parent: 2, Metadata: format.Metadata{Name: "", ModulePath: format.Some(""), File: format.Some("")}, Attributes: tracetest.Attributes(
			"route", "", "span_id", "00000000000000bb", "a", u(7), "time_unix_nano", i(-5), "b", i(math.MinInt64), "duration_nano", i(3))},
		{Parent: 3, Message: format.Some(""), Metadata: format.Metadata{Name: "event a.go:3", Level: format.LevelDebug}, Attributes: tracetest.Attributes(
			"big", u(math.MaxUint64), "wide", format.U128Value(math.MaxUint64, 1), "low", format.I128Value(math.MinInt64, 0), "minus", format.I128Value(-1, math.MaxUint64),
			"small", format.U128Value(0, 3), "nan", math.Float64frombits(0x7ff8000000000123), "inf", math.Inf(-1),
			"yes", true, "no", false, "raw", []byte{0, 255}, "none", format.BytesValue(nil))},
		{Parent: 1, Metadata: format.Metadata{Name: "twice"}, Attributes: tracetest.Attributes(
			"k", "1", "k", "2", "k", i(3), "trace_id", "TT", "span_id", u(4), "trace_id", traceID, "otel.kind", "", "\xff", "x", "bad", "\xfe", "time_unix_nano", u(math.MaxUint64))},
		{Parent: 0, Message: format.Some("a\x00b"), Metadata: format.Metadata{Name: strings.Repeat("n", 100_000), Level: format.LevelTrace}},
	}
}

// TestRoundTrip converts everything that an entry can have to a table and back.
func TestRoundTrip(t *testing.T) {
	for _, v := range []format.Version{format.V1, format.V2} {
		in := viewOf(t, v, everything()...)
		got, err := converter.Back(t.Context(), t, bytes.NewReader(converter.Bytes(t, in)), v)
		converttest.Must(t, err)
		want := tracetest.ReadFile(t, in.Files()[0].Name())
		if !bytes.Equal(got, want) {
			t.Errorf("version %d: the file is another one\n%s\nwant\n%s", v, dump(t, got), dump(t, want))
		}
	}
}

func dump(t testing.TB, iet []byte) string {
	t.Helper()
	r, err := format.NewReader(bytes.NewReader(iet), nil)
	converttest.Must(t, err)
	var b []byte
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return string(b)
		}
		converttest.Must(t, err)
		b = append(entryjson.Append(b, r.ID(), e), '\n')
	}
}

// TestRowGroups encodes more rows, or more text, than fit into one row group.
func TestRowGroups(t *testing.T) {
	long := strings.Repeat("long ", 100_000)
	for _, x := range []struct {
		rows, groups int
		text         string
	}{{1, 1, ""}, {65_536, 1, "a"}, {70_000, 2, "b"}, {150, 3, long}} {
		entries := []*format.TraceEntry{format.Root()}
		for i := 1; i < x.rows; i++ {
			entries = append(entries, &format.TraceEntry{Parent: uint32(i / 2), Metadata: format.Metadata{Name: "n"}, Message: format.Some(x.text + fmt.Sprint(i)), Attributes: tracetest.Attributes("k", fmt.Sprint(i%11))})
		}
		in := viewOf(t, format.V2, entries...)
		table := converter.Bytes(t, in)
		f, err := pq.OpenFile(bytes.NewReader(table), int64(len(table)))
		converttest.Must(t, err)
		if got := len(f.RowGroups()); got != x.groups || f.NumRows() != int64(x.rows) {
			t.Errorf("%d rows: there are %d in %d groups, want %d", x.rows, f.NumRows(), got, x.groups)
		}
		got, err := converter.Back(t.Context(), t, bytes.NewReader(table), format.V2)
		converttest.Must(t, err)
		want := tracetest.ReadFile(t, in.Files()[0].Name())
		if !bytes.Equal(got, want) {
			t.Errorf("%d rows: the file is another one", x.rows)
		}
	}
}

// TestView encodes a recording in which spans have two entries, one of them before its parent. The table must have
// each span once, and a view of the decoded table must be the same.
func TestView(t *testing.T) {
	const n = 3000 // more than there are in memory at a time
	var entries []*format.TraceEntry
	service := strings.Repeat("s", 100)
	entries = append(entries, format.Root(), &format.TraceEntry{Metadata: format.Metadata{Name: "resource"}, Attributes: tracetest.Attributes("service.name", service)})
	late := &format.TraceEntry{Parent: 1, Metadata: format.Metadata{Name: "child"}, Attributes: tracetest.Attributes(
		"trace_id", traceID, "span_id", "00000000000000cc", "parent_span_id", "0000000000000001", "time_unix_nano", uint64(5))}
	entries = append(entries, late)
	for i := range n {
		id, began := fmt.Sprintf("%016x", i+1), uint32(len(entries))
		entries = append(entries, &format.TraceEntry{Parent: 1, Metadata: format.Metadata{Name: "early", Level: format.LevelInfo}, Attributes: tracetest.Attributes(
			"trace_id", traceID, "span_id", id, "time_unix_nano", uint64(i), "k", "old", "kept", 1)})
		entries = append(entries, tracetest.Below(began, tracetest.Log("a log")))
		entries = append(entries, &format.TraceEntry{Parent: began, Message: format.Some("late"), Metadata: format.Metadata{Name: format.NameSpanEnd, Level: format.LevelError}, Attributes: tracetest.Attributes(
			"span_id", id, "duration_nano", uint64(7), "otel.status_code", "ERROR", "k", 2, "new", true)})
	}
	for _, version := range []format.Version{format.V1, format.V2} {
		before := viewOf(t, version, entries...)
		iet, err := converter.Back(t.Context(), t, bytes.NewReader(converter.Bytes(t, before)), version)
		converttest.Must(t, err)
		name := filepath.Join(t.TempDir(), "back.iet")
		converttest.Must(t, os.WriteFile(name, iet, 0o600))
		after := converttest.Open(t, name)
		expect.MustEqual(t, after.Len(), 3+2*n, "version %d: entries", version)
		for id := range before.Rows() {
			want, err := before.Entry(id)
			converttest.Must(t, err)
			got, err := after.Entry(id)
			converttest.Must(t, err)
			if g, w := entryjson.Append(nil, 0, got), entryjson.Append(nil, 0, want); !bytes.Equal(g, w) {
				t.Fatalf("version %d, entry %d:\n%s\nwant\n%s", version, id, g, w)
			}
			if before.Ref(id) != after.Ref(id) || before.Role(id) != after.Role(id) {
				t.Fatalf("version %d, entry %d: another span, or another role", version, id)
			}
		}
	}
}

// TestOthers decodes tables that DuckDB and Arrow have made from our table.
func TestOthers(t *testing.T) {
	in := viewOf(t, format.V1, everything()...)
	converttest.Update(t, "ours.parquet", converter.Bytes(t, in))
	want := tracetest.ReadFile(t, in.Files()[0].Name())
	names, err := filepath.Glob(filepath.Join("testdata", "*.parquet"))
	converttest.Must(t, err)
	expect.Equal(t, len(names), 4, "tables")
	for _, name := range names {
		f, err := os.Open(name)
		converttest.Must(t, err)
		got, err := converter.Back(t.Context(), t, f, format.V1)
		f.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, dump(t, got), dump(t, want))
		}
	}
}
