package slogadapter_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	var said strings.Builder
	attrs := []any{"a", 1, slog.Group("g", "b", 2, slog.Group("h", "c", 3)), "hidden", "s"}
	for _, test := range []struct {
		name    string
		replace replace
		log     func(*slog.Logger)
	}{
		{"nothing", all(), func(l *slog.Logger) { l.Info("m", attrs...) }},
		{"keys", upper, func(l *slog.Logger) { l.Info("m", attrs...) }},
		{"keys of With", upper, func(l *slog.Logger) { l.With(attrs...).Info("m") }},
		{"remove all", removeAll, func(l *slog.Logger) { l.With(attrs...).WithGroup("x").Info("m", attrs...) }},
		{"remove one", only("hidden", remove), func(l *slog.Logger) { l.Info("m", attrs...) }},
		{"change", only("hidden", to("***")), func(l *slog.Logger) { l.With(attrs...).Info("m") }},
		{
			"to a group", only("a", to(slog.GroupValue(slog.Int("x", 1), slog.Int("y", 2)))),
			func(l *slog.Logger) { l.WithGroup("").Info("m", "a", 1) },
		},
		{"to an empty group", only("a", to(slog.GroupValue())), func(l *slog.Logger) { l.Info("m", "a", 1, "b", 2) }},
		{
			"to a LogValuer", only("a", to(valuer(func() slog.Value { return slog.StringValue("resolved") }))),
			func(l *slog.Logger) { l.Info("m", "a", 1) },
		},
		{
			"resolved before", only("a", func(a slog.Attr) slog.Attr { return slog.String("kind", a.Value.Kind().String()) }),
			func(l *slog.Logger) { l.Info("m", "a", valuer(func() slog.Value { return slog.BoolValue(true) })) },
		},
		{"to the same key", only("a", func(a slog.Attr) slog.Attr { a.Key = "b"; return a }), func(l *slog.Logger) { l.Info("m", "b", 1, "a", 2) }},
		{"to a reserved key", only("a", func(a slog.Attr) slog.Attr { a.Key = "span_id"; return a }), func(l *slog.Logger) { l.Info("m", "a", 2) }},
		{
			"panic", only("a", func(slog.Attr) slog.Attr { panic("replace") }),
			func(l *slog.Logger) { l.With("a", 1).Info("m", "b", 1, "a", "hidden") },
		},
	} {
		said.WriteString(test.name + ": " + lines(record(t, &slogadapter.Options{ReplaceAttr: test.replace}, test.log)))
	}
	golden(t, "replace", said.String())
}

func TestReplaceBuiltins(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	later := at.Add(time.Nanosecond)
	cycle := map[string]any{}
	cycle["cycle"] = cycle
	group := slog.GroupValue(slog.Int("x", 1), slog.Any("y", cycle))
	var said strings.Builder
	for _, test := range []struct {
		name    string
		replace replace
	}{
		{"nothing", all()},
		{"remove time", only("time", remove)},
		{"remove level", only("level", remove)},
		{"remove message", only("msg", remove)},
		{"remove source", only("source", remove)},
		{"rename", all(
			only("time", func(a slog.Attr) slog.Attr { a.Key = "t"; return a }),
			only("level", func(a slog.Attr) slog.Attr { a.Key = "l"; return a }),
			only("msg", func(a slog.Attr) slog.Attr { a.Key = "m"; return a }),
			only("source", func(a slog.Attr) slog.Attr { a.Key = "s"; return a }),
		)},

		{"another time", only("time", to(later))},
		{"time as text", only("time", to("noon"))},
		{"time as a group", only("time", to(group))},
		{"time as a LogValuer", only("time", to(valuer(func() slog.Value { return slog.TimeValue(later) })))},
		{"another level", only("level", to(slog.LevelError))},
		{"a level between", only("level", to(slog.LevelInfo+1))},
		{"level as text", only("level", to("NOTICE"))},
		{"level as a number", only("level", to(13))},
		{"level as a group", only("level", to(group))},
		{"another message", only("msg", to("n"))},
		{"message as a number", only("msg", to(1.5))},
		{"message as JSON", only("msg", to([]int{1}))},
		{"message as a group", only("msg", to(group))},
		{"another source", only("source", to(&slog.Source{Function: "a/b.c", File: "/x/y.go", Line: 7}))},
		{"empty source", only("source", to(&slog.Source{}))},
		{"nil source", only("source", to((*slog.Source)(nil)))},
		{"source as text", only("source", to("y.go:7"))},
		{"source as a group", only("source", to(group))},

		{"panic at the time", only("time", func(slog.Attr) slog.Attr { panic("p") })},
		{"panic at the level", only("level", func(slog.Attr) slog.Attr { panic("p") })},
		{"panic at the message", only("msg", func(slog.Attr) slog.Attr { panic("p") })},
	} {
		rec, h := newHandler(t, &slogadapter.Options{ReplaceAttr: test.replace})
		handle(t, h, slog.NewRecord(at, slog.LevelWarn, "m", pc()))
		said.WriteString(test.name + ": " + lines(entries(t, rec)))
	}
	golden(t, "builtins", said.String())
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
	golden(t, "grouped", lines(entries(t, rec))) // ReplaceAttr cannot distinguish an attribute called time from the time
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
	var said strings.Builder
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
		fmt.Fprintf(&said, "%v %s=%s\n", groups, a.Key, text)
		return a
	}}
	rec, h := newHandler(t, o)
	l := slog.New(h).With("a", 1).WithGroup("g1").With("b", 2).WithGroup("g2").
		With("c", 3, slog.Group("g3", "d", 4), slog.Group("", "inline", 0), "e", 5, slog.Group("none"))
	v := valuer(func() slog.Value { return slog.GroupValue(slog.Int("h", 7)) })
	for range 2 {
		l.Info("m", "f", 6, "g4", v, slog.Group("g5", slog.Group("g6", "i", 8)), "j", 9)
	}
	golden(t, "calls", said.String()+lines(entries(t, rec)))
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
