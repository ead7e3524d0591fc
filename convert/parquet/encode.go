package parquet

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"unsafe"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/view"
)

// The sizes of the parts of a file, and of data that is kept from row to row.
const (
	batchRows     = 512
	rowGroupRows  = 64 << 10
	rowGroupBytes = 32 << 20 // size of the texts, before compression
	dictBytes     = 1 << 20
	pageBytes     = 256 << 10
	maxKeptNames  = 256 // number of names
)

// Encode writes the entries of v to w as a Parquet table, as the package documentation describes. The error is an
// error of v, w or ctx. It needs memory for one group of rows.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	return EncodeRows(ctx, w, v, func(view.Row) bool { return true })
}

// EncodeRows is like [Encode], but writes only the rows for which keep returns true. Ids and parents are the same as
// in a table of all rows of v.
func EncodeRows(ctx context.Context, w io.Writer, v *view.View, keep func(view.Row) bool) error {
	out := pq.NewGenericWriter[any](w, schema(),
		pq.Compression(&zstd.Codec{Level: zstd.SpeedDefault}), pq.DataPageVersion(1), pq.PageBufferSize(pageBytes),
		pq.DictionaryMaxBytes(dictBytes), pq.CreatedBy("entrace", "", ""),
		pq.SkipPageBounds("message"), pq.KeyValueMetadata("entrace.table", "1"))
	e := encoder{
		v: v, out: out, keep: keep, read: v.NewReader(), one: len(v.Files()) == 1, names: make(map[string]int),
		batch: new(batch), full: make(chan *batch), free: make(chan *batch, 1),
	}
	e.free <- new(batch)
	wait := e.write()
	defer func() { _ = wait() }() // in case reading panics
	err := e.addRows(ctx)
	if err == nil {
		err = e.flush()
	}
	if werr := wait(); werr != nil {
		return werr
	}
	if err != nil {
		return err
	}
	return out.Close()
}

// write starts a goroutine that writes the batches from flush. wait waits until all batches are written. It panics
// if the writer of Encode has panicked.
func (e *encoder) write() (wait func() error) {
	var err error
	var failed any
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			failed = recover()
			if failed != nil {
				for b := range e.full { // receive the other batches, so that flush does not block
					e.free <- b
				}
			}
		}()
		err = writeBatches(e.out, e.full, e.free)
	}()
	end := sync.OnceFunc(func() { close(e.full) })
	return func() error {
		end()
		<-done
		if failed != nil {
			panic(failed)
		}
		return err
	}
}

// A batch holds rows that are not written yet: the values of each leaf, and the texts to which the values refer. A
// map has a leaf for its keys, followed by a leaf for its values.
type batch struct {
	values [numScalars + 2*numMaps][]pq.Value
	texts  []byte
	rows   int
	err    error // the error of writing this batch or an earlier one
}

// writeBatches passes batches to the Parquet library, and ends a row group when it is large enough. After an error it
// drops further batches.
func writeBatches(out *pq.GenericWriter[any], full <-chan *batch, free chan<- *batch) (err error) {
	rows, size := 0, 0
	for b := range full {
		for i, c := range out.ColumnWriters() {
			if err == nil && len(b.values[i]) > 0 {
				_, err = c.WriteRowValues(b.values[i])
			}
			clear(b.values[i])
			b.values[i] = b.values[i][:0]
		}
		rows += b.rows
		size += len(b.texts)
		b.rows = 0
		b.texts = b.texts[:0]
		if cap(b.texts) > rowGroupBytes {
			b.texts = nil
		}
		if rows >= rowGroupRows || size >= rowGroupBytes {
			rows, size = 0, 0
			if err == nil {
				err = out.Flush()
			}
		}
		b.err = err
		free <- b
	}
	return err
}

// An encoder converts entries to columns.
type encoder struct {
	v    *view.View
	out  *pq.GenericWriter[any]
	keep func(view.Row) bool
	read *view.Reader
	one  bool // the view has one file: rows have the ids of its entries

	*batch // the batch that is being filled

	full, free chan *batch // for exchanging batches with write

	hexes []byte         // buffer for ids in hex
	maps  [numMaps]int   // for each map, the number of attributes of the row in it
	names map[string]int // for each name in the row, the number of attributes with this name; see unique
}

