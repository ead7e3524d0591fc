package query_test

import (
	"testing"
	"unicode/utf8"

	"github.com/entrace-go/entrace/format"
	"github.com/entrace-go/entrace/internal/core/mapping"
	"github.com/entrace-go/entrace/internal/read/show"
	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/testkit/tracetest"
	"github.com/entrace-go/entrace/query"
)

// oddNames are names of attributes that a parser could mistake for something else.
var oddNames = []string{
	"", "2xx", "1st", "7", "123", "3d", "5s", "1e5", "0x1f", "4xx.count", "10.0.0.1", "a?b", "a;b", "x:", "a:b", "a\\b", "price€", "№", "a→b", "emoji😀",
	"स्थिति", "สถานะ", "e\u0301tat", "no\u00a0break", "a b", "a\"b", "a\"", "`", "a'b", "nil", "true", "and", "parent", "parent.name", "span.x", ".", "..", "a.", ".a",
	"a..b", "/", "//", "/*", "*/", "a//b", "{}", "-", "-a", "a-b", "a-", "1-2", "x.1", "x.1.y", "\n", "\r", "\t", "\x00", "\x1b", "\u202e", "name", "duration", "by", "|", "#", "$a", "@b", "_", "\xff", "a\xc3b", `\xff`, `\u202e`,
}

func FuzzAttributeName(f *testing.F) {
	for _, name := range oddNames {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if len(name) > 1000 {
			return // queries have a maximum length
		}
		written := query.AttributeName(name)
		for _, context := range [][2]string{{"{ .", " = 1 }"}, {"{.", "=1}"}, {".", " = 1"}, {"log.", " = 1"}, {"{ resource.", " != nil }"}, {"{ event.", " = 1 }"}} {
			q := context[0] + written + context[1]
			if got, err := query.NameIn(q); err != nil || got != name {
				t.Errorf("%q is %q, %v; want %q", q, got, err, name)
			}
		}
	})
}

// TestFieldNameOnTheRightIsText: a word on the right side of a comparison with an attribute is a text, also if it is
// the name of a field. With a scope, and in arithmetic, it is the field.
func TestFieldNameOnTheRightIsText(t *testing.T) {
	entries := []*format.TraceEntry{format.Root()}
	for _, name := range query.BareNames {
		entries = append(entries, tracetest.Entry(name, format.AttrSpanID, "000000000000000a", format.AttrTime, uint64(100), format.AttrDuration, uint64(50), "step", name, "n", 80))
	}
	v := viewOf(t, entries)
	every := len(query.BareNames)
	for _, name := range query.BareNames {
		for text, want := range map[string]int{
			".step = " + name: 1, "step=" + name: 1, "{ .step = " + name + " }": 1, "name = " + name: 1, ".step in (x, " + name + ")": 1,
			"{ .step not in (" + name + ") }": every - 1, ".step != " + name: every - 1, ".step contains " + name: 1, ".step =~ " + name: 1,
		} {
			expect.Equal(t, resultOf(t, v, text).Rows.Len(), want, "rows that %s selects", text)
		}
	}
	for text, want := range map[string]int{
		".n > span:duration": every, ".n > duration * 1": every, ".n < duration + 20ns": 0, "duration = self": every, "duration < .n": every,
		`{ "depths" < name }`: every - 1, ".step = span:name": every,
	} {
		expect.Equal(t, resultOf(t, v, text).Rows.Len(), want, "rows that %s selects", text)
	}
}

// TestShortIDsOfLinks: the id in a link is compared as a number, on either side of the operator.
func TestShortIDsOfLinks(t *testing.T) {
	link := tracetest.Entry(mapping.NameLink, mapping.AttrLinkTraceID, "4bf92f3577b34da6a3ce929d0e0e4736", mapping.AttrLinkSpanID, "00000000000000f7")
	link.Parent = 1
	v := viewOf(t, []*format.TraceEntry{format.Root(), tracetest.Entry("s", format.AttrSpanID, "000000000000000a", format.AttrTime, uint64(100)), link})
	for text, want := range map[string]int{
		`{ link:traceID > "f0" }`: 1, `{ "F0" >= link:traceID }`: 0, `{ link:traceID < "4BF92F3577B34DA6A3CE929D0E0E4737" }`: 1, `{ link:spanID = "f7" && "9" < link:spanID }`: 1,
	} {
		expect.Equal(t, resultOf(t, v, text).Rows.Len(), want, "rows that %s selects", text)
	}
}

// TestCopiedValuesAreFound: a value finds its row when it is copied from the output of a command into a query, and with
// the filter that a table or a facet has for it.
func TestCopiedValuesAreFound(t *testing.T) {
	for _, x := range []any{
		"a 👩\u200d🚀", "tab\tand\nline", "red \x1b[31mtext\x1b[0m", "escape \x1b and \x00 \x7f \u0085", "right \u202e left", `a "quoted" \ word`, `no \xff \u202e escape`, "blank \u00a0",
		[]byte{0, 0xff, 0xfe, 'a'},
		[]byte("text\xc3"), []byte("text"), 1e-7, 1.5e300, uint64(1 << 63),
	} {
		v := viewOf(t, []*format.TraceEntry{format.Root(), tracetest.Entry("a", "v", x), tracetest.Entry("b", "v", "other")})
		e, err := v.Entry(1)
		must(t, err)
		table := resultOf(t, v, "{ name = a } | count() by(.v)").Table
		filters := []string{table.Where(table.Lines[0])}
		if value := e.Attributes[0].Value; value.Kind() == format.KindString {
			filters = append(filters, ".v = "+string(show.AppendValue(nil, value)))
		}
		for _, filter := range filters {
			if got := resultOf(t, v, filter).Rows.Len(); got != 1 || !utf8.ValidString(filter) {
				t.Errorf("%q is found by %q %d times", x, filter, got)
			}
		}
	}
}
