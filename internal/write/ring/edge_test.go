package ring_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/internal/write/ring"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// tally returns how many spans a trace has, and how many of them have ended.
func tally(t testing.TB, f *format.File) (begun, ended int) {
	t.Helper()
	v := tracetest.View(t, f)
	for id := range v.Rows() {
		if v.Role(id) != view.RoleSpan {
			continue
		}
		begun++
		if _, is := v.Duration(id); is {
			ended++
		}
	}
	return begun, ended
}

func copyFile(t testing.TB, from, to string) string {
	t.Helper()
	in, err := os.Open(from)
	must(t, err)
	defer in.Close()
	out, err := os.Create(to)
	must(t, err)
	must(t, expect.Err(io.Copy(out, in)))
	must(t, out.Close())
	return to
}

func all() ring.SnapshotOptions { return ring.SnapshotOptions{Providers: allProviders} }

// TestRingEndsGivenUp checks spans whose ends are evicted while the ring still has their starts. Snapshots
// and streams do not have them, before and after a crash, because they would look open.
func TestRingEndsGivenUp(t *testing.T) {
	path := hosttest.Path(t, "x.ring")
	g := newRing(t, &ring.Options{Bytes: 4 << 20, Path: path, Dir: filepath.Dir(path)}, allProviders)
	s := play(t, g.Recorder())
	s.start(ringRef(9, 9), format.SpanRef{}, "open", 10)
	for i := range 100 {
		s.start(ringRef(1, i), format.SpanRef{}, "ended", 10)
		s.end(ringRef(1, i), 0, 0)
	}
	for range 20_000 {
		s.log(format.SpanRef{}, "said", 500)
	}
	check := func(what string, f *format.File) {
		t.Helper()
		if begun, ended := tally(t, f); begun != 1 || ended != 0 {
			t.Errorf("%s has %d spans, %d of them ended; one is open", what, begun, ended)
		}
	}
	check("a snapshot", writeSnapshot(t, g.Snapshot(all())))
	check("a window", writeSnapshot(t, g.Snapshot(ring.SnapshotOptions{Providers: allProviders, From: time.Unix(0, s.at)})))
	rec := createFor(t, g, "stream.iet", nil)
	st, err := g.Stream(rec, allProviders)
	must(t, err)
	st.Close()
	must(t, rec.Flush(context.Background()))
	check("a stream", tracetest.Open(t, rec.StreamPath()))
	d, err := ring.Open(copyFile(t, path, hosttest.Path(t, "y.ring")))
	must(t, err)
	defer d.Close()
	sn := d.Snapshot(all())
	if living := g.Snapshot(all()); living.From.After(sn.From.Add(time.Millisecond)) && sn.From.Before(time.Unix(0, s.at-int64(time.Second))) {
		t.Errorf("the dead ring goes back to %v, the living one to %v", sn.From, living.From)
	}
	check("the dead ring", writeSnapshot(t, sn))
}

// TestRingEndsOfOldSpans is like TestRingEndsGivenUp, but the start times of its spans are an hour before
// they are recorded.
func TestRingEndsOfOldSpans(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 4 << 20}, allProviders)
	s := play(t, g.Recorder())
	for i := range 400 { // needs more than a segment
		s.start(ringRef(1, i), format.SpanRef{}, "ended", 200)
		s.end(ringRef(1, i), 0, 0)
	}
	now := s.at
	s.at -= int64(time.Hour)
	for i := range 20 {
		s.start(ringRef(2, i), format.SpanRef{}, "old", 10)
		s.end(ringRef(2, i), 0, 0)
	}
	s.at = now
	for range 20_000 {
		s.log(format.SpanRef{}, "said", 500)
	}
	if begun, ended := tally(t, writeSnapshot(t, g.Snapshot(all()))); begun != ended {
		t.Errorf("there are %d spans, %d of them ended", begun, ended)
	}
}

// TestRingKeepChanges checks that the ring gets the ends of its spans even if SetBuffered has switched
// spans off.
func TestRingKeepChanges(t *testing.T) {
	g := newRing(t, nil, allProviders)
	s := play(t, g.Recorder())
	for i := range 10 {
		s.start(ringRef(1, i), format.SpanRef{}, "span", 0)
	}
	g.SetBuffered(0)
	for i := range 10 {
		s.end(ringRef(1, i), 0, 0)
	}
	g.SetBuffered(allProviders)
	if begun, ended := tally(t, writeSnapshot(t, g.Snapshot(all()))); begun != 10 || ended != 10 {
		t.Errorf("%d spans, %d ended", begun, ended)
	}
}

