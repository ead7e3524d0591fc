package placer_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/journal"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/placer"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
)

// A rig is a Placer, with an Interner and a Builder for its records.
type rig struct {
	*placer.Placer

	b       *record.Builder
	in      *record.Interner
	o       placer.Options
	dropped []string
}

func newRig(o placer.Options) *rig {
	r := &rig{in: record.NewInterner(nil, nil), o: o}
	r.b = &record.Builder{In: r.in}
	r.o.MaxEntrySize = max(o.MaxEntrySize, 64<<10)
	if o.MaxEntrySize > 0 {
		r.o.MaxEntrySize = o.MaxEntrySize
	}
	r.o.MaxPendingSpans = max(o.MaxPendingSpans, 3)
	r.o.MaxPendingBytes = max(o.MaxPendingBytes, 1<<20)
	r.o.MaxPendingAge = max(o.MaxPendingAge, time.Minute)
	if r.o.Unpark == nil {
		r.o.Unpark = func(*journal.Segment) {}
	}
	r.Placer = placer.New(&r.in.Table, &r.o)
	r.Drop = func(err error, entries, spans int) {
		r.dropped = append(r.dropped, fmt.Sprintf("%v: %d %d", err, entries, spans))
	}
	r.Resume(0, wire.MagicSize, 0)
	r.Root()
	return r
}

// ref returns the ids of the test span n. Spans 1 to 99 are in trace 1.
func ref(n int) (r record.Ref) {
	if n > 0 {
		r[15], r[23] = byte(1+n/100), byte(n)
	}
	return r
}

// place builds a record and places it. 0 as id or parent means none.
func (r *rig) place(kind record.Kind, flags uint8, resource uint16, id, parent int, build func(b *record.Builder)) {
	r.Place(r.record(kind, flags, resource, id, parent, build))
}

func (r *rig) record(kind record.Kind, flags uint8, resource uint16, id, parent int, build func(b *record.Builder)) *journal.Entry {
	of, up := ref(id), ref(parent)
	if id > 0 {
		flags |= record.FlagRef
	}
	if parent > 0 {
		flags |= record.FlagParent
	}
	r.b.Reset(flags, &of, &up)
	build(r.b)
	data := append(slices.Clone(r.b.Data()), make([]byte, 8)...) // the data of a record in a journal ends with a few zeros
	entries := r.b.Entries()
	if kind == record.KindEither {
		entries-- // Entries counts the span or its end, not both
	}
	return &journal.Entry{Time: 1, Info: record.Info(kind, 0, flags, resource, entries), Data: data}
}

func named(names ...string) func(b *record.Builder) {
	return func(b *record.Builder) {
		for _, name := range names {
			b.Head(&wire.Head{Name: name})
			b.End()
		}
	}
}

func (r *rig) span(id, parent int, flags uint8, more ...string) {
	r.place(record.KindSpan, flags, 0, id, parent, named(append([]string{fmt.Sprint("s", id)}, more...)...))
}

// entries decodes the staged entries.
func (r *rig) entries(t *testing.T) []format.TraceEntry {
	t.Helper()
	return r.entriesFrom(t, 0)
}

// entriesFrom decodes the staged entries. The id of the first of them is first.
func (r *rig) entriesFrom(t *testing.T, first int) []format.TraceEntry {
	t.Helper()
	v := format.V1
	if r.o.Columns {
		v = format.V2
	}
	out, staged := r.Out()
	var list []format.TraceEntry
	from := 0
	for i, s := range staged {
		var e format.TraceEntry
		n, err := format.DecodeTraceEntry(out[from:s.End], v, &e)
		if err != nil || n != s.End-from || int(s.ID) != first+i || e.Parent != s.Parent {
			t.Fatalf("entry %d of %d bytes: %d, %v, %+v", i, s.End-from, n, err, s)
		}
		list = append(list, *e.Clone())
		from = s.End
	}
	return list
}

