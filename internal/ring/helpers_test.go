package ring_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/ring"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// create makes a recorder in a folder of its own.
func create(t testing.TB, name string, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	rec, err := recorder.Create(filepath.Join(t.TempDir(), name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRecorder(t, rec) })
	return rec
}

// createFor makes a recorder for a stream of g.
func createFor(t testing.TB, g *ring.Ring, name string, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	if o == nil {
		o = &recorder.Options{}
	}
	rec, err := g.Create(filepath.Join(t.TempDir(), name), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeRecorder(t, rec) })
	return rec
}

func closeRecorder(t testing.TB, rec *recorder.Recorder) {
	t.Helper()
	if err := rec.Close(context.Background()); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// open opens a file for the rest of the test.
func open(t testing.TB, name string) *format.File {
	t.Helper()
	f, err := format.Open(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// outline is a trace in a line: name(children…).
func outline[ID uint32 | view.Row](f interface{ Children(id ID) []ID }, name func(ID) string, id ID) string {
	var kids []string
	for _, kid := range f.Children(id) {
		kids = append(kids, outline(f, name, kid))
	}
	if len(kids) == 0 {
		return name(id)
	}
	return name(id) + "(" + strings.Join(kids, " ") + ")"
}

func rawOutline(t testing.TB, f *format.File) string {
	return outline(f, func(id uint32) string {
		e, err := f.Entry(id)
		if err != nil {
			t.Fatal(err)
		}
		return e.Metadata.Name
	}, 0)
}

func viewOutline(t testing.TB, f *format.File) string {
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return outline(v, func(id view.Row) string {
		e, err := v.Entry(id)
		if err != nil {
			t.Fatal(err)
		}
		return e.Metadata.Name
	}, 0)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
