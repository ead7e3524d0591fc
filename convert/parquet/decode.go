package parquet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/entrace-go/entrace/format"
)

// DecodeOptions change how [Decode] works.
type DecodeOptions struct {
	// TempDir is the folder for a copy of an input that is not an [io.ReaderAt] and
	// an [io.Seeker], since Parquet is read from its end. The default is os.TempDir.
	TempDir string
}

// Decode reads the Parquet table r and writes its entries to w, which the
// documentation of the package describes. A nil o means defaults. An r that is an
// [io.ReaderAt] and an [io.Seeker] is read from where it stands.
//
// Of what is wrong with the input the error is an [*Error]. It is
// [format.ErrTruncated] for a file that was cut off: that has no footer, and so not
// one entry that can be read.
func Decode(ctx context.Context, r io.Reader, w *format.Writer, o *DecodeOptions) (err error) {
	if o == nil {
		o = &DecodeOptions{}
	}
	in, err := openInput(ctx, r, o.TempDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	f, err := readFooter(in.r, in.size)
	if err != nil {
		return err
	}
	d := decoder{in: in, footer: f, w: w}
	if err := d.bind(); err != nil {
		return err
	}
	for range f.groups {
		if err := d.group(ctx); err != nil {
			return err
		}
	}
	if len(d.ids) == 0 {
		return d.root()
	}
	return nil
}

// How many rows a file may have. Runs and differences take no bytes for rows that
// are all alike, but memory and room in the output.
const (
	freeRows    = 1 << 18
	rowsPerByte = 64
)

// attributeSize is what an attribute takes in memory beside its texts.
const attributeSize = 48

// A decoder makes entries of rows.
type decoder struct {
	in     *input
	footer *footer
	w      *format.Writer

	// Of the columns that the file has not, the leaves are nil.
	scalars [numScalars]*leaf
	keys    [numMaps]*leaf
	values  [numMaps]*leaf
	all     []*leaf // by their place in the file

	resident int64
	rows     int64    // that were written
	declared int64    // rows, by the groups so far
	ids      []uint32 // of the rows, by the entries that they became
	entry    format.TraceEntry
	attrs    [numMaps][]format.Attribute
	texts    [numScalars]string
	numbers  [numScalars]int64
	valid    [numScalars]bool
	rest     format.TraceEntry
	size     int   // of the texts of the row
	total    int64 // of those of all rows
}

// How many bytes of texts there may be in all, besides those for each byte of the
// file.
const (
	textsFloor  = 256 << 20
	textsFactor = 1024
)

// bind finds the columns of the table among those of the file.
func (d *decoder) bind() error {
	for i := range d.footer.leaves {
		s := &d.footer.leaves[i]
		l := &leaf{leafSchema: *s, column: strings.Join(s.path, "."), resident: &d.resident}
		d.all = append(d.all, l)
		place, want := d.place(s)
		if place == nil || *place != nil {
			return d.foreign(l.column, "it is none of the table's, or comes twice")
		}
		if s.physical != want && (want != typeInt64 || s.physical != typeInt32) {
			return d.foreign(l.column, fmt.Sprint("it is of type ", s.physical, ", not ", want))
		}
		*place = l
	}
	for _, c := range []int{colID, colParent, colName} {
		if d.scalars[c] == nil {
			return d.foreign(scalars[c].name, "it is not there")
		}
	}
	for i := range maps {
		if k, v := d.keys[i], d.values[i]; (k == nil) != (v == nil) || k != nil && k.elemDef != v.elemDef {
			return d.foreign(maps[i].name, "it is no map")
		}
	}
	return nil
}

// place returns where the leaf of a column goes, and its type; nil if there is no
// such column.
func (d *decoder) place(s *leafSchema) (**leaf, int32) {
	if len(s.path) == 1 && s.maxRep == 0 {
		for i := range scalars {
			if scalars[i].name == s.path[0] {
				return &d.scalars[i], scalars[i].physical
			}
		}
	}
	if len(s.path) == 3 && s.maxRep == 1 {
		for i := range maps {
			switch {
			case maps[i].name != s.path[0]:
			case s.path[2] == "key":
				return &d.keys[i], typeByteArray
			case s.path[2] == "value":
				return &d.values[i], maps[i].physical
			}
		}
	}
	return nil, 0
}

func (d *decoder) foreign(column, detail string) error {
	return &Error{Offset: d.footer.off, Row: -1, Column: column, Detail: detail, Err: ErrColumns}
}

// group reads a row group.
func (d *decoder) group(ctx context.Context) error {
	rows, chunks, err := d.footer.next()
	if err != nil {
		return err
	}
	if d.declared += rows; d.declared > freeRows+rowsPerByte*d.in.size {
		return &Error{Offset: d.footer.off, Row: -1, Err: ErrUnsupported, Detail: "more rows than a file of that size can say something with"}
	}
	for i, l := range d.all {
		l.open(d.in.r, &chunks[i])
	}
	for i := range d.keys {
		for _, l := range [2]*leaf{d.keys[i], d.values[i]} {
			if l == nil {
				continue
			}
			if err := d.first(l, rows > 0); err != nil {
				return err
			}
		}
	}
	for range rows {
		if d.rows%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := d.row(); err != nil {
			return err
		}
	}
	return nil
}

// first takes the first value of a leaf of a map; those are read one ahead, to see
// where a row ends.
func (d *decoder) first(l *leaf, want bool) error {
	l.rep = 0
	ok, err := l.next()
	if err == nil && want && (!ok || l.rep != 0) {
		err = problem(ErrCorrupt, "the values end early")
	}
	return d.at(l, err)
}

// at puts the place into an error from reading a leaf.
func (d *decoder) at(l *leaf, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Offset, e.Row, e.Column = l.page, d.rows, l.column
		return e
	}
	if err != nil {
		return &Error{Offset: l.page, Row: d.rows, Column: l.column, Err: err}
	}
	return nil
}

