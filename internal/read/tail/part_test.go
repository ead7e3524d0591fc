package tail

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

var must = expect.Must

// TestPart checks that a Part has the same last entries as the whole file, in every kind of file that has a Part.
func TestPart(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	for _, version := range tracetest.BothVersions {
		for _, f := range []format.StorageFormat{format.ET, format.IET, format.IETPrefix} {
			t.Run(fmt.Sprint(f, version), func(t *testing.T) {
				name := hosttest.Path(t, "x."+f.String())
				tracetest.WriteMany(t, name, version, f, 17<<20, f == format.ET)
				all := tracetest.OpenFile(t, name)
				p := Open(name, 50)
				if f == format.IETPrefix {
					if p != nil {
						t.Fatal("an IET with a prefix has a Part")
					}
					return
				}
				if p.Len() < 50 || f == format.IET && p.End != all.WholeSize() {
					t.Fatalf("%d of %d entries up to %d of %d", p.Len(), all.Len(), p.End, all.WholeSize())
				}
				for i := range p.Len() {
					id := uint32(all.Len() - p.Len() + i)
					want, err := all.Entry(id)
					must(t, err)
					if got, err := p.Entry(i); err != nil || !reflect.DeepEqual(got, want) {
						t.Fatalf("entry %d: %v\n%+v\n%+v", id, err, got, want)
					}
				}
			})
		}
	}
}

// A counted counts the bytes that are read from a file.
type counted struct {
	source

	n int
}

func (c *counted) ReadAt(b []byte, off int64) (int, error) {
	c.n += len(b)
	return c.source.ReadAt(b, off)
}

// TestPartReadsTheEnd checks that no more is read of a file that is four times as large.
func TestPartReadsTheEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		var sizes [2]int
		for i, size := range []int{17 << 20, 34 << 20} {
			name := hosttest.Path(t, "x."+f.String())
			tracetest.WriteMany(t, name, format.V2, f, size, false)
			file, err := os.Open(name)
			must(t, err)
			fi, err := file.Stat()
			must(t, err)
			c := &counted{source: io.NewSectionReader(file, 0, fi.Size())}
			if read(c, 10, false) == nil {
				t.Fatalf("%v of %d bytes has no part", f, size)
			}
			sizes[i] = c.n
			must(t, file.Close())
		}
		if limit := sizes[0] + sizes[0]/16; sizes[1] > limit || sizes[1] > 2*partSize {
			t.Errorf("%v: it reads %d bytes, of half the size %d", f, sizes[1], sizes[0])
		}
	}
}

// TestNoPart checks that small, cut and crafted files have no Part, after a bounded number of tries.
func TestNoPart(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	dir := t.TempDir()
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		name := filepath.Join(dir, "x."+f.String())
		tracetest.WriteMany(t, name, format.V2, f, 17<<20, false)
		whole, err := os.ReadFile(name)
		must(t, err)
		for what, b := range map[string][]byte{
			"small":  whole[:1<<20],
			"cut":    whole[:len(whole)-5],
			"longer": append(bytes.Clone(whole), 0),
			"zeros":  append(bytes.Clone(whole[:10]), make([]byte, 20<<20)...),
			"chains": append(bytes.Clone(whole[:10]), bytes.Repeat([]byte{0, 0, 1, 'n', 0, 2, 0, 0, 0, 0, 0xff}, 2<<20)...),
		} {
			must(t, os.WriteFile(name, b, 0o600))
			if p := Open(name, 2000); p != nil {
				t.Errorf("%v, %s: %d entries", f, what, p.Len())
			}
		}
	}
	if p := Open(filepath.Join(dir, "gone.iet"), 1); p != nil {
		t.Errorf("a file that is not there has %d entries", p.Len())
	}
}

// TestPartForged checks that a Part has no entries out of an attribute. For an IET this holds as long as the attribute
// does not fill all of the bytes that are read.
func TestPartForged(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for a long time, and starts no goroutine")
	}
	inner := hosttest.Path(t, "inner.iet")
	tracetest.WriteMany(t, inner, format.V1, format.IET, 5<<20, false)
	body, err := os.ReadFile(inner)
	must(t, err)
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		for _, size := range []int{1 << 20, 3 << 20, len(body) - 10} {
			if f == format.IET && size > 3<<20 {
				continue // the attribute fills all bytes that are read
			}
			name := hosttest.Path(t, "x."+f.String())
			x := tracetest.New(t, format.V1, f, format.Root())
			for i := range 200_000 {
				x.Add(&format.TraceEntry{Message: format.Some(fmt.Sprint("real ", i)), Metadata: format.Metadata{Name: "event", Target: strings.Repeat("t", 80)}})
			}
			x.Add(tracetest.Entry("upload", "body", body[10:][:size]))
			for i := range 40 {
				x.Add(tracetest.Log(fmt.Sprint("after ", i)))
			}
			x.Save(name)
			p := Open(name, 2000)
			if p == nil {
				continue // the whole file has to be read
			}
			for i := range p.Len() {
				if e, err := p.Entry(i); err != nil || e.Metadata.Name != "upload" && e.Metadata.Target == "t" {
					t.Fatalf("%s with %d bytes in an attribute: %+v, %v", f, size, e, err)
				}
			}
		}
	}
}
