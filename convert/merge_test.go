package convert_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/exporter"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/otel"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// A part describes an entry of a trace: a span, or a log record of a span.
type part struct {
	name       string
	span, up   byte // ids of the span and its parent
	at         int64
	log        bool
	below      int // index of the part below which the entry is; -1: the resource
	otherTrace bool
}

// service returns a file with the spans and log records of one service.
func service(t *testing.T, v format.Version, name string, parts []part) *format.File {
	t.Helper()
	x := tracetest.New(t, v, format.ET, format.Root())
	write := x.AddBelow
	r := otel.Resource{Attributes: []otel.Attribute{{Name: "service.name", Value: format.StringValue(name)}}}
	resource := write(r.Entry(), 0)
	var ids []uint32
	for _, p := range parts {
		trace, parent := [16]byte{1}, resource
		if p.otherTrace {
			trace[0] = 2
		}
		where := otel.Where{}
		if p.below >= 0 {
			parent, where = ids[p.below], otel.Where{Trace: true, Parent: true}
		}
		if p.log {
			l := otel.Log{Body: otel.Any{Kind: otel.String, Text: p.name}, TraceID: trace, SpanID: [8]byte{p.span}, Time: p.at, HasTime: true, Severity: 9, SeverityText: "INFO"}
			ids = append(ids, write(tracetest.Of(&l, where), parent))
			continue
		}
		s := otel.Span{Name: p.name, TraceID: trace, SpanID: [8]byte{p.span}, Start: p.at, Ended: true, Kind: otel.KindInternal, Flags: mapping.DefaultTraceFlags}
		if p.up != 0 {
			s.Parent = [8]byte{p.up}
		}
		ids = append(ids, write(tracetest.Of(&s, where), parent))
	}
	write(tracetest.Entry(mapping.NameEnd, "of", name), 0)
	return x.Open()
}

func openFile(t *testing.T, name string) *format.File {
	t.Helper()
	f := tracetest.OpenFile(t, name)
	return f
}

var viewOf = tracetest.View

// merge merges files. It returns the tree of the entries in one line, and a view of the result.
func merge(t *testing.T, v format.Version, files ...*format.File) (string, *view.View) {
	t.Helper()
	var b bytes.Buffer
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	must(t, opened(t, nil, names...).Encode(t.Context(), &b, convert.ET, &convert.Options{Version: v}))
	file := hosttest.Path(t, "merged.et")
	must(t, os.WriteFile(file, b.Bytes(), 0o600))
	merged := openFile(t, file)
	var show func(id uint32) string
	show = func(id uint32) string {
		e, err := merged.Entry(id)
		must(t, err)
		name := e.Metadata.Name
		if e.Message.Valid {
			name = e.Message.Value
		}
		var ids []string
		for _, a := range e.Attributes {
			if a.Name == format.AttrTraceID || a.Name == format.AttrParentSpanID {
				ids = append(ids, a.Name)
			}
		}
		if ids != nil {
			name += fmt.Sprint(ids)
		}
		var kids []string
		for _, kid := range merged.Children(id) {
			kids = append(kids, show(kid))
		}
		if kids != nil {
			name += "(" + strings.Join(kids, " ") + ")"
		}
		return name
	}
	return show(0), viewOf(t, merged)
}

func TestMerge(t *testing.T) {
	client := []part{{name: "call", span: 1, at: 10, below: -1}, {name: "retry", span: 2, up: 1, at: 20, below: 0}}
	server := []part{
		{name: "serve", span: 11, up: 2, at: 25, below: -1},
		{name: "query", span: 12, up: 11, at: 26, below: 0},
		{name: "served", span: 11, at: 27, log: true, below: 0},
		{name: "stranger", span: 13, up: 99, at: 28, below: -1},
		{name: "of another trace", span: 14, up: 2, at: 29, below: -1, otherTrace: true},
	}
	other := []part{{name: "said", span: 12, at: 30, log: true, below: -1}, {name: "alone", at: 31, log: true, below: -1}}
	again := []part{{name: "second try", span: 15, up: 1, at: 32, below: -1}, {name: "tried", span: 15, at: 33, log: true, below: 0}}
	const want = "root(client(call[trace_id](retry second try(tried))) " +
		"server(serve[trace_id parent_span_id](query served) stranger[trace_id parent_span_id] of another trace[trace_id parent_span_id]) other(said[trace_id] alone[trace_id]) " +
		"entrace.end entrace.end entrace.end entrace.end)"
	for _, v := range tracetest.BothVersions {
		parts := map[string]*format.File{"client": service(t, v, "client", client), "server": service(t, 3-v, "server", server), "other": service(t, v, "other", other), "again": service(t, 3-v, "client", again)}
		got, _ := merge(t, v, parts["client"], parts["server"], parts["other"], parts["again"])
		got = sortMarks(got)
		if got != sortMarks(want) {
			t.Errorf("version %d:\n%s, want\n%s", v, got, want)
		}
		// In any order of the files, the tree is the same except for the order of siblings.
		for _, names := range [][]string{{"server", "again", "client", "other"}, {"other", "again", "server", "client"}, {"other", "client", "server", "again"}} {
			got, out := merge(t, v, parts[names[0]], parts[names[1]], parts[names[2]], parts[names[3]])
			if words(got) != words(want) {
				t.Errorf("version %d, %v:\n%s, want the words of\n%s", v, names, got, want)
			}
			serve, _ := out.Span(format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{11}})
			retry, _ := out.Span(format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{2}})
			if serve == 0 || out.Parent(serve) != retry || out.Service(serve) != "server" {
				t.Errorf("version %d, %v: serve is not below retry", v, names)
			}
		}
	}
}

