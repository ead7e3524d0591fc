package slogadapter_test

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// TestLeveler checks that the level is read for every record, by derived handlers
// too.
func TestLeveler(t *testing.T) {
	ctx := context.Background()
	var level slog.LevelVar
	_, h := newHandler(t, &slogadapter.Options{Level: &level})
	_, plain := newHandler(t, nil)
	derived := h.WithAttrs([]slog.Attr{slog.Int("a", 1)}).WithGroup("g")
	for _, set := range []slog.Level{slog.LevelInfo, slog.LevelDebug - 4, slog.LevelError + 1, slog.LevelInfo} {
		level.Set(set)
		for l := slog.LevelDebug - 5; l < slog.LevelError+3; l++ {
			for name, h := range map[string]slog.Handler{"the handler": h, "one derived": derived} {
				expect.Equal(t, h.Enabled(ctx, l), l >= set, "at %v %s is enabled for %v", set, name, l)
			}
			expect.Equal(t, plain.Enabled(ctx, l), l >= slog.LevelInfo, "by default enabled for %v", l)
		}
	}
}

func TestSource(t *testing.T) {
	_, file, line, _ := runtime.Caller(0)
	rec, h := newHandler(t, nil)
	slog.New(h.WithGroup("g")).Info("m")
	m := entries(t, rec)[0].Metadata
	line += 2 // the call
	expect.Equal(t, m.Name, "event handle_test.go:"+strconv.Itoa(line), "name")
	if !m.File.Valid || m.File.Value != file || !m.Line.Valid || m.Line.Value != uint32(line) {
		t.Errorf("place is %v:%v, want %s:%d", m.File, m.Line, file, line)
	}
	expect.Equal(t, m.Target, "github.com/entrace-go/entrace/slogadapter_test", "target")
	if m.ModulePath.Valid {
		t.Errorf("module path is %q, want none", m.ModulePath.Value)
	}
}

func TestNoSource(t *testing.T) {
	for _, pc := range []uintptr{0, 1} {
		rec, h := newHandler(t, nil)
		must(t, h.Handle(t.Context(), slog.NewRecord(time.Time{}, slog.LevelInfo, "", pc)))
		expect.Equal(t, entries(t, rec)[0].Metadata, (format.Metadata{Name: "event", Level: format.LevelInfo}), "of pc %d metadata", pc)
	}
}

func TestContext(t *testing.T) {
	rec, h := newHandler(t, nil)
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	for _, ctx := range []context.Context{canceled, nil} {
		if !h.Enabled(ctx, slog.LevelInfo) {
			t.Errorf("not enabled with context %v", ctx)
		}
		expect.Is(t, h.Handle(ctx, r), nil, "with context %v", ctx)
	}
	expect.Equal(t, len(entries(t, rec)), 2, "entries")
}

func TestClosedRecorder(t *testing.T) {
	rec := tracetest.CreateAt(t, hosttest.Path(t, "log.iet"), nil)
	h := slogadapter.New(rec, nil)
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	must(t, h.Handle(t.Context(), r))
	must(t, rec.Close(context.Background()))
	for range 2 {
		expect.Is(t, h.Handle(context.Background(), r), recorder.ErrClosed, "Handle")
	}
	if got := rec.Stats().Entries.Dropped; got != (recorder.Dropped{Closed: 2}) {
		t.Errorf("dropped %+v, want 2 that came after Close", got)
	}
	fi, err := os.Stat(rec.Path())
	if err != nil || fi.Size() != rec.Stats().Bytes {
		t.Errorf("the file has %v, %v, want %d bytes", fi, err, rec.Stats().Bytes)
	}
}

func TestDiscard(t *testing.T) {
	ctx := context.Background()
	h := slogadapter.New(recorder.Discard(), &slogadapter.Options{Level: slog.LevelDebug})
	called := false
	r := slog.NewRecord(time.Time{}, slog.LevelError, "", 0)
	r.AddAttrs(slog.Any("v", valuer(func() slog.Value { called = true; return slog.Value{} })))
	if h.Enabled(ctx, slog.LevelError) || h.WithGroup("g").Enabled(ctx, slog.LevelError) {
		t.Error("enabled")
	}
	if err := h.Handle(ctx, r); err != nil || called {
		t.Errorf("Handle returned %v and resolved a value: %t, want nothing", err, called)
	}
}

// TestPanicOfContext checks that Handle returns a panic of the user's context as an error,
// and that later records are recorded.
func TestPanicOfContext(t *testing.T) {
	rec, h := newHandler(t, nil)
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "m", 0)
	if err := h.WithGroup("g").Handle(panicContext{}, r); err == nil || !strings.Contains(err.Error(), "no value") {
		t.Errorf("Handle returned %v, want the panic's text", err)
	}
	slog.New(h).Info("after", "a", 1)
	all := entries(t, rec)
	checkList(t, all[len(all)-1], "a=1")
}

// TestGoexitInValueIsCounted checks that a record whose value ends the goroutine, as t.FailNow in a fake does,
// counts as dropped, and that later records are complete.
func TestGoexitInValueIsCounted(t *testing.T) {
	rec, h := newHandler(t, nil)
	for _, value := range []any{exitError{}, slog.GroupValue(slog.Any("e", exitError{})), exitValuer{}} {
		done := make(chan bool)
		go func() {
			defer close(done)
			slog.New(h).Info("lost", "a", 1, "value", value)
		}()
		<-done
		slog.New(h).Info("after", "a", 1)
	}
	if s := rec.Stats().Entries; s.Dropped.Invalid != 3 || s.Offered != s.Written+s.Waiting+3 {
		t.Errorf("the account is %+v", s)
	}
	all := entries(t, rec)
	for _, e := range all[len(all)-3:] {
		checkList(t, e, "a=1")
	}
}

type (
	exitError  struct{}
	exitValuer struct{}
)

func (exitError) Error() string         { runtime.Goexit(); return "" }
func (exitValuer) LogValue() slog.Value { runtime.Goexit(); return slog.Value{} }

// TestNilLevelIsTheDefault checks that a nil *slog.LevelVar means the default level, as a nil Leveler does.
func TestNilLevelIsTheDefault(t *testing.T) {
	var level *slog.LevelVar
	_, h := newHandler(t, &slogadapter.Options{Level: level})
	if h.Enabled(t.Context(), slog.LevelDebug) || !h.Enabled(t.Context(), slog.LevelInfo) {
		t.Error("the level is not INFO")
	}
}

type panicContext struct{ context.Context }

func (panicContext) Value(any) any { panic("no value") }

// pc returns the program counter of its caller.
func pc() uintptr {
	var pcs [1]uintptr
	runtime.Callers(2, pcs[:])
	return pcs[0]
}
