// Package columns says how the packages of this module read many rows of a view at once: in blocks
// with a slice for each column, and attributes as a number for each different value. A row is the
// number that package view gives it.
package columns

import (
	"context"
	"math"

	"github.com/entrace-go/entrace/format"
)

// BlockRows is how many rows all blocks but the last have.
const BlockRows = 1 << 12

// What says in a column that there is nothing, or that it is not among what the view knows.
const (
	NoTime      = math.MinInt64
	NoDuration  = -1
	Unknown     = math.MaxUint16
	UnknownText = math.MaxUint32
)

// A Block is rows whose numbers follow each other. Its slices have one item a row and must not
// be changed.
type Block struct {
	First    uint32   // the first row
	Start    []int64  // nanoseconds since 1970, NoTime if there is none
	Duration []int64  // nanoseconds, NoDuration if there is none
	Flags    []uint16 // a view.Flags each
	Meta     []uint16 // an index of View.Metas, or Unknown
	Resource []uint16 // an index of View.Resources, or Unknown
	Parent   []uint32
	Trace    []uint32
	Text     []uint32 // with a message, an index of Messages, or UnknownText
}

// A Column is an attribute of all rows: a number for each different value.
type Column struct {
	// Values are the values that the column knows.
	Values []format.Value
	// Codes has a code for each row. Code 0 means that a row has no such attribute, n means
	// Values[n-1], and UnknownText that the column does not know the value: Value does.
	Codes []uint32
	// Value reads the attribute of a row, and reports whether the row has it.
	Value func(row uint32) (format.Value, bool)
}

// Block returns the codes of the rows of a block.
func (c *Column) Block(k int) []uint32 {
	return c.Codes[k*BlockRows : min(len(c.Codes), (k+1)*BlockRows)]
}

// Columns are those of a view. Its methods are safe for concurrent use.
type Columns interface {
	// Blocks returns how many blocks there are.
	Blocks() int
	// Block returns a block.
	Block(k int) Block
	// Each calls functions for all blocks, on all cores and in no order. Start makes a function
	// for each goroutine. The error is that of ctx.
	Each(ctx context.Context, start func() func(k int)) error
	// ParentsFirst reports whether every row has a larger number than its parent.
	ParentsFirst() bool
	// Messages returns the messages that the view knows. They must not be changed.
	Messages() []string
	// Column returns the column of an attribute, as it is stored. It is made when it is asked
	// for, which takes some ten nanoseconds a row, and kept as long as there is room: the columns
	// of a view take 100 MB together at most.
	Column(ctx context.Context, name string) (*Column, error)
	// Kept returns the column of an attribute if there is one already, without making it.
	Kept(name string) (*Column, bool)
	// Drop forgets the columns that were made, which frees their memory as soon as nobody uses
	// them.
	Drop()
}