// tree returns a line with all entries, each with its parent's name and its attributes.
func (r *rig) tree(t *testing.T) string {
	t.Helper()
	list := r.entries(t)
	var b strings.Builder
	for i := range list[1:] {
		e := &list[i+1]
		fmt.Fprintf(&b, "%s<%s", e.Metadata.Name, list[e.Parent].Metadata.Name)
		for _, a := range e.Attributes {
			fmt.Fprintf(&b, " %s=%s", a.Name, strings.TrimLeft(a.Value.Text(), "0"))
		}
		b.WriteString("; ")
	}
	return strings.TrimSuffix(b.String(), "; ")
}

func (r *rig) want(t *testing.T, want string, dropped ...string) {
	t.Helper()
	expect.Equal(t, r.tree(t), want, "the tree")
	expect.Slice(t, r.dropped, dropped, "dropped")
}

func TestSpansHangBelowTheirParents(t *testing.T) {
	r := newRig(placer.Options{})
	r.span(1, 0, record.FlagOpen)
	r.span(2, 1, 0, "link", "event")
	r.span(3, 9, 0)                                     // the parent is unknown
	r.span(101, 1, 0)                                   // the parent is in another trace
	r.place(record.KindLog, 0, 0, 2, 0, named("log"))   // the span has ended
	r.place(record.KindLog, 0, 0, 9, 0, named("stray")) // the span is unknown
	r.place(record.KindLog, 0, 0, 0, 0, named("none"))  // without a span
	r.place(record.KindEnd, 0, 0, 1, 0, named("late event", "end"))
	r.place(record.KindEnd, 0, 0, 9, 0, named("end of nothing"))                     // dropped
	r.place(record.KindEither, 0, 0, 2, 1, named("s2 again", "its link", "its end")) // s2 exists: only the end is staged
	r.place(record.KindEither, 0, 0, 5, 1, named("s5", "its end"))                   // s5 is new: the whole span is staged
	r.place(record.KindSpan, record.FlagOpen, 0, 6, 1, named("s6"))                  // open
	r.place(record.KindSpan, 0, 0, 6, 1, named("s6", "its event"))                   // s6 is open: its end is staged
	r.place(record.KindSpan, 0, 0, 6, 1, named("s6 again"))                          // s6 has ended: this is another span
	r.want(t, "s1<root trace_id=1; s2<s1; link<s2; event<s2; s3<root trace_id=1 parent_span_id=9; "+
		"s101<s1 trace_id=2 parent_span_id=1; log<s2; stray<root trace_id=1 span_id=9; none<root; "+
		"late event<s1; end<s1; its link<s2; its end<s2; s5<s1; s6<s1; its event<s6; span end<s6; s6 again<s1", "the file has no entry for the span that ended: 1 0")
}

// TestWholeSpanEndsOneOfEarlierFile places a whole span that an earlier file has as an open span. The file must
// have the span once, with its end, and the Placer must forget the open span.
func TestWholeSpanEndsOneOfEarlierFile(t *testing.T) {
	r := newRig(placer.Options{})
	r.Leave(r.record(record.KindSpan, record.FlagOpen, 0, 1, 0, named("s1")))
	r.span(1, 0, 0, "event")
	r.want(t, "s1<root trace_id=1; event<s1; span end<s1")
	expect.Equal(t, r.Left(), 0, "spans of earlier files left")
}

// TestWholeSpanLeavesEnd checks the entry of a span's end that is made from a record of the whole span. It must
// have the attributes that the documentation of package exporter lists for an end.
func TestWholeSpanLeavesEnd(t *testing.T) {
	r := newRig(placer.Options{})
	r.span(1, 0, record.FlagOpen)
	r.place(record.KindSpan, 0, 0, 1, 0, func(b *record.Builder) {
		b.Head(&wire.Head{Name: "s1", Level: 2})
		b.Hex("span_id", []byte{7})
		b.U64("time_unix_nano", 1)
		b.RecordTime()
		b.U64("duration_nano", 5)
		b.String("otel.kind", "server")
		b.String("otel.status_code", "ERROR")
		b.String("otel.scope.version", "v1")
		b.User()
		b.String("x", "1")
		b.String("otel.kind", "mine")
		b.End()
	})
	end := r.entries(t)[2]
	var names []string
	for _, a := range end.Attributes {
		names = append(names, a.Name)
	}
	expect.Equal(t, strings.Join(names, " "), "span_id duration_nano otel.status_code x otel.attr.otel.kind", "the attributes")
	if end.Metadata.Name != "span end" || end.Metadata.Level != format.LevelTrace || end.Message.Value != "s1" {
		t.Errorf("the end is %+v", end)
	}
}

