package slogadapter_test

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/slogadapter"
)

const mib = 1 << 20

// truncated reports whether e has the attribute !TRUNCATED.
func truncated(e *format.TraceEntry) bool {
	v, ok := e.Attribute(mapping.AttrTruncated)
	return ok && v.Bool()
}

// userAttributes counts the attributes of the user.
func userAttributes(e *format.TraceEntry) (n int) {
	for _, a := range e.Attributes {
		if _, ok := mapping.UserName(a.Name); ok {
			n++
		}
	}
	return n
}

func many(n int) []slog.Attr {
	attrs := make([]slog.Attr, n)
	for i := range attrs {
		attrs[i] = slog.Int("k"+string(rune('A'+i%50))+string(rune('A'+i/50%50)), i)
	}
	return attrs
}

func TestMaxAttrs(t *testing.T) {
	for _, test := range []struct {
		name         string
		o            *slogadapter.Options
		with, record int
		want         int
		truncated    bool
	}{
		{"as many as allowed", nil, 0, 1000, 1000, false},
		{"one more", nil, 0, 1001, 1000, true},
		{"a million", nil, 0, 1_000_000, 1000, true},
		{"a million of With", nil, 1_000_000, 1, 1000, true},
		{"together as many as allowed", nil, 600, 400, 1000, false},
		{"together one more", nil, 600, 401, 1000, true},
		{"With alone", nil, 1001, 0, 1000, true},
		{"option", &slogadapter.Options{MaxAttrs: 3}, 1, 2, 3, false},
		{"option, the largest", &slogadapter.Options{MaxAttrs: math.MaxInt}, 1, 2, 3, false},
		{"option, one more", &slogadapter.Options{MaxAttrs: 3}, 2, 2, 3, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, group := range []bool{false, true} {
				e := record(t, test.o, func(l *slog.Logger) {
					l = slog.New(l.Handler().WithAttrs(many(test.with)))
					attrs := many(test.record)
					if group {
						attrs = []slog.Attr{{Key: "g", Value: slog.GroupValue(attrs...)}}
					}
					start := time.Now()
					l.LogAttrs(context.Background(), slog.LevelInfo+1, "m", attrs...)
					if took := time.Since(start); took > 5*time.Second {
						t.Errorf("it took %v", took)
					}
				})[0]
				expect.Equal(t, userAttributes(e), test.want, "in a group %t: attributes", group)
				expect.Equal(t, truncated(e), test.truncated, "in a group %t: marked", group)
				if _, ok := e.Attribute(mapping.AttrLogLevel); !ok {
					t.Errorf("in a group %t: log.level is missing", group)
				}
			}
		})
	}
}

// TestNothingResolvedBeyondLimit checks that attributes beyond the limit are not
// resolved.
func TestNothingResolvedBeyondLimit(t *testing.T) {
	resolved := 0
	v := valuer(func() slog.Value { resolved++; return slog.IntValue(1) })
	attrs := make([]slog.Attr, 1000)
	for i := range attrs {
		attrs[i] = slog.Any("k", v)
	}
	e := recordOne(t, &slogadapter.Options{MaxAttrs: 10}, attrs...)
	if got := userAttributes(e); got != 10 || resolved > 11 {
		t.Errorf("%d attributes, %d resolved, want 10 and one more", got, resolved)
	}
}

// TestMaxBytes logs texts of twice the maximum size. Their runes have two bytes, so that a cut
// could split a rune.
func TestMaxBytes(t *testing.T) {
	long := strings.Repeat("é", mib) + "!"
	for _, test := range []struct {
		name string
		log  func(*slog.Logger)
		text func(*format.TraceEntry) string
	}{
		{"message", func(l *slog.Logger) { l.Info(long) }, func(e *format.TraceEntry) string { return e.Message.Value }},
		{"value", func(l *slog.Logger) { l.Info("m", "k", long) }, value("k")},
		{"value of With", func(l *slog.Logger) { l.With("k", long).Info("m") }, value("k")},
		{"value in a group", func(l *slog.Logger) { l.WithGroup("g").Info("m", "k", long) }, value("g.k")},
		{"second value", func(l *slog.Logger) { l.Info("m", "j", long[:mib/2], "k", long[:mib]) }, func(e *format.TraceEntry) string {
			return value("j")(e) + value("k")(e)
		}},
		{"error", func(l *slog.Logger) { l.Info("m", "k", textError(long)) }, value("k")},
		{"JSON", func(l *slog.Logger) { l.Info("m", "k", []string{long}) }, value("k")},
		{"named string", func(l *slog.Logger) { l.Info("m", "k", namedString(long)) }, value("k")},
		{"key", func(l *slog.Logger) { l.Info("m", long, 1) }, func(e *format.TraceEntry) string { return e.Attributes[1].Name }},
		{"group", func(l *slog.Logger) { l.WithGroup(long).Info("m", "k", 1) }, func(e *format.TraceEntry) string { return e.Attributes[1].Name }},
		{"group of a value", func(l *slog.Logger) { l.Info("m", slog.Group(long, "k", 1)) }, func(e *format.TraceEntry) string { return e.Attributes[1].Name }},
		{"not UTF-8 key", func(l *slog.Logger) { l.Info("m", strings.Repeat("\xff", mib), 1) }, func(e *format.TraceEntry) string { return e.Attributes[1].Name }},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := record(t, nil, test.log)[0]
			got := test.text(e)
			if len(got) > mib || len(got) < mib-16 {
				t.Errorf("%d bytes are kept, want at most and about %d", len(got), mib)
			}
			if !strings.Contains(got[max(0, len(got)-8):], "…") || !utf8.ValidString(got) {
				t.Errorf("it ends in %q, want whole runes and …", got[max(0, len(got)-8):])
			}
			if !truncated(e) {
				t.Error("it is not marked")
			}
			if names, ok := e.Attribute(mapping.AttrJSON); ok {
				t.Errorf("otel.json is %q, want none of what is cut", names.Text())
			}
		})
	}
}

