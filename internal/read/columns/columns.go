// Package columns defines how the packages of this module read many rows of a view at once. Rows
// are grouped in blocks, with a slice for each column. The column of an attribute assigns a number to each
// different value. A row is identified by its number in package view.
package columns

import (
	"context"
	"math"
	"sync"

	"github.com/entrace-go/entrace/format"
)

// BlockRows is the number of rows of a block. The last block can have fewer.
const BlockRows = 1 << 12

// Words is the number of uint64 words that hold a bit for each row of a block.
const Words = BlockRows / 64

// Special values in a column: the row has no value, or the view does not know the value.
const (
	NoTime      = math.MinInt64
	NoDuration  = -1
	Unknown     = math.MaxUint16
	UnknownText = math.MaxUint32
)

// A Block holds the columns of consecutive rows. Its slices have one item for each row and must not
// be changed.
type Block struct {
	First    uint32   // the first row
	Start    []int64  // nanoseconds since 1970, NoTime if there is none
	Duration []int64  // nanoseconds, NoDuration if there is none
	Flags    []uint16 // a view.Flags for each row
	Meta     []uint16 // an index of Metas, or Unknown
	Resource []uint16 // an index of Resources, or Unknown
	Parent   []uint32
	Trace    []uint32 // less than Traces; 0 if the trace is not known
	Text     []uint32 // if the row has a message: an index of Messages, or UnknownText
}

// A Column holds the values of one attribute for all rows, with a number for each different value.
type Column struct {
	// Values has the different values. It can be incomplete if there are too many.
	Values []format.Value
	// Codes has a code for each row. Code 0 means that the row does not have the attribute, and
	// code n means Values[n-1]. UnknownText means that the value is not in Values: call Value to
	// read it.
	Codes []uint32
	// Value reads the attribute of a row and reports whether the row has the attribute.
	Value func(row uint32) (format.Value, bool)
}

// Block returns the codes of the rows of a block.
func (c *Column) Block(k int) []uint32 {
	return c.Codes[k*BlockRows : min(len(c.Codes), (k+1)*BlockRows)]
}

// A Key is the stored name of an attribute and the number of entries with that attribute.
type Key struct {
	Name    string
	Entries int
}

// A Finder finds rows whose entries may contain one of several texts. It searches the raw bytes of all entries of
// a block at once and does not decode entries, so it is many times faster than reading the entries. It is not safe
// for concurrent use.
type Finder interface {
	// Block clears the bits of rows whose entry and end contain none of the texts. rows has one bit for each row of
	// block k.
	Block(k int, rows *[BlockRows / 64]uint64)
}

// Columns gives access to the columns of a view. Its methods are safe for concurrent use, and their
// results must not be changed.
type Columns interface {
	// Blocks returns the number of blocks.
	Blocks() int
	// Block returns block k.
	Block(k int) Block
	// Each processes all blocks on all cores, in no particular order. Each goroutine calls start
	// once, and then the returned function for each of its blocks. An error is the error of ctx.
	Each(ctx context.Context, start func() func(k int)) error
	// ParentsFirst reports whether every row has a larger number than its parent.
	ParentsFirst() bool
	// Messages returns the messages that the view holds in memory.
	Messages() []string
	// Metas returns the metadata that the view holds in memory, without levels.
	Metas() []format.Metadata
	// Resources returns the rows of the resources. Row 0 in the list stands for rows without a resource.
	Resources() []uint32
	// Traces returns the number of traces plus one, because the number 0 stands for an unknown
	// trace.
	Traces() int
	// Trace returns the number of the trace of a row, or 0 if the trace is not known.
	Trace(row uint32) uint32
	// Keys returns all attributes, sorted by name. Entries with rare lists of attribute names are not counted if the
	// view has too many different lists to remember.
	Keys() []Key
	// Finder returns a Finder of texts, which are in lower case. Letters match in either case.
	Finder(texts ...string) Finder
	// Attribute returns a function that reads the attribute with the given stored name from a row and reports whether
	// the row has the attribute. The function is safe for concurrent use.
	Attribute(name string) func(row uint32) (format.Value, bool)
	// Column returns the column of the attribute with the given stored name. The first call makes the column, which
	// takes some ten nanoseconds per row. The column is cached if there is room: all columns of a view together take
	// at most 100 MB.
	Column(ctx context.Context, name string) (*Column, error)
	// Kept returns the column of an attribute if the cache has it.
	Kept(name string) (*Column, bool)
	// Drop removes all columns from the cache. Their memory is freed when they are no longer in use.
	Drop()
}

// Collect passes all blocks to several goroutines, using each, which is the method Each of a Columns. In each
// goroutine, start makes a part of the result and a function that adds a block to that part. Collect returns all
// parts.
func Collect[T any](ctx context.Context, each func(context.Context, func() func(k int)) error, start func() (part T, add func(k int))) ([]T, error) {
	var mu sync.Mutex
	var parts []T
	err := each(ctx, func() func(k int) {
		part, add := start()
		mu.Lock()
		defer mu.Unlock()
		parts = append(parts, part)
		return add
	})
	return parts, err
}
