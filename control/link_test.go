package control_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/internal/write/inside"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// A walked is a trace that walk has read.
type walked struct {
	t       testing.TB
	name    string
	entries []format.TraceEntry // by id
	v       *view.View
	head    uint32 // the id of the entry entrace.trace
	missing int    // number of entries whose span is not in the trace
}

// row returns the row of an entry.
func (w *walked) row(id uint32) view.Row {
	r, ok := w.v.Row(0, id)
	if !ok {
		w.t.Fatalf("entry %d has no row", id)
	}
	return r
}

// up returns the id of an entry's parent in the view.
func (w *walked) up(id uint32) uint32 {
	_, up := w.v.ID(w.v.Parent(w.row(id)))
	return up
}

// ended returns the duration of a span, and whether it has ended.
func (w *walked) ended(id uint32) (time.Duration, bool) { return w.v.Duration(w.row(id)) }

// everyLink reads a trace and checks the links between its entries. The file is closed when the test ends.
func everyLink(t testing.TB, name string) *walked {
	t.Helper()
	w := links(t, name)
	// No span in these tests has a remote parent, and child spans end before their parent. So no span may
	// be missing.
	stream := w.attr(w.head, "mode") == string(control.ModeStream)
	spans := slices.Contains(strings.Split(w.attr(w.head, "providers"), ","), "spans")
	if w.missing > 0 && spans && (stream || w.attr(w.head, "evicted") == "0") {
		t.Errorf("%s: %d entries miss their span, and nothing was given up", w.name, w.missing)
	}
	return w
}

// links is like everyLink, but spans may be missing. It is for traces of times in which spans were partly
// off.
func links(t testing.TB, name string) *walked {
	t.Helper()
	w, problems := walk(t, name)
	for _, problem := range problems {
		t.Errorf("%s: %v", filepath.Base(name), problem)
	}
	if w == nil {
		t.FailNow()
	}
	return w
}

// walk reads a trace, and returns it with the problems that it has. If the trace cannot be read, it returns
// nil and the problems.
func walk(t testing.TB, name string) (*walked, []error) {
	var problems []error
	bad := func(text string, args ...any) { problems = append(problems, fmt.Errorf(text, args...)) }
	if _, err := recorder.Verify(name, func(problem error) { bad("verify: %w", problem) }); err != nil {
		return nil, append(problems, err)
	}
	f, err := format.Open(name, nil)
	if err != nil {
		return nil, append(problems, err)
	}
	t.Cleanup(func() {
		expect.OK(t, f.Close())
	})
	w := &walked{t: t, name: filepath.Base(name), entries: make([]format.TraceEntry, f.Len())}
	err = f.Walk(0, func(id uint32, e *format.TraceEntry) error {
		w.entries[id] = *e.Clone()
		if id > 0 && e.Parent >= id {
			bad("the parent of entry %d is %d", id, e.Parent)
		}
		return nil
	})
	if err != nil {
		return nil, append(problems, err)
	}
	w.v, err = view.New(t.Context(), []*format.File{f}, nil)
	if err != nil {
		return nil, append(problems, err)
	}
	problems = append(problems, w.lifecycle(f)...)
	return w, append(problems, w.spans()...)
}

// lifecycle checks the entries that describe the trace: entrace.trace and "trace end".
func (w *walked) lifecycle(f *format.File) (problems []error) {
	bad := func(text string, args ...any) { problems = append(problems, fmt.Errorf(text, args...)) }
	top := f.Children(0)
	if len(top) == 0 || w.entries[top[0]].Metadata.Name != mapping.NameTrace {
		return []error{errors.New("the first entry below the root is not that of the trace")}
	}
	w.head = top[0]
	for _, name := range []string{"trigger", "config.id", "config.name", format.AttrTime} {
		if w.attr(w.head, name) == "" {
			bad("the trace's entry has no %s", name)
		}
	}
	if n := len(w.named(mapping.NameTrace)); n != 1 {
		bad("%d entries of the trace itself, want 1", n)
	}
	crash := w.attr(w.head, "trigger") == "crash"
	if !crash && w.attr(w.head, "providers") == "" {
		bad("the trace's entry has no providers")
	}
	ends, mode := w.named("trace end"), w.attr(w.head, "mode")
	switch {
	case crash:
	case mode == string(control.ModeSnapshot):
		if len(ends) != 0 {
			bad("a snapshot has an end")
		}
		for _, name := range []string{"window.asked_nano", "window.got_nano", "evicted"} {
			if w.attr(w.head, name) == "" {
				bad("the trace's entry has no %s", name)
			}
		}
	case mode == string(control.ModeStream):
		below := f.Children(w.head)
		switch {
		case len(ends) != 1:
			bad("%d entries %q, want 1", len(ends), "trace end")
		case below[len(below)-1] != ends[0]:
			bad("entry %d below the trace's comes after its end, %d", below[len(below)-1], ends[0])
		case w.attr(ends[0], "end.reason") == "" || w.attr(ends[0], format.AttrDuration) == "":
			bad("the end has no reason or no duration")
		}
	default:
		bad("the mode is %q", mode)
	}
	return problems
}

