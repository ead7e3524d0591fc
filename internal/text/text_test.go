package text_test

import (
	"strings"
	"testing"

	"github.com/entrace-go/entrace/internal/testkit/expect"
	"github.com/entrace-go/entrace/internal/text"
)

func TestCutKeepsCharactersWhole(t *testing.T) {
	for _, x := range []struct {
		s         string
		n         int
		head, cut string
	}{
		{"abc", 3, "abc", "abc"},
		{"abcdef", 5, "abcde", "ab…"},
		{"aéé", 4, "aé", "a…"},
		{"éééé", 6, "ééé", "é…"},
		{"abcdef", 3, "abc", "…"},
		{"abcdef", 2, "ab", ""},
		{"é", 1, "", ""},
		{"abc", 0, "", ""},
		{"no 👩\u200d🚀!", 12, "no ", "no …"}, // a woman, a joiner and a rocket are one character
		{"no 👩\u200d🚀!", 14, "no 👩\u200d🚀", "no …"},
		{"a👍🏽b", 8, "a", "a…"},    // a hand and its color
		{"🇩🇪🇫🇷", 12, "🇩🇪", "🇩🇪…"}, // two flags of two halves
		{"cafe\u0301s", 5, "caf", "ca…"},
		{"e" + strings.Repeat("\u0301", 99), 100, "e" + strings.Repeat("\u0301", 49), "e" + strings.Repeat("\u0301", 48) + "…"},
	} {
		expect.Equal(t, text.Head(x.s, x.n), x.head, "Head(%q, %d)", x.s, x.n)
		expect.Equal(t, text.Cut(x.s, x.n), x.cut, "Cut(%q, %d)", x.s, x.n)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"duration", "name", "status"}
	for word, want := range map[string]string{"duratoin": "duration", "nam": "name", "sttaus": "status", "kind": "", "": ""} {
		expect.Equal(t, text.Nearest(word, names, 2), want, "nearest to %q", word)
	}
}
