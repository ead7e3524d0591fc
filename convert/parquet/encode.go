package parquet

import (
	"context"
	"io"
	"slices"
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

// The sizes of the parts of a file.
const (
	batchRows     = 512
	rowGroupRows  = 64 << 10
	rowGroupBytes = 32 << 20 // size of the texts, before compression
	dictBytes     = 1 << 20
	pageBytes     = 256 << 10
)

// Encode writes the entries of v to w as a Parquet table, as the package documentation describes. The error is an
// error of v, w or ctx. It needs memory for one group of rows.
func Encode(ctx context.Context, w io.Writer, v *view.View) error {
	return EncodeRows(ctx, w, v, func(view.Row) bool { return true })
}

// EncodeRows is like [Encode], but writes only the rows for which keep returns true. Ids and parents are those in a
// table of all rows of v.
func EncodeRows(ctx context.Context, w io.Writer, v *view.View, keep func(view.Row) bool) error {
	out := pq.NewGenericWriter[any](w, schema(),
		pq.Compression(&zstd.Codec{Level: zstd.SpeedDefault}), pq.DataPageVersion(1), pq.PageBufferSize(pageBytes),
		pq.DictionaryMaxBytes(dictBytes), pq.CreatedBy("entrace", "", ""),
		pq.SkipPageBounds("message"), pq.SkipPageBounds("attribute_rest"),
		pq.KeyValueMetadata("entrace.table", "1"))
	e := encoder{
		v: v, out: out, keep: keep, read: v.NewReader(), one: len(v.Files()) == 1,
		batch: new(batch), full: make(chan *batch), free: make(chan *batch, 1),
	}
	e.free <- new(batch)
	wait := e.write()
	defer func() { _ = wait() }() // in case reading panics
	err := v.Stored().Each(ctx, e.entry)
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
				for b := range e.full { // so that flush does not block
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

// writeBatches passes batches to the Parquet library, and ends a row group when it is large enough. After an error
// it drops the other batches.
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

	order []byte
	hexes []byte // buffer for ids in hex
	rest  []format.Attribute
	maps  [numMaps]int // for each map, the number of attributes of the row in it
}

// entry adds row r. The entry raw is the row's entry in the file.
func (e *encoder) entry(r view.Row, raw *format.TraceEntry) error {
	if !e.keep(r) || raw.IsAddedEnd() {
		return nil
	}
	entry := raw
	if e.v.Stored().HasEnd(r) {
		var err error
		entry, err = e.read.Entry(r)
		if err != nil {
			return err
		}
		asStored(entry, raw)
	}
	e.row(r, e.v.Stored().Below(r, raw), entry)
	e.rows++
	if e.rows == batchRows || len(e.texts) > rowGroupBytes {
		return e.flush()
	}
	return nil
}

// asStored changes the entry of a span, as the view has it, to the form in the file. It removes attributes that
// follow from the span's place in the view, and adds those that do not follow from its place in the file.
func asStored(entry, raw *format.TraceEntry) {
	if _, has := raw.Attribute(format.AttrTraceID); !has {
		entry.Attributes = slices.DeleteFunc(entry.Attributes, func(a format.Attribute) bool { return a.Name == format.AttrTraceID })
	}
	if _, has := entry.Attribute(format.AttrParentSpanID); has {
		return
	}
	for i, a := range raw.Attributes {
		if a.Name == format.AttrParentSpanID {
			i = min(i, len(entry.Attributes))
			entry.Attributes = slices.Insert(slices.Clip(entry.Attributes), i, a)
			return
		}
	}
}

// row adds row r. The row stored is the parent of r in the file.
func (e *encoder) row(r, stored view.Row, entry *format.TraceEntry) {
	role := e.v.Role(r)
	parent := e.v.Parent(r)
	e.number(colID, e.id(r), true)
	e.number(colParent, e.id(parent), true)
	e.number(colStoredParent, e.id(stored), stored != parent)
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

// attributes adds the attributes of an entry to their columns, maps or the rest.
func (e *encoder) attributes(r view.Row, role view.Role, entry *format.TraceEntry) {
	c := e.implied(r, role)
	e.order, e.rest, e.maps = e.order[:0], e.rest[:0], [numMaps]int{}
	seen := newRepeatedNames(entry.Attributes)
	for i := range entry.Attributes {
		a := &entry.Attributes[i]
		if seen.before(i) || !wire.IsValid(a.Name) {
			e.restOf(a)
			continue
		}
		if letter := c.store(a); letter != 0 {
			e.order = append(e.order, letter)
			continue
		}
		e.typed(a)
	}
	e.textIfAny(colTraceID, c.traceID)
	e.textIfAny(colSpanID, c.spanID)
	e.textIfAny(colParentSpanID, c.parent)
	e.number(colTime, c.time, c.hasTime)
	e.number(colDuration, c.duration, c.hasDuration)
	e.textIfAny(colKind, c.kind)
	e.textIfAny(colStatus, c.status)
	e.text(colOrder, wire.View(e.order), true)
	var rest []byte
	if len(e.rest) > 0 {
		rest = format.AppendTraceEntry(nil, format.V1, &format.TraceEntry{Attributes: e.rest})
	}
	e.add(colRest, e.bytes(rest), 1, len(rest) > 0)
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

// store stores an attribute in the field for its column, and returns the letter of the column. It returns 0 if the
// attribute has no column or does not fit.
func (c *own) store(a *format.Attribute) byte {
	var to *string
	var letter byte
	digits := 0 // if it is an id: its number of digits
	switch a.Name {
	case format.AttrTraceID:
		to, letter, digits = &c.traceID, inTraceID, 32
	case format.AttrSpanID:
		to, letter, digits = &c.spanID, inSpanID, 16
	case format.AttrParentSpanID:
		to, letter, digits = &c.parent, inParentSpanID, 16
	case mapping.AttrKind:
		to, letter = &c.kind, inKind
	case mapping.AttrStatusCode:
		to, letter = &c.status, inStatus
	case format.AttrTime:
		return c.takeTime(a.Value)
	case format.AttrDuration:
		if n, ok := a.Value.I64(); ok && a.Value.Kind() == format.KindU64 {
			c.duration, c.hasDuration = n, true
			return inDuration
		}
	}
	text := a.Value.Text()
	if to == nil || a.Value.Kind() != format.KindString || text == "" || digits > 0 && !isHex(text, digits) || !wire.IsValid(text) {
		return 0
	}
	*to = text
	return letter
}

func (c *own) takeTime(v format.Value) byte {
	n, ok := v.I64()
	switch {
	case v.Kind() == format.KindI64:
		c.time, c.hasTime = n, true
		return inTimeSigned
	case v.Kind() == format.KindU64 && ok:
		c.time, c.hasTime = n, true
		return inTime
	}
	return 0
}

// typed adds an attribute to the map of its kind.
func (e *encoder) typed(a *format.Attribute) {
	var letter byte
	var v pq.Value
	switch a.Value.Kind() {
	case format.KindString:
		if !wire.IsValid(a.Value.Text()) {
			e.restOf(a)
			return
		}
		letter, v = asString, e.bytes(a.Value.Bytes())
	case format.KindBytes:
		letter, v = asBytes, e.bytes(a.Value.Bytes())
	case format.KindBool:
		letter, v = asBool, pq.BooleanValue(a.Value.Bool())
	case format.KindFloat:
		letter, v = asFloat, pq.DoubleValue(a.Value.Float())
	case format.KindI64:
		n, _ := a.Value.I64()
		letter, v = asI64, pq.Int64Value(n)
	case format.KindU64:
		if n, ok := a.Value.I64(); ok {
			letter, v = asU64, pq.Int64Value(n)
		} else {
			letter, v = asBigU64, e.decimal(a.Value)
		}
	case format.KindU128:
		letter, v = asU128, e.decimal(a.Value)
	case format.KindI128:
		letter, v = asI128, e.decimal(a.Value)
	}
	e.order = append(e.order, letter)
	m := mapOf(letter)
	rep := min(e.maps[m], 1)
	e.maps[m]++
	leaf := numScalars + 2*m
	e.values[leaf] = append(e.values[leaf], e.str(a.Name).Level(rep, 1, leaf))
	e.values[leaf+1] = append(e.values[leaf+1], v.Level(rep, 1, leaf+1))
}

func (e *encoder) restOf(a *format.Attribute) {
	e.order = append(e.order, inRest)
	e.rest = append(e.rest, *a)
}

func (e *encoder) decimal(v format.Value) pq.Value {
	var b [48]byte
	return e.bytes(v.AppendDecimal(b[:0]))
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

// flush passes the batch to write, and gets another one.
func (e *encoder) flush() error {
	e.full <- e.batch
	e.batch = <-e.free
	return e.err
}

// repeatedNames finds attributes whose name already occurred in the entry. A map cannot represent them.
type repeatedNames struct {
	all  []format.Attribute
	seen map[string]int // the index at which each name first occurs; nil for few attributes
}

func newRepeatedNames(all []format.Attribute) repeatedNames {
	n := repeatedNames{all: all}
	if len(all) > 24 {
		n.seen = make(map[string]int, len(all))
		for i, a := range slices.Backward(all) {
			n.seen[a.Name] = i
		}
	}
	return n
}

// before reports whether an earlier attribute has the name of attribute i.
func (n *repeatedNames) before(i int) bool {
	if n.seen != nil {
		return n.seen[n.all[i].Name] < i
	}
	for j := range i {
		if n.all[j].Name == n.all[i].Name {
			return true
		}
	}
	return false
}

// isHex reports whether s is n lower-case hex digits.
func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}
