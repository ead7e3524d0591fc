package slogadapter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

var must = expect.Must

// skipUnderRace skips a test that counts allocations if the race detector is on, because it makes
// sync.Pool drop items.
func skipUnderRace(t *testing.T) {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector allocates")
	}
}

var errPlain = errors.New("plain")

// checkAllocs checks that fn, once warm, allocates nothing.
func checkAllocs(t *testing.T, fn func()) {
	t.Helper()
	for range 10 {
		fn()
	}
	expect.Equal(t, hosttest.Allocations(500, fn), 0, "allocations")
}

var spanContext = trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})

// plainKinds returns ten attributes of the kinds that are encoded without calling a method of the
// value.
func plainKinds() []slog.Attr {
	return []slog.Attr{
		slog.String("string", "a text"), slog.String("invalid", "\xff"), slog.Int("int", -1), slog.Uint64("uint", 1),
		slog.Float64("float", 0.5), slog.Bool("bool", true), slog.Duration("duration", time.Second), slog.Time("time", time.Now()),
		slog.Group("group", slog.Int("a", 1), slog.Group("", slog.Int("b", 2))), slog.Int("last", 10),
	}
}

func TestHandleAllocs(t *testing.T) {
	skipUnderRace(t)
	background := context.Background()
	inSpan := trace.ContextWithSpanContext(background, spanContext)
	with := []slog.Attr{
		slog.Int("a", 1), slog.Any("json", map[string]int{"a": 1}), slog.Any("error", errPlain), slog.Any("blob", []byte("b")),
		slog.Any("lv", valuer(func() slog.Value { return slog.IntValue(1) })),
	}
	for _, version := range []format.Version{format.V1, format.V2} {
		rec := newRecorder(t, &recorder.Options{Version: version})
		plain := slogadapter.New(rec, nil)
		for _, handler := range []struct {
			name string
			h    slog.Handler
		}{
			{"plain", plain},
			{"With", plain.WithAttrs(with)},
			{"groups", plain.WithGroup("g").WithAttrs(with).WithGroup("h")},
		} {
			for name, ctx := range map[string]context.Context{"": background, " in a span": inSpan} {
				t.Run(fmt.Sprintf("version %d %s%s", version, handler.name, name), func(t *testing.T) {
					l := slog.New(handler.h)
					checkAllocs(t, func() { l.LogAttrs(ctx, slog.LevelInfo, "message") })
					checkAllocs(t, func() {
						l.LogAttrs(ctx, slog.LevelInfo+1, "message", slog.String("s", "text"), slog.Int("i", 1), slog.Float64("f", 0.5),
							slog.Bool("b", true), slog.Any("err", errPlain))
					})
					r := slog.NewRecord(time.Now(), slog.LevelInfo, "message", pc())
					r.AddAttrs(plainKinds()...)
					checkAllocs(t, func() {
						must(t, handler.h.Handle(ctx, r))
					})
				})
			}
		}
	}
}

// TestWithWorksOnce checks that attributes of With are resolved, replaced and
// encoded once, and not for each record.
func TestWithWorksOnce(t *testing.T) {
	resolved, encoded, replaced := 0, 0, 0
	o := &slogadapter.Options{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == "v" {
			replaced++
		}
		return a
	}}
	rec, h := newHandler(t, o)
	l := slog.New(h)
	for i := range 10 {
		l = l.With("v", valuer(func() slog.Value {
			resolved++
			return slog.AnyValue(counting{&encoded})
		}))
		for range 10 {
			l.Info("m")
		}
		if want := i + 1; resolved != want || encoded != want || replaced != want {
			t.Fatalf("after With %d: resolved %d, encoded %d, replaced %d times", want, resolved, encoded, replaced)
		}
	}
	all := entries(t, rec)
	expect.Len(t, all[len(all)-1].Attributes, 11, "the time and the attributes")
}

type counting struct{ n *int }

func (c counting) MarshalText() ([]byte, error) {
	*c.n++
	return nil, nil
}
