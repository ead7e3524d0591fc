package slogadapter_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/recorder"
	"github.com/entrace-go/entrace/slogadapter"
)

var update = flag.Bool("update", false, "write the expected texts in testdata again")

// TestCases runs the cases in testdata. The head of names.txt explains their words.
func TestCases(t *testing.T) {
	for _, subject := range []string{"names", "records", "limits", "replace"} {
		tracetest.Golden(t, "testdata/"+subject+".txt", *update, func(lines string) (said string) {
			t.Run(lines, func(t *testing.T) { said = runCase(t, strings.Split(lines, "\n")) })
			return said
		})
	}
}

// long has more bytes than a record may have, and its runes have two bytes, so that a cut could split a rune.
var long = strings.Repeat("é", 1<<20) + "!"

// caseValues are the values that cases have by their names.
var caseValues = func() map[string]any {
	cycle := map[string]any{}
	cycle["cycle"] = cycle
	group := func(attrs ...slog.Attr) valuer { return func() slog.Value { return slog.GroupValue(attrs...) } }
	var once, twice, empty, chain, wide valuer
	once = func() slog.Value { return group(slog.Int("a", 1), slog.Any("self", once))() }
	twice = func() slog.Value { return group(slog.Any("self", twice), slog.Int("a", 1), slog.Any("self", twice))() }
	empty = func() slog.Value { return group(slog.Any("self", empty), slog.Any("self", empty))() }
	chain = func() slog.Value { return slog.AnyValue(chain) }
	wide = func() slog.Value {
		attrs := make([]slog.Attr, 1000)
		for i := range attrs {
			attrs[i] = slog.Any("", wide)
		}
		return slog.GroupValue(attrs...)
	}
	deep := slog.Any("leaf", 1)
	for range 31 {
		deep = slog.Attr{Key: "g", Value: slog.GroupValue(deep)}
	}
	return map[string]any{
		"nil": nil, "bytes": []byte("01234567890"), "point": point{}, "list": []int{1}, "cycle": cycle,
		"badGroup": slog.GroupValue(slog.Int("x", 1), slog.Any("y", cycle)),
		"noGroup":  group(), "user": group(slog.String("id", "u"), slog.Any("", group(slog.String("name", "Ren")))), "deep": slog.GroupValue(deep),
		"late": valuer(func() slog.Value { return slog.StringValue("resolved") }), "noValue": valuer(func() slog.Value { return slog.Value{} }),
		"once": once, "twice": twice, "empty": empty, "chain": chain, "wide": wide,
		"not": "a\xff", "not2": "a\xfe", "notGroup": "\xe2\x80", "notLong": strings.Repeat("\xff", 1<<20), "control": "\x00\n",
		"long": long, "half": long[:1<<19], "most": long[:1<<20], "error": textError(long), "named": namedString(long),
		"at": at, "later": at.Add(1), "lateTime": valuer(func() slog.Value { return slog.TimeValue(at) }),
		"levelERROR": slog.LevelError, "level1": slog.LevelInfo + 1,
		"source": &slog.Source{Function: "a/b.c", File: "/x/y.go", Line: 7}, "noSource": &slog.Source{}, "nilSource": (*slog.Source)(nil),
		"sourceBelow0": &slog.Source{Function: "p.f", File: "C:/a/b.go", Line: -1},
	}
}()

type textError string

func (e textError) Error() string { return string(e) }

