package format_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/entrybytes"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/read/entryjson"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/jsontest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
)

var must = expect.Must

// fixtures are files that entrace_core wrote: see testdata/README.md.
var fixtures = []string{"v1.iet", "v1.ietprefix", "v1.et", "v2.iet", "v2.ietprefix", "v2.et"}

func fixture(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join("testdata", name)
}

var readFile = tracetest.ReadFile

func splitLines(b []byte) [][]byte {
	return bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
}

// twin returns the result of reading a fixture with the crate itself: the entries as JSON, and the children of
// each entry.
func twin(t testing.TB, name string) (entries [][]byte, kids [][]uint32) {
	t.Helper()
	base := strings.TrimSuffix(fixture(t, name), filepath.Ext(name))
	entries = splitLines(readFile(t, base+".txt"))
	for _, line := range splitLines(readFile(t, base+".children.txt")) {
		var ids []uint32
		must(t, json.Unmarshal(line, &ids))
		kids = append(kids, ids)
	}
	return entries, kids
}

// parseJSON parses JSON without losing the precision of integers and floats.
func parseJSON(t testing.TB, b []byte) any {
	t.Helper()
	v, err := jsontest.Parse(b)
	if err != nil {
		t.Fatalf("%v in %s", err, b)
	}
	return v
}

func sameEntry(t testing.TB, id int64, e *format.TraceEntry, want []byte) {
	t.Helper()
	got := entryjson.Append(nil, id, e)
	expect.DeepEqual(t, parseJSON(t, got), parseJSON(t, want), "entry %d", id)
}

func TestReaderFixtures(t *testing.T) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			want, _ := twin(t, name)
			data := readFile(t, fixture(t, name))
			for _, src := range map[string]io.Reader{"file": bytes.NewReader(data), "pipe": oneByteReader{bytes.NewReader(data)}} {
				r, err := format.NewReader(src, nil)
				must(t, err)
				n := 0
				for ; ; n++ {
					e, err := r.Next()
					if errors.Is(err, io.EOF) {
						break
					}
					must(t, err)
					sameEntry(t, r.ID(), e, want[n])
				}
				expect.Equal(t, n, len(want), "entries read")
				expect.Equal(t, r.Offset(), int64(len(data)), "the offset at the end")
			}
		})
	}
}

// oneByteReader returns one byte for each Read, like a slow pipe.
type oneByteReader struct{ r io.Reader }

func (o oneByteReader) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	return o.r.Read(b[:1])
}

func TestFileFixtures(t *testing.T) {
	for _, name := range fixtures {
		t.Run(name, func(t *testing.T) {
			want, kids := twin(t, name)
			f := tracetest.OpenFile(t, fixture(t, name))
			expect.MustEqual(t, f.Len(), len(want), "Len")
			for id := range uint32(f.Len()) {
				e, err := f.Entry(id)
				must(t, err)
				sameEntry(t, int64(id), e, want[id])
				if got := f.Children(id); len(got)+len(kids[id]) > 0 && !reflect.DeepEqual(got, kids[id]) {
					t.Errorf("children of %d are %v, want %v", id, got, kids[id])
				}
				expect.Equal(t, f.Parent(id), e.Parent, "parent of %d", id)
				for _, a := range e.Attributes {
					first, _ := e.Attribute(a.Name)
					v, ok, err := f.Attribute(id, a.Name)
					if err != nil || !ok || !v.Equal(first) {
						t.Errorf("attribute %q of %d is %v, %t, %v, want %v", a.Name, id, v, ok, err, first)
					}
				}
				if _, ok, err := f.Attribute(id, "no such name"); ok || err != nil {
					t.Errorf("attribute that %d does not have: %t, %v", id, ok, err)
				}
			}
			if f.WholeSize() != f.Size() || f.Damage() != nil {
				t.Errorf("%d of %d bytes are whole, %v; want all", f.WholeSize(), f.Size(), f.Damage())
			}
		})
	}
}

