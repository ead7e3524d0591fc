package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/wire"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
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
	expect.Equal(t, strings.Join(dirNames(t, dir), " "), "a.iet link.et same.et there.et", "the folder has")
	must(t, format.Finalize(t.Context(), iet, filepath.Join(dir, "there.et"), &format.FinalizeOptions{Replace: true, RemoveSource: true}))
	expect.Equal(t, tracetest.Outline(t, tracetest.Open(t, filepath.Join(dir, "there.et"))), "root(whole)", "the ET has")
	expect.Is(t, expect.Err(os.Lstat(iet)), fs.ErrNotExist, "the source")
}

func TestFinalizeCancelled(t *testing.T) {
	dir := t.TempDir()
	iet := filepath.Join(dir, "a.iet")
	deadStream(t, iet)
	ctx, cancel := context.WithCancel(t.Context())
	err := format.Finalize(ctx, iet, filepath.Join(dir, "a.et"), &format.FinalizeOptions{Progress: func(int64, int64) { cancel() }})
	expect.Is(t, err, context.Canceled, "Finalize")
	expect.Equal(t, strings.Join(dirNames(t, dir), " "), "a.iet", "the folder has")
}

// TestFinalizeEmptyTrace finalizes a file that has only the magic. The result is an empty trace.
func TestFinalizeEmptyTrace(t *testing.T) {
	dir := t.TempDir()
	iet, et := filepath.Join(dir, "a.iet"), filepath.Join(dir, "a.et")
	must(t, os.WriteFile(iet, wire.AppendMagic(nil, format.V2, format.IET), 0o600))
	must(t, format.Finalize(t.Context(), iet, et, nil))
	expect.Equal(t, string(readFile(t, et)), "\x00ENTRACE\x02\x00\x00\x00", "the ET")
	expect.Equal(t, tracetest.Open(t, et).Len(), 0, "entries")
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

// TestMoreThan4GiB reads a sparse IET of more than 4 GiB.
func TestMoreThan4GiB(t *testing.T) {
	if strconv.IntSize == 32 || !hosttest.Soak() {
		t.Skip("takes long: set ENTRACE_SOAK")
	}
	name := hosttest.Path(t, "big.iet")
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	const large, entries = 60 << 20, 72
	e := named("large")
	e.Attributes = tracetest.Attributes("x", make([]byte, large))
	b := format.AppendTraceEntry(nil, format.V1, e)
	head := b[:len(b)-large]
	off := int64(0)
	put := func(b []byte) {
		_, err := f.WriteAt(b, off)
		must(t, err)
		off += int64(len(b))
	}
	put(wire.AppendMagic(nil, format.V1, format.IET))
	put(format.AppendTraceEntry(nil, format.V1, format.Root()))
	for range entries {
		put(head)
		off += large
	}
	put(format.AppendTraceEntry(nil, format.V1, named("last")))
	g := tracetest.Open(t, name)
	last, err := g.Entry(entries + 1)
	if err != nil || last.Metadata.Name != "last" || g.Len() != entries+2 || g.Size() != off || off < 1<<32 {
		t.Errorf("entry %d of %d is %v, %v", entries+1, g.Len(), last, err)
	}
	et := hosttest.Path(t, "big.et")
	must(t, format.Finalize(t.Context(), name, et, nil))
	h := tracetest.Open(t, et)
	last, err = h.Entry(entries + 1)
	if err != nil || last.Metadata.Name != "last" || h.Len() != entries+2 {
		t.Errorf("in the ET entry %d of %d is %v, %v", entries+1, h.Len(), last, err)
	}
}
