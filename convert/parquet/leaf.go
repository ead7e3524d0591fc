package parquet

import (
	"errors"
	"io"
	"strings"

	pq "github.com/parquet-go/parquet-go"
	meta "github.com/parquet-go/parquet-go/format"
)

// A leaf reads the values of a column, in the order of the rows. The texts of the values stay valid, because no page
// is given back to the library.
type leaf struct {
	*pq.Column

	name    string
	kind    meta.Type
	unit    int64 // for a time: its unit in nanoseconds; otherwise 1
	elemDef int   // for a map: the least definition level of an element

	begin  int64 // where the values of the row group begin in the file
	pages  interface{ ReadPage() (pq.Page, error) }
	bools  *boolPages // instead of pages, for a column of booleans
	page   pq.ValueReader
	left   int64 // number of values that are left in the page
	buffer [256]pq.Value
	batch  []pq.Value // the next values
	ended  bool       // there are no more values in the row group

	value pq.Value // the current value
}

// leavesOf appends the leaves below c to all. elemDef is that of a leaf directly below c.
func leavesOf(c *pq.Column, elemDef int, all []*leaf) []*leaf {
	if c.Repeated() {
		elemDef = c.MaxDefinitionLevel()
	}
	if !c.Leaf() {
		for _, child := range c.Columns() {
			all = leavesOf(child, elemDef, all)
		}
		return all
	}
	l := &leaf{Column: c, name: strings.Join(c.Path(), "."), kind: meta.Type(c.Type().Kind()), unit: 1, elemDef: elemDef}
	if logical := c.Type().LogicalType(); logical != nil {
		if t, ok := logical.Value.(*meta.TimestampType); ok && t.Unit.Value != nil {
			l.unit = int64(t.Unit.Value.Duration())
		}
	}
	return append(all, l)
}

// open begins to read the values of a row group.
func (l *leaf) open(r io.ReaderAt, c pq.ColumnChunk, m *meta.ColumnMetaData) {
	l.begin, l.pages, l.bools = firstPage(m), c.(*pq.FileColumnChunk).PagesFrom(r), nil
	if l.kind == meta.Boolean {
		l.bools = newBoolPages(r, l.Column, m)
	}
	l.left, l.batch, l.ended = 0, nil, false
}

// next reads the next value. It returns false at the end of the row group.
func (l *leaf) next() (bool, error) {
	for len(l.batch) == 0 {
		if err := l.fill(); err != nil || l.ended {
			return false, err
		}
	}
	l.value, l.batch = l.batch[0], l.batch[1:]
	return true, nil
}

// fill begins a page, or reads some values of it.
func (l *leaf) fill() (err error) {
	defer convertError(&err)
	switch {
	case l.bools != nil:
		l.batch, err = l.bools.read()
	case l.left == 0:
		var page pq.Page
		page, err = l.pages.ReadPage()
		if err == nil {
			l.page, l.left = page.Values(), page.NumValues()
		}
	default:
		n, _ := l.page.ReadValues(l.buffer[:])
		if n == 0 {
			return errEarly
		}
		l.batch = l.buffer[:n]
		l.left -= int64(n)
	}
	if errors.Is(err, io.EOF) {
		l.ended = true
		return nil
	}
	return err
}

// hasElement reports whether the current value is an element of a map, and not the sign of an empty map.
func (l *leaf) hasElement() bool { return l.value.DefinitionLevel() >= l.elemDef }

func (l *leaf) int64() int64 {
	if l.kind == meta.Int32 {
		return int64(l.value.Int32())
	}
	return l.value.Int64()
}