func TestOrphansAreKept(t *testing.T) {
	r := newRig(placer.Options{})
	r.KeepOrphans(true)
	r.place(record.KindEnd, 0, 0, 9, 0, named("event", "end"))
	r.want(t, "event<root trace_id=1 span_id=9; end<root trace_id=1 span_id=9")
}

// TestPendingSpans places spans in random order. Each span, with its log records, must be staged when its parent
// has been staged.
func TestPendingSpans(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		r := newRig(placer.Options{MaxPendingSpans: 100})
		const n = 30
		parents := make([]int, n+1)
		for id := 2; id <= n; id++ {
			parents[id] = 1 + rnd.IntN(id-1)
		}
		for _, i := range rnd.Perm(n) {
			r.span(i+1, parents[i+1], record.FlagWait, "of it")
			r.log(i+1, fmt.Sprint("l", i+1))
		}
		list := r.entries(t)
		if entries, spans, _ := r.Pending(); entries+spans > 0 || len(list) != 1+3*n || r.Entries() != uint64(len(list)) {
			t.Fatalf("%d entries and %d spans wait, %d are there", entries, spans, len(list))
		}
		for _, e := range list[1:] {
			if e.Metadata.Name == "of it" {
				continue
			}
			var id int
			if _, err := fmt.Sscanf(e.Metadata.Name, "l%d", &id); err == nil {
				expect.MustEqual(t, list[e.Parent].Metadata.Name, fmt.Sprint("s", id), "l%d is below", id)
				continue
			}
			_, _ = fmt.Sscanf(e.Metadata.Name, "s%d", &id)
			if up := list[e.Parent].Metadata.Name; parents[id] > 0 && up != fmt.Sprint("s", parents[id]) {
				t.Fatalf("s%d is below %s, want s%d", id, up, parents[id])
			}
		}
	}
}

// log places a log record that waits if its span is pending.
func (r *rig) log(span int, name string) {
	r.place(record.KindLog, record.FlagWait, 0, span, 0, named(name))
}

// TestPendingLogs checks that a log record is pending if its span is pending, and only then.
func TestPendingLogs(t *testing.T) {
	r := newRig(placer.Options{})
	r.log(2, "early")
	r.span(2, 1, record.FlagWait)
	r.log(2, "first")
	r.place(record.KindLog, 0, 0, 2, 0, named("impatient"))
	r.log(2, "second")
	const before = "early<root trace_id=1 span_id=2; impatient<root trace_id=1 span_id=2"
	r.want(t, before)
	if entries, spans, _ := r.Pending(); entries != 3 || spans != 1 {
		t.Errorf("%d entries and %d spans are pending, want 3 and 1", entries, spans)
	}
	r.span(1, 0, 0)
	r.log(2, "third")
	r.want(t, before+"; s1<root trace_id=1; s2<s1; first<s2; second<s2; third<s2")
}

