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

// Marks in a column: no value, or a value that the view does not know.
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
	Meta     []uint16 // an index of Metas, or Unknown
	Resource []uint16 // an index of Resources, or Unknown
	Parent   []uint32
	Trace    []uint32 // below Traces, 0 if it is not known
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

// A Key is an attribute, as it is stored, and how many entries have it.
type Key struct {
	Name    string
	Entries int
}

// A Finder finds the rows whose entries can have one of several texts. It looks at the bytes of the
// entries of a block at once, and at nothing else, so that it is many times faster than reading
// entries. It is not safe for concurrent use.
type Finder interface {
	// Block removes from rows, the rows of a block as bits, those whose entry and end have none of
	// the texts.
	Block(k int, rows *[BlockRows / 64]uint64)
}

// Columns are those of a view. Its methods are safe for concurrent use, and what they return must
// not be changed.
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
	// Messages returns the messages that the view knows.
	Messages() []string
	// Metas returns the metadata that the view knows, without levels.
	Metas() []format.Metadata
	// Resources returns the rows of the resources, and 0 for none.
	Resources() []uint32
	// Traces returns one more than how many traces there are.
	Traces() int
	// Trace returns the number of the trace of a row, 0 if that is not known.
	Trace(row uint32) uint32
	// Keys returns the attributes that there are, by their names. Entries whose list of attributes
	// is one of very many are not counted.
	Keys() []Key
	// Finder returns a Finder of texts in lower case, which finds them in any case.
	Finder(texts ...string) Finder
	// Attribute returns a function that reads an attribute, as it is stored, of a row, and reports
	// whether the row has it. It is safe for concurrent use.
	Attribute(name string) func(row uint32) (format.Value, bool)
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
