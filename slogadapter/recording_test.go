package slogadapter_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

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

var update = flag.Bool("update", false, "write the expected texts in testdata again")

// logged compares the records that fn logs with the file testdata/NAME.txt, which has a line for each.
func logged(t *testing.T, name string, o *slogadapter.Options, fn func(*slog.Logger)) {
	t.Helper()
	golden(t, name, lines(record(t, o, fn)))
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	expect.Equal(t, got, string(tracetest.ReadFile(t, path)), "%s", path)
}

// lines returns a line for each record: its message, its level if it is not INFO, its name if it is not that of a place in
// a test, and its attributes. It omits the present time.
func lines(all []*format.TraceEntry) string {
	var b strings.Builder
	for _, e := range all {
		if !e.Message.Valid {
			b.WriteString("(no message)")
		}
		b.WriteString(strings.Trim(strconv.Quote(e.Message.Value), `"`) + ":")
		if e.Metadata.Level != format.LevelInfo {
			b.WriteString(" " + e.Metadata.Level.String())
		}
		switch m := e.Metadata; {
		case !m.File.Valid:
			fmt.Fprintf(&b, " (%s)", m.Name)
		case !strings.Contains(m.Name, "_test.go:"):
			fmt.Fprintf(&b, " (%s at %s:%d)", m.Name, m.File.Value, m.Line.Value)
		}
		for _, a := range e.Attributes {
			if at, _ := a.Value.I64(); a.Name == format.AttrTime && time.Since(time.Unix(0, at)).Abs() < time.Hour {
				continue
			}
			kind, text := a.Value.Kind(), plain(a.Value)
			if kind <= format.KindBytes {
				text = fmt.Sprintf("%#q", text)
			}
			if kind != format.KindString && kind != format.KindI64 {
				text = strings.ToLower(kind.String()) + " " + text
			}
			fmt.Fprintf(&b, " %s=%s", a.Name, text)
		}
		b.WriteByte('\n')
	}
	return b.String()
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
	if v.Kind() == format.KindBytes {
		return v.Text()
	}
	return v.String()
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
