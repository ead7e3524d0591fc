package sink

import (
	"slices"

	"github.com/entrace-go/entrace/internal/core/chunked"
	"github.com/entrace-go/entrace/internal/otel/codec"
)

// An Index is the result of reading an input for the first time. It holds the offset and the parent of each span and
// log record. It needs 24 bytes for each record, and about 40 more bytes for each span. The zero Index is empty. It
// is a [codec.Visitor] of OTLP.
type Index struct {
	b       []byte // the OTLP message in which the heads are
	records chunked.List[Record]
	scoped  int // number of records whose scope is known
	held    int // number of records whose resource is known
	groups  []group
	groupOf map[group]uint32
	scopes  heads
	holders heads // heads of resources
	slots   slots
	// first maps the number of each span whose ids several spans have to the number of the first span with these ids.
	first map[uint32]uint32
	order []int // the last result of Due
}

// A Record is the position of a span or a log record.
type Record struct {
	Off int64  // offset in the input
	ID  uint32 // id of its entry; 0: not written yet

	up    uint32 // slot of the parent span; 0: none
	group uint32 // until the end of the resource is read, the scope of the record; after that, its group
	IsLog bool
	NoID  bool // a span without a trace id or a span id
	due   bool // Due has returned it
}

// A group is a resource and a scope.
type group struct{ resource, scope uint32 }

// Reset empties the index, and sets the OTLP message that is read next. The memory of the index is reused.
func (ix *Index) Reset(b []byte) {
	ix.b = b
	ix.records.Reset()
	ix.scoped, ix.held, ix.groups = 0, 0, ix.groups[:0]
	clear(ix.groupOf)
	clear(ix.first)
	ix.scopes.reset()
	ix.holders.reset()
	ix.slots.reset()
}

// Len returns the number of records.
func (ix *Index) Len() int { return ix.records.Len() }

// Record returns record i, in the order of the input.
func (ix *Index) Record(i int) *Record { return ix.records.At(i) }

// Span adds a span. If several spans have the same ids, the first of these spans is the parent of their children.
func (ix *Index) Span(off int64, trace *[16]byte, span, parent *[8]byte) {
	own := ix.slots.of(trace, span)
	ix.records.Add(Record{Off: off, up: ix.slots.of(trace, parent), NoID: own == 0})
	if own == 0 {
		return
	}
	s := ix.slots.all.At(int(own))
	n := uint32(ix.records.Len())
	if s.record == 0 {
		s.record = n
		return
	}
	if ix.first == nil {
		ix.first = make(map[uint32]uint32)
	}
	ix.first[s.record-1], ix.first[n-1] = s.record-1, s.record-1
}

// Log adds a log record.
func (ix *Index) Log(off int64, trace *[16]byte, span *[8]byte) {
	ix.records.Add(Record{Off: off, up: ix.slots.of(trace, span), IsLog: true})
}

// EndScope sets the scope of all records since the last call.
func (ix *Index) EndScope(h codec.Head) { ix.endScope(ix.scopes.add(ix.b, h)) }

func (ix *Index) endScope(scope uint32) {
	for ; ix.scoped < ix.records.Len(); ix.scoped++ {
		ix.records.At(ix.scoped).group = scope
	}
}

// EndResource sets the resource of all records since the last call.
func (ix *Index) EndResource(h codec.Head) { ix.endResource(ix.holders.add(ix.b, h)) }

func (ix *Index) endResource(resource uint32) {
	last := group{resource: resource}
	n, known := uint32(0), false
	for ; ix.held < ix.records.Len(); ix.held++ {
		r := ix.records.At(ix.held)
		if !known || last.scope != r.group {
			last.scope = r.group
			n = ix.numberOf(last)
			known = true
		}
		r.group = n
	}
}

func (ix *Index) numberOf(g group) uint32 {
	n, known := ix.groupOf[g]
	if !known {
		if ix.groupOf == nil {
			ix.groupOf = make(map[group]uint32)
		}
		n = uint32(len(ix.groups))
		ix.groups = append(ix.groups, g)
		ix.groupOf[g] = n
	}
	return n
}

// Origin sets the resource of all records since the last call of Origin, for an input that is not OTLP.
func (ix *Index) Origin(resource uint32) {
	ix.endScope(0)
	ix.endResource(resource)
}

// Resources returns the heads of the different resources, by number.
func (ix *Index) Resources() []codec.Head { return ix.holders.all }

// Resource returns the number of the resource of r.
func (ix *Index) Resource(r *Record) uint32 { return ix.groups[r.group].resource }

// Scope returns the number of the scope of r, and its head.
func (ix *Index) Scope(r *Record) (uint32, *codec.Head) {
	n := ix.groups[r.group].scope
	return n, &ix.scopes.all[n]
}

// SameGroup reports whether two records have the same resource and scope.
func (ix *Index) SameGroup(a, b *Record) bool { return a.group == b.group }

// Due returns the numbers of the ancestors of record i that it has not returned before, the outermost first, and then
// i. It returns nothing if it has returned i before. The function follows reports whether a record must follow its
// parent, whose number is up. The result is valid until the next call.
func (ix *Index) Due(i int, follows func(i, up int) bool) []int {
	ix.order = ix.order[:0]
	for r := ix.Record(i); !r.due; r = ix.Record(i) {
		r.due = true // so that the loop ends if spans are each other's ancestors
		ix.order = append(ix.order, i)
		up := ix.parent(r)
		if up < 0 || !follows(i, up) {
			break
		}
		i = up
	}
	slices.Reverse(ix.order)
	return ix.order
}

// parent returns the number of the parent span of r, or a negative number if this span is not in the input.
func (ix *Index) parent(r *Record) int {
	if r.up == 0 {
		return -1
	}
	return int(ix.slots.all.At(int(r.up)).record) - 1
}
