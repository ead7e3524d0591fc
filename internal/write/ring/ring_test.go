package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/record"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
)

const allProviders = record.Providers(1<<64 - 1)

// put sets the place of a ring: 0 is the heap, 1 a file in its folder, 2 the default for a ring with a
// file, which is shared memory if the system has it.
func put(t testing.TB, o *ring.Options, place int) {
	t.Helper()
	if place > 0 {
		o.Path = hosttest.Path(t, "x.ring")
	}
	if place == 1 {
		o.Dir = filepath.Dir(o.Path)
	}
}

const places = 3

func newRing(t testing.TB, o *ring.Options, keep record.Providers) *ring.Ring {
	t.Helper()
	g, err := ring.New(o)
	must(t, err)
	g.SetBuffered(keep)
	t.Cleanup(func() {
		expect.OK(t, g.Close())
	})
	return g
}

// writeSnapshot writes a snapshot to a file, and opens that file.
func writeSnapshot(t testing.TB, sn *ring.Snapshot) *format.File {
	t.Helper()
	defer sn.Close()
	name := hosttest.Path(t, "snapshot.et")
	rec, err := sn.Create(name, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	must(t, err)
	must(t, sn.Copy(rec))
	st := rec.Stats()
	if st.Entries.Offered != st.Entries.Written || st.Spans.Waiting != 0 {
		t.Errorf("the account of the snapshot is %+v", st)
	}
	tracetest.Close(t, rec)
	_, found := problems2(t, name)
	for _, p := range found {
		t.Errorf("%s: %v", name, p)
	}
	return tracetest.Open(t, name)
}

func problems2(t testing.TB, name string) (*recorder.Report, []error) {
	t.Helper()
	var found []error
	r, err := recorder.Verify(name, func(p error) { found = append(found, p) })
	must(t, err)
	return r, found
}

func ringRef(trace, span int) format.SpanRef {
	r := format.SpanRef{}
	copy(r.TraceID[:], fmt.Sprintf("t%015d", trace))
	copy(r.SpanID[:], fmt.Sprintf("s%07d", span))
	return r
}

func ringEntry(name string, pad int) *format.TraceEntry {
	e := &format.TraceEntry{Metadata: format.Metadata{Name: name, Level: format.LevelInfo}}
	if pad > 0 {
		e.Add("pad", format.StringValue(strings.Repeat("x", pad)))
	}
	return e
}

// A script makes the same records with any recorder.
type script struct {
	rec   *recorder.Recorder
	batch *recorder.Batch // used for all records but the starts of spans, so that they are in one shard
	res   *recorder.Resource
	at    int64
}

func play(t testing.TB, rec *recorder.Recorder) *script {
	t.Helper()
	res, err := rec.Resource(&format.TraceEntry{Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo}, Message: format.Some("shop")})
	must(t, err)
	return &script{rec: rec, batch: rec.Batch(), res: res, at: 1_700_000_000_000_000_000}
}

func (s *script) tick() int64 { s.at += 1000; return s.at }

func (s *script) start(ref, parent format.SpanRef, name string, pad int) {
	at := s.tick()
	e := ringEntry(name, pad)
	e.Attributes = append(tracetest.Attributes(
		format.AttrSpanID, fmt.Sprintf("%x", ref.SpanID),
		format.AttrTime, uint64(at),
	), e.Attributes...)
	_ = tracetest.WriteSpan(s.rec, &tracetest.Span{Entry: *e, Span: recorder.Span{Ref: ref, Parent: parent, Resource: s.res, Time: at, Open: true}})
}

func (s *script) log(ref format.SpanRef, message string, pad int) {
	e := ringEntry("event", pad)
	e.Message = format.Some(message)
	e.Add(format.AttrTime, format.U64Value(uint64(s.tick())))
	s.batch.Log(ref, s.at)
	s.batch.Entry(e)
	_ = s.batch.Write()
}

func (s *script) end(ref format.SpanRef, events, pad int) {
	b := s.batch
	b.EndSpan(ref, s.tick())
	for i := range events {
		e := ringEntry(fmt.Sprint("event-of-span ", i), pad)
		e.Add(mapping.AttrEvent, format.BoolValue(true))
		b.Entry(e)
	}
	e := ringEntry(format.NameSpanEnd, 0)
	e.Metadata.Level = format.LevelTrace
	e.Attributes = append(e.Attributes, tracetest.Attributes(format.AttrSpanID, fmt.Sprintf("%x", ref.SpanID), format.AttrDuration, uint64(5))...)
	b.Entry(e)
	_ = b.Write()
}

