package slogadapter_test

import (
	"context"
	"log"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// handle passes a record to h.
func handle(t testing.TB, h slog.Handler, r slog.Record) {
	t.Helper()
	must(t, h.Handle(context.Background(), r))
}

func TestLevels(t *testing.T) {
	logged(t, "levels", &slogadapter.Options{Level: slog.Level(math.MinInt)}, func(l *slog.Logger) {
		for _, level := range []slog.Level{
			math.MinInt32, slog.LevelDebug - 1, slog.LevelDebug, slog.LevelDebug + 2, slog.LevelInfo, slog.LevelInfo + 2,
			slog.LevelWarn, slog.LevelWarn + 3, slog.LevelError, slog.LevelError + 1, math.MaxInt32,
		} {
			l.Log(context.Background(), level, level.String())
		}
	})
}

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

func TestTime(t *testing.T) {
	rec, h := newHandler(t, nil)
	for _, at := range []time.Time{
		{},
		time.Date(2026, 1, 2, 3, 4, 5, 123456789, time.UTC),
		time.Date(2026, 1, 2, 5, 4, 5, 123456789, time.FixedZone("", 7200)),
		time.Unix(0, 0).UTC(),
		time.Unix(-1, 1).UTC(),
		time.Date(20000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		handle(t, h, slog.NewRecord(at, slog.LevelInfo, at.String(), 0))
	}
	all := strings.SplitAfter(lines(entries(t, rec)), "\n")
	slices.Sort(all) // records are written by their times, if the goroutine changes its processor
	golden(t, "times", strings.Join(all, ""))
}

// TestTimeOfTheApplication: an attribute of the application may have the name and the value of the record's
// time. It is still stored as an attribute of the application.
func TestTimeOfTheApplication(t *testing.T) {
	rec, h := newHandler(t, nil)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	r := slog.NewRecord(at, slog.LevelInfo, "", 0)
	r.AddAttrs(slog.Uint64(format.AttrTime, uint64(at.UnixNano())))
	handle(t, h, r)
	e := entries(t, rec)[0]
	for _, name := range []string{format.AttrTime, "otel.attr." + format.AttrTime} {
		if v, ok := e.Attribute(name); !ok || kindAndText(v) != "U64 1767323045000000006" {
			t.Errorf("%s is %q", name, kindAndText(v))
		}
	}
	expect.Equal(t, len(e.Attributes), 2, "attributes")
}

// TestWithIsUsedOften: after some records, the recorder stores numbers instead of the names of With. Readers
// see the same attributes.
func TestWithIsUsedOften(t *testing.T) {
	rec, h := newHandler(t, nil)
	l := slog.New(h).With("service", "shop", "trace_id", 7, "service", 8).WithGroup("request").With("id", 1, slog.Group("user", "name", "ada"))
	for range 100 {
		l.Info("m", "k", "v")
	}
	all := lines(entries(t, rec))
	first, _, _ := strings.Cut(all, "\n")
	expect.Equal(t, all, strings.Repeat(first+"\n", 100), "records")
	golden(t, "with", first+"\n")
}

func TestSource(t *testing.T) {
	_, file, line, _ := runtime.Caller(0)
	e := record(t, nil, func(l *slog.Logger) { l.WithGroup("g").Info("m") })[0]
	m := e.Metadata
	line++
	expect.Equal(t, m.Name, "event handle_test.go:"+strconv.Itoa(line), "name")
	if !m.File.Valid || m.File.Value != file || !m.Line.Valid || m.Line.Value != uint32(line) {
		t.Errorf("place is %v:%v, want %s:%d", m.File, m.Line, file, line)
	}
	expect.Equal(t, m.Target, "github.com/entrace-go/entrace/slogadapter_test", "target")
	if m.ModulePath.Valid {
		t.Errorf("module path is %q, want none", m.ModulePath.Value)
	}
	checkList(t, e, "")
}

func TestNoSource(t *testing.T) {
	for _, pc := range []uintptr{0, 1} {
		rec, h := newHandler(t, nil)
		handle(t, h, slog.NewRecord(time.Time{}, slog.LevelInfo, "", pc))
		expect.Equal(t, entries(t, rec)[0].Metadata, (format.Metadata{Name: "event", Level: format.LevelInfo}), "of pc %d metadata", pc)
	}
}

func TestMessage(t *testing.T) {
	logged(t, "messages", nil, func(l *slog.Logger) {
		for _, message := range []string{"", "text", "\x00\n", "a\xff\xfeb", "\xe2\x80"} {
			l.Info(message)
		}
	})
}

// TestRecordUntouched checks that Handle does not change the caller's record: copies of a
// record share the attributes after the fifth.
func TestRecordUntouched(t *testing.T) {
	rec, h := newHandler(t, nil)
	h2 := h.WithAttrs([]slog.Attr{slog.Int("w", 0)})
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	for i := range 7 {
		r.AddAttrs(slog.Int(string(rune('a'+i)), i))
	}
	clone := r.Clone()
	clone.AddAttrs(slog.Int("x", 1))
	handle(t, h2, r)
	handle(t, h2, clone)
	handle(t, h2, r)
	expect.Equal(t, r.NumAttrs(), 7, "attributes of the record")
	golden(t, "untouched", lines(entries(t, rec)))
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

// TestReentrant: methods of values that the handler calls may log through the same handler.
func TestReentrant(t *testing.T) {
	// With this durability, entries are in the order of the calls and not in the order of their times.
	rec := newRecorder(t, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	h := slogadapter.New(rec, nil)
	l := slog.New(h)
	v := valuer(func() slog.Value {
		l.Info("inner", "a", 1, "b", slog.AnyValue(nil))
		return slog.StringValue("v")
	})
	l.With("w", v).WithGroup("g").Info("outer", "a", 0, "v", v, "z", 2)
	golden(t, "reentrant", lines(entries(t, rec)))
}

// TestDefault: if the handler is slog's default, it also records messages of package log.
func TestDefault(t *testing.T) {
	// With this durability, entries are in the order of the calls and not in the order of their times.
	rec := newRecorder(t, &recorder.Options{Durability: recorder.DurabilityWriteThrough})
	h := slogadapter.New(rec, nil)
	old, flags, out := slog.Default(), log.Flags(), log.Writer()
	defer func() {
		slog.SetDefault(old)
		log.SetFlags(flags)
		log.SetOutput(out)
	}()
	slog.SetDefault(slog.New(h))
	log.Print("printed")
	slog.Info("logged")
	slog.New(h).Info("v", "v", valuer(func() slog.Value { log.Print("within"); return slog.Value{} }))
	log.SetFlags(log.Lshortfile) // SetDefault reads these flags
	slog.SetDefault(slog.New(h))
	log.Print("with its place")
	golden(t, "default", lines(entries(t, rec)))
}

func TestClosedRecorder(t *testing.T) {
	rec := tracetest.CreateAt(t, filepath.Join(t.TempDir(), "log.iet"), nil)
	h := slogadapter.New(rec, nil)
	r := slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
	handle(t, h, r)
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
// counts as dropped, and that later records are whole.
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
