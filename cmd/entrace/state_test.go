package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/recorder"
)

// snapshot makes a flight recorder's file.
func snapshot(t *testing.T, name, trigger, reason string) {
	t.Helper()
	rec, err := recorder.Create(name, nil)
	must(t, err)
	_, err = rec.AppendAnchor(&format.TraceEntry{Metadata: format.Metadata{Name: mapping.NameTrace, Level: format.LevelInfo}, Attributes: []format.Attribute{
		{Name: "trigger", Value: format.StringValue(trigger)}, {Name: "reason", Value: format.StringValue(reason)},
	}})
	must(t, err)
	must(t, rec.Close(t.Context()))
}

// TestStateIsTheSameInAllCommands: tree, info, verify and recover use the same words, of one file
// and of those of a folder, and each reason stands with its file.
func TestStateIsTheSameInAllCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("traces", 0o700))
	rec := sampleTrace(t, "app.et")
	must(t, os.WriteFile("traces/killed.iet", read(t, "app.iet"), 0o600))
	must(t, os.WriteFile("dead.iet", read(t, "app.iet"), 0o600))
	must(t, rec.Close(t.Context()))
	must(t, os.Rename("app.et", "traces/app.et"))
	snapshot(t, "traces/hang.et", "watchdog", "GET hangs")
	snapshot(t, "traces/crash.et", "crash", "panic: no")

	want := []string{
		filepath.FromSlash("traces/crash.et") + " killed, recovered (crash: panic: no)",
		filepath.FromSlash("traces/hang.et") + " snapshot of a running process (watchdog: GET hangs)",
		filepath.FromSlash("traces/killed.iet") + " killed",
	}
	app := filepath.FromSlash("traces/app.et")
	out := fine(t, nil, "tree", "traces")
	if !strings.HasPrefix(out, app+" and 3 other files (1 snapshot of a running process, 1 ended, 2 killed): 2 spans, 1 log record, 1 error, 999ms\n  "+strings.Join(want, "\n  ")+"\n") {
		t.Errorf("tree prints\n%s", out)
	}
	info := fine(t, nil, "info", "traces")
	for _, line := range append(want, app+" ended") {
		if !strings.Contains(info, " "+line+"\n") {
			t.Errorf("info prints no %q:\n%s", line, info)
		}
		name, state, _ := strings.Cut(line, " ")
		if out := fine(t, nil, "tree", name); !strings.HasPrefix(out, line+": ") {
			t.Errorf("tree %s prints\n%s", name, out)
		}
		if out := fine(t, nil, "info", name); !strings.Contains(out, "state        "+state+"\n") {
			t.Errorf("info %s prints\n%s", name, out)
		}
		if out := fine(t, nil, "verify", name); !strings.HasSuffix(out, "; "+state+"\n") {
			t.Errorf("verify %s prints\n%s", name, out)
		}
	}
	if out := fine(t, nil, "recover", "dead.iet"); out != "dead.et: finished, 7 entries; killed, recovered\n" {
		t.Errorf("recover prints\n%s", out)
	}
}

// TestRunningIsToldWhenEntriesMayBeMissing: while a process writes, a command says so only if
// something may be missing in what it shows.
func TestRunningIsToldWhenEntriesMayBeMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.et", &recorder.Options{BufferDir: "."})
	must(t, err)
	defer rec.Close(t.Context())
	if d, err := rec.Durability(); d != recorder.DurabilityProcess {
		t.Skip("no crash buffer here:", err)
	}
	for range 3 {
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("said"), Metadata: named("event").Metadata}))
	}
	must(t, rec.Flush(t.Context()))
	for _, command := range []string{"tree", "info", "cat", "tail", "verify"} {
		if code, _, errs := entrace(t, nil, command, "app.et"); code != exitFine || errs != "" {
			t.Errorf("with all entries in the file %s says: %d, %s", command, code, errs)
		}
	}
}

// TestOpenSpanIsOpenForAsLongInAllCommands: a span that snapshots of one process have is open up to
// the end of the last of them, whatever command shows it.
func TestOpenSpanIsOpenForAsLongInAllCommands(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("traces", 0o700))
	for name, last := range map[string]uint64{"traces/a.et": 2_000, "traces/b.et": 5_000} {
		rec, err := recorder.Create(name, nil)
		must(t, err)
		own := named(mapping.NameTrace)
		own.Attributes = []format.Attribute{{Name: mapping.AttrProcessID, Value: format.U64Value(7)}, {Name: mapping.AttrHostName, Value: format.StringValue("host")}}
		span := named("GET /hang")
		span.Attributes = []format.Attribute{{Name: format.AttrSpanID, Value: format.StringValue("0000000000000001")}, {Name: format.AttrTraceID, Value: format.StringValue("00000000000000000000000000000001")}, {Name: format.AttrTime, Value: format.U64Value(1_000_000_000)}}
		log := named("event")
		log.Message, log.Attributes = format.Some("at "+name), []format.Attribute{{Name: format.AttrTime, Value: format.U64Value(last * 1_000_000)}}
		for _, e := range []*format.TraceEntry{own, span, log} {
			_, err := rec.Append(e)
			must(t, err)
		}
		must(t, rec.Close(t.Context()))
	}
	for _, args := range []string{"tree", "top", "grep GET"} {
		if out := fine(t, nil, append(strings.Fields(args), "traces")...); strings.Count(out, "GET /hang not ended, ≥ 4s") != 1 {
			t.Errorf("%s prints\n%s", args, out)
		}
	}
}

// TestFolderLeavesOutDamagedOriginals: what recovery has kept of a damaged file is no trace of a folder,
// which one line says.
func TestFolderLeavesOutDamagedOriginals(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, sampleTrace(t, "app.iet").Close(t.Context()))
	b := read(t, "app.iet")
	must(t, os.WriteFile("app.iet", append(b, bytes.Repeat([]byte{0xff}, 100)...), 0o600))
	if code, out, errs := entrace(t, nil, "recover", "."); code != exitData {
		t.Fatalf("recover: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs := entrace(t, nil, "tree", ".")
	if want := "entrace: .: damaged originals of recovered traces are left out: app.iet.broken\n"; code != exitFine || errs != want || strings.Count(out, "SELECT") != 1 {
		t.Errorf("exit %d\n%s%s, want %s", code, out, errs, want)
	}
}
