package recorder

import (
	"errors"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
)

// A Span identifies a span, its parent and its resource.
type Span struct {
	Ref      format.SpanRef
	Parent   format.SpanRef // zero for the first span of a trace
	Remote   bool           // the parent is a span of another process
	Resource *Resource      // a resource of this recorder; nil or one of another recorder means the root
	// Time is when the span began, in nanoseconds since 1970. If several
	// goroutines record, entries are written in the order of their times. Zero means
	// now.
	Time int64
	// Wait makes the span wait if its parent is local and not written yet. An exporter
	// sets it, because spans reach it before their parents.
	Wait bool
	// Open says that the span has not ended: EndSpan will describe the rest. If the file
	// already has an open span with the same Ref, a span without Open ends the open span. The
	// open span then gets the attributes of an end, all attributes of the application, the
	// links and the events.
	Open bool
}

// A Resource is an entry under which local root spans are written.
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

// A Batch builds records and passes them to a recorder. Log, Span and EndSpan begin a
// record; the entries that follow belong to that record. Begin or BeginAt begins an entry,
// String and similar methods add attributes, and End ends the entry. An entry without End
// is left out. Entry adds a complete entry. The recorder gets a record when the next record
// begins, or when Write is called.
//
// A Batch can be used again after Write, by one goroutine at a time. The entries of one
// Batch are written in the order of its calls, whatever the clock says. A Batch keeps no
// reference to the strings that it gets.
type Batch struct {
	r    *Recorder
	b    record.Builder
	hint journal.Hint

	// These fields describe the record that is being built.
	kind     record.Kind // 0: no record
	flags    uint8
	provider record.Provider
	resource uint16
	time     int64
	event    record.LogEvent
	silent   bool // the record fires no trigger
	err      error

	rec    journal.Record // memory for handOver
	handed int            // number of records passed to the recorder
	errs   joined
}

// Batch returns an empty batch. A batch is large: callers that write often should reuse it.
func (r *Recorder) Batch() *Batch {
	b := &Batch{r: r}
	if !r.Discards() {
		b.hint = r.target.NewHint()
	}
	b.b.In, b.b.MaxText, b.b.Redact = r.intern, r.maxText, r.redactor()
	return b
}

// batch returns a batch from the pool, to be given back by release.
func (r *Recorder) batch() *Batch {
	if b, ok := r.batches.Get().(*Batch); ok {
		return b
	}
	return r.Batch()
}

// release empties b and gives it back to the pool.
func (b *Batch) release() {
	b.Discard()
	b.r.batches.Put(b)
}

// Discard drops the record that is being built, and forgets the errors of earlier records.
func (b *Batch) Discard() {
	b.kind, b.err, b.handed = 0, nil, 0
	b.event.Message, b.rec.With = "", nil // let the garbage collector free them
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

// handOver passes the record that was built to the recorder.
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
		b.flags &^= record.FlagWait // shared attributes cannot move, so the record cannot wait
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
// record is written below the latest resource, or below the root if the recorder has no
// resource; the record then gets the attributes trace_id and span_id, which the caller must
// not add. unixNano, the time in nanoseconds since 1970, decides the order of entries; zero
// means now.
func (b *Batch) Log(ref format.SpanRef, unixNano int64) {
	if !ref.IsValid() {
		b.begin(record.KindLog, 0, nil, nil, uint16(b.r.latest.Load()), unixNano)
		b.event.Ref = record.Ref{}
		return
	}
	b.begin(record.KindLog, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
	b.event.Ref = keyOf(&ref)
}

// Below makes r the resource below which a log record is written if it is not written below its
// span. Without Below the latest resource is used. Call Below after Log. If r belongs to
// another recorder, the latest resource remains. A log record with Below waits for its span
// while the span waits for its parent.
func (b *Batch) Below(r *Resource) {
	b.flags |= record.FlagWait
	if r != nil && r.owner == b.r {
		b.resource = r.number
	}
}

// Span begins a span. The first entry that follows describes the span itself; the others are
// its links and events.
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
// follow are the links and events added since the span began. The last entry describes the
// end of the span. All of them are written below the entry of the span. If the span has no
// entry, they are dropped as invalid.
func (b *Batch) EndSpan(ref format.SpanRef, unixNano int64) {
	b.begin(record.KindEnd, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
}

// Elsewhere says that the span ref is in another file, so that spans no longer wait for it. Call
// Elsewhere before the other records of the batch.
func (b *Batch) Elsewhere(ref format.SpanRef) {
	b.begin(record.KindElsewhere, record.FlagRef, &ref, nil, 0, 0)
	b.handOver()
	b.Discard() // ignore an error: without this record the spans wait until their bounds end the wait
}

// Undo drops the record that is being built, and counts it as an invalid record.
func (b *Batch) Undo() {
	if b.kind != 0 && !b.r.Discards() {
		entries := max(b.b.Entries(), 1)
		b.r.target.Drop(format.ErrInvalid, entries, record.Info(b.kind, uint8(b.provider), b.flags, b.resource, entries).Spans())
	}
	b.kind, b.err = 0, nil
}

// Write passes the last record to the recorder. When Write returns, the records of the batch
// are as safe as the recorder's [Durability] says. The error is a [*RefusedError].
func (b *Batch) Write() error {
	b.handOver()
	defer b.Discard()
	if b.handed > b.errs.refused && b.r.target.Waits() {
		if err := b.r.target.Wait(); err != nil {
			b.errs.add(err)
			b.errs.refused = b.handed
		}
	}
	return b.errs.err()
}

// A RefusedError says how many records of a [Batch] the recorder refused, and why.
type RefusedError struct {
	Records int
	Errs    []error // each kind of error once
}

func (e *RefusedError) Error() string { return errors.Join(e.Errs...).Error() }

// Unwrap returns Errs.
func (e *RefusedError) Unwrap() []error { return e.Errs }

// joined gathers the errors of records. It keeps each kind of error once.
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

// entryTime returns the time of e in nanoseconds since 1970, 0 if e has no time.
func entryTime(e *format.TraceEntry) int64 {
	v, _ := e.Attribute(format.AttrTime)
	if n, ok := v.I64(); ok {
		return n
	}
	return 0
}

// Log records one log record, as a [Batch] of its own.
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