// TestFinalizeFixtures makes ETs from the crate's IETs and IETPrefixes. They must have the same bytes as the ETs
// that the crate wrote for the same program.
func TestFinalizeFixtures(t *testing.T) {
	for _, v := range []string{"v1", "v2"} {
		for _, ext := range []string{".iet", ".ietprefix"} {
			t.Run(v+ext, func(t *testing.T) {
				et := hosttest.Path(t, "x.et")
				must(t, format.Finalize(t.Context(), fixture(t, v+ext), et, nil))
				if !bytes.Equal(readFile(t, et), readFile(t, fixture(t, v+".et"))) {
					t.Error("the ET differs from the one that the crate wrote")
				}
			})
		}
	}
}

// TestReencodeFixtures decodes entries and encodes them again. The bytes must be the same.
func TestReencodeFixtures(t *testing.T) {
	for _, name := range []string{"v1.iet", "v2.iet"} {
		t.Run(name, func(t *testing.T) {
			data := readFile(t, fixture(t, name))
			r, err := format.NewReader(bytes.NewReader(data), nil)
			must(t, err)
			out := wire.AppendMagic(nil, r.Version(), r.Format())
			for {
				e, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				must(t, err)
				out = format.AppendTraceEntry(out, r.Version(), e)
			}
			if !bytes.Equal(out, data) {
				t.Error("the encoding differs from the crate's")
			}
		})
	}
}

func TestVerifyFixtures(t *testing.T) {
	for _, name := range fixtures {
		report, err := recorder.Verify(fixture(t, name), func(problem error) { t.Errorf("%s: %v", name, problem) })
		must(t, err)
		if report.Reason != mapping.CutClean || report.Ended {
			t.Errorf("%s: reason %q, ended %t; want clean, false", name, report.Reason, report.Ended)
		}
	}
}

// sample returns a file of the folder that ENTRACE_SAMPLES names.
func sample(t *testing.T, name string) string {
	dir := os.Getenv("ENTRACE_SAMPLES")
	if dir == "" {
		t.Skip("ENTRACE_SAMPLES names no folder of more samples")
	}
	return filepath.Join(dir, name)
}

// TestScoreman reads a trace that ENTRACE wrote for its own demonstration.
func TestScoreman(t *testing.T) {
	name := sample(t, "scoreman.iet")
	f := tracetest.OpenFile(t, name)
	attrs, depth := 0, make([]int, f.Len())
	deepest := 0
	err := f.Walk(0, func(id uint32, e *format.TraceEntry) error {
		attrs += len(e.Attributes)
		if id > 0 {
			depth[id] = depth[e.Parent] + 1
			deepest = max(deepest, depth[id])
		}
		return nil
	})
	must(t, err)
	got := fmt.Sprint(f.Len(), len(f.Children(0)), deepest, attrs, f.Size(), f.WholeSize(), f.Damage())
	expect.Equal(t, got, "736 11 3 1503 154514 154514 <nil>", "scoreman.iet has")
	et := hosttest.Path(t, "scoreman.et")
	must(t, format.Finalize(t.Context(), name, et, nil))
	g := tracetest.OpenFile(t, et)
	for id := range uint32(f.Len()) {
		a, err := entrybytes.Of(f).Append(nil, id)
		must(t, err)
		b, err := entrybytes.Of(g).Append(nil, id)
		if err != nil || !bytes.Equal(a, b) {
			t.Fatalf("entry %d differs in the ET: %v", id, err)
		}
	}
}

// TestVerifyNamesNumberedAttributes checks that Verify reports, only once, a name with a number if the entry has
// no attribute with the name without the number.
func TestVerifyNamesNumberedAttributes(t *testing.T) {
	for want, names := range map[int][]string{0: {"user", "user#2", "c#", "#2", "a#1", "a#x"}, 1: {"rows#2", "user#3"}} {
		x := tracetest.New(t, format.V2, format.ET, format.Root())
		for range 2 {
			e := &format.TraceEntry{Message: format.Some("m")}
			for _, name := range names {
				e.Add(name, format.BoolValue(true))
			}
			x.Add(e)
		}
		n := 0
		_, err := recorder.Verify(x.Save(""), func(problem error) {
			n++
			if !strings.Contains(problem.Error(), "rows#2") {
				t.Error(problem)
			}
		})
		must(t, err)
		expect.Equal(t, n, want, "%q: problems", names)
	}
}
