package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestLookingTakesNewestTrace: a command that looks and is given no file takes the newest trace
// and says so; one that writes does not.
func TestLookingTakesNewestTrace(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("ids.lua", []byte("return {1}"), 0o600))
	for _, args := range [][]string{{"tree"}, {"grep", ""}} {
		if code, _, errs := entrace(t, nil, args...); code != exitUsage || !strings.Contains(errs, "there is no trace in the current folder") {
			t.Errorf("of an empty folder %q says: %d, %s", args, code, errs)
		}
	}
	for _, name := range []string{"new.et", "old.et"} {
		must(t, sampleTrace(t, name).Close(t.Context()))
	}
	must(t, os.Chtimes("old.et", time.Time{}, time.Unix(1e9, 0)))
	for _, args := range [][]string{
		{"cat"},
		{"tree"},
		{"info"},
		{"stats"},
		{"top"},
		{"critical"},
		{"check", "-q", "no such text"},
		{"verify"},
		{"tail"},
		{"grep", ""},
		{"lua", "ids.lua"},
	} {
		code, out, errs := entrace(t, nil, args...)
		if code != exitFine || errs != "entrace: the newest is new.et\n" {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
		if want := fine(t, nil, append(args, "new.et")...); out != want {
			t.Errorf("%q prints\n%s, want\n%s", args, out, want)
		}
	}
	for _, args := range [][]string{{"convert"}, {"merge"}, {"recover"}, {"diff"}} {
		if code, _, errs := entrace(t, nil, args...); code != exitUsage || strings.Contains(errs, "newest") {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
	for _, args := range [][]string{{"grep", "new.et"}, {"grep", "."}} {
		if code, _, errs := entrace(t, nil, args...); code != exitUsage || !strings.Contains(errs, "name it behind QUERY") {
			t.Errorf("%q: exit %d, %s", args, code, errs)
		}
	}
}
