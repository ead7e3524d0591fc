package tail

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestWindow checks which rows are complete after each part of a trace, and their order. Spans that began before the
// last View or before the first entry, or whose beginning is lost, must also be found.
func TestWindow(t *testing.T) {
	for _, version := range tracetest.BothVersions {
		begin := func(name, id string) *format.TraceEntry {
			return tracetest.Entry(name, format.AttrSpanID, id, format.AttrTime, uint64(1000))
		}
		end := func(id string) *format.TraceEntry {
			return tracetest.Entry(format.NameSpanEnd, format.AttrDuration, uint64(5), format.AttrSpanID, id, "x", "of the end")
		}
		before := format.AppendTraceEntry(nil, version, begin("before", "0000000000000001"))
		w := NewWindow(version, func(end *format.TraceEntry) []byte {
			if id, _ := end.Attribute(format.AttrSpanID); id.Text() == "0000000000000001" {
				return before
			}
			return nil
		})
		for _, step := range []struct {
			add  []*format.TraceEntry
			want string
		}{
			{[]*format.TraceEntry{begin("first", "0000000000000002"), tracetest.Log("equal"), tracetest.Log("equal")}, "equal,equal"},
			{[]*format.TraceEntry{end("0000000000000002"), tracetest.Log("last")}, "first of the end,last"},
			{[]*format.TraceEntry{end("0000000000000001"), end("0000000000000003")}, "before of the end,a span of the end"},
			{nil, ""},
		} {
			for _, e := range step.add {
				format.SortAttributes(e.Attributes)
				w.Add(format.AppendTraceEntry(nil, version, e), e)
			}
			v, rows, err := w.View(t.Context())
			must(t, err)
			var got []string
			for _, r := range rows {
				e, err := v.Entry(r)
				must(t, err)
				x, _ := e.Attribute("x")
				name := e.Metadata.Name
				if e.Message.Valid {
					name = e.Message.Value
				}
				got = append(got, strings.TrimSpace(name+" "+x.Text()))
			}
			expect.Equal(t, strings.Join(got, ","), step.want, "version %v: the rows", version)
		}
	}
}

// TestPartFindsBeginnings checks that the last lines of a Part have the names of their spans, also if a span began before
// these lines, or before the Part.
func TestPartFindsBeginnings(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		name := t.TempDir() + "/x." + f.String()
		x := tracetest.New(t, format.V2, f, format.Root())
		long := x.Add(tracetest.Entry("long", format.AttrSpanID, "0000000000000001", format.AttrTime, uint64(1000)))
		for i := range 20_000 {
			x.Add(tracetest.Log(strings.Repeat("x", 1000) + fmt.Sprint(i)))
		}
		short := x.Add(tracetest.Entry("short", format.AttrSpanID, "0000000000000002", format.AttrTime, uint64(2000)))
		for i := range 50 {
			x.Add(tracetest.Log(fmt.Sprint(i)))
		}
		for id, parent := range map[string]uint32{"0000000000000001": long, "0000000000000002": short} {
			x.AddBelow(tracetest.Entry(format.NameSpanEnd, format.AttrDuration, uint64(5), format.AttrSpanID, id), parent)
		}
		x.Add(tracetest.Entry(mapping.NameEnd))
		x.Save(name)
		p := Open(name, 2)
		if p == nil {
			t.Fatalf("%v: no part", f)
		}
		whole := tracetest.OpenFile(t, name)
		v, rows, err := p.Window(func(end *format.TraceEntry) []byte { return BeginningIn(whole, end) }).View(t.Context())
		must(t, err)
		var names []string
		for _, r := range rows {
			names = append(names, v.Name(r))
		}
		slices.Sort(names)
		expect.Slice(t, names, []string{"long", "short"}, "%v: the last spans", f)
	}
}
