package convert_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/convert"
	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// TestLastEndWithoutDuration checks that a span has the same duration in every format. Its entry, its last end or
// an earlier end may have the duration.
func TestLastEndWithoutDuration(t *testing.T) {
	x := tracetest.New(t, format.V1, format.IET, format.Root())
	write := func(e *format.TraceEntry, span string, took int) uint32 {
		e.Add(format.AttrSpanID, format.StringValue(span))
		if took >= 0 {
			e.Add(format.AttrDuration, format.U64Value(uint64(took)))
		}
		return x.Add(e)
	}
	want := []string{}
	for i, c := range []struct {
		name   string
		own    int
		ends   []int
		expect string
	}{
		{"only its entry says it", 5, []int{-1}, "5ns"},
		{"its end says it", -1, []int{6}, "6ns"},
		{"an earlier end says it", -1, []int{7, -1}, "open"},
		{"entry and earlier end say it", 8, []int{9, -1}, "8ns"},
		{"all say it", 8, []int{9, 10}, "10ns"},
	} {
		span := fmt.Sprintf("%016x", i+1)
		id := write(tracetest.Entry(c.name, format.AttrTraceID, strings.Repeat("1", 32), format.AttrTime, uint64(100)), span, c.own)
		for _, took := range c.ends {
			write(tracetest.Below(id, tracetest.Entry(format.NameSpanEnd)), span, took)
		}
		want = append(want, c.name+": "+c.expect)
	}
	slices.Sort(want)
	name := x.Save("")
	tr, err := convert.Open(t.Context(), []string{name}, nil)
	must(t, err)
	defer tr.Close()
	check := func(what string, v *view.View) {
		t.Helper()
		got := []string{}
		for r := range v.Rows() {
			if v.Role(r) != view.RoleSpan {
				continue
			}
			took := "open"
			if d, ended := v.Duration(r); ended {
				took = d.String()
			}
			if v.Flags(r).Open() != (took == "open") {
				t.Errorf("%s: %s took %s, and is open: %t", what, v.Name(r), took, v.Flags(r).Open())
			}
			got = append(got, v.Name(r)+": "+took)
		}
		slices.Sort(got)
		expect.Slice(t, got, want, "%s has", what)
	}
	check("the file", tr.View())
	for format, write := range outputs(t, tr) {
		out := hosttest.Path(t, "out")
		must(t, os.WriteFile(out, write(), 0o600))
		read, err := convert.Open(t.Context(), []string{out}, &convert.OpenOptions{From: convert.Format(strings.Fields(format)[0])})
		must(t, err)
		defer read.Close()
		check(format, read.View())
	}
}
