package control_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/view"
)

// TestWindow records more than a ring can hold while spans are open. A snapshot has all open spans, and the
// latest records below them.
func TestWindow(t *testing.T) {
	bytes := int64(hosttest.Times(4, 64)) << 20
	cfg := base(t.TempDir(), control.Spans|control.Logs, control.TraceConfig{
		Name: "long", Providers: control.Spans | control.Logs, Window: time.Hour, On: onAPI("long"),
	})
	cfg.Ring.Bytes = bytes
	r := rigOf(t, cfg)
	const nested, wide = 20, 30
	ctx := context.Background()
	var open []trace.Span
	for i := range nested { // each span is below the previous one
		var span trace.Span
		ctx, span = r.tracer.Start(ctx, fmt.Sprint("nested ", i))
		open = append(open, span)
	}
	var below []context.Context
	for i := range wide {
		in, span := r.tracer.Start(ctx, fmt.Sprint("wide ", i))
		below, open = append(below, in), append(open, span)
	}
	text := strings.Repeat("y", 400)
	began := time.Now()
	n := 0
	for written := int64(0); written < 10*bytes; written += int64(len(text)) {
		in := below[n%wide]
		r.log.InfoContext(in, text)
		if n%10 == 0 {
			_, span := r.tracer.Start(in, "short")
			span.End()
		}
		n++
	}
	r.start(api("long"))
	w := r.last(1)
	asked, got, evicted := w.number(w.head, "window.asked_nano"), w.number(w.head, "window.got_nano"), w.number(w.head, "evicted")
	if asked != int64(time.Hour) || got <= 0 || got >= asked || got > int64(time.Since(began)) || evicted <= 0 {
		t.Errorf("the window is %v of %v with %d evicted, while the load took %v", time.Duration(got), time.Duration(asked), evicted, time.Since(began))
	}
	kept := int64(w.messages()[text])
	if kept == 0 || kept+evicted < int64(n) {
		t.Errorf("%d records are there and %d entries were evicted of more than %d", kept, evicted, n)
	}
	for i := range nested {
		id := w.one(fmt.Sprint("nested ", i))
		up := w.up(id)
		if i > 0 && up != w.one(fmt.Sprint("nested ", i-1)) || i == 0 && w.v.Role(w.row(up)) == view.RoleSpan {
			t.Errorf("span %d is below entry %d, %q", i, up, w.entries[up].Metadata.Name)
		}
	}
	for i := range wide {
		expect.Equal(t, w.up(w.one(fmt.Sprint("wide ", i))), w.one(fmt.Sprintf("nested %d", nested-1)), "the wide span %d is below entry", i)
	}
	if w.missing > 0 {
		t.Errorf("%d entries miss their span, all of which are open", w.missing)
	}
	for i := range w.entries {
		if w.entries[i].Message.Value == text || w.entries[i].Metadata.Name == "short" {
			if up := w.entries[w.up(uint32(i))].Metadata.Name; !strings.HasPrefix(up, "wide ") {
				t.Fatalf("entry %d is below %q", i, up)
			}
		}
	}
	if st := r.ctl.Stats().Ring; st.Open != nested+wide || st.Bytes > 2*bytes || st.Evicted < uint64(evicted) {
		t.Errorf("the account is %+v", st)
	}
	for _, span := range open {
		span.End()
	}
	expect.Equal(t, r.ctl.Stats().Ring.Open, 0, "spans open in the end")
	r.quiet()
}

// TestEvictedIsToldOf evicts more segments than the ring lists one by one. The count of evicted entries is
// exact nevertheless.
func TestEvictedIsToldOf(t *testing.T) {
	if testing.Short() {
		t.Skip("a long computation of one goroutine")
	}
	r := rigOf(t, base(t.TempDir(), control.Logs, control.TraceConfig{
		Name: "long", Providers: control.Logs, Window: time.Hour, On: onAPI("long"),
	}))
	const n = 6000 // each record fills one segment
	text := strings.Repeat("z", 50<<10)
	for range n {
		r.log.Info(text)
	}
	w := everyLink(t, r.start(api("long")).Path())
	kept, evicted := w.messages()[text], w.number(w.head, "evicted")
	if kept == 0 || int64(kept)+evicted != n {
		t.Errorf("%d records are there and %d were evicted, of %d", kept, evicted, n)
	}
	if st := r.ctl.Stats().Ring; st.Evicted != uint64(evicted) {
		t.Errorf("%d were evicted by the account, %d by the trace", st.Evicted, evicted)
	}
	r.quiet()
}

