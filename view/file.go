package view

import (
	"math/bits"
	"sort"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
)

// A source is a file of a view, with access to its encoded entries.
type source struct {
	file    *format.File
	entries entrybytes.Entries
}

// chunkEnd returns the end of a chunk that begins with entry first. The chunk does not include the entry at the
// end. The end is at most limit.
func (s *source) chunkEnd(first, limit uint32) uint32 {
	n := min(limit-first, chunkEntries)
	from := s.entries.Offset(first)
	for n > 1 && s.entries.Offset(first+n)-from > chunkSize {
		n = n/2 + n/8
	}
	return first + max(n, 1)
}

// attributeID parses an attribute of an entry as a span id. It returns 0 if the attribute is not a span id.
func (s *source) attributeID(id uint32, name string) (uint64, error) {
	a, _, err := s.file.Attribute(id, name)
	if err != nil || len(a.Text()) != 16 {
		return 0, err
	}
	if n, ok := hexDigits([]byte(a.Text())); ok {
		return n, nil
	}
	return 0, nil
}

// parse fills c with the records of its entries. If c.err is nil afterwards, c has a record of every entry.
func (s *source) parse(w *parser, c *chunk) {
	e, gap, columns := s.entries, s.entries.Gap(), s.entries.Columns()
	ahead := uint32(chunkEntries) // after an entry that is not in the usual form, use small steps
	for id := c.first; id < c.last; {
		from, last := e.Offset(id), min(c.last-id, ahead)+id
		ahead *= 4
		err := e.View(from, e.Offset(last)-from, func(b []byte) {
			p := 0
			for ; id < last; id++ {
				next := int(e.Offset(id+1) - from)
				if !w.parse(c, b, p+gap, next, id, columns) {
					return
				}
				p = next
			}
		})
		if err == nil && id < last {
			ahead = 4
			var entry *format.TraceEntry
			entry, err = s.file.Entry(id)
			if err == nil {
				b, whole := usual(entry)
				w.parse(c, b, 0, len(b), id, false)
				if !whole {
					c.records[len(c.records)-1].shape = unknown
				}
				id++
			}
		}
		if err != nil {
			c.err = err
			break
		}
	}
	c.metas, c.messages, c.shapes = w.metas, w.messages, w.shapes
}

// parseOne returns a chunk that has only the record of entry id.
func (s *source) parseOne(id uint32) (*chunk, error) {
	c := &chunk{first: id, last: id + 1}
	s.parse(newParser(), c)
	return c, c.err
}

// A growingFile is a file, and the set of its folded entries. A folded entry has no row of its own, because it is
// part of another entry's row.
type growingFile struct {
	*source

	n      uint32 // the number of entries read so far
	folded Set[uint32]
	before []uint32 // for each word of folded: how many entries before it are folded
	count  uint32   // the number of folded entries
	runs   []fileRun
	shapes []uint16 // the shapes of the entries
	damage error
	flight Row // the row in which a flight recorder describes the file; 0 for files of other recorders
}

// A fileRun is the beginning of a run of a file: the number of unfolded entries before it in the file, and its
// first row.
type fileRun struct {
	visible uint32
	row     Row
}

// visible returns the number of entries before id that have rows of their own.
func (f *growingFile) visible(id uint32) uint32 {
	w := f.folded[id/64] & (1<<(id%64) - 1)
	return id - f.before[id/64] - uint32(bits.OnesCount64(w))
}

// row returns the row of entry id, which must not be folded.
func (f *growingFile) row(id uint32) Row {
	if id == 0 {
		return 0
	}
	n := f.visible(id)
	r := &f.runs[len(f.runs)-1]
	if n < r.visible {
		i := sort.Search(len(f.runs), func(i int) bool { return f.runs[i].visible > n })
		r = &f.runs[i-1]
	}
	return r.row + Row(n-r.visible)
}

// fold records that entry id is folded. The entry must be the latest entry.
func (f *growingFile) fold(id uint32) {
	f.folded.Add(id)
	f.count++
}

// canGrow reports whether entries can be added to the file later.
func (f *growingFile) canGrow() bool { return f.file.Format() != format.ET }

// A fileView is the part of a view that comes from one file.
type fileView struct {
	*source

	n      uint32
	shapes []uint16
	damage error
	runs   []rowRun
}

// A fileEnd says how a file ends.
type fileEnd struct {
	last    int64 // the last time in the file
	rotated bool  // the recorder continued in another file
}

// and combines the ends of two files. The recorder continued in another file only if this is so for both.
func (e fileEnd) and(other fileEnd) fileEnd {
	return fileEnd{max(e.last, other.last), e.rotated && other.rotated}
}
