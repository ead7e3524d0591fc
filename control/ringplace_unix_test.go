//go:build unix

package control_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/recorder"
)

// TestRingIsGone recovers a ring whose shared memory is lost. The trace has the crash text, the loss is
// reported once, and no other file remains.
func TestRingIsGone(t *testing.T) {
	for _, text := range []string{"", "panic: boom\n\ngoroutine 1"} {
		dir := t.TempDir()
		stem := filepath.Join(dir, "ring-h-7-20260102T030405.000000Z")
		// The process died before the file had a path.
		must(t, os.WriteFile(stem+".ring", []byte("entrace journal\n"), 0o600))
		if text != "" {
			must(t, os.WriteFile(stem+".crash", []byte(text), 0o600))
		}
		crashes, _, err := recovered(dir)
		must(t, err)
		if len(crashes) != 1 || !errors.Is(crashes[0].Err, recorder.ErrJournalGone) || (crashes[0].Output != "") != (text != "") {
			t.Fatalf("%q: recovered are %+v", text, crashes)
		}
		list, err := filepath.Glob(filepath.Join(dir, "*"))
		must(t, err)
		if text == "" && len(list) > 0 || text != "" && (len(list) != 1 || list[0] != crashes[0].Output) {
			t.Errorf("%q: left are %q", text, list)
		}
		if text != "" {
			b, err := os.ReadFile(crashes[0].Output)
			if err != nil || !strings.Contains(string(b), "panic: boom") || !strings.Contains(string(b), recorder.ErrJournalGone.Error()) {
				t.Errorf("the trace does not say what happened (%v)", err)
			}
		}
		if again, _, err := recovered(dir); err != nil || len(again) > 0 {
			t.Errorf("%q: then there are %+v, %v", text, again, err)
		}
	}
}

// TestRingOfAnotherLayout checks that recovery renames a ring of another version of this package, and
// reports it once.
func TestRingOfAnotherLayout(t *testing.T) {
	name, data := aRing(t)
	binary.LittleEndian.PutUint32(data[8:], 1)
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	crashes, _, err := recovered(dir)
	if err != nil || len(crashes) != 1 || crashes[0].Err == nil || !strings.Contains(crashes[0].Err.Error(), "layout 1") || !strings.Contains(crashes[0].Err.Error(), name+".broken") {
		t.Errorf("recovered are %+v, %v", crashes, err)
	}
	list, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(list) != 1 || filepath.Base(list[0]) != name+".broken" {
		t.Errorf("left are %q, %v", list, err)
	}
	if again, _, err := recovered(dir); err != nil || len(again) > 0 {
		t.Errorf("then there are %+v, %v", again, err)
	}
}
