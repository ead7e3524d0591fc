package format

import (
	"errors"
	"fmt"
	"slices"
)

// A Span is what a recorder is told of an OpenTelemetry span.
type Span struct {
	// Entry is the span's entry; Parent is not used. It has no attributes
	// trace_id and parent_span_id: the recorder adds them where they are needed.
	Entry TraceEntry
	// Children are the entries of its links and events, in their order.
	Children []TraceEntry

	Ref      SpanRef
	Parent   SpanRef   // none for the first span of a trace
	Remote   bool      // the parent is a span of another process
	Resource *Resource // of this recorder; nil, or of another one: the root
	// Wait makes the span wait in memory when its parent is local and not
	// written yet, as an exporter meets children before their parents.
	Wait bool
	// Open says that the span has not ended: EndSpan will tell the rest.
	Open bool
}

// A Resource is an entry that local root spans hang below.
type Resource struct {
	owner   *Recorder
	buf     []byte
	payload payload
	id      uint32 // 0: not in the file yet
}

// spanOp is a span that was encoded: its payloads are the entry's and then the
// children's.
type spanOp struct {
	ref, parent    SpanRef
	remote, wait   bool
	open           bool
	resource       *Resource
	first, entries int // payloads
	err            error
}

// A Batch gathers spans and writes them at once. Encoding them holds no lock of
// the recorder. A Batch is not safe for concurrent use; Write ends its life.
type Batch struct {
	r        *Recorder
	enc      encoder
	payloads []payload
	ops      []spanOp
	offered  uint64 // entries
	opt      [maxOptional]Attribute
	hex      [48]byte // the texts of opt: a trace id and a span id
}

// where fills opt with the attributes of an entry that is not below its span:
// the trace id, and span as the attribute called name if it is valid.
func (b *Batch) where(ref SpanRef, name string, span SpanRef) []Attribute {
	hex := AppendHex(AppendHex(b.hex[:0], ref.TraceID[:]), span.SpanID[:])
	trace := Attribute{AttrTraceID, textValue(hex[:32])}
	if !span.IsValid() {
		b.opt[0] = trace
		return b.opt[:1]
	}
	b.opt[0], b.opt[1] = trace, Attribute{name, textValue(hex[32:])}
	if b.enc.version.hasAttrColumns() && name < AttrTraceID {
		b.opt[0], b.opt[1] = b.opt[1], b.opt[0]
	}
	return b.opt[:]
}

// textValue returns a String that aliases b.
func textValue(b []byte) Value {
	v := BytesValue(b)
	v.kind = KindString
	return v
}

// Batch returns an empty batch.
func (r *Recorder) Batch() *Batch {
	b, _ := r.batches.Get().(*Batch)
	if b == nil {
		b = &Batch{r: r, enc: encoder{version: r.version, limit: r.maxEntry}}
	}
	return b
}

// maxKeep is how large a buffer is kept for later use.
const maxKeep = 1 << 20

func (b *Batch) release() {
	if cap(b.enc.buf) > maxKeep {
		return
	}
	b.enc.buf, b.payloads, b.offered = b.enc.buf[:0], b.payloads[:0], 0
	clear(b.ops)
	b.ops = b.ops[:0]
	clear(b.opt[:])
	b.r.batches.Put(b)
}

// Span adds a span, which Write will write as it is now: b keeps nothing of s.
func (b *Batch) Span(s *Span) {
	op := spanOp{
		ref: s.Ref, parent: s.Parent, remote: s.Remote, wait: s.Wait, open: s.Open,
		resource: s.Resource, first: len(b.payloads), entries: 1 + len(s.Children),
	}
	mark := len(b.enc.buf)
	b.offered += uint64(op.entries)
	op.err = b.add(&s.Entry, b.where(s.Ref, AttrParentSpanID, s.Parent)...)
	for i := range s.Children {
		if op.err == nil {
			op.err = b.add(&s.Children[i])
		}
	}
	if op.err != nil { // all or nothing
		b.enc.buf, b.payloads = b.enc.buf[:mark], b.payloads[:op.first]
	}
	b.ops = append(b.ops, op)
}

