package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// parents returns for each span and log record the name of its parent, in the order of the rows.
func parents(v *view.View) string {
	title := func(r view.Row) string {
		if text, ok := v.Message(r); ok {
			return text
		}
		return v.Name(r)
	}
	var all []string
	for r := range v.Rows() {
		if role := v.Role(r); role == view.RoleSpan || role == view.RoleLog {
			all = append(all, title(r)+"<"+title(v.Parent(r)))
		}
	}
	return strings.Join(all, " ")
}

// TestSharedSpan checks the tree of a span that client and server share.
func TestSharedSpan(t *testing.T) {
	span := func(name, id, up, kind string, pairs ...any) *format.TraceEntry {
		return tracetest.Entry(name, append(pairs, format.AttrTraceID, strings.Repeat("1", 32), format.AttrSpanID, id, format.AttrParentSpanID, up,
			format.AttrTime, uint64(1e18), format.AttrDuration, uint64(1000), mapping.AttrKind, kind)...)
	}
	const one, two = "0000000000000001", "0000000000000002"
	front := []*format.TraceEntry{
		tracetest.Resource("front"), span("root", one, "", "server"), span("call", two, one, "client"), span("dial", "0000000000000003", two, "internal"),
	}
	back := []*format.TraceEntry{
		tracetest.Resource("back"), span("serve", two, one, "server"), span("db", "0000000000000004", two, "client"),
		tracetest.Log("said", format.AttrTraceID, strings.Repeat("1", 32), format.AttrSpanID, two, format.AttrTime, uint64(1e18)),
	}
	const want = "serve<call db<serve said<serve root<front call<root dial<call"
	t.Run("in a file that grows, server first", func(t *testing.T) {
		g := grow(t, format.V1, format.IET)
		g.add(format.Root())
		v := tracetest.View(t, g.file)
		for i, e := range slices.Concat(back, front) {
			var err error
			g.add(tracetest.Below([]uint32{0, 1, 1, 1, 0, 5, 5, 5}[i], e))
			v, err = v.Extend(t.Context())
			must(t, err)
		}
		expect.Equal(t, parents(v), want, "the tree")
	})
	t.Run("in a file for each service", func(t *testing.T) {
		var files []*format.File
		for _, entries := range [][]*format.TraceEntry{back, front} {
			x := tracetest.New(t, format.V1, format.IET, format.Root())
			resource := x.Add(entries[0])
			for _, e := range entries[1:] {
				x.AddBelow(e, resource)
			}
			files = append(files, x.Open())
		}
		expect.Equal(t, parents(tracetest.View(t, files...)), want, "the tree")
	})
}
