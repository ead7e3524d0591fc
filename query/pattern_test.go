package query_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/entrace-go/entrace/query"
)

// TestPattern checks that patternOf replaces the parts that differ in similar texts, and nothing
// else.
func TestPattern(t *testing.T) {
	for text, want := range map[string]string{
		"payment failed":                                "payment failed",
		"user 17 failed after 1.5s":                     "user <number> failed after <number>s",
		"user-1110 n=2":                                 "user-<number> n=<number>",
		"dial tcp 10.0.0.7:5432: timeout":               "dial tcp <number>: timeout",
		"at 12:30:01,5 v1.2.3":                          "at <number> v<number>",
		"commit 4f3a9c2 is bad":                         "commit <hex> is bad",
		"0xc000012345 and 0x1":                          "<hex> and <hex>",
		"decade faced added beef":                       "decade faced added beef",
		"id 123456":                                     "id <number>",
		"8d3f2a10-77aa-4b1e-9c55-001122334455 is gone":  "<uuid> is gone",
		"8d3f2a10-77aa-4b1e-9c55-0011223344556 is gone": "<hex>-<number>aa-<number>b<number>e-<number>c<number>-<number> is gone",
		`no such key "a\"b" here`:                       `no such key "<text>" here`,
		"key 'x' can't be, isn't":                       "key '<text>' can't be, isn't",
		"the dog's and the cat's":                       "the dog's and the cat's",
		"`raw\\` text":                                  "`<text>` text",
		`an open " quote`:                               `an open " quote`,
		"first line 1\nsecond 2":                        "first line <number>",
		"":                                              "",
		"é12 ü":                                         "é<number> ü",
	} {
		if got := query.Pattern(text); got != want {
			t.Errorf("of %q it is %q, want %q", text, got, want)
		}
		if again := query.Pattern(want); again != want && !strings.Contains(want, "'") {
			t.Errorf("the pattern of %q is %q", want, again)
		}
	}
	long := query.Pattern(strings.Repeat("é", 1000))
	if len(long) > 310 || !utf8.ValidString(long) {
		t.Errorf("of a long text it has %d bytes", len(long))
	}
}
