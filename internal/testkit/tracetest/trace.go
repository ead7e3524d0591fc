package tracetest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/view"
)

// BothVersions are the versions of the format.
var BothVersions = []format.Version{format.V1, format.V2}

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	expect.Must(t, err)
	return b
}

// Part checks that the lines of a file between the lines from and to are want. With update, it writes want there.
func Part(t testing.TB, file, from, to, want string, update bool) {
	t.Helper()
	text := string(ReadFile(t, file))
	before, rest, begins := strings.Cut(text, from)
	got, _, ends := strings.Cut(rest, "\n"+to)
	if !begins || !ends {
		t.Fatalf("%s has no %q that ends before %q", file, from, to)
	}
	got += "\n"
	if got != want && update {
		expect.Must(t, os.WriteFile(file, []byte(before+from+want+rest[len(got):]), 0o600))
		return
	}
	expect.Equal(t, got, want, "%s after %q; run this test with -update", file, from)
}

// A Trace is a trace that a test writes, one entry after the other.
type Trace struct {
	t  testing.TB
	as format.StorageFormat
	b  bytes.Buffer
	w  *format.Writer
}

// New returns a trace with the given entries, in version v and storage format as.
func New(t testing.TB, v format.Version, as format.StorageFormat, entries ...*format.TraceEntry) *Trace {
	t.Helper()
	x := &Trace{t: t, as: as}
	var err error
	x.w, err = format.NewWriter(&x.b, v, as, nil)
	expect.Must(t, err)
	for _, e := range entries {
		x.Add(e)
	}
	return x
}

// Add adds an entry and returns its id.
func (x *Trace) Add(e *format.TraceEntry) uint32 {
	x.t.Helper()
	id, err := x.w.Write(e)
	expect.Must(x.t, err)
	return id
}

// AddBelow adds an entry with the given parent, and returns its id.
func (x *Trace) AddBelow(e *format.TraceEntry, parent uint32) uint32 {
	x.t.Helper()
	e.Parent = parent
	return x.Add(e)
}

// Bytes ends the trace, and returns the content of its file.
func (x *Trace) Bytes() []byte {
	x.t.Helper()
	expect.Must(x.t, x.w.Close())
	return x.b.Bytes()
}

// Save ends the trace, and writes it to a file. If name is "", the file is in a new folder. Save returns the name
// of the file.
func (x *Trace) Save(name string) string {
	x.t.Helper()
	if name == "" {
		name = filepath.Join(x.t.TempDir(), "trace."+x.as.String())
	}
	expect.Must(x.t, os.WriteFile(name, x.Bytes(), 0o600))
	return name
}

// Open ends the trace, and opens it until the end of the test.
func (x *Trace) Open() *format.File {
	x.t.Helper()
	return OpenFile(x.t, x.Save(""))
}

// View ends the trace, and returns its view.
func (x *Trace) View() *view.View {
	x.t.Helper()
	return View(x.t, x.Open())
}

// View returns the view of files.
func View(t testing.TB, files ...*format.File) *view.View {
	t.Helper()
	v, err := view.New(t.Context(), files, nil)
	expect.Must(t, err)
	return v
}

// OpenFile opens only the file, without a journal, until the end of the test.
func OpenFile(t testing.TB, name string) *format.File {
	t.Helper()
	return opened(t)(format.Open(name, nil))
}

func opened(t testing.TB) func(f *format.File, err error) *format.File {
	return func(f *format.File, err error) *format.File {
		t.Helper()
		expect.Must(t, err)
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
}