// raws returns the entries of f as JSON, without the entry of a clean end.
func raws(t testing.TB, f *format.File) (list []string) {
	t.Helper()
	must(t, f.Walk(0, func(id uint32, e *format.TraceEntry) error {
		if e.Metadata.Name != mapping.NameEnd {
			list = append(list, string(entryjson.Append(nil, int64(id), e)))
		}
		return nil
	}))
	return list
}

// TestRingSnapshotIsRecording checks that a snapshot has the same entries as a file to which the same calls
// recorded.
func TestRingSnapshotIsRecording(t *testing.T) {
	for _, v := range tracetest.BothVersions {
		for place := range places {
			o := &ring.Options{Version: v, Bytes: 16 << 20}
			put(t, o, place)
			g := newRing(t, o, allProviders)
			rec := tracetest.Create(t, "app.et", &recorder.Options{Version: v, Durability: recorder.DurabilityWriteThrough})
			for _, to := range []*recorder.Recorder{g.Recorder(), rec} {
				s := play(t, to)
				rnd := rand.New(rand.NewPCG(1, 2))
				var open []format.SpanRef
				for i := range 3000 {
					switch n := rnd.IntN(10); {
					case n < 4:
						ref := ringRef(i/100, i)
						var parent format.SpanRef
						if len(open) > 0 && n > 0 {
							parent = open[rnd.IntN(len(open))]
						}
						s.start(ref, parent, fmt.Sprint("span ", i), rnd.IntN(40))
						open = append(open, ref)
					case n < 7 && len(open) > 0:
						s.log(open[rnd.IntN(len(open))], fmt.Sprint("log ", i), rnd.IntN(300))
					case n < 8:
						s.log(format.SpanRef{}, fmt.Sprint("log ", i), 0)
					case len(open) > 0:
						k := rnd.IntN(len(open))
						s.end(open[k], rnd.IntN(3), 10)
						open = slices.Delete(open, k, k+1)
					}
				}
			}
			sn := g.Snapshot(ring.SnapshotOptions{Providers: allProviders})
			expect.Equal(t, sn.Evicted, 0, "entries evicted")
			got := raws(t, writeSnapshot(t, sn))
			must(t, rec.Flush(context.Background()))
			f, err := format.Open(rec.StreamPath(), nil)
			must(t, err)
			want := raws(t, f)
			_ = f.Close()
			if len(want) < 3000 {
				t.Fatalf("only %d entries were recorded", len(want))
			}
			expect.Equal(t, sameStrings2(got, want), "", "version %d, place %v", v, place)
		}
	}
}

func sameStrings2(got, want []string) string {
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("entry %d is\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d entries, want %d", len(got), len(want))
	}
	return ""
}

// TestRingCarriesOver checks that a snapshot has all open spans, even if many records came after their
// starts, and that the ring evicts old spans that have ended.
func TestRingCarriesOver(t *testing.T) {
	for place := range places {
		o := &ring.Options{Bytes: 4 << 20}
		put(t, o, place)
		g := newRing(t, o, allProviders)
		s := play(t, g.Recorder())
		top := ringRef(1, 1)
		s.start(top, format.SpanRef{}, "top", 0)
		for i := range 50 {
			s.start(ringRef(1, 100+i), top, fmt.Sprint("open ", i), 0)
		}
		for i := range 8000 { // about 6 MiB
			ref := ringRef(2, 1000+i)
			s.start(ref, top, "short", 200)
			s.log(ref, "said", 200)
			s.end(ref, 0, 0)
		}
		s.end(ringRef(1, 100), 2, 10)
		st := g.Stats()
		if st.Bytes > 4<<20+1<<17 || st.Open != 50 || st.Evicted == 0 {
			t.Errorf("%+v", st)
		}
		sn := g.Snapshot(ring.SnapshotOptions{Providers: allProviders})
		if sn.Evicted != st.Evicted || !sn.From.After(time.Unix(0, 1_700_000_000_000_000_000)) {
			t.Errorf("%d evicted, from %v", sn.Evicted, sn.From)
		}
		f := writeSnapshot(t, sn)
		v := tracetest.View(t, f)
		id, ok := v.Span(top)
		if !ok {
			t.Fatal("the span that is open is not there")
		}
		kids := 0
		for _, kid := range v.Children(id) {
			e, err := v.Entry(kid)
			must(t, err)
			if strings.HasPrefix(e.Metadata.Name, "open ") {
				kids++
			}
		}
		expect.Equal(t, kids, 50, "open children")
		if _, ended := v.Duration(must1(v.Span(ringRef(1, 100)))); !ended {
			t.Error("the end of an old span is not there")
		}
		for id := range v.Rows() {
			if ref, missing, err := v.Missing(id); err != nil || missing && ref == top {
				t.Fatalf("entry %d misses its parent (%v)", id, err)
			}
		}
	}
}

