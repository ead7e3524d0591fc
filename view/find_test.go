package view_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/columns"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/view"
)

// textsOf returns all texts of row r that a search covers.
func textsOf(t *testing.T, v *view.View, r view.Row) string {
	t.Helper()
	e, err := v.Entry(r)
	must(t, err)
	all := []string{e.Metadata.Name, e.Metadata.Target, e.Message.Value}
	for _, a := range e.Attributes {
		if name, own := mapping.UserName(a.Name); own {
			all = append(all, name, a.Value.Text())
		}
	}
	return strings.ToLower(strings.Join(all, "\n"))
}

func TestFinderFindsEveryRowThatHasAText(t *testing.T) {
	words := []string{"Timeout", "timeout", "TIMEOUT", "tim\u0130ng", "\u212aelvin", "größe", "GRÖSSE", "12.5", "a~b", "x", ""}
	looked := []string{"timeout", "timing", "kelvin", "größe", "12.5", "a~b", "x", "no such text", "ime", ""}
	for seed := range 12 {
		r := rand.New(rand.NewPCG(uint64(seed), 3))
		var files []*format.File
		for k := range 1 + seed%2 {
			entries := randomEntries(r, 30+r.IntN(9000), k)
			for _, e := range entries[1:] {
				if r.IntN(50) == 0 {
					e.Add("text", format.StringValue(words[r.IntN(len(words))]))
				}
			}
			sf := []format.StorageFormat{format.ET, format.IET, format.IETPrefix}[seed%3]
			files = append(files, write(t, format.Version(1+seed%2), sf, entries))
		}
		v := viewOf(t, files...)
		has := make([]string, v.Len())
		for r := range v.Rows() {
			if v.Role(r) != view.RoleFolded {
				has[r] = textsOf(t, v, r)
			}
		}
		for _, text := range looked {
			f := columns.Of(v).Finder(text)
			kept := 0
			for k := range columns.Of(v).Blocks() {
				var rows [columns.BlockRows / 64]uint64
				b := columns.Of(v).Block(k)
				for i := range b.Flags {
					rows[i/64] |= 1 << (i % 64)
				}
				f.Block(k, &rows)
				for i, flags := range b.Flags {
					found := rows[i/64]>>(i%64)&1 != 0
					if found {
						kept++
					}
					if !found && view.Flags(flags).Role() != view.RoleFolded && strings.Contains(has[int(b.First)+i], text) {
						t.Fatalf("seed %d: row %d has %q and is not found", seed, view.Row(b.First)+view.Row(i), text)
					}
				}
			}
			if text == "no such text" && kept > 0 {
				t.Errorf("seed %d: %d rows are found that do not have the text", seed, kept)
			}
		}
	}
}

// TestColumnOfFilesThatGrowInTurns makes columns of blocks whose first and last rows belong to one file, and rows
// between them to another file.
func TestColumnOfFilesThatGrowInTurns(t *testing.T) {
	a, b := grow(t, format.V1, format.IET), grow(t, format.V1, format.IET)
	entry := func(value string) *format.TraceEntry {
		e := logEntry(0)
		e.Attributes = tracetest.Attributes("of", value)
		return e
	}
	a.add(format.Root())
	b.add(format.Root())
	v := viewOf(t, a.file, b.file)
	for turn := range 3 {
		g := []*growingTrace{a, b}[turn%2]
		for i := range 20 {
			g.add(entry(fmt.Sprintf("file %d, turn %d, entry %d", turn%2, turn, i)))
		}
		next, err := v.Extend(t.Context())
		must(t, err)
		v = next
	}
	c, err := columns.Of(v).Column(t.Context(), "of")
	must(t, err)
	for r := range v.Rows() {
		e, err := v.Entry(r)
		must(t, err)
		want, _ := e.Attribute("of")
		got := format.Value{}
		if code := c.Codes[r]; code > 0 {
			got = c.Values[code-1]
		}
		expect.Equal(t, got.Text(), want.Text(), "row %d in the column", r)
	}
}

// TestAttributeBesideLongMessage reads an attribute of a log record whose message has more than 64 KiB.
func TestAttributeBesideLongMessage(t *testing.T) {
	for _, version := range tracetest.BothVersions {
		e := logEntry(0)
		e.Message = format.Some(strings.Repeat("m", 1<<16))
		e.Attributes = tracetest.Attributes("of", "long")
		v := viewOf(t, write(t, version, format.IET, []*format.TraceEntry{format.Root(), e}))
		value, _ := columns.Of(v).Attribute("of")(1)
		c, err := columns.Of(v).Column(t.Context(), "of")
		must(t, err)
		if value.Text() != "long" || len(c.Values) != 1 || c.Codes[1] == 0 {
			t.Errorf("version %d: the attribute is %q, and in the column %v", version, value.Text(), c.Values)
		}
	}
}
