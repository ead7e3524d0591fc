package query_test

import (
	"testing"

	"github.com/entrace-go/entrace/query"
)

// oddNames are names of attributes that a parser could mistake for something else.
var oddNames = []string{
	"", "2xx", "1st", "7", "123", "3d", "5s", "1e5", "0x1f", "4xx.count", "10.0.0.1", "a?b", "a;b", "x:", "a:b", "a\\b", "price€", "№", "a→b", "emoji😀",
	"स्थिति", "สถานะ", "e\u0301tat", "no\u00a0break", "a b", "a\"b", "a\"", "`", "a'b", "nil", "true", "and", "parent", "parent.name", "span.x", ".", "..", "a.", ".a",
	"a..b", "/", "//", "/*", "*/", "a//b", "{}", "-", "-a", "a-b", "a-", "1-2", "x.1", "x.1.y", "\n", "\r", "\t", "\x00", "\x1b", "\u202e", "name", "duration", "by", "|", "#", "$a", "@b", "_",
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
