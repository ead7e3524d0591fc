package tracetest

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/view"
)

// Create makes a recorder in a new folder. On a slow machine, the recorder waits instead of dropping records. It
// is closed when the test ends.
func Create(t testing.TB, name string, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	own := recorder.Options{}
	if o != nil {
		own = *o
	}
	own.MaxBlock = cmp.Or(own.MaxBlock, time.Minute)
	rec := CreateAt(t, filepath.Join(t.TempDir(), name), &own)
	t.Cleanup(func() { Close(t, rec) })
	return rec
}

// CreateAt makes a recorder at a path. The test must close it.
func CreateAt(t testing.TB, path string, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	rec, err := recorder.Create(path, o)
	expect.Must(t, err)
	return rec
}

// Close closes a recorder.
func Close(t testing.TB, rec *recorder.Recorder) {
	t.Helper()
	expect.Is(t, rec.Close(context.Background()), nil, "Close")
}

// Flushed flushes rec and returns it. A closed recorder is not an error.
func Flushed(t testing.TB, rec *recorder.Recorder) *recorder.Recorder {
	t.Helper()
	if err := rec.Flush(context.Background()); err != nil && !errors.Is(err, recorder.ErrClosed) {
		t.Error(err)
	}
	return rec
}

// Open opens a file until the end of the test, with the entries in the journal of its recorder.
func Open(t testing.TB, name string) *format.File {
	t.Helper()
	return opened(t)(recorder.Open(name, nil))
}

// OpenView opens trace files as one view.
func OpenView(t testing.TB, names ...string) *view.View {
	t.Helper()
	files := make([]*format.File, len(names))
	for i, name := range names {
		files[i] = Open(t, name)
	}
	return View(t, files...)
}

// Outline returns the names of the entries of a file on one line, in the form name(children…).
func Outline(t testing.TB, f *format.File) string {
	return outline(f, func(id uint32) string {
		e, err := f.Entry(id)
		expect.Must(t, err)
		return e.Metadata.Name
	}, 0)
}

// ViewOutline is like Outline, but for the rows in the view of a file.
func ViewOutline(t testing.TB, f *format.File) string {
	v, err := view.New(t.Context(), []*format.File{f}, nil)
	expect.Must(t, err)
	return outline(v, func(r view.Row) string { return v.Metadata(r).Name }, 0)
}

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
