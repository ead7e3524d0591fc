package parquet

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"

	pq "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
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
	// maxDepth is the maximum nesting depth of the metadata.
	maxDepth = 16
)

// The maximum number of rows is freeRows, and rowsPerByte for each byte of the file. Without a limit, a small file
// could have any number of rows: rows with equal values need no bytes in it, but do need memory and space in the
// output.
const (
	freeRows    = 1 << 18
	rowsPerByte = 64
)

// A file is an open file.
type file struct {
	*pq.File

	r      io.ReaderAt
	size   int64
	end    int64 // offset of the footer
	leaves []*leaf
}

// open opens a file, and checks its metadata, which is the footer.
func open(r io.ReaderAt, size int64) (*file, error) {
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
	f := &file{r: r, size: size, end: size - tailSize - length}
	if f.end < int64(len(magic)) {
		return nil, &input.Error{Offset: size - tailSize, Err: problem(errCorrupt, "the footer is longer than the file")}
	}
	footer := make([]byte, length)
	if _, err := r.ReadAt(footer, f.end); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := f.parse(footer); err != nil {
		return nil, &input.Error{Offset: f.end, Err: err}
	}
	return f, f.checkGroups()
}

// parse checks the footer, and lets the library decode it.
func (f *file) parse(footer []byte) (err error) {
	defer convertError(&err)
	c := claims{Reader: new(thrift.CompactProtocol).NewReaderFromBytes(footer), size: len(footer)}
	err = c.check(thrift.STRUCT, 0, 0)
	if err != nil {
		return err
	}
	f.File, err = pq.OpenFile(f.r, f.size, pq.SkipPageIndex(true), pq.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	f.leaves = leavesOf(f.Root(), 0, nil)
	return nil
}

// claims reads metadata to check what it claims, before the library decodes it. The library allocates memory for as
// many items as a list claims, and recurses as deep as structures nest.
type claims struct {
	thrift.Reader

	size  int // size of the metadata in bytes
	items int // number of items in all lists so far
}

// check checks the next value, which is the field id of a structure.
func (c *claims) check(kind thrift.Type, id int16, depth int) (err error) {
	if depth == maxDepth {
		return problem(errCorrupt, "the metadata nests too deep")
	}
	switch kind {
	case thrift.TRUE, thrift.FALSE:
	case thrift.I8:
		_, err = c.ReadInt8()
	case thrift.I16, thrift.I32, thrift.I64:
		_, err = c.ReadInt64()
	case thrift.DOUBLE:
		_, err = c.ReadFloat64()
	case thrift.BINARY:
		_, err = c.ReadBytes()
	case thrift.LIST:
		return c.checkList(id, depth)
	case thrift.STRUCT:
		for id = 0; ; {
			f, err := c.ReadField()
			if err != nil || f.Type == thrift.STOP {
				return err
			}
			if f.Delta {
				f.ID += id
			}
			id = f.ID
			if err := c.check(f.Type, id, depth+1); err != nil {
				return err
			}
		}
	default:
		err = problem(errCorrupt, "the metadata has a value of an unknown type")
	}
	return err
}

func (c *claims) checkList(id int16, depth int) error {
	list, err := c.ReadList()
	if err != nil {
		return err
	}
	c.items += int(list.Size)
	const schema = 2 // the id of the schema in the outermost structure
	if c.items > c.size || depth == 1 && id == schema && list.Size > maxElements || list.Type <= thrift.FALSE && list.Size > 0 {
		return problem(errCorrupt, "the metadata claims too many columns, or more items than it has bytes")
	}
	for range list.Size {
		if err := c.check(list.Type, 0, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// checkGroups checks the numbers of rows, and where the values are.
func (f *file) checkGroups() error {
	groups, rows := f.Metadata().RowGroups, int64(0)
	for i := range groups {
		g := &groups[i]
		unit := input.Unit("row group", int64(i))
		if g.NumRows > freeRows+rowsPerByte*f.size-rows {
			return &input.Error{Offset: f.end, Unit: unit, Err: problem(errUnsupported, "more rows than a file of this size can hold")}
		}
		rows += g.NumRows
		for j := range g.Columns {
			m := &g.Columns[j].MetaData
			from, err := firstPage(m), error(nil)
			switch {
			case from < int64(len(magic)) || m.TotalCompressedSize < 0 || m.TotalCompressedSize > f.end-from:
				err = problem(errCorrupt, "the values are outside of the data")
			case m.Codec != groups[0].Columns[j].MetaData.Codec: // the library uses that of the first row group
				err = problem(errUnsupported, "another compression than in the first row group")
			default:
				continue
			}
			return &input.Error{Offset: f.end, Unit: unit, Field: field(strings.Join(m.PathInSchema, ".")), Err: err}
		}
	}
	return nil
}

// firstPage returns the offset at which the pages of a column begin.
func firstPage(m *meta.ColumnMetaData) int64 {
	if m.DictionaryPageOffset != 0 {
		return m.DictionaryPageOffset
	}
	return m.DataPageOffset
}