var at = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// runCase runs the lines of a case, and returns the tree of the file.
func runCase(t *testing.T, lines []string) string {
	ro, o := *inOrder, &slogadapter.Options{}
	var said strings.Builder
	var rec *recorder.Recorder
	var handlers map[string]slog.Handler
	contexts := map[string]context.Context{
		"unknown":   inSpan(trace.SpanContextConfig{TraceID: trace.TraceID{1, 15: 0xff}, SpanID: trace.SpanID{3, 7: 0xfe}, TraceFlags: trace.FlagsSampled}),
		"unsampled": inSpan(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{3}}),
		"half":      inSpan(trace.SpanContextConfig{TraceID: trace.TraceID{1}}),
	}
	spans := byte(0)
	for _, line := range lines {
		commands := tracetest.Commands(line, caseValues)
		if commands[0].Words[0] == "options" {
			setOptions(o, &ro, commands[0].Attributes, &said)
			continue
		}
		if rec == nil {
			rec = newRecorder(t, &ro)
			handlers = map[string]slog.Handler{"": slogadapter.New(rec, o)}
		}
		h, ctx, r := handlers[""], t.Context(), slog.NewRecord(time.Now(), slog.LevelInfo, "", pc())
		for i := range commands {
			c := &commands[i]
			name := c.Word(1)
			switch c.Word(0) {
			case "with":
				h = h.WithAttrs(slogAttrs(c.Attributes))
			case "group":
				h = h.WithGroup(name)
			case "as":
				handlers[name] = h
			case "from":
				h = handlers[name]
			case "in":
				ctx = contexts[name]
			case "at":
				var err error
				r = slog.NewRecord(time.Time{}, slog.LevelInfo, "", 0)
				if name != "" {
					r.Time, err = time.Parse(time.RFC3339Nano, name)
					must(t, err)
				}
			case "info", "log":
				if c.Word(0) == "log" {
					level, err := strconv.Atoi(name)
					must(t, err)
					r.Level, name = slog.Level(level), c.Word(2)
				}
				r.Message = name
				r.AddAttrs(slogAttrs(c.Attributes)...)
				if h.Enabled(ctx, r.Level) {
					must(t, h.Handle(ctx, r))
				}
			case "span":
				spans++
				s := &tracetest.Span{Span: recorder.Span{Open: true, Ref: format.SpanRef{TraceID: [16]byte{1}, SpanID: [8]byte{spans}}}}
				s.Entry = *tracetest.Entry(name, format.AttrSpanID, fmt.Sprintf("%02x00000000000000", spans), format.AttrTime, time.Now())
				s.Parent.SpanID = trace.SpanContextFromContext(ctx).SpanID()
				s.Parent.TraceID = trace.SpanContextFromContext(ctx).TraceID()
				must(t, tracetest.WriteSpan(rec, s))
				contexts[name] = inSpan(trace.SpanContextConfig{TraceID: s.Ref.TraceID, SpanID: s.Ref.SpanID, TraceFlags: trace.FlagsSampled})
			case "resource":
				_, err := rec.Resource(tracetest.Resource("shop"))
				must(t, err)
			default:
				t.Fatalf("unknown command %s", c.Words)
			}
		}
	}
	return said.String() + written(t, rec)
}

func inSpan(c trace.SpanContextConfig) context.Context {
	return trace.ContextWithSpanContext(context.Background(), trace.NewSpanContext(c))
}

func slogAttrs(pairs []tracetest.Pair) []slog.Attr {
	var attrs []slog.Attr
	for _, p := range pairs {
		value := p.Value
		if group, is := value.([]tracetest.Pair); is {
			value = slog.GroupValue(slogAttrs(group)...)
		}
		attrs = append(attrs, slog.Any(p.Key, value))
	}
	return attrs
}

// setOptions sets the options of a case. With the option spy, ReplaceAttr writes its calls to said.
func setOptions(o *slogadapter.Options, ro *recorder.Options, pairs []tracetest.Pair, said *strings.Builder) {
	values, names, spy := map[string]any{}, map[string]any{}, false
	fill := func(table map[string]any, list any) {
		for _, p := range list.([]tracetest.Pair) { //nolint:forcetypeassert // a case with another value panics
			table[p.Key] = p.Value
		}
	}
	replace := func(groups []string, a slog.Attr) slog.Attr {
		if spy {
			text := a.Value.Kind().String()
			if a.Value.Kind() == slog.KindInt64 || a.Key == slog.MessageKey {
				text = a.Value.String()
			}
			fmt.Fprintf(said, "%v %s=%s\n", groups, a.Key, text)
		}
		if names["all"] == "upper" {
			a.Key = strings.ToUpper(a.Key)
		}
		v, is := values["all"]
		if _, one := values[a.Key]; one && len(groups) == 0 {
			v, is = values[a.Key], true
		}
		if name := names[a.Key]; name != nil && len(groups) == 0 {
			a.Key = name.(string) //nolint:forcetypeassert // a case with another value panics
		}
		switch {
		case !is:
			return a
		case v == "remove":
			return slog.Attr{}
		case v == "panic":
			panic("p")
		case v == "kind":
			v = a.Value.Kind().String()
		}
		return slog.Any(a.Key, v)
	}
	for _, p := range pairs {
		n, _ := p.Value.(int64)
		switch p.Key {
		case "version":
			ro.Version = format.Version(n)
		case "level":
			o.Level = slog.Level(n)
		case "attrs":
			o.MaxAttrs = int(n)
		case "bytes":
			o.MaxBytes = int(n)
		case "replace":
			fill(values, p.Value)
			o.ReplaceAttr = replace
		case "rename":
			fill(names, p.Value)
			o.ReplaceAttr = replace
		case "spy":
			o.ReplaceAttr, spy = replace, true
		}
	}
}
