package main

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
)

// twoServices records a call from one service, in the file name, to another one, in stock.et, and a
// span that has not ended.
func twoServices(t *testing.T, name string) {
	t.Helper()
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	type span struct {
		id, parent byte
		name       string
		at, took   time.Duration
	}
	record := func(file, service string, spans ...span) {
		rec, err := recorder.Create(file, nil)
		must(t, err)
		res, err := rec.Resource(&format.TraceEntry{Message: format.Some(service), Metadata: format.Metadata{Name: format.NameResource, Level: format.LevelInfo}})
		must(t, err)
		for _, x := range spans {
			s := &tracetest.Span{Span: recorder.Span{Resource: res, Ref: format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{7: x.id}}}}
			if x.parent > 0 {
				s.Parent = format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{7: x.parent}}
				s.Remote = s.Parent.SpanID[7] == 1 && service == "stock"
			}
			s.Entry.Metadata = format.Metadata{Name: x.name, Level: format.LevelInfo}
			s.Entry.Attributes = []format.Attribute{
				{Name: format.AttrSpanID, Value: format.StringValue("000000000000000" + string('0'+rune(x.id)))},
				{Name: format.AttrTime, Value: format.TimeValue(begun.Add(x.at))},
				{Name: "user", Value: format.StringValue("ada")},
			}
			if x.took >= 0 {
				s.Entry.Attributes = append(s.Entry.Attributes, format.Attribute{Name: format.AttrDuration, Value: format.U64Value(uint64(x.took))})
			}
			must(t, tracetest.WriteSpan(rec, s))
		}
		must(t, rec.Close(t.Context()))
	}
	record(name, "front", span{1, 0, "GET /cart", 0, time.Second}, span{5, 1, "hang", 500 * time.Millisecond, -1}, span{6, 1, "late", 999 * time.Millisecond, time.Millisecond})
	record("stock.et", "stock", span{2, 1, "GET /stock", 100 * time.Millisecond, 800 * time.Millisecond},
		span{3, 2, "parse", 100 * time.Millisecond, time.Millisecond}, span{4, 2, "SELECT", 110 * time.Millisecond, 700 * time.Millisecond})
}

// TestTreeSaysServiceAndTimeSoFar: a span of another service than the one above says so, and one
// that has not ended how long it took at least.
func TestTreeSaysServiceAndTimeSoFar(t *testing.T) {
	t.Chdir(t.TempDir())
	twoServices(t, "app.et")
	out := fine(t, nil, "tree", "app.et", "stock.et")
	for _, want := range []string{"GET /stock [stock] 800ms", " SELECT 700ms", "hang not ended, ≥ 500ms"} {
		if !strings.Contains(out, want) {
			t.Errorf("there is no %q:\n%s", want, out)
		}
	}
}

// TestTreeFitsTerminal: no line is longer than the terminal, the reason of a snapshot is whole, and in
// the locale C the tree is drawn in ASCII.
func TestTreeFitsTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	name := strings.Repeat("long", 20) + ".et"
	twoServices(t, name)
	var out bytes.Buffer
	a := &app{out: &out, err: io.Discard, width: 40}
	must(t, a.tree(t.Context(), []string{name}, &treeOptions{lookFlags: lookFlags{time: timeNone}}))
	const reason = "span GET /b of orders is open for 2s, and no other has ended since"
	snapshot(t, "hang.et", "watchdog", reason)
	must(t, a.tree(t.Context(), []string{"hang.et"}, &treeOptions{lookFlags: lookFlags{time: timeNone}}))
	must(t, a.tree(t.Context(), []string{"hang.et", name}, &treeOptions{lookFlags: lookFlags{time: timeNone}}))
	for line := range strings.Lines(out.String()) {
		if utf8.RuneCountInString(line) > 41 {
			t.Errorf("a line is %q", line)
		}
	}
	if got := strings.Count(strings.Join(strings.Fields(out.String()), " "), "(watchdog: "+reason+")"); got != 2 {
		t.Errorf("the reason is whole %d times, want 2:\n%s", got, out.String())
	}
	if runtime.GOOS == "windows" {
		return // which has no locale C
	}
	t.Setenv("LC_ALL", "C")
	text := fine(t, nil, "tree", name, "stock.et")
	if strings.ContainsFunc(text, func(r rune) bool { return r > 127 }) || !strings.Contains(text, "|- GET /stock [stock]") || !strings.Contains(text, "|- hang not ended, >= 500ms") {
		t.Errorf("in the locale C it prints\n%s", text)
	}
}