// sortMarks puts the marks of version 2, which are sorted, into the order of version 1.
func sortMarks(s string) string {
	return strings.ReplaceAll(s, "[parent_span_id trace_id]", "[trace_id parent_span_id]")
}

func words(s string) string {
	w := strings.FieldsFunc(sortMarks(s), func(r rune) bool { return strings.ContainsRune("() ", r) })
	slices.Sort(w)
	return strings.Join(w, " ")
}

// recorded returns a file that the exporter has written for a service.
func recorded(t *testing.T, v format.Version, name string) *format.File {
	t.Helper()
	file := hosttest.Path(t, name+".et")
	exp, err := exporter.New(exporter.WithPath(file), exporter.WithRecorderOptions(recorder.Options{Version: v}))
	must(t, err)
	// The exporter writes otel.json and the schema URL after these attributes.
	res := resource.NewWithAttributes("https://example.com/schema", attribute.String("service.name", name), attribute.StringSlice("process.command_args", []string{"a", "b"}))
	tp := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exp), sdktrace.WithResource(res))
	_, span := tp.Tracer("t").Start(t.Context(), "work of "+name)
	span.End()
	must(t, tp.Shutdown(t.Context()))
	return openFile(t, file)
}

// TestMergeAnyVersions merges files of both versions in both orders, into both versions. A service that is in two
// files must have one resource.
func TestMergeAnyVersions(t *testing.T) {
	for _, versions := range [][3]format.Version{{1, 1, 1}, {1, 2, 1}, {2, 1, 1}, {2, 2, 1}, {1, 1, 2}, {1, 2, 2}, {2, 1, 2}, {2, 2, 2}} {
		a, b, again := recorded(t, versions[0], "a"), recorded(t, versions[1], "b"), recorded(t, versions[1], "a")
		for _, files := range [][]*format.File{{a, b, again}, {b, again, a}} {
			_, out := merge(t, versions[2], files...)
			resources, spans := make(map[string]int), make(map[string]string)
			for id := range out.Rows() {
				e, err := out.Entry(id)
				must(t, err)
				switch out.Role(id) {
				case view.RoleResource:
					resources[e.Message.Value]++
					want := []string{"otel.json", "otel.resource.schema_url", "process.command_args", "service.name"}
					var names []string
					for _, at := range e.Attributes {
						names = append(names, at.Name)
					}
					slices.Sort(names)
					expect.Slice(t, names, want, "versions %v: a resource has", versions)
				case view.RoleSpan:
					up, err := out.Entry(out.Parent(id))
					must(t, err)
					spans[e.Metadata.Name] = up.Message.Value
				}
			}
			if want := map[string]int{"a": 1, "b": 1}; !maps.Equal(resources, want) {
				t.Errorf("versions %v: the resources are %v, want %v", versions, resources, want)
			}
			if want := map[string]string{"work of a": "a", "work of b": "b"}; !maps.Equal(spans, want) {
				t.Errorf("versions %v: the spans and their resources are %v, want %v", versions, spans, want)
			}
		}
	}
}

// TestMergeSame merges a file with its copy. Spans and resources must be in the result once.
func TestMergeSame(t *testing.T) {
	parts := []part{{name: "a", span: 1, at: 1, below: -1}, {name: "b", span: 2, up: 1, at: 2, below: 0}}
	got, _ := merge(t, format.V1, service(t, format.V1, "one", parts), service(t, format.V1, "one", parts))
	expect.Equal(t, got, "root(one(a[trace_id](b)) entrace.end entrace.end)", "the tree")
}

