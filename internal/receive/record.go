package receive

import (
	"cmp"
	"errors"
	"slices"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otlp/codec"
	"github.com/entrace-go/entrace/internal/spanmap"
	"github.com/entrace-go/entrace/recorder"
)

// A request holds the places of the records, scopes and resources of a message.
type request struct {
	records []item
	scopes  []group // of records
	holders []group // of scopes, by their resource
	refused int     // spans without ids, of the resource at hand
	left    int     // how many more of all these there may be, below 0 if there were more
}

// A request may have a record for each so many bytes, and minRecords at all events: an empty one
// takes two bytes, and some thirty times as much memory.
const (
	minRecords    = 1 << 18
	bytesOfRecord = 64
)

// ErrTooMany says that a request has more records, scopes and resources than its size can justify.
var ErrTooMany = errors.New("the request has too many records for its size")

// room reports whether there may be one more.
func (r *request) room() bool {
	r.left--
	return r.left >= 0
}

// An item is a record.
type item struct {
	off          int64
	log          bool
	span, parent spanmap.Key
}

// A group is a run of records or scopes, from the end of the group before it.
type group struct {
	head    codec.Head
	end     int
	refused int // in a resource
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
	if r.room() {
		r.records = append(r.records, i)
	}
}

// Log implements codec.Visitor.
func (r *request) Log(off int64, trace *[16]byte, span *[8]byte) {
	if r.room() {
		r.records = append(r.records, item{off: off, log: true, span: keyOf(trace, span)})
	}
}

// EndScope implements codec.Visitor.
func (r *request) EndScope(h codec.Head) {
	if ends(r.scopes) < len(r.records) && r.room() {
		r.scopes = append(r.scopes, group{head: h, end: len(r.records)})
	}
}

// EndResource implements codec.Visitor.
func (r *request) EndResource(h codec.Head) {
	if (ends(r.holders) < len(r.scopes) || r.refused > 0) && r.room() {
		r.holders = append(r.holders, group{head: h, end: len(r.scopes), refused: r.refused})
		r.refused = 0
	}
}

// ends returns where the last of some groups ends.
func ends(list []group) int {
	if len(list) == 0 {
		return 0
	}
	return list[len(list)-1].end
}

// close ends what damage has cut off.
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

func refOf(k *spanmap.Key) (r format.SpanRef) {
	copy(r.TraceID[:], k[:])
	copy(r.SpanID[:], k[16:])
	return r
}

// A mapper turns the records of requests into those of a recorder. It is for one goroutine at a
// time.
type mapper struct {
	order    spanmap.Order
	span     otel.Span
	log      otel.Log
	scope    otel.Scope
	batch    *recorder.Batch
	resource *recorder.Resource
	done     Result
	scopes   int64 // bytes of scopes that may still be written
}

// Each entry has all of its scope, which a request says once.
const (
	scopesFloor  = 64 << 20
	scopesFactor = 16
)

var errScope = errors.New("the scope is too large for so many records")

// below is where an entry of a batch lies: the recorder finds its parent, and names what that
// does not say.
var below = otel.Where{Trace: true, Parent: true}

func (r *Result) refuse(n int, err error) {
	r.Refused += n
	r.Why = cmp.Or(r.Why, err)
}

// record writes the records of one scope.
func (m *mapper) record(r *codec.Reader, head *codec.Head, items []item) {
	m.scope = otel.Scope{}
	if head.Value.From >= 0 || head.URL.From >= 0 {
		if err := r.Scope(head, &m.scope); err != nil {
			m.done.refuse(len(items), err)
			return
		}
	}
	if m.scopes -= head.Size() * int64(len(items)); m.scopes < 0 {
		m.done.refuse(len(items), errScope)
		return
	}
	m.order.Reset()
	for i := range items {
		if items[i].log {
			m.order.Add(&spanmap.Key{}, &spanmap.Key{})
			continue
		}
		m.order.Add(&items[i].span, &items[i].parent)
	}
	for _, i := range m.order.ParentsFirst() {
		var err error
		if items[i].log {
			err = m.writeLog(r, &items[i])
		} else {
			err = m.writeSpan(r, &items[i])
		}
		if err != nil {
			m.done.refuse(1, err)
		} else {
			m.done.Taken++
		}
	}
}

// remoteParent is the bit of a span's flags that says its parent is in another process.
const remoteParent = 0x200

var errNoID = errors.New("a span without an id")

func (m *mapper) writeSpan(r *codec.Reader, i *item) error {
	s := &m.span
	if err := r.Span(i.off, s); err != nil {
		return err
	}
	s.Scope = m.scope
	h := recorder.Span{Ref: refOf(&i.span), Parent: refOf(&i.parent), Resource: m.resource, Time: s.Start}
	h.Remote = s.Flags&remoteParent != 0
	h.Wait = !h.Remote
	m.batch.Span(&h)
	s.Write(m.batch, below, &s.Attributes)
	for j := range s.Links {
		s.Links[j].Write(m.batch, s.Scope.Name, &s.Links[j].Attributes)
	}
	for j := range s.Events {
		s.Events[j].Write(m.batch, s.Scope.Name, &s.Events[j].Attributes)
	}
	return nil
}

func (m *mapper) writeLog(r *codec.Reader, i *item) error {
	l := &m.log
	if err := r.Log(i.off, l); err != nil {
		return err
	}
	l.Scope = m.scope
	ref, where := refOf(&i.span), below
	if !ref.IsValid() {
		where = otel.Where{} // the recorder does not know of half an id
	}
	at := l.Time
	if !l.HasTime {
		at = l.Observed
	}
	m.batch.Log(ref, at)
	m.batch.Below(m.resource)
	l.Write(m.batch, where, &l.Attributes)
	return nil
}

// write hands over what was built, and reports whether something was refused that may be taken
// another time.
func (m *mapper) write() (later bool) {
	err := m.batch.Write()
	refused, ok := errors.AsType[*recorder.RefusedError](err)
	if !ok {
		return false
	}
	m.done.refuse(refused.Records, err)
	m.done.Taken -= refused.Records
	return slices.ContainsFunc(refused.Errs, func(err error) bool {
		return !errors.Is(err, format.ErrTooLarge) && !errors.Is(err, format.ErrInvalid)
	})
}
