package convert_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/view"
)

// callers returns a folder with the files of two services that call each other, and of another run of the first
// service, which has the same resource.
func callers(t *testing.T, v format.Version) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, v format.Version, service_ string, parts []part) {
		f := service(t, v, service_, parts)
		must(t, os.Rename(f.Name(), filepath.Join(dir, name)))
	}
	put("a.et", v, "shop", []part{
		{name: "call", span: 1, at: 10, below: -1},
		{name: "told", span: 3, up: 2, at: 22, below: -1},
		{name: "told this", span: 3, at: 23, log: true, below: 1},
		{name: "beside", span: 2, at: 24, log: true, below: -1},
	})
	put("b.et", 3-v, "stock", []part{
		{name: "serve", span: 2, up: 1, at: 12, below: -1},
		{name: "served", span: 2, at: 13, log: true, below: 0},
		{name: "again", span: 4, up: 3, at: 23, below: -1},
		{name: "query", span: 5, up: 4, at: 24, below: 2},
		{name: "of nobody", span: 6, up: 99, at: 25, below: -1},
	})
	put("c.et", v, "shop", []part{
		{name: "retry", span: 7, up: 1, at: 30, below: -1},
		{name: "retried", span: 7, at: 31, log: true, below: 0},
		{name: "logged later", span: 1, at: 32, log: true, below: -1},
	})
	return dir
}

// rowsByService returns a line for each span and log record: its name, its place in the tree, its service, and the
// attributes of its resource.
func rowsByService(t *testing.T, v *view.View) []string {
	t.Helper()
	title := func(r view.Row) string {
		if s, ok := v.Message(r); ok && v.Role(r) == view.RoleLog {
			return s
		}
		if v.Role(r) == view.RoleResource {
			return "resource"
		}
		return v.Name(r)
	}
	var lines []string
	for r := range v.Rows() {
		if role := v.Role(r); role != view.RoleSpan && role != view.RoleLog {
			continue
		}
		e, err := v.Entry(v.Resource(r))
		must(t, err)
		name, _ := e.Attribute("service.name")
		missing := ""
		if v.Flags(r).Missing() {
			missing = " missing"
		}
		lines = append(lines, fmt.Sprintf("%s %s below %s: service %q of resource %q%s", v.Role(r), title(r), title(v.Parent(r)), v.Service(r), name.Text(), missing))
	}
	slices.Sort(lines)
	return lines
}

// TestRowsKeepTheirService writes several traces in different formats. In the output, each row must have the same
// service, resource and parent.
func TestRowsKeepTheirService(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		dir := callers(t, version)
		tr, err := convert.Open(t.Context(), []string{dir}, nil)
		must(t, err)
		defer tr.Close()
		want := rowsByService(t, tr.View())
		if len(want) != 12 || !slices.Contains(want, `span serve below call: service "stock" of resource "stock"`) {
			t.Fatalf("the rows are\n%s", strings.Join(want, "\n"))
		}
		check := func(what string, read *convert.Trace) {
			t.Helper()
			if got := rowsByService(t, read.View()); !slices.Equal(got, want) {
				t.Errorf("%s has\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		all := func(view.Row) bool { return true }
		part, err := tr.Select(t.Context(), tr.View(), all)
		must(t, err)
		defer part.Close()
		check("a selection", part)
		for what, from := range map[string]*convert.Trace{"the files": tr, "a selection of them": part} {
			for name, write := range outputs(t, from) {
				out := hosttest.Path(t, "out")
				must(t, os.WriteFile(out, write(), 0o600))
				read, err := convert.Open(t.Context(), []string{out}, &convert.OpenOptions{From: convert.Format(strings.Fields(name)[0])})
				must(t, err)
				defer read.Close()
				check(what+" as "+name, read)
				again, err := read.Select(t.Context(), read.View(), all)
				must(t, err)
				defer again.Close()
				check("a selection of "+what+" as "+name, again)
			}
		}
	}
}

// outputs returns functions that write a trace, one for each format that has services and can be read.
func outputs(t *testing.T, tr *convert.Trace) map[string]func() []byte {
	t.Helper()
	all := make(map[string]func() []byte)
	for _, sf := range []format.StorageFormat{format.ET, format.IET, format.IETPrefix} {
		for _, v := range []format.Version{format.V1, format.V2} {
			all[fmt.Sprintf("%s version %d", sf, v)] = func() []byte {
				var b bytes.Buffer
				must(t, tr.Encode(t.Context(), &b, convert.Format(sf.String()), &convert.Options{Version: v}))
				return b.Bytes()
			}
		}
	}
	for _, f := range convert.Formats() {
		if _, own := f.Format.Own(); own || !f.Reads || !f.Writes || f.Format == convert.GoTrace {
			continue
		}
		all[string(f.Format)] = func() []byte {
			var b bytes.Buffer
			must(t, tr.Encode(t.Context(), &b, f.Format, nil))
			return b.Bytes()
		}
	}
	return all
}

// TestSelectedRowsKeepTheirService selects a part of a trace. A span must keep its service even if it is below a
// span of another service.
func TestSelectedRowsKeepTheirService(t *testing.T) {
	tr, err := convert.Open(t.Context(), []string{callers(t, format.V1)}, nil)
	must(t, err)
	defer tr.Close()
	v := tr.View()
	for r := range v.Rows() {
		if v.Role(r) != view.RoleSpan && v.Role(r) != view.RoleLog {
			continue
		}
		above := map[view.Row]bool{}
		for up := r; up != 0; up = v.Parent(up) {
			above[up] = true
		}
		part, err := tr.Select(t.Context(), tr.View(), func(r view.Row) bool { return above[r] })
		must(t, err)
		defer part.Close()
		want := []string{}
		all := rowsByService(t, v)
		for _, line := range rowsByService(t, part.View()) {
			if slices.Contains(all, line) {
				want = append(want, line)
			}
		}
		if got := rowsByService(t, part.View()); len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("of %s there is\n%s\nbut in the whole trace\n%s", v.Name(r), strings.Join(got, "\n"), strings.Join(all, "\n"))
		}
	}
}
