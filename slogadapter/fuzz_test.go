package slogadapter_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/hosttest"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

// FuzzHandle checks that any logged record makes a file that other readers accept. The bits of the
// parameter shape choose how the record is built and logged.
func FuzzHandle(f *testing.F) {
	f.Add("message", "key", "other", "group", []byte("value"), int64(1), 0.5, uint32(0))
	f.Add("\xff", "a\xff", "a\xfe", "\xe2\x80", []byte("\xff"), int64(-1), math.NaN(), uint32(0xffff_ffff))
	f.Add("", "trace_id", "span_id", "otel", []byte(nil), int64(math.MinInt64), math.Inf(1), uint32(0x55))
	f.Add("m", "a", "a#2", "", []byte("x"), int64(math.MaxInt64), 0.0, uint32(0xaa))
	f.Add(strings.Repeat("é", 300), strings.Repeat("k", 300), "!TRUNCATED", "otel.attr", []byte(strings.Repeat("ü", 200)), int64(5), 1e300, uint32(0x1ff))
	f.Fuzz(func(t *testing.T, message, key, other, group string, value []byte, n int64, x float64, shape uint32) {
		bit := func(i int) bool { return shape>>i&1 != 0 }
		version := format.V1
		if bit(0) {
			version = format.V2
		}
		o := &slogadapter.Options{Level: slog.Level(math.MinInt)}
		if bit(1) {
			o.MaxBytes, o.MaxAttrs = 256, 8
		}
		if bit(2) {
			o.ReplaceAttr = func(_ []string, a slog.Attr) slog.Attr {
				if bit(3) && a.Key == slog.TimeKey {
					return slog.String(key, message)
				}
				if bit(4) && (a.Key == slog.LevelKey || a.Key == slog.SourceKey) {
					return slog.Any(other, value)
				}
				return a
			}
		}
		rec := tracetest.CreateAt(t, hosttest.Path(t, "log.iet"), &recorder.Options{Version: version})
		text := string(value)
		attrs := []slog.Attr{
			slog.String(key, text), slog.Any(other, value), slog.Int64(key, n), slog.Float64(other, x), slog.Time(key, time.Unix(n, n)),
			slog.Any(key, errors.New(text)), slog.Any(other, []any{text, n}), slog.Any(text, nil), slog.Any(key, map[string]float64{text: x}),
			slog.Any(other, valuer(func() slog.Value {
				return slog.GroupValue(slog.Duration(key, time.Duration(n)), slog.String(text, other))
			})),
		}
		attrs = append(attrs, slog.Attr{Key: group, Value: slog.GroupValue(attrs...)})
		ctx := context.Background()
		if bit(5) {
			ctx = trace.ContextWithSpanContext(ctx, spanContext)
		}
		var h slog.Handler = slogadapter.New(rec, o)
		if bit(6) {
			h = h.WithAttrs(attrs)
		}
		if bit(7) {
			h = h.WithGroup(group)
		}
		if bit(8) {
			h = h.WithAttrs(attrs)
		}
		r := slog.NewRecord(time.Unix(n, 0), slog.Level(n), message, pc())
		r.AddAttrs(attrs...)
		for range 2 { // the second record reuses the memory of the first
			must(t, h.Handle(ctx, r))
		}
		all := entries(t, rec)
		must(t, rec.Close(ctx))
		report, err := recorder.Verify(rec.Path(), func(problem error) {
			expect.Is(t, problem, format.ErrNumbered, "problem") // fuzzed names may end in a number themselves
		})
		must(t, err)
		if report.Entries != 4 {
			t.Errorf("%d entries, want the root, two records and the end", report.Entries)
		}
		for i, e := range all {
			if e.Parent > uint32(i) {
				t.Errorf("entry %d is below %d", i+1, e.Parent)
			}
			if !e.Message.Valid || !utf8.ValidString(e.Message.Value) {
				t.Errorf("message is %v", e.Message)
			}
			seen := make(map[string]bool)
			for _, a := range e.Attributes {
				if seen[a.Name] {
					t.Errorf("%q comes twice", a.Name)
				}
				seen[a.Name] = true
				if !utf8.ValidString(a.Name) {
					t.Errorf("name %q is not UTF-8", a.Name)
				}
			}
			if len(e.Attributes) > 0 && list(all[0]) != list(e) {
				t.Errorf("the second record differs:\n\t%s\n\t%s", list(all[0]), list(e))
			}
		}
		if o.ReplaceAttr == nil && o.MaxBytes == 0 && list(all[0]) == "" {
			t.Error("no attributes")
		}
	})
}