// TestMergeEmpty merges a file that ends after its magic. It adds no entries, but the result must not look like a
// complete recording.
func TestMergeEmpty(t *testing.T) {
	a := service(t, format.V1, "one", []part{{name: "a", span: 1, at: 1, below: -1}})
	file := hosttest.Path(t, "empty.iet")
	must(t, os.WriteFile(file, []byte("\x00ENTRACE\x01\x01"), 0o600))
	for _, files := range [][]*format.File{{a, openFile(t, file)}, {openFile(t, file), a}} {
		got, _ := merge(t, format.V1, files...)
		expect.Equal(t, got, "root(entrace.end one(a[trace_id]))", "the tree")
	}
}

// TestMergeRing merges spans of two files that are each other's parents, and a span that is its own parent. Each
// must be in the result once.
func TestMergeRing(t *testing.T) {
	a := service(t, format.V1, "one", []part{{name: "a", span: 1, up: 4, at: 1, below: -1}, {name: "b", span: 2, up: 1, at: 2, below: 0}})
	b := service(t, format.V1, "two", []part{{name: "c", span: 3, up: 2, at: 3, below: -1}, {name: "d", span: 4, up: 3, at: 4, below: 0}, {name: "e", span: 5, up: 5, at: 5, below: -1}})
	got, out := merge(t, format.V1, a, b)
	expect.Equal(t, out.Len(), 1+2+5+2, "entries: %s", got)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if n := strings.Count(words(got)+" ", name+" ") + strings.Count(got, name+"["); n < 1 {
			t.Errorf("%s is not there: %s", name, got)
		}
	}
}

// anything returns a file of random entries: spans with few different ids, ends and log records that name some of
// them, and random parents. Each entry has a different number.
func anything(t *testing.T, r *rand.Rand, v format.Version, n int, number *uint64) *format.File {
	t.Helper()
	x := tracetest.New(t, v, format.IET)
	id := func() format.Value { return format.StringValue(fmt.Sprintf("%016x", 1+r.IntN(6))) }
	for i := range n {
		if i == 0 {
			x.Add(format.Root())
			continue
		}
		e := &format.TraceEntry{Parent: uint32(r.IntN(i))}
		add := func(n string, v format.Value) {
			e.Add(n, v)
		}
		*number++
		add("a.number", format.U64Value(*number))
		switch r.IntN(4) {
		case 0, 1:
			e.Metadata.Name = "s"
			add(format.AttrTraceID, format.StringValue(fmt.Sprintf("%032x", 7)))
			add(format.AttrTime, format.U64Value(*number))
			add(format.AttrSpanID, id())
			if r.IntN(2) == 0 {
				add(format.AttrParentSpanID, id())
			}
			if r.IntN(3) == 0 {
				add(mapping.AttrContinued, format.BoolValue(true))
			}
		case 2:
			e.Metadata.Name = format.NameSpanEnd
			add(format.AttrSpanID, id())
			add(format.AttrDuration, format.U64Value(*number))
		case 3:
			e.Metadata.Name, e.Message = "event x", format.Some("m")
			add(format.AttrTime, format.U64Value(*number))
			add(format.AttrSpanID, id())
		}
		format.SortAttributes(e.Attributes)
		x.Add(e)
	}
	return x.Open()
}

// TestMergeAnything merges random files. Every entry must be in the result once, except for the later halves of spans.
func TestMergeAnything(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		ver := format.Version(1 + r.IntN(2))
		var files []*format.File
		number := uint64(0)
		for k := range 1 + r.IntN(4) {
			n := r.IntN(12)
			if k == 0 {
				n *= r.IntN(2) // often empty, without even a root
			}
			files = append(files, anything(t, r, ver, n, &number))
		}
		_, out := merge(t, ver, files...)
		times := make(map[uint64]int)
		merged := out.Files()[0]
		for id := range uint32(merged.Len()) {
			e, err := merged.Entry(id)
			must(t, err)
			if a, ok := e.Attribute("a.number"); ok {
				n, _ := a.U64()
				times[n]++
			}
		}
		v, err := view.New(t.Context(), files, nil)
		must(t, err)
		for k, f := range files {
			for id := uint32(1); int(id) < f.Len(); id++ {
				e, err := f.Entry(id)
				must(t, err)
				row, _ := v.Row(k, id)
				want := 1
				if file, own := v.ID(row); file == k && own == id && v.Role(row) == view.RoleFolded {
					want = 0
				}
				a, _ := e.Attribute("a.number")
				if n, _ := a.U64(); times[n] != want {
					t.Errorf("seed %d: entry %d of file %d comes %d times, want %d", seed, id, k, times[n], want)
				}
			}
		}
	}
}
