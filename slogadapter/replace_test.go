package slogadapter_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

type replace = func(groups []string, a slog.Attr) slog.Attr

// only returns a ReplaceAttr function that calls fn for the attribute called key outside of groups.
func only(key string, fn func(slog.Attr) slog.Attr) replace {
	return func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == key && len(groups) == 0 {
			return fn(a)
		}
		return a
	}
}

func remove(slog.Attr) slog.Attr { return slog.Attr{} }

// to returns a function that replaces the value of an attribute by v.
func to(v any) func(slog.Attr) slog.Attr {
	return func(a slog.Attr) slog.Attr { return slog.Any(a.Key, v) }
}

// all returns a ReplaceAttr function that applies all fns in order.
func all(fns ...replace) replace {
	return func(groups []string, a slog.Attr) slog.Attr {
		for _, fn := range fns {
			a = fn(groups, a)
		}
		return a
	}
}

func TestReplaceAttr(t *testing.T) {
	upper := func(_ []string, a slog.Attr) slog.Attr {
		a.Key = strings.ToUpper(a.Key)
		return a
	}
	removeAll := func([]string, slog.Attr) slog.Attr { return slog.Attr{} }
	attrs := []any{"a", 1, slog.Group("g", "b", 2, slog.Group("h", "c", 3)), "hidden", "s"}
	for _, test := range []struct {
		name    string
		replace replace
		log     func(*slog.Logger)
		want    string
	}{
		{"nothing", all(), func(l *slog.Logger) { l.Info("m", attrs...) }, "a=1 g.b=2 g.h.c=3 hidden=s"},
		{"keys", upper, func(l *slog.Logger) { l.Info("m", attrs...) }, "A=1 g.B=2 g.h.C=3 HIDDEN=s"},
		{"keys of With", upper, func(l *slog.Logger) { l.With(attrs...).Info("m") }, "A=1 g.B=2 g.h.C=3 HIDDEN=s"},
		{"remove all", removeAll, func(l *slog.Logger) { l.With(attrs...).WithGroup("x").Info("m", attrs...) }, ""},
		{"remove one", only("hidden", remove), func(l *slog.Logger) { l.Info("m", attrs...) }, "a=1 g.b=2 g.h.c=3"},
		{"change", only("hidden", to("***")), func(l *slog.Logger) { l.With(attrs...).Info("m") }, "a=1 g.b=2 g.h.c=3 hidden=***"},
		{
			"to a group", only("a", to(slog.GroupValue(slog.Int("x", 1), slog.Int("y", 2)))),
			func(l *slog.Logger) { l.WithGroup("").Info("m", "a", 1) }, "a.x=1 a.y=2",
		},
		{"to an empty group", only("a", to(slog.GroupValue())), func(l *slog.Logger) { l.Info("m", "a", 1, "b", 2) }, "b=2"},
		{
			"to a LogValuer", only("a", to(valuer(func() slog.Value { return slog.StringValue("resolved") }))),
			func(l *slog.Logger) { l.Info("m", "a", 1) }, "a=resolved",
		},
		{
			"resolved before", only("a", func(a slog.Attr) slog.Attr { return slog.String("kind", a.Value.Kind().String()) }),
			func(l *slog.Logger) { l.Info("m", "a", valuer(func() slog.Value { return slog.BoolValue(true) })) }, "kind=Bool",
		},
		{"to the same key", only("a", func(a slog.Attr) slog.Attr { a.Key = "b"; return a }), func(l *slog.Logger) { l.Info("m", "b", 1, "a", 2) }, "b=1 b#2=2"},
		{"to a reserved key", only("a", func(a slog.Attr) slog.Attr { a.Key = "span_id"; return a }), func(l *slog.Logger) { l.Info("m", "a", 2) }, "otel.attr.span_id=2"},
		{
			"panic", only("a", func(slog.Attr) slog.Attr { panic("replace") }),
			func(l *slog.Logger) { l.With("a", 1).Info("m", "b", 1, "a", "hidden") }, "a=!PANIC: replace b=1 a#2=!PANIC: replace",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			checkList(t, record(t, &slogadapter.Options{ReplaceAttr: test.replace}, test.log)[0], test.want)
		})
	}
}