// bad is at for a value that no entry can have.
func (d *decoder) bad(column int, detail string) error {
	e := &Error{Row: d.rows, Column: scalars[column].name, Detail: detail, Err: ErrValue}
	if l := d.scalars[column]; l != nil {
		e.Offset = l.page
	}
	return e
}

// row reads a row and writes its entry.
func (d *decoder) row() error {
	d.size = 0
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
		return d.bad(colID, "it is no id")
	case len(d.ids) > 0 && uint32(id) <= d.ids[len(d.ids)-1]:
		e := d.bad(colID, "")
		e.(*Error).Err = ErrOrder //nolint:errorlint,forcetypeassert // bad made it
		return e
	}
	if id > 0 && len(d.ids) == 0 {
		if err := d.root(); err != nil {
			return err
		}
	}
	if d.size > format.DefaultMaxEntrySize {
		return &Error{Offset: d.footer.off, Row: d.rows, Err: format.ErrTooLarge}
	}
	// A text of a dictionary may be in every row.
	if d.total += int64(d.size); d.total > textsFloor+textsFactor*d.in.size {
		return &Error{Offset: d.footer.off, Row: d.rows, Err: format.ErrTooLarge, Detail: "more text than a file of that size may say"}
	}
	if err := d.make(uint32(id)); err != nil {
		return err
	}
	if _, err := d.w.Write(&d.entry); err != nil {
		return err
	}
	d.ids = append(d.ids, uint32(id))
	d.rows++
	return nil
}

// root writes the root of a table that has none.
func (d *decoder) root() error {
	d.ids = append(d.ids, 0)
	_, err := d.w.Write(format.Root())
	return err
}

// scalar reads the value of a row in a column that is no map.
func (d *decoder) scalar(i int, l *leaf) error {
	ok, err := l.next()
	if err != nil {
		return err
	}
	if !ok {
		return problem(ErrCorrupt, "the values end early")
	}
	if l.isNull() {
		return nil
	}
	d.valid[i] = true
	if scalars[i].physical == typeInt64 {
		d.numbers[i], err = l.int()
		return err
	}
	b, err := l.bytes()
	d.texts[i] = textOf(b)
	d.size += len(b)
	if scalars[i].text && !isText(d.texts[i]) {
		d.texts[i] = string([]rune(d.texts[i]))
	}
	return err
}

// textOf returns b as a string without a copy.
func textOf(b []byte) string { v := format.BytesValue(b); return v.Text() }

