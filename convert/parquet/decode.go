package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	pq "github.com/parquet-go/parquet-go"
	meta "github.com/parquet-go/parquet-go/format"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
)

// Decode reads the Parquet table r and writes its entries to w, as the package documentation describes. A Parquet
// file is read from its end: if r is not an [input.File], Decode copies the content to memory, or to a temporary
// file in os.TempDir().
func Decode(ctx context.Context, r io.Reader, w *format.Writer) (err error) {
	in, err := input.Open(ctx, r, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	if err := in.Err(); err != nil {
		return err
	}
	f, err := open(in, in.Size())
	if err != nil {
		return err
	}
	d := decoder{file: f, w: w}
	if err := d.bind(); err != nil {
		return err
	}
	for _, g := range f.RowGroups() {
		if err := d.readGroup(ctx, g); err != nil {
			return err
		}
	}
	if len(d.ids) == 0 {
		return d.root()
	}
	return nil
}

// attributeSize is the memory in bytes of an attribute without its texts.
const attributeSize = 48

// A decoder converts rows to entries.
type decoder struct {
	file *file
	w    *format.Writer

	// The leaf of each column; nil if the column is missing.
	scalars [numScalars]*leaf
	keys    [numMaps]*leaf
	values  [numMaps]*leaf

	group   int64    // number of the current row group
	row     int64    // number of the current row in the group
	ids     []uint32 // for each entry in the output, the id of its row
	entry   format.TraceEntry
	attrs   [numMaps][]format.Attribute
	texts   [numScalars]string
	numbers [numScalars]int64
	valid   [numScalars]bool
	rest    format.TraceEntry
	length  int   // total length of the texts of the current row
	total   int64 // total length of the texts of all rows
}

// The maximum total length of all texts is textsFloor, and textsFactor for each byte of the file.
const (
	textsFloor  = 256 << 20
	textsFactor = 1024
)

// bind assigns the columns of the file to the columns of the table.
func (d *decoder) bind() error {
	for _, l := range d.file.leaves {
		place, want := d.fieldOf(l)
		if place == nil || *place != nil {
			return d.foreign(l.name, "unknown or duplicate column")
		}
		if l.kind != want && (want != meta.Int64 || l.kind != meta.Int32) {
			return d.foreign(l.name, fmt.Sprint("expected type ", want, ", found ", l.kind))
		}
		*place = l
	}
	for _, c := range []int{colID, colParent, colName} {
		if d.scalars[c] == nil {
			return d.foreign(scalars[c].name, "the column is missing")
		}
	}
	for i := range maps {
		if k, v := d.keys[i], d.values[i]; (k == nil) != (v == nil) || k != nil && k.elemDef != v.elemDef {
			return d.foreign(maps[i].name, "not a map of keys to values")
		}
	}
	return nil
}

// fieldOf returns the field for the leaf of a column, and the expected type of the column. It returns nil for an
// unknown column.
func (d *decoder) fieldOf(l *leaf) (**leaf, meta.Type) {
	path := l.Path()
	if len(path) == 1 && l.MaxRepetitionLevel() == 0 {
		for i := range scalars {
			if scalars[i].name == path[0] {
				return &d.scalars[i], scalars[i].physical
			}
		}
	}
	if len(path) == 3 && l.MaxRepetitionLevel() == 1 {
		for i := range maps {
			switch {
			case maps[i].name != path[0]:
			case path[2] == "key":
				return &d.keys[i], meta.ByteArray
			case path[2] == "value":
				return &d.values[i], maps[i].physical
			}
		}
	}
	return nil, 0
}

func (d *decoder) foreign(column, detail string) error {
	return &input.Error{Offset: d.file.end, Field: field(column), Err: problem(errColumns, detail)}
}

// readGroup reads a row group.
func (d *decoder) readGroup(ctx context.Context, g pq.RowGroup) error {
	for i, c := range g.ColumnChunks() {
		d.file.leaves[i].open(d.file.r, c, &d.file.Metadata().RowGroups[d.group].Columns[i].MetaData)
	}
	for i := range d.keys {
		for _, l := range [2]*leaf{d.keys[i], d.values[i]} {
			if l == nil {
				continue
			}
			if err := d.first(l, g.NumRows() > 0); err != nil {
				return err
			}
		}
	}
	for d.row = range g.NumRows() {
		if d.row%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := d.readRow(); err != nil {
			return err
		}
	}
	d.row = 0
	d.group++
	return nil
}

// first reads the first value of a leaf of a map. These leaves are read one value ahead, because only the next
// value shows whether a row has ended.
func (d *decoder) first(l *leaf, want bool) error {
	ok, err := l.next()
	if err == nil && want && (!ok || l.value.RepetitionLevel() != 0) {
		err = errEarly
	}
	return d.at(l, err)
}

// at adds the position to an error that occurred while reading l.
func (d *decoder) at(l *leaf, err error) error {
	if _, placed := errors.AsType[*input.Error](err); err == nil || placed {
		return err
	}
	return &input.Error{Offset: l.begin, Unit: d.unit(), Field: field(l.name), Err: err}
}

func (d *decoder) unit() string { return fmt.Sprintf("row group %d, row %d", d.group, d.row) }

// bad returns the error for an invalid value.
func (d *decoder) bad(column int, detail string) error {
	return d.wrong(column, problem(errValue, detail))
}

func (d *decoder) wrong(column int, err error) error {
	e := &input.Error{Unit: d.unit(), Field: field(scalars[column].name), Err: err}
	if l := d.scalars[column]; l != nil {
		e.Offset = l.begin
	}
	return e
}

// excess returns the error for a row that is too large, or with which the file exceeds a limit.
func (d *decoder) excess(err error) error {
	return &input.Error{Offset: d.file.end, Unit: d.unit(), Err: err}
}

// readRow reads a row and writes an entry.
func (d *decoder) readRow() error {
	d.length = 0
	for i, l := range d.scalars {
		d.texts[i], d.numbers[i], d.valid[i] = "", 0, false
		if l == nil {
			continue
		}
		if err := d.at(l, d.scalar(i, l)); err != nil {
			return err
		}
	}
	for i := range d.attrs {
		d.attrs[i] = d.attrs[i][:0]
		if d.keys[i] == nil {
			continue
		}
		if err := d.mapping(i); err != nil {
			return err
		}
	}
	id := d.numbers[colID]
	switch {
	case !d.valid[colID] || id < 0 || id > math.MaxUint32:
		return d.bad(colID, "not an entry id")
	case len(d.ids) > 0 && uint32(id) <= d.ids[len(d.ids)-1]:
		return d.wrong(colID, errOrder)
	}
	if id > 0 && len(d.ids) == 0 {
		if err := d.root(); err != nil {
			return err
		}
	}
	if d.length > format.DefaultMaxEntrySize {
		return d.excess(format.ErrTooLarge)
	}
	// A text of a dictionary is once in the file and may be in every row.
	d.total += int64(d.length)
	if d.total > textsFloor+textsFactor*d.file.size {
		return d.excess(problem(format.ErrTooLarge, "more text than a file of this size can hold"))
	}
	if err := d.setEntry(uint32(id)); err != nil {
		return err
	}
	if _, err := d.w.Write(&d.entry); err != nil {
		return err
	}
	d.ids = append(d.ids, uint32(id))
	return nil
}

// root writes the root if the table has none.
func (d *decoder) root() error {
	d.ids = append(d.ids, 0)
	_, err := d.w.Write(format.Root())
	return err
}

// scalar reads the value of column i, which is not a map.
func (d *decoder) scalar(i int, l *leaf) error {
	ok, err := l.next()
	if err != nil {
		return err
	}
	if !ok {
		return errEarly
	}
	if l.value.IsNull() {
		return nil
	}
	d.valid[i] = true
	if scalars[i].physical == meta.Int64 {
		n := l.int64()
		d.numbers[i] = n * l.unit
		if n != d.numbers[i]/l.unit {
			return d.bad(i, "the time is too large")
		}
		return nil
	}
	b := l.value.ByteArray()
	d.texts[i] = textOf(b)
	d.length += len(b)
	if scalars[i].has(text) {
		d.texts[i] = wire.ValidText(d.texts[i])
	}
	return nil
}

// textOf returns b as a string, without a copy.
func textOf(b []byte) string { v := format.BytesValue(b); return v.Text() }

// mapping reads the attributes in map i of a row.
func (d *decoder) mapping(i int) error {
	k, v := d.keys[i], d.values[i]
	if k.ended {
		return d.at(k, errEarly)
	}
	for n := 0; ; n++ {
		if !k.hasElement() {
			// The map is empty, so there must be no more elements.
			if v.hasElement() || n > 0 {
				return d.at(v, errPairs)
			}
		} else if err := d.element(i, k, v); err != nil {
			return err
		}
		kok, err := k.next()
		if err != nil {
			return d.at(k, err)
		}
		vok, err := v.next()
		if err != nil {
			return d.at(v, err)
		}
		if kok != vok || kok && k.value.RepetitionLevel() != v.value.RepetitionLevel() {
			return d.at(v, errPairs)
		}
		if !kok || k.value.RepetitionLevel() == 0 {
			return nil
		}
	}
}

// element reads one attribute of map i.
func (d *decoder) element(i int, k, v *leaf) error {
	if !v.hasElement() {
		return d.at(v, errPairs)
	}
	if k.value.IsNull() || v.value.IsNull() {
		return d.at(v, problem(errValue, "an attribute is null"))
	}
	a := format.Attribute{Name: wire.ValidText(textOf(k.value.ByteArray()))}
	switch i {
	case mapInt:
		a.Value = format.I64Value(v.int64())
	case mapFloat:
		a.Value = format.FloatValue(v.value.Double())
	case mapBool:
		a.Value = format.BoolValue(v.value.Boolean())
	default:
		a.Value = format.BytesValue(v.value.ByteArray())
		if i != mapBytes && wire.IsValid(a.Value.Text()) {
			a.Value = format.StringValue(a.Value.Text())
		}
	}
	d.length += attributeSize + len(a.Name) + len(a.Value.Text())
	if d.length > format.DefaultMaxEntrySize {
		return d.at(v, format.ErrTooLarge)
	}
	d.attrs[i] = append(d.attrs[i], a)
	return nil
}

func (d *decoder) optional(column int) format.Optional[string] {
	return format.Optional[string]{Value: d.texts[column], Valid: d.valid[column]}
}

// setEntry sets the entry from the current row.
func (d *decoder) setEntry(id uint32) error {
	e := &d.entry
	*e = format.TraceEntry{Attributes: e.Attributes[:0]}
	m := &e.Metadata
	m.Name, m.Target = d.texts[colName], d.texts[colTarget]
	e.Message = d.optional(colMessage)
	m.ModulePath, m.File = d.optional(colModulePath), d.optional(colFile)
	if line := d.numbers[colLine]; line < 0 || line > math.MaxUint32 {
		return d.bad(colLine, "not a line number")
	}
	m.Line = format.Optional[uint32]{Value: uint32(d.numbers[colLine]), Valid: d.valid[colLine]}
	m.Level = format.LevelInfo
	if d.valid[colLevel] {
		level, ok := levels[d.texts[colLevel]]
		if !ok {
			return d.bad(colLevel, "unknown level")
		}
		m.Level = level
	}
	parent := d.numbers[colParent]
	if d.valid[colStoredParent] {
		parent = d.numbers[colStoredParent]
	}
	if id != 0 && parent > 0 && parent < int64(id) {
		// If the table does not have the parent, for example because of a query, the root becomes the parent.
		if at, ok := slices.BinarySearch(d.ids, uint32(parent)); ok {
			e.Parent = uint32(at)
		}
	}
	return d.attributes()
}

var levels = map[string]format.Level{
	"TRACE": format.LevelTrace, "DEBUG": format.LevelDebug, "INFO": format.LevelInfo, "WARN": format.LevelWarn, "ERROR": format.LevelError,
}