func TestReplaceBuiltins(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	later := at.Add(time.Nanosecond)
	cycle := map[string]any{}
	cycle["cycle"] = cycle
	group := slog.GroupValue(slog.Int("x", 1), slog.Any("y", cycle))
	const (
		nano      = "time_unix_nano=1767323045000000006"
		noCycle   = "json: unsupported value: encountered a cycle via map[string]interface {}"
		thisPlace = "event replace_test.go"
	)
	for _, test := range []struct {
		name    string
		replace replace
		message string
		level   format.Level
		place   string // Metadata.Name up to the colon
		want    string // the attributes, including the time
	}{
		{"nothing", all(), "m", format.LevelWarn, thisPlace, nano},
		{"remove time", only("time", remove), "m", format.LevelWarn, thisPlace, ""},
		{"remove level", only("level", remove), "m", format.LevelWarn, thisPlace, nano},
		{"remove message", only("msg", remove), "", format.LevelWarn, thisPlace, nano},
		{"remove source", only("source", remove), "m", format.LevelWarn, "event", nano},
		{"rename", all(
			only("time", func(a slog.Attr) slog.Attr { a.Key = "t"; return a }),
			only("level", func(a slog.Attr) slog.Attr { a.Key = "l"; return a }),
			only("msg", func(a slog.Attr) slog.Attr { a.Key = "m"; return a }),
			only("source", func(a slog.Attr) slog.Attr { a.Key = "s"; return a }),
		), "m", format.LevelWarn, thisPlace, nano},

		{"another time", only("time", to(later)), "m", format.LevelWarn, thisPlace, "time_unix_nano=1767323045000000007"},
		{"time as text", only("time", to("noon")), "m", format.LevelWarn, thisPlace, "time=noon"},
		{"time as a group", only("time", to(group)), "m", format.LevelWarn, thisPlace, "time.x=1 time.y=" + noCycle},
		{"time as a LogValuer", only("time", to(valuer(func() slog.Value { return slog.TimeValue(later) }))), "m", format.LevelWarn, thisPlace, "time_unix_nano=1767323045000000007"},
		{"another level", only("level", to(slog.LevelError)), "m", format.LevelError, thisPlace, nano},
		{"a level between", only("level", to(slog.LevelInfo+1)), "m", format.LevelInfo, thisPlace, nano + " log.level=INFO+1"},
		{"level as text", only("level", to("NOTICE")), "m", format.LevelWarn, thisPlace, nano + " log.level=NOTICE"},
		{"level as a number", only("level", to(13)), "m", format.LevelWarn, thisPlace, nano + " log.level=13"},
		{"level as a group", only("level", to(group)), "m", format.LevelWarn, thisPlace, nano + " level.x=1 level.y=" + noCycle},
		{"another message", only("msg", to("n")), "n", format.LevelWarn, thisPlace, nano},
		{"message as a number", only("msg", to(1.5)), "1.5", format.LevelWarn, thisPlace, nano},
		{"message as JSON", only("msg", to([]int{1})), "[1]", format.LevelWarn, thisPlace, nano},
		{"message as a group", only("msg", to(group)), "", format.LevelWarn, thisPlace, nano + " msg.x=1 msg.y=" + noCycle},
		{"another source", only("source", to(&slog.Source{Function: "a/b.c", File: "/x/y.go", Line: 7})), "m", format.LevelWarn, "event y.go", nano},
		{"empty source", only("source", to(&slog.Source{})), "m", format.LevelWarn, "event", nano},
		{"nil source", only("source", to((*slog.Source)(nil))), "m", format.LevelWarn, "event", nano + ` source=null otel.json=["source"]`},
		{"source as text", only("source", to("y.go:7")), "m", format.LevelWarn, "event", nano + " source=y.go:7"},
		{"source as a group", only("source", to(group)), "m", format.LevelWarn, "event", nano + " source.x=1 source.y=" + noCycle},

		{"panic at the time", only("time", func(slog.Attr) slog.Attr { panic("p") }), "m", format.LevelWarn, thisPlace, "time=!PANIC: p"},
		{"panic at the level", only("level", func(slog.Attr) slog.Attr { panic("p") }), "m", format.LevelWarn, thisPlace, nano + " log.level=!PANIC: p"},
		{"panic at the message", only("msg", func(slog.Attr) slog.Attr { panic("p") }), "!PANIC: p", format.LevelWarn, thisPlace, nano},
	} {
		t.Run(test.name, func(t *testing.T) {
			rec, h := newHandler(t, &slogadapter.Options{ReplaceAttr: test.replace})
			r := slog.NewRecord(at, slog.LevelWarn, "m", pc())
			handle(t, h, r)
			e := entries(t, rec)[0]
			expect.Equal(t, e.Message.Value, test.message, "message")
			expect.Equal(t, e.Metadata.Level, test.level, "level")
			if got, _, _ := strings.Cut(e.Metadata.Name, ":"); got != test.place || e.Metadata.File.Valid != (test.place != "event") {
				t.Errorf("name is %q, file %v, want %q", e.Metadata.Name, e.Metadata.File, test.place)
			}
			var got []string
			for _, a := range e.Attributes {
				got = append(got, a.Name+"="+plain(a.Value))
			}
			expect.Equal(t, strings.Join(got, " "), test.want, "attributes")
		})
	}
}

