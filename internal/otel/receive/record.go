package receive

import (
	"sync"

	"github.com/entrace-go/entrace/internal/core/spanmap"
	"github.com/entrace-go/entrace/internal/otel"
)

// A mapper writes the records of requests to a recorder. Only one goroutine at a time may use it.
type mapper struct {
	writer

	dir  *directory // nil if all services share a file
	file uint32
	span otel.Span
	log  otel.Log

	isLarge bool // this mapper has locked oneLarge
}

// oneLarge is locked while memory holds a record that is far larger in memory than in its request, so that memory
// holds only one such record.
var oneLarge sync.Mutex

// giveUp frees the memory of a large record and unlocks oneLarge.
func (m *mapper) giveUp() {
	if m.isLarge {
		m.span, m.log, m.isLarge = otel.Span{}, otel.Log{}, false
		oneLarge.Unlock()
	}
}

// record records the records from, from+1, … to-1 of a request, which have the same scope.
func (m *mapper) record(q *request, from, to int) {
	_, head := q.ix.Scope(q.ix.Record(from))
	n := 0
	for i := from; i < to; i++ {
		if !q.ix.Record(i).NoID {
			n++
		}
	}
	var scope otel.Scope
	if err := q.r.Scope(head, &scope); err != nil {
		m.done.Refuse(n, err)
		return
	}
	if !m.Scope(&scope, n) {
		return
	}
	q.r.OnLarge = func() {
		oneLarge.Lock()
		m.isLarge = true
	}
	defer func() {
		q.r.OnLarge = nil
		m.giveUp()
	}()
	within := func(_, up int) bool { return from <= up && up < to }
	for i := from; i < to; i++ {
		for _, i := range q.ix.Due(i, within) {
			if !q.ix.Record(i).NoID {
				m.one(q, i)
				m.giveUp()
			}
		}
	}
}

// one records record i of a request.
func (m *mapper) one(q *request, i int) {
	r := q.ix.Record(i)
	if r.IsLog {
		if err := q.r.Log(r.Off, &m.log); err != nil {
			m.done.Refuse(1, err)
			return
		}
		m.Log(&m.log)
		return
	}
	if err := q.r.Span(r.Off, &m.span); err != nil {
		m.done.Refuse(1, err)
		return
	}
	m.Elsewhere = false
	if m.dir != nil {
		m.dir.came(keyOf(&m.span.TraceID, &m.span.SpanID), m.file)
		m.Elsewhere = mayBeElsewhere(&m.span) && m.dir.elsewhere(keyOf(&m.span.TraceID, &m.span.Parent), m.file)
	}
	m.Span(&m.span)
}

func keyOf(trace *[16]byte, span *[8]byte) *spanmap.Key {
	var k spanmap.Key
	copy(k[:], trace[:])
	copy(k[16:], span[:])
	return &k
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
