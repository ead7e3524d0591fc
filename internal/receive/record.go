package receive

import (
	"errors"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/otlp/codec"
	"github.com/entrace-go/entrace/internal/spanmap"
	"github.com/entrace-go/entrace/recorder"
)

// A request is what the first pass finds in one.
type request struct {
	records []item
	scopes  []group // of records
	holders []group // of scopes, by their resource
}

// An item is a record.
type item struct {
	off          int64
	log          bool
	span, parent spanmap.Key
}

// A group is what is behind the one before it, up to an end.
type group struct {
	head codec.Head
	end  int
}

func (r *request) reset() {
	r.records, r.scopes, r.holders = r.records[:0], r.scopes[:0], r.holders[:0]
}

// Span implements codec.Visitor.
func (r *request) Span(off int64, trace *[16]byte, span, parent *[8]byte) {
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
func (r *request) EndScope(h codec.Head) { r.scopes = append(r.scopes, group{h, len(r.records)}) }

// EndResource implements codec.Visitor.
func (r *request) EndResource(h codec.Head) { r.holders = append(r.holders, group{h, len(r.scopes)}) }

// close ends what damage has cut off.
func (r *request) close() {
	nowhere := codec.Head{Value: codec.Place{From: -1, To: -1}, URL: codec.Place{From: -1, To: -1}}
	if len(r.records) > 0 && (len(r.scopes) == 0 || r.scopes[len(r.scopes)-1].end < len(r.records)) {
		r.EndScope(nowhere)
	}
	if len(r.scopes) > 0 && (len(r.holders) == 0 || r.holders[len(r.holders)-1].end < len(r.scopes)) {
		r.EndResource(nowhere)
	}
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

func (m *mapper) refuse(n int, err error) {
	m.done.Refused += n
	if m.done.Why == nil {
		m.done.Why = err
	}
}

// record writes the records of one scope.
func (m *mapper) record(r *codec.Reader, head *codec.Head, items []item) {
	m.scope = otel.Scope{}
	if head.Value.From >= 0 || head.URL.From >= 0 {
		if err := r.Scope(head, &m.scope); err != nil {
			m.refuse(len(items), err)
			return
		}
	}
	if m.scopes -= head.Size() * int64(len(items)); m.scopes < 0 {
		m.refuse(len(items), errScope)
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
			m.refuse(1, err)
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
	if ref := refOf(&i.span); !ref.IsValid() {
		return errNoID
	}
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

// write hands over what was built.
func (m *mapper) write() (overflow bool) {
	err := m.batch.Write()
	refused, ok := errors.AsType[*recorder.RefusedError](err)
	if !ok {
		return false
	}
	m.refuse(refused.Records, err)
	m.done.Taken -= refused.Records
	return errors.Is(err, recorder.ErrOverflow)
}