// TestReplacedBuiltinsAndGroups: if ReplaceAttr changes the type of the time or the source, the
// result becomes an attribute outside of all groups. If its name occurs twice, the second one gets
// a number.
func TestReplacedBuiltinsAndGroups(t *testing.T) {
	o := &slogadapter.Options{ReplaceAttr: all(only("time", to("noon")), only("source", to("here")))}
	rec, h := newHandler(t, o)
	l := slog.New(h)
	grouped := l.With("time", 1).WithGroup("g").With("time", 2)
	for range 2 {
		grouped.Info("grouped", "time", 3)
		l.Info("plain", "source", 4)
	}
	for _, e := range entries(t, rec) {
		var got []string
		for _, a := range e.Attributes {
			got = append(got, a.Name+"="+plain(a.Value))
		}
		slices.Sort(got)
		// ReplaceAttr cannot distinguish an attribute called time from the time.
		want := []string{"source#2=here", "source=here", "time=noon"}
		if e.Message.Value == "grouped" {
			want = []string{"g.time#2=3", "g.time=2", "source=here", "time#2=noon", "time=noon"}
		}
		expect.Slice(t, got, want, "%s: attributes", e.Message.Value)
	}
}

// TestReplacedTextsCountOnce checks that a message of more than half the limit is not cut, because
// it counts only once although ReplaceAttr returns it.
func TestReplacedTextsCountOnce(t *testing.T) {
	message := strings.Repeat("m", 600<<10)
	e := record(t, &slogadapter.Options{ReplaceAttr: all()}, func(l *slog.Logger) { l.Info(message, "a", 1) })[0]
	if e.Message.Value != message {
		t.Errorf("%d bytes of the message are kept, want %d", len(e.Message.Value), len(message))
	}
	checkList(t, e, "a=1")
}

// TestReplacedTextsAreInNoFile searches for texts that ReplaceAttr hides, in all bytes that a recorder writes while
// the program runs and until its end. A kill leaves the files as they are.
func TestReplacedTextsAreInNoFile(t *testing.T) {
	dir, buffer := t.TempDir(), t.TempDir()
	rec := tracetest.CreateAt(t, filepath.Join(dir, "log.iet"), &recorder.Options{BufferDir: buffer})
	hide := all(
		only("msg", func(a slog.Attr) slog.Attr { return slog.String(a.Key, "shown "+a.Value.String()[:1]) }),
		only("source", func(a slog.Attr) slog.Attr {
			a.Value.Any().(*slog.Source).File = "shown.go"
			return a
		}),
		only("name", to("shown")),
	)
	h := slogadapter.New(rec, &slogadapter.Options{ReplaceAttr: hide})
	keep := slogadapter.New(rec, &slogadapter.Options{ReplaceAttr: only("msg", to("kept"))})
	search := func(when string) {
		var all []byte
		for _, dir := range []string{dir, buffer} {
			names, err := filepath.Glob(filepath.Join(dir, "*"))
			must(t, err)
			for _, name := range names {
				all = append(all, tracetest.ReadFile(t, name)...)
			}
		}
		for text, want := range map[string]bool{"hidden": false, "replace_test.go": false, "shown.go": true, "shown 1": true, "kept": true} {
			if strings.Contains(string(all), text) != want {
				t.Errorf("%s: %q is in the files: %v, want %v", when, text, !want, want)
			}
		}
	}
	for i := range 3 {
		for _, pc := range []uintptr{pc(), 0} {
			handle(t, h.WithAttrs([]slog.Attr{slog.String("name", "hidden")}), slog.NewRecord(time.Now(), slog.LevelInfo, fmt.Sprint(i, " hidden"), pc))
		}
		handle(t, keep, slog.NewRecord(time.Now(), slog.LevelInfo, "hidden", 0))
	}
	search("running")
	must(t, rec.Flush(t.Context()))
	search("flushed")
	must(t, rec.Close(t.Context()))
	search("closed")
}

