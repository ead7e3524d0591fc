package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
)

// list returns the entries of p, which may be nil.
func (p *lastPart) list() []*format.TraceEntry {
	if p == nil {
		return nil
	}
	return p.entries
}

// TestReadLast checks that readLast returns the same last entries of a large file as Open. For an IETPrefix it
// returns no entries.
func TestReadLast(t *testing.T) {
	for _, version := range []format.Version{format.V1, format.V2} {
		for _, f := range []format.StorageFormat{format.ET, format.IET, format.IETPrefix} {
			t.Run(fmt.Sprint(f, version), func(t *testing.T) {
				name := filepath.Join(t.TempDir(), "x."+f.String())
				writeMany(t, name, version, f, 17<<20, f == format.ET)
				all := tracetest.OpenFile(t, name)
				part, err := readLast(name)
				if f == format.IETPrefix {
					if part != nil || err != nil {
						t.Fatal(part, err)
					}
					return
				}
				last, end := part.entries, part.end
				if len(last) < 1000 || end != all.WholeSize() || err != nil {
					t.Fatalf("%d of %d entries up to %d of %d, %v", len(last), all.Len(), end, all.WholeSize(), err)
				}
				for i, got := range last {
					id := uint32(all.Len() - len(last) + i)
					if want, err := all.Entry(id); err != nil || !reflect.DeepEqual(got, want) {
						t.Fatalf("entry %d: %v\n%+v\n%+v", id, err, got, want)
					}
				}
			})
		}
	}
}

// writeMany writes a trace of at least size bytes. If fakes is set, the attributes contain encoded entries.
func writeMany(t *testing.T, name string, version format.Version, f format.StorageFormat, size int, fakes bool) {
	t.Helper()
	x := tracetest.New(t, version, f, format.Root())
	fake := bytes.Repeat(append([]byte{0, 0, 1, 'n', 0, 2, 0, 0, 0, 0}, make([]byte, 10)...), 40)
	if !fakes {
		fake = []byte(strings.Repeat("what is no entry. ", 40))
	}
	defer x.Save(name)
	defer x.Add(tracetest.Entry(mapping.NameEnd, "entries", uint64(1)))
	for i := 0; i*400 < size; i++ {
		x.Add(&format.TraceEntry{
			Parent: uint32(i / 2), Message: format.Some(fmt.Sprint("message ", i)),
			Metadata:   format.Metadata{Name: "event", Target: "t", Level: format.LevelInfo},
			Attributes: tracetest.Attributes("b", fake[i%40:400], "i", uint64(i)),
		})
	}
}

// TestTailOfLargeTraceReadsItsEnd checks that tail reads only the end of a large trace, also to find out how the
// trace ended: for a file of four times the size, it allocates no more memory.
func TestTailOfLargeTraceReadsItsEnd(t *testing.T) {
	if tracetest.Race {
		t.Skip("it writes large files, and counts what is allocated")
	}
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		for _, version := range []format.Version{format.V1, format.V2} {
			for _, flag := range []string{"-n=10", "-f"} {
				if flag == "-f" && f == format.IET {
					continue // tail waits for new entries
				}
				var costs [2]uint64
				for i, size := range []int{20 << 20, 80 << 20} {
					name := filepath.Join(t.TempDir(), "x."+f.String())
					writeMany(t, name, version, f, size, false)
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					code, out, errs := entrace(t, nil, "tail", flag, name)
					runtime.ReadMemStats(&after)
					costs[i] = after.TotalAlloc - before.TotalAlloc
					if code != 0 || strings.Count(out, "\n") != 10 {
						t.Fatalf("%v, version %v, %s: %d, %d lines, %s", f, version, flag, code, strings.Count(out, "\n"), errs)
					}
				}
				if costs[1] > costs[0]+costs[0]/4+4<<20 {
					t.Errorf("%v, version %v, %s: it allocates %d bytes, of a quarter of the size %d", f, version, flag, costs[1], costs[0])
				}
			}
		}
	}
}

// TestReadLastNone checks that readLast returns no entries for small, cut and crafted files, after a bounded
// number of tries.
func TestReadLastNone(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.iet")
	writeMany(t, name, format.V2, format.IET, 17<<20, false)
	whole := read(t, name)
	for what, b := range map[string][]byte{
		"small":  whole[:1<<20],
		"cut":    whole[:len(whole)-5],
		"zeros":  append(bytes.Clone(whole[:10]), make([]byte, 20<<20)...),
		"chains": append(bytes.Clone(whole[:10]), bytes.Repeat([]byte{0, 0, 1, 'n', 0, 2, 0, 0, 0, 0, 0xff}, 2<<20)...),
	} {
		must(t, os.WriteFile(name, b, 0o600))
		if last, err := readLast(name); last != nil || err != nil {
			t.Errorf("%s: %d, %v", what, len(last.entries), err)
		}
	}
	if _, err := readLast(name + ".gone"); !os.IsNotExist(err) {
		t.Errorf("of a file that is not there: %v", err)
	}
}

// TestReadLastForged checks that readLast does not return entries out of an attribute. For an IET this
// holds as long as the attribute does not fill all of the bytes that readLast reads.
func TestReadLastForged(t *testing.T) {
	inner := filepath.Join(t.TempDir(), "inner.iet")
	writeMany(t, inner, format.V1, format.IET, 5<<20, false)
	body := read(t, inner)
	for _, f := range []format.StorageFormat{format.ET, format.IET} {
		for _, size := range []int{1 << 20, 3 << 20, len(body) - 10} {
			if f == format.IET && size > 3<<20 {
				continue // the attribute fills all bytes that readLast reads
			}
			name := filepath.Join(t.TempDir(), "x."+f.String())
			x := tracetest.New(t, format.V1, f, format.Root())
			for i := range 200_000 {
				x.Add(&format.TraceEntry{Message: format.Some(fmt.Sprint("real ", i)), Metadata: format.Metadata{Name: "event", Target: strings.Repeat("t", 80)}})
			}
			x.Add(tracetest.Entry("upload", "body", body[10:][:size]))
			for i := range 40 {
				x.Add(tracetest.Log(fmt.Sprint("after ", i)))
			}
			x.Save(name)
			last, err := readLast(name)
			must(t, err)
			for _, e := range last.list() { // no entries if the whole file has to be read
				if e.Metadata.Name != "upload" && e.Metadata.Target == "t" {
					t.Fatalf("%s with %d bytes in an attribute: %+v", f, size, e)
				}
			}
		}
	}
}
