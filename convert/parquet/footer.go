package parquet

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	meta "github.com/parquet-go/parquet-go/format"

	"github.com/entrace-go/entrace/convert/internal/input"
	"github.com/entrace-go/entrace/format"
)

const (
	magic = "PAR1"
	// tailSize is the size of the end of a file, after the metadata: the length of the metadata, and the magic.
	tailSize = 8
	// maxElements is the maximum number of elements of a schema. The schema of a table of entries has about fifty.
	maxElements = 1024
	// maxRows is the maximum number of rows of a row group, and of values of a chunk.
	maxRows = 1 << 40
)

// A footer is the metadata at the end of a file.
type footer struct {
	off    int64  // offset of the footer in the file
	b      []byte // the bytes of the footer
	leaves []leafSchema
	groups uint64 // number of row groups
	at     int    // offset in b of the next row group
}

// A leafSchema describes a leaf of the schema, which is a column with values.
type leafSchema struct {
	path     []string
	physical meta.Type
	unit     int64 // for a time: its unit in nanoseconds; otherwise 1
	maxRep   int
	maxDef   int
	elemDef  int // if maxRep is 1: the least definition level of an element of the map
}

// readFooter reads and checks the metadata of a file. It does not decode the row groups.
func readFooter(r io.ReaderAt, size int64) (*footer, error) {
	var head [len(magic)]byte
	n, err := r.ReadAt(head[:min(size, int64(len(head)))], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if size == 0 || string(head[:n]) != magic[:n] {
		if string(head[:n]) == "PARE" {
			return nil, &input.Error{Err: problem(errUnsupported, "encryption")}
		}
		return nil, &input.Error{Err: errNotParquet}
	}
	cut := &input.Error{Offset: size, Err: problem(format.ErrTruncated, "the footer is missing, without which nothing can be read")}
	if size < int64(len(magic))+tailSize {
		return nil, cut
	}
	var tail [tailSize]byte
	if _, err := r.ReadAt(tail[:], size-tailSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if string(tail[4:]) != magic {
		return nil, cut
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length > min(size-tailSize-int64(len(magic)), maxPage) {
		return nil, &input.Error{Offset: size - tailSize, Err: problem(errCorrupt, "the footer is longer than the file, or than 128 MiB")}
	}
	f := &footer{off: size - tailSize - length, b: make([]byte, length)}
	if _, err := r.ReadAt(f.b, f.off); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return f, f.parse()
}

// parse decodes the metadata except for the row groups.
func (f *footer) parse() error {
	w := walker{b: f.b}
	var elements []meta.SchemaElement
	var err error
	found := false
	for id := int16(0); !w.failed; {
		kind := w.next(&id)
		if kind == kindStop {
			break
		}
		from := w.off
		if id == 4 && kind == kindList {
			found = true
			if kind, f.groups = w.list(); f.groups > 0 && kind != kindStruct {
				w.fail()
			}
			f.at = w.off
			for n := f.groups; n > 0 && !w.failed; n-- {
				w.items = 0
				w.pass(kindStruct, 1)
			}
			continue
		}
		w.items = 0
		w.pass(kind, 1)
		if id == 2 && err == nil && !w.failed {
			err = unmarshal(f.b[from:w.off], &elements)
		}
	}
	if w.failed || err != nil || !found || len(elements) == 0 || len(elements) > maxElements {
		return f.damage(w.off, "", "the metadata is invalid")
	}
	return f.schema(elements)
}

func (f *footer) damage(at int, unit, detail string) *input.Error {
	return &input.Error{Offset: f.off + int64(at), Unit: unit, Err: problem(errCorrupt, detail)}
}

// schema finds the leaves of a schema. The elements are in depth-first order.
func (f *footer) schema(elements []meta.SchemaElement) error {
	type level struct {
		left int32
		leaf leafSchema
	}
	stack := []level{{left: elements[0].NumChildren.V}}
	for i := range elements[1:] {
		e := &elements[1+i]
		for len(stack) > 0 && stack[len(stack)-1].left <= 0 {
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 || len(stack) > maxDepth {
			return f.damage(0, "", "the schema is not a tree, or is too deep")
		}
		top := &stack[len(stack)-1]
		top.left--
		leaf := top.leaf
		leaf.path = append(slices.Clip(leaf.path), e.Name)
		if e.RepetitionType.V != meta.Required {
			leaf.maxDef++
		}
		if e.RepetitionType.V == meta.Repeated {
			leaf.maxRep++
			leaf.elemDef = leaf.maxDef
		}
		if e.NumChildren.V > 0 {
			stack = append(stack, level{e.NumChildren.V, leaf})
			continue
		}
		if leaf.physical = -1; e.Type.Valid {
			leaf.physical = e.Type.V
		}
		leaf.unit = unitOf(e)
		f.leaves = append(f.leaves, leaf)
	}
	for _, l := range stack {
		if l.left > 0 {
			return f.damage(0, "", "the schema ends early")
		}
	}
	return nil
}

// next decodes the next row group. The parameter unit is its name in errors.
func (f *footer) next(unit string) (*meta.RowGroup, error) {
	w := walker{b: f.b, off: f.at}
	w.pass(kindStruct, 1)
	g := new(meta.RowGroup)
	if err := unmarshal(f.b[f.at:w.off], g); err != nil || g.NumRows < 0 || g.NumRows > maxRows {
		return nil, f.damage(f.at, unit, "the metadata is invalid")
	}
	if len(g.Columns) != len(f.leaves) {
		return nil, f.damage(f.at, unit, "found "+strconv.Itoa(len(g.Columns))+" columns, but the schema has "+strconv.Itoa(len(f.leaves)))
	}
	for i := range g.Columns {
		m := &g.Columns[i].MetaData
		if m.DictionaryPageOffset > 0 && m.DictionaryPageOffset < m.DataPageOffset {
			m.DataPageOffset = m.DictionaryPageOffset
		}
		if m.DataPageOffset < int64(len(magic)) || m.TotalCompressedSize < 0 || m.TotalCompressedSize > f.off-m.DataPageOffset ||
			m.NumValues < 0 || m.NumValues > maxRows || m.Type != f.leaves[i].physical {
			err := f.damage(f.at, unit, "the values are outside of the data, or of another type than in the schema")
			err.Field = field(strings.Join(f.leaves[i].path, "."))
			return nil, err
		}
	}
	f.at = w.off
	return g, nil
}

// unitOf returns the unit in nanoseconds of a column of times, or 1 for another column.
func unitOf(e *meta.SchemaElement) int64 {
	if t, ok := e.LogicalType.Value.(*meta.TimestampType); ok && t.Unit.Value != nil {
		return int64(t.Unit.Value.Duration())
	}
	return 1
}