// TestElsewhere says that a span is in another file. The records that wait for it must be staged, and the records
// that wait for those.
func TestElsewhere(t *testing.T) {
	r := newRig(placer.Options{})
	r.span(3, 2, record.FlagWait)
	r.log(3, "l3")
	r.span(2, 1, record.FlagWait)
	r.span(5, 4, record.FlagWait)
	r.place(record.KindElsewhere, 0, 0, 1, 0, func(*record.Builder) {})
	r.want(t, "s2<root trace_id=1 parent_span_id=1; s3<s2; l3<s3")
	if entries, spans, _ := r.Pending(); entries != 1 || spans != 1 {
		t.Errorf("%d entries and %d spans are pending, want those of s5", entries, spans)
	}
	r.place(record.KindElsewhere, 0, 0, 4, 0, func(*record.Builder) {})
	r.place(record.KindElsewhere, 0, 0, 9, 0, func(*record.Builder) {})
	r.want(t, "s2<root trace_id=1 parent_span_id=1; s3<s2; l3<s3; s5<root trace_id=1 parent_span_id=4")
}

// TestElsewhereOfPending says that a span is in another file although it is pending here. The log records that wait
// for it must remain pending, and be staged once.
func TestElsewhereOfPending(t *testing.T) {
	r := newRig(placer.Options{MaxPendingSpans: 1000, MaxPendingBytes: 64 << 20})
	text := func(i int) string { return fmt.Sprint(i, strings.Repeat(" of many", 2500)) }
	r.span(2, 1, record.FlagWait)
	for i := range 40 {
		r.log(2, text(i))
	}
	for i := 10; i < 70; i++ { // these leave gaps in the data of pending records
		r.span(i, i+100, record.FlagWait, text(i))
	}
	for i := 10; i < 70; i++ {
		r.place(record.KindElsewhere, 0, 0, i+100, 0, func(*record.Builder) {})
	}
	r.place(record.KindElsewhere, 0, 0, 2, 0, func(*record.Builder) {})
	r.span(1, 0, 0)
	list := r.entries(t)
	var below []string
	for i := range list {
		if list[list[i].Parent].Metadata.Name == "s2" {
			below = append(below, list[i].Metadata.Name)
		}
	}
	expect.MustEqual(t, len(below), 40, "log records below their span")
	for i := range below {
		expect.Equal(t, below[i], text(i), "log record %d", i)
	}
}

// TestPendingDataIsKept checks that the data of pending records stays intact while many other records become
// pending and are staged.
func TestPendingDataIsKept(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	r := newRig(placer.Options{MaxPendingSpans: 200, MaxPendingBytes: 64 << 20})
	text := func(id int) string { return strings.Repeat(fmt.Sprint(id, ","), 200+id%1500) }
	span := func(id, parent int) {
		var ref, up record.Ref
		binary.BigEndian.PutUint64(ref[16:], uint64(id))
		binary.BigEndian.PutUint64(up[16:], uint64(parent))
		r.b.Reset(record.FlagRef|record.FlagParent, &ref, &up)
		r.b.Head(&wire.Head{Name: text(id)})
		r.b.End()
		r.Place(&journal.Entry{Time: 1, Info: record.Info(record.KindSpan, 0, record.FlagRef|record.FlagParent|record.FlagWait, 0, 1), Data: slices.Clone(r.b.Data())})
	}
	var waiting []int
	n := 0
	check := func() {
		list := r.entriesFrom(t, n)
		n += len(list)
		for i := range list {
			var id int
			_, _ = fmt.Sscanf(list[i].Metadata.Name, "%d,", &id)
			if list[i].Metadata.Name != text(id) && list[i].Metadata.Name != "root" {
				t.Fatalf("span %d is named %.40q", id, list[i].Metadata.Name)
			}
		}
		_, staged := r.Out()
		r.Flushed(len(staged))
	}
	for id := 1; id <= 6000; id++ {
		span(id, 1_000_000+id)
		waiting = append(waiting, id)
		for len(waiting) > 150 {
			at := rnd.IntN(len(waiting))
			if rnd.IntN(10) > 0 {
				at = len(waiting) - 1 - rnd.IntN(20) // most spans are pending for a short time
			}
			span(1_000_000+waiting[at], 1_000_000+waiting[at]) // a span that is its own parent is not pending
			waiting = slices.Delete(waiting, at, at+1)
		}
		check()
	}
	for r.StagePending() {
	}
	check()
	expect.Equal(t, n, 1+2*6000-150, "entries")
}

