package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/control"
	"github.com/entrace-go/entrace/format"
)

// TestRecoverFolder makes traces of what a flight recorder has left: a copy of its
// ring, at a moment, is what is left of a process.
func TestRecoverFolder(t *testing.T) {
	live := filepath.Join(t.TempDir(), "traces")
	ctl, err := control.New(&control.Options{Service: "shop", BufferDir: live, Config: &control.Config{
		ID: "c", Dir: live, Ring: control.RingConfig{Bytes: control.MinRingBytes, Persist: true, Always: control.Logs},
	}})
	must(t, err)
	defer ctl.Shutdown(t.Context())
	rings, _ := filepath.Glob(filepath.Join(live, "*.ring"))
	if len(rings) != 1 {
		t.Skip("no ring in a file here")
	}
	for range 3 {
		must(t, ctl.Recorder().Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("said"), Metadata: named("event").Metadata}))
	}
	t.Chdir(t.TempDir())
	must(t, os.Mkdir("traces", 0o700))
	b, err := os.ReadFile(rings[0])
	must(t, err)
	left := filepath.Join("traces", filepath.Base(rings[0]))
	must(t, os.WriteFile(left, b, 0o600))
	text := func() {
		must(t, os.WriteFile(strings.TrimSuffix(left, ".ring")+".crash", []byte("panic: \x1b[31mboom\n\ngoroutine 1"), 0o600))
	}
	text()
	must(t, os.WriteFile("traces/ring-mine.ring", []byte("not a ring"), 0o600))

	if out := fine(t, nil, "recover", live); !strings.Contains(out, "nothing to recover") {
		t.Errorf("of a living process:\n%s", out)
	}
	code, out, errs := entrace(t, nil, "recover", "traces")
	if code == 0 || !strings.Contains(out, `-crash.et: finished, 7 entries; killed, recovered (crash: panic: \x1b[31mboom)`) || !strings.Contains(errs, "ring-mine.ring") {
		t.Errorf("%d\n%s\n%s", code, out, errs)
	}
	list, _ := filepath.Glob("traces/*-crash.et")
	if len(list) != 1 {
		t.Fatalf("there are %q", list)
	}
	if out := fine(t, nil, "tree", list[0]); strings.Count(out, "TRACE said") != 3 || !strings.Contains(out, "ERROR entrace.trace") || !strings.Contains(out, "crash") {
		t.Errorf("the tree is\n%s", out)
	}
	must(t, os.Remove("traces/ring-mine.ring"))
	if out := fine(t, nil, "recover", "traces"); !strings.Contains(out, "nothing to recover") {
		t.Errorf("a second time:\n%s", out)
	}
	must(t, os.WriteFile(left, b, 0o600)) // as if the recovery had been killed just before its end
	text()
	var c recovery
	if out := fine(t, nil, "recover", "--json", "traces"); json.Unmarshal([]byte(out), &c) != nil || filepath.Base(c.File) != filepath.Base(left) || c.State == "" || c.Output != list[0] && filepath.Base(c.Output) != filepath.Base(list[0]) {
		t.Errorf("as JSON: %s", out)
	}
	if code, _, errs := entrace(t, nil, "recover", "traces", "-o", "x.et"); code != 2 || !strings.Contains(errs, "folder") {
		t.Errorf("-o of a folder: %d, %s", code, errs)
	}
}
