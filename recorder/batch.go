package recorder

import (
	"errors"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

// A Span says where a span belongs.
type Span struct {
	Ref      format.SpanRef
	Parent   format.SpanRef // zero for the first span of a trace
	Remote   bool           // the parent is a span of another process
	Resource *Resource      // of this recorder; nil, or of another one: the root
	// Time is when the span began, in nanoseconds since 1970. Where several
	// goroutines record, entries are written in the order of their times. Zero is
	// now.
	Time int64
	// Wait makes the span wait when its parent is local and not written yet, as
	// an exporter meets children before their parents.
	Wait bool
	// Open says that the span has not ended: EndSpan will describe the rest. If the file has
	// an open span with the same Ref, a span that is not Open ends it. The open span then gets
	// the attributes of an end, all attributes of the application, the links and the events.
	Open bool
}

// A Resource is an entry that local root spans hang below.
type Resource struct {
	owner  *Recorder
	number uint16
}

// A CallSite is a place in a program that records log records. It belongs to one
// recorder and is safe for concurrent use.
type CallSite struct {
	owner *Recorder
	place *record.Place
}

// CallSite returns the call site that m describes. Records with this message do not store
// the message again.
func (r *Recorder) CallSite(m *format.Metadata, message string) *CallSite {
	c := &CallSite{owner: r}
	if !r.Discards() {
		h := m.Head(format.Some(message))
		c.place = r.intern.Place(&h)
	}
	return c
}

// A Batch builds records and hands them to a recorder. Log, Span and EndSpan begin a
// record, to which the entries belong that follow. An entry begins with Begin or BeginAt,
// has its attributes added by String and the like, and ends with End, otherwise it is
// left out; Entry does all that. A record is handed over when the next one begins, or by
// Write.
//
// A Batch can be used again after Write, by one goroutine at a time. The entries of one
// Batch are written in the order of its calls, whatever the clock says. A Batch keeps no
// reference to the strings that it gets.
type Batch struct {
	r    *Recorder
	b    record.Builder
	hint journal.Hint

	// Of the record that is built.
	kind     record.Kind // 0: none
	flags    uint8
	provider record.Provider
	resource uint16
	time     int64
	event    record.LogEvent
	silent   bool // nobody is told of it
	err      error

	rec    journal.Record // that is handed over
	handed int            // records
	errs   joined
}

// Batch returns an empty batch. A batch is large: callers that write often should reuse it.
func (r *Recorder) Batch() *Batch {
	b := &Batch{r: r, hint: newHint(r)}
	b.b.In, b.b.MaxText, b.b.Redact = r.intern, r.maxText, r.redactor()
	return b
}

// batch returns a batch for release.
func (r *Recorder) batch() *Batch {
	if b, ok := r.batches.Get().(*Batch); ok {
		return b
	}
	return r.Batch()
}

// release empties a batch and gives it back.
func (b *Batch) release() {
	b.Discard()
	b.r.batches.Put(b)
}

// Discard drops the record that is being built, and forgets the errors of the records that
// were handed over.
func (b *Batch) Discard() {
	b.kind, b.err, b.handed = 0, nil, 0
	b.event.Message, b.rec.With = "", nil // it keeps nothing alive
	if b.errs.refused > 0 {
		b.errs.reset()
	}
}

// begin begins a record.
func (b *Batch) begin(kind record.Kind, flags uint8, ref, parent *format.SpanRef, resource uint16, unixNano int64) {
	b.handOver()
	provider := record.ProviderSpans
	if kind == record.KindLog {
		provider = record.ProviderLogs
	}
	b.kind, b.flags, b.provider, b.resource, b.time = kind, flags, provider, resource, unixNano
	b.silent = kind != record.KindLog
	if flags&(record.FlagRef|record.FlagParent) == 0 {
		b.b.Reset(flags, nil, nil)
		return
	}
	refs := [2]record.Ref{keyOf(ref)}
	if flags&record.FlagParent != 0 {
		refs[1] = keyOf(parent)
	}
	b.b.Reset(flags, &refs[0], &refs[1])
}

// handOver gives the record that was built to the recorder.
func (b *Batch) handOver() {
	kind := b.kind
	if kind == 0 {
		return
	}
	b.kind = 0
	b.b.Drop()
	entries := b.b.Entries()
	err := b.err
	b.err = nil
	if entries <= 0 && kind != record.KindElsewhere || b.r.Discards() {
		return
	}
	if b.time == 0 {
		b.time = time.Now().UnixNano()
	}
	rec := &b.rec
	b.b.Record(rec)
	if rec.With != nil {
		b.flags &^= record.FlagWait // what is shared stays where it is
	}
	rec.Time = b.time
	rec.Info = record.Info(kind, uint8(b.provider), b.flags, b.resource, entries)
	rec.Leaf, rec.End = kind == record.KindLog || kind == record.KindEnd, kind == record.KindEnd
	b.handed++
	if err == nil {
		event := &b.event
		if b.silent {
			event = nil
		}
		err = b.r.target.Put(rec, &b.hint, event)
	} else {
		b.r.target.Drop(err, entries, rec.Info.Spans())
	}
	if err != nil {
		b.errs.add(err)
	}
}

// Log begins a log record, which has one entry. The record belongs to the span ref, or to
// no span if ref is zero. It is written below its span. If the span is not in the file, the
// record is written below the latest resource, or below the root if there is no resource; it
// then gets the attributes trace_id and span_id, which the caller must not add. The time, in
// nanoseconds since 1970, decides the order of entries; zero is now.
func (b *Batch) Log(ref format.SpanRef, unixNano int64) {
	if !ref.IsValid() {
		b.begin(record.KindLog, 0, nil, nil, uint16(b.r.latest.Load()), unixNano)
		b.event.Ref = record.Ref{}
		return
	}
	b.begin(record.KindLog, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
	b.event.Ref = keyOf(&ref)
}

// Below sets the resource below which a log record is written if it is not written below its
// span. Without Below that is the latest resource. Below is called after Log. It has no
// effect with a resource of another recorder. A record with Below waits for its span while that
// waits for its parent.
func (b *Batch) Below(r *Resource) {
	b.flags |= record.FlagWait
	if r != nil && r.owner == b.r {
		b.resource = r.number
	}
}

// Span begins a span. The entries that follow are the span's own, then its links and
// events.
func (b *Batch) Span(h *Span) {
	flags := uint8(0)
	for _, f := range []struct {
		set bool
		bit uint8
	}{
		{h.Ref.IsValid(), record.FlagRef},
		{h.Parent.IsValid(), record.FlagParent},
		{h.Remote, record.FlagRemote},
		{h.Wait, record.FlagWait},
		{h.Open, record.FlagOpen},
	} {
		if f.set {
			flags |= f.bit
		}
	}
	resource := uint16(0)
	if h.Resource != nil && h.Resource.owner == b.r {
		resource = h.Resource.number
	}
	b.begin(record.KindSpan, flags, &h.Ref, &h.Parent, resource, h.Time)
}

// EndSpan begins the end of the span ref, which was written with Open. The entries that
// follow are the links and events added since the span began, and last the entry that
// describes its end. They are written below the entry of the span. If the span has no entry,
// they are dropped as invalid.
func (b *Batch) EndSpan(ref format.SpanRef, unixNano int64) {
	b.begin(record.KindEnd, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
}

// Elsewhere says that the span ref is in another file: spans that wait for it do so no longer. It comes
// before the other records of the batch.
func (b *Batch) Elsewhere(ref format.SpanRef) {
	b.begin(record.KindElsewhere, record.FlagRef, &ref, nil, 0, 0)
	b.handOver()
	b.Discard() // if there is no room, they wait until they need not
}

// Undo drops the record that is being built, which counts as one that is invalid.
func (b *Batch) Undo() {
	if b.kind != 0 && !b.r.Discards() {
		entries := max(b.b.Entries(), 1)
		b.r.target.Drop(format.ErrInvalid, entries, record.Info(b.kind, uint8(b.provider), b.flags, b.resource, entries).Spans())
	}
	b.kind, b.err = 0, nil
}

// Write hands the last record to the recorder. When Write returns, the records of the batch
// survive what the recorder's [Durability] says. The error is a [*RefusedError].
func (b *Batch) Write() error {
	b.handOver()
	defer b.Discard()
	if b.handed > b.errs.refused && b.r.waits() {
		if err := b.r.target.Wait(); err != nil {
			b.errs.add(err)
			b.errs.refused = b.handed
		}
	}
	return b.errs.err()
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
	j.refused++
	if len(j.errs) < maxJoined && !slices.ContainsFunc(j.errs, func(e error) bool { return errors.Is(e, err) }) {
		j.errs = append(j.errs, err)
	}
}

func (j *joined) err() error {
	if j.refused == 0 {
		return nil
	}
	return &RefusedError{j.refused, slices.Clone(j.errs)}
}

func (j *joined) reset() {
	clear(j.errs)
	j.errs, j.refused = j.errs[:0], 0
}

// entryTime returns when e happened.
func entryTime(e *format.TraceEntry) int64 {
	v, _ := e.Attribute(format.AttrTime)
	if n, ok := v.I64(); ok {
		return n
	}
	return 0
}

// Log is a batch of one log record.
func (r *Recorder) Log(ref format.SpanRef, e *format.TraceEntry) error {
	if r.Discards() {
		return nil
	}
	b := r.batch()
	defer b.release()
	b.Log(ref, entryTime(e))
	b.Entry(e)
	return b.Write()
}
