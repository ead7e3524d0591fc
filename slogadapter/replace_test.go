package slogadapter_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestReplacedTextsAreInNoFile searches for texts that ReplaceAttr hides, in all bytes that a recorder writes while
// the program runs and until its end. A kill leaves the files as they are.
func TestReplacedTextsAreInNoFile(t *testing.T) {
	dir, buffer := t.TempDir(), t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "log.iet"), &recorder.Options{BufferDir: buffer})
	h := slogadapter.New(rec, &slogadapter.Options{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		switch a.Key {
		case slog.MessageKey:
			a.Value = slog.StringValue("shown " + a.Value.String()[:1])
		case slog.SourceKey:
			a.Value.Any().(*slog.Source).File = "shown.go"
		case "name":
			a.Value = slog.StringValue("shown")
		}
		return a
	}})
	keep := slogadapter.New(rec, &slogadapter.Options{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.MessageKey {
			a.Value = slog.StringValue("kept")
		}
		return a
	}})
	search := func(when string) {
		var all []byte
		for _, dir := range []string{dir, buffer} {
			names, err := filepath.Glob(filepath.Join(dir, "*"))
			must(t, err)
			for _, name := range names {
				all = append(all, tracetest.ReadFile(t, name)...)
			}
		}
		for text, want := range map[string]bool{"hidden": false, "replace_test.go": false, "shown.go": true, "shown 1": true, "kept": true} {
			if strings.Contains(string(all), text) != want {
				t.Errorf("%s: %q is in the files: %v, want %v", when, text, !want, want)
			}
		}
	}
	for i := range 3 {
		for _, pc := range []uintptr{pc(), 0} {
			must(t, h.WithAttrs([]slog.Attr{slog.String("name", "hidden")}).Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, fmt.Sprint(i, " hidden"), pc)))
		}
		must(t, keep.Handle(t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, "hidden", 0)))
	}
	search("running")
	must(t, rec.Flush(t.Context()))
	search("flushed")
	must(t, rec.Close(t.Context()))
	search("closed")
}