// TestReplaceAttrGroups checks the arguments of ReplaceAttr, and that it is called
// once for each attribute of With.
func TestReplaceAttrGroups(t *testing.T) {
	type call struct{ groups, attr string }
	var got []call
	o := &slogadapter.Options{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		text := a.Value.String()
		switch a.Key {
		case slog.TimeKey:
			text = a.Value.Kind().String()
		case slog.SourceKey:
			text = fmt.Sprintf("%T", a.Value.Any())
		}
		if a.Value.Kind() == slog.KindGroup || a.Value.Kind() == slog.KindLogValuer {
			t.Errorf("called for %v", a)
		}
		got = append(got, call{strings.Join(groups, ","), a.Key + "=" + text})
		return a
	}}
	rec, h := newHandler(t, o)
	l := slog.New(h).With("a", 1).WithGroup("g1").With("b", 2).WithGroup("g2").
		With("c", 3, slog.Group("g3", "d", 4), slog.Group("", "inline", 0), "e", 5, slog.Group("none"))
	v := valuer(func() slog.Value { return slog.GroupValue(slog.Int("h", 7)) })
	record := []call{
		{"", "time=Time"},
		{"", "level=INFO"},
		{"", "source=*slog.Source"},
		{"", "msg=m"},
		{"g1,g2", "f=6"},
		{"g1,g2,g4", "h=7"},
		{"g1,g2,g5,g6", "i=8"},
		{"g1,g2", "j=9"},
	}
	for range 2 {
		l.Info("m", "f", 6, "g4", v, slog.Group("g5", slog.Group("g6", "i", 8)), "j", 9)
	}
	want := slices.Concat([]call{
		{"", "a=1"},
		{"g1", "b=2"},
		{"g1,g2", "c=3"},
		{"g1,g2,g3", "d=4"},
		{"g1,g2", "inline=0"},
		{"g1,g2", "e=5"},
	}, record, record)
	expect.Slice(t, got, want, "calls")
	const attrs = "a=1 g1.b=2 g1.g2.c=3 g1.g2.g3.d=4 g1.g2.inline=0 g1.g2.e=5 g1.g2.f=6 g1.g2.g4.h=7 g1.g2.g5.g6.i=8 g1.g2.j=9"
	for _, e := range entries(t, rec) {
		checkList(t, e, attrs)
	}
}

// TestReplaceAttrSiblingGroups derives handlers with different groups from one handler. They must
// not overwrite each other's lists of groups.
func TestReplaceAttrSiblingGroups(t *testing.T) {
	var got []string
	_, h := newHandler(t, &slogadapter.Options{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if a.Key == "a" {
			got = append(got, strings.Join(groups, "."))
		}
		return a
	}})
	// Derive from handlers with different numbers of groups, so that some slices have spare
	// capacity.
	base := slog.New(h)
	var want []string
	for i := range 6 {
		x, y := base.WithGroup("x"), base.WithGroup("y")
		x.Info("m", "a", i)
		y.Info("m", "a", i)
		begin := strings.Repeat("g.", i)
		want = append(want, begin+"x", begin+"y")
		base = base.WithGroup("g")
	}
	expect.Slice(t, got, want, "groups")
}

// TestReplaceAttrBuiltinCalls checks that ReplaceAttr is called for built-ins
// without groups, and not at all for a missing time or source.
func TestReplaceAttrBuiltinCalls(t *testing.T) {
	var keys []string
	_, h := newHandler(t, &slogadapter.Options{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		keys = append(keys, a.Key)
		if groups != nil {
			t.Errorf("%s is in groups %q, want nil", a.Key, groups)
		}
		return a
	}})
	grouped := h.WithGroup("g")
	for _, test := range []struct {
		r    slog.Record
		want []string
	}{
		{slog.NewRecord(time.Time{}, slog.LevelInfo, "m", 0), []string{"level", "msg"}},
		{slog.NewRecord(time.Now(), slog.LevelInfo, "m", pc()), []string{"time", "level", "source", "msg"}},
	} {
		keys = nil
		handle(t, grouped, test.r)
		expect.Slice(t, keys, test.want, "called for")
	}
}