func enforce(t *testing.T, r *rig) {
	t.Helper()
	if !r.EnforceBounds(time.Now()) { // true, because there is little to stage
		t.Error("the bounds do not hold yet")
	}
}

// TestPendingHasBounds checks the bounds of number and age. The oldest pending span is then staged below its
// resource, together with the records that wait for it.
func TestPendingHasBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(placer.Options{MaxPendingSpans: 3, MaxPendingAge: time.Minute})
		r.span(2, 1, record.FlagWait)
		r.span(3, 2, record.FlagWait)
		r.span(5, 4, record.FlagWait)
		if !r.EnforceBounds(time.Now()) || len(r.entries(t)) != 1 {
			t.Error("a bound that was not reached was enforced")
		}
		r.span(7, 6, record.FlagWait)
		enforce(t, r)
		r.want(t, "s2<root trace_id=1 parent_span_id=1; s3<s2")
		time.Sleep(time.Minute)
		enforce(t, r)
		r.want(t, "s2<root trace_id=1 parent_span_id=1; s3<s2; s5<root trace_id=1 parent_span_id=4; s7<root trace_id=1 parent_span_id=6")
	})
}

// TestPendingSpansNeedRoom checks that a span that cannot be parked is staged at once. Spans that are each other's
// parents must also be staged in the end.
func TestPendingSpansNeedRoom(t *testing.T) {
	parked := 0
	r := newRig(placer.Options{
		Park:   func(*journal.Entry) (*journal.Segment, bool) { parked++; return new(journal.Segment), parked < 3 },
		Unpark: func(*journal.Segment) { parked-- },
	})
	r.span(2, 1, record.FlagWait)
	r.span(1, 2, record.FlagWait)
	r.span(4, 3, record.FlagWait)
	r.want(t, "s4<root trace_id=1 parent_span_id=3")
	for r.StagePending() {
	}
	r.want(t, "s4<root trace_id=1 parent_span_id=3; s2<root trace_id=1 parent_span_id=1; s1<s2")
	if parked != 1 { // Park has counted the refused span, and nobody unparks it
		t.Errorf("%d are parked", parked)
	}
}

// TestResources checks that a resource is staged once, before the first entry that needs it.
func TestResources(t *testing.T) {
	for _, columns := range []bool{false, true} {
		r := newRig(placer.Options{Columns: columns})
		r.b.Reset(0, nil, nil)
		r.b.Head(&wire.Head{Name: "resource"})
		r.b.String("service.name", "shop")
		r.b.End()
		number, isNew, err := r.in.Resource(slices.Clone(r.b.Data()), nil)
		if err != nil || !isNew {
			t.Fatal(isNew, err)
		}
		r.place(record.KindSpan, 0, number, 1, 0, named("s1"))
		r.place(record.KindLog, 0, number, 0, 0, named("log"))
		r.want(t, "resource<root service.name=shop; s1<resource trace_id=1; log<resource")
		if entries, spans := r.Extra(); entries != 2 || spans != 0 { // the other one is the root
			t.Errorf("%d entries and %d spans are extra", entries, spans)
		}
	}
}

