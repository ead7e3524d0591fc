package recorder

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/write/deadtrace"
)

// A listTee is a Tee that keeps the entries that it gets, for each file.
type listTee struct {
	files  [][]TeeEntry
	closed int
}

func (l *listTee) Begin(format.Version) { l.files = append(l.files, nil) }

func (l *listTee) Take(entries []TeeEntry) {
	for _, e := range entries {
		e.Raw = append([]byte(nil), e.Raw...)
		l.files[len(l.files)-1] = append(l.files[len(l.files)-1], e)
	}
}

func (l *listTee) Close(context.Context) error { l.closed++; return errTee }

var errTee = errors.New("tee")

// same checks that the Tee got exactly the entries of the file name, the file with the given number.
func (l *listTee) same(t *testing.T, file int, name string) {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	r, err := format.NewReader(f, nil)
	must(t, err)
	_, err = r.Next()
	must(t, err)
	for i, e := range l.files[file] {
		x, err := r.Next()
		must(t, err)
		if int64(e.ID) != r.ID() || int(e.ID) != i+1 || e.Parent != x.Parent || string(e.Raw) != string(r.Raw()) {
			t.Fatalf("entry %d of file %d was handed over as %d below %d", r.ID(), file, e.ID, e.Parent)
		}
		span, hasSpan := x.Attribute(format.AttrSpanID)
		if hasSpan != (e.Ref != format.SpanRef{}) || hasSpan && span.Text() != string(wire.AppendHex(nil, e.Ref.SpanID[:])) {
			t.Errorf("entry %d: the span is %v, the attribute %q", i+1, e.Ref, span.Text())
		}
		expect.Equal(t, e.Resource, x.Metadata.Name == format.NameResource, "entry %d: resource", i+1)
	}
	if _, err := r.Next(); err == nil {
		t.Errorf("the file has more than the %d entries that were handed over", len(l.files[file]))
	}
}

// teed waits until the Tee has got all written entries.
func teed(t *testing.T, r *Recorder) {
	t.Helper()
	must(t, onWriter(r, func(w *writer) { w.tee.calls.wait(t.Context()) }))
}

// TestTee checks that the Tee gets exactly the entries of the file, with every durability, even if writes
// fail.
func TestTee(t *testing.T) {
	for d := range DurabilityNone {
		t.Run(d.String(), func(t *testing.T) {
			tee := &listTee{}
			r, f := faultRecorder(t, Options{Tee: tee, Durability: d})
			res, err := r.Resource(faultEntry(format.NameResource))
			must(t, err)
			for i := range byte(100) {
				switch i {
				case 30: // a part of the write succeeds
					f.Fail(func(_ int, b []byte) (int, error) { return len(b) / 2, syscall.ENOSPC }, nil, nil)
				case 60:
					f.Mend()
				}
				s := faultSpan("span", i+1, i)
				s.Resource = res
				_ = writeSpan(r, s)
				if i%10 == 5 {
					_ = r.Flush(context.Background())
				}
			}
			must(t, r.Flush(context.Background()))
			teed(t, r)
			tee.same(t, 0, r.StreamPath())
			if err := r.Close(t.Context()); !errors.Is(err, errTee) || tee.closed != 1 {
				t.Errorf("Close: %v; the Tee was closed %d times", err, tee.closed)
			}
			tee.same(t, 0, r.Path())
		})
	}
}

// TestTeeRotation checks that the Tee gets every file of a recording from its beginning.
func TestTeeRotation(t *testing.T) {
	tee := &listTee{}
	dir := t.TempDir()
	r, err := Create(filepath.Join(dir, "app.iet"), &Options{Tee: tee, MaxFileEntries: 40, Durability: DurabilityWriteThrough})
	must(t, err)
	res, err := r.Resource(faultEntry(format.NameResource))
	must(t, err)
	for i := range byte(100) {
		s := faultSpan("span", i+1, i/2)
		s.Resource, s.Open = res, i < 3
		must(t, writeSpan(r, s))
	}
	_ = r.Close(t.Context()) // returns the error of the Tee
	names, err := deadtrace.Archived(r.StreamPath())
	must(t, err)
	names = append(names, r.StreamPath())
	if len(names) != len(tee.files) || len(names) < 3 {
		t.Fatalf("there are %d files, %d were handed over", len(names), len(tee.files))
	}
	for i, name := range names {
		tee.same(t, i, name)
	}
}

// TestStream records only to a Tee. No file is written.
func TestStream(t *testing.T) {
	t.Chdir(t.TempDir())
	tee := &listTee{}
	r := Stream(&Options{Tee: tee, Durability: DurabilityPower, MaxFileEntries: 20})
	res, err := r.Resource(faultEntry(format.NameResource))
	must(t, err)
	for i := range byte(100) {
		s := faultSpan("span", i+1, i)
		s.Resource = res
		must(t, writeSpan(r, s))
	}
	must(t, errors.Join(r.Flush(context.Background()), r.Sync(context.Background())))
	teed(t, r)
	st := r.Stats().Entries
	if r.Discards() || len(tee.files) != 1 || len(tee.files[0]) != 101 || st.Written != 102 || st.Offered != 102 {
		t.Errorf("%d files, the account is %+v", len(tee.files), st)
	}
	if err := r.Close(t.Context()); !errors.Is(err, errTee) || len(tee.files[0]) != 102 {
		t.Errorf("Close: %v", err)
	}
	must(t, r.Close(t.Context()))
	expect.Len(t, hosttest.Names(t, "."), 0, "the folder has")
}
