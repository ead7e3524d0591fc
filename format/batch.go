package format

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/entrace-go/entrace/internal/inside"
	"github.com/entrace-go/entrace/internal/journal"
	"github.com/entrace-go/entrace/internal/record"
	"github.com/entrace-go/entrace/internal/wire"
)

// A Span is an OpenTelemetry span with its links and events.
type Span struct {
	// Entry is the span's entry; Parent is not used. It has no attributes
	// trace_id and parent_span_id: the recorder adds them where they are needed.
	Entry TraceEntry
	// Children are the entries of its links and events, in their order.
	Children []TraceEntry

	SpanHead
}

// A SpanHead says where a span belongs.
type SpanHead struct {
	Ref      SpanRef
	Parent   SpanRef   // zero for the first span of a trace
	Remote   bool      // the parent is a span of another process
	Resource *Resource // of this recorder; nil, or of another one: the root
	// Time is when the span began, in nanoseconds since 1970. Where several
	// goroutines record, entries are written in the order of their times. Zero is
	// now.
	Time int64
	// Wait makes the span wait when its parent is local and not written yet, as
	// an exporter meets children before their parents.
	Wait bool
	// Open says that the span has not ended: EndSpan will describe the rest.
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

// CallSite returns the call site that m describes. Records whose message is the very
// string message need no room for it.
func (r *Recorder) CallSite(m *Metadata, message string) *CallSite {
	c := &CallSite{owner: r}
	if !r.Discards() {
		h := head(Some(message), m)
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
// A Batch can be used again after Write, by one goroutine at a time. What is written with
// one is written in that order, whatever the clock says. Names may be retained and must not
// change.
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
	event    inside.Event
	silent   bool // nobody is told of it
	err      error

	rec    journal.Record // that is handed over
	handed int            // records
	errs   joined
}

// Batch returns an empty batch. Who writes often keeps it, as it is large.
func (r *Recorder) Batch() *Batch {
	b := &Batch{r: r, hint: newHint(r)}
	b.b.In, b.b.MaxText = r.intern, r.maxText
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

// Discard takes back the record that is built, and forgets what came of those that were
// handed over.
func (b *Batch) Discard() {
	b.kind, b.err, b.handed = 0, nil, 0
	b.event.Message, b.rec.With = "", nil // it keeps nothing alive
	if b.errs.refused > 0 {
		b.errs.reset()
	}
}

// begin begins a record.
func (b *Batch) begin(kind record.Kind, flags uint8, ref, parent *SpanRef, resource uint16, unixNano int64) {
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
	refs := [2]record.Ref{ref.key()}
	if flags&record.FlagParent != 0 {
		refs[1] = parent.key()
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
	if kind == record.KindEither {
		entries--
	}
	err := b.err
	b.err = nil
	if entries <= 0 || b.r.Discards() {
		return
	}
	if b.time == 0 {
		b.time = time.Now().UnixNano()
	}
	rec := &b.rec
	b.b.Record(rec)
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

// Log begins a log record, of one entry, of the span ref, or of none when ref is zero. It
// is written below that span, or when that one is not in the file below the latest
// resource, else the root, and then gets the attributes trace_id and span_id, which it
// must not have itself. The time, in nanoseconds since 1970, is for the order of entries;
// zero is now.
func (b *Batch) Log(ref SpanRef, unixNano int64) {
	if !ref.IsValid() {
		b.begin(record.KindLog, 0, nil, nil, uint16(b.r.latest.Load()), unixNano)
		b.event.Ref = record.Ref{}
		return
	}
	b.begin(record.KindLog, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
	b.event.Ref = ref.key()
}

// Span begins a span. The entries that follow are the span's own, then its links and
// events.
func (b *Batch) Span(h *SpanHead) { b.span(record.KindSpan, h) }

func (b *Batch) span(kind record.Kind, h *SpanHead) {
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
	b.begin(kind, flags, &h.Ref, &h.Parent, resource, h.Time)
}

// EndSpan begins the end of the span ref, which was written with Open. The entries that
// follow are the links and events that came since it began, and last what describes its
// end. They are written below its entry, or dropped as [ErrNotOpen] when there is none.
func (b *Batch) EndSpan(ref SpanRef, unixNano int64) {
	b.begin(record.KindEnd, record.FlagRef, &ref, nil, uint16(b.r.latest.Load()), unixNano)
}

// SpanOrEnd begins the end of a span of which the caller does not know whether its start
// was recorded. The entries that follow are the span as a whole, its links and events, and
// last what describes its end. Where the span is in the file the first is left out, else
// the last.
func (b *Batch) SpanOrEnd(h *SpanHead) { b.span(record.KindEither, h) }

// Write hands over what was built. When it returns, the batch is as safe as the
// recorder's [Durability] says. The error is a [*RefusedError].
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

// Undo takes back the entries of the record that is built.
func (b *Batch) Undo() { b.kind, b.err = 0, nil }

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

// head returns the head of an entry.
func head(message Optional[string], m *Metadata) wire.Head {
	return wire.Head{
		Message: message.Value, HasMessage: message.Valid, Name: m.Name, Target: m.Target, Level: uint8(m.Level),
		Module: m.ModulePath.Value, HasModule: m.ModulePath.Valid, File: m.File.Value, HasFile: m.File.Valid,
		Line: m.Line.Value, HasLine: m.Line.Valid,
	}
}

// Begin begins an entry. The recorder finds its parent.
func (b *Batch) Begin(message Optional[string], m *Metadata) {
	h := head(message, m)
	b.b.Head(&h)
	b.level(m.Level, message.Value)
}

// BeginAt begins the entry of a log record at a call site of the same recorder.
func (b *Batch) BeginAt(c *CallSite, l Level, message string) {
	if c.owner != b.r || c.place == nil {
		b.err = ErrForeign
		return
	}
	b.b.Place(c.place, uint8(l), message)
	b.level(l, message)
}

// level notes what the first entry of a record is.
func (b *Batch) level(l Level, message string) {
	if l >= numLevels {
		b.err = ErrBadLevel
	}
	b.event.Level, b.event.Message = uint8(l), message
}

// End ends an entry.
func (b *Batch) End() { b.b.End() }

// User says that the attributes that follow are the application's: a name that is
// reserved is escaped, see the package documentation, and one that comes twice gets "#2". Before User,
// names are stored as they are.
func (b *Batch) User() { b.b.User() }

// Group makes name and a dot the prefix of the application's attributes that follow, until
// EndGroup or the end of the entry.
func (b *Batch) Group(name string) { b.b.Group(name) }

// EndGroup ends the last group.
func (b *Batch) EndGroup() { b.b.EndGroup() }

// Truncated marks the entry with [AttrTruncated].
func (b *Batch) Truncated() { b.b.Truncated() }

// String adds an attribute. A text that is not valid UTF-8 becomes Bytes.
func (b *Batch) String(name, value string) { b.b.String(name, value) }

// JSON adds an attribute whose value is a JSON text, and names it in [AttrJSON].
func (b *Batch) JSON(name, value string) { b.b.JSON(name, value) }

// AnyValue adds an attribute whose value is the OTLP/JSON text of an AnyValue, and names
// it in [AttrAnyValue].
func (b *Batch) AnyValue(name, value string) { b.b.AnyValue(name, value) }

// Bytes adds an attribute.
func (b *Batch) Bytes(name string, value []byte) {
	v := BytesValue(value)
	b.b.Bytes(name, v.Text())
}

// Bool adds an attribute.
func (b *Batch) Bool(name string, value bool) { b.b.Bool(name, value) }

// Float adds an attribute.
func (b *Batch) Float(name string, value float64) { b.b.Float(name, FloatValue(value).lo) }

// U64 adds an attribute.
func (b *Batch) U64(name string, value uint64) {
	if value == uint64(b.time) && value != 0 && b.kind != 0 && name == AttrTime { // 0 becomes now
		b.b.RecordTime()
		return
	}
	b.b.U64(name, value)
}

// I64 adds an attribute.
func (b *Batch) I64(name string, value int64) { b.b.I64(name, value) }

// Duration adds an attribute that is an I64 of nanoseconds.
func (b *Batch) Duration(name string, d time.Duration) { b.b.Duration(name, d) }

// Time adds an attribute that is the text of t as [time.RFC3339Nano] has it.
func (b *Batch) Time(name string, t time.Time) { b.b.Time(name, t) }

// ID adds an attribute that is the text of a trace or span id: two lower-case hex digits
// a byte.
func (b *Batch) ID(name string, id []byte) { b.b.Hex(name, id) }

// Value adds an attribute of any kind.
func (b *Batch) Value(name string, v *Value) {
	switch v.kind {
	case KindString:
		b.b.String(name, v.Text())
	case KindBytes:
		b.b.Bytes(name, v.Text())
	case KindBool:
		b.b.Bool(name, v.lo != 0)
	case KindFloat:
		b.b.Float(name, v.lo)
	case KindU64:
		b.U64(name, v.lo)
	case KindI64:
		b.b.I64(name, int64(v.lo))
	case KindU128, KindI128:
		b.b.Wide(name, v.kind == KindI128, v.hi, v.lo)
	}
}

// Entry adds an entry. Its parent is not used.
func (b *Batch) Entry(e *TraceEntry) {
	b.Begin(e.Message, &e.Metadata)
	for i := range e.Attributes {
		b.Value(e.Attributes[i].Name, &e.Attributes[i].Value)
	}
	b.End()
}

// Attributes are attributes that many records have in common. They are made by
// [Batch.Attributes], belong to one recorder, and are safe for concurrent use.
type Attributes struct {
	owner  *Recorder
	shared atomic.Pointer[journal.Shared]
	uses   atomic.Uint32 // up to the last of renumberAt
}

// After so many uses the names of Attributes get numbers. Those that are used less often, as
// of a request, have to do without, so that names which never come again take none.
var renumberAt = [2]uint32{8, 64}

// used counts a use.
func (a *Attributes) used() {
	if a.uses.Load() >= renumberAt[1] {
		return
	}
	if n := a.uses.Add(1); n != renumberAt[0] && n != renumberAt[1] {
		return
	}
	if items := a.owner.intern.Renumber(a.shared.Load().Bytes()); items != nil {
		a.shared.Store(journal.NewShared(items))
	}
}

// Attributes returns the attributes and open groups of before, which may be nil, and those
// that build adds to b, for Share. The record that b is building is lost.
func (b *Batch) Attributes(before *Attributes, build func(*Batch)) *Attributes {
	b.Undo()
	b.b.Reset(0, nil, nil)
	b.b.Head(&wire.Head{})
	b.b.User()
	from := b.b.Mark()
	if before != nil && before.owner == b.r {
		b.b.Append(before.shared.Load().Bytes())
	}
	build(b)
	a := &Attributes{owner: b.r}
	a.shared.Store(journal.NewShared(b.b.Items(from)))
	return a
}

// Share adds attributes to a log record. Groups that they leave open stay so. Several
// records together need little more room than one.
func (b *Batch) Share(a *Attributes) {
	if a.owner != b.r {
		b.err = ErrForeign
		return
	}
	a.used()
	b.b.Share(a.shared.Load())
}

// ErrForeign is returned for a call site or attributes of another recorder.
var ErrForeign = errors.New("format: it belongs to another recorder")

// Add adds a span.
func (b *Batch) Add(s *Span) {
	h := s.SpanHead
	if h.Time == 0 {
		h.Time = entryTime(&s.Entry)
	}
	b.Span(&h)
	b.Entry(&s.Entry)
	for i := range s.Children {
		b.Entry(&s.Children[i])
	}
}

// WriteSpan is a batch of one span.
func (r *Recorder) WriteSpan(s *Span) error {
	if r.Discards() {
		return nil
	}
	b := r.batch()
	defer b.release()
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
	b := r.batch()
	defer b.release()
	b.EndSpan(ref, 0)
	for i := range children {
		b.Entry(&children[i])
	}
	b.Entry(end)
	return b.Write()
}

// Log is a batch of one log record.
func (r *Recorder) Log(ref SpanRef, e *TraceEntry) error {
	if r.Discards() {
		return nil
	}
	b := r.batch()
	defer b.release()
	b.Log(ref, entryTime(e))
	b.Entry(e)
	return b.Write()
}

// ErrNotOpen is why the end of a span was dropped that is not in the file.
var ErrNotOpen = errors.New("format: no entry of that span")