// TestNamesOfUsers checks the stored names of the application's attributes: reserved names are escaped, repeated
// names get a number, and names in groups get the names of the groups.
func TestNamesOfUsers(t *testing.T) {
	for _, columns := range []bool{false, true} {
		r := newRig(placer.Options{Columns: columns})
		for range 3 { // first as texts, then as numbers, then from the cache
			r.place(record.KindLog, 0, 0, 0, 0, func(b *record.Builder) {
				b.Head(&wire.Head{Name: "log"})
				b.String("otel.kind", "own")
				b.User()
				for _, name := range []string{"a", "otel.kind", "a", "trace_id", "a", "a#2"} {
					b.String(name, "x")
				}
				b.Group("g")
				b.String("a", "x")
				b.Group("")
				b.Group("h")
				b.JSON("trace_id", "[]")
				b.EndGroup()
				b.EndGroup()
				b.EndGroup()
				b.AnyValue("z", "{}")
				b.String("\xff", "\xff")
				b.End()
			})
		}
		list := r.entries(t)
		for _, e := range list[1:] {
			var names []string
			for _, a := range e.Attributes {
				names = append(names, a.Name)
			}
			want := []string{
				"otel.kind", "a", "otel.attr.otel.kind", "a#2", "otel.attr.trace_id", "a#3", "a#2#2", "g.a", "g..h.trace_id", "z", "\uFFFD",
				mapping.AttrJSON, mapping.AttrAnyValue,
			}
			if columns {
				slices.Sort(want)
			}
			expect.Slice(t, names, want, "columns %t: the names", columns)
			if v, _ := e.Attribute(mapping.AttrJSON); v.Text() != `["g..h.trace_id"]` {
				t.Errorf("those of JSON are %s", v.Text())
			}
			if v, _ := e.Attribute("\uFFFD"); v.Kind() != format.KindBytes {
				t.Errorf("a text that is not UTF-8 is %v", v.Kind())
			}
		}
	}
}

// TestCommonAttributesAreAsOthers encodes random attributes twice: in an entry below its span, which the method
// plain encodes, and in an entry with an unknown span, which only the slower methods can encode. The results must
// be equal.
func TestCommonAttributesAreAsOthers(t *testing.T) {
	for _, columns := range []bool{false, true} {
		r, v := newRig(placer.Options{Columns: columns}), format.V1
		if columns {
			v = format.V2
		}
		r.span(1, 0, 0)
		rnd := rand.New(rand.NewPCG(7, 1))
		names := []string{"a", "b", "otel.kind", "status", "user.id", strings.Repeat("long", 50), "ü", "\xff"}
		for range 2000 {
			var attrs []func(b *record.Builder)
			for range rnd.IntN(14) {
				name, n := names[rnd.IntN(len(names))], rnd.Uint64()>>rnd.IntN(64)
				text := strings.Repeat([]string{"x", "ü", "\xff"}[rnd.IntN(3)], rnd.IntN(140))
				attrs = append(attrs, []func(b *record.Builder){
					func(b *record.Builder) { b.String(name, text) },
					func(b *record.Builder) { b.Bytes(name, text) },
					func(b *record.Builder) { b.U64(name, n) },
					func(b *record.Builder) { b.I64(name, int64(n)) },
					func(b *record.Builder) { b.Duration(name, -time.Duration(n)) },
					func(b *record.Builder) { b.Bool(name, n&1 > 0) },
					func(b *record.Builder) { b.Float(name, n) },
					func(b *record.Builder) { b.Wide(name, true, n, n) },
					func(b *record.Builder) { b.JSON(name, "[]") },
					func(b *record.Builder) { b.Group(name); b.U64(name, n); b.EndGroup() },
				}[rnd.IntN(10)])
			}
			own := rnd.IntN(len(attrs) + 1)
			for _, span := range []int{1, 2} {
				r.place(record.KindLog, 0, 0, span, 0, func(b *record.Builder) {
					b.Head(&wire.Head{Name: "log"})
					for i, add := range attrs {
						if i == own {
							b.User()
						}
						add(b)
					}
					b.End()
				})
			}
			out, staged := r.Out()
			var known, unknown format.TraceEntry
			from := len(staged) - 2
			for i, e := range []*format.TraceEntry{&known, &unknown} {
				begin := 0
				if from+i > 0 {
					begin = staged[from+i-1].End
				}
				expect.Must(t, expect.Err(format.DecodeTraceEntry(out[begin:staged[from+i].End], v, e)))
			}
			rest := slices.DeleteFunc(unknown.Attributes, func(a format.Attribute) bool {
				return a.Name == format.AttrTraceID || a.Name == format.AttrSpanID
			})
			same := func(a, b format.Attribute) bool { return a.Name == b.Name && a.Value.Equal(b.Value) }
			if len(unknown.Attributes)-len(rest) != 2 || !slices.EqualFunc(known.Attributes, rest, same) {
				t.Fatalf("columns %t: below its span\n%v\nelse\n%v", columns, known.Attributes, rest)
			}
			r.Flushed(len(staged))
			if len(r.dropped) > 0 {
				t.Fatal(r.dropped)
			}
		}
	}
}

