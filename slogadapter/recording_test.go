package slogadapter_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// newRecorder returns a recorder to a new file. At the end of the test, it checks that the file is
// valid.
func newRecorder(t testing.TB, o *recorder.Options) *recorder.Recorder {
	t.Helper()
	rec := tracetest.CreateAt(t, hosttest.Path(t, "log.iet"), o)
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
	var all []*format.TraceEntry
	must(t, tracetest.OpenFile(t, rec.StreamPath()).Walk(1, func(_ uint32, e *format.TraceEntry) error {
		all = append(all, e.Clone())
		return nil
	}))
	return all
}

// plain returns the text of a value.
func plain(v format.Value) string {
	if v.Kind() == format.KindBytes {
		return v.Text()
	}
	return v.String()
}

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