// A standingTee blocks in Take, like a disk that does not respond.
type standingTee struct {
	once    sync.Once
	stands  chan struct{}
	release chan struct{}
}

func (s *standingTee) Begin(format.Version)        {}
func (s *standingTee) Close(context.Context) error { return nil }

func (s *standingTee) Take([]recorder.TeeEntry) {
	s.once.Do(func() { close(s.stands) })
	<-s.release
}

// TestRingStandingStream checks that a stream whose Tee blocks does not block other goroutines.
func TestRingStandingStream(t *testing.T) {
	g := newRing(t, nil, allProviders)
	s := play(t, g.Recorder())
	tee := &standingTee{stands: make(chan struct{}), release: make(chan struct{})}
	rec := createFor(t, g, "stream.iet", &recorder.Options{Tee: tee, MaxBlock: time.Millisecond})
	defer close(tee.release)
	st, err := g.Stream(rec, allProviders)
	must(t, err)
	defer st.Close()
	s.log(format.SpanRef{}, "said", 0)
	<-tee.stands
	done := make(chan struct{})
	go func() {
		defer close(done)
		other := play(t, g.Recorder())
		other.log(format.SpanRef{}, "said", 0)
		expect.OK(t, expect.Err(g.Recorder().Resource(ringEntry("another resource", 0))))
		g.Recorder().Stats()
		g.Stats()
		g.Snapshot(all()).Close()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("somebody waits for the stream's disk")
	}
}

// TestRingStreamKilled checks that a stream which is killed soon after its start has its first entry and
// its resource.
func TestRingStreamKilled(t *testing.T) {
	g := newRing(t, nil, allProviders)
	s := play(t, g.Recorder())
	dir := t.TempDir()
	rec, err := g.Create(filepath.Join(dir, "s.iet"), &recorder.Options{BufferDir: dir})
	must(t, err)
	defer tracetest.Close(t, rec)
	if d, err := rec.Durability(); d != recorder.DurabilityProcess {
		t.Skip("no crash buffer here:", err)
	}
	must(t, expect.Err(inside.Of(rec).AppendAnchor(tracetest.Entry("entrace.trace"))))
	st, err := g.Stream(rec, allProviders)
	must(t, err)
	defer st.Close()
	s.start(ringRef(1, 1), format.SpanRef{}, "span", 0)
	b := s.rec.Batch()
	b.Log(format.SpanRef{}, s.tick())
	inside.OfBatch(b).SetProvider(5)
	b.Entry(ringEntry("sample", 0))
	must(t, b.Write())
	to := t.TempDir()
	copyFile(t, filepath.Join(dir, "s.iet.buffer"), filepath.Join(to, "s.iet.buffer"))
	name := copyFile(t, filepath.Join(dir, "s.iet"), filepath.Join(to, "s.iet"))
	must(t, expect.Err(recorder.Recover(name, "")))
	expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, name)), "root(entrace.trace(sample) resource(span) entrace.recovered)", "recovered")
}