// TestLargeEntries checks that an entry above MaxEntrySize is cut to this size.
func TestLargeEntries(t *testing.T) {
	for _, columns := range []bool{false, true} {
		r := newRig(placer.Options{Columns: columns, MaxEntrySize: 4 << 10})
		for _, n := range []int{1, 3, 500, 70_000} {
			r.place(record.KindLog, 0, 0, 0, 0, func(b *record.Builder) {
				b.Head(&wire.Head{Name: "large", Message: strings.Repeat("m", 5000), HasMessage: true})
				b.User()
				for i := range n {
					b.String(fmt.Sprint("name ", i), strings.Repeat("x", 5000/n))
				}
				b.End()
			})
		}
		list := r.entries(t)
		if len(list) != 5 || len(r.dropped) > 0 {
			t.Fatalf("%d entries, dropped are %q", len(list), r.dropped)
		}
		_, staged := r.Out()
		from := staged[0].End
		for i, s := range staged[1:] {
			if v, _ := list[i+1].Attribute(mapping.AttrTruncated); s.End-from > 4<<10 || !v.Bool() {
				t.Errorf("entry %d has %d bytes, truncated: %t", i, s.End-from, v.Bool())
			}
			from = s.End
		}
	}
}

// TestDamagedRecords checks that damaged records are dropped and counted, and that the next record is still placed.
func TestDamagedRecords(t *testing.T) {
	r := newRig(placer.Options{})
	r.Place(&journal.Entry{Info: record.Info(record.KindLog, 0, 0, 0, 1), Data: []byte{1, 2, 3, 4, 5, 6, 7, 8}})
	r.Place(&journal.Entry{Info: record.Info(record.KindSpan, 0, record.FlagRef, 0, 2), Data: []byte{1}})
	r.Place(&journal.Entry{Info: record.Info(77, 0, 0, 0, 3)})
	r.span(1, 0, 0)
	if got := r.tree(t); !strings.HasSuffix(got, "s1<root trace_id=1") {
		t.Errorf("the tree is %s", got)
	}
	if len(r.dropped) != 3 || !strings.HasSuffix(r.dropped[1], ": 2 1") || !strings.HasPrefix(r.dropped[2], placer.ErrBadRecord.Error()) {
		t.Errorf("dropped are %q", r.dropped)
	}
}

// TestLostDefinitions places a record whose definitions are missing. The entry must show their numbers instead.
func TestLostDefinitions(t *testing.T) {
	whole := newRig(placer.Options{})
	p := whole.in.Place(&wire.Head{Name: "event a.go:1", Message: "said", HasMessage: true})
	var data []byte
	for range 3 {
		whole.b.Reset(0, nil, nil)
		whole.b.Place(p, 2, "said")
		whole.b.U64("key", 7)
		whole.b.End()
		data = append(slices.Clone(whole.b.Data()), make([]byte, 8)...)
	}
	r := newRig(placer.Options{}) // without any definition
	r.Place(&journal.Entry{Info: record.Info(record.KindLog, 0, 0, 0, 1), Data: data})
	if got := r.tree(t); !strings.HasPrefix(got, "place#") || !strings.Contains(got, " key#") {
		t.Errorf("the tree is %s", got)
	}
}

