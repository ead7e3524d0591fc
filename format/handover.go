package format

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/entrace-go/entrace/internal/segment"
)

// Log makes the last entry a log record of the span ref, or of none when ref is
// zero. It is written below that span, or when that one is not in the file below
// the latest resource, else the root, and then gets the attributes trace_id and
// span_id, which it must not have itself. The time, in nanoseconds since 1970, is
// for the order of entries; zero is now.
func (b *Batch) Log(ref SpanRef, unixNano int64) {
	b.leave()
	flags := byte(0)
	if ref.IsValid() {
		flags = flagRef
		b.ref(&ref)
	}
	if b.provider < firstOther {
		b.provider = ProviderLogs
	}
	b.seal(opLog, flags, 0, unixNano)
}

// From says that the next record, which Log makes, is of a provider that is
// neither spans nor log records. It hangs below its span as those do, else below
// what [Recorder.AppendHead] has written. Its entry needs a message if ref is not
// zero. A log record that is said to be from [ProviderLogs] is one that a [Ring]
// does not tell of.
func (b *Batch) From(p Provider) { b.provider, b.quiet = p, true }

// Span makes the entries since the last record a span with its links and events.
func (b *Batch) Span(h *SpanHead) { b.span(opSpan, h) }

func (b *Batch) span(kind byte, h *SpanHead) {
	b.leave()
	b.provider = ProviderSpans
	if b.err != nil {
		b.err = fmt.Errorf("span %x: %w", h.Ref.SpanID, b.err)
	}
	flags := byte(0)
	if h.Ref.IsValid() {
		flags |= flagRef
		b.ref(&h.Ref)
	}
	if h.Parent.IsValid() {
		flags |= flagParent
		b.ref(&h.Parent)
	}
	if h.Remote {
		flags |= flagRemote
	}
	if h.Wait {
		flags |= flagWait
	}
	if h.Open {
		flags |= flagOpen
	}
	index := uint32(0)
	if h.Resource != nil && h.Resource.owner == b.r {
		index = h.Resource.index
	}
	b.seal(kind, flags, index, h.Time)
}

// EndSpan makes the entries since the last record the links and events that came
// since the span ref began, and last what describes its end. They are written
// below its entry, or dropped as [ErrNotOpen] when there is none.
func (b *Batch) EndSpan(ref SpanRef, unixNano int64) {
	b.leave()
	b.provider = ProviderSpans
	b.ref(&ref)
	b.seal(opEnd, flagRef, b.r.ring.beganOf(&ref), unixNano)
}

// SpanOrEnd is for the end of a span of which the caller does not know whether
// its start was recorded: the entries since the last record are the span as a
// whole, its links and events, and last what describes its end. Where the span is
// in the file the first is left out, else the last.
func (b *Batch) SpanOrEnd(h *SpanHead) { b.span(opEither, h) }

// ref appends an id to the trailer of a record.
func (b *Batch) ref(r *SpanRef) {
	if b.entries == 0 {
		return
	}
	if n := len(b.buf) - b.record; n%8 != 0 {
		b.buf = append(b.buf, zeros[:8-n%8]...)
	}
	b.buf = append(append(b.buf, r.TraceID[:]...), r.SpanID[:]...)
}

// seal makes a record of what was built.
func (b *Batch) seal(kind, flags byte, resource uint32, key int64) {
	if b.entries == 0 {
		return
	}
	if key == 0 {
		key = time.Now().UnixNano()
	}
	if n := len(b.buf) - b.record; n%8 != 0 {
		b.buf = append(b.buf, zeros[:8-n%8]...)
	}
	o := op{start: b.record, end: len(b.buf), entries: b.entries, key: key, kind: kind}
	if kind == opEither {
		o.entries--
	}
	rec := b.buf[o.start:o.end]
	binary.LittleEndian.PutUint64(rec[8:], uint64(key))
	rec[16], rec[17], rec[18] = kind, flags, byte(b.provider)
	o.flags, o.provider, o.quiet = flags, b.provider, b.quiet
	b.provider, b.quiet = 0, false
	binary.LittleEndian.PutUint32(rec[20:], resource)
	b.entries = 0
	if b.err != nil {
		b.errs, b.err = append(b.errs, b.err), nil
		o.bad = len(b.errs)
		b.buf = b.buf[:o.start]
		o.end = o.start
	} else {
		o.sum = segment.Sum(rec[8:])
	}
	b.ops = append(b.ops, o)
}

// Write hands the batch to the recorder. When it returns, what is in it is as
// safe as the recorder's [Durability] says. The error is a [*RefusedError]. The batch must not be used any more.
func (b *Batch) Write() error {
	defer b.release()
	if len(b.ops) == 0 || b.r.Discards() {
		return nil
	}
	return b.r.take(b)
}

// A RefusedError says how many records of a [Batch] a recorder did not take, and
// why.
type RefusedError struct {
	Records int
	Errs    []error // each kind once
}

func (e *RefusedError) Error() string { return errors.Join(e.Errs...).Error() }

// Unwrap returns Errs.
func (e *RefusedError) Unwrap() []error { return e.Errs }

// joined gathers the errors of records, each kind of which is enough once.
type joined struct {
	errs    []error
	refused int
}

const maxJoined = 16

func (j *joined) add(err error) {
	if err != nil {
		j.refused++
	}
	if err != nil && len(j.errs) < maxJoined && !slices.ContainsFunc(j.errs, func(e error) bool { return errors.Is(e, err) }) {
		j.errs = append(j.errs, err)
	}
}

func (j *joined) err() error {
	if j.refused == 0 {
		return nil
	}
	return &RefusedError{j.refused, j.errs}
}

// Add adds a span, which Write will write as it is now: b keeps nothing of s.
func (b *Batch) Add(s *Span) {
	b.Entry(&s.Entry)
	for i := range s.Children {
		b.Entry(&s.Children[i])
	}
	h := s.SpanHead
	if h.Time == 0 {
		h.Time = entryTime(&s.Entry)
	}
	b.Span(&h)
}

// WriteSpan is a batch of one span.
func (r *Recorder) WriteSpan(s *Span) error {
	if r.Discards() {
		return nil
	}
	b := r.Batch()
	b.Add(s)
	return b.Write()
}

// entryTime returns when e happened.
func entryTime(e *TraceEntry) int64 {
	v, _ := e.Attribute(AttrTime)
	if n, ok := v.I64(); ok {
		return n
	}
	return 0
}

// EndSpan is a batch of one end: that of a span that was written with Open.
func (r *Recorder) EndSpan(ref SpanRef, children []TraceEntry, end *TraceEntry) error {
	if r.Discards() {
		return nil
	}
	b := r.Batch()
	for i := range children {
		b.Entry(&children[i])
	}
	b.Entry(end)
	b.EndSpan(ref, 0)
	return b.Write()
}

// Log is a batch of one log record.
func (r *Recorder) Log(ref SpanRef, e *TraceEntry) error {
	if r.Discards() {
		return nil
	}
	b := r.Batch()
	b.Entry(e)
	b.Log(ref, entryTime(e))
	return b.Write()
}

// ErrNotOpen is why the end of a span was dropped that is not in the file.
var ErrNotOpen = errors.New("format: no entry of that span")
