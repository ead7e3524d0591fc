package parquet_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	pq "github.com/parquet-go/parquet-go"

	"github.com/entrace-go/entrace/convert/parquet"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/converttest"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

var converter = converttest.Format{Encode: parquet.Encode, Check: check}

func TestConverter(t *testing.T) { converter.Run(t) }

func FuzzEncode(f *testing.F) { converter.Fuzz(f) }

// A row has the columns of a table that tests compare.
type row struct {
	ID           int64              `parquet:"id"`
	Parent       int64              `parquet:"parent"`
	Role         string             `parquet:"role"`
	Name         string             `parquet:"name"`
	Level        string             `parquet:"level"`
	TraceID      string             `parquet:"trace_id,optional"`
	SpanID       string             `parquet:"span_id,optional"`
	ParentSpanID string             `parquet:"parent_span_id,optional"`
	Time         int64              `parquet:"time_unix_nano,optional"`
	Duration     int64              `parquet:"duration_nano,optional"`
	Status       string             `parquet:"status,optional"`
	Strings      map[string]string  `parquet:"attributes_string"`
	Ints         map[string]int64   `parquet:"attributes_int"`
	Floats       map[string]float64 `parquet:"attributes_float"`
	Bools        map[string]bool    `parquet:"attributes_bool"`
	Bytes        map[string][]byte  `parquet:"attributes_bytes"`
	Big          map[string]string  `parquet:"attributes_big"`
}

// rowsOf returns the rows of a table, as the library reads them.
func rowsOf(t testing.TB, table []byte) []row {
	t.Helper()
	rows, err := pq.Read[row](bytes.NewReader(table), int64(len(table)))
	converttest.Must(t, err)
	return rows
}

// check checks that a table can be read, and that its texts are UTF-8.
func check(t testing.TB, table []byte) {
	t.Helper()
	for _, r := range rowsOf(t, table) {
		texts := []string{r.Name, r.TraceID, r.SpanID, r.ParentSpanID, r.Status}
		for _, names := range []iter.Seq[string]{maps.Keys(r.Strings), maps.Values(r.Strings), maps.Keys(r.Ints), maps.Keys(r.Bytes)} {
			texts = slices.AppendSeq(texts, names)
		}
		if !utf8.ValidString(strings.Join(texts, " ")) {
			t.Errorf("row %d has a text that is not UTF-8: %q", r.ID, texts)
		}
	}
}

// viewOf writes entries to a file and returns a view of it.
func viewOf(t testing.TB, v format.Version, entries ...*format.TraceEntry) *view.View {
	t.Helper()
	return converttest.Open(t, converttest.Write(t, v, entries...))
}

const traceID = "0102030405060708090a0b0c0d0e0f10"

// everything returns entries with every kind of field and attribute.
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
			"k", "1", "k", "2", "k (3)", 3, "k", i(4), "k (2)", true, "trace_id", "TT", "span_id", u(4), "trace_id", traceID, "otel.kind", "",
			"\xff", "x", "\xfe", "y", "bad", "\xfe", "time_unix_nano", u(math.MaxUint64))},
		{Parent: 0, Message: format.Some("a\x00b"), Metadata: format.Metadata{Name: "last", Level: format.LevelTrace}},
	}
}

// TestTable compares the table of everything that an entry can have with a text that lists it.
func TestTable(t *testing.T) {
	table := converter.Bytes(t, viewOf(t, format.V1, everything()...))
	f, err := pq.OpenFile(bytes.NewReader(table), int64(len(table)))
	converttest.Must(t, err)
	columns := f.Schema().Columns()
	rows := make([]pq.Row, 100)
	n, err := f.RowGroups()[0].Rows().ReadRows(rows)
	expect.Is(t, err, io.EOF, "the end of the rows")
	var b bytes.Buffer
	for _, r := range rows[:n] {
		for _, v := range r {
			switch path := columns[v.Column()]; {
			case v.IsNull():
			case v.Kind() == pq.ByteArray:
				fmt.Fprintf(&b, "%s %q\n", strings.Join(path, " "), v.ByteArray())
			default:
				fmt.Fprintf(&b, "%s %v\n", strings.Join(path, " "), v)
			}
		}
		b.WriteString("\n")
	}
	converttest.Golden(t, "everything.txt", b.Bytes())
}

// TestRowGroups encodes more rows, or more text, than fit into one row group.
func TestRowGroups(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
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
		for i, r := range rowsOf(t, table) {
			if r.ID != int64(i) || r.Parent != int64(i/2) || i > 0 && r.Strings["k"] != fmt.Sprint(i%11) {
				t.Fatalf("of %d rows, row %d is %+v", x.rows, i, r)
			}
		}
	}
}

// TestView encodes a recording in which spans have two entries, one of them before its parent. The table must have each
// span once, like the view.
func TestView(t *testing.T) {
	const n = 3000 // more than there are in memory at a time
	var entries []*format.TraceEntry
	service := strings.Repeat("s", 100)
	entries = append(entries, format.Root(), tracetest.Entry("resource", "service.name", service))
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
	for _, version := range tracetest.BothVersions {
		v := viewOf(t, version, entries...)
		rows := rowsOf(t, converter.Bytes(t, v))
		expect.MustLen(t, rows, 3+2*n, "version %d: rows", version)
		for id, got := range rows {
			r := view.Row(id)
			e, err := v.Entry(r)
			converttest.Must(t, err)
			_, stored := v.ID(r)
			_, parent := v.ID(v.Parent(r))
			want := row{ID: int64(stored), Parent: int64(parent), Role: v.Role(r).String(), Name: e.Metadata.Name, Level: e.Metadata.Level.String()}
			want.Strings, want.Ints, want.Bools = map[string]string{}, map[string]int64{}, map[string]bool{}
			got.Floats, got.Bytes, got.Big = nil, nil, nil
			if ref := v.Ref(r); ref.TraceID != [16]byte{} {
				want.TraceID, want.SpanID = hex.EncodeToString(ref.TraceID[:]), hex.EncodeToString(ref.SpanID[:])
			}
			if v.Role(r) == view.RoleSpan {
				want.Status = "UNSET"
				if v.Role(v.Parent(r)) == view.RoleSpan {
					up := v.Ref(v.Parent(r)).SpanID
					want.ParentSpanID = hex.EncodeToString(up[:])
				}
			}
			for _, a := range e.Attributes {
				n, _ := a.Value.I64()
				switch a.Name {
				case format.AttrTraceID, format.AttrSpanID:
				case format.AttrTime:
					want.Time = n
				case format.AttrDuration:
					want.Duration = n
				case "otel.status_code":
					want.Status = a.Value.Text()
				case "kept", "k":
					want.Ints[a.Name] = n
				case "new":
					want.Bools[a.Name] = true
				default:
					want.Strings[a.Name] = a.Value.Text()
				}
			}
			if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
				t.Fatalf("version %d, row %d:\n%s\nwant\n%s", version, id, g, w)
			}
		}
	}
}

// TestCorrectedTimes checks that the table has the times of the view, which corrects a clock.
func TestCorrectedTimes(t *testing.T) {
	file := viewOf(t, format.V2, spans(3)...).Files()[0]
	v, err := view.New(t.Context(), []*format.File{file}, &view.Options{
		Clock: func(*format.File, string) time.Duration { return time.Hour },
	})
	converttest.Must(t, err)
	for i, r := range rowsOf(t, converter.Bytes(t, v))[2:] {
		expect.Equal(t, r.Time, 1_700_000_000_000_000_000+int64(i)*1000+int64(time.Hour), "the time of span %d", i)
	}
}