// TestNextFile begins a new file. Pending records must move to it, and open spans must be known.
func TestNextFile(t *testing.T) {
	r := newRig(placer.Options{})
	r.span(1, 0, record.FlagOpen)
	r.span(2, 1, record.FlagOpen)
	r.place(record.KindEnd, 0, 0, 2, 0, named("end"))
	r.span(4, 3, record.FlagWait)
	open := r.OpenSpans()
	if len(open) != 1 || open[0].Ref != ref(1) {
		t.Fatalf("open are %+v", open)
	}
	next := r.Next()
	next.Resume(0, wire.MagicSize, 0)
	next.Root()
	next.Adopt(r.Placer)
	if _, spans, _ := r.Pending(); spans != 0 {
		t.Errorf("%d are pending in both", spans)
	}
	r.Placer = next
	r.span(3, 0, 0)
	r.want(t, "s3<root trace_id=1; s4<s3")
}

// TestFullTrace checks that a trace has 2^32 entries at most.
func TestFullTrace(t *testing.T) {
	r := newRig(placer.Options{})
	_, staged := r.Out()
	r.Flushed(len(staged))
	r.Resume(1<<32-1, wire.MagicSize, 0)
	r.span(1, 0, 0)
	r.span(2, 0, 0)
	r.place(record.KindLog, 0, 0, 0, 0, named("log"))
	if out, staged := r.Out(); len(staged) != 1 || staged[0].ID != 1<<32-1 || len(out) == 0 {
		t.Errorf("staged are %+v", staged)
	}
	want := fmt.Sprintf("%v: ", placer.ErrFull)
	expect.Slice(t, r.dropped, []string{want + "1 1", want + "1 0"}, "dropped")
}

// TestFlushedInPart checks that the staged entries after the written ones remain staged.
func TestFlushedInPart(t *testing.T) {
	r := newRig(placer.Options{})
	r.span(1, 0, 0)
	r.span(2, 1, 0)
	out, staged := r.Out()
	rest, size := slices.Clone(out[staged[1].End:]), r.Size()+int64(staged[1].End)
	r.Flushed(2)
	if left, staged := r.Out(); !slices.Equal(left, rest) || len(staged) != 1 || staged[0].ID != 2 || staged[0].End != len(rest) || r.Size() != size {
		t.Errorf("%d bytes are left, %+v, the file has %d", len(left), staged, r.Size())
	}
}

// TestPlacePanics panics while a record is placed. The program and the other records must survive.
func TestPlacePanics(t *testing.T) {
	panics := false
	r := newRig(placer.Options{Park: func(*journal.Entry) (*journal.Segment, bool) {
		if panics {
			panic("a fault of ours")
		}
		return new(journal.Segment), true
	}})
	r.span(1, 0, 0)
	panics = true
	r.span(3, 2, record.FlagWait) // a span that must be parked
	panics = false
	r.span(4, 1, 0)
	r.want(t, "s1<root trace_id=1; s4<s1", "a record of the journal is damaged: 1 1")
}

// TestOrderOfManyNames encodes entries of version 2, some with more names than the encoder caches in an order. An
// entry without attributes follows each of them.
func TestOrderOfManyNames(t *testing.T) {
	r := newRig(placer.Options{Columns: true})
	for n := range 200 {
		for _, count := range []int{n, 0} {
			r.place(record.KindLog, 0, 0, 0, 0, func(b *record.Builder) {
				b.Head(&wire.Head{Name: "log"})
				b.User()
				for i := count; i > 0; i-- {
					b.U64(fmt.Sprintf("a%03d", i), uint64(i))
				}
				b.End()
			})
		}
	}
	list := r.entries(t)
	for n := range 200 {
		with, without := list[1+2*n], list[2+2*n]
		if len(with.Attributes) != n || len(without.Attributes) != 0 {
			t.Fatalf("of %d attributes there are %d, of none %d", n, len(with.Attributes), len(without.Attributes))
		}
		for i, a := range with.Attributes {
			if v, _ := a.Value.U64(); a.Name != fmt.Sprintf("a%03d", i+1) || v != uint64(i+1) {
				t.Fatalf("attribute %d is %s=%d", i, a.Name, v)
			}
		}
	}
	if len(r.dropped) > 0 {
		t.Error(r.dropped)
	}
}
