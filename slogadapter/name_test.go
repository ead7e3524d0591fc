package slogadapter_test

import (
	"log/slog"
	"testing"

	"github.com/entrace-go/entrace/internal/core/mapping"
)

func TestNames(t *testing.T) {
	for _, test := range []struct {
		name string
		log  func(*slog.Logger)
		want string
	}{
		{
			"groups", func(l *slog.Logger) {
				l.Info("", slog.Group("g", "a", 1, slog.Group("h", "b", 2), slog.Group("", "c", 3)))
			}, "g.a=1 g.h.b=2 g.c=3",
		},
		{
			"groups of With", func(l *slog.Logger) {
				l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").WithGroup("i").Info("", "c", 3)
			}, "a=1 g.b=2 g.h.i.c=3",
		},
		{"group of With without attributes", func(l *slog.Logger) { l.With("a", 1).WithGroup("g").Info("") }, "a=1"},
		{"no group", func(l *slog.Logger) { l.WithGroup("").Info("", "a", 1) }, "a=1"},
		{
			"empty groups", func(l *slog.Logger) {
				l.Info("", slog.Group("e"), slog.Group("f", slog.Group("g", slog.Group("h"))), slog.Int("a", 1))
			}, "a=1",
		},
		{
			"group of only empty attributes", func(l *slog.Logger) {
				l.Info("", slog.Group("e", slog.Attr{}, slog.Attr{}), slog.Attr{})
			}, "",
		},
		{
			"group that is empty when resolved", func(l *slog.Logger) {
				empty := valuer(func() slog.Value { return slog.GroupValue() })
				l.With("e", empty).Info("", slog.Group("f", "g", empty), slog.Any("", valuer(func() slog.Value { return slog.Value{} })))
			}, "",
		},
		{"empty key", func(l *slog.Logger) { l.Info("", "", "v") }, "=v"},
		{"empty key in a group", func(l *slog.Logger) { l.WithGroup("g").Info("", "", "v") }, "g.=v"},
		{"no key", func(l *slog.Logger) { l.Info("", []any{1}...) }, "!BADKEY=1"},
		{
			"LogValuer of a group", func(l *slog.Logger) {
				user := valuer(func() slog.Value { return slog.GroupValue(slog.String("id", "u"), slog.Any("", user{})) })
				l.With("w", user).Info("", "user", user)
			}, "w.id=u w.name=Ren user.id=u user.name=Ren",
		},

		{"duplicate", func(l *slog.Logger) { l.Info("", "a", 1, "a", 2, "a", 3) }, "a=1 a#2=2 a#3=3"},
		{"duplicate of With", func(l *slog.Logger) { l.With("a", 1).With("a", 2).Info("", "a", 3) }, "a=1 a#2=2 a#3=3"},
		{"duplicate within With", func(l *slog.Logger) { l.With("a", 1, "a", 2).Info("", "a", 3) }, "a=1 a#2=2 a#3=3"},
		{"duplicate and its name", func(l *slog.Logger) { l.Info("", "a#2", 1, "a", 2, "a", 3) }, "a#2=1 a=2 a#3=3"},
		{"name of a duplicate", func(l *slog.Logger) { l.Info("", "a", 1, "a", 2, "a#2", 3) }, "a=1 a#2=2 a#2#2=3"},
		{"name of a duplicate of With", func(l *slog.Logger) { l.With("a#2", 1, "a", 2).Info("", "a", 3) }, "a#2=1 a=2 a#3=3"},
		{"duplicate through groups", func(l *slog.Logger) { l.Info("", "g.a", 1, slog.Group("g", "a", 2)) }, "g.a=1 g.a#2=2"},
		{"duplicate in other groups", func(l *slog.Logger) { l.With("a", 1).WithGroup("g").Info("", "a", 2) }, "a=1 g.a=2"},
		{"duplicate when valid", func(l *slog.Logger) { l.Info("", "a\xff", 1, "a\xfe", 2) }, "a\ufffd=1 a\ufffd#2=2"},
		{"duplicate when valid of With", func(l *slog.Logger) { l.With("a\xff", 1).Info("", "a\ufffd", 2) }, "a\ufffd=1 a\ufffd#2=2"},

		{"key not UTF-8", func(l *slog.Logger) { l.Info("", "a\xff\xfe\xe4", 1) }, "a\ufffd\ufffd\ufffd=1"},
		{"group not UTF-8", func(l *slog.Logger) { l.WithGroup("\xe2\x80").Info("", "a", 1) }, "\ufffd\ufffd.a=1"},

		{
			"reserved", func(l *slog.Logger) {
				l.Info("", "trace_id", 1, "span_id", 2, "time_unix_nano", 3, "log.level", 4, "!TRUNCATED", 5)
			}, "otel.attr.trace_id=1 otel.attr.span_id=2 otel.attr.time_unix_nano=3 otel.attr.log.level=4 otel.attr.!TRUNCATED=5",
		},
		{
			"reserved beginnings", func(l *slog.Logger) { l.Info("", "otel.x", 1, "entrace.x", 2, "otel", 3, "otelx", 4) },
			"otel.attr.otel.x=1 otel.attr.entrace.x=2 otel=3 otelx=4",
		},
		{
			"reserved through groups", func(l *slog.Logger) {
				l.WithGroup("otel").With("x", 1).Info("", "y", 2)
			}, "otel.attr.otel.x=1 otel.attr.otel.y=2",
		},
		{"reserved no more in a group", func(l *slog.Logger) { l.WithGroup("g").Info("", "trace_id", 1) }, "g.trace_id=1"},
		{"reserved twice", func(l *slog.Logger) { l.Info("", "otel.x", 1, "otel.x", 2) }, "otel.attr.otel.x=1 otel.attr.otel.x#2=2"},
		{
			"escaped already", func(l *slog.Logger) { l.Info("", "trace_id", 1, "otel.attr.trace_id", 2) },
			"otel.attr.trace_id=1 otel.attr.otel.attr.trace_id=2",
		},
	} {
		t.Run(test.name, func(t *testing.T) { checkList(t, record(t, nil, test.log)[0], test.want) })
	}
}

// A user is a LogValuer that returns a group.
type user struct{}

func (user) LogValue() slog.Value { return slog.GroupValue(slog.String("name", "Ren")) }

// TestUserNames checks that a reader finds the names that the user gave.
func TestUserNames(t *testing.T) {
	e := recordOne(t, nil, slog.Int("trace_id", 1), slog.Int("entrace.x", 2), slog.Int("plain", 3))
	want := map[string]string{"trace_id": "1", "entrace.x": "2", "plain": "3"}
	for _, a := range e.Attributes {
		if name, ok := mapping.UserName(a.Name); ok && plain(a.Value) != want[name] {
			t.Errorf("%q is %s, want %q", name, plain(a.Value), want[name])
		} else if ok {
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
}
