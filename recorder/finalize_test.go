package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/mapping"
	"github.com/entrace-go/entrace/internal/tracetest"
	"github.com/entrace-go/entrace/internal/wire"
	"github.com/entrace-go/entrace/recorder"
)

func TestFinalizeRefuses(t *testing.T) {
	dir := t.TempDir()
	iet := filepath.Join(dir, "a.iet")
	deadStream(t, iet)
	before := readFile(t, iet)
	must(t, os.WriteFile(filepath.Join(dir, "there.et"), []byte("x"), 0o600))
	must(t, os.Link(iet, filepath.Join(dir, "same.et")))
	tracetest.Symlink(t, filepath.Join(dir, "elsewhere"), filepath.Join(dir, "link.et"))
	for _, x := range []struct {
		et      string
		replace bool
		want    error
	}{
		{"there.et", false, fs.ErrExist},
		{"same.et", true, nil},
		{"a.iet", true, nil},
		{"link.et", false, format.ErrNotRegular},
		{"missing/a.et", true, fs.ErrNotExist},
	} {
		err := format.Finalize(t.Context(), iet, filepath.Join(dir, x.et), &format.FinalizeOptions{Replace: x.replace, RemoveSource: true})
		step, ok := errors.AsType[*format.FinalizeError](err)
		if !ok || x.want != nil && !errors.Is(err, x.want) {
			t.Errorf("%s: %v, want a FinalizeError of %v", x.et, err, x.want)
			continue
		}
		if step.IET != iet || step.Step == "" || step.Finished {
			t.Errorf("%s: the error does not say what: %+v", x.et, step)
		}
		if !bytes.Equal(readFile(t, iet), before) {
			t.Fatalf("%s: the IET changed", x.et)
		}
	}
	if got := strings.Join(dirNames(t, dir), " "); got != "a.iet link.et same.et there.et" {
		t.Errorf("the folder has %s", got)
	}
	must(t, format.Finalize(t.Context(), iet, filepath.Join(dir, "there.et"), &format.FinalizeOptions{Replace: true, RemoveSource: true}))
	if got, want := tracetest.Outline(t, tracetest.Open(t, filepath.Join(dir, "there.et"))), "root(whole)"; got != want {
		t.Errorf("the ET has %s, want %s", got, want)
	}
	if _, err := os.Lstat(iet); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the source is still there: %v", err)
	}
}

func TestFinalizeCancelled(t *testing.T) {
	dir := t.TempDir()
	iet := filepath.Join(dir, "a.iet")
	deadStream(t, iet)
	ctx, cancel := context.WithCancel(t.Context())
	err := format.Finalize(ctx, iet, filepath.Join(dir, "a.et"), &format.FinalizeOptions{Progress: func(int64, int64) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Finalize: %v, want the context's error", err)
	}
	if got := strings.Join(dirNames(t, dir), " "); got != "a.iet" {
		t.Errorf("the folder has %s, want a.iet alone", got)
	}
}

// TestFinalizeEmptyTrace: a file with nothing but a magic is a trace of nothing.
func TestFinalizeEmptyTrace(t *testing.T) {
	dir := t.TempDir()
	iet, et := filepath.Join(dir, "a.iet"), filepath.Join(dir, "a.et")
	must(t, os.WriteFile(iet, wire.AppendMagic(nil, format.V2, format.IET), 0o600))
	must(t, format.Finalize(t.Context(), iet, et, nil))
	if got, want := string(readFile(t, et)), "\x00ENTRACE\x02\x00\x00\x00"; got != want {
		t.Errorf("the ET is %q, want %q", got, want)
	}
	if f := tracetest.Open(t, et); f.Len() != 0 {
		t.Errorf("%d entries, want none", f.Len())
	}
}

func TestFinalizeCorrupt(t *testing.T) {
	dir := t.TempDir()
	iet := filepath.Join(dir, "a.iet")
	deadStream(t, iet, 0, 7)
	err := format.Finalize(t.Context(), iet, filepath.Join(dir, "a.et"), nil)
	damage, ok := errors.AsType[*format.CorruptError](err)
	if !ok || damage.Entry != 2 || damage.Field != "message" || !strings.Contains(err.Error(), "option") {
		t.Errorf("Finalize: %v, want the damage in entry 2, message", err)
	}
}

func TestRecoverInPlace(t *testing.T) {
	for _, x := range []struct {
		name   string
		tail   []byte
		given  string
		files  string
		reason string
	}{
		{"whole stream of an ET", nil, "app.et", "app.et", mapping.CutClean},
		{"torn stream of an ET", []byte{0, 0, 9}, "app.et", "app.et", mapping.CutTorn},
		{"zeros behind it", make([]byte, 20), "app.et", "app.et", mapping.CutZeroTail},
		{"corrupt stream of an ET", []byte{0, 7}, "app.et", "app.et app.iet.broken", mapping.CutCorrupt},
		{"torn IET", []byte{0, 0, 9}, "app.iet", "app.iet", mapping.CutTorn},
		{"corrupt IET", []byte{0, 7}, "app.iet", "app.iet app.iet.broken", mapping.CutCorrupt},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			stream := filepath.Join(dir, "app.iet")
			whole := deadStream(t, stream, x.tail...)
			r, err := recorder.Recover(filepath.Join(dir, x.given), "")
			must(t, err)
			if r.Reason != x.reason || r.GoodBytes != int64(len(whole)) || r.Size != int64(len(whole)+len(x.tail)) || r.Entries != 2 {
				t.Errorf("the report is %+v; want %s at %d", r, x.reason, len(whole))
			}
			if got := strings.Join(dirNames(t, dir), " "); got != x.files {
				t.Errorf("the folder has %s, want %s", got, x.files)
			}
			saved := filepath.Join(dir, x.given)
			if r.Output != saved {
				t.Errorf("the report names %s, want %s", r.Output, saved)
			}
			want := "root(whole)"
			if x.reason == mapping.CutCorrupt {
				want = "root(whole entrace.recovered)"
			}
			if got := tracetest.Outline(t, tracetest.Open(t, saved)); got != want {
				t.Errorf("it saved %s, want %s", got, want)
			}
			before := readFile(t, saved)
			r, err = recorder.Recover(saved, "")
			must(t, err)
			if r.Reason != mapping.CutClean || !bytes.Equal(readFile(t, saved), before) {
				t.Errorf("recovering again found %s and changed the file: %t", r.Reason, !bytes.Equal(readFile(t, saved), before))
			}
		})
	}
}

func TestRecoverTo(t *testing.T) {
	dir := t.TempDir()
	stream := filepath.Join(dir, "app.iet")
	whole := deadStream(t, stream, 0, 0, 9)
	before := readFile(t, stream)
	for _, out := range []string{"out.iet", "out.et"} {
		out = filepath.Join(dir, out)
		_, err := recorder.Recover(filepath.Join(dir, "app.et"), out)
		must(t, err)
		if got, want := tracetest.Outline(t, tracetest.Open(t, out)), "root(whole)"; got != want {
			t.Errorf("%s has %s, want %s", out, got, want)
		}
		if _, err := recorder.Recover(stream, out); !errors.Is(err, fs.ErrExist) {
			t.Errorf("Recover to a file that is there: %v, want ErrExist", err)
		}
	}
	if !bytes.Equal(readFile(t, filepath.Join(dir, "out.iet")), whole) {
		t.Error("out.iet is not the whole prefix")
	}
	if !bytes.Equal(readFile(t, stream), before) {
		t.Error("the source changed")
	}
}