// A loadKey identifies a log record: number n of goroutine g.
type loadKey struct{ g, n int64 }

// loaded returns the times of the log records "load" in a trace.
func (w *walked) loaded() map[loadKey]int64 {
	out := make(map[loadKey]int64)
	for i := range w.entries {
		e := &w.entries[i]
		if e.Message.Value != "load" {
			continue
		}
		id := uint32(i)
		k := loadKey{w.number(id, "g"), w.number(id, "n")}
		if _, twice := out[k]; twice {
			w.t.Errorf("%s has record %v twice", w.name, k)
		}
		out[k] = w.number(id, format.AttrTime)
	}
	return out
}

// TestSnapshotIsPartOfStream checks that snapshots have the same records as a stream of that time.
func TestSnapshotIsPartOfStream(t *testing.T) {
	const goroutines = 2
	snapshots := hosttest.Times(5, 100)
	all := control.Spans | control.Logs
	r := rigOf(t, base(t.TempDir(), all,
		control.TraceConfig{Name: "all", Mode: control.ModeStream, Providers: all, On: onAPI("all")},
		control.TraceConfig{Name: "some", Providers: all, Window: 2 * time.Second, On: onAPI("some")}))
	q := api("all")
	q.Manual = true // so the stream has no timeout
	stream := r.start(q)
	var done [goroutines]atomic.Int64 // number of records of each goroutine
	var stop atomic.Bool
	var load sync.WaitGroup
	for g := range goroutines {
		load.Go(func() {
			for n := int64(0); !stop.Load(); n++ {
				ctx, span := r.tracer.Start(context.Background(), "work")
				r.log.InfoContext(ctx, "load", "g", g, "n", n)
				span.End()
				done[g].Store(n + 1)
				if n%50 == 0 {
					time.Sleep(time.Millisecond) // slow enough for the stream
				}
			}
		})
	}
	type bound struct {
		trace *control.Trace
		sure  [goroutines]int64 // number of records before the request
	}
	var taken []bound
	for range snapshots {
		for g := range goroutines {
			was := done[g].Load()
			eventually(t, "the load goes on", func() bool { return done[g].Load() > was+20 })
		}
		b := bound{}
		for g := range goroutines {
			b.sure[g] = done[g].Load()
		}
		b.trace = r.start(api("some"))
		taken = append(taken, b)
	}
	stop.Store(true)
	load.Wait()
	r.stop(q)
	r.wait(snapshots + 1)
	s := links(t, stream.Path())
	recorded := s.loaded()
	lost := s.number(s.one("trace end"), "dropped.overflow")
	total := int64(0)
	for g := range goroutines {
		total += done[g].Load()
	}
	if got := int64(len(recorded)); got > total || got+lost < total {
		t.Errorf("the stream has %d of %d records, and says that %d entries were dropped", got, total, lost)
	}
	if lost == 0 && s.missing > 0 {
		t.Errorf("%d entries of the stream miss their span", s.missing)
	}
	if lost > 0 {
		t.Logf("the disk was too slow for %d entries of the stream", lost)
	}
	for i, b := range taken {
		w := everyLink(t, b.trace.Path())
		expect.Equal(t, w.number(w.head, "dropped.overflow"), 0, "entries that the ring has dropped")
		from := b.trace.StartTime.UnixNano() - w.number(w.head, "window.got_nano")
		have := w.loaded()
		missing, wanted := 0, 0
		for k, at := range recorded {
			if at < from || k.n >= b.sure[k.g] {
				continue
			}
			wanted++
			if _, there := have[k]; !there {
				missing++
			}
		}
		if missing > 0 || wanted == 0 {
			t.Errorf("snapshot %d misses %d of %d records from its from to its taking", i, missing, wanted)
		}
		for k, at := range have {
			if was, there := recorded[k]; lost == 0 && (!there || was != at) {
				t.Errorf("snapshot %d has record %v, which the stream has not or otherwise", i, k)
				break
			}
		}
	}
	t.Logf("%d records in %d snapshots", total, snapshots)
	r.quiet()
}
