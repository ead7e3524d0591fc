package parquet

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/entrace-go/entrace/format"
)

const (
	magic = "PAR1"
	// tailSize is what is behind the metadata: its length and the magic.
	tailSize = 8
	// maxElements bounds the schema; that of a table of entries has some fifty.
	maxElements = 1024
)

// A footer is the metadata at the end of a file.
type footer struct {
	off    int64  // where it is in the file
	b      []byte // it
	leaves []leafSchema
	groups int // row groups
	at     int // where in b the first one that was not read is
}

// A leafSchema is a column that has values.
type leafSchema struct {
	path     []string
	physical int32
	maxRep   int
	maxDef   int
	elemDef  int // from which level on there is an element of the map, when maxRep is 1
}

// A chunk is where the values of a column in a row group are.
type chunk struct {
	physical  int32
	codec     int64
	numValues int64
	off, end  int64
}

// readFooter reads the metadata of a file.
func readFooter(r io.ReaderAt, size int64) (*footer, error) {
	var head [len(magic)]byte
	n, err := r.ReadAt(head[:min(size, int64(len(head)))], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if size == 0 || string(head[:n]) != magic[:n] {
		if string(head[:n]) == "PARE" {
			return nil, problem(ErrUnsupported, "encryption")
		}
		return nil, problem(ErrNotParquet, "")
	}
	cut := &Error{Offset: size, Row: -1, Err: format.ErrTruncated, Detail: "the footer, without which nothing can be read, is not there"}
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
	if length > size-tailSize-int64(len(magic)) {
		return nil, &Error{Offset: size - tailSize, Row: -1, Err: ErrCorrupt, Detail: "the footer is longer than the file"}
	}
	f := &footer{off: size - tailSize - length, b: make([]byte, length)}
	if _, err := r.ReadAt(f.b, f.off); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return f, f.parse()
}

// parse reads all but the row groups.
func (f *footer) parse() error {
	t := thrift{b: f.b}
	var elements []element
	groups := -1
	t.fields(func(id int16, kind byte) {
		switch id {
		case 2:
			n := t.structs(kind)
			if n > maxElements {
				t.fail()
			}
			for i := 0; i < n && !t.failed; i++ {
				elements = append(elements, readElement(&t))
			}
		case 4:
			from := t.off
			groups = t.structs(kind)
			f.at = t.off
			t.off = from
			t.skip(kind)
		default:
			t.skip(kind)
		}
	})
	if t.failed || groups < 0 || len(elements) == 0 {
		return f.damage(t.off, "the footer is no metadata")
	}
	f.groups = groups
	return f.schema(elements)
}

func (f *footer) damage(at int, detail string) error {
	return &Error{Offset: f.off + int64(at), Row: -1, Err: ErrCorrupt, Detail: detail}
}

// An element is a SchemaElement of Parquet.
type element struct {
	name       string
	physical   int32
	repetition int64 // 0 required, 1 optional, 2 repeated
	children   int64
}

func readElement(t *thrift) element {
	e := element{physical: -1}
	t.fields(func(id int16, kind byte) {
		switch id {
		case 1:
			e.physical = int32(t.count(kind))
		case 3:
			e.repetition = t.count(kind)
		case 4:
			e.name = string(t.bytes(kind))
		case 5:
			e.children = t.count(kind)
		default:
			t.skip(kind)
		}
	})
	return e
}

// schema finds the leaves of a schema, whose elements are in the order of a walk.
func (f *footer) schema(elements []element) error {
	type level struct {
		left int64
		leaf leafSchema
	}
	stack := []level{{left: elements[0].children}}
	for _, e := range elements[1:] {
		for len(stack) > 0 && stack[len(stack)-1].left == 0 {
			stack = stack[:len(stack)-1]
		}
		if len(stack) == 0 || len(stack) > maxThriftDepth {
			return f.damage(0, "the schema is no tree, or too deep")
		}
		top := &stack[len(stack)-1]
		top.left--
		leaf := top.leaf
		leaf.path = append(slices.Clip(leaf.path), e.name)
		if e.repetition > 0 {
			leaf.maxDef++
		}
		if e.repetition == 2 {
			leaf.maxRep++
			leaf.elemDef = leaf.maxDef
		}
		if e.children > 0 {
			stack = append(stack, level{e.children, leaf})
			continue
		}
		leaf.physical = e.physical
		f.leaves = append(f.leaves, leaf)
	}
	for _, l := range stack {
		if l.left > 0 {
			return f.damage(0, "the schema ends early")
		}
	}
	return nil
}

// next reads the next row group.
func (f *footer) next() (rows int64, chunks []chunk, err error) {
	t := thrift{b: f.b, off: f.at}
	rows = -1
	detail := "the footer is no metadata"
	t.fields(func(id int16, kind byte) {
		switch id {
		case 1:
			if n := t.structs(kind); n != len(f.leaves) {
				detail = "a row group has " + strconv.Itoa(n) + " columns, and the schema " + strconv.Itoa(len(f.leaves))
				t.fail()
				return
			}
			chunks = make([]chunk, len(f.leaves))
			for i := range chunks {
				chunks[i] = f.chunk(&t)
			}
		case 3:
			rows = t.count(kind)
		default:
			t.skip(kind)
		}
	})
	if t.failed || rows < 0 || chunks == nil {
		return 0, nil, f.damage(f.at, detail)
	}
	f.at = t.off
	for i := range chunks {
		c := &chunks[i]
		if c.off < int64(len(magic)) || c.end < c.off || c.end > f.off || c.physical != f.leaves[i].physical {
			err := f.damage(0, "the values are not where they can be, or not of the schema's type")
			err.(*Error).Column = strings.Join(f.leaves[i].path, ".") //nolint:errorlint,forcetypeassert // damage made it
			return 0, nil, err
		}
	}
	return rows, chunks, nil
}

// chunk reads a ColumnChunk.
func (f *footer) chunk(t *thrift) chunk {
	var c chunk
	t.fields(func(id int16, kind byte) {
		if id != 3 || kind != thriftStruct {
			t.skip(kind)
			return
		}
		var size, data, dict int64
		t.fields(func(id int16, kind byte) {
			switch id {
			case 1:
				c.physical = int32(t.count(kind))
			case 4:
				c.codec = t.count(kind)
			case 5:
				c.numValues = t.count(kind)
			case 7:
				size = t.count(kind)
			case 9:
				data = t.count(kind)
			case 11:
				dict = t.count(kind)
			default:
				t.skip(kind)
			}
		})
		c.off = data
		if dict > 0 && dict < data {
			c.off = dict
		}
		c.end = c.off + size
	})
	return c
}
