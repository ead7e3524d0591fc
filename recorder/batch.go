package recorder

import (
	"errors"
	"slices"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/write/inside"
)

// A Span identifies a span, its parent and its resource.
type Span struct {
	Ref      format.SpanRef
	Parent   format.SpanRef // zero for the first span of a trace
	Remote   bool           // the parent is a span of another process
	Resource *Resource      // nil, or a resource of another recorder: the span is below the root
	// Time is the start of the span, in nanoseconds since 1970; zero means now. If several goroutines
	// record, entries are written in the order of their times.
	Time int64
	// Wait makes the span wait until its parent is written, if the parent is a span of this process.
	// Exporters set it, because they get a span before its parent.
	Wait bool
	// Open means that the span has not ended; EndSpan adds the rest later. If a span without Open has the
	// Ref of an open span in the file, it ends the open span, and the recorder writes only a part of its
	// data: the attributes of an end, all attributes of the application, the links and the events.
	Open bool
}

// A Resource is the entry of an OpenTelemetry resource. Spans without a local parent are written below it.
type Resource struct {
	owner  *Recorder
	number uint16
}

// A Batch builds records and passes them to a recorder. Log, Span and EndSpan begin a record; the entries
// that follow belong to that record. Begin begins an entry, Attr adds an attribute, and End ends the entry. An
// entry without End is left out. Entry adds a complete entry. The recorder gets a record when the next record
// begins, or when Write is called.
//
// A Batch can be used again after Write, by one goroutine at a time. The entries of one Batch are written
// in the order of its calls, even if their times have another order. A Batch keeps no reference to the
// strings that it gets.
type Batch struct {
	r    *Recorder
	b    record.Builder
	hint journal.Hint

	// The record that is being built.
	kind     record.Kind // 0: no record
	flags    uint8
	provider record.Provider
	resource uint16
	time     int64
	event    record.Event
	silent   bool // the record fires no trigger
	err      error

	rec    journal.Record // the argument of target.Put, reused
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

// batch returns a batch from the pool. The caller must call release.
func (r *Recorder) batch() *Batch {
	if b, ok := r.batches.Get().(*Batch); ok {
		return b
	}
	return r.Batch()
}

// release empties b and returns it to the pool.
func (b *Batch) release() {
	b.discard()
	b.r.batches.Put(b)
}

// discard drops the record that is being built, and removes the errors of earlier records.
func (b *Batch) discard() {
	b.kind, b.err, b.handed = 0, nil, 0
	b.event.Message, b.event.Panic, b.rec.With = "", "", nil // release the memory
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
		b.b.SetTime(unixNano)
		return
	}
	refs := [2]record.Ref{keyOf(ref)}
	if flags&record.FlagParent != 0 {
		refs[1] = keyOf(parent)
	}
	b.b.Reset(flags, &refs[0], &refs[1])
	b.b.SetTime(unixNano)
}

// keyOf returns s in the form that journal records use.
func keyOf(s *format.SpanRef) (r record.Ref) {
	copy(r[:16], s.TraceID[:])
	copy(r[16:], s.SpanID[:])
	return r
}

// handOver passes the finished record to the recorder.
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
		b.flags &^= record.FlagWait // a waiting record may be copied to another segment, but its shared attributes cannot
	}
	rec.Time = b.time
	rec.Info = record.Info(kind, uint8(b.provider), b.flags, b.resource, entries)
	rec.Leaf, rec.End = kind == record.KindLog || kind == record.KindEnd, kind == record.KindEnd
	b.handed++
	if err == nil {
		event := &b.event
		switch {
		case b.silent:
			event = nil
		case !event.Ended:
			event.Level, event.Message = b.b.Level(), b.b.Message()
		}
		err = b.r.target.Put(rec, &b.hint, event)
	} else {
		b.r.target.Drop(err, entries, rec.Info.Spans())
	}
	if err != nil {
		b.errs.add(err)
	}
}