func must1[T any](v T, ok bool) T {
	if !ok {
		panic("not there")
	}
	return v
}

// TestRingWindow checks that a snapshot with From has the records from that time on, and the spans that
// were open then.
func TestRingWindow(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 8 << 20}, allProviders)
	s := play(t, g.Recorder())
	a, b, c, d := ringRef(1, 1), ringRef(1, 2), ringRef(1, 3), ringRef(1, 4)
	s.start(a, format.SpanRef{}, "open", 0)
	s.start(b, a, "ended before", 0)
	s.log(a, "before", 0)
	s.end(b, 1, 0)
	s.start(c, a, "ends within", 0)
	whole := ringEntry("whole", 0)
	whole.Attributes = tracetest.Attributes(format.AttrSpanID, "0000000000000009", format.AttrTime, uint64(s.tick()), format.AttrDuration, uint64(1e9))
	_ = tracetest.WriteSpan(s.rec, &tracetest.Span{Entry: *whole, Span: recorder.Span{Ref: ringRef(1, 9), Parent: a, Resource: s.res, Time: s.at}})
	past := ringEntry("whole past", 0)
	past.Attributes = tracetest.Attributes(format.AttrSpanID, "0000000000000010", format.AttrTime, uint64(s.tick()), format.AttrDuration, uint64(1))
	_ = tracetest.WriteSpan(s.rec, &tracetest.Span{Entry: *past, Span: recorder.Span{Ref: ringRef(1, 10), Parent: a, Resource: s.res, Time: s.at}})
	s.tick()
	from := s.at
	s.log(a, "within", 0)
	s.end(c, 0, 0)
	s.start(d, c, "within", 0)
	sn := g.Snapshot(ring.SnapshotOptions{From: time.Unix(0, from), Providers: allProviders})
	expect.Equal(t, tracetest.ViewOutline(t, writeSnapshot(t, sn)), "root(resource(open(ends within(within) whole event)) entrace.end)", "the window has")
	sn = g.Snapshot(ring.SnapshotOptions{Providers: 1 << record.ProviderLogs})
	if got := tracetest.Outline(t, writeSnapshot(t, sn)); strings.Count(got, "event") != 2 || strings.Contains(got, "open") {
		t.Errorf("log records alone are %s", got)
	}
	sn = g.Snapshot(ring.SnapshotOptions{Providers: allProviders, Trace: ringRef(2, 1).TraceID})
	expect.Equal(t, tracetest.Outline(t, writeSnapshot(t, sn)), "root(entrace.end)", "of another trace")
}

// TestRingLarge records spans with more events than fit into a segment.
func TestRingLarge(t *testing.T) {
	for _, whole := range []bool{false, true} {
		g := newRing(t, nil, allProviders)
		s := play(t, g.Recorder())
		ref := ringRef(1, 1)
		if whole {
			e := ringEntry("large", 0)
			e.Attributes = tracetest.Attributes(format.AttrSpanID, "0000000000000009", format.AttrTime, uint64(s.tick()))
			span := &tracetest.Span{Entry: *e, Span: recorder.Span{Ref: ref, Resource: s.res, Time: s.at}}
			for range 300 {
				span.Children = append(span.Children, *ringEntry("event-of-span", 1000))
			}
			must(t, tracetest.WriteSpan(s.rec, span))
		} else {
			s.start(ref, format.SpanRef{}, "large", 0)
			s.end(ref, 300, 1000)
		}
		s.log(ref, strings.Repeat("long ", 100_000), 0)
		f := writeSnapshot(t, g.Snapshot(ring.SnapshotOptions{Providers: allProviders}))
		out := tracetest.Outline(t, f)
		if n := strings.Count(out, "event-of-span"); n != 300 || !whole && strings.Count(out, format.NameSpanEnd) != 1 {
			t.Errorf("%d events, want 300: %s", n, out[:min(len(out), 200)])
		}
		last, err := f.Entry(uint32(f.Len() - 2))
		must(t, err)
		if _, cut := last.Attribute(mapping.AttrTruncated); !cut || len(last.Message.Value) < 1000 {
			t.Errorf("the long log record is %d bytes, cut %v", len(last.Message.Value), cut)
		}
		if st := s.rec.Stats().Entries; st.Dropped.Total() != 0 {
			t.Errorf("%+v", st)
		}
	}
}

