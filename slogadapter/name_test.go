package slogadapter_test

import (
	"log/slog"
	"testing"

	"github.com/entrace-go/entrace/internal/core/mapping"
)

func TestNames(t *testing.T) {
	logged(t, "names", nil, func(l *slog.Logger) {
		l.Info("groups", slog.Group("g", "a", 1, slog.Group("h", "b", 2), slog.Group("", "c", 3)))
		l.With("a", 1).WithGroup("g").With("b", 2).WithGroup("h").WithGroup("i").Info("groups of With", "c", 3)
		l.With("a", 1).WithGroup("g").Info("group of With without attributes")
		l.WithGroup("").Info("no group", "a", 1)
		l.Info("empty groups", slog.Group("e"), slog.Group("f", slog.Group("g", slog.Group("h"))), slog.Int("a", 1))
		l.Info("group of only empty attributes", slog.Group("e", slog.Attr{}, slog.Attr{}), slog.Attr{})
		empty := valuer(func() slog.Value { return slog.GroupValue() })
		l.With("e", empty).Info("group that is empty when resolved", slog.Group("f", "g", empty), slog.Any("", valuer(func() slog.Value { return slog.Value{} })))
		l.Info("empty key", "", "v")
		l.WithGroup("g").Info("empty key in a group", "", "v")
		l.Info("no key", []any{1}...)
		user := valuer(func() slog.Value { return slog.GroupValue(slog.String("id", "u"), slog.Any("", user{})) })
		l.With("w", user).Info("LogValuer of a group", "user", user)
		l.Info("duplicate", "a", 1, "a", 2, "a", 3)
		l.With("a", 1).With("a", 2).Info("duplicate of With", "a", 3)
		l.With("a", 1, "a", 2).Info("duplicate within With", "a", 3)
		l.Info("duplicate and its name", "a#2", 1, "a", 2, "a", 3)
		l.Info("name of a duplicate", "a", 1, "a", 2, "a#2", 3)
		l.With("a#2", 1, "a", 2).Info("name of a duplicate of With", "a", 3)
		l.Info("duplicate through groups", "g.a", 1, slog.Group("g", "a", 2))
		l.With("a", 1).WithGroup("g").Info("duplicate in other groups", "a", 2)
		l.Info("duplicate when valid", "a\xff", 1, "a\xfe", 2)
		l.With("a\xff", 1).Info("duplicate when valid of With", "a\ufffd", 2)
		l.Info("key not UTF-8", "a\xff\xfe\xe4", 1)
		l.WithGroup("\xe2\x80").Info("group not UTF-8", "a", 1)
		l.Info("reserved", "trace_id", 1, "span_id", 2, "time_unix_nano", 3, "log.level", 4, "!TRUNCATED", 5)
		l.Info("reserved beginnings", "otel.x", 1, "entrace.x", 2, "otel", 3, "otelx", 4)
		l.WithGroup("otel").With("x", 1).Info("reserved through groups", "y", 2)
		l.WithGroup("g").Info("reserved no more in a group", "trace_id", 1)
		l.Info("reserved twice", "otel.x", 1, "otel.x", 2)
		l.Info("escaped already", "trace_id", 1, "otel.attr.trace_id", 2)
	})
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
