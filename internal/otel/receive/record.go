package receive

import (
	"sync"

	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otel/codec"
)

// A request holds the offsets of the records, scopes and resources of a message.
type request struct {
	records []item
	scopes  []group // groups of records
	holders []group // groups of scopes, by resource
	refused int     // number of spans without ids in the current resource
}

// A request may have one record, scope or resource for every bytesOfItem bytes, but always minItems. Without a
// limit, an empty item of two bytes would cost far more memory and time than its size.
const (
	minItems    = 1 << 18
	bytesOfItem = 64
)

// An item is the position of one record.
type item struct {
	off          int64
	log          bool
	span, parent spanmap.Key
}

// A group is a range of records or scopes. It begins where the previous group ends.
type group struct {
	head    codec.Head
	end     int
	refused int // only in a group of scopes
}

func (r *request) reset() {
	*r = request{records: r.records[:0], scopes: r.scopes[:0], holders: r.holders[:0]}
}

// Span implements codec.Visitor.
func (r *request) Span(off int64, trace *[16]byte, span, parent *[8]byte) {
	if *trace == [16]byte{} || *span == [8]byte{} {
		r.refused++
		return
	}
	i := item{off: off, span: keyOf(trace, span)}
	if *parent != [8]byte{} {
		i.parent = keyOf(trace, parent)
	}
	r.records = append(r.records, i)
}

// Log implements codec.Visitor.
func (r *request) Log(off int64, trace *[16]byte, span *[8]byte) {
	r.records = append(r.records, item{off: off, log: true, span: keyOf(trace, span)})
}

// EndScope implements codec.Visitor.
func (r *request) EndScope(h codec.Head) {
	if ends(r.scopes) < len(r.records) {
		r.scopes = append(r.scopes, group{head: h, end: len(r.records)})
	}
}

// EndResource implements codec.Visitor.
func (r *request) EndResource(h codec.Head) {
	if ends(r.holders) < len(r.scopes) || r.refused > 0 {
		r.holders = append(r.holders, group{head: h, end: len(r.scopes), refused: r.refused})
		r.refused = 0
	}
}

// ends returns the end of the last group in list, or 0 if list is empty.
func ends(list []group) int {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].end
}

// close ends the last scope and resource if the message ended before them because of damage.
func (r *request) close() {
	nowhere := codec.Head{Value: codec.Place{From: -1, To: -1}, URL: codec.Place{From: -1, To: -1}}
	r.EndScope(nowhere)
	r.EndResource(nowhere)
}

func keyOf(trace *[16]byte, span *[8]byte) (k spanmap.Key) {
	copy(k[:], trace[:])
	copy(k[16:], span[:])
	return k
}

// A mapper writes the records of requests to a recorder. Only one goroutine at a time may use it.
type mapper struct {
	writer

	dir   *directory // nil if all services share a file
	file  uint32
	order spanmap.Order
	span  otel.Span
	log   otel.Log

	isLarge bool // this mapper has locked oneLarge
}

// oneLarge is locked while memory holds a record that takes far more room there than in its request, so that there is
// only one.
var oneLarge sync.Mutex

// giveUp frees the memory of a large record and unlocks oneLarge.
func (m *mapper) giveUp() {
	if m.isLarge {
		m.span, m.log, m.isLarge = otel.Span{}, otel.Log{}, false
		oneLarge.Unlock()
	}
}

// record records the records of one scope.
func (m *mapper) record(r *codec.Reader, head *codec.Head, items []item) {
	var scope otel.Scope
	if head.Value.From >= 0 || head.URL.From >= 0 {
		if err := r.Scope(head, &scope); err != nil {
			m.done.Refuse(len(items), err)
			return
		}
	}
	if !m.Scope(&scope, len(items)) {
		return
	}
	r.OnLarge = func() {
		oneLarge.Lock()
		m.isLarge = true
	}
	defer func() {
		r.OnLarge = nil
		m.giveUp()
	}()
	m.order.Reset()
	for i := range items {
		if items[i].log {
			m.order.Add(&spanmap.Key{}, &spanmap.Key{})
			continue
		}
		m.order.Add(&items[i].span, &items[i].parent)
		if m.dir != nil {
			m.dir.came(&items[i].span, m.file)
		}
	}
	for _, i := range m.order.ParentsFirst() {
		var err error
		if items[i].log {
			err = r.Log(items[i].off, &m.log)
			if err == nil {
				m.Log(&m.log)
			}
		} else {
			err = r.Span(items[i].off, &m.span)
			if err == nil {
				m.Elsewhere = m.dir != nil && mayBeElsewhere(&m.span) && m.dir.elsewhere(&items[i].parent, m.file)
				m.Span(&m.span)
			}
		}
		m.giveUp()
		if err != nil {
			m.done.Refuse(1, err)
		}
	}
}

// mayBeElsewhere reports whether the parent of s may be in the file of another service. For other kinds of spans,
// the parent is in the same service, even if a span of another service has the same id. Both ends of a call can
// have the same id.
func mayBeElsewhere(s *otel.Span) bool {
	switch s.Kind {
	case otel.KindInternal, otel.KindClient, otel.KindProducer:
		return false
	}
	return s.Parent != [8]byte{}
}
