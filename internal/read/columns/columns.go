// Package columns defines how the packages of this module read many rows of a view at once. A block contains
// consecutive rows, with a slice for each column. A row is identified by its number in package view. The column of an
// attribute has a number for each distinct value.
package columns

import (
	"context"
	"math"
	"sync"

	"github.com/entrace-go/entrace/format"
)

// BlockRows is the number of rows of a block. The last block can have fewer rows.
const BlockRows = 1 << 12

// Words is the number of uint64 words that have a bit for each row of a block.
const Words = BlockRows / 64

// Special values in a column. NoTime and NoDuration mean that the row has no value. Unknown and UnknownText mean
// that the value is not in memory.
const (
	NoTime      = math.MinInt64
	NoDuration  = -1
	Unknown     = math.MaxUint16
	UnknownText = math.MaxUint32
)

// A Block has the columns of consecutive rows. Each slice has one item per row, and must not be changed.
type Block struct {
	First    uint32   // the first row
	Start    []int64  // in nanoseconds since 1970; NoTime if there is none
	Duration []int64  // in nanoseconds; NoDuration if there is none
	Flags    []uint16 // each is a view.Flags
	Meta     []uint16 // each is an index of Metas, or Unknown
	Resource []uint16 // each is an index of Resources, or Unknown
	Parent   []uint32
	Trace    []uint32 // numbers below Traces; 0 if the trace is not known
	Text     []uint32 // if the row has a message: an index of Messages, or UnknownText; of a span, the low bits of its id
}

// EndOf returns the time at which row i of the block ends. The row must have a start time. A row that is not a span
// ends at its start, even if it has a duration.
func (b *Block) EndOf(i int) int64 {
	start := b.Start[i]
	if b.Flags[i]&RoleBits == RoleSpan {
		return max(start, start+max(0, b.Duration[i])) // the sum can overflow
	}
	return start
}

// A Column holds the values of one attribute for all rows. It assigns a number to each distinct value.
type Column struct {
	// Values has the distinct values. If there are too many values, Values is incomplete.
	Values []format.Value
	// Codes has one code per row. Code 0 means that the row does not have the attribute, and code n means
	// Values[n-1]. UnknownText means that Values does not have the value: call Value to read it.
	Codes []uint32
	// Value reads the attribute of a row and reports whether the row has the attribute.
	Value func(row uint32) (format.Value, bool)
}

// Block returns the codes of the rows of a block.
func (c *Column) Block(k int) []uint32 {
	return c.Codes[k*BlockRows : min(len(c.Codes), (k+1)*BlockRows)]
}

// A Key is the stored name of an attribute, and the number of entries that have the attribute.
type Key struct {
	Name    string
	Entries int
}

// A Finder finds rows whose entries may contain one of several texts. It searches the encoded bytes of all entries of
// a block at once. It does not decode entries, so it is many times faster than code that reads them. It is not safe
// for concurrent use.
type Finder interface {
	// Block clears the bits of all rows whose entry and end contain none of the texts. rows has one bit per row of
	// block k.
	Block(k int, rows *[BlockRows / 64]uint64)
}

// Of returns the columns of a *view.View. Package view sets it.
var Of func(view any) Columns

// Columns gives access to the columns of a view. Its methods are safe for concurrent use. Their results must not
// be changed.
type Columns interface {
	// Blocks returns the number of blocks.
	Blocks() int
	// Block returns block k.
	Block(k int) Block
	// Each processes all blocks on all cores, in any order. Each goroutine calls start once, and the returned
	// function for each of its blocks. The only possible error is the error of ctx.
	Each(ctx context.Context, start func() func(k int)) error
	// ParentsFirst reports whether every row has a larger number than its parent.
	ParentsFirst() bool
	// Messages returns the messages that the view holds in memory.
	Messages() []string
	// Metas returns the metadata that the view holds in memory, without levels.
	Metas() []format.Metadata
	// Resources returns the rows of the resources. The first item is 0, for rows without a resource.
	Resources() []uint32
	// Traces returns the number of traces plus one, because number 0 means that the trace is not known.
	Traces() int
	// Trace returns the number of the trace of a row, or 0 if the trace is not known.
	Trace(row uint32) uint32
	// Keys returns all attributes, sorted by name. If the view has too many different lists of attribute names,
	// the entries with rare lists are not counted.
	Keys() []Key
	// Finder returns a Finder of texts, which must be in lower case. It matches upper and lower case.
	Finder(texts ...string) Finder
	// Attribute returns a function that reads the attribute with the given stored name from a row. The function
	// returns false if the row does not have the attribute. It is safe for concurrent use.
	Attribute(name string) func(row uint32) (format.Value, bool)
	// Column returns the column of the attribute with the given stored name. The first call makes the column in about
	// ten nanoseconds per row. The view keeps the column in a cache of at most 100 MB for all its columns.
	Column(ctx context.Context, name string) (*Column, error)
	// Kept returns the column of an attribute if the cache has it.
	Kept(name string) (*Column, bool)
	// First returns the row into which a row was folded, and true. A row is folded if it is a later half of a span, or
	// a copy of another row. If the row is not folded, First returns the row and false.
	First(row uint32) (first uint32, folded bool)
	// IsCopy reports whether a row is a copy of the row that First returns. The row that First returns has all data
	// of the copy.
	IsCopy(row uint32) bool
	// SameResource reports whether two rows have equal resources, perhaps in different files, or both have no resource.
	SameResource(a, b uint32) bool
	// IsCorrected reports whether the view corrects times with a clock. If it does, the times of rows can differ from
	// the times in the files.
	IsCorrected() bool
	// SpanID returns the id of the span at a row, or 0 if it has none.
	SpanID(row uint32) uint64
	// OfView has what other packages keep with the view, each by a key of its own type.
	OfView() *sync.Map
	// OfFiles is like OfView, but the views that View.Extend returns share it.
	OfFiles() *sync.Map
	// Drop removes all columns from the cache. Their memory is freed when they are no longer in use.
	Drop()
}

// Collect distributes all blocks to several goroutines by each, the method Each of a Columns. Each goroutine calls
// start, which returns a part of the result and a function that adds a block to the part. Collect returns all
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