// Log begins a log record, which has one entry. The record belongs to the span ref, or to no span if ref is
// zero. It is written below its span. If the span is not in the file, the record gets the attributes
// trace_id and span_id, and is written below the latest resource, or below the root if the recorder has no
// resource. The caller must not add these attributes. unixNano, the time in nanoseconds since 1970, decides
// the order of entries; zero means now.
func (b *Batch) Log(ref format.SpanRef, unixNano int64) {
	if !ref.IsValid() {
		b.begin(record.KindLog, 0, nil, nil, uint16(b.r.latest.Load()), unixNano)
		b.event.Ref, b.event.Ended = record.Ref{}, false
		return
	}
	b.begin(record.KindLog, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
	b.event.Ref, b.event.Ended = keyOf(&ref), false
}

// Below sets the resource of a log record that began with Log. If the record is not written below its span,
// it is written below this resource, not below the latest one. A resource of another recorder is ignored.
// After Below, the log record waits with its span if the span waits for its parent.
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

// EndSpan begins the record of the end of the span ref, which was written with Open. The last entry of the
// record describes the end. The entries before it are links and events that were added after the start. All
// entries are written below the entry of the span. If the file has no entry for the span, they are dropped
// as invalid.
func (b *Batch) EndSpan(ref format.SpanRef, unixNano int64) {
	b.begin(record.KindEnd, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
}

// Begin begins an entry. The recorder finds the parent of the entry.
func (b *Batch) Begin(message format.Optional[string], m *format.Metadata) {
	h := inside.Head(m, message)
	b.b.Head(&h)
	if m.Level > format.LevelError {
		b.err = format.ErrInvalid
	}
}

// End ends an entry.
func (b *Batch) End() { b.b.End() }

// User begins the attributes of the application. From here on, a reserved name is escaped, as the tables of
// package slogadapter say, and a name that occurs twice gets "#2". Names before User are stored unchanged.
func (b *Batch) User() { b.b.User() }

func (b *Batch) value(name string, v *format.Value) {
	hi, lo := v.Words()
	b.b.Value(name, uint8(v.Kind()), v.Text(), hi, lo)
}

// Attr adds an attribute.
func (b *Batch) Attr(name string, v format.Value) { b.value(name, &v) }

// Entry adds the entry e. It ignores e.Parent.
func (b *Batch) Entry(e *format.TraceEntry) {
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		b.value(e.Attributes[i].Name, &e.Attributes[i].Value)
	}
	b.End()
}

// Write passes the last record to the recorder. When Write returns, the records of the batch
// are as safe as the recorder's [Durability] says. The error is a [*RefusedError].
func (b *Batch) Write() error {
	b.handOver()
	defer b.discard()
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
	Errs    []error // without duplicates
}

func (e *RefusedError) Error() string { return errors.Join(e.Errs...).Error() }

// Unwrap returns Errs.
func (e *RefusedError) Unwrap() []error { return e.Errs }

// joined collects the errors of records, without duplicates.
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

// Log records one log record, with a [Batch] of its own.
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

// Append writes e below the entry e.Parent and returns the id of e. It first waits until the earlier
// records are written. Text that is not valid UTF-8 is changed: a String becomes Bytes, and in other text
// U+FFFD replaces the invalid bytes. If the recording has several files, the parent must be the root,
// because an id is valid in one file only. In a flight recorder, the parent must also be the root, and
// Append returns 0.
func (r *Recorder) Append(e *format.TraceEntry) (uint32, error) { return r.append(e, false) }

func (r *Recorder) append(e *format.TraceEntry, anchor bool) (uint32, error) {
	if r.Discards() {
		return 0, nil
	}
	if e.Metadata.Level > format.LevelError {
		r.target.Drop(format.ErrInvalid, 1, 0)
		return 0, format.ErrInvalid
	}
	at := entryTime(e)
	if at == 0 {
		at = time.Now().UnixNano()
	}
	b := r.batch()
	defer b.release()
	b.b.Reset(0, nil, nil)
	b.Entry(e)
	var rec journal.Record
	b.b.Record(&rec)
	rec.Time, rec.Info = at, record.Info(record.KindLog, uint8(record.ProviderLogs), 0, 0, 1)
	return r.target.Append(&rec, e.Parent, anchor)
}

// Resource writes the entry of a resource below the root and returns the resource. Equal entries are
// written once. Log records without a span are written below the latest resource. Resource waits for the
// disk, at most for MaxBlock. The error is [format.ErrTooLarge] if the resources are too many or too large,
// and [ErrOverflow] if the disk does not respond.
func (r *Recorder) Resource(e *format.TraceEntry) (*Resource, error) {
	res := &Resource{owner: r}
	if r.Discards() {
		return res, nil
	}
	if e.Metadata.Level > format.LevelError {
		return nil, format.ErrInvalid
	}
	b := &Batch{r: r} // no Interner: names would get numbers, and equal entries could have different bytes
	b.b.MaxText, b.b.Redact = r.maxText, r.redactor()
	b.b.Reset(0, nil, nil)
	b.Entry(e)
	number, isNew, err := r.intern.Resource(b.b.Data(), func(number uint16) { _ = r.putResource(number) })
	switch {
	case errors.Is(err, record.ErrBusy):
		return nil, ErrOverflow
	case err != nil:
		return nil, format.ErrTooLarge
	}
	res.number = number
	if !isNew {
		r.latest.Store(uint32(number))
		return res, nil
	}
	return res, r.putResource(number)
}

// putResource makes a resource the latest one, and records its existence.
func (r *Recorder) putResource(number uint16) error {
	r.latest.Store(uint32(number))
	rec := journal.Record{
		Time: time.Now().UnixNano(), Info: record.Info(record.KindResource, 0, 0, number, 0), Data: make([]byte, journal.HeadSize),
	}
	hint := r.target.NewHint()
	if err := r.target.Put(&rec, &hint, nil); err != nil && !errors.Is(err, ErrClosed) {
		return err // no loss: the writer writes the resource with the first record that needs it
	}
	return nil
}
