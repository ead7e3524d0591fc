package query_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/entrace-go/entrace/query"
)

// TestPatternOfLines: a pattern is that of the first line, and short.
func TestPatternOfLines(t *testing.T) {
	if got := query.Pattern("first line 1\nsecond 2"); got != "first line <number>" {
		t.Errorf("got %q", got)
	}
	long := query.Pattern(strings.Repeat("é", 1000))
	if len(long) > 310 || !utf8.ValidString(long) {
		t.Errorf("of a long text it has %d bytes", len(long))
	}
}