// spans checks that the entries with the ids of a span are below this span.
func (w *walked) spans() (problems []error) {
	bad := func(text string, args ...any) { problems = append(problems, fmt.Errorf(text, args...)) }
	for i := range w.entries {
		id := uint32(i)
		if p := w.up(id); int(p) >= len(w.entries) {
			bad("the parent of entry %d in the view is %d", id, p)
		}
		ref, missing, err := w.v.Missing(w.row(id))
		if err != nil {
			bad("entry %d: %w", id, err)
			continue
		}
		if missing {
			w.missing++
			if _, there := w.v.Span(ref); there || !ref.IsValid() {
				bad("entry %d misses span %v, which is there or none", id, ref)
			}
			continue
		}
		if parent := w.attr(id, format.AttrParentSpanID); parent != "" && w.v.Role(w.row(id)) == view.RoleSpan {
			if up := w.v.Ref(w.v.Parent(w.row(id))); fmt.Sprintf("%x", up.SpanID) != parent {
				bad("span %d is below %x, and its parent is %s", id, up.SpanID, parent)
			}
		}
	}
	return problems
}

// TestEveryLink checks the links in traces of various kinds.
func TestEveryLink(t *testing.T) {
	all := control.Spans | control.Logs | control.RuntimeMetrics | control.GC | control.Sched | control.Process
	stream := control.TraceConfig{
		Name: "stream", Mode: control.ModeStream, Providers: all | control.Goroutines | control.CPUProfile, On: onAPI("stream"),
		Params: map[string]string{"runtime.metrics.interval": "20ms"},
	}
	snapshot := control.TraceConfig{Name: "snapshot", Providers: all | control.Goroutines | control.ExecTrace, On: onAPI("snapshot")}
	narrow := control.TraceConfig{Name: "narrow", Providers: control.Logs, Scope: "trace", On: onAPI("narrow")}
	for _, version := range tracetest.BothVersions {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			r := newRig(t, control.Options{Config: base(t.TempDir(), all, stream, snapshot, narrow), Version: version})
			ctx, open := r.tracer.Start(t.Context(), "open")
			r.start(api("stream"))
			for range 5 {
				in, span := r.tracer.Start(ctx, "inner")
				r.log.InfoContext(in, "inside")
				span.AddEvent("event")
				span.End()
			}
			q := api("snapshot")
			sc := open.SpanContext()
			q.Span = format.SpanRef{TraceID: sc.TraceID(), SpanID: sc.SpanID()}
			r.start(q)
			q.Key = "narrow"
			r.start(q)
			before := r.ctl.Stats().Ring.Entries
			eventually(t, "the samplers write", func() bool { return r.ctl.Stats().Ring.Entries > before })
			if !r.stop(api("stream")) {
				t.Error("the stream did not run")
			}
			open.End()
			for _, trace := range r.wait(3) {
				w := everyLink(t, trace.Path())
				expect.Equal(t, w.attr(w.head, "config.name"), trace.Name, "the trace says")
				expect.Equal(t, w.messages()["inside"], 5, "log records of %s", w.name)
				if trace.Name == "narrow" { // the trace has no spans, so the ids in its log records lead nowhere
					continue
				}
				for _, id := range w.named("inner") {
					expect.Equal(t, w.entries[w.up(id)].Metadata.Name, "open", "%s: the inner span is below", w.name)
				}
			}
			r.quiet()
		})
	}
}

// TestEveryLinkFinds checks that walk finds problems.
func TestEveryLinkFinds(t *testing.T) {
	head := func(mode control.Mode) *format.TraceEntry {
		e := &format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Level: format.LevelInfo}}
		for _, name := range []string{"trigger", "config.id", "config.name", "providers"} {
			e.Add(name, format.StringValue("x"))
		}
		e.Attributes = append(e.Attributes, tracetest.Attributes("mode", string(mode), format.AttrTime, time.Now())...)
		return e
	}
	tests := []struct {
		name string
		fill func(r *recorder.Recorder) error
	}{
		{"nothing", func(*recorder.Recorder) error { return nil }},
		{"another entry first", func(r *recorder.Recorder) error {
			_, err := r.Append(tracetest.Entry("other"))
			_, herr := inside.Of(r).AppendAnchor(head(control.ModeStream))
			return errors.Join(err, herr)
		}},
		{"a stream without end", func(r *recorder.Recorder) error {
			_, err := inside.Of(r).AppendAnchor(head(control.ModeStream))
			return err
		}},
		{"a snapshot without window", func(r *recorder.Recorder) error {
			_, err := inside.Of(r).AppendAnchor(head(control.ModeSnapshot))
			return err
		}},
		{"an entry after the end", func(r *recorder.Recorder) error {
			id, err := inside.Of(r).AppendAnchor(head(control.ModeStream))
			for _, name := range []string{"trace end", "late"} {
				_, aerr := r.Append(tracetest.Below(id, tracetest.Entry(name, "end.reason", "stopped", format.AttrDuration, uint64(1))))
				err = errors.Join(err, aerr)
			}
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name := hosttest.Path(t, "x.et")
			rec := tracetest.CreateAt(t, name, nil)
			must(t, tt.fill(rec))
			must(t, rec.Close(t.Context()))
			if _, problems := walk(t, name); len(problems) == 0 {
				t.Error("nothing was found")
			}
		})
	}
}