// TestCriticalFoldsShortSteps: steps below a share are one line, and attributes are printed once.
func TestCriticalFoldsShortSteps(t *testing.T) {
	t.Chdir(t.TempDir())
	twoServices(t, "app.et")
	out := fine(t, nil, "critical", "app.et", "stock.et")
	if strings.Contains(out, "parse") || !strings.Contains(out, "… 1 step, 1ms") || strings.Count(out, "SELECT") != 1 || strings.Count(out, "user=ada") != 5 {
		t.Errorf("it prints\n%s", out)
	}
	if out := fine(t, nil, "critical", "app.et", "stock.et", "--min", "0%"); !strings.Contains(out, "parse") {
		t.Errorf("with --min 0%% it prints\n%s", out)
	}
	if code, _, errs := entrace(t, nil, "critical", "app.et", "stock.et", "--min", "1"); code != exitUsage || !strings.Contains(errs, "1%") {
		t.Errorf("--min 1: %d, %s", code, errs)
	}
}

// TestErrorsSayWhatFileIs: what is no trace is named, with what to do.
func TestErrorsSayWhatFileIs(t *testing.T) {
	t.Chdir(t.TempDir())
	twoServices(t, "app.et")
	must(t, os.WriteFile("text.log", []byte("hello world\n"), 0o600))
	must(t, os.WriteFile("body", []byte("\x0a\x80\x01\x0a\x10resource"), 0o600))
	fine(t, nil, "convert", "app.et", "x.pftrace")
	for name, want := range map[string]string{
		"text.log": "is a text; entrace reads et, iet", "x.pftrace": "perfetto, which entrace writes and does not read", "body": "--from otlp",
	} {
		if code, _, errs := entrace(t, nil, "tree", name); code != exitData || !strings.Contains(errs, want) {
			t.Errorf("of %s: %d, %s", name, code, errs)
		}
	}
}

// TestTailOfKilledProgram: after the last lines it says which spans were open, and a stack is lines.
func TestTailOfKilledProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "app.et")
	e := &format.TraceEntry{Message: format.Some("failed"), Metadata: named("event").Metadata}
	e.Attributes = []format.Attribute{{Name: "stack", Value: format.StringValue("main.go:1\n\tmain.go:2\n")}}
	must(t, rec.Log(format.SpanRef{}, e))
	must(t, rec.Flush(t.Context()))
	must(t, os.WriteFile("killed.iet", read(t, "app.iet"), 0o600))
	code, out, errs := entrace(t, nil, "tail", "killed.iet")
	if code != exitFine || errs != "entrace: killed.iet: killed; these spans were open: SELECT; 'entrace recover killed.iet' finishes the file\n" || !strings.Contains(out, "failed\n    stack:\n        main.go:1\n            main.go:2\n") {
		t.Errorf("exit %d, %s\n%s", code, errs, out)
	}
}

// TestRecoverNothing: a file that was cut before its first entry is nothing to recover.
func TestRecoverNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	twoServices(t, "app.et")
	must(t, os.WriteFile("cut.et", read(t, "app.et")[:wire.MagicSize+2], 0o600))
	if code, out, errs := entrace(t, nil, "recover", "cut.et"); code != exitData || !strings.Contains(errs, "cut before its first entry") {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

// TestVersionHasCommit: the version of a build from a clone has its commit.
func TestVersionHasCommit(t *testing.T) {
	info := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{
		{Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.modified", Value: "true"},
	}}
	if got := versionOf(info); got != "(devel) 0123456789ab (modified)" {
		t.Errorf("the version is %q", got)
	}
	info.Main.Version = "v0.0.0-20260102030405-0123456789ab+dirty"
	if got := versionOf(info); got != info.Main.Version {
		t.Errorf("the version is %q", got)
	}
}