// TestRingStream checks that a stream has the records since its start, and the spans that were open then.
func TestRingStream(t *testing.T) {
	for _, bytes := range []int64{8 << 20, -1} {
		g := newRing(t, &ring.Options{Bytes: bytes}, allProviders)
		s := play(t, g.Recorder())
		expect.Equal(t, s.rec.TakesSpans(), bytes > 0, "with %d bytes spans are taken", bytes)
		a, b, c := ringRef(1, 1), ringRef(1, 2), ringRef(1, 3)
		s.start(a, format.SpanRef{}, "open", 0)
		s.start(b, a, "ended", 0)
		s.end(b, 0, 0)
		rec := createFor(t, g, "stream.et", nil)
		must(t, expect.Err(inside.Of(rec).AppendAnchor(tracetest.Entry("entrace.trace"))))
		st, err := g.Stream(rec, 1<<record.ProviderSpans|1<<5)
		must(t, err)
		res, err := s.rec.Resource(tracetest.Resource("second"))
		must(t, err)
		s.start(c, a, "came later", 0)
		s.log(c, "not asked for", 0)
		s.res = res
		s.start(ringRef(2, 5), format.SpanRef{}, "of the second", 0)
		other := s.rec.Batch()
		other.Log(format.SpanRef{}, 0)
		inside.OfBatch(other).SetProvider(5)
		other.Entry(&format.TraceEntry{Message: format.Some("sample"), Metadata: format.Metadata{Name: "sample"}})
		other.Log(c, 0)
		inside.OfBatch(other).SetProvider(5)
		other.Entry(&format.TraceEntry{Message: format.Some("below"), Metadata: format.Metadata{Name: "below"}})
		must(t, other.Write())
		s.end(a, 0, 0)
		st.Close()
		s.start(ringRef(2, 7), format.SpanRef{}, "too late", 0)
		must(t, rec.Flush(context.Background()))
		f := tracetest.Open(t, rec.StreamPath())
		want := "root(entrace.trace(sample) resource(open(came later(below) span end)) resource(of the second))"
		if bytes < 0 {
			want = "root(entrace.trace(sample) resource(of the second) resource(came later(below)))"
		}
		expect.Equal(t, tracetest.Outline(t, f), want, "with %d bytes the stream has", bytes)
	}
}

// TestRingNotice checks that OnLog gets log records of the set level and above, both from Log and from a
// Batch.
func TestRingNotice(t *testing.T) {
	var seen []ring.LogEvent
	g := newRing(t, &ring.Options{OnLog: func(s *ring.LogEvent) { seen = append(seen, *s) }}, allProviders)
	log := func(l format.Level, message string) {
		e := ringEntry("event", 0)
		e.Metadata.Level, e.Metadata.Target, e.Message = l, strings.Repeat("t", 300), format.Some(message)
		_ = g.Recorder().Log(ringRef(1, 1), e)
		b := g.Recorder().Batch()
		b.Log(ringRef(1, 2), 0)
		inside.OfBatch(b).Direct().Place(inside.Of(g.Recorder()).Place(&e.Metadata, message), uint8(l), message)
		b.End()
		_ = b.Write()
	}
	log(format.LevelError, "before")
	g.SetLogLevel(format.LevelWarn)
	log(format.LevelInfo, "info")
	log(format.LevelWarn, "warn")
	log(format.LevelError, "error")
	g.SetLogLevel(format.LevelError + 1)
	log(format.LevelError, "after")
	var got []string
	for _, s := range seen {
		got = append(got, fmt.Sprintf("%v %s %c", s.Level, s.Message, s.Span.SpanID[7]))
	}
	expect.Slice(t, got, []string{"WARN warn 1", "WARN warn 2", "ERROR error 1", "ERROR error 2"}, "seen")
	expect.Equal(t, strings.Count(tracetest.Outline(t, writeSnapshot(t, g.Snapshot(ring.SnapshotOptions{Providers: allProviders}))), "event"), 10, "log records there")
}

