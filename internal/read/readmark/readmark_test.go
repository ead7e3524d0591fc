package readmark_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/readmark"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// TestMark checks which files contain a Mark: files that begin with the same entries, in any format.
func TestMark(t *testing.T) {
	dir := t.TempDir()
	save := func(name string, as format.StorageFormat, texts ...string) *format.File {
		x := tracetest.New(t, format.V1, as, format.Root())
		for _, text := range texts {
			x.Add(tracetest.Log(text))
		}
		x.Add(tracetest.Entry(mapping.NameRecovered))
		path := filepath.Join(dir, name)
		x.Save(path)
		return tracetest.OpenFile(t, path)
	}
	read, longer, other := save("a.iet", format.IET, "one", "two"), save("b.et", format.ET, "one", "two", "three"), save("c.et", format.ET, "one", "three")
	mark := readmark.Of(read, read.Len())
	expect.Equal(t, mark, readmark.Of(read, 3), "the mark, without the entry that a recovery has added")
	for _, c := range []struct {
		name string
		mark readmark.Mark
		f    *format.File
		in   bool
	}{
		{"the same file", mark, read, true},
		{"a later state", mark, longer, true},
		{"another file", mark, other, false},
		{"an earlier state", readmark.Of(longer, longer.Len()), read, false},
		{"no entries", readmark.Mark{}, read, false},
		{"nothing but what recovery added", readmark.Of(read, 0), read, false},
		{"read to its end", readmark.OfEnd(tracetest.Log("three")), longer, true},
		{"not read to its end", readmark.OfEnd(tracetest.Log("two")), longer, false},
	} {
		expect.Equal(t, c.mark.In(c.f), c.in, "%s", c.name)
	}
	names := []string{other.Name(), longer.Name(), filepath.Join(dir, "gone.et")}
	if rest, found := readmark.After(names, mark); !found || !slices.Equal(rest, names[2:]) {
		t.Errorf("after the mark come %q, %t", rest, found)
	}
	if rest, found := readmark.After(names, readmark.Mark{}); found || !slices.Equal(rest, names) {
		t.Errorf("after no mark come %q, %t", rest, found)
	}
}
