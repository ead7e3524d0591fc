package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/osfile"
	"github.com/entrace-go/entrace/recorder"
)

// followed runs tail -f, which must end by itself.
func followed(t *testing.T, args ...string) (code int, shown, errs string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var out, e bytes.Buffer
	code = run(ctx, append([]string{"tail", "-f"}, args...), nil, &out, &e)
	if ctx.Err() != nil {
		t.Fatalf("tail -f %q does not end; it prints\n%s%s", args, &out, &e)
	}
	return code, out.String(), e.String()
}

// TestTailFollowEndsWhenProgramDies: tail -f says the state of the file as the other commands do, and
// how to finish it, whether the program died before tail looked or after that.
func TestTailFollowEndsWhenProgramDies(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "app.et")
	must(t, rec.Flush(t.Context()))
	b := read(t, "app.iet")
	const want = "entrace: %: killed (panic: no stock); these spans were open: SELECT; 'entrace recover %' finishes the file\n"
	for _, args := range [][]string{{}, {"-q", "{}"}} {
		for _, when := range []string{"before", "after"} {
			name := when + strings.Join(args, "")[:min(2, len(args))] + ".iet"
			must(t, os.WriteFile(name, b, 0o600))
			must(t, os.WriteFile(name+".crash", []byte("panic: no stock\n"), 0o600))
			lock, err := os.OpenFile(name, os.O_RDWR, 0)
			must(t, err)
			defer lock.Close()
			if when == "after" {
				must(t, osfile.Lock(lock, true))
				time.AfterFunc(time.Second, func() { _ = osfile.Unlock(lock) })
			}
			if code, _, errs := followed(t, append(args, name)...); code != exitData || !strings.HasSuffix(errs, strings.ReplaceAll(want, "%", name)) {
				t.Errorf("%q, it died %s: exit %d, %s", args, when, code, errs)
			}
		}
	}
}

// TestTailFollowEndsAtDamage: tail -f prints what is whole of a file that its dead program has left
// damaged, without a journal, says what the damage is, and ends.
func TestTailFollowEndsAtDamage(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "app.et")
	must(t, rec.Flush(t.Context()))
	b := read(t, "app.iet")
	for name, damaged := range map[string][]byte{
		"torn.iet":    b[:len(b)-5],
		"corrupt.iet": append(bytes.Clone(b), bytes.Repeat([]byte{0xff}, 100)...),
	} {
		must(t, os.WriteFile(name, damaged, 0o600))
		f, err := format.Open(name, &format.OpenOptions{Prefix: true})
		must(t, err)
		damage := f.Damage().Error()
		must(t, f.Close())
		for _, args := range [][]string{{}, {"-q", "{}"}} {
			var out, e bytes.Buffer
			run(t.Context(), append(append([]string{"tail"}, args...), name), nil, &out, &e)
			code, shown, errs := followed(t, append(args, name)...)
			want := "entrace: " + name + ": damaged: " + damage + "; "
			if code != exitData || shown != out.String() || shown == "" || !strings.HasPrefix(errs, want) || !strings.HasSuffix(errs, "; 'entrace recover "+name+"' finishes the file\n") {
				t.Errorf("%q of %s: exit %d\n%s%s, want\n%s%s…", args, name, code, shown, errs, &out, want)
			}
		}
	}
}

// TestTailFollowEndsWithEndedFile: tail -f of an IET that is closed, or that another one follows
// under a name of its own, ends.
func TestTailFollowEndsWithEndedFile(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, sampleTrace(t, "closed.iet").Close(t.Context()))
	rec, err := recorder.Create("long.iet", &recorder.Options{MaxFileEntries: 10})
	must(t, err)
	for range 20 {
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("said"), Metadata: named("event").Metadata}))
	}
	must(t, rec.Close(t.Context()))
	names, err := filepath.Glob("long.2*")
	must(t, err)
	if len(names) == 0 {
		t.Fatal("no file was rotated")
	}
	for _, name := range []string{"closed.iet", names[0]} {
		for _, args := range [][]string{{}, {"-n", "-1"}, {"-q", "{}"}} {
			if code, _, errs := followed(t, append(args, name)...); code != exitFine || errs != "" {
				t.Errorf("%q of %s: exit %d, %s", args, name, code, errs)
			}
		}
	}
}

// TestTailFollowGoesOnAfterKilledProgram follows a folder in which the file of a program that died is the
// newest, until the next program writes a file of the same name.
func TestTailFollowGoesOnAfterKilledProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	rec := sampleTrace(t, "live.et")
	must(t, rec.Flush(t.Context()))
	b := read(t, "live.iet")
	must(t, rec.Close(t.Context()))
	must(t, os.Remove("live.et"))
	must(t, os.WriteFile("app.iet", b, 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs lockedBuffer
	done := make(chan int)
	go func() { done <- run(ctx, []string{"tail", "-f", "-n", "0", "."}, nil, &out, &errs) }()
	until := func(what *lockedBuffer, text string, do func()) {
		t.Helper()
		for !strings.Contains(what.String(), text) {
			do()
			select {
			case code := <-done:
				t.Fatalf("exit %d\n%s%s", code, &out, &errs)
			case <-time.After(time.Millisecond):
			}
		}
	}
	until(&errs, "app.iet: killed", func() {})
	if out.String() != "" {
		t.Errorf("-n 0 begins with\n%s", &out)
	}
	rec, err := recorder.Create("app.et", nil)
	must(t, err)
	until(&out, "the next program", func() { // the finished file of the other one may be newer for a while
		must(t, rec.Log(format.SpanRef{}, &format.TraceEntry{Message: format.Some("the next program"), Metadata: named("event").Metadata}))
		must(t, rec.Flush(t.Context()))
	})
	must(t, rec.Close(t.Context()))
	cancel()
	if code := <-done; code != exitFine {
		t.Errorf("exit %d\n%s", code, &errs)
	}
}

// TestTailFollowOfLargeFile: tail -f goes on behind the last entries of a file that it has not read
// from the beginning, although it does not know their ids.
func TestTailFollowOfLargeFile(t *testing.T) {
	t.Chdir(t.TempDir())
	rec, err := recorder.Create("app.iet", nil)
	must(t, err)
	said := func(text string) *format.TraceEntry {
		return &format.TraceEntry{Parent: 1, Message: format.Some(text), Metadata: named("event").Metadata}
	}
	_, err = rec.Append(named("parent"))
	must(t, err)
	filling := strings.Repeat("x", 1000)
	for range 17 << 10 {
		_, err := rec.Append(said(filling))
		must(t, err)
	}
	_, err = rec.Append(said("the last one"))
	must(t, err)
	must(t, rec.Flush(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs lockedBuffer
	done := make(chan int)
	go func() { done <- run(ctx, []string{"tail", "-f", "-n", "1", "app.iet"}, nil, &out, &errs) }()
	for !strings.Contains(out.String(), "the last one") && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	_, err = rec.Append(said("another one"))
	must(t, err)
	must(t, rec.Close(t.Context()))
	if code := <-done; code != exitFine || errs.String() != "" || strings.Contains(out.String(), "xxx") || !strings.Contains(out.String(), "another one") {
		t.Errorf("exit %d, %s\n%s", code, &errs, &out)
	}
}