// mapping reads the attributes of a row in a map.
func (d *decoder) mapping(i int) error {
	k, v := d.keys[i], d.values[i]
	if k.def < 0 {
		return d.at(k, problem(ErrCorrupt, "the values end early"))
	}
	for n := 0; ; n++ {
		if k.def < k.elemDef {
			// None, and so the only one.
			if v.def >= v.elemDef || n > 0 {
				return d.at(v, problem(ErrCorrupt, "keys and values differ"))
			}
		} else if err := d.element(i, k, v); err != nil {
			return err
		}
		k.rep, v.rep = 0, 0
		kok, err := k.next()
		if err != nil {
			return d.at(k, err)
		}
		vok, err := v.next()
		if err != nil {
			return d.at(v, err)
		}
		if kok != vok || k.rep != v.rep {
			return d.at(v, problem(ErrCorrupt, "keys and values differ"))
		}
		if !kok {
			// The last row of the group: what would come next is none.
			k.def, v.def = -1, -1
			return nil
		}
		if k.rep == 0 {
			return nil
		}
	}
}

// element reads an attribute.
func (d *decoder) element(i int, k, v *leaf) error {
	if v.def < v.elemDef {
		return d.at(v, problem(ErrCorrupt, "keys and values differ"))
	}
	if k.isNull() || v.isNull() {
		return d.at(v, problem(ErrValue, "an attribute is null"))
	}
	key, err := k.bytes()
	if err != nil {
		return d.at(k, err)
	}
	a := format.Attribute{Name: textOf(key)}
	if !isText(a.Name) {
		a.Name = string([]rune(a.Name))
	}
	switch i {
	case mapInt:
		var n int64
		n, err = v.int()
		a.Value = format.I64Value(n)
	case mapFloat:
		var f float64
		f, err = v.float()
		a.Value = format.FloatValue(f)
	case mapBool:
		var b bool
		b, err = v.bool()
		a.Value = format.BoolValue(b)
	case mapBytes:
		var b []byte
		b, err = v.bytes()
		a.Value = format.BytesValue(b)
	default:
		var b []byte
		b, err = v.bytes()
		if a.Value = format.BytesValue(b); isText(a.Value.Text()) {
			a.Value = format.StringValue(a.Value.Text())
		}
	}
	if err != nil {
		return d.at(v, err)
	}
	if d.size += attributeSize + len(a.Name) + len(a.Value.Text()); d.size > format.DefaultMaxEntrySize {
		return d.at(v, format.ErrTooLarge)
	}
	d.attrs[i] = append(d.attrs[i], a)
	return nil
}

// make makes the entry of the row that was read.
func (d *decoder) make(id uint32) error {
	e := &d.entry
	*e = format.TraceEntry{Attributes: e.Attributes[:0]}
	m := &e.Metadata
	m.Name, m.Target = d.texts[colName], d.texts[colTarget]
	e.Message = format.Optional[string]{Value: d.texts[colMessage], Valid: d.valid[colMessage]}
	m.ModulePath = format.Optional[string]{Value: d.texts[colModulePath], Valid: d.valid[colModulePath]}
	m.File = format.Optional[string]{Value: d.texts[colFile], Valid: d.valid[colFile]}
	if line := d.numbers[colLine]; line < 0 || line > math.MaxUint32 {
		return d.bad(colLine, "it is no line")
	}
	m.Line = format.Optional[uint32]{Value: uint32(d.numbers[colLine]), Valid: d.valid[colLine]}
	m.Level = format.LevelInfo
	if d.valid[colLevel] {
		level, ok := levels[d.texts[colLevel]]
		if !ok {
			return d.bad(colLevel, "it is no level")
		}
		m.Level = level
	}
	parent := d.numbers[colParent]
	if d.valid[colStoredParent] {
		parent = d.numbers[colStoredParent]
	}
	if id != 0 && parent > 0 && parent < int64(id) {
		// One that was left out, as by a query, is the root's.
		if at, ok := slices.BinarySearch(d.ids, uint32(parent)); ok {
			e.Parent = uint32(at)
		}
	}
	return d.attributes()
}

var levels = map[string]format.Level{
	"TRACE": format.LevelTrace, "DEBUG": format.LevelDebug, "INFO": format.LevelInfo, "WARN": format.LevelWarn, "ERROR": format.LevelError,
}
