package slogadapter_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// newRecorder returns a recorder to a new file. At the end of the test, it checks that the file is
// valid.
func newRecorder(t testing.TB, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	rec := tracetest.CreateAt(t, filepath.Join(t.TempDir(), "log.iet"), o)
	t.Cleanup(func() {
		expect.OK(t, rec.Close(context.Background()))
		expect.OK(t, expect.Err(recorder.Verify(rec.Path(), func(problem error) { t.Error(problem) })))
	})
	return rec
}

func newHandler(t testing.TB, o *slogadapter.Options) (*recorder.Recorder, *slogadapter.Handler) {
	t.Helper()
	rec := newRecorder(t, nil)
	return rec, slogadapter.New(rec, o)
}

// entries returns all entries of rec except the root: entry id is at id-1.
func entries(t testing.TB, rec *recorder.Recorder) []*format.TraceEntry {
	t.Helper()
	must(t, rec.Flush(context.Background()))
	f, err := os.Open(rec.StreamPath())
	must(t, err)
	defer f.Close()
	r, err := format.NewReader(f, nil)
	must(t, err)
	var all []*format.TraceEntry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all[1:]
		}
		must(t, err)
		all = append(all, e.Clone())
	}
}

// record returns the entries of the records that fn logs.
func record(t testing.TB, o *slogadapter.Options, fn func(*slog.Logger)) []*format.TraceEntry {
	t.Helper()
	rec, h := newHandler(t, o)
	fn(slog.New(h))
	return entries(t, rec)
}

// recordOne returns the entry of a record with attrs.
func recordOne(t testing.TB, o *slogadapter.Options, attrs ...slog.Attr) *format.TraceEntry {
	t.Helper()
	all := record(t, o, func(l *slog.Logger) { l.LogAttrs(context.Background(), slog.LevelInfo, "message", attrs...) })
	expect.MustEqual(t, len(all), 1, "entries")
	return all[0]
}

// plain returns the text of a value.
func plain(v format.Value) string {
	switch v.Kind() {
	case format.KindString, format.KindBytes:
		return v.Text()
	case format.KindBool:
		return strconv.FormatBool(v.Bool())
	case format.KindFloat:
		return strconv.FormatFloat(v.Float(), 'g', -1, 64)
	}
	return string(v.AppendDecimal(nil))
}

// kindAndText returns a value as "KIND TEXT".
func kindAndText(v format.Value) string { return v.Kind().String() + " " + plain(v) }

// list returns the attributes of e except the time, as "NAME=TEXT NAME=TEXT".
func list(e *format.TraceEntry) string {
	var all []string
	for _, a := range e.Attributes {
		if a.Name != format.AttrTime {
			all = append(all, a.Name+"="+plain(a.Value))
		}
	}
	return strings.Join(all, " ")
}

func checkList(t testing.TB, e *format.TraceEntry, want string) {
	t.Helper()
	expect.Equal(t, list(e), want, "%q has attributes", e.Message.Value)
}

// A valuer is a LogValuer.
type valuer func() slog.Value

func (v valuer) LogValue() slog.Value { return v() }