// addRows adds all rows of the table.
func (e *encoder) addRows(ctx context.Context) error {
	for r := range e.v.Rows() {
		if r%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if e.v.Role(r) == view.RoleFolded || !e.keep(r) {
			continue
		}
		entry, err := e.read.WithoutIDs(r)
		if err != nil {
			return err
		}
		if entry.IsAddedEnd() {
			continue
		}
		e.row(r, entry)
		e.rows++
		if e.rows == batchRows || len(e.texts) > rowGroupBytes {
			if err := e.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// row adds row r, which has the given entry.
func (e *encoder) row(r view.Row, entry *format.TraceEntry) {
	role := e.v.Role(r)
	e.number(colID, e.id(r), true)
	e.number(colParent, e.id(e.v.Parent(r)), true)
	e.text(colRole, role.String(), true)
	m := &entry.Metadata
	e.text(colName, m.Name, true)
	e.text(colMessage, entry.Message.Value, entry.Message.Valid)
	e.text(colTarget, m.Target, true)
	e.text(colLevel, m.Level.String(), true)
	e.text(colModulePath, m.ModulePath.Value, m.ModulePath.Valid)
	e.text(colFile, m.File.Value, m.File.Valid)
	e.number(colLine, int64(m.Line.Value), m.Line.Valid)
	e.textIfAny(colService, e.v.Service(r))
	e.attributes(r, role, entry)
}

// id returns the id of row r in the table: the id of its entry, or its row number if the view has several files.
func (e *encoder) id(r view.Row) int64 {
	if e.one {
		_, id := e.v.ID(r)
		return int64(id)
	}
	return int64(r)
}

// An own holds the attributes of a row that have their own columns.
type own struct {
	traceID, spanID, parent, kind, status string
	time, duration                        int64
	hasTime, hasDuration                  bool
}

// attributes adds the attributes of an entry to their columns or maps.
func (e *encoder) attributes(r view.Row, role view.Role, entry *format.TraceEntry) {
	c := e.implied(r, role)
	e.maps = [numMaps]int{}
	if len(e.names) > maxKeptNames { // make a new map, because clearing a large map for each row would take too long
		e.names = make(map[string]int)
	}
	clear(e.names)
	for i := range entry.Attributes {
		a := &entry.Attributes[i]
		name := e.unique(a.Name)
		if !c.store(name, a.Value) {
			e.typed(name, a.Value)
		}
	}
	e.textIfAny(colTraceID, c.traceID)
	e.textIfAny(colSpanID, c.spanID)
	e.textIfAny(colParentSpanID, c.parent)
	e.number(colTime, c.time, c.hasTime)
	e.number(colDuration, c.duration, c.hasDuration)
	e.textIfAny(colKind, c.kind)
	e.textIfAny(colStatus, c.status)
	for i, n := range e.maps {
		if n == 0 {
			e.add(numScalars+2*i, pq.Value{}, 0, true)
			e.add(numScalars+2*i+1, pq.Value{}, 0, true)
		}
	}
}

// implied returns the attributes that follow from the place of a row in the view.
func (e *encoder) implied(r view.Row, role view.Role) own {
	var c own
	e.hexes = e.hexes[:0]
	ref := e.read.Ref(r)
	if ref.TraceID != [16]byte{} {
		c.traceID = e.hex(ref.TraceID[:])
	}
	if ref.SpanID != [8]byte{} {
		c.spanID = e.hex(ref.SpanID[:])
	}
	if role == view.RoleSpan {
		c.kind, c.status = kindInternal, statusUnset
		if up := e.read.Ref(e.v.Parent(r)); up.SpanID != [8]byte{} && up.TraceID == ref.TraceID {
			c.parent = e.hex(up.SpanID[:])
		}
	}
	return c
}

// hex returns an id as a text, which is valid until the next row.
func (e *encoder) hex(id []byte) string {
	from := len(e.hexes)
	e.hexes = wire.AppendHex(e.hexes, id)
	return wire.View(e.hexes[from:])
}

// store stores an attribute in the field for its column. It returns false if the attribute has no column or its value
// does not fit.
func (c *own) store(name string, v format.Value) bool {
	var to *string
	digits := 0 // the number of digits of an id
	switch name {
	case format.AttrTraceID:
		to, digits = &c.traceID, 32
	case format.AttrSpanID:
		to, digits = &c.spanID, 16
	case format.AttrParentSpanID:
		to, digits = &c.parent, 16
	case mapping.AttrKind:
		to = &c.kind
	case mapping.AttrStatusCode:
		to = &c.status
	case format.AttrTime:
		c.time, c.hasTime = wholeNumber(v)
		return c.hasTime
	case format.AttrDuration:
		if v.Kind() == format.KindU64 {
			c.duration, c.hasDuration = v.I64()
		}
		return c.hasDuration
	}
	text := v.Text()
	if to == nil || v.Kind() != format.KindString || text == "" || digits > 0 && !isHex(text, digits) || !wire.IsValid(text) {
		return false
	}
	*to = text
	return true
}

// wholeNumber returns the number that v has in a column of INT64. The result fits is false if v is not an integer or is
// too large.
func wholeNumber(v format.Value) (n int64, fits bool) {
	n, fits = v.I64()
	return n, fits && (v.Kind() == format.KindI64 || v.Kind() == format.KindU64)
}

// unique returns the name of the next attribute of the row in the table. The name is UTF-8, and no earlier attribute
// of the row has it.
func (e *encoder) unique(name string) string {
	name = wire.ValidText(name)
	free := name
	for e.names[free] > 0 {
		e.names[name]++
		free = fmt.Sprintf("%s (%d)", name, e.names[name])
	}
	e.names[free] = 1
	return free
}

// typed adds an attribute to the map of its kind.
func (e *encoder) typed(name string, v format.Value) {
	m, value := mapBig, pq.Value{}
	n, fits := wholeNumber(v)
	switch kind := v.Kind(); {
	case fits:
		m, value = mapInt, pq.Int64Value(n)
	case kind == format.KindString && wire.IsValid(v.Text()):
		m, value = mapString, e.bytes(v.Bytes())
	case kind == format.KindString, kind == format.KindBytes:
		m, value = mapBytes, e.bytes(v.Bytes())
	case kind == format.KindBool:
		m, value = mapBool, pq.BooleanValue(v.Bool())
	case kind == format.KindFloat:
		m, value = mapFloat, pq.DoubleValue(v.Float())
	default:
		var b [48]byte
		value = e.bytes(v.AppendDecimal(b[:0]))
	}
	rep := min(e.maps[m], 1)
	e.maps[m]++
	leaf := numScalars + 2*m
	e.values[leaf] = append(e.values[leaf], e.str(name).Level(rep, 1, leaf))
	e.values[leaf+1] = append(e.values[leaf+1], value.Level(rep, 1, leaf+1))
}

func (e *encoder) number(col int, n int64, valid bool) {
	e.add(col, pq.Int64Value(n), 1, valid)
}

func (e *encoder) text(col int, s string, valid bool) {
	e.add(col, e.str(wire.ValidText(s)), 1, valid)
}

// textIfAny adds a text, or null if s is empty.
func (e *encoder) textIfAny(col int, s string) { e.text(col, s, s != "") }

// add adds a value of a row to a leaf, or null if valid is false.
func (e *encoder) add(leaf int, v pq.Value, def int, valid bool) {
	switch {
	case !valid:
		v, def = pq.Value{}, 0
	case leaf < numScalars && !scalars[leaf].has(optional):
		def = 0
	}
	e.values[leaf] = append(e.values[leaf], v.Level(0, def, leaf))
}

func (e *encoder) str(s string) pq.Value {
	return e.bytes(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// bytes returns a value with a copy of b, because the entry is soon invalid.
func (e *encoder) bytes(b []byte) pq.Value {
	// If texts grows, it moves, but values that refer to the old memory remain valid.
	from := len(e.texts)
	e.texts = append(e.texts, b...)
	return pq.ByteArrayValue(e.texts[from:len(e.texts):len(e.texts)])
}

// flush passes the batch to write, and gets another batch.
func (e *encoder) flush() error {
	e.full <- e.batch
	e.batch = <-e.free
	return e.err
}

// isHex reports whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