// TestHeadRotates checks that records after AppendAnchor stay valid when their parent, the anchor, is in an
// earlier file.
func TestHeadRotates(t *testing.T) {
	rec := tracetest.Create(t, "app.iet", &recorder.Options{MaxFileEntries: 1000, Durability: recorder.DurabilityWriteThrough})
	for range 50 {
		must(t, expect.Err(rec.Append(ringEntry("x", 0))))
	}
	must(t, expect.Err(inside.Of(rec).AppendAnchor(ringEntry("head", 0))))
	for range 2500 {
		b := rec.Batch()
		b.Log(format.SpanRef{}, 0)
		inside.OfBatch(b).SetProvider(5)
		b.Entry(ringEntry("sample", 0))
		must(t, b.Write())
	}
	if rec.Stats().Files == 0 {
		t.Fatal("it did not rotate")
	}
	list, _ := filepath.Glob(filepath.Join(filepath.Dir(rec.StreamPath()), "*.iet"))
	for _, name := range list {
		if r, err := recorder.Inspect(name); err != nil || r.Damage != nil {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// TestRingResourceAgain checks that equal resources are stored only once.
func TestRingResourceAgain(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 4 << 20, Path: hosttest.Path(t, "x.ring")}, allProviders)
	for i := range 60_000 {
		must(t, expect.Err(g.Recorder().Resource(ringEntry([]string{"a", "b"}[i%2], 500))))
	}
	s := play(t, g.Recorder())
	for range 1000 {
		s.log(format.SpanRef{}, "said", 100)
	}
	if st := g.Recorder().Stats().Entries; st.Dropped.Total() != 0 {
		t.Errorf("%+v", st)
	}
}

// TestRingOddTimes checks that a snapshot of records with odd times has the same entries as a recording of
// these records.
func TestRingOddTimes(t *testing.T) {
	now := time.Now().UnixNano()
	scripts := map[string]func(s *script){
		"a log record older than its span": func(s *script) {
			s.at = now
			s.start(ringRef(1, 1), format.SpanRef{}, "span", 0)
			s.at = now - int64(time.Millisecond)
			s.log(ringRef(1, 1), "said", 0)
		},
		"a span of the future": func(s *script) {
			s.at = now + int64(time.Hour)
			s.start(ringRef(1, 1), format.SpanRef{}, "future", 0)
			for i := range 50 {
				s.at = now + int64(i)*int64(time.Millisecond)
				s.start(ringRef(2, i), format.SpanRef{}, "span", 0)
				s.log(ringRef(2, i), "said", 0)
				s.end(ringRef(2, i), 1, 0)
			}
		},
		"one span twice": func(s *script) {
			for range 2 {
				s.start(ringRef(1, 1), format.SpanRef{}, "span", 0)
				s.log(ringRef(1, 1), "said", 0)
				s.end(ringRef(1, 1), 0, 0)
			}
		},
		"children that wait for their parents": func(s *script) {
			for i, name := range []string{"child", "parent"} {
				e := ringEntry(name, 0)
				e.Attributes = tracetest.Attributes(format.AttrTime, uint64(s.tick()))
				h := recorder.Span{Ref: ringRef(1, i), Resource: s.res, Time: s.at, Wait: true}
				if i == 0 {
					h.Parent = ringRef(1, 1)
				}
				_ = tracetest.WriteSpan(s.rec, &tracetest.Span{Entry: *e, Span: h})
			}
		},
	}
	for name, record := range scripts {
		t.Run(name, func(t *testing.T) {
			g := newRing(t, nil, allProviders)
			rec := tracetest.Create(t, "app.iet", nil)
			record(play(t, g.Recorder()))
			record(play(t, rec))
			must(t, rec.Flush(context.Background()))
			want := tracetest.Outline(t, tracetest.Open(t, rec.StreamPath()))
			got := tracetest.Outline(t, writeSnapshot(t, g.Snapshot(all())))
			got = strings.TrimSuffix(got, " entrace.end)") + ")"
			expect.Equal(t, got, want, "the snapshot, as the recording")
		})
	}
}

// TestRingFuture checks that a record with a time in the future does not make the ring look complete only
// from that time on.
func TestRingFuture(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 4 << 20}, allProviders)
	s := play(t, g.Recorder())
	s.at = 1<<63 - 1e6
	s.log(format.SpanRef{}, "of the future", 0)
	for range 20_000 {
		s.at = time.Now().UnixNano()
		s.log(format.SpanRef{}, "said", 500)
	}
	sn := g.Snapshot(all())
	defer sn.Close()
	if sn.Evicted == 0 || sn.From.After(sn.Taken) || g.Stats().From.Year() < 2000 {
		t.Errorf("it goes back to %v, %d evicted", sn.From, sn.Evicted)
	}
}

// TestRingLargeWindow checks that a span which began before the window of a snapshot has all its events,
// even if it is larger than a segment.
func TestRingLargeWindow(t *testing.T) {
	g := newRing(t, nil, allProviders)
	s := play(t, g.Recorder())
	e := ringEntry("large", 0)
	e.Attributes = tracetest.Attributes(
		format.AttrSpanID, "0000000000000009",
		format.AttrTime, uint64(s.tick()),
		format.AttrDuration, uint64(59e9),
	)
	span := &tracetest.Span{Entry: *e, Span: recorder.Span{Ref: ringRef(1, 1), Resource: s.res, Time: s.at}}
	for range 200 {
		span.Children = append(span.Children, *ringEntry("event-of-span", 1000))
	}
	must(t, tracetest.WriteSpan(s.rec, span))
	sn := g.Snapshot(ring.SnapshotOptions{Providers: allProviders, From: time.Unix(0, s.at+30e9)})
	expect.Equal(t, strings.Count(tracetest.Outline(t, writeSnapshot(t, sn)), "event-of-span"), 200, "events")
	must(t, g.Close())
	before := s.rec.Stats().Entries.Offered
	_ = tracetest.WriteSpan(s.rec, span)
	if st := s.rec.Stats().Entries; st.Offered-before != 201 || st.Dropped.Closed != 201 && st.Dropped.Total() != 0 {
		t.Errorf("after Close: %+v", st)
	}
}