type textError string

func (e textError) Error() string { return string(e) }

func value(name string) func(*format.TraceEntry) string {
	return func(e *format.TraceEntry) string {
		v, _ := e.Attribute(name)
		return v.Text()
	}
}

// TestNoRoomLeft logs texts that just reach or exceed the limit, and attributes after them.
func TestNoRoomLeft(t *testing.T) {
	logged(t, "room", &slogadapter.Options{MaxBytes: 12}, func(l *slog.Logger) {
		l.Info("m", "k", "0123456789")                                 // exactly
		l.Info("m", "k", "01234567890")                                // one byte too much
		l.Info("m", "k", "éééééé")                                     // rune boundary
		l.Info("m", "k", "éééééé", "a", 1, "bb", 2)                    // more behind it
		l.With("k", "éééééé").Info("m", "a", 1)                        // more behind With
		l.Info("m", "k", []byte("01234567890"), "a", 1)                // more behind bytes
		l.Info("m", "01234567890", "abcd")                             // no room for a value
		l.Info("0123456789012", "a", 1)                                // no room for attributes
		l.Info("012345678901", "a", 1)                                 // no room for attributes, exactly
		l.Log(context.Background(), slog.LevelInfo+2, "0123456789012") // level stays
	})
}

// nest returns a value in depth groups called g.
func nest(depth int) slog.Attr {
	a := slog.Int("leaf", 1)
	for range depth {
		a = slog.Attr{Key: "g", Value: slog.GroupValue(a)}
	}
	return a
}

func TestDepth(t *testing.T) {
	logged(t, "depth", nil, func(l *slog.Logger) {
		l.Info("as deep as allowed", nest(32), "after", 2)
		l.Info("deeper", nest(33), "after", 2)
		l.With(nest(33)).Info("deeper in With", "after", 2)
	})
}

// TestEndlessLogValuer logs values that contain themselves.
func TestEndlessLogValuer(t *testing.T) {
	var once, twice, empty, chain, wide valuer
	once = func() slog.Value { return slog.GroupValue(slog.Int("a", 1), slog.Any("self", once)) }
	twice = func() slog.Value {
		return slog.GroupValue(slog.Any("self", twice), slog.Int("a", 1), slog.Any("self", twice))
	}
	empty = func() slog.Value { return slog.GroupValue(slog.Any("self", empty), slog.Any("self", empty)) }
	chain = func() slog.Value { return slog.AnyValue(chain) }
	wide = func() slog.Value {
		attrs := make([]slog.Attr, 1000)
		for i := range attrs {
			attrs[i] = slog.Any("", wide)
		}
		return slog.GroupValue(attrs...)
	}
	for _, test := range []struct {
		name      string
		v         valuer
		least     int // minimum number of attributes
		most      int
		truncated bool
	}{
		{"once a level", once, 32, 32, true},
		{"twice a level", twice, 500, 1000, true},
		{"nothing but itself", empty, 0, 0, true},
		{"1000 times a level", wide, 0, 0, true},
		{"without a group", chain, 1, 1, false}, // slog itself stops resolving
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, o := range []*slogadapter.Options{nil, {ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return a }}} {
				for _, with := range []bool{false, true} {
					start := time.Now()
					e := record(t, o, func(l *slog.Logger) {
						if with {
							l.With("v", test.v).Info("m")
							return
						}
						l.Info("m", "v", test.v)
					})[0]
					if took := time.Since(start); took > 5*time.Second {
						t.Errorf("it took %v", took)
					}
					if got := userAttributes(e); got < test.least || got > test.most {
						t.Errorf("%d attributes, want %d to %d", got, test.least, test.most)
					}
					expect.Equal(t, truncated(e), test.truncated, "marked")
				}
			}
		})
	}
}

// TestLongRecordsLeaveNothing checks that a long record does not affect the next record, which
// reuses its memory.
func TestLongRecordsLeaveNothing(t *testing.T) {
	rec, h := newHandler(t, nil)
	l := slog.New(h)
	for range 10 {
		l.Info("long", "k", strings.Repeat("x", 2*mib))
		l.LogAttrs(context.Background(), slog.LevelInfo, "wide", many(2000)...)
		l.LogAttrs(context.Background(), slog.LevelInfo, "deep", nest(40))
		l.Info("twice", "a", nil, "a", nil)
		l.Info("plain", "a", 1)
	}
	for _, e := range entries(t, rec) {
		if e.Message.Value == "plain" {
			checkList(t, e, "a=1")
		}
	}
}
