package view

import (
	"iter"
	"math"
	"slices"
	"sort"

	"github.com/entrace-go/entrace/internal/read/columns"
)

// A Row is the number of a row of a view, from 0 on.
type Row uint32

// blockRows is the number of rows of a block.
const blockRows = columns.BlockRows

const (
	noTime = columns.NoTime
	noTook = columns.NoDuration
	// unknown is the number of a meta, shape or resource that did not fit into its table.
	unknown = columns.Unknown
	// unknownText is the number of a message that did not fit into its table.
	unknownText = columns.UnknownText
)

// A block holds the fields of consecutive rows that never change. The builder may be adding rows to the last block of
// a view, so the view may read only its own rows of the block.
type block struct {
	start [blockRows]int64
	id    [blockRows]uint16 // the id of the entry in its file, minus idBlock.base
	trace [blockRows]uint32
	text  [blockRows]uint32
}

// An idBlock holds the rest of the ids of a block. It is a separate type, so that a block fills whole pages of
// memory.
type idBlock struct {
	base uint32
	ids  *[blockRows]uint32 // if not nil, used instead of block.id, because some id is too far from base
}

// A state holds the fields of the rows of a block that later entries can change. If a view uses a state, the
// builder copies the state before it changes it.
type state struct {
	duration [blockRows]int64
	parent   [blockRows]uint32
	end      [blockRows]uint32 // the id of the entry that ends the span, or 0
	flags    [blockRows]uint16
	meta     [blockRows]uint16
	resource [blockRows]uint16
}

// storedColumns holds all rows of a view.
type storedColumns struct {
	blocks []*block
	ids    []idBlock
	states []*state
	runs   []run
	n      uint32
}

// A run is a range of rows with consecutive entries of one file. Folded entries do not interrupt the run. It ends
// where the next run begins.
type run struct {
	row  Row
	file int
}

// A rowRun is a range of at least one row: from row to before end.
type rowRun struct{ row, end Row }

// runOf returns the index of the run that contains row r.
func (c *storedColumns) runOf(r Row) int {
	if len(c.runs) == 1 {
		return 0
	}
	return sort.Search(len(c.runs), func(i int) bool { return c.runs[i].row > r }) - 1
}

// fileNumber returns the index of the file to which row r belongs.
func (c *storedColumns) fileNumber(r Row) int { return c.runs[c.runOf(r)].file }

// runsSince yields the file and the rows of each run, without the rows before was.
func (c *storedColumns) runsSince(was uint32) iter.Seq2[int, rowRun] {
	return func(yield func(int, rowRun) bool) {
		for i, run := range c.runs {
			end := Row(c.n)
			if i+1 < len(c.runs) {
				end = c.runs[i+1].row
			}
			if from := max(run.row, Row(was)); from < end && !yield(run.file, rowRun{from, end}) {
				return
			}
		}
	}
}

func (c *storedColumns) flags(r Row) Flags { return Flags(c.states[r/blockRows].flags[r%blockRows]) }

func (c *storedColumns) parent(r Row) Row { return Row(c.states[r/blockRows].parent[r%blockRows]) }

func (c *storedColumns) duration(r Row) int64  { return c.states[r/blockRows].duration[r%blockRows] }
func (c *storedColumns) end(r Row) uint32      { return c.states[r/blockRows].end[r%blockRows] }
func (c *storedColumns) meta(r Row) uint16     { return c.states[r/blockRows].meta[r%blockRows] }
func (c *storedColumns) start(r Row) int64     { return c.blocks[r/blockRows].start[r%blockRows] }
func (c *storedColumns) trace(r Row) uint32    { return c.blocks[r/blockRows].trace[r%blockRows] }
func (c *storedColumns) text(r Row) uint32     { return c.blocks[r/blockRows].text[r%blockRows] }
func (c *storedColumns) resource(r Row) uint16 { return c.states[r/blockRows].resource[r%blockRows] }

func (c *storedColumns) id(r Row) uint32 {
	b := &c.ids[r/blockRows]
	if b.ids != nil {
		return b.ids[r%blockRows]
	}
	return b.base + uint32(c.blocks[r/blockRows].id[r%blockRows])
}

// isFolded reports whether row r is part of another row. It may be called for the root's parent before any row
// exists.
func (c *storedColumns) isFolded(r Row) bool {
	return uint32(r) < c.n && c.flags(r).Role() == RoleFolded
}

// firstOf returns the row into which row r is folded, or r itself if r is not folded.
func (c *storedColumns) firstOf(r Row) Row {
	for c.isFolded(r) {
		r = c.parent(r)
	}
	return r
}

// growingColumns holds the columns of a builder, which grow and change. A view can see the rows before shared: the
// state of their block must be copied before its first change. The field owned is true for each block whose state was
// copied.
type growingColumns struct {
	storedColumns

	shared uint32
	owned  []bool
}

// add adds a row.
func (c *growingColumns) add() (r Row, b *block, s *state, i uint32) {
	r = Row(c.n)
	if c.n%blockRows == 0 {
		c.blocks, c.states = append(c.blocks, new(block)), append(c.states, new(state))
		c.ids, c.owned = append(c.ids, idBlock{}), append(c.owned, true)
	}
	c.n++
	return r, c.blocks[r/blockRows], c.states[r/blockRows], uint32(r) % blockRows
}

// setID sets the id of row i of the last block.
func (c *growingColumns) setID(i, id uint32) {
	last := len(c.blocks) - 1
	b, x := c.blocks[last], &c.ids[last]
	if i == 0 {
		x.base = id
	}
	if x.ids == nil && id-x.base > math.MaxUint16 { // also if id is less than base
		x.ids = new([blockRows]uint32)
		for k := range i {
			x.ids[k] = x.base + uint32(b.id[k])
		}
	}
	if x.ids != nil {
		x.ids[i] = id
	} else {
		b.id[i] = uint16(id - x.base)
	}
}

// change returns the state of row r, which the caller may change, and the index of r in the state. If a view shares
// the state, change copies the state first.
func (c *growingColumns) change(r Row) (s *state, i uint32) {
	k := r / blockRows
	if uint32(r) < c.shared && !c.owned[k] {
		s := *c.states[k]
		c.states[k] = &s
		c.owned[k] = true
	}
	return c.states[k], uint32(r) % blockRows
}

// share returns the columns for a view. Later changes do not affect the view.
func (c *growingColumns) share() storedColumns {
	c.shared = c.n
	clear(c.owned)
	return storedColumns{blocks: slices.Clip(c.blocks), ids: slices.Clone(c.ids), states: slices.Clone(c.states), runs: slices.Clone(c.runs), n: c.n}
}

// reserve grows the lists of blocks for n more rows.
func (c *growingColumns) reserve(n int) {
	blocks := n/blockRows + 1
	c.blocks, c.states, c.owned = slices.Grow(c.blocks, blocks), slices.Grow(c.states, blocks), slices.Grow(c.owned, blocks)
}

// traces holds trace ids. The index of an id is the number of the trace.
type traces struct {
	blocks []*[blockRows][16]byte
	n      int
}

func (t *traces) at(i uint32) [16]byte { return t.blocks[i/blockRows][i%blockRows] }

func (t *traces) add(id [16]byte) {
	if t.n%blockRows == 0 {
		t.blocks = append(t.blocks, new([blockRows][16]byte))
	}
	t.blocks[t.n/blockRows][t.n%blockRows] = id
	t.n++
}

// share returns the trace ids for a view.
func (t *traces) share() traces { return traces{slices.Clip(t.blocks), t.n} }