// TestRingCloseInOnError calls Close in OnError, after the file of the ring was lost.
func TestRingCloseInOnError(t *testing.T) {
	path := hosttest.Path(t, "x.ring")
	done := make(chan error, 1)
	var g *ring.Ring
	ready := make(chan struct{})
	g = newRing(t, &ring.Options{Path: path, Dir: filepath.Dir(path), Bytes: 4 << 20, OnError: func(error) { <-ready; done <- g.Close() }}, allProviders)
	close(ready)
	must(t, os.Truncate(path, 0))
	s := play(t, g.Recorder())
	for range 1000 {
		s.log(format.SpanRef{}, "said", 100)
	}
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("Close does not return")
	}
}

// TestRingManyOpen checks that the ring drops roughly the oldest open spans if too many are open.
func TestRingManyOpen(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 4 << 20}, allProviders)
	s := play(t, g.Recorder())
	for i := range 8000 {
		s.start(ringRef(1, i), format.SpanRef{}, "open", 100)
	}
	for i := range 60_000 {
		s.start(ringRef(2, i), format.SpanRef{}, "short", 200)
		s.end(ringRef(2, i), 0, 0)
	}
	f := writeSnapshot(t, g.Snapshot(all()))
	v := tracetest.View(t, f)
	there := func(from, to int) (n int) {
		for i := from; i < to; i++ {
			if _, ok := v.Span(ringRef(1, i)); ok {
				n++
			}
		}
		return n
	}
	if old, young := there(0, 1000), there(7000, 8000); old > 0 || young < 500 {
		t.Errorf("of the oldest thousand %d are there, of the newest %d", old, young)
	}
}

// TestRingSwept makes rings while other goroutines remove the rings of dead processes. They remove no ring
// of a living process.
func TestRingSwept(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.ring")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if d, err := ring.Open(path); err == nil && d.Last.IsZero() {
					_ = d.Remove()
				} else if err == nil {
					_ = d.Close()
				}
			}
		})
	}
	for range hosttest.InCI(10, 200) {
		g, err := ring.New(&ring.Options{Path: path, Bytes: 4 << 20})
		if errors.Is(err, errors.ErrUnsupported) {
			break
		}
		if err != nil {
			t.Error(err)
			break
		}
		if _, err := os.Stat(path); err != nil {
			t.Error("the ring of a living process was removed")
		}
		must(t, g.Close())
	}
	close(stop)
	wg.Wait()
}

// TestTwoStreams checks that each of several streams gets all new records.
func TestTwoStreams(t *testing.T) {
	g := newRing(t, &ring.Options{Bytes: 4 << 20}, allProviders)
	var recs []*recorder.Recorder
	for i := range 3 {
		rec := createFor(t, g, fmt.Sprint("stream", i, ".et"), nil)
		st, err := g.Stream(rec, allProviders)
		must(t, err)
		defer st.Close()
		recs = append(recs, rec)
	}
	for range 10 {
		must(t, g.Recorder().Log(format.SpanRef{}, ringEntry("log", 0)))
	}
	for i, rec := range recs {
		if st := rec.Stats().Entries; st.Offered-st.Dropped.Total() < 10 {
			t.Errorf("stream %d was offered %+v", i, st)
		}
	}
}

// TestCloseWithContextThatEnded checks that Close removes the ring's file even if its context has ended, as
// long as the disk responds.
func TestCloseWithContextThatEnded(t *testing.T) {
	for place := 1; place < places; place++ {
		o := &ring.Options{Bytes: 4 << 20}
		put(t, o, place)
		g := newRing(t, o, allProviders)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		must(t, g.Recorder().Close(ctx))
		if _, err := os.Lstat(o.Path); err == nil {
			t.Errorf("%s is still there", o.Path)
		}
	}
}