func (b *Batch) add(e *TraceEntry, opt ...Attribute) error {
	p, err := b.enc.payload(e, opt...)
	if err == nil {
		b.payloads = append(b.payloads, p)
	}
	return err
}

// Write hands the batch to the recorder. When it returns, everything in it is in
// the file or waits for its parent. It returns what was wrong with each span,
// joined. The batch must not be used any more.
func (b *Batch) Write() error {
	defer b.release()
	r := b.r
	if len(b.ops) == 0 || r.Discards() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offer(b.offered, uint64(len(b.ops)))
	var errs []error
	for i := range b.ops {
		op := &b.ops[i]
		err := op.err
		if err == nil && r.closed {
			err = ErrClosed
		}
		if err == nil {
			err = r.span(op, b.enc.buf, b.payloads[op.first:op.first+op.entries])
		} else {
			r.drop(err, uint64(op.entries), 1)
		}
		if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return errors.Is(e, err) }) {
			errs = append(errs, fmt.Errorf("span %x: %w", op.ref.SpanID, err))
		}
	}
	if err := r.flush(); err != nil {
		errs = append(errs, err)
	}
	r.letGo()
	return errors.Join(errs...)
}

// WriteSpan is a batch of one span.
func (r *Recorder) WriteSpan(s *Span) error {
	b := r.Batch()
	b.Span(s)
	return b.Write()
}

// EndSpan ends a span that was written with Open: it writes children, the links
// and events that came since, and end, which describes the end, below it. The
// error is [ErrNotOpen] when the recorder has no entry of that span, and then
// nothing is counted.
func (r *Recorder) EndSpan(ref SpanRef, children []TraceEntry, end *TraceEntry) error {
	if r.Discards() {
		return nil
	}
	b := r.Batch()
	defer b.release()
	err := error(nil)
	for i := range children {
		if err == nil {
			err = b.add(&children[i])
		}
	}
	if err == nil {
		err = b.add(end)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slot, ok := r.spans.ids[ref]
	if !ok && !r.closed {
		return ErrNotOpen
	}
	n := uint64(len(children) + 1)
	r.offer(n, 0)
	if r.closed {
		err = ErrClosed
	}
	if err != nil {
		r.drop(err, n, 0)
		return err
	}
	for i := range b.payloads {
		if _, err = r.stage(b.enc.buf, &b.payloads[i], slot.id, false); err != nil {
			r.drop(err, n-uint64(i), 0)
			break
		}
	}
	r.spans.end(ref)
	return errors.Join(err, r.flush())
}

// ErrNotOpen is returned for the end of a span that a recorder does not have.
var ErrNotOpen = errors.New("format: no entry of that span")

// Log writes the entry of a log record below that of its span, or when that one
// is not in the file, or ref is zero, below the latest resource, else the root.
// Parent is not used, and e has no attributes trace_id and span_id: Log adds them
// where they are needed.
func (r *Recorder) Log(ref SpanRef, e *TraceEntry) error {
	if r.Discards() {
		return nil
	}
	b := r.Batch()
	defer b.release()
	var opt []Attribute
	if ref.IsValid() {
		opt = b.where(ref, AttrSpanID, ref)
	}
	err := b.add(e, opt...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offer(1, 0)
	if r.closed {
		err = ErrClosed
	}
	if err == nil {
		slot, below := r.spans.ids[ref]
		parent := slot.id
		if !below {
			parent = r.place(r.latest)
		}
		_, err = r.stage(b.enc.buf, &b.payloads[0], parent, !below)
	}
	if err != nil {
		r.drop(err, 1, 0)
		return err
	}
	return r.flush()
}