// TestRingConcurrent makes snapshots while several goroutines record. A snapshot has all records whose
// calls had returned before it, unless they are evicted.
func TestRingConcurrent(t *testing.T) {
	const workers = 4
	o := &ring.Options{Bytes: 4 << 20, Path: hosttest.Path(t, "x.ring")}
	g := newRing(t, o, allProviders)
	var done, at [workers]atomic.Int64 // for each worker: the number of its units, and the time of the last one
	var wg sync.WaitGroup
	var stop atomic.Bool
	defer func() { stop.Store(true); wg.Wait() }()
	for w := range workers {
		wg.Go(func() {
			s := play(t, g.Recorder())
			for i := 0; !stop.Load(); i++ {
				ref := ringRef(w, w*1_000_000+i)
				s.at = time.Now().UnixNano()
				s.start(ref, format.SpanRef{}, fmt.Sprint("span ", i), 100)
				s.log(ref, fmt.Sprintf("%d %d", w, i), 300)
				s.end(ref, 1, 100)
				at[w].Store(s.at)
				done[w].Store(int64(i + 1))
			}
		})
	}
	for round := range 8 {
		time.Sleep(10 * time.Millisecond)
		var before, when [workers]int64
		for w := range before {
			before[w], when[w] = done[w].Load(), at[w].Load()
		}
		sn := g.Snapshot(ring.SnapshotOptions{Providers: allProviders})
		f := writeSnapshot(t, sn)
		var got [workers][]int
		err := f.Walk(0, func(_ uint32, e *format.TraceEntry) error {
			if e.Metadata.Name == "event" {
				var w, i int
				if _, err := fmt.Sscanf(e.Message.Value, "%d %d", &w, &i); err != nil {
					return err
				}
				got[w] = append(got[w], i)
			}
			return nil
		})
		must(t, err)
		for w, list := range got {
			if when[w] < sn.From.Add(time.Millisecond).UnixNano() {
				continue // this worker has not run for long, and its records are evicted
			}
			if len(list) == 0 && before[w] > 0 {
				t.Errorf("round %d: nothing of worker %d, which had recorded %d", round, w, before[w])
				continue
			}
			slices.Sort(list)
			for k := 1; k < len(list); k++ {
				if list[k] != list[k-1]+1 && sn.Evicted == 0 {
					t.Errorf("round %d: worker %d: %d after %d", round, w, list[k], list[k-1])
				}
			}
			if n := len(list); n > 0 && int64(list[n-1]) < before[w]-1 {
				t.Errorf("round %d: the last of worker %d is %d, it had recorded %d", round, w, list[n-1], before[w])
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	if st := g.Recorder().Stats(); st.Entries.Dropped.Total() != 0 || st.Entries.Offered != st.Entries.Written {
		t.Errorf("%+v", st)
	}
}

func TestRingOptions(t *testing.T) {
	for name, o := range map[string]*ring.Options{
		"version": {Version: 9},
		"note":    {Note: make([]byte, ring.MaxNote+1)},
		"path":    {Path: "/nowhere/x.ring"},
	} {
		if g, err := ring.New(o); err == nil {
			t.Errorf("%s: no error", name)
			_ = g.Close()
		}
	}
	g := newRing(t, &ring.Options{Note: []byte("x")}, 0)
	rec := g.Recorder()
	if rec.TakesSpans() || rec.Discards() {
		t.Error("a ring that keeps nothing takes something")
	}
	g.SetBuffered(allProviders)
	if !rec.TakesLogs() {
		t.Error("a ring that keeps everything does not take it")
	}
	if id, err := rec.Append(ringEntry("mine", 0)); id != 0 || err != nil {
		t.Error(id, err)
	}
	expect.Is(t, expect.Err(rec.Append(&format.TraceEntry{Parent: 1})), format.ErrInvalid, "rec.Append")
	must(t, errors.Join(rec.Flush(context.Background()), rec.Sync(context.Background())))
	must(t, rec.Close(context.Background()))
	if err := rec.Log(format.SpanRef{}, ringEntry("event", 0)); err != nil && !errors.Is(err, recorder.ErrClosed) {
		t.Error(err)
	}
	if rec.TakesSpans() {
		t.Error("a closed ring takes something")
	}
}

// TestRingWholeSpanEndsOpenOne ends an open span by recording it as a whole. The ring no longer counts it
// as open, and a snapshot has it once.
func TestRingWholeSpanEndsOpenOne(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 4 << 20}, allProviders)
	s := play(t, g.Recorder())
	ref := ringRef(1, 1)
	s.start(ref, format.SpanRef{}, "span", 0)
	expect.Equal(t, g.Stats().Open, 1, "open spans")
	e := ringEntry("span", 0)
	e.Add(format.AttrDuration, format.U64Value(5))
	must(t, tracetest.WriteSpan(s.rec, &tracetest.Span{Entry: *e, Span: recorder.Span{Ref: ref, Resource: s.res, Time: s.at}}))
	expect.Equal(t, g.Stats().Open, 0, "open spans")
	expect.Has(t, tracetest.Outline(t, writeSnapshot(t, g.Snapshot(ring.SnapshotOptions{Providers: allProviders}))), "span(span end)", "the snapshot")
}
